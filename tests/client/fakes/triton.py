"""A scripted tritonserver: what its models say, and what was asked of them. The two front ends are beside it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Say:
    """One response."""

    text: str | Sequence[str] = ""
    tokens: int | Sequence[int] = 1
    finish: str | Sequence[str] = "None"
    input_tokens: int | None = None
    final: bool = False
    prompt_logprobs: str | None = None

    def outputs(self) -> dict[str, list[Any]]:
        outputs: dict[str, list[Any]] = {
            "text_output": _listed(self.text),
            "num_output_tokens": _listed(self.tokens),
            "finish_reason": _listed(self.finish),
        }
        if self.input_tokens is not None:
            outputs["num_input_tokens"] = [self.input_tokens]
        if self.prompt_logprobs is not None:
            outputs["prompt_logprobs"] = [self.prompt_logprobs]
        return outputs


@dataclass(frozen=True)
class Fail:
    """The model's error, which ends the stream. The ladder's models are `coded`: they end the text with the code."""

    code: str
    message: str
    coded: bool = True

    @property
    def text(self) -> str:
        return f"{self.message} [{self.code}]" if self.coded else self.message


@dataclass(frozen=True)
class Raw:
    """Bytes of the HTTP body as they are."""

    data: bytes


class Break:
    """The connection is cut."""


@dataclass(frozen=True)
class Outputs:
    """The response of a model that answers once."""

    values: Mapping[str, list[Any]]


class NoFinal:
    """The stream ends in order, but nothing says that the answer is whole."""


@dataclass(frozen=True)
class WaitForCancel:
    """Nothing more is said until the client has gone."""

    limit_s: float = 10.0


Step = Say | Fail | Raw | Break | Outputs | NoFinal | WaitForCancel


@dataclass(frozen=True)
class Seen:
    """A request as the model got it: flat inputs, and the shapes they came in (gRPC only)."""

    model: str
    version: str
    request_id: str
    inputs: Mapping[str, list[Any]]
    shapes: Mapping[str, list[int]]
    parameters: Mapping[str, Any]

    @property
    def sampling(self) -> dict[str, Any]:
        return dict(json.loads(self.inputs["sampling_parameters"][0]))


Script = Callable[[Seen], Sequence[Step]]


@dataclass
class FakeModel:
    """A model, its config, its versions' states, and its script."""

    name: str
    script: Script
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    max_batch_size: int = 0
    decoupled: bool = True
    states: Mapping[str, tuple[str, str]] = field(default_factory=lambda: {"1": ("READY", "")})

    def config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "max_batch_size": self.max_batch_size,
            "input": [
                {
                    "name": name,
                    "data_type": data_type,
                    "dims": [-1] if name in ("input_ids", "image") else [1],
                    "optional": name != "text_input",
                }
                for name, data_type in self.inputs.items()
            ],
            "output": [
                {"name": name, "data_type": data_type, "dims": [-1]} for name, data_type in self.outputs.items()
            ],
            "model_transaction_policy": {"decoupled": self.decoupled},
        }

    def newest_ready(self) -> str | None:
        ready = [version for version, (state, _) in self.states.items() if state == "READY"]
        return max(ready, key=int, default=None)


