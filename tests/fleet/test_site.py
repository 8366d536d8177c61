"""What a release sees of a fleet: who is down, who was started again, and what only a busy machine has missed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fleet.conftest import CANARY, STABLE, plan
from tools.fleet import site as module
from tools.fleet.files import FleetFiles, FleetState, Phase, ProcessState
from tools.fleet.observation import ServerLook
from tools.fleet.plan import Member
from tools.fleet.site import FleetSite, FleetTraffic
from tools.release.errors import ReleaseError, ReleaseFileError
from tools.release.observation import Counts, Histogram


class World:
    """A fleet with one stable and one canary server; what they do is set by the test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = FleetFiles(folder)
        self.plan = plan(stable=1, canary=1)
        self.counts = {"stable-0": Counts(), "canary-0": Counts()}
        self.silent: set[str] = set()
        self.in_force: dict[str, float] | None = {STABLE: 100.0}
        self.write()
        monkeypatch.setattr(module, "weights_in_force", lambda admin: self.in_force)
        monkeypatch.setattr(FleetTraffic, "_look", lambda _, member, starts: self.look(member, starts))

    def write(self, canary: Phase = "ready", stable: Phase = "ready", starts: int = 1) -> None:
        servers = (
            ProcessState(name="stable-0", phase=stable, starts=1),
            ProcessState(name="canary-0", phase=canary, starts=starts),
        )
        proxy = ProcessState(name="envoy", phase="ready", starts=1)
        FleetState(plan=self.plan, keeper=os.getpid(), started=0.0, proxy=proxy, servers=servers).write(self.files)

    def look(self, member: Member, starts: int) -> tuple[ServerLook, bool]:
        return ServerLook(starts, self.counts[member.name]), member.name not in self.silent


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_a_canary_that_is_being_started_again_is_down_for_as_long_as_that_takes(world: World) -> None:
    traffic = FleetTraffic(world.files)
    for phase in ("down", "starting", "loading"):
        world.write(canary=phase, starts=2)
        look = traffic.observe()
        assert look is not None
        assert look.engines_up == {CANARY: False, STABLE: True}


def test_a_canary_that_was_started_again_shows_it_afterwards(world: World) -> None:
    traffic = FleetTraffic(world.files)
    before = traffic.observe()
    world.write(starts=2)
    after = traffic.observe()
    assert before is not None
    assert after is not None
    assert after.restarts[CANARY] > before.restarts[CANARY]
    assert after.restarts[STABLE] == before.restarts[STABLE]
    assert after.engines_up[CANARY]


def test_a_canary_that_misses_two_looks_is_waited_for_and_at_the_third_it_is_down(world: World) -> None:
    traffic = FleetTraffic(world.files)
    world.silent = {"canary-0"}
    assert traffic.observe() is None
    assert traffic.observe() is None
    look = traffic.observe()
    assert look is not None
    assert not look.engines_up[CANARY]
    world.silent.clear()
    look = traffic.observe()
    assert look is not None
    assert look.engines_up[CANARY]


def test_without_a_stable_server_there_is_nothing_to_compare_with(world: World) -> None:
    traffic = FleetTraffic(world.files)
    world.write(stable="loading")
    assert traffic.observe() is None
    world.write()
    world.silent = {"stable-0"}
    assert [traffic.observe() for _ in range(4)] == [None] * 4


def test_without_the_proxys_weights_there_is_no_look(world: World) -> None:
    world.in_force = None
    assert FleetTraffic(world.files).observe() is None


def test_servers_of_two_versions_are_not_compared(world: World) -> None:
    world.plan = plan(stable=1, canary=1)
    world.counts["stable-0"] = Counts(ttft=Histogram(bounds=(1.0,), counts=(1, 0), sum=0.5))
    world.counts["canary-0"] = Counts(ttft=Histogram(bounds=(2.0,), counts=(1, 0), sum=0.5))
    look = FleetTraffic(world.files).observe()
    assert look is not None, "buckets of different tracks are the judgement's matter"
    assert look.of(STABLE).ttft.bounds != look.of(CANARY).ttft.bounds


def test_a_fleet_that_was_stopped_meanwhile_says_that_the_release_goes_on(world: World) -> None:
    world.files.state.unlink()
    with pytest.raises(ReleaseError, match=r"the fleet was stopped meanwhile: ./ladder fleet up starts it"):
        FleetTraffic(world.files).observe()


def test_there_is_one_route(world: World) -> None:
    fleet = FleetSite(world.files, world.plan)
    assert fleet.route_name(None) == fleet.route_name("fleet") == "fleet"
    with pytest.raises(ReleaseError, match=r'^no route "vip": a fleet has one, "fleet"'):
        fleet.route_name("vip")


def test_a_state_of_another_version_is_named(world: World) -> None:
    world.files.state.write_text("{}", encoding="utf-8")
    with pytest.raises(ReleaseError, match=r'state.json" is not what this version of ./ladder fleet writes'):
        FleetTraffic(world.files).observe()


def test_a_broken_weights_file_is_removed_and_written_anew(world: World) -> None:
    world.in_force = {CANARY: 25.0, STABLE: 75.0}
    world.files.weights_folder.mkdir()
    world.files.weights.write_text("{", encoding="utf-8")
    weights = FleetSite(world.files, world.plan).weights("fleet")
    with pytest.raises(
        ReleaseFileError, match=r"remove it, the proxy keeps its weights, and ./ladder fleet set writes"
    ):
        weights.read()
    world.files.weights.unlink()
    assert weights.read() == world.in_force, "what the proxy divides by, so that a change of it is seen as one"
    weights.write({STABLE: 100.0})
    assert weights.read() == {CANARY: 0.0, STABLE: 100.0}
