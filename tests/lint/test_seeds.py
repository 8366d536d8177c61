"""The configurations that this project started from give exactly the findings they deserve."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.trees import ENGINE_ARGUMENTS
from tools.lint.findings import LintReport
from tools.lint.linter import lint_workspace
from tools.lint.registry import all_rules
from tools.lint.repository import Workspace, read_repositories

SEEDS = Path(__file__).parents[1] / "fixtures" / "seeds"


def lint_seed(name: str) -> LintReport:
    repositories, manifests = read_repositories([SEEDS / name], [SEEDS])
    return lint_workspace(Workspace(repositories, manifests, ENGINE_ARGUMENTS), all_rules())


@pytest.mark.parametrize(
    ("seed", "deserved"),
    [
        ("three_steps", {("TL201", 10)}),
        (
            "six_steps",
            {
                ("TL301", None),  # no version folder, so no model.json either
                ("TL501", 3),  # max_batch_size 16
                ("TL502", 4),  # dynamic_batching
                ("TL505", 9),  # KIND_AUTO
                ("TL508", 11),  # parameter 'model'
                ("TL508", 15),  # parameter 'quantization'
                ("TL510", None),
                ("TL806", 23),  # p99 as an average
            },
        ),
        (
            "speculative_flags",
            {
                ("TL510", None),
                ("TL605", 4),  # speculative-model
                ("TL615", 7),  # max-model-len
                ("TL615", 8),  # max-num-seqs
                ("TL702", 3),  # quantization awq
                ("TL713", 4),  # a Falcon head for Llama
            },
        ),
        ("six_steps/hpa.yaml", {("TL806", 23)}),
    ],
)
def test_seed_gives_what_it_deserves(seed: str, deserved: set[tuple[str, int | None]]) -> None:
    findings = lint_seed(seed).findings
    assert {(finding.rule_id, finding.line) for finding in findings} == deserved


def test_the_flags_are_shown_in_their_present_form() -> None:
    finding = next(finding for finding in lint_seed("speculative_flags").findings if finding.rule_id == "TL605")
    assert finding.fix == (
        'Write "speculative_config": {"method": "eagle3", "model": "lmsys/Falcon-EAGLE-3-7B", '
        '"num_speculative_tokens": 5, "draft_tensor_parallel_size": 1}.'
    )


@pytest.mark.parametrize("seed", ["three_steps", "six_steps", "speculative_flags"])
def test_seeds_fail(seed: str) -> None:
    assert lint_seed(seed).exit_code == 1