class FakeTriton:
    """The state behind both front ends."""

    def __init__(self, *models: FakeModel) -> None:
        self.models = {model.name: model for model in models}
        self.seen: list[Seen] = []
        self.cancelled = threading.Event()
        # A `WaitForCancel` over gRPC that waited for nothing.
        self.not_cancelled = threading.Event()
        self.config_reads = 0
        self.live = True
        self.ready = True
        # HTTP only: how the body is cut into writes.
        self.write_size: int | None = None
        # HTTP only: connections made, and whether each is closed after an answer, without a word.
        self.connections = 0
        self.hangs_up = False

    def index(self) -> list[dict[str, str]]:
        return [
            {"name": model.name, "version": version, "state": state, "reason": reason}
            for model in self.models.values()
            for version, (state, reason) in model.states.items()
        ]

    def find(self, name: str, version: str) -> tuple[FakeModel, str] | str:
        """The model and version that answer, or the server's own words for why none does."""
        model = self.models.get(name)
        if model is None:
            return f"Request for unknown model: '{name}' is not found"
        chosen = version or model.newest_ready()
        if chosen is None:
            return f"Request for unknown model: '{name}' has no available versions"
        if model.states.get(chosen, ("", ""))[0] != "READY":
            return f"Request for unknown model: '{name}' version {chosen} is not found"
        return model, chosen

    def config(self, name: str, version: str) -> dict[str, Any] | str:
        found = self.find(name, version)
        if isinstance(found, str):
            return found
        self.config_reads += 1
        return found[0].config()

    def statistics(self) -> list[dict[str, Any]]:
        return [
            {
                "name": entry["name"],
                "version": entry["version"],
                "last_inference": 1_700_000_000_000,
                "inference_count": 3,
                "execution_count": 2,
                "inference_stats": {"success": {"count": 2, "ns": 5_000_000}, "fail": {"count": 1, "ns": 1000}},
            }
            for entry in self.index()
            if entry["state"] == "READY"
        ]


ENGINE_INPUTS = {
    "text_input": "TYPE_STRING",
    "image": "TYPE_STRING",
    "stream": "TYPE_BOOL",
    "sampling_parameters": "TYPE_STRING",
    "exclude_input_in_output": "TYPE_BOOL",
    "return_finish_reason": "TYPE_BOOL",
    "return_cumulative_logprob": "TYPE_BOOL",
    "return_logprobs": "TYPE_BOOL",
    "return_num_input_tokens": "TYPE_BOOL",
    "return_num_output_tokens": "TYPE_BOOL",
    "input_ids": "TYPE_INT32",
}
ENGINE_OUTPUTS = {
    "text_output": "TYPE_STRING",
    "finish_reason": "TYPE_STRING",
    "cumulative_logprob": "TYPE_FP32",
    "logprobs": "TYPE_STRING",
    "num_input_tokens": "TYPE_UINT32",
    "num_output_tokens": "TYPE_UINT32",
    "prompt_logprobs": "TYPE_STRING",
}
TOKENIZER_OUTPUTS = {"prompt": "TYPE_STRING", "input_ids": "TYPE_INT32", "num_input_tokens": "TYPE_UINT32"}


def engine(name: str, *steps: Step, script: Script | None = None, **changes: Any) -> FakeModel:
    """A model with the engines' contract; `steps` are said to every request."""
    return FakeModel(name, script or (lambda _: steps), ENGINE_INPUTS, ENGINE_OUTPUTS, **changes)


def ensemble(name: str, *steps: Step, script: Script | None = None) -> FakeModel:
    """A model that takes messages."""
    inputs = {name: kind for name, kind in ENGINE_INPUTS.items() if name not in ("text_input", "image", "input_ids")}
    return FakeModel(name, script or (lambda _: steps), {"messages": "TYPE_STRING", **inputs}, ENGINE_OUTPUTS)


def tokenizer(name: str = "chat_tokenizer", script: Script | None = None, **changes: Any) -> FakeModel:
    """Joins the messages to one prompt; a word is a token."""
    inputs = {"messages": "TYPE_STRING", "text_input": "TYPE_STRING"}
    return FakeModel(name, script or _template, inputs, TOKENIZER_OUTPUTS, decoupled=False, **changes)


def _template(seen: Seen) -> Sequence[Step]:
    messages = json.loads(seen.inputs["messages"][0])
    prompt = " ".join(f"<{message['role']}> {message['content']}" for message in messages)
    ids = list(range(len(prompt.split())))
    return [Outputs({"prompt": [prompt], "input_ids": ids, "num_input_tokens": [len(ids)]})]


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str | int) else list(value)
