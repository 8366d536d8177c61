"""Sessions made up from a definition and a stream of random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Final

from loadtest.errors import LoadTestError
from tools.client.request import Message

from .corpus import corpus
from .definition import Definition, Language
from .fitting import CountTokens, NoSuchLengthError, estimate_tokens, fit
from .planned import PlannedRequest, Session

_ESTIMATED: Final = (
    "Prompt lengths are estimates, 4 ASCII characters or 1 other character a token; "
    "what is reported is the server's own count."
)


@dataclass(frozen=True)
class GeneratedWorkload:
    """A definition at work.

    Attributes:
        seed: of the system message, which all users share; everything else comes from each user's own stream.
        count_tokens: the tokenizer of the model under test; None estimates.
    """

    name: str
    definition: Definition
    seed: int
    count_tokens: CountTokens | None

    @property
    def description(self) -> str:
        return self.definition.description

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.count_tokens else (_ESTIMATED,)

    def sessions(self, random: Random) -> Iterator[Session]:
        while True:
            # A generator of its own, so that a session is the same however many numbers the one before used up.
            yield _Conversation(self, Random(random.getrandbits(64)))  # noqa: S311  # prompts, not secrets

    def check_context(self, context: int) -> None:
        prompt, output = self.definition.most_prompt_tokens, self.definition.output_tokens.most_tokens
        if prompt + output > context:
            raise LoadTestError(
                f'workload "{self.name}" goes up to {prompt} prompt and {output} output tokens, {prompt + output} '
                f"together, and the model's context has {context}: ask for fewer with --input-tokens or "
                "--output-tokens, or choose another workload"
            )

    @cached_property
    def system_messages(self) -> dict[Language, Message]:
        """By language; none when the definition has no system message."""
        tokens = self.definition.system_tokens
        if tokens is None:
            return {}
        return {
            language: Message("system", self.text(language, tokens, Random(f"system {self.seed} {language}")))  # noqa: S311
            for language in self.definition.languages
        }

    def text(self, language: Language, tokens: int, random: Random) -> str:
        """Raises LoadTestError where the tokenizer cannot make a text of so many tokens."""
        source = corpus(language)
        try:
            return fit(source.pieces(random), tokens, self.count_tokens or estimate_tokens, source.fillers)
        except NoSuchLengthError as error:
            raise LoadTestError(
                f'workload "{self.name}": {error}: choose another length with --input-tokens, or check the tokenizer'
            ) from error


class _Conversation:
    """A session of `turns` requests; answers are the model's own."""

    def __init__(self, workload: GeneratedWorkload, random: Random) -> None:
        definition = workload.definition
        self._workload = workload
        self._random = random
        self._session = f"{random.getrandbits(64):016x}"
        languages = list(definition.languages)
        self._language = random.choices(languages, weights=[definition.languages[each] for each in languages])[0]
        self._turns_left = definition.turns.draw(random)
        system = workload.system_messages.get(self._language)
        self._said: list[Message] = [system] if system else []
        self._is_first = True

    def next(self, answer: str | None) -> PlannedRequest | None:
        """See Session."""
        failed = answer is None and not self._is_first
        if failed or self._turns_left == 0:
            self._turns_left = 0
            return None
        definition, random = self._workload.definition, self._random
        think_s = 0.0 if self._is_first or definition.think_s is None else definition.think_s.draw(random)
        max_tokens = definition.output_tokens.draw_tokens(random)
        # Its own generator again: the tokenizer decides how much of the text is drawn, and must not shift later draws.
        question = self._workload.text(
            self._language,
            definition.input_tokens.draw_tokens(random),
            Random(random.getrandbits(64)),  # noqa: S311  # prompts, not secrets
        )
        if answer is not None:
            self._said.append(Message("assistant", answer))
        self._said.append(Message("user", question))
        self._turns_left -= 1
        self._is_first = False
        return PlannedRequest(
            max_tokens=max_tokens,
            prompt=question if definition.form == "prompt" else None,
            messages=() if definition.form == "prompt" else tuple(self._said),
            exact=definition.exact,
            sampling=definition.sampling,
            session=self._session,
            think_s=think_s,
        )
