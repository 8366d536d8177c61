"""Sessions that are made up: the same for the same seed, different otherwise, and as long as the definition says."""

from __future__ import annotations

import statistics
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.errors import LoadTestError
from loadtest.workloads.catalogue import load_workload, workload_names
from loadtest.workloads.planned import PlannedRequest, Workload, stream
from tests.loadtest.workloads.tokenizers import options, pieces_of_words, utf8_bytes, words_and_marks

ANSWER = "An answer of the model."


def turns(
    workload: Workload, seed: int, sessions: int, *, worker: int = 0, user: int = 0
) -> list[list[PlannedRequest]]:
    conversations = []
    for session in islice(workload.sessions(stream(seed, worker, user)), sessions):
        requests = []
        request = session.next(None)
        while request is not None:
            requests.append(request)
            request = session.next(ANSWER)
        conversations.append(requests)
    return conversations


def first_requests(
    workload: Workload, seed: int, sessions: int, *, worker: int = 0, user: int = 0
) -> list[PlannedRequest]:
    return [requests[0] for requests in turns(workload, seed, sessions, worker=worker, user=user)]


def question(request: PlannedRequest) -> str:
    return request.prompt if request.prompt is not None else request.messages[-1].content


@pytest.mark.slow
@settings(max_examples=20)
@given(st.sampled_from(workload_names()), st.integers(0, 2**63), st.integers(0, 1000), st.integers(0, 10**6))
def test_the_same_seed_gives_the_same_sessions(name: str, seed: int, worker: int, user: int) -> None:
    drawn = [
        turns(load_workload(options(name, seed=seed), count_tokens=None), seed, 4, worker=worker, user=user)
        for _ in range(2)
    ]
    assert drawn[0] == drawn[1]


@pytest.mark.slow
@settings(max_examples=20)
@given(
    st.sampled_from(workload_names()),
    st.lists(st.tuples(*[st.integers(0, 20)] * 3), min_size=2, max_size=4, unique=True),
)
def test_other_seeds_workers_and_users_get_other_prompts(name: str, streams: list[tuple[int, int, int]]) -> None:
    workload = load_workload(options(name), count_tokens=None)
    prompts = [
        question(request)
        for seed, worker, user in streams
        for request in first_requests(workload, seed, 10, worker=worker, user=user)
    ]
    assert len(set(prompts)) == len(prompts)


@pytest.mark.parametrize("name", workload_names())
def test_no_prompt_begins_like_another(name: str) -> None:
    workload = load_workload(options(name), count_tokens=None)
    beginnings = [question(request)[:9] for request in first_requests(workload, 0, 200)]
    assert len(set(beginnings)) == 200


def test_a_stream_does_not_hang_together_with_its_neighbours() -> None:
    firsts = [stream(seed, worker, user).random() for seed in range(8) for worker in range(8) for user in range(8)]
    assert len(set(firsts)) == 512
    assert statistics.mean(firsts) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(("name", "tokens"), [("fixed-50-256", 50), ("fixed-200-256", 200)])
def test_fixed_lengths_are_exact(name: str, tokens: int) -> None:
    for count in (words_and_marks, utf8_bytes, pieces_of_words):
        for request in first_requests(load_workload(options(name), count_tokens=count), 0, 20):
            assert request.prompt is not None
            assert count(request.prompt) == tokens
            assert (request.max_tokens, request.exact) == (256, True)


@pytest.mark.slow
def test_chat_has_the_lengths_its_file_states() -> None:
    requests = first_requests(load_workload(options("chat"), count_tokens=words_and_marks), 0, 2000)
    prompts = [words_and_marks(question(request)) for request in requests]
    answers = [request.max_tokens for request in requests]
    assert statistics.median(prompts) == pytest.approx(60, rel=0.1)
    assert statistics.quantiles(prompts, n=10)[-1] == pytest.approx(240, rel=0.15)
    assert statistics.median(answers) == pytest.approx(100, rel=0.1)
    assert statistics.quantiles(answers, n=10)[-1] == pytest.approx(256, rel=0.15)
    assert min(prompts) >= 16
    assert max(prompts) <= 512
    assert max(answers) <= 512


@pytest.mark.parametrize(("name", "share"), [("chat", 0.3), ("zh", 1.0), ("en", 0.0)])
def test_languages_have_their_shares(name: str, share: float) -> None:
    questions = [question(each) for each in first_requests(load_workload(options(name), count_tokens=None), 0, 1000)]
    chinese = sum(text[9] == "：" for text in questions)
    assert chinese / 1000 == pytest.approx(share, abs=0.05)


