"""A model's tensors as its config states them, and how a request is laid out on them.

The names are those of NVIDIA's vLLM backend, plus `input_ids` (engines) and `messages` (ensembles, `chat_tokenizer`).
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tools.client.errors import MalformedResponseError, RequestRefusedError
from tools.client.request import ChatRequest, GenerateRequest, Message, Request, Target

TensorValues: TypeAlias = Sequence[str] | Sequence[bool] | Sequence[int]

_DATATYPES = {"TYPE_STRING": "BYTES"}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output of a model. `dims` is without the batch dimension; -1 is any length."""

    name: str
    datatype: str
    dims: tuple[int, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class ModelContract:
    """What a model takes and gives.

    Attributes:
        batched: `max_batch_size` > 0: tensors have a batch dimension in front. Callers never see it.
        parameters: the config's own `parameters`, name to string value.
    """

    name: str
    batched: bool
    decoupled: bool
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    parameters: Mapping[str, str]

    @property
    def takes_messages(self) -> bool:
        """Whether the model applies the chat template itself, as the ensembles do."""
        return "messages" in self.inputs

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "ModelContract":
        """Read a ModelConfig in its JSON form (field names as in model_config.proto)."""
        return cls(
            name=config["name"],
            batched=int(config.get("max_batch_size", 0)) > 0,
            decoupled=bool(config.get("model_transaction_policy", {}).get("decoupled", False)),
            inputs={spec.name: spec for spec in map(_tensor_spec, config.get("input", []))},
            outputs={spec.name: spec for spec in map(_tensor_spec, config.get("output", []))},
            parameters={key: value.get("string_value", "") for key, value in config.get("parameters", {}).items()},
        )


def _tensor_spec(field: Mapping[str, Any]) -> TensorSpec:
    data_type = str(field["data_type"])
    return TensorSpec(
        name=str(field["name"]),
        datatype=_DATATYPES.get(data_type, data_type.removeprefix("TYPE_")),
        dims=tuple(int(dim) for dim in field.get("dims", [])),
        optional=bool(field.get("optional", False)),
    )


@dataclass(frozen=True, slots=True)
class Prompt:
    """What `chat_tokenizer` makes of a conversation."""

    text: str
    input_ids: Sequence[int]
    num_input_tokens: int

    @classmethod
    def from_outputs(cls, outputs: Mapping[str, Sequence[Any]], tokenizer: Target) -> "Prompt":
        """Read the outputs of `chat_tokenizer`.

        Raises:
            MalformedResponseError: an output is missing.
        """
        try:
            return cls(outputs["prompt"][0], outputs["input_ids"], outputs["num_input_tokens"][0])
        except (KeyError, IndexError) as error:
            raise MalformedResponseError(
                f"its response lacks {error}, so it is no chat tokenizer", tokenizer
            ) from error


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request laid out on a model's inputs, ready for any protocol.

    Attributes:
        tensors: flat values by input name, every name being in `contract.inputs`.
        deadline_s: seconds for the server (request parameter `timeout`) and for the client.
        num_input_tokens: what is known of the prompt's length before the model has said it.
    """

    target: Target
    contract: ModelContract
    tensors: Mapping[str, TensorValues]
    stream: bool
    request_id: str
    deadline_s: float | None
    priority: int
    num_input_tokens: int | None = None

    @property
    def parameters(self) -> dict[str, int]:
        """Request parameters of Triton's schedule-policy extension; `timeout` is in microseconds."""
        parameters = {}
        if self.deadline_s is not None:
            parameters["timeout"] = round(self.deadline_s * 1_000_000)
        if self.priority:
            parameters["priority"] = self.priority
        return parameters


def needs_template(request: Request, contract: ModelContract) -> bool:
    """Whether `chat_tokenizer` has to be asked before the model can be."""
    return isinstance(request, ChatRequest) and not contract.takes_messages


def prepare(request: Request, target: Target, contract: ModelContract, prompt: Prompt | None = None) -> PreparedRequest:
    """Lay a request out on the model's inputs.

    Args:
        prompt: the templated conversation, for a ChatRequest to a model that takes no messages.

    Raises:
        RequestRefusedError: the request needs an input that the model does not have, or holds what is no character.
    """
    tensors: dict[str, TensorValues] = {}
    num_input_tokens = None
    match request:
        case ChatRequest() if prompt is not None:
            tensors["text_input"] = [prompt.text]
            num_input_tokens = prompt.num_input_tokens
            if "input_ids" in contract.inputs:
                tensors["input_ids"] = prompt.input_ids
        case ChatRequest():
            tensors["messages"] = [_messages_json(request.messages)]
        case GenerateRequest():
            tensors["text_input"] = [request.prompt]
            if request.input_ids is not None:
                tensors["input_ids"] = request.input_ids
            if request.images:
                tensors["image"] = request.images
    if request.sampling:
        tensors["sampling_parameters"] = [json.dumps(request.sampling, ensure_ascii=False)]
    if request.return_logprobs:
        tensors["return_logprobs"] = [True]
    if request.return_cumulative_logprob:
        tensors["return_cumulative_logprob"] = [True]
    _refuse_missing_inputs(tensors, target, contract)
    _refuse_half_characters(tensors, target)
    # What follows has a sensible meaning on a model without the input: an ensemble that always streams, for one.
    wishes = {
        "stream": request.stream,
        "exclude_input_in_output": not request.echo,
        "return_finish_reason": request.return_finish_reason,
        "return_num_input_tokens": request.return_num_input_tokens,
        "return_num_output_tokens": request.return_num_output_tokens,
    }
    tensors.update({name: [value] for name, value in wishes.items() if name in contract.inputs})
    return PreparedRequest(
        target=target,
        contract=contract,
        tensors=tensors,
        stream=request.stream,
        request_id=request.request_id or uuid.uuid4().hex,
        deadline_s=request.deadline_s,
        priority=request.priority,
        num_input_tokens=num_input_tokens,
    )


def template_tensors(messages: Sequence[Message], tokenizer: Target) -> dict[str, TensorValues]:
    """Lay a conversation out on the inputs of `chat_tokenizer`.

    Raises:
        RequestRefusedError: the conversation holds what is no character.
    """
    tensors: dict[str, TensorValues] = {"messages": [_messages_json(messages)]}
    _refuse_half_characters(tensors, tokenizer)
    return tensors


def text_tensors(text: str, tokenizer: Target) -> dict[str, TensorValues]:
    """Lay a text that wants no template out on the inputs of `chat_tokenizer`.

    Raises:
        RequestRefusedError: the text holds what is no character.
    """
    tensors: dict[str, TensorValues] = {"text_input": [text]}
    _refuse_half_characters(tensors, tokenizer)
    return tensors


def _messages_json(messages: Sequence[Message]) -> str:
    return json.dumps([message.as_json() for message in messages], ensure_ascii=False)


def _refuse_missing_inputs(tensors: Mapping[str, TensorValues], target: Target, contract: ModelContract) -> None:
    for name in tensors:
        if name not in contract.inputs:
            known = ", ".join(f'"{known}"' for known in contract.inputs)
            raise RequestRefusedError(
                "INVALID_ARGUMENT",
                f'it has no input "{name}", which this request needs; its inputs are {known}',
                target,
            )


def _refuse_half_characters(tensors: Mapping[str, TensorValues], target: Target) -> None:
    # Python reads bytes that are not UTF-8 from a terminal or an argument list as half surrogate pairs.
    for name, values in tensors.items():
        for value in values:
            if isinstance(value, str):
                try:
                    value.encode("utf-8")
                except UnicodeEncodeError as error:
                    message = f'"{name}" holds {value[error.start]!r}, which is no character: is the input UTF-8?'
                    raise RequestRefusedError("INVALID_ARGUMENT", message, target) from error
