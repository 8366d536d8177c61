"""The router between Triton and engines that the test plays: where requests go, and what becomes of them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.router.stage import AWQ, BF16, EAGLE, Peer, Stage, ended, served_by, words_of
from tests.fixtures import fake_pb_utils
from tests.waiting import wait_until
from tools.backends.delivery import Delivery, Outlet
from tools.wire.messages import Delta, Failure, Tokenized
from tools.wire.release import Released

ALL_TO_BF16 = """\
routes:
- name: default
  targets: [{model: llm_bf16, version: 1, weight: 100}]
"""
WITH_FALLBACK = ALL_TO_BF16 + "  fallback: [{model: llm_awq, version: 1}, {model: llm_eagle, version: 1}]\n"
BY_LOAD = """\
routes:
- name: default
  targets: [{model: llm_eagle, version: 1, weight: 100, max_in_flight: 2}]
  fallback: [{model: llm_awq, version: 1}]
"""
SHADOWED = ALL_TO_BF16 + "  shadow: {model: llm_awq, version: 1, share: 100, max_in_flight: 2}\n"
GREEDY = {"temperature": 0}
# The stage's tokenizer reads it as words.
CONVERSATION = {"messages": "one two"}

QUEUE_FULL = Failure("UNAVAILABLE", "the queue is full", "queue_full")
DIED = Failure("UNAVAILABLE", "the engine died", "engine_died")
UNLOADING = Failure("CANCELLED", "the model is being unloaded after 0 tokens", "unloading")
RETRIABLE = pytest.mark.parametrize("failure", [QUEUE_FULL, DIED, UNLOADING], ids=lambda failure: failure.reason)


@pytest.fixture
def stage(tmp_path: Path, places: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage(tmp_path, monkeypatch)
    stage.release(ALL_TO_BF16)
    yield stage
    # What a test has left open ends now, not after the grace.
    stage.router._delivery.fail_all(Failure("INTERNAL", "the test is over"))
    stage.model.finalize()


@pytest.fixture
def bf16(stage: Stage) -> Peer:
    return stage.peers.add(BF16)


@pytest.fixture
def awq(stage: Stage) -> Peer:
    return stage.peers.add(AWQ)


@pytest.fixture
def eagle(stage: Stage) -> Peer:
    return stage.peers.add(EAGLE)


# One request


def test_a_request_reaches_its_target_and_the_answer_its_client(stage: Stage, bf16: Peer) -> None:
    asked = stage.ask(**CONVERSATION, sampling_parameters='{"max_tokens": 2}', return_num_output_tokens=True)
    (request,) = bf16.requests
    assert (request.prompt, request.token_ids, request.parameters) == ("one two", [0, 1], '{"max_tokens": 2}')
    assert request.echo is False, "a prompt that a template wrote would be repeated"
    stage.answer(bf16, "a ", "b ")
    assert ended(asked).text == "a b "
    assert served_by(asked) == BF16
    assert asked.responses[0].names() == ["text_output", "num_output_tokens", "served_model", "served_version"]
    assert stage.router.open_streams == 0


def test_a_plain_prompt_is_left_to_the_engine_unless_its_length_is_asked_for(stage: Stage, bf16: Peer) -> None:
    stage.ask(text_input="one two")
    assert (bf16.requests[-1].prompt, bf16.requests[-1].token_ids) == ("one two", None)
    long = "- name: long\n  when: {prompt_tokens: {over: 3}}\n  targets: [{model: llm_bf16, version: 1, weight: 100}]\n"
    stage.release(ALL_TO_BF16.replace("routes:\n", f"routes:\n{long}"))
    stage.ask(text_input="one two")
    assert (bf16.requests[-1].prompt, bf16.requests[-1].token_ids) == ("one two", [0, 1])


def test_the_target_is_named_once(stage: Stage, bf16: Peer) -> None:
    asked = stage.ask()
    stage.answer(bf16, "a", final=False)
    wait_until(lambda: asked.responses)
    stage.answer(bf16, "b")
    assert ["served_model" in response.names() for response in ended(asked).responses] == [True, False]


def test_what_brings_its_own_tokens_or_is_to_be_embedded_is_not_tokenized(stage: Stage, bf16: Peer) -> None:
    stage.tokenizer.failure = Failure("UNAVAILABLE", "nobody is to be asked")
    stage.ask(input_ids=[5, 6, 7], text_input="")
    stage.ask(embedding_request='{"input": "x"}', text_input="")
    assert [request.token_ids for request in bf16.requests] == [[5, 6, 7], None]


def test_a_prompt_is_repeated_on_demand(stage: Stage, bf16: Peer) -> None:
    asked = stage.ask(text_input="a b", stream=False, exclude_input_in_output=False)
    stage.answer(bf16, "!")
    assert ended(asked).text == "a b!"


def test_what_cannot_be_read_or_tokenized_is_refused(stage: Stage, bf16: Peer) -> None:
    unreadable = stage.ask(text_input=b"\xff")
    assert ended(unreadable).error.code() == "INVALID_ARG"
    stage.tokenizer.answer = lambda message: stage.tokenizer.on_tokenized(  # type: ignore[method-assign]
        Tokenized(message.key, "", [], Failure("INVALID_ARG", '"messages" is an empty list'))
    )
    refused = ended(stage.ask(messages="[]"))
    assert (refused.error.code(), words_of(refused)) == ("INVALID_ARG", '"messages" is an empty list')
    assert bf16.requests == []
    assert stage.router.open_streams == 0


def test_a_request_that_comes_just_as_the_tokenizer_goes_down_is_ended(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Delivery.open

    def open_while_it_goes_down(delivery: Delivery, key: int, outlet: Outlet) -> None:
        # The supervisor's thread, which has to wait for the router's lock if that is held.
        down = threading.Thread(target=stage.on_down, args=[Failure("UNAVAILABLE", "the tokenizer is down")])
        down.start()
        down.join(0.1)
        opened(delivery, key, outlet)
        stage.tokenizer.failure = Failure("UNAVAILABLE", "the tokenizer is down")

    monkeypatch.setattr(Delivery, "open", open_while_it_goes_down)
    assert words_of(ended(stage.ask(**CONVERSATION))) == "the tokenizer is down"
    assert not stage.router._streams


def test_while_the_tokenizer_is_down_requests_fail_and_tokens_still_go(stage: Stage, bf16: Peer) -> None:
    stage.tokenizer.held = []
    waiting = stage.ask(**CONVERSATION)
    stage.on_down(Failure("UNAVAILABLE", "the tokenizer is down"))
    assert words_of(ended(waiting)) == "the tokenizer is down"
    stage.tokenizer.answer(stage.tokenizer.held[0])
    assert bf16.requests == [], "an answer that comes too late starts nothing"
    stage.tokenizer.failure = Failure("UNAVAILABLE", "still down")
    assert words_of(ended(stage.ask(**CONVERSATION))) == "still down"
    stage.ask(input_ids=[1])
    stage.ask(text_input="plain")
    assert len(bf16.requests) == 2


def test_what_the_release_reads_does_not_reach_the_engine(stage: Stage, bf16: Peer) -> None:
    stage.release(ALL_TO_BF16 + "  sticky: customer\n")
    stage.ask({"customer": "c-1", "max_tokens": 3})
    stage.ask({"customer": "c-1"}, sampling_parameters='{"max_tokens": 4}')
    assert [request.parameters for request in bf16.requests] == ['{"max_tokens": 3}', '{"max_tokens": 4}']


def test_the_load_goes_to_the_engine_of_a_target_that_has_less(stage: Stage, bf16: Peer) -> None:
    second = stage.peers.add(BF16)
    for _ in range(4):
        stage.ask()
    assert (len(bf16.requests), len(second.requests)) == (2, 2)


def test_rules_and_keys_choose(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(
        """\
