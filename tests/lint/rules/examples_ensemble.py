"""Examples for the rules on ensembles, alone and against the models of their steps."""

from __future__ import annotations

from tests.lint.rules.example import Example
from tests.lint.trees import DECOUPLED, TEXT_IN, TEXT_OUT, Tree, checkpoint, ensemble, python_model, step, vllm_model
from tools.lint.findings import Severity

GOOD = python_model()
FORWARD = step("m", {"text": "text"}, {"answer": "answer"})

# A tokenizer step with two outputs, a streaming model, and a step behind it.
TOKENIZER = python_model(name="tok", tensors=TEXT_IN + TEXT_OUT + TEXT_OUT.replace("answer", "count"))
STREAM = python_model(DECOUPLED, name="stream")
MERGE = python_model(name="merge", tensors=TEXT_IN + TEXT_IN.replace("text", "other") + TEXT_OUT)
MODELS: Tree = {**GOOD, **TOKENIZER, **STREAM, **MERGE}
TO_TOKENIZER = {"text": "text"}
COUNT_OUT = TEXT_OUT.replace("answer", "count")
TWO_IN = TEXT_IN + TEXT_IN.replace('"text"', '"other"')


def llm_behind_tokenizer(llm_inputs: dict[str, str], tokenizer: dict[str, object]) -> Tree:
    """chat_tokenizer's shape in front of a vLLM model whose tokenizer is on this machine."""
    return {
        **python_model(
            name="tok", tensors=TEXT_IN + TEXT_OUT + 'output { name: "ids" data_type: TYPE_INT32 dims: [ -1 ] }\n'
        ),
        **vllm_model({"model": "models/target"}),
        **checkpoint("models/target", tokenizer=tokenizer),
        **ensemble(
            step("tok", TO_TOKENIZER, {"answer": "prompt", **({"ids": "ids"} if "ids" in llm_inputs.values() else {})}),
            step("llm", llm_inputs, {"text_output": "answer"}),
            tensors=TEXT_IN + TEXT_OUT.replace("[ 1 ]", "[ -1 ]"),
        ),
    }


ADDS_BOS = {"add_bos_token": True, "bos_token": "<s>", "chat_template": "{{ bos_token }}[INST] ... [/INST]"}
LITERAL_BOS = {"add_bos_token": True, "bos_token": {"content": "<s>"}, "chat_template": "<s>[INST] ... [/INST]"}
TEMPLATE_WITHOUT_BOS = {"add_bos_token": True, "bos_token": "<s>", "chat_template": "[INST] ... [/INST]"}
TOKENIZER_WITHOUT_BOS = {**ADDS_BOS, "add_bos_token": False}

