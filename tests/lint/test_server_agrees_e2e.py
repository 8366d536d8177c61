"""What the lint calls an error, the real tritonserver refuses; what it merely warns of, the server loads."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from tests.lint.rules.test_rules import EXAMPLES
from tests.lint.trees import Content, Tree, config_only, lint_tree, write_tree
from tools.bootstrap.layout import Layout
from tools.lint.findings import Severity
from tools.serving.server import Server, ServerPlan

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(600)]

BASE = 18790
MODEL = """
class TritonPythonModel:
    def execute(self, requests):
        raise NotImplementedError
"""
BEYOND_THIS_SERVER = ("model_metrics", "max_inflight_requests", "KIND_GPU", 'backend: "vllm"', "onnx", "tensorrt")
"""Fields newer than tritonserver 2.51, and what needs a GPU or another backend."""
NOT_A_REFUSAL = {"TL305"}
"""The server only logs a version that the policy names and that is missing; the lint is stricter on purpose."""
WAITS_FOR_EVER = {"TL304", "TL307"}
"""Without its file a Python model keeps this server waiting, so these two cannot be tried."""

OF_THIS_PROJECT = {"TL930", "TL931", "TL932"}
"""The release router is a Python model like any other to the server, and its release file nothing at all."""


def suits_the_server(tree: Tree) -> bool:
    texts = [content for content in tree.values() if isinstance(content, str)]
    in_one_repository = all(name.startswith("repo/") and "/configs/" not in name for name in tree)
    return in_one_repository and not any(mark in text for text in texts for mark in BEYOND_THIS_SERVER)


ODD_BUT_VALID = """
# a comment with "quotes" and { braces
name: 'm'
backend: "pyt" "hon"
max_batch_size: 0x10;
input [ { name: "a", data_type: TYPE_FP32 dims: [ -1, 2 ] }, < name: "b" data_type: 13 dims: 1 > ]
parameters: { key: "k", value: { string_value: "a\\"b\\n\\x41\\101" } }
model_transaction_policy { decoupled: True }
"""


def collect() -> Iterator[tuple[str, Tree]]:
    """Every tree of the examples that this server can judge, once."""
    seen: list[Tree] = []
    for example in EXAMPLES:
        if example.rule in WAITS_FOR_EVER | OF_THIS_PROJECT:
            continue
        if not example.rule.startswith(("TL101", "TL2", "TL3", "TL4", "TL9")):
            continue
        # Right text is right to any parser, and a model that loads takes a second: one odd file stands for the rest.
        passes = () if example.rule.startswith("TL2") else (("passes", example.passes),)
        for word, tree in (("fails", example.fails), *passes):
            if tree not in seen and suits_the_server(tree):
                seen.append(tree)
                yield f"{example.rule}-{word}-{example.says[:40]}", tree


TREES = {"odd-but-valid": config_only(ODD_BUT_VALID), **dict(collect())}


class Judge:
    """A server with one repository, whose content changes from tree to tree."""

    def __init__(self, client: InferenceServerClient, root: Path) -> None:
        self.client = client
        self.root = root

    def refusals(self, tree: Tree) -> dict[str, str]:
        """Model -> what the server says against it. Nothing is loaded afterwards."""
        shutil.rmtree(self.root / "repo")
        write_tree(self.root, {name: self._with_code(name, content) for name, content in tree.items()})
        folders = [path for path in sorted((self.root / "repo").iterdir()) if path.is_dir()]
        models = [folder.name for folder in folders]
        ensembles = [name for name in models if "ensemble_scheduling" in str(tree.get(f"repo/{name}/config.pbtxt"))]
        refused: dict[str, str] = {}
        for model in ensembles or models:  # an ensemble brings the models of its steps
            try:
                self.client.load_model(model)
            except InferenceServerException as error:
                refused[model] = str(error.message())
        for model in models:
            self.client.unload_model(model, unload_dependents=True)
        self._wait_until_empty()
        return refused

    @staticmethod
    def _with_code(name: str, content: Content) -> Content:
        return MODEL if name.endswith(".py") else content

    def _wait_until_empty(self) -> None:
        deadline = time.monotonic() + 30
        busy = {"READY", "UNLOADING", "LOADING"}
        while any(model.state in busy for model in self.client.get_model_repository_index().models):
            assert time.monotonic() < deadline, "models are still there 30 s after they were unloaded"
            time.sleep(0.02)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    root = tmp_path_factory.mktemp("judge")
    (root / "repo").mkdir()
    with Server.start(ServerPlan(BASE, "", (root / "repo",)), Layout.of_this_checkout()) as server:
        server.wait_until_live()
        with InferenceServerClient(f"127.0.0.1:{BASE + 1}") as client:
            yield Judge(client, root)


def test_there_is_something_to_judge() -> None:
    assert len(TREES) > 60


@pytest.mark.parametrize("name", TREES)
def test_the_server_agrees(judge: Judge, name: str, tmp_path: Path) -> None:
    errors = {
        finding.rule_id: finding.message
        for finding in lint_tree(tmp_path, TREES[name]).findings
        if finding.severity is Severity.ERROR and finding.rule_id not in NOT_A_REFUSAL
    }
    refused = judge.refusals(TREES[name])
    assert bool(errors) == bool(refused), f"lint: {errors or 'no error'}\nserver: {refused or 'loads it'}"
