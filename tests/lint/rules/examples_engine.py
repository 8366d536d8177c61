"""Examples for the rules on model.json: arguments, quantization, speculative decoding."""

from __future__ import annotations

import json
from typing import Any

from tests.lint.rules.example import Example
from tests.lint.trees import Tree, checkpoint, vllm_model, weights
from tools.lint.findings import Severity

GOOD = vllm_model()
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128}
HALF = {"dtype": "float16"}


def local(arguments: dict[str, Any] | None = None, **config: Any) -> Tree:
    """A vLLM model on a checkpoint that is on this machine."""
    target = checkpoint("models/target", weight_bytes=1000, **config)
    return {**vllm_model({"model": "models/target", **(arguments or {})}), **target}


def speculating(draft: Tree, settings: dict[str, Any] | None = None, arguments: dict[str, Any] | None = None) -> Tree:
    """As `local`, with an EAGLE-3 head in models/draft."""
    speculative = {"method": "eagle3", "model": "models/draft", "num_speculative_tokens": 3, **(settings or {})}
    return {**local({"speculative_config": speculative, **(arguments or {})}), **draft}


def with_aux_layers(*layers: int) -> Tree:
    """An EAGLE-3 head that names the layers it reads."""
    return checkpoint("models/draft", eagle_config={"eagle_aux_hidden_state_layer_ids": layers})


HEAD = checkpoint("models/draft", target_hidden_size=512, hidden_size=256, draft_vocab_size=8000)
TARGET_OF_12_LAYERS = checkpoint("models/target", weight_bytes=1000, num_hidden_layers=12)
FC_OF_3_LAYERS = {"models/draft/model.safetensors": weights(shapes={"fc.weight": (0, 3 * 512)})}
NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}