FORM = (
    Example(
        "TL901",
        says="ensemble 'e' has backend 'python'",
        fails={**GOOD, **ensemble(FORWARD, extra='backend: "python"\n')},
        passes={**GOOD, **ensemble(FORWARD)},
        line=5,
    ),
    Example(
        "TL901",
        says="'e' has ensemble_scheduling, but platform is ''",
        fails={
            **GOOD,
            "repo/e/config.pbtxt": f"{TEXT_IN}{TEXT_OUT}ensemble_scheduling {{ {FORWARD} }}",
            "repo/e/1/x": "",
        },
        passes={**GOOD, **ensemble(FORWARD)},
    ),
    Example(
        "TL901",
        says="ensemble 'e' has no ensemble_scheduling",
        fails={"repo/e/config.pbtxt": f'platform: "ensemble"\n{TEXT_IN}{TEXT_OUT}', "repo/e/1/x": ""},
        passes={**GOOD, **ensemble(FORWARD)},
    ),
    Example(
        "TL902",
        says="ensemble 'e' has 'instance_group'",
        fails={**GOOD, **ensemble(FORWARD, extra="instance_group { kind: KIND_CPU }\n")},
        passes={**GOOD, **ensemble(FORWARD)},
        line=5,
    ),
    Example(
        "TL902",
        says="ensemble 'e' has 'optimization'",
        fails={**GOOD, **ensemble(FORWARD, extra="optimization { priority: PRIORITY_MAX }\n")},
        passes={**GOOD, **ensemble(FORWARD)},
    ),
    Example(
        "TL903",
        says="ensemble 'e' has no step",
        fails={**GOOD, **ensemble()},
        passes={**GOOD, **ensemble(FORWARD)},
        line=5,
    ),
    Example(
        "TL903",
        says="step 1 ('tok') of ensemble 'e' has no output_map",
        fails={**MODELS, **ensemble(FORWARD, step("tok", TO_TOKENIZER, {}))},
        passes={**GOOD, **ensemble(FORWARD)},
        line=7,
    ),
    Example(
        "TL904",
        says="tensor 'count' of ensemble 'e', written by 'tok', is read by nothing",
        fails={**MODELS, **ensemble(step("tok", TO_TOKENIZER, {"answer": "answer", "count": "count"}))},
        passes={**MODELS, **ensemble(step("tok", TO_TOKENIZER, {"answer": "answer"}))},
        line=6,
    ),
    Example(
        "TL904",
        says="input 'other' of ensemble 'e' goes to no step",
        fails={**GOOD, **ensemble(FORWARD, tensors=TWO_IN + TEXT_OUT)},
        passes={
            **MODELS,
            **ensemble(
                step("merge", {"text": "text", "other": "other"}, {"answer": "answer"}), tensors=TWO_IN + TEXT_OUT
            ),
        },
        line=4,
    ),
    Example(
        "TL905",
        says="output 'count' of ensemble 'e' is written by no step",
        fails={**GOOD, **ensemble(FORWARD, tensors=TEXT_IN + TEXT_OUT + COUNT_OUT)},
        passes={
            **MODELS,
            **ensemble(
                step("tok", TO_TOKENIZER, {"answer": "answer", "count": "count"}),
                tensors=TEXT_IN + TEXT_OUT + COUNT_OUT,
            ),
        },
        line=5,
    ),
    Example(
        "TL905",
        says="step 'merge' of ensemble 'e' reads tensor 'other', which nothing writes",
        fails={**MODELS, **ensemble(step("merge", {"text": "text", "other": "other"}, {"answer": "answer"}))},
        passes={**MODELS, **ensemble(step("merge", {"text": "text", "other": "text"}, {"answer": "answer"}))},
        line=6,
    ),
    Example(
        "TL905",
        says="steps 'merge', 'm' of ensemble 'e' wait for each other's tensors",
        fails={
            **MODELS,
            **ensemble(
                step("merge", {"text": "text", "other": "loop"}, {"answer": "answer"}),
                step("m", {"text": "answer"}, {"answer": "loop"}),
            ),
        },
        passes={**GOOD, **ensemble(FORWARD)},
    ),
    Example(
        "TL906",
        says="tensor 'answer' of ensemble 'e' is written by step 'm' and step 'tok'",
        fails={**MODELS, **ensemble(FORWARD, step("tok", TO_TOKENIZER, {"answer": "answer"}))},
        passes={**GOOD, **ensemble(FORWARD)},
        line=7,
    ),
    Example(
        "TL906",
        says="tensor 'text' of ensemble 'e' is written by the request and step 'm'",
        severity=Severity.WARNING,
        fails={
            **MODELS,
            **ensemble(step("m", TO_TOKENIZER, {"answer": "text"}), step("tok", TO_TOKENIZER, {"answer": "answer"})),
        },
        passes={**GOOD, **ensemble(FORWARD)},
    ),
)

