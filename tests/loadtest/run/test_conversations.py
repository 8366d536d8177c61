"""Who says what next."""

from __future__ import annotations

from loadtest.run.conversations import Conversation, Turns
from tests.loadtest.run.fakes import FakeWorkload


def test_a_session_goes_on_with_its_answers_and_the_next_one_follows() -> None:
    workload = FakeWorkload(turns=2)
    conversation = Conversation(workload, "seed")

    prompts = [conversation.next(None).prompt]
    prompts += [conversation.next(answer).prompt for answer in ("one", "two")]

    assert [str(prompt).split("/", 1)[1] for prompt in prompts] == ["0/0", "0/1", "1/0"]
    assert [session.answers for session in workload.opened] == [[None, "one", "two"], [None]]


def test_what_is_made_up_beforehand_is_what_would_be_said_anyway() -> None:
    prepared, plain = (Conversation(FakeWorkload(turns=2), "seed") for _ in range(2))
    prepared.prepare(3)
    prepared.prepare(2)

    answers = (None, "one", None, None, "two", "three", None)
    assert [prepared.next(answer) for answer in answers] == [plain.next(answer) for answer in answers]


def test_a_failed_turn_ends_its_session() -> None:
    workload = FakeWorkload(turns=5)
    conversation = Conversation(workload, "seed")
    conversation.next(None)

    assert str(conversation.next(None).prompt).endswith("1/0")


def test_the_same_seed_is_the_same_conversation() -> None:
    first, again, other = (Conversation(FakeWorkload(), seed) for seed in ("a", "a", "b"))

    assert first.next(None) == again.next(None)
    assert first.next(None) != other.next(None)


def test_an_open_loop_goes_on_with_who_waited_longest_and_else_begins() -> None:
    turns = Turns(FakeWorkload(turns=2), "seed")
    (first, _), (second, _) = turns.next(), turns.next()
    turns.answered(second, "second's answer")
    turns.answered(first, "first's answer")

    assert [turns.next()[0] for _ in range(2)] == [second, first]
    assert turns.next()[0] not in (first, second)


def test_a_turn_that_was_not_taken_is_the_next_one() -> None:
    turns = Turns(FakeWorkload(), "seed")
    turn = turns.next()
    turns.give_back(turn)

    assert turns.next() is turn