ARGUMENTS = (
    Example(
        "TL601",
        says="'model.json' of 'llm' version 1 is not valid JSON: expecting property name enclosed in double quotes "
        "(a template placeholder was not rendered here)",
        fails=vllm_model('{\n "model": "org/model",\n "max_model_len": {{ max_model_len }}\n}'),
        passes=GOOD,
        line=3,
    ),
    Example(
        "TL601",
        says="(there is a comma after the last element)",
        fails=vllm_model('{"model": "org/model",}'),
        passes=GOOD,
        line=1,
    ),
    Example(
        "TL601",
        says="(Python's True, False and None are true, false and null in JSON)",
        fails=vllm_model('{"model": "org/model", "enforce_eager": True}'),
        passes=GOOD,
    ),
    Example("TL601", says="(the file is empty)", fails=vllm_model(""), passes=GOOD),
    Example(
        "TL602",
        says="'model.json' of 'llm' version 1 holds a list, not an object",
        fails=vllm_model('["org/model"]'),
        passes=GOOD,
        line=1,
    ),
    Example(
        "TL603",
        says="key 'dtype' stands twice in 'model.json'",
        fails=vllm_model('{"model": "org/model",\n "dtype": "half",\n "dtype": "auto"}'),
        passes=vllm_model('{"model": "org/model",\n "dtype": "half", "hf_overrides": {"dtype": "half"}}'),
        line=3,
    ),
    Example(
        "TL604",
        says="'max_model_length' is no engine argument of vLLM 0.32.0",
        fails=vllm_model({"max_model_length": 4096}),
        passes=vllm_model({"max_model_len": 4096}),
        line=3,
        fix="Did you mean 'max_model_len'?",
    ),
    Example(
        "TL605",
        says="'llm' version 1 sets 'speculative_model', 'num_speculative_tokens', unknown to vLLM since V1",
        fails=vllm_model({"speculative_model": "org/draft", "num_speculative_tokens": 5}),
        passes=vllm_model(
            {"speculative_config": {"method": "draft_model", "model": "org/draft", "num_speculative_tokens": 5}}
        ),
        line=3,
        fix='Write "speculative_config": {"model": "org/draft", "num_speculative_tokens": 5}.',
    ),
    Example(
        "TL606",
        says="'enforce_eager' of 'llm' version 1 is the text \"false\", but vLLM takes bool",
        fails=vllm_model({"enforce_eager": "false"}),
        passes=vllm_model({"enforce_eager": False, "gpu_memory_utilization": 1, "max_num_seqs": None, "dtype": "half"}),
        line=3,
    ),
    Example(
        "TL606",
        says="'max_num_seqs' of 'llm' version 1 is true or false, but vLLM takes int | None",
        fails=vllm_model({"max_num_seqs": True}),
        passes=vllm_model({"max_num_seqs": 8}),
    ),
    Example(
        "TL607",
        says="no vLLM is installed: model.json of 'llm' was not checked key by key",
        fails=GOOD,
        passes={"repo/m/config.pbtxt": 'backend: "python"\n', "repo/m/1/model.py": ""},
        vllm_installed=False,
    ),
    Example(
        "TL608",
        says="gpu_memory_utilization of 'llm' version 1 is 90, outside 0 .. 1",
        fails=vllm_model({"gpu_memory_utilization": 90}),
        passes=vllm_model({"gpu_memory_utilization": 0.9}),
        line=3,
    ),
    Example(
        "TL609",
        says="'model.json' of 'llm' version 1 names no 'model'",
        fails=vllm_model('{"dtype": "half"}'),
        passes=GOOD,
    ),
    Example(
        "TL610",
        says="'llm' version 1 has enable_lora but no 'multi_lora.json'",
        fails=vllm_model({"enable_lora": "true"}),
        passes={**vllm_model({"enable_lora": True}), "repo/llm/1/multi_lora.json": '{"doll": "/loras/doll"}'},
        line=3,
    ),
    Example(
        "TL610",
        says="'multi_lora.json' of 'llm' version 1 holds a list, not an object",
        fails={**vllm_model({"enable_lora": True}), "repo/llm/1/multi_lora.json": "[]"},
        passes=GOOD,
    ),
    Example(
        "TL611",
        says="max_model_len 8192 of 'llm' version 1 is beyond the 4096 positions of 'models/target'",
        fails=local({"max_model_len": 8192}),
        passes=local({"max_model_len": 8192}, rope_scaling={"rope_type": "yarn", "factor": 2.0}),
        line=3,
    ),
    Example(
        "TL611",
        says="max_model_len 8192",
        fails=local({"max_model_len": 8192}, rope_parameters={"rope_type": "default", "rope_theta": 1e4}),
        passes=local({"max_model_len": 4096}),
    ),
    Example(
        "TL611",
        says="max_model_len 9000",
        fails=local({"max_model_len": 9000}, model_max_length=8192),
        passes=local({"max_model_len": 8192}, model_max_length=8192),
    ),
    Example(
        "TL612",
        says="tensor_parallel_size 3 of 'llm' version 1 does not divide the 8 attention heads",
        fails=local({"tensor_parallel_size": 3}),
        passes=local({"tensor_parallel_size": 4}),
    ),
    Example(
        "TL613",
        says="'llm' version 1 has no chunked prefill and max_num_batched_tokens 2048 below max_model_len 4096",
        fails=vllm_model({"enable_chunked_prefill": False, "max_num_batched_tokens": 2048, "max_model_len": 4096}),
        passes=vllm_model({"max_num_batched_tokens": 2048, "max_model_len": 4096}),
    ),
    Example(
        "TL614",
        says="max_num_batched_tokens 128 of 'llm' version 1 is below max_num_seqs 256",
        fails=vllm_model({"max_num_batched_tokens": 128, "max_num_seqs": 256}),
        passes=vllm_model({"max_num_batched_tokens": 256, "max_num_seqs": 256}),
    ),
    Example(
        "TL615",
        says="'--max-model-len' of 'llm' version 1 is a command line flag",
        fails=vllm_model({"--max-model-len": 4096}),
        passes=vllm_model({"max_model_len": 4096}),
        fix="Write 'max_model_len'.",
    ),
    Example(
        "TL616",
        says="'model.safetensors' in 'models/draft', which 'llm' version 1 loads, is cut short or no safetensors file",
        fails=speculating({**HEAD, "models/draft/model.safetensors": weights()[:-1]}),
        passes=speculating(HEAD),
    ),
    Example(
        "TL616",
        says="'config.json' in 'models/draft', which 'llm' version 1 loads, is missing",
        fails=speculating({"models/draft/model.safetensors": weights()}),
        passes=speculating({}),  # not on this machine: a hub id, for all that can be seen
    ),
    Example(
        "TL616",
        says="'models/target', which 'llm' version 1 loads, holds no weights on this machine",
        severity=Severity.WARNING,
        fails={**vllm_model({"model": "models/target"}), "models/target/config.json": '{"hidden_size": 512}'},
        passes=local(),
    ),
)