def test_a_shared_prefix_is_the_same_for_all_users_and_another_for_another_seed() -> None:
    workload = load_workload(options("shared-prefix"), count_tokens=words_and_marks)
    requests = [request for user in range(5) for request in first_requests(workload, 0, 5, worker=user % 2, user=user)]
    systems = {request.messages[0] for request in requests}
    assert len(systems) == 1
    (system,) = systems
    assert (system.role, words_and_marks(system.content)) == ("system", 768)
    assert len({request.messages[1].content for request in requests}) == 25
    other = load_workload(options("shared-prefix", seed=1), count_tokens=words_and_marks)
    assert first_requests(other, 0, 1)[0].messages[0].content[:9] != system.content[:9]


def test_a_conversation_goes_on_from_the_models_own_answers() -> None:
    conversations = turns(load_workload(options("multi-turn"), count_tokens=None), 0, 100)
    assert {len(requests) for requests in conversations} == {2, 3, 4, 5}
    for requests in conversations:
        assert len({request.session for request in requests}) == 1
        assert requests[0].think_s == 0
        for before, request in pairwise(requests):
            assert request.messages[: len(before.messages)] == before.messages
            assert [each.role for each in request.messages[len(before.messages) :]] == ["assistant", "user"]
            assert request.messages[-2].content == ANSWER
            assert 0.5 <= request.think_s <= 15
    assert len({requests[0].session for requests in conversations}) == 100


def test_a_conversation_ends_with_a_failed_turn() -> None:
    session = next(load_workload(options("multi-turn"), count_tokens=None).sessions(stream(0, 0, 0)))
    assert session.next(None) is not None
    assert session.next(None) is None
    assert session.next("late") is None


def test_the_tokenizer_changes_lengths_only() -> None:
    plain, counted = (
        turns(load_workload(options("multi-turn"), count_tokens=count), 0, 20) for count in (None, utf8_bytes)
    )
    for ours, theirs in zip(plain, counted, strict=True):
        assert [(each.max_tokens, each.think_s, each.session) for each in ours] == [
            (each.max_tokens, each.think_s, each.session) for each in theirs
        ]


def test_lengths_and_sampling_of_the_user_go_first() -> None:
    asked = options("chat", input_tokens=40, output_tokens=7, sampling={"temperature": 0.5, "top_k": 20})
    for request in first_requests(load_workload(asked, count_tokens=words_and_marks), 0, 20):
        assert words_and_marks(question(request)) == 40
        assert request.max_tokens == 7
        assert request.sampling == {"temperature": 0.5, "top_k": 20}


def test_estimated_lengths_are_said_once() -> None:
    note = (
        "Prompt lengths are estimates, 4 ASCII characters or 1 other character a token; "
        "what is reported is the server's own count."
    )
    assert load_workload(options("mix"), count_tokens=None).notes == (note,)
    assert load_workload(options("mix"), count_tokens=words_and_marks).notes == ()


def test_a_length_that_the_tokenizer_cannot_make_is_said_before_the_run() -> None:
    with pytest.raises(LoadTestError) as caught:
        load_workload(options("fixed-50-256", input_tokens=51), count_tokens=lambda text: len(text) // 4 * 2)
    assert str(caught.value) == (
        'workload "fixed-50-256": no text of exactly 51 tokens could be made: the nearest has 50: '
        "choose another length with --input-tokens, or check the tokenizer"
    )


def test_a_context_that_is_too_small_is_said_with_the_figures() -> None:
    workload = load_workload(options("fixed-200-256"), count_tokens=None)
    workload.check_context(456)
    with pytest.raises(LoadTestError) as caught:
        workload.check_context(455)
    assert str(caught.value) == (
        'workload "fixed-200-256" goes up to 200 prompt and 256 output tokens, 456 together, and the model\'s context '
        "has 455: ask for fewer with --input-tokens or --output-tokens, or choose another workload"
    )


@pytest.mark.parametrize("name", workload_names())
def test_what_is_asked_stays_inside_the_context_that_was_checked(name: str) -> None:
    workload = load_workload(options(name), count_tokens=words_and_marks)
    workload.check_context(2048)
    for requests in turns(workload, 0, 50):
        for request in requests:
            said = sum(words_and_marks(message.content) for message in request.messages)
            prompt = said if request.prompt is None else words_and_marks(request.prompt)
            assert prompt + request.max_tokens <= 2048
