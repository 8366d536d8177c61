"""Examples for the rules on folders and files."""

from __future__ import annotations

from tests.lint.rules.example import Example
from tests.lint.trees import Link, python_model, vllm_model
from tools.lint.findings import Severity

GOOD = python_model()

TENSORRT_LLM = {"repo/t/config.pbtxt": 'backend: "tensorrtllm"\n\n', "repo/t/1/x": ""}
UNSET = 'parameters { key: "batch_scheduler_policy" value { string_value: "${batch_scheduler_policy}" } }\n'

EXAMPLES = (
    Example(
        "TL101",
        says="model 'other' lies in folder 'm'",
        fails={**GOOD, "repo/m/config.pbtxt": 'name: "other"\nbackend: "python"\n'},
        passes={**GOOD, "repo/m/config.pbtxt": 'backend: "python"\n'},
        line=1,
    ),
    Example(
        "TL101",
        says="model 'small' lies in folder 'm'",
        fails={**GOOD, "repo/m/configs/small.pbtxt": 'name: "small"\nbackend: "python"\n'},
        passes={**GOOD, "repo/m/configs/small.pbtxt": 'name: "m"\nbackend: "python"\n'},
    ),
    Example(
        "TL102",
        says="model 'n' has no config.pbtxt",
        fails={**GOOD, "repo/n/1/model.json": "{}"},
        passes=GOOD,
    ),
    Example(
        "TL103",
        says="leaves it to backend 'onnxruntime'",
        fails={**GOOD, "repo/n/1/model.onnx": b"\1"},
        passes={**GOOD, "repo/n/1/model.onnx": b"\1", "repo/n/config.pbtxt": 'platform: "onnxruntime_onnx"\n'},
    ),
    Example(
        "TL104",
        says="folder '.ipynb_checkpoints' holds neither config.pbtxt nor a version folder",
        fails={**GOOD, "repo/.ipynb_checkpoints/x.txt": ""},
        passes={**GOOD, "repo/README.md": "files beside the models are no fault"},
    ),
    Example(
        "TL105",
        says="model 'm' is also in",
        fails={**GOOD, **{name.replace("repo/", "second/"): text for name, text in GOOD.items()}},
        passes={**GOOD, **{name.replace("repo/", "second/"): text for name, text in python_model(name="n").items()}},
        paths=("repo", "second"),
    ),
    Example(
        "TL106",
        says="'config.pbtxt' cannot be read: it is a binary file, not text",
        fails={**GOOD, "repo/m/config.pbtxt": b"\x00\x01\x02"},
        passes=GOOD,
    ),
    Example(
        "TL106",
        says="it is not UTF-8: byte 0xff at offset 9",
        fails={**GOOD, "repo/m/config.pbtxt": b'name: "m"\xff\n'},
        passes={**GOOD, "repo/m/config.pbtxt": '# Grüße, 你好\nname: "m"\nbackend: "python"\n'},
    ),
    Example(
        "TL106",
        says="'config.pbtxt' cannot be read: it starts with a byte order mark",
        fails={**GOOD, "repo/m/config.pbtxt": '\ufeffname: "m"\nbackend: "python"\n'},
        passes=GOOD,
    ),
    Example(
        "TL106",
        says="'config.pbtxt' cannot be read: is a directory",
        fails={"repo/m/config.pbtxt": None, "repo/m/1/model.py": ""},
        passes=GOOD,
    ),
    Example(
        "TL106",
        says="it has 4,194,305 bytes",
        fails={**vllm_model(), "repo/llm/1/model.json": b" " * (4 * 2**20 + 1)},
        passes=vllm_model(),
    ),
    Example(
        "TL107",
        says="'gone' leads nowhere: it is a symbolic link to '/nonexistent/model'",
        fails={**GOOD, "repo/gone": Link("/nonexistent/model")},
        passes={
            **GOOD,
            "elsewhere/n/config.pbtxt": 'backend: "python"',
            "elsewhere/n/1/model.py": "",
            "repo/n": Link("../elsewhere/n"),
        },
    ),
    Example(
        "TL107",
        says="'loop' leads nowhere",
        fails={**GOOD, "repo/m/loop": Link("loop")},
        passes=GOOD,
    ),
    Example(
        "TL108",
        says="\"{{ model_path }}\" in 'model' still holds the template placeholder '{{ model_path }}'",
        fails=vllm_model({"model": "{{ model_path }}"}),
        passes=vllm_model({"model": "org/model"}),
        line=2,
    ),
    Example(
        "TL108",
        says="\"${engine_dir}/1\" in 'string_value' still holds the template placeholder '${engine_dir}'",
        severity=Severity.WARNING,
        fails=python_model('parameters { key: "gpt_model_path" value { string_value: "${engine_dir}/1" } }\n'),
        passes=python_model(
            'parameters { key: "template" value { string_value: "{% for m in messages %}{{ m.role }}{% endfor %}" } }\n'
            'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }\n'
        ),
        line=5,
    ),
    Example(
        "TL108",
        says="'${batch_scheduler_policy}'",
        severity=Severity.NOTE,
        fails={**TENSORRT_LLM, "repo/t/config.pbtxt": TENSORRT_LLM["repo/t/config.pbtxt"] + UNSET},
        passes=TENSORRT_LLM,
        line=3,
    ),
    Example(
        "TL108",
        says="\"{{ name }}\" in 'name' still holds the template placeholder '{{ name }}'",
        fails=python_model(tensors='input { name: "{{ name }}" data_type: TYPE_FP32 dims: [ 1 ] }\n'),
        passes=python_model(tensors='input { name: "name" data_type: TYPE_FP32 dims: [ 1 ] }\n'),
        line=3,
    ),
    Example(
        "TL109",
        says="config.pbtxt lies in version folder '1' of 'm'",
        fails={**GOOD, "repo/m/1/config.pbtxt": 'name: "m"'},
        passes=GOOD,
    ),
)
