"""Examples for the rules on the release router."""

from __future__ import annotations

from tests.lint.rules.example import Example
from tests.lint.trees import Tree, ensemble, python_model, step

RELEASE = """\
routes:
- name: default
  targets:
  - {model: m, version: 1, weight: 100}
"""


def router(
    release: str | None = RELEASE,
    *,
    named: str = "release.yaml",
    policy: str = "model_transaction_policy { decoupled: true }",
    batch: int = 0,
) -> Tree:
    config = f"""\
name: "chat"
backend: "python"
max_batch_size: {batch}
{policy}
parameters {{ key: "RELEASE_FILE" value {{ string_value: "{named}" }} }}
input [ {{ name: "messages" data_type: TYPE_STRING dims: [ 1 ] }} ]
output [ {{ name: "text_output" data_type: TYPE_STRING dims: [ -1 ] }} ]
"""
    tree = {**python_model(), "repo/chat/config.pbtxt": config, "repo/chat/1/model.py": ""}
    return tree if release is None else {**tree, "repo/chat/release.yaml": release}


STEP = ensemble(step("m", {"text": "text"}, {"answer": "answer"}))

EXAMPLES = (
    Example("TL930", says="router 'chat' is not decoupled", fails=router(policy=""), passes=router()),
    Example("TL930", says="router 'chat' has max_batch_size 8", fails=router(batch=8), passes=router(), line=3),
    Example(
        "TL931",
        says="router 'chat' names the release file 'other.yaml', which cannot be read",
        fails=router(named="other.yaml"),
        passes=router(),
        line=5,
        beside=frozenset({"TL106"}),
    ),
    Example(
        "TL931",
        says="release file 'release.yaml' of 'chat': routes.0: the weights of route \"default\" add up to 90 %",
        fails=router(RELEASE.replace("100", "90")),
        passes=router(RELEASE.replace("100", "100.0")),
        line=2,
    ),
    Example(
        "TL931",
        says="release file 'release.yaml' of 'chat': a release file is a mapping",
        fails=router("- a\n"),
        passes=router(),
    ),
    Example(
        "TL932",
        says="the release of 'chat' names 'gone:1': no repository holds 'gone'",
        fails=router(RELEASE + "  fallback: [{model: gone, version: 1}]\n"),
        passes=router(RELEASE + "  fallback: [{model: m, version: 1}]\n"),
        line=5,
    ),
    Example(
        "TL932",
        says="the release of 'chat' names 'm:7': of 'm' the server loads 1",
        fails=router(RELEASE.replace("version: 1", "version: 7")),
        passes=router(),
        line=4,
    ),
    Example(
        "TL932",
        says="the release of 'chat' names 'e:1': 'e' has no engine of its own",
        fails={**router(RELEASE.replace("model: m", "model: e")), **STEP},
        passes={**router(), **STEP},
        line=4,
    ),
    Example(
        "TL932",
        says="the release of 'chat' names 'chat:1': 'chat' has no engine of its own",
        fails=router(RELEASE.replace("model: m", "model: chat")),
        passes=router(),
    ),
)