STEPS = (
    Example(
        "TL907",
        says="step 0 ('llm_bf61') of ensemble 'e' needs model 'llm_bf61', which is in no given repository",
        fails={**vllm_model(name="llm_bf16"), **ensemble(step("llm_bf61", TO_TOKENIZER, {"answer": "answer"}))},
        passes={**GOOD, **ensemble(FORWARD)},
        fix="Did you mean 'llm_bf16'?",
        line=6,
    ),
    Example(
        "TL908",
        says="step 0 ('m') of ensemble 'e' needs version 2; loaded: 1",
        fails={**GOOD, **ensemble(step("m", TO_TOKENIZER, {"answer": "answer"}, "model_version: 2"))},
        passes={**GOOD, **ensemble(step("m", TO_TOKENIZER, {"answer": "answer"}, "model_version: 1"))},
        line=6,
    ),
    Example(
        "TL908",
        says="step 0 ('m') of ensemble 'e' has no model_version, which means version 0",
        fails={**GOOD, **ensemble(step("m", TO_TOKENIZER, {"answer": "answer"}, ""))},
        passes={**GOOD, **ensemble(FORWARD)},
    ),
    Example(
        "TL908",
        says="needs version 1; loaded: 2",
        fails={
            **python_model("version_policy { latest { num_versions: 1 } }\n"),
            "repo/m/2/model.py": "",
            **ensemble(step("m", TO_TOKENIZER, {"answer": "answer"}, "model_version: 1")),
        },
        passes={
            **python_model("version_policy { all { } }\n"),
            "repo/m/2/model.py": "",
            **ensemble(step("m", TO_TOKENIZER, {"answer": "answer"}, "model_version: 1")),
        },
    ),
    Example(
        "TL909",
        says="step 0 ('merge') of ensemble 'e' leaves required input 'other' unmapped",
        fails={**MODELS, **ensemble(step("merge", TO_TOKENIZER, {"answer": "answer"}))},
        passes={**vllm_model(), **ensemble(step("llm", {"text_input": "text"}, {"text_output": "answer"}))},
        line=6,
    ),
    Example(
        "TL910",
        says="step 0 ('m') of ensemble 'e' maps output 'answers', which the model does not have",
        fails={**GOOD, **ensemble(step("m", TO_TOKENIZER, {"answers": "answer"}))},
        passes={**GOOD, **ensemble(FORWARD)},
        fix="Did you mean 'answer'?",
        line=6,
    ),
    Example(
        "TL910",
        says="maps input 'prompt', which the model does not have",
        fails={
            **vllm_model(),
            **ensemble(step("llm", {"text_input": "text", "prompt": "text"}, {"text_output": "answer"})),
        },
        passes={
            **vllm_model(tensors="", policy=""),
            **ensemble(step("llm", {"text_input": "text", "image": "text"}, {"text_output": "answer"})),
        },
        noted=frozenset({"TL510"}),
    ),
    Example(
        "TL911",
        says="tensor 'text' of ensemble 'e' is TYPE_FP32 in ensemble 'e' and TYPE_STRING in 'm'",
        fails={**GOOD, **ensemble(FORWARD, tensors=TEXT_IN.replace("TYPE_STRING", "TYPE_FP32") + TEXT_OUT)},
        passes={**GOOD, **ensemble(FORWARD)},
        line=6,
    ),
    Example(
        "TL912",
        says="tensor 'answer' of ensemble 'e' has shape [2] in ensemble 'e' and [1] in 'm'",
        fails={**GOOD, **ensemble(FORWARD, tensors=TEXT_IN + TEXT_OUT.replace("[ 1 ]", "[ 2 ]"))},
        passes={**GOOD, **ensemble(FORWARD, tensors=TEXT_IN + TEXT_OUT.replace("[ 1 ]", "[ -1 ]"))},
        line=6,
    ),
    Example(
        "TL912",
        says="has shape [3] in ensemble 'e' and [-1, 1] in 'm'",
        fails={
            **python_model("max_batch_size: 4\n"),
            **ensemble(FORWARD, tensors=TEXT_IN.replace("[ 1 ]", "[ 3 ]") + TEXT_OUT),
        },
        passes={
            **python_model("max_batch_size: 4\n"),
            **ensemble(FORWARD, tensors=TEXT_IN.replace("[ 1 ]", "[ 3, 1 ]") + TEXT_OUT),
        },
    ),
    Example(
        "TL913",
        says="step 2 ('merge') of ensemble 'e' mixes 'streamed' out of the stream of 'stream' with 'count', which",
        fails={
            **MODELS,
            **ensemble(
                step("tok", TO_TOKENIZER, {"answer": "prompt", "count": "count"}),
                step("stream", {"text": "prompt"}, {"answer": "streamed"}),
                step("merge", {"text": "streamed", "other": "count"}, {"answer": "answer"}),
                scheduling="max_inflight_requests: 8\n",
            ),
        },
        passes={
            **MODELS,
            **ensemble(
                step("tok", TO_TOKENIZER, {"answer": "prompt"}),
                step("stream", {"text": "prompt"}, {"answer": "streamed"}),
                step("merge", {"text": "streamed", "other": "streamed"}, {"answer": "answer"}),
                scheduling="max_inflight_requests: 8\n",
            ),
        },
        line=9,
    ),
    Example(
        "TL913",
        says="ensemble 'e' returns 'answer' out of the stream of 'stream' with 'count', which is not part of it",
        fails={
            **MODELS,
            **ensemble(
                step("tok", TO_TOKENIZER, {"answer": "prompt", "count": "count"}),
                step("stream", {"text": "prompt"}, {"answer": "answer"}),
                tensors=TEXT_IN + TEXT_OUT + COUNT_OUT,
            ),
        },
        passes={
            **MODELS,
            **ensemble(
                step("tok", TO_TOKENIZER, {"answer": "prompt"}),
                step("stream", {"text": "prompt"}, {"answer": "answer"}),
            ),
        },
        line=4,
    ),
    Example(
        "TL914",
        says="ensemble 'e' has max_batch_size 8, step 0 ('m') of ensemble 'e' only 4",
        fails={**python_model("max_batch_size: 4\n"), **ensemble(FORWARD, extra="max_batch_size: 8\n")},
        passes={**python_model("max_batch_size: 4\n"), **ensemble(FORWARD, extra="max_batch_size: 4\n")},
        line=5,
    ),
    Example(
        "TL915",
        says="ensemble 'e' depends on itself: e -> f -> e",
        fails={
            **ensemble(step("f", TO_TOKENIZER, {"answer": "answer"})),
            **ensemble(step("e", TO_TOKENIZER, {"answer": "answer"}), name="f"),
        },
        passes={
            **GOOD,
            **ensemble(step("f", TO_TOKENIZER, {"answer": "answer"})),
            **ensemble(FORWARD, name="f"),
        },
    ),
    Example(
        "TL916",
        says="'m' follows the stream of 'stream' in ensemble 'e', with no bound between",
        fails={
            **MODELS,
            **ensemble(step("stream", TO_TOKENIZER, {"answer": "s"}), step("m", {"text": "s"}, {"answer": "answer"})),
        },
        passes={**MODELS, **ensemble(FORWARD.replace("answer", "s", 0), tensors=TEXT_IN + TEXT_OUT)},
        line=5,
    ),
    Example(
        "TL917",
        says="optional input 'text' of ensemble 'e' goes to required input 'text' of step 0 ('m')",
        fails={**GOOD, **ensemble(FORWARD, tensors=TEXT_IN.replace(" }", " optional: true }") + TEXT_OUT)},
        passes={
            **python_model(tensors=TEXT_IN.replace(" }", " optional: true }") + TEXT_OUT),
            **ensemble(FORWARD, tensors=TEXT_IN.replace(" }", " optional: true }") + TEXT_OUT),
        },
        line=6,
    ),
    Example(
        "TL918",
        says="ensemble 'e' has max_batch_size 8, input 'text' of step 0 ('m') of ensemble 'e' no batch dimension",
        fails={**GOOD, **ensemble(FORWARD, extra="max_batch_size: 8\n")},
        passes={
            **python_model(tensors=(TEXT_IN + TEXT_OUT).replace("[ 1 ]", "[ -1, 1 ]")),
            **ensemble(FORWARD, extra="max_batch_size: 8\n"),
        },
        line=7,
    ),
    Example(
        "TL920",
        says="ensemble 'e' hands templated text to 'llm' version 1, whose tokenizer adds a second BOS",
        fails=llm_behind_tokenizer({"text_input": "prompt"}, ADDS_BOS),
        passes=llm_behind_tokenizer({"text_input": "prompt", "input_ids": "ids"}, ADDS_BOS),
        line=7,
    ),
    Example(
        "TL920",
        says="adds a second BOS",
        fails=llm_behind_tokenizer({"text_input": "prompt"}, LITERAL_BOS),
        passes=llm_behind_tokenizer({"text_input": "prompt"}, TEMPLATE_WITHOUT_BOS),
    ),
    Example(
        "TL920",
        says="adds a second BOS",
        fails=llm_behind_tokenizer({"text_input": "prompt"}, ADDS_BOS),
        passes=llm_behind_tokenizer({"text_input": "prompt"}, TOKENIZER_WITHOUT_BOS),
    ),
)

EXAMPLES = (*FORM, *STEPS)