QUANTIZATION = (
    Example(
        "TL701",
        says="'llm' version 1 runs an AWQ checkpoint in bfloat16",
        fails=local({"dtype": "bfloat16"}, quantization_config=AWQ),
        passes=local(HALF, quantization_config=AWQ),
        line=3,
    ),
    Example(
        "TL701",
        says="'llm' version 1 runs an AWQ checkpoint in bfloat16",
        severity=Severity.ERROR,  # the kernel that 'awq' forces has no bfloat16
        fails=vllm_model({"model": "org/model-awq", "dtype": "bfloat16", "quantization": "awq"}),
        passes=vllm_model({"model": "org/model-awq"}),
        beside=frozenset({"TL702"}),
    ),
    Example(
        "TL701",
        says="'llm' version 1 leaves dtype to an AWQ checkpoint whose config says bfloat16",
        fails=local(quantization_config=AWQ, torch_dtype="bfloat16"),
        passes=local(quantization_config=AWQ, torch_dtype="float16"),
    ),
    Example(
        "TL702",
        says="'llm' version 1 forces quantization 'awq'",
        fails=vllm_model({"model": "org/model-awq", "quantization": "awq", **HALF}),
        passes=vllm_model({"model": "org/model-awq", **HALF}),
        line=3,
    ),
    Example(
        "TL703",
        says="AWQ group size 128 of 'models/target' does not divide hidden_size 576",
        fails=local(HALF, quantization_config=AWQ, hidden_size=576, num_attention_heads=9, intermediate_size=1536),
        passes=local(
            HALF,
            quantization_config={**AWQ, "group_size": 64},
            hidden_size=576,
            num_attention_heads=9,
            intermediate_size=1536,
        ),
    ),
    Example(
        "TL703",
        says="does not divide intermediate_size 11008 / tensor_parallel_size 4",
        fails=local({"tensor_parallel_size": 4, **HALF}, quantization_config=AWQ, intermediate_size=11008),
        passes=local({"tensor_parallel_size": 2, **HALF}, quantization_config=AWQ, intermediate_size=11008),
    ),
    Example(
        "TL704",
        says="'llm' version 1 asks for 'gptq', but config.json of 'models/target' has awq",
        fails=local({"quantization": "gptq", **HALF}, quantization_config=AWQ),
        passes=local({"quantization": "awq_marlin", **HALF}, quantization_config=AWQ),
    ),
    Example(
        "TL704",
        says="'llm' version 1 asks for 'awq_marlin', but config.json of 'models/target' has no quantization",
        fails=local({"quantization": "awq_marlin"}),
        passes=local({"dtype": "bfloat16"}),
    ),
)

