"""One evaluation: every suite on every rung, the reference first. An interruption leaves what was measured before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tools.client.async_client import AsyncClient
from tools.client.errors import ClientError, ServerUnreachableError

from .agreement import agreement, greedy_answers, prompts
from .choice import chosen, measure_choice
from .errors import EvaluationError, NotMeasurableError
from .format_cases import Case, cases
from .format_suite import measure_format
from .mmlu_files import Subject, read_subjects
from .perplexity import Window, measure_perplexity, read_texts, token_windows
from .results import Agreement, Figure, NotMeasured, RungResult, Settings, Suite
from .rung import ServedRung
from .targets import Served

DATA: Final = Path(__file__).parent / "data"
SHIPPED: Final = "shipped"


class Progress(Protocol):
    """Where the evaluation says how far it is."""

    def begin(self, rung: str, suite: str, total: int) -> None:
        """`total` requests follow."""
        ...

    def step(self) -> None:
        """One of them has been answered."""
        ...


@dataclass(frozen=True)
class Questions:
    """What is asked, read from the files. A suite that was not asked for has nothing."""

    texts: Sequence[str]
    subjects: Sequence[Subject]
    cases: Sequence[Case]

    @classmethod
    def read(cls, settings: Settings) -> Questions:
        """Raises EvaluationError naming the file that is missing or wrong."""
        suites = settings.suites
        texts = Path(settings.text) if settings.text is not None else DATA / "text"
        mmlu = Path(settings.mmlu) if settings.mmlu is not None else DATA / "choice"
        subjects = read_subjects(mmlu) if Suite.CHOICE in suites else []
        return cls(
            texts=read_texts(texts) if Suite.PERPLEXITY in suites else [],
            subjects=chosen(subjects, settings.limit, settings.seed),
            cases=cases() if Suite.FORMAT in suites else [],
        )


class Evaluator:
    """`results` has the rungs in their order, with what has been measured so far."""

    def __init__(self, rungs: Sequence[Served], questions: Questions, settings: Settings, progress: Progress) -> None:
        """The first of `rungs` is the reference."""
        self.results = [RungResult(rung=str(rung), artifact=rung.artifact) for rung in rungs]
        self._served = rungs
        self._questions = questions
        self._settings = settings
        self._progress = progress
        self._windows: list[Window] = []
        self._reference_answers: list[list[int]] | None = None

    async def run(self, client: AsyncClient) -> None:
        """Measure everything.

        A suite that breaks on one rung is noted in its result, and the others go on. Raises EvaluationError when
        nothing can be measured, ServerUnreachableError when the server is gone.
        """
        rungs = [await self._rung(client, served) for served in self._served]
        for index, rung in enumerate(rungs):
            for suite in self._settings.suites:
                found = await self._measure_or_say_why(rung, suite)
                self.results[index] = self.results[index].model_copy(update={suite.value: found})

    async def _rung(self, client: AsyncClient, served: Served) -> ServedRung:
        contract = await asyncio.to_thread(client.server.contract, served.target)
        if "text_input" not in contract.inputs or "text_output" not in contract.outputs or contract.takes_messages:
            engine = served.target.model.replace("chat_", "llm_", 1)
            raise EvaluationError(
                f'model "{served}" is no engine: prompts and their tokens go to the model behind it, such as "{engine}"'
            )
        settings = self._settings
        return ServedRung(client, served.target, contract, settings.concurrency, settings.deadline_s)

    async def _measure_or_say_why(self, rung: ServedRung, suite: Suite) -> Figure | NotMeasured:
        try:
            return await self._measure(rung, suite)
        except ServerUnreachableError:
            raise
        except NotMeasurableError as error:
            return NotMeasured(not_measured=str(error))
        except (ClientError, EvaluationError) as error:
            return NotMeasured(not_measured=str(error), error=True)

    async def _measure(self, rung: ServedRung, suite: Suite) -> Figure:
        step, settings, questions = self._progress.step, self._settings, self._questions
        name = str(rung.target)
        match suite:
            case Suite.PERPLEXITY:
                if not self._windows:
                    self._windows = await token_windows(rung, questions.texts, settings.window)
                self._progress.begin(name, suite, len(self._windows))
                return await measure_perplexity(rung, self._windows, settings.text or SHIPPED, step)
            case Suite.CHOICE:
                total = sum(len(subject.questions) for subject in questions.subjects)
                self._progress.begin(name, suite, total)
                return await measure_choice(rung, questions.subjects, settings.mmlu or SHIPPED, step)
            case Suite.FORMAT:
                self._progress.begin(name, suite, len(questions.cases))
                return await measure_format(rung, questions.cases, step)
            case Suite.AGREEMENT:
                self._progress.begin(name, suite, len(prompts()))
                return await self._agreement(rung)

    async def _agreement(self, rung: ServedRung) -> Agreement:
        answers = await greedy_answers(rung, self._progress.step)
        if rung.target == self._served[0].target:
            self._reference_answers = answers
        if self._reference_answers is None:
            raise EvaluationError(f'the reference "{self._served[0]}" gave no answers to compare with')
        return agreement(self._reference_answers, answers)
