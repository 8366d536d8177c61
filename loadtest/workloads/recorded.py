"""Requests out of a JSONL file, which is read once to check it and then line by line as it is needed."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from pydantic import ValidationError

from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions
from tools.client.request import JsonValue, Message

from .fitting import CountTokens
from .line import Line
from .planned import PlannedRequest, Session

# For lines that do not say, where the user does not either.
DEFAULT_MAX_TOKENS: Final = 256

_FORMS: Final = '{"messages": [{"role": "user", "content": "..."}]}, {"prompt": "..."} or {"conversations": [...]}'


@dataclass(frozen=True)
class _Longest:
    """The line with the most characters: what is checked against the model's context."""

    number: int = 0
    asked: str = ""
    max_tokens: int = 0


class RecordedWorkload:
    """Sessions in the order of a walk through the file that visits every line once before any comes again.

    Each user starts at a line and goes on in strides of its own. With several users, or more requests than lines, some
    come more than once, and prefix caching makes the repeats cheaper.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, options: LoadOptions, count_tokens: CountTokens | None) -> None:
        """Check every line; what stays in memory is where each one begins (8 bytes a line) and the longest.

        Raises:
            LoadTestError: the file cannot be read or has no request, or a line is none; or `input_tokens` is asked for.
        """
        self.name = str(path)
        if options.input_tokens is not None:
            raise LoadTestError(
                f'workload "{path}" asks what its lines say, so --input-tokens does not apply: leave it out'
            )
        self._path = path
        self._options = options
        self._count_tokens = count_tokens
        self._starts = array("Q")
        self._longest = _Longest()
        try:
            self._check_lines()
        except FileNotFoundError:
            raise LoadTestError(f'no workload file "{path}": give the path of a JSONL file') from None
        except OSError as error:
            raise LoadTestError(f'workload file "{path}" cannot be read: {error.strerror}') from None
        if not self._starts:
            raise LoadTestError(f'workload file "{path}" is empty: write one request a line, {_FORMS}')
        self.description = f"The {len(self._starts)} requests of {path.name}."

    def sessions(self, random: Random) -> Iterator[Session]:
        lines = len(self._starts)
        place = random.randrange(lines)
        stride = random.randint(1, lines)
        # A stride that has no divisor in common with the number of lines leads through all of them.
        while math.gcd(stride, lines) != 1:
            stride = random.randint(1, lines)
        while True:
            yield _Replay(self._line_at(self._starts[place]), self._options, f"{random.getrandbits(64):016x}")
            place = (place + stride) % lines

    def check_context(self, context: int) -> None:
        """Of the longest line; without a tokenizer only its answer is compared."""
        longest = self._longest
        prompt = self._count_tokens(longest.asked) if self._count_tokens else 0
        if prompt + longest.max_tokens > context:
            raise LoadTestError(
                f'workload "{self.name}" line {longest.number} has {prompt} prompt and {longest.max_tokens} output '
                f"tokens, {prompt + longest.max_tokens} together, and the model's context has {context}: shorten the "
                "line, or ask for fewer with --output-tokens"
            )

    def _check_lines(self) -> None:
        start = 0
        with self._path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    line = self._parse(text, number)
                    self._starts.append(start)
                    asked = line.asked()
                    if len(asked) > len(self._longest.asked):
                        self._longest = _Longest(number, asked, _max_tokens(line, self._options))
                start += len(text)

    def _line_at(self, start: int) -> Line:
        try:
            with self._path.open("rb") as file:
                file.seek(start)
                return Line.model_validate_json(file.readline())
        except (OSError, ValidationError) as error:
            raise LoadTestError(
                f'workload file "{self._path}" is not the one that was checked when the run began: '
                "leave it alone until the run has ended"
            ) from error

    def _parse(self, text: bytes, number: int) -> Line:
        try:
            return Line.model_validate_json(text.rstrip())
        except ValidationError as error:
            raise LoadTestError(f'workload file "{self._path}" line {number}: {_reason(error, text)}') from None


class _Replay:
    """A line as a session; the answers between its questions are the model's own."""

    def __init__(self, line: Line, options: LoadOptions, session: str) -> None:
        self._prompt = line.prompt
        self._turns = iter(line.turns())
        self._max_tokens = _max_tokens(line, options)
        self._sampling: Mapping[str, JsonValue] = {**line.sampling, **options.sampling}
        self._session = session
        self._said: list[Message] = []

    def next(self, answer: str | None) -> PlannedRequest | None:
        """See Session."""
        if self._prompt is not None:
            prompt, self._prompt = self._prompt, None
            return self._request(prompt=prompt)
        turn = next(self._turns, None)
        failed = answer is None and bool(self._said)
        if turn is None or failed:
            self._turns = iter(())
            return None
        if answer is not None:
            self._said.append(Message("assistant", answer))
        self._said.extend(turn)
        return self._request(messages=tuple(self._said))

    def _request(self, *, prompt: str | None = None, messages: tuple[Message, ...] = ()) -> PlannedRequest:
        return PlannedRequest(
            max_tokens=self._max_tokens,
            prompt=prompt,
            messages=messages,
            sampling=self._sampling,
            session=self._session,
        )


def _max_tokens(line: Line, options: LoadOptions) -> int:
    return options.output_tokens or line.max_tokens or DEFAULT_MAX_TOKENS


def _reason(error: ValidationError, text: bytes) -> str:
    """What is wrong with a line, in one sentence."""
    if text.lstrip().startswith(b"["):
        return f"a JSON array, where one object a line is expected: {_FORMS}"
    detail = error.errors()[0]
    path = ".".join(str(part) for part in detail["loc"])
    # The parser counts lines from the start of this one.
    message = "this key is required" if detail["type"] == "missing" else detail["msg"].replace(" at line 1", "")
    return f"{path + ': ' if path else ''}{message}"
