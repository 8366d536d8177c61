"""Multiple choice as MMLU's authors ask it: examples, the question, and one letter after "Answer:".

vLLM is made to choose among the tokens " A" to " D", which is the comparison of their probabilities. Where a model
takes no such restriction its greedy token counts, if it is a letter: the likeliest token of all is then the likeliest
of the four as well, so both ways give the same answer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.client.errors import RequestRefusedError
from tools.client.request import GenerateRequest, JsonValue

from .errors import EvaluationError
from .mmlu_files import LETTERS, Question, Subject
from .results import Choice, SubjectAccuracy
from .rung import Rung, Step, all_of

# Of vLLM's contract, in NVIDIA's backend and in ours; an engine without it takes none of vLLM's own parameters either.
_VLLM_INPUT = "return_logprobs"
_CUE = "Answer:"


@dataclass(frozen=True)
class _Answer:
    """`letter` is None for an answer that is none; `examples` is how many the prompt held."""

    letter: str | None
    examples: int


def chosen(subjects: Sequence[Subject], limit: int | None, seed: int) -> list[Subject]:
    """At most `limit` questions of each subject, the same ones for the same seed, in the file's order."""
    if limit is None:
        return list(subjects)
    return [
        Subject(subject.name, subject.examples, _sample(subject.questions, limit, f"{seed} {subject.name}"))
        for subject in subjects
    ]


def _sample(questions: Sequence[Question], limit: int, seed: str) -> tuple[Question, ...]:
    kept = random.Random(seed).sample(range(len(questions)), min(limit, len(questions)))  # noqa: S311 - repeatable
    return tuple(questions[index] for index in sorted(kept))


def prompt_of(subject: Subject, question: Question, examples: int) -> str:
    """The prompt of MMLU's authors, with the first `examples` of the subject's."""
    name = subject.name.replace("_", " ")
    shown = "".join(f"{_asked(example)} {example.answer}\n\n" for example in subject.examples[:examples])
    return f"The following are multiple choice questions (with answers) about {name}.\n\n{shown}{_asked(question)}"


def _asked(question: Question) -> str:
    options = "".join(f"{letter}. {text}\n" for letter, text in zip(LETTERS, question.options, strict=True))
    return f"{question.text}\n{options}{_CUE}"


async def measure_choice(rung: Rung, subjects: Sequence[Subject], dataset: str, step: Step) -> Choice:
    """Ask every question; `dataset` names the set. Raises ClientError, EvaluationError."""
    sampling: dict[str, JsonValue] = {"temperature": 0.0, "max_tokens": 1}
    if _VLLM_INPUT in rung.contract.inputs:
        sampling["allowed_token_ids"] = await letter_tokens(rung)
    asked = [(subject, question) for subject in subjects for question in subject.questions]
    answers = await all_of([_ask(rung, subject, question, sampling) for subject, question in asked], step)
    found: dict[str, SubjectAccuracy] = {}
    for subject in subjects:
        own = [
            answer.letter == question.answer
            for (of, question), answer in zip(asked, answers, strict=True)
            if of is subject
        ]
        found[subject.name] = SubjectAccuracy(questions=len(own), correct=sum(own))
    questions, correct = len(asked), sum(subject.correct for subject in found.values())
    share = correct / questions
    return Choice(
        dataset=dataset,
        questions=questions,
        correct=correct,
        accuracy=100 * share,
        standard_error=100 * math.sqrt(share * (1 - share) / questions),
        unanswered=sum(answer.letter is None for answer in answers),
        shortened=sum(
            answer.examples < len(subject.examples) for (subject, _), answer in zip(asked, answers, strict=True)
        ),
        subjects=found,
    )


async def letter_tokens(rung: Rung) -> list[int]:
    """The tokens of " A" to " D" after the cue. Raises EvaluationError when a letter is not one token of its own."""
    before = await rung.tokenize(_CUE)
    found = []
    for letter in LETTERS:
        ids = await rung.tokenize(f"{_CUE} {letter}")
        if ids[:-1] != before:
            raise EvaluationError(
                f'the tokenizer does not write " {letter}" after "{_CUE}" as one token: MMLU cannot be scored by one'
            )
        found.append(ids[-1])
    return found


async def _ask(rung: Rung, subject: Subject, question: Question, sampling: Mapping[str, JsonValue]) -> _Answer:
    """As many examples as the context takes, as MMLU's authors do it."""
    examples = len(subject.examples)
    while True:
        request = GenerateRequest(prompt=prompt_of(subject, question, examples), sampling=sampling, stream=False)
        try:
            letter = (await rung.complete(request)).text.strip()
        except RequestRefusedError:
            if not examples:
                raise
            examples -= 1
            continue
        return _Answer(letter if letter in LETTERS else None, examples)
