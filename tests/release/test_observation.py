"""The router's counters: read from a metrics page, and what happened between two looks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.release.windows import counts, histogram
from tools.release.errors import ReleaseError
from tools.release.observation import Counts, Histogram, Observation, observation_in, window
from tools.wire import release_metrics as names

PAGE = """\
# HELP ladder_release_requests_total Requests
# TYPE ladder_release_requests_total counter
ladder_release_requests_total{model="llm_bf16",version="1",route="default"} 100
ladder_release_requests_total{model="llm_awq",version="1",route="default"} 7
ladder_release_requests_total{model="llm_awq",version="1",route="gold"} 1000
# TYPE ladder_release_in_flight gauge
ladder_release_in_flight{model="llm_awq",version="1",route="default"} 2
# TYPE ladder_release_users gauge
ladder_release_users{model="llm_awq",version="1",route="default"} 3
# TYPE ladder_release_weight gauge
ladder_release_weight{model="llm_bf16",version="1",route="default"} 0.975
ladder_release_weight{model="llm_awq",version="1",route="default"} 0.025
# TYPE ladder_release_ttft_seconds histogram
ladder_release_ttft_seconds_count{model="llm_awq",version="1",route="default"} 4
ladder_release_ttft_seconds_sum{model="llm_awq",version="1",route="default"} 0.35
ladder_release_ttft_seconds_bucket{model="llm_awq",version="1",route="default",le="0.05"} 1
ladder_release_ttft_seconds_bucket{model="llm_awq",version="1",route="default",le="0.1"} 3
ladder_release_ttft_seconds_bucket{model="llm_awq",version="1",route="default",le="+Inf"} 4
# TYPE ladder_release_itl_seconds_bucket counter
ladder_release_itl_seconds_bucket{model="llm_awq",version="1",route="default",le="0.05"} 30
ladder_release_itl_seconds_bucket{model="llm_awq",version="1",route="default",le="+Inf"} 60
# TYPE ladder_release_itl_seconds_sum counter
ladder_release_itl_seconds_sum{model="llm_awq",version="1",route="default"} 2.5
# TYPE ladder_release_e2e_seconds histogram
ladder_release_e2e_seconds_count{model="llm_awq",version="1",route="default"} 4
ladder_release_e2e_seconds_sum{model="llm_awq",version="1",route="default"} 3
ladder_release_e2e_seconds_bucket{model="llm_awq",version="1",route="default",le="+Inf"} 4
# TYPE ladder_release_finished_total counter
ladder_release_finished_total{model="llm_awq",version="1",route="default",finished_reason="stop"} 3
ladder_release_finished_total{model="llm_awq",version="1",route="default",finished_reason="length"} 1
ladder_release_finished_total{model="llm_awq",version="1",route="default",finished_reason="abort"} 0
# TYPE ladder_release_errors_total counter
ladder_release_errors_total{model="llm_awq",version="1",route="default",reason="internal"} 1
ladder_release_errors_total{model="llm_awq",version="1",route="default",reason="cancelled"} 2
# TYPE ladder_release_fallbacks_total counter
ladder_release_fallbacks_total{model="llm_awq",version="1",route="default",reason="not_ready"} 5
ladder_release_fallbacks_total{model="llm_awq",version="1",route="default",reason="engine_died"} 9
# TYPE ladder_release_file_broken gauge
ladder_release_file_broken{model="chat",version="1"} 1
# TYPE ladder_engine_up gauge
ladder_engine_up{model="llm_awq",version="1"} 0
ladder_engine_up{model="llm_bf16",version="1"} 1
# TYPE ladder_engine_restarts_total counter
ladder_engine_restarts_total{model="llm_awq",version="1"} 3
nv_inference_count{model="llm_awq",version="1"} 12
"""


def test_a_page_is_read_by_route_and_target() -> None:
    found = observation_in(PAGE, "default", at=5.0)
    assert found.weights == {"llm_bf16:1": 97.5, "llm_awq:1": 2.5}
    assert found.engines_up == {"llm_awq:1": False, "llm_bf16:1": True}
    assert found.restarts == {"llm_awq:1": 3}
    assert (found.in_flight["llm_awq:1"], found.users["llm_awq:1"]) == (2, 3)
    assert found.file_broken
    canary = found.of("llm_awq:1")
    assert (canary.requests, canary.answered, canary.streams) == (7, 4, 4)
    assert canary.ttft == Histogram(bounds=(0.05, 0.1), counts=(1, 2, 1), sum=0.35)
    assert canary.itl == Histogram(bounds=(0.05,), counts=(30, 30), sum=2.5)
    assert canary.finished == {"stop": 3, "length": 1}


def test_not_being_ready_is_a_failure_though_another_target_answered() -> None:
    canary = observation_in(PAGE, "default", at=5.0).of("llm_awq:1")
    # What fell back from a dead engine is among its errors already.
    assert canary.errors == {"internal": 1, "cancelled": 2, "not_ready": 5}
    assert (canary.failed, canary.ended) == (6, 10)


def test_of_a_target_that_was_never_asked_there_is_nothing() -> None:
    assert observation_in(PAGE, "default", at=5.0).of("llm_eagle:1") == Counts()
    assert observation_in("", "default", at=5.0).counts == {}


def test_it_survives_json() -> None:
    found = observation_in(PAGE, "default", at=5.0)
    assert Observation.model_validate_json(found.model_dump_json()) == found


windows = st.builds(
    counts,
    st.lists(st.floats(0.001, 5), max_size=20),
    failed=st.integers(0, 5),
    cancelled=st.integers(0, 5),
)


@given(windows, windows)
def test_a_window_is_what_came_after_it_began(before: Counts, during: Counts) -> None:
    after = Counts(
        requests=before.requests + during.requests,
        answered=before.answered + during.answered,
        errors=summed(before.errors, during.errors),
        finished=summed(before.finished, during.finished),
        ttft=joined(before.ttft, during.ttft),
        itl=joined(before.itl, during.itl),
        output_tokens=joined(before.output_tokens, during.output_tokens),
    )
    found = after.since(before)
    assert found.model_copy(update={"ttft": None, "itl": None, "output_tokens": None}) == during.model_copy(
        update={"ttft": None, "itl": None, "output_tokens": None}
    )
    for one, other in ((found.ttft, during.ttft), (found.itl, during.itl), (found.output_tokens, during.output_tokens)):
        assert one.counts == other.counts
        assert one.sum == pytest.approx(other.sum)


def summed(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}


def joined(one: Histogram, other: Histogram) -> Histogram:
    pairs = zip(one.counts, other.counts, strict=True)
    return Histogram(bounds=one.bounds, counts=tuple(a + b for a, b in pairs), sum=one.sum + other.sum)


def test_the_first_requests_of_a_target_are_a_window_too() -> None:
    later = Observation(at=2, counts={"a:1": counts([0.1, 0.2])})
    assert window(later, Observation(at=1), "a:1") == counts([0.1, 0.2])


@pytest.mark.parametrize("later", [counts([0.1]), counts([0.1] * 9, itl=[0.02])])
def test_counters_that_began_again_are_refused(later: Counts) -> None:
    earlier = Observation(at=1, counts={"a:1": counts([0.1] * 5)})
    with pytest.raises(ValueError, match=r"than before"):
        window(Observation(at=2, counts={"a:1": later}), earlier, "a:1")


@given(st.data())
def test_looks_that_were_torn_are_no_restart(data: st.DataObject) -> None:
    """Each bucket's counter may already hold what comes next, or not yet."""
    steps = [histogram(data.draw(st.lists(st.sampled_from([0.5, 1.5, 2.5]), max_size=5)), (1.0, 2.0)) for _ in range(3)]
    whole = [list(accumulate(step.counts)) for step in steps]
    totals = [[sum(counts) for counts in zip(*whole[: n + 1], strict=True)] for n in range(3)]
    first, second = (
        read(before if data.draw(st.booleans()) else after for before, after in zip(*pair, strict=True))
        for pair in ((totals[0], totals[1]), (totals[1], totals[2]))
    )
    came = second.since(first)
    assert min(came.counts) >= 0
    assert came.total <= steps[1].total + steps[2].total


def read(cumulative: Iterable[int]) -> Histogram:
    """A step histogram as it is read from a page."""
    labels = '{model="llm_awq",version="1",route="default"'
    lines = [
        f'{names.ITL}_bucket{labels},le="{bound}"}} {count}'
        for bound, count in zip(("1", "2", "+Inf"), cumulative, strict=True)
    ]
    page = "\n".join([f"# TYPE {names.ITL}_bucket counter", *lines]) + "\n"
    return observation_in(page, "default", at=1.0).of("llm_awq:1").itl


@pytest.mark.parametrize(
    "page", ["<html></html>", "up{", "ladder_engine_up 1", 'ladder_engine_restarts_total{model="m",version="1"} NaN']
)
def test_the_page_of_another_program_is_refused(page: str) -> None:
    with pytest.raises(ReleaseError, match=r"^what answers as the server's metrics page is none of a tritonserver"):
        observation_in(page, "default", 0.0)


def test_other_buckets_are_refused() -> None:
    earlier = histogram([0.1], (1.0, 2.0))
    with pytest.raises(ValueError, match="buckets are others now"):
        histogram([0.1, 0.2], (1.0, 3.0)).since(earlier)
