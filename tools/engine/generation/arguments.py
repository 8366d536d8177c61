"""model.json of one version of the transformers baseline."""

from __future__ import annotations

from typing import Literal

import msgspec

AttentionName = Literal["eager", "sdpa", "flash_attention_2"]


class BaselineArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`model`: folder. `attention`: what to compute it with; flash_attention_2 becomes sdpa where it cannot run.
    `batching`: whether requests that came together are generated together. `max_model_len`: context in tokens.
    `load_format`: "dummy" makes weights up at random, in the shape that config.json states; it is vLLM's word for that.
    """

    model: str
    attention: AttentionName
    batching: bool
    max_model_len: int
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    load_format: Literal["auto", "dummy"] = "auto"
