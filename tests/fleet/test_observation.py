from __future__ import annotations

import pytest

from tools.fleet.observation import ServerLook, Tally, fleet_observation, server_look, total
from tools.fleet.plan import CANARY, STABLE
from tools.release.observation import Counts, Histogram

PAGE = """\
ladder_release_requests_total{model="a",version="1",route="vip"} 3
ladder_release_requests_total{model="a",version="1",route="default"} 7
ladder_release_requests_total{model="b",version="2",route="default"} 5
ladder_release_in_flight{model="a",version="1",route="default"} 2
ladder_release_in_flight{model="b",version="2",route="default"} 1
ladder_release_errors_total{model="b",version="2",route="default",reason="queue_full"} 4
ladder_release_file_broken{model="chat",version="1"} 1
ladder_engine_up{model="a",version="1"} 1
ladder_engine_up{model="b",version="2"} 0
ladder_engine_restarts_total{model="b",version="2"} 2
"""


def test_routes_and_targets_of_a_server_are_added_up() -> None:
    look = server_look(PAGE, starts=1)
    assert (look.counts.requests, look.counts.errors, look.in_flight) == (15, {"queue_full": 4}, 3)
    assert (look.engines_up, look.engine_restarts, look.file_broken) == (False, 2, True)


def test_a_server_without_a_router_has_counted_nothing() -> None:
    look = server_look('ladder_engine_up{model="a",version="1"} 1\n', starts=1)
    assert look == ServerLook(starts=1)


def test_a_start_of_the_server_is_one_more_restart_though_its_engines_count_from_nothing_again() -> None:
    assert ServerLook(starts=2, engine_restarts=0).restarts > ServerLook(starts=1, engine_restarts=7).restarts


def test_counts_go_on_growing_when_a_server_counts_from_nothing_again() -> None:
    tally = Tally()
    looks = [(1, 5), (1, 9), (2, 2), (2, 4), (4, 1)]
    seen = [tally.add(ServerLook(starts, Counts(requests=count))).counts.requests for starts, count in looks]
    assert seen == [5, 9, 11, 13, 14]
    assert tally.sum.requests == 14


def test_a_track_is_all_its_servers() -> None:
    servers = [ServerLook(1, Counts(requests=2), in_flight=1), ServerLook(3, Counts(requests=5), in_flight=2)]
    look = fleet_observation({STABLE: servers, CANARY: [ServerLook(1)]}, [CANARY], {STABLE: 100.0}, at=7.0)
    assert look.of(STABLE).requests == 7
    assert look.in_flight == {STABLE: 3, CANARY: 0}
    assert look.engines_up == {STABLE: True, CANARY: False}
    assert look.restarts[STABLE] == 4 * ServerLook(1).restarts
    assert (look.at, look.weights) == (7.0, {STABLE: 100.0})


def test_histograms_are_added_bucket_by_bucket() -> None:
    one = Counts(ttft=Histogram(bounds=(1.0, 2.0), counts=(1, 2, 3), sum=9.0))
    assert total([one, Counts(), one]).ttft == Histogram(bounds=(1.0, 2.0), counts=(2, 4, 6), sum=18.0)


def test_servers_that_count_in_other_buckets_are_not_compared() -> None:
    one = Counts(ttft=Histogram(bounds=(1.0,), counts=(1, 0), sum=0.5))
    other = Counts(ttft=Histogram(bounds=(2.0,), counts=(1, 0), sum=0.5))
    with pytest.raises(ValueError, match="two servers count in different buckets"):
        total([one, other])