routes:
- name: long
  when: {prompt_tokens: {over: 3}}
  targets: [{model: llm_awq, version: 1, weight: 100}]
- name: sticky
  sticky: user
  targets: [{model: llm_bf16, version: 1, weight: 50}, {model: llm_awq, version: 1, weight: 50}]
"""
    )
    stage.ask(text_input="a b c d")
    assert len(awq.requests) == 1
    for user in ("ann", "bob", "eve", "joe", "kim", "lea"):
        before = len(bf16.requests), len(awq.requests)
        for _ in range(3):
            stage.ask({"user": user})
        gained = len(bf16.requests) - before[0], len(awq.requests) - before[1]
        assert sorted(gained) == [0, 3], f"{user} is answered by two targets"
    assert len(bf16.requests) >= 3
    assert len(awq.requests) >= 4


# Fallback


def test_a_target_that_is_not_ready_is_passed_over(stage: Stage, awq: Peer) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask()
    stage.answer(awq, "x")
    assert served_by(ended(asked)) == AWQ
    assert stage.metric("ladder_release_fallbacks_total", BF16, reason="not_ready") == 1
    assert stage.metric("ladder_release_requests_total", BF16) == 0
    assert stage.metric("ladder_release_requests_total", AWQ) == 1


@RETRIABLE
def test_before_the_first_token_the_next_target_takes_over(
    stage: Stage, bf16: Peer, awq: Peer, failure: Failure
) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask()
    stage.fail(bf16, failure)
    stage.answer(awq, "x ", "y")
    assert ended(asked).text == "x y"
    assert served_by(asked) == AWQ
    assert awq.requests[0].prompt == bf16.requests[0].prompt
    assert awq.requests[0].key != bf16.requests[0].key, "a late answer of the first would be taken for the second's"
    assert stage.metric("ladder_release_fallbacks_total", BF16, reason=failure.reason) == 1
    assert stage.metric("ladder_release_errors_total", BF16, reason=failure.reason) == 1


@RETRIABLE
def test_after_the_first_token_it_does_not(stage: Stage, bf16: Peer, awq: Peer, failure: Failure) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask()
    stage.answer(bf16, "x", final=False)
    stage.fail(bf16, failure)
    assert words_of(ended(asked)) == failure.message
    assert ended(asked).responses[0].values("text_output") == ["x"]
    assert awq.requests == []
    assert stage.metric("ladder_release_fallbacks_total", BF16, reason=failure.reason) == 0


@pytest.mark.parametrize(
    "failure",
    [
        Failure("INVALID_ARG", "max_tokens is wrong"),
        Failure("UNAVAILABLE", "the deadline passed", "deadline"),
        Failure("INTERNAL", "generation failed"),
        Failure("CANCELLED", "the client cancelled the request"),
    ],
    ids=["invalid", "deadline", "internal", "cancelled"],
)
def test_what_another_engine_would_not_answer_either_is_not_retried(
    stage: Stage, bf16: Peer, awq: Peer, failure: Failure, request: pytest.FixtureRequest
) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask()
    stage.fail(bf16, failure)
    assert (ended(asked).error.code(), words_of(ended(asked))) == (failure.code, failure.message)
    assert awq.requests == []
    reason = request.node.callspec.id
    assert stage.metric("ladder_release_errors_total", BF16, reason=reason) == 1


def test_an_answer_in_one_piece_is_retried_however_far_it_was(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask(stream=False)
    stage.router.on_lost(bf16)  # type: ignore[arg-type]
    stage.answer(awq, "x")
    assert ended(asked).text == "x"


def test_an_engine_that_dies_loses_its_streams_and_no_others(stage: Stage, bf16: Peer, awq: Peer) -> None:
    begun = stage.ask()
    stage.answer(bf16, "x", final=False)
    waiting = stage.ask()
    stage.release(ALL_TO_BF16.replace("llm_bf16", "llm_awq"))
    other = stage.ask()
    bf16.ready = False
    stage.router.on_lost(bf16)  # type: ignore[arg-type]
    said = 'the engine of "llm_bf16" version 1 died'
    assert [(ended(asked).error.code(), words_of(ended(asked))) for asked in (begun, waiting)] == [
        ("UNAVAILABLE", said)
    ] * 2
    stage.answer(awq, "y")
    assert ended(other).text == "y"
    assert stage.metric("ladder_release_errors_total", BF16, reason="engine_died") == 2
    assert stage.metric("ladder_release_in_flight", BF16) == 0


def test_another_engine_of_the_same_target_comes_first(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(WITH_FALLBACK)
    second = stage.peers.add(BF16)
    asked = stage.ask()
    stage.fail(bf16, DIED)
    stage.answer(second, "x")
    assert served_by(ended(asked)) == BF16
    assert awq.requests == []
    assert stage.metric("ladder_release_fallbacks_total", BF16, reason="engine_died") == 0


def test_every_target_is_tried_once_and_the_last_failure_is_told(
    stage: Stage, bf16: Peer, awq: Peer, eagle: Peer
) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask()
    for peer in (bf16, awq, eagle):
        stage.fail(peer, QUEUE_FULL)
    assert words_of(ended(asked)) == "the queue is full"
    assert [len(peer.requests) for peer in (bf16, awq, eagle)] == [1, 1, 1]
    assert stage.metric("ladder_release_fallbacks_total", AWQ, reason="queue_full") == 1
    assert stage.metric("ladder_release_fallbacks_total", EAGLE, reason="queue_full") == 0


def test_late_answers_of_a_target_that_was_left_are_dropped(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask()
    stage.fail(bf16, DIED)
    stage.answer(bf16, "late")
    stage.answer(awq, "x")
    assert ended(asked).text == "x"


def test_without_any_target_the_client_is_told_which_and_why(stage: Stage, eagle: Peer) -> None:
    asked = ended(stage.ask())
    assert (asked.error.code(), words_of(asked)) == (
        "UNAVAILABLE",
        'no target of route "default" takes the request: "llm_bf16:1" has no engine that is ready. There are engines '
        'of "llm_eagle:1": load what is missing, or name other targets in the release file',
    )
    assert stage.metric("ladder_release_errors_total", BF16, reason="not_ready") == 1
    assert stage.metric("ladder_release_requests_total", BF16) == 0


# By load


def test_no_more_than_the_bound_is_in_flight(stage: Stage, eagle: Peer, awq: Peer) -> None:
    stage.release(BY_LOAD)
    senders = [stage.ask() for _ in range(5)]
    assert (len(eagle.requests), len(awq.requests)) == (2, 3)
    assert stage.metric("ladder_release_fallbacks_total", EAGLE, reason="by_load") == 3
    stage.answer(eagle, "x", key=eagle.requests[0].key)
    ended(senders[0])
    stage.ask()
    assert (len(eagle.requests), len(awq.requests)) == (3, 3)


def test_a_walk_of_random_arrivals_and_ends_never_breaks_the_bound(stage: Stage, eagle: Peer, awq: Peer) -> None:
    stage.release(BY_LOAD)
    rng = random.Random(11)
    running: dict[int, Peer] = {}
    for _ in range(400):
        if rng.random() < 0.6:
            before = len(eagle.requests), len(awq.requests)
            stage.ask(input_ids=[1])
            peer = eagle if len(eagle.requests) > before[0] else awq
            room = sum(at is eagle for at in running.values()) < 2
            assert (peer is eagle) is room, "the bound was broken, or a free place was left"
            running[peer.requests[-1].key] = peer
        elif running:
            key, peer = running.popitem() if rng.random() < 0.5 else next(iter(running.items()))
            running.pop(key, None)
            if rng.random() < 0.3:
                stage.fail(peer, Failure("INTERNAL", "x"), key)
            else:
                stage.answer(peer, "x", key=key)
    for key, peer in running.items():
        stage.answer(peer, "x", key=key)
    assert stage.metric("ladder_release_in_flight", EAGLE) == stage.metric("ladder_release_in_flight", AWQ) == 0
    assert (eagle.in_flight, awq.in_flight) == (0, 0)


def test_beyond_the_bound_without_a_ready_fallback_the_client_is_told(stage: Stage, eagle: Peer) -> None:
    stage.release(BY_LOAD)
    for _ in range(2):
        stage.ask()
    assert '"llm_eagle:1" has 2 requests in flight, its bound; "llm_awq:1" has no engine that is ready' in words_of(
        ended(stage.ask())
    )
    assert stage.metric("ladder_release_errors_total", EAGLE, reason="by_load") == 1


# Deadlines and cancellation


def test_the_deadline_goes_to_the_engine_and_a_retry_gets_what_is_left(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(WITH_FALLBACK)
    stage.ask({"timeout": 60_000_000})
    assert bf16.requests[0].timeout_us == 60_000_000
    time.sleep(0.01)
    stage.fail(bf16, DIED)
    assert 0 < awq.requests[0].timeout_us <= 60_000_000 - 10_000


def test_what_is_out_of_time_is_not_retried(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask({"timeout": 1_000})
    time.sleep(0.002)
    stage.fail(bf16, DIED)
    assert words_of(ended(asked)) == DIED.message
    assert awq.requests == []


def test_a_cancelled_stream_is_cancelled_at_its_engine(stage: Stage, bf16: Peer) -> None:
    asked = stage.ask()
    asked.cancelled = True
    wait_until(lambda: bf16.cancelled == [bf16.requests[0].key])
    stage.fail(bf16, Failure("CANCELLED", "the client cancelled the request after 0 tokens"))
    assert ended(asked).error.code() == "CANCELLED"
    assert stage.metric("ladder_release_errors_total", BF16, reason="cancelled") == 1
    assert stage.router.open_streams == 0


def test_a_cancelled_stream_is_not_retried(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask()
    asked.cancelled = True
    wait_until(lambda: bf16.cancelled)
    stage.fail(bf16, UNLOADING)
    assert ended(asked).error.code() == "CANCELLED"
    assert awq.requests == []


def test_a_retried_stream_is_cancelled_where_it_is(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(WITH_FALLBACK)
    asked = stage.ask()
    stage.fail(bf16, DIED)
    asked.cancelled = True
    wait_until(lambda: awq.cancelled == [awq.requests[0].key])
    assert bf16.cancelled == []


def test_a_request_that_waits_for_its_tokens_can_be_cancelled(stage: Stage, bf16: Peer) -> None:
    stage.tokenizer.held = []
    asked = stage.ask(**CONVERSATION)
    asked.cancelled = True
    assert words_of(ended(asked)) == "the request was cancelled before an engine had it"
    stage.tokenizer.answer(stage.tokenizer.held[0])
    assert bf16.requests == []


def test_an_unload_cancels_what_runs_for_long(stage: Stage, bf16: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.backends.router.router._DRAIN_S", 0.05)
    stage.ask()
    stage.router.retire()
    assert [(message.keys, message.reason) for message in bf16.sent[1:]] == [([bf16.requests[0].key], "unload")]


# Shadows


def test_a_shadow_gets_a_copy_that_nobody_sees(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(SHADOWED)
    asked = stage.ask(GREEDY)
    (copy,), (request,) = awq.requests, bf16.requests
    assert (copy.prompt, copy.token_ids, copy.parameters) == (request.prompt, request.token_ids, request.parameters)
    assert copy.stream is False
    assert copy.priority > 10**9, "it would take turns with requests that somebody waits for"
    stage.answer(awq, "another")
    stage.answer(bf16, "the ", "answer")
    assert ended(asked).text == "the answer"
    assert served_by(asked) == BF16
    assert stage.metric("ladder_release_shadow_requests_total", AWQ) == 1
    assert stage.metric("ladder_release_shadow_differences_total", AWQ) == 1
    assert stage.metric("ladder_release_requests_total", AWQ) == 0, "a copy is no share of the traffic"


@pytest.mark.parametrize("shadow_first", [True, False])
def test_equal_answers_are_no_difference(stage: Stage, bf16: Peer, awq: Peer, shadow_first: bool) -> None:
    stage.release(SHADOWED)
    stage.ask(GREEDY)
    if shadow_first:
        stage.answer(awq, "the answer")
    stage.answer(bf16, "the ", "answer")
    if not shadow_first:
        stage.answer(awq, "the answer")
    assert stage.metric("ladder_release_shadow_compared_total", AWQ) == 1
    assert stage.metric("ladder_release_shadow_differences_total", AWQ) == 0


@pytest.mark.parametrize("parameters", [{}, {"temperature": 0.7}, {"temperature": 0, "n": 2}, {"temperature": "x"}])
def test_what_is_drawn_at_random_is_not_compared(
    stage: Stage, bf16: Peer, awq: Peer, parameters: dict[str, object]
) -> None:
    stage.release(SHADOWED)
    stage.ask(parameters)
    stage.answer(awq, "a")
    stage.answer(bf16, "b")
    assert stage.metric("ladder_release_shadow_requests_total", AWQ) == 1
    assert stage.metric("ladder_release_shadow_compared_total", AWQ) == 0


def test_a_shadow_that_fails_is_not_noticed(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(SHADOWED)
    asked = stage.ask(GREEDY)
    stage.fail(awq, DIED)
    stage.answer(bf16, "x")
    assert ended(asked).text == "x"
    assert stage.metric("ladder_release_shadow_failures_total", AWQ) == 1
    assert stage.metric("ladder_release_errors_total", AWQ, reason="engine_died") == 0
    other = stage.ask(GREEDY)
    stage.router.on_lost(awq)  # type: ignore[arg-type]
    stage.answer(bf16, "y")
    assert ended(other).text == "y"
    assert stage.metric("ladder_release_shadow_failures_total", AWQ) == 2
    assert awq.in_flight == 0


def test_a_shadow_that_is_slow_or_away_holds_nothing_up(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(SHADOWED)
    for _ in range(5):
        asked = stage.ask(GREEDY)
        stage.answer(bf16, "x")
        assert ended(asked).text == "x"
    assert len(awq.requests) == 2, "its bound: slow copies must not pile up"
    awq.ready = False
    asked = stage.ask(GREEDY)
    stage.answer(bf16, "x")
    assert ended(asked).text == "x"


def test_copies_take_no_place_of_a_real_request(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(
        """\
