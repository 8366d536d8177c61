from __future__ import annotations

import inspect
import re

import pytest
from pydantic import ValidationError

import tools.engine.server
from tests.fleet.conftest import plan
from tools.fleet.plan import CANARY, STABLE, FleetPlan, Limits


def test_servers_have_ports_of_their_own_above_the_fleets() -> None:
    fleet = plan(9000, stable=2, canary=1)
    assert [(member.name, member.port_base) for member in fleet.members] == [
        ("stable-0", 9010),
        ("stable-1", 9020),
        ("canary-0", 9030),
    ]
    assert (fleet.http_port, fleet.grpc_port, fleet.metrics_port) == (9000, 9001, 9002)


def test_the_canary_comes_first_so_that_its_part_of_the_hashes_only_grows() -> None:
    assert plan().tracks == (CANARY, STABLE)
    assert plan(canary=0).tracks == (STABLE,)


def test_stable_servers_stand_in_for_the_canary_and_not_the_other_way_round() -> None:
    fleet = plan()
    assert [[member.name for member in group] for group in fleet.by_priority(CANARY)] == [
        ["canary-0"],
        ["stable-0", "stable-1"],
    ]
    assert [[member.name for member in group] for group in fleet.by_priority(STABLE)] == [["stable-0", "stable-1"]]


def test_what_may_be_in_flight_grows_with_the_servers() -> None:
    fleet = plan(stable=3, canary=2, limits=Limits(in_flight_per_server=10))
    assert (fleet.max_in_flight(STABLE), fleet.max_in_flight(CANARY)) == (30, 20)


def test_ports_beyond_the_last_one_are_refused() -> None:
    with pytest.raises(ValidationError, match="the last server would listen on port 65567: choose a lower port base"):
        plan(65525, stable=3, canary=1)


def test_a_canary_that_lacks_what_the_stable_servers_are_asked_for_is_refused() -> None:
    fields = plan().model_dump()
    fields["canary"]["models"] = ("llm_awq",)
    with pytest.raises(ValidationError, match='the canary servers have no model "chat", which the stable ones have'):
        FleetPlan.model_validate(fields)


@pytest.mark.parametrize(
    "path",
    ["/v2/models/chat/generate", "/v2/models/chat/generate_stream", "/v2/models/chat/versions/1/infer",
     "/v2/health/ready", "/v2/repository/index", "/v2/models/chat/ready", "/v2/models/chat/config",
     "/inference.GRPCInferenceService/ModelStreamInfer", "/inference.GRPCInferenceService/ModelInfer",
     "/inference.GRPCInferenceService/RepositoryIndex", "/inference.GRPCInferenceService/ModelStatistics"],
)  # fmt: skip
def test_what_any_server_can_answer_is_not_refused(path: str) -> None:
    assert not any(re.fullmatch(pattern, path) for pattern in FleetPlan.OF_ONE_SERVER)


def test_a_full_queue_is_known_by_the_text_that_an_engine_gives() -> None:
    # The proxy has nothing else to go by, see overload.lua.j2.
    assert f'f"{FleetPlan.FULL}: ' in inspect.getsource(tools.engine.server)
