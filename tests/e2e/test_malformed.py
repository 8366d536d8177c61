"""500 wrong requests: every one is answered, and afterwards every rung answers a right one, with the same engine."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import pytest

from tests.e2e.asking import RefusedError, Triton, Way, text_of
from tests.e2e.deployment import Deployment
from tests.e2e.malformed import Case, cases
from tests.e2e.metrics import at_rest
from tests.e2e.rungs import AWQ, BASELINES, CHATS, EAGLE, LLM, ROUTER, TOKENIZER, conversation, sampling

COUNT = 500
AT_ONCE = 8


def test_after_500_malformed_requests_every_rung_answers_and_no_engine_has_restarted(
    server: Deployment, triton: Triton
) -> None:
    before = at_rest(server.address, LLM.name)
    engines = server.engines()
    assert len(engines) == len({LLM, AWQ, EAGLE, *BASELINES, TOKENIZER, ROUTER})
    failures = list(_send_all(triton, list(cases(COUNT, server.address))))
    assert not failures, "\n".join(failures)

    # No engine has ended, not even to be started again.
    assert server.engines() == engines
    after = at_rest(server.address, LLM.name)
    counted = after.since(before)
    assert counted["ladder_engine_restarts_total"] == 0
    assert counted["ladder_requests_failed_total"] == 0
    # The test is about requests that reach the model, too.
    assert counted.at("ladder_requests_rejected_total", reason="invalid") > 20

    greedy = {"sampling_parameters": sampling(3), "exclude_input_in_output": True}
    for model in (LLM, *BASELINES):
        answer = triton.ask(Way.GENERATE, model, {"text_input": "The capital of France is", **greedy})
        assert text_of(answer) == " Paris.\n", model
    for model in CHATS:
        answer = triton.ask(Way.SSE, model, {"messages": conversation("Hi!"), **greedy, "stream": True})
        assert text_of(answer), model
    assert triton.infer(TOKENIZER, {"text_input": "The capital of France is"})["num_input_tokens"] == [5]


def _send_all(triton: Triton, wrong: list[Case]) -> Iterator[str]:
    """What went wrong with each case that was not answered as anything may be."""

    def send(case: Case) -> str:
        try:
            case.send(triton)
        except (AssertionError, httpx.HTTPError, grpc.RpcError, OSError) as error:
            # Collected: one must not hide the others.
            return f"{case.name}: {type(error).__name__}: {error}"
        return ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from filter(None, pool.map(send, wrong))


def test_the_cases_are_the_same_at_every_run(server: Deployment) -> None:
    names = [case.name for case in cases(COUNT, server.address)]
    assert names == [case.name for case in cases(COUNT, server.address)]
    assert len(set(names)) == COUNT


@pytest.mark.parametrize("way", Way, ids=lambda way: way.value)
def test_text_that_is_not_utf_8_is_refused_by_name(triton: Triton, way: Way) -> None:
    if way is Way.GRPC:
        with pytest.raises(RefusedError, match='"text_input" is not UTF-8: byte 1 is 0xff'):
            triton.ask(way, LLM, {"text_input": b"a\xff"})
        return
    body = b'{"text_input": "a\xff", "max_tokens": 1}'
    response = triton.http.post(f"{LLM.path}/{way.value}", content=body)
    assert response.status_code == 400
    assert '"text_input" is not UTF-8: byte 1 is 0xff' in response.text.replace("\\", "")