routes:
- name: shadowed
  when: {parameters: {tier: free}}
  targets: [{model: llm_bf16, version: 1, weight: 100}]
  shadow: {model: llm_awq, version: 1, share: 100}
- name: default
  targets: [{model: llm_awq, version: 1, weight: 100, max_in_flight: 1}]
  fallback: [{model: llm_bf16, version: 1}]
"""
    )
    stage.ask({"tier": "free"})
    stage.ask()
    assert [request.stream for request in awq.requests] == [False, True]


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_copy_of_what_came_to_nothing_is_cancelled(stage: Stage, bf16: Peer, awq: Peer, how: str) -> None:
    stage.release(SHADOWED)
    asked = stage.ask(GREEDY)
    if how == "cancelled":
        asked.cancelled = True
        wait_until(lambda: bf16.cancelled)
    stage.fail(bf16, Failure("CANCELLED" if how == "cancelled" else "INTERNAL", how))
    ended(asked)
    assert awq.cancelled == [awq.requests[0].key]
    stage.answer(awq, "late")
    assert stage.metric("ladder_release_shadow_compared_total", AWQ) == 0


# The release


def test_requests_follow_a_new_release_at_once(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.ask()
    stage.release(ALL_TO_BF16.replace("llm_bf16", "llm_awq"))
    stage.ask()
    assert (len(bf16.requests), len(awq.requests)) == (1, 1)
    assert stage.metric("ladder_release_weight", BF16) == 0
    assert stage.metric("ladder_release_weight", AWQ) == 1


def test_a_broken_file_leaves_the_release_in_force_and_says_so(stage: Stage, bf16: Peer) -> None:
    def broken() -> float:
        stage.router._write_metrics()
        (gauge,) = fake_pb_utils.MetricFamily.registered["ladder_release_file_broken"].metrics
        assert gauge.labels == {"model": "chat", "version": "1"}
        return gauge.value()

    assert broken() == 0
    stage.tokenizer.on_released(Released(None, "", "release.yaml:3: weights add up to 90 %"))
    stage.ask()
    assert len(bf16.requests) == 1
    assert broken() == 1
    level, line = fake_pb_utils.Logger.lines[-1]
    assert level == "error"
    assert "the release file is broken, what was in force stays in force: release.yaml:3: weights add up to" in line
    stage.release(ALL_TO_BF16)
    assert broken() == 0


# Metrics


def test_requests_are_counted_by_route_and_target(stage: Stage, bf16: Peer) -> None:
    asked = stage.ask()
    assert stage.metric("ladder_release_in_flight") == 1
    stage.answer(bf16, "a", "b", "c")
    ended(asked)
    assert stage.metric("ladder_release_in_flight") == 0
    assert stage.metric("ladder_release_requests_total") == 1
    assert stage.metric("ladder_release_ttft_seconds") == 1
    assert stage.metric("ladder_release_itl_seconds_count") == 2
    assert stage.metric("ladder_release_itl_seconds_bucket", le="+Inf") == 2
    assert stage.metric("ladder_release_e2e_seconds") == 1
    assert stage.metric("ladder_release_finished_total", finished_reason="stop") == 1
    (tokens,) = fake_pb_utils.MetricFamily.registered["ladder_release_output_tokens"].metrics
    assert tokens.observations == [3]


def test_an_answer_in_one_piece_has_no_time_to_its_first_token(stage: Stage, bf16: Peer) -> None:
    ended_one = stage.ask(stream=False)
    stage.answer(bf16, "abc")
    ended(ended_one)
    assert stage.metric("ladder_release_ttft_seconds") == 0
    assert stage.metric("ladder_release_e2e_seconds") == 1


def test_each_sequence_counts_with_its_own_finish_reason(stage: Stage, bf16: Peer) -> None:
    asked = stage.ask()
    key = bf16.requests[0].key
    for reasons, final in ((["stop", None], False), ([None, "length"], True)):
        delta = Delta(key, ["x", "y"], [1, 1], reasons, 3, final=final)
        stage.router.on_step(bf16, [delta])  # type: ignore[arg-type]
    ended(asked)
    assert stage.metric("ladder_release_finished_total", finished_reason="stop") == 1
    assert stage.metric("ladder_release_finished_total", finished_reason="length") == 1


def test_users_are_counted_where_they_are_answered(stage: Stage, bf16: Peer) -> None:
    stage.release(ALL_TO_BF16 + "  sticky: user\n")
    for user in ("ann", "bob", "ann", "ann"):
        stage.ask({"user": user})
    stage.ask()
    assert stage.metric("ladder_release_users") == 2


def test_nothing_is_kept_of_what_has_ended(stage: Stage, bf16: Peer, awq: Peer) -> None:
    stage.release(SHADOWED + "  fallback: [{model: llm_awq, version: 1}]\n")
    answered, failed, retried, cancelled = (stage.ask(GREEDY, input_ids=[1]) for _ in range(4))
    keys = [request.key for request in bf16.requests]
    stage.answer(bf16, "x", key=keys[0])
    stage.fail(bf16, Failure("INTERNAL", "x"), keys[1])
    stage.fail(bf16, DIED, keys[2])
    stage.answer(awq, "x")
    cancelled.cancelled = True
    wait_until(lambda: bf16.cancelled)
    stage.fail(bf16, Failure("CANCELLED", "x"), keys[3])
    stage.tokenizer.failure = Failure("UNAVAILABLE", "x")
    untokenized = stage.ask(**CONVERSATION)
    for sender in (answered, failed, retried, cancelled, untokenized):
        ended(sender)
    for copy in [request for request in awq.requests if not request.stream]:
        stage.answer(awq, "x", key=copy.key)
    router = stage.router
    kept = (router._streams, router._waiting, router._attempts, router._shadows._copies)
    assert [len(table) for table in kept] == [0, 0, 0, 0]
    assert (bf16.in_flight, awq.in_flight, router.open_streams) == (0, 0, 0)
