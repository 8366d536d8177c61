"""One answer as a JSON object: what `ladder ask --json` prints, one object a line."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from tools.client.address import Endpoint
from tools.client.completion import Completion
from tools.client.errors import ClientError
from tools.client.question import Question
from tools.client.request import Target
from tools.client.rungs import Rung


class ErrorRecord(BaseModel):
    """Why there is no whole answer. `code` is `ClientError.code`."""

    model_config = ConfigDict(frozen=True)

    code: str
    message: str


class AnswerRecord(BaseModel):
    """One question and what became of it. Times are in milliseconds; what was not measured is null.

    Attributes:
        rung: label of the ladder's rung, null for models that are not on it.
        model: null only if none could be chosen.
        version: the version that answered, or the one asked for if none did.
        tokens_per_s: output tokens of this request / e2e.
        template_ms: applying the chat template as a request of its own, before and beside the other times.
    """

    model_config = ConfigDict(frozen=True)

    rung: str | None
    model: str | None
    version: int | None
    url: str
    question: str
    sampling_parameters: dict[str, Any]
    answer: str | None = None
    finish_reason: str | None = None
    num_input_tokens: int | None = None
    num_output_tokens: int | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    tokens_per_s: float | None = None
    template_ms: float | None = None
    error: ErrorRecord | None = None


def answer_record(
    *,
    rung: Rung | None,
    target: Target | None,
    endpoint: Endpoint,
    question: Question,
    completion: Completion | None = None,
    error: ClientError | None = None,
) -> AnswerRecord:
    """The record of an answer, of an error, or of what had arrived before the error."""
    served_by = completion.served_by if completion is not None else target
    record = AnswerRecord(
        rung=rung.label if rung is not None else None,
        model=served_by.model if served_by is not None else None,
        version=served_by.version if served_by is not None else None,
        url=endpoint.url,
        question=question.text,
        sampling_parameters=dict(question.sampling),
        error=None if error is None else ErrorRecord(code=error.code, message=error.message),
    )
    if completion is None:
        return record
    measured = {
        "answer": completion.text,
        "finish_reason": completion.finish_reason,
        "num_input_tokens": completion.num_input_tokens,
        "num_output_tokens": completion.num_output_tokens,
        "ttft_ms": _milliseconds(completion.ttft_s),
        "tpot_ms": _milliseconds(completion.tpot_s),
        "e2e_ms": _milliseconds(completion.e2e_s),
        "tokens_per_s": completion.tokens_per_s,
        "template_ms": _milliseconds(completion.template_s),
    }
    return record.model_copy(update=measured)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
