"""Examples for the rules on version folders."""

from __future__ import annotations

from tests.lint.rules.example import Example
from tests.lint.trees import config_only, ensemble, python_model, step

GOOD = python_model()
ALL = "version_policy { all { } }\n"
TWO = {"repo/m/2/model.py": ""}

EXAMPLES = (
    Example(
        "TL301",
        says="model 'e' has no version folder",
        fails={
            name: content
            for name, content in {**GOOD, **ensemble(step("m", {"text": "text"}, {"answer": "answer"}))}.items()
            if not name.startswith("repo/e/1")
        },
        passes={**GOOD, **ensemble(step("m", {"text": "text"}, {"answer": "answer"}))},
    ),
    Example(
        "TL302",
        says="version folder '002' of 'm' starts with a zero and is ignored",
        fails={**GOOD, "repo/m/002/model.py": ""},
        passes=GOOD,
    ),
    Example(
        "TL303",
        says="folder 'assets' of 'm' is no version and is ignored",
        fails={**GOOD, "repo/m/assets/vocab.txt": ""},
        passes={**GOOD, "repo/m/warmup/seed": "", "repo/m/initial_state/x": "", "repo/m/__pycache__/x": ""},
    ),
    Example(
        "TL304",
        says="folder '2-old' of 'm' is taken for version 2, but folder '2' does not exist",
        fails={**GOOD, "repo/m/2-old/model.py": ""},
        passes={**python_model(ALL), **TWO, "repo/m/2-old/model.py": ""},
    ),
    Example(
        "TL305",
        says="version_policy of 'm' names version 7, which has no folder",
        fails=python_model("version_policy { specific { versions: [ 1, 7 ] } }\n"),
        passes=python_model("version_policy { specific { versions: [ 1 ] } }\n"),
        line=5,
    ),
    Example(
        "TL306",
        says="'m' has no version_policy: version 10 is served, 1, 2 never",
        fails={**GOOD, **TWO, "repo/m/10/model.py": ""},
        passes={**python_model("version_policy { latest { num_versions: 1 } }\n"), **TWO},
    ),
    Example(
        "TL307",
        says="'m' version 1 has no 'model.py', which backend 'python' loads",
        fails={"repo/m/config.pbtxt": 'backend: "python"\n', "repo/m/1/model.json": "{}"},
        passes={
            "repo/m/config.pbtxt": 'backend: "python"\ndefault_model_filename: "main.py"\n',
            "repo/m/1/main.py": "",
        },
    ),
    Example(
        "TL307",
        says="'llm' version 2 has no 'model.json', which backend 'vllm' loads",
        fails={
            **config_only('backend: "vllm"\nversion_policy { all { } }\n', name="llm"),
            "repo/llm/1/model.json": '{"model": "org/model", "gpu_memory_utilization": 0.4}',
            "repo/llm/2/model.py": "",
        },
        passes={
            **config_only('backend: "vllm"\nversion_policy { specific { versions: [ 1 ] } }\n', name="llm"),
            "repo/llm/1/model.json": '{"model": "org/model"}',
            "repo/llm/2/model.py": "",
        },
        beside=frozenset({"TL510"}),
        noted=frozenset({"TL510"}),
    ),
    Example(
        "TL308",
        says="version_policy 'latest' with num_versions 0 of 'm' selects no version",
        fails=python_model("version_policy { latest { } }\n"),
        passes=python_model("version_policy { latest { num_versions: 2 } }\n"),
        line=5,
    ),
    Example(
        "TL308",
        says="version_policy 'specific' of 'm' selects no version",
        fails=python_model("version_policy { specific { } }\n"),
        passes=python_model(ALL),
    ),
)