SPECULATIVE = (
    Example(
        "TL711",
        says="draft 'models/draft' expects hidden size 4544, target 'models/target' has 512",
        fails=speculating(checkpoint("models/draft", target_hidden_size=4544)),
        passes=speculating(HEAD),
    ),
    Example(
        "TL711",
        says="expects hidden size 4544",
        fails=speculating(checkpoint("models/draft", hidden_size=4544)),
        passes=speculating(checkpoint("models/draft")),
    ),
    Example(
        "TL712",
        says="draft 'models/draft' has a vocabulary of 65024, target 'models/target' of 32000",
        fails=speculating(checkpoint("models/draft", vocab_size=65024), {"method": "draft_model"}),
        passes=speculating(
            checkpoint("models/draft", vocab_size=65024), {"method": "draft_model", "use_heterogeneous_vocab": True}
        ),
    ),
    Example(
        "TL712",
        says="draft_vocab_size 40000 of 'models/draft' is beyond the target's vocabulary of 32000",
        fails=speculating(checkpoint("models/draft", draft_vocab_size=40000)),
        passes=speculating(HEAD),
    ),
    Example(
        "TL713",
        says="draft 'lmsys/Falcon-EAGLE-3-7B' is a Falcon head, target 'meta-llama/Llama-2-7b-chat-hf' is Llama",
        fails=vllm_model(
            {
                "model": "meta-llama/Llama-2-7b-chat-hf",
                "speculative_config": {"model": "lmsys/Falcon-EAGLE-3-7B", "num_speculative_tokens": 5},
            }
        ),
        passes=vllm_model(
            {
                "model": "lmsys/vicuna-7b-v1.5",
                "speculative_config": {
                    "method": "eagle",
                    "model": "yuhuili/EAGLE-llama2-chat-7B",
                    "num_speculative_tokens": 5,
                },
            }
        ),
        line=4,
    ),
    Example(
        "TL713",
        says="is a Qwen head, target 'deepseek-ai/DeepSeek-R1-Distill-Llama-8B' is Deepseek/llama",
        fails=vllm_model(
            {
                "model": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
                "speculative_config": {"method": "eagle3", "model": "a/Qwen3-8B_eagle3", "num_speculative_tokens": 2},
            }
        ),
        passes=vllm_model(
            {
                "model": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
                "speculative_config": {
                    "method": "eagle3",
                    "model": "a/EAGLE3-LLaMA3.1-8B",
                    "num_speculative_tokens": 2,
                },
            }
        ),
    ),
    Example(
        "TL714",
        says="draft 'models/draft' has 2048 positions, 'llm' version 1 serves max_model_len 4096",
        fails=speculating(checkpoint("models/draft", max_position_embeddings=2048)),
        passes=speculating(checkpoint("models/draft", max_position_embeddings=2048), arguments={"max_model_len": 2048}),
    ),
    Example(
        "TL715",
        says="draft 'models/draft' has 0.00 GB, target 'models/target' has 0.00 GB",
        fails=speculating(checkpoint("models/draft", weight_bytes=600)),
        passes=speculating(checkpoint("models/draft", weight_bytes=400)),
    ),
    Example(
        "TL715",
        says="draft 'org/Llama-2-7B' is a 7B model in front of 'org/Llama-2-13b-chat', a 13B model",
        fails=vllm_model(
            {
                "model": "org/Llama-2-13b-chat",
                "speculative_config": {"method": "draft_model", "model": "org/Llama-2-7B", "num_speculative_tokens": 5},
            }
        ),
        passes=vllm_model(
            {
                "model": "org/Llama-2-13b-chat",
                "speculative_config": {
                    "method": "draft_model",
                    "model": "org/TinyLlama-1.1B",
                    "num_speculative_tokens": 5,
                },
            }
        ),
    ),
    Example(
        "TL716",
        says="'num_spec_tokens' is no key of speculative_config in vLLM 0.32.0",
        fails=vllm_model({"speculative_config": {**NGRAM, "num_spec_tokens": 3}}),
        passes=vllm_model({"speculative_config": NGRAM}),
        fix="Did you mean 'num_speculative_tokens'?",
        line=7,
    ),
    Example(
        "TL717",
        says="method 'ngram' of 'llm' version 1 has no 'prompt_lookup_max'",
        fails=vllm_model({"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}),
        passes=vllm_model({"speculative_config": NGRAM}),
        line=3,
    ),
    Example(
        "TL717",
        says="speculative_config of 'llm' version 1 names neither 'method' nor 'model'",
        fails=vllm_model({"speculative_config": {"num_speculative_tokens": 3}}),
        passes=vllm_model({"speculative_config": {"model": "org/some-eagle3", "num_speculative_tokens": 3}}),
    ),
    Example(
        "TL717",
        says="method 'eagle3' of 'llm' version 1 names no draft 'model'",
        fails=vllm_model({"speculative_config": {"method": "eagle3", "num_speculative_tokens": 3}}),
        passes=vllm_model({"speculative_config": None}),
    ),
    Example(
        "TL717",
        says="method 'eagle3' of 'llm' version 1 has no 'num_speculative_tokens'",
        fails=vllm_model({"speculative_config": {"method": "eagle3", "model": "org/head"}}),
        passes=vllm_model({"spec_method": "ngram", "spec_tokens": 3}),
    ),
    Example(
        "TL717",
        says="speculative_config of 'llm' version 1 is no object",
        fails=vllm_model({"speculative_config": json.dumps(NGRAM)}),
        passes=GOOD,
    ),
    Example(
        "TL718",
        says="draft_tensor_parallel_size 2 of 'llm' version 1 is neither 1 nor tensor_parallel_size 4",
        fails=speculating(HEAD, {"draft_tensor_parallel_size": 2}, {"tensor_parallel_size": 4}),
        passes=speculating(HEAD, {"draft_tensor_parallel_size": 4}, {"tensor_parallel_size": 4}),
    ),
    Example(
        "TL718",
        says="speculative_config of 'llm' version 1 has 'tensor_parallel_size', which vLLM refuses there",
        fails=speculating(HEAD, {"tensor_parallel_size": 1}),
        passes=speculating(HEAD, {"draft_tensor_parallel_size": 1}),
        fix="Write 'draft_tensor_parallel_size'.",
    ),
    Example(
        "TL719",
        says="draft 'models/draft' reads layer 29, target 'models/target' has 12",
        fails=speculating({**TARGET_OF_12_LAYERS, **with_aux_layers(2, 6, 29)}),
        passes=speculating({**TARGET_OF_12_LAYERS, **with_aux_layers(2, 6, 12)}),
    ),
    Example(
        "TL719",
        says="'fc.weight' of draft 'models/draft' takes 1536 inputs, its config.json makes 2 layers of 512, 1024",
        fails=speculating({**with_aux_layers(2, 6), **FC_OF_3_LAYERS}),
        passes=speculating({**with_aux_layers(2, 6, 9), **FC_OF_3_LAYERS}),
    ),
)

EXAMPLES = (*ARGUMENTS, *QUANTIZATION, *SPECULATIVE)
