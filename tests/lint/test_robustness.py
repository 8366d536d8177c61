"""No text, no byte, no file system accident makes the lint raise anything but its own error."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lint.trees import ENGINE_ARGUMENTS, Tree, checkpoint, lint_tree, vllm_model
from tools.lint.config_file import parse_config
from tools.lint.findings import LintReport
from tools.lint.json_document import parse_json
from tools.lint.linter import lint_repositories
from tools.lint.manifests import parse_manifest

REPOSITORY = Path(__file__).parents[2]
CONFIGS = [
    path.read_text(encoding="utf-8")
    for folder in ("model_repository", "ensembles", "tests/fixtures/seeds")
    for path in sorted((REPOSITORY / folder).rglob("config.pbtxt"))
]
_WORDS = "true ${x} {{x}} KIND_GPU kind_gpu name input dims step value string_value 0 99999999999999999999"
FRAGMENTS = st.sampled_from([*"{}[],:\"'#-\\/<>é\n", "//", "dynamic batching", *_WORDS.split()])
UNHURRIED = settings(suppress_health_check=[HealthCheck.too_slow])
FEW = settings(UNHURRIED, max_examples=20)


def lint_once(tree: Tree) -> LintReport:
    """Lints in a folder that is gone afterwards: hypothesis runs a test's body many times."""
    root = Path(tempfile.mkdtemp(prefix="lint-"))
    try:
        return lint_tree(root, tree, engine_arguments=ENGINE_ARGUMENTS)
    finally:
        shutil.rmtree(root)


def test_there_are_configs_to_mutate() -> None:
    assert len(CONFIGS) >= 5


@UNHURRIED
@given(st.text())
def test_any_text_as_config(text: str) -> None:
    file = parse_config(Path("config.pbtxt"), text)
    assert file.config is not None or file.problems


@UNHURRIED
@given(st.lists(FRAGMENTS, max_size=40))
def test_any_sequence_of_tokens_as_config(fragments: list[str]) -> None:
    file = parse_config(Path("config.pbtxt"), " ".join(fragments))
    assert file.config is not None or file.problems


@UNHURRIED
@given(st.data())
def test_mutations_of_real_configs(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(CONFIGS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + data.draw(FRAGMENTS | st.just("")) + text[end:]
    file = parse_config(Path("config.pbtxt"), text)
    assert file.config is not None or file.problems
    lines = text.count("\n") + 1
    assert all(1 <= problem.line <= lines and problem.column >= 1 for problem in file.problems)


@FEW
@given(st.binary() | st.text().map(str.encode), st.binary() | st.text().map(str.encode))
def test_any_bytes_as_files(config: bytes, arguments: bytes) -> None:
    report = lint_once(
        {"repo/m/config.pbtxt": config, "repo/m/1/model.json": arguments, "repo/m/1/multi_lora.json": arguments}
    )
    assert report.models == 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ARGUMENT_NAMES = st.sampled_from([*ENGINE_ARGUMENTS.engine, "speculative_model", "num_speculative_tokens", "--model"])


@FEW
@given(st.dictionaries(ARGUMENT_NAMES, JSON_VALUES | st.just("models/a"), max_size=6))
def test_any_values_as_engine_arguments(arguments: dict[str, object]) -> None:
    lint_once({**vllm_model(json.dumps(arguments)), **checkpoint("models/a")})


@FEW
@given(JSON_VALUES)
def test_any_values_in_speculative_config(value: object) -> None:
    settings_ = (
        value if isinstance(value, dict) else {"method": value, "model": "models/a", "num_speculative_tokens": value}
    )
    lint_once({**vllm_model({"model": "models/a", "speculative_config": settings_}), **checkpoint("models/a")})


@pytest.mark.slow
@FEW
@given(
    st.dictionaries(
        st.sampled_from([*json.loads(checkpoint("a")["a/config.json"] or "{}"), "quantization_config"]), JSON_VALUES
    )
)
def test_any_values_in_a_checkpoints_config(config: dict[str, object]) -> None:
    tokenizer = {"bos_token": config.get("hidden_size"), "chat_template": config.get("vocab_size")}
    lint_once(
        {
            **vllm_model(
                {"model": "models/a", "tensor_parallel_size": 2, "quantization": "awq", "max_model_len": 10**9}
            ),
            **checkpoint("models/a", tokenizer=tokenizer, **config),
        }
    )


@UNHURRIED
@given(st.text())
def test_any_text_as_json(text: str) -> None:
    document = parse_json(Path("model.json"), text)
    assert document.problem is not None or list(document.strings()) is not None


@UNHURRIED
@given(JSON_VALUES, st.integers(0, 4))
def test_positions_do_not_depend_on_layout(value: object, indent: int) -> None:
    text = json.dumps({"outer": value}, indent=indent or None)
    document = parse_json(Path("model.json"), text)
    assert document.positions[("outer",)] == ((2, indent + 1) if indent else (1, 2))


@UNHURRIED
@given(st.text())
def test_any_text_as_manifest(text: str) -> None:
    parse_manifest(Path("hpa.yaml"), "kind: HorizontalPodAutoscaler\n" + text)


def test_a_pipe_in_a_files_place_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("m/config.pbtxt", "m/1/model.json", "n/1/model.json", "scaler.yaml", "weights/tokenizer_config.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(tmp_path / name)
    tree = {"n/config.pbtxt": 'backend: "vllm"\n', "weights/config.json": "{}"}
    for name, text in tree.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "o" / "1").mkdir(parents=True)
    (tmp_path / "o" / "1" / "model.json").write_text(json.dumps({"model": str(tmp_path / "weights")}), encoding="utf-8")
    report = lint_repositories([tmp_path])
    named = {finding.message for finding in report.findings if finding.rule_id == "TL106"}
    assert any("'config.pbtxt' cannot be read: it is a pipe or a device" in text for text in named)
