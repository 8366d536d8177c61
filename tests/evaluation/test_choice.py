"""Multiple choice: the prompt, the restriction to four letters, and the count."""

from __future__ import annotations

import asyncio

import pytest

from tests.evaluation.fake_rung import TARGET, FakeRung, completion, no_step
from tools.client.completion import Completion
from tools.client.errors import RequestRefusedError
from tools.client.request import GenerateRequest
from tools.evaluation.choice import chosen, letter_tokens, measure_choice, prompt_of
from tools.evaluation.errors import EvaluationError
from tools.evaluation.mmlu_files import Question, Subject
from tools.evaluation.results import Choice, SubjectAccuracy

EXAMPLES = (Question("One?", ("1", "2", "3", "4"), "A"), Question("Two?", ("1", "2", "3", "4"), "B"))
QUESTIONS = tuple(Question(f"Is {n} even?", ("no", "yes", "both", "none"), "B") for n in (2, 4, 6, 8))
MATHS = Subject("basic_maths", EXAMPLES, QUESTIONS)


class LetterRung(FakeRung):
    """Has a token for every letter after the cue, as real tokenizers do."""

    async def tokenize(self, text: str) -> list[int]:
        _, cue, letter = text.partition("Answer: ")
        return [7, 8, ord(letter)] if cue else [7, 8]


def measure(rung: FakeRung, *subjects: Subject) -> Choice:
    return asyncio.run(measure_choice(rung, subjects, "mine", no_step))


def test_the_prompt_is_that_of_mmlus_authors() -> None:
    assert prompt_of(MATHS, QUESTIONS[0], 1) == (
        "The following are multiple choice questions (with answers) about basic maths.\n"
        "\n"
        "One?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: A\n"
        "\n"
        "Is 2 even?\nA. no\nB. yes\nC. both\nD. none\nAnswer:"
    )


def test_vllm_chooses_among_the_four_letters() -> None:
    rung = LetterRung(lambda request: completion(" A" if "Is 4" in request.prompt else " B"))
    found = measure(rung, MATHS)
    assert (found.questions, found.correct, found.accuracy, found.unanswered) == (4, 3, 75.0, 0)
    assert found.standard_error == pytest.approx(100 * (0.75 * 0.25 / 4) ** 0.5)
    assert found.subjects == {"basic_maths": SubjectAccuracy(questions=4, correct=3)}
    assert {tuple(request.sampling["allowed_token_ids"]) for request in rung.asked} == {tuple(map(ord, "ABCD"))}


def test_another_engine_is_asked_for_its_likeliest_token() -> None:
    rung = FakeRung(lambda request: completion(" The" if "Is 4" in request.prompt else "B"), vllm=False)
    found = measure(rung, MATHS)
    assert (found.correct, found.unanswered) == (3, 1)
    assert all("allowed_token_ids" not in request.sampling for request in rung.asked)


def test_a_prompt_that_is_too_long_loses_examples_from_the_end() -> None:
    def at_most_one_example(request: GenerateRequest) -> Completion:
        if "Two?" in request.prompt:
            raise RequestRefusedError("INVALID_ARGUMENT", "too long", TARGET)
        return completion("B")

    found = measure(LetterRung(at_most_one_example), MATHS)
    assert (found.correct, found.shortened) == (4, 4)


def test_a_question_that_is_refused_without_examples_as_well_is_an_error() -> None:
    def never(request: GenerateRequest) -> Completion:
        raise RequestRefusedError("INVALID_ARGUMENT", "too long", TARGET)

    with pytest.raises(RequestRefusedError, match="too long"):
        measure(LetterRung(never), MATHS)


def test_letters_that_are_no_single_tokens_are_refused() -> None:
    assert asyncio.run(letter_tokens(LetterRung())) == [65, 66, 67, 68]
    with pytest.raises(EvaluationError, match=r'^the tokenizer does not write " A" after "Answer:" as one token'):
        asyncio.run(letter_tokens(FakeRung()))


def test_a_limit_keeps_the_same_questions_for_the_same_seed() -> None:
    [kept] = chosen([MATHS], 2, 1)
    assert len(kept.questions) == 2
    assert set(kept.questions) < set(QUESTIONS)
    assert kept.examples == EXAMPLES
    assert chosen([MATHS], 2, 1) == [kept]
    assert any(chosen([MATHS], 2, seed) != [kept] for seed in range(2, 8))
    assert chosen([MATHS], 99, 1) == chosen([MATHS], None, 1) == [MATHS]
