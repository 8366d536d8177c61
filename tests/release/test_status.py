"""What a route's status says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.windows import counts
from tests.release.world import CANARY, STABLE, World
from tools.release import site
from tools.release.judgement import Verdict
from tools.release.moves import aborted, stepped
from tools.release.observation import Observation
from tools.release.plan import Plan
from tools.release.site import FileWeights
from tools.release.status import rows_of, status_of

PLAN = Plan(steps=(25.0, 100.0), min_requests=10)
FAST, SLOW = [0.05] * 90, [0.3] * 30


def look(at: float, canary: int, failed: int = 0) -> Observation:
    return Observation(
        at=at,
        counts={STABLE: counts([0.05] * 3 * canary), CANARY: counts([0.3] * canary, failed=failed)},
        weights={STABLE: 75.0, CANARY: 25.0},
        in_flight={CANARY: 3},
        users={CANARY: 7},
    )


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose metrics page is the fake one."""
    world = World(tmp_path)

    class Page:
        def __init__(self, site: object, route: str) -> None: ...

        def observe(self) -> Observation | None:
            return world.observe()

    monkeypatch.setattr(site, "MetricsPage", Page)
    return world


def test_rows_have_the_share_that_was_got_with_its_interval() -> None:
    stable, canary = rows_of(look(9, canary=30, failed=10), None, {STABLE: 75.0, CANARY: 25.0})
    assert (stable.target, stable.weight, canary.target, canary.weight) == (STABLE, 75.0, CANARY, 25.0)
    assert canary.requests == 40
    assert canary.share == pytest.approx(100 * 40 / 130)
    assert canary.share_low is not None
    assert canary.share_high is not None
    assert canary.share_low < 100 * 40 / 130 < canary.share_high
    assert (canary.failed, canary.error_rate, canary.in_flight, canary.users) == (10, 25.0, 3, 7)
    assert canary.ttft_p95_ms == pytest.approx(300, rel=0.16)
    assert stable.ttft_p95_ms == pytest.approx(50, rel=0.16)


def test_rows_are_of_what_came_since() -> None:
    stable, canary = rows_of(look(9, canary=30), look(5, canary=20), {STABLE: 75.0, CANARY: 25.0})
    assert (stable.requests, canary.requests) == (30, 10)


def test_a_target_that_had_requests_is_shown_without_a_weight_too() -> None:
    rows = rows_of(look(9, canary=30), None, {STABLE: 100.0})
    assert [(row.target, row.weight) for row in rows] == [(STABLE, 100.0), (CANARY, 0.0)]


def test_before_any_request_there_is_nothing_measured(world: World) -> None:
    found = status_of(world.site, "default", world.site.traffic("default"))
    assert (found.progress, found.judgement, found.since, found.note) == (None, None, None, "")
    assert [(row.target, row.weight, row.share, row.ttft_p95_ms) for row in found.targets] == [
        (STABLE, 100.0, None, None)
    ]


def test_a_step_without_a_controller_is_judged_and_says_how_to_go_on(world: World) -> None:
    progress = stepped(world.begin(PLAN), 0, world.now, why="")
    FileWeights(world.site, "default").write(progress.event.after)
    world.sleep(1)
    progress = progress.model_copy(update={"window": world.observe()})
    world.folder.save(progress)
    world.sleep(20)
    found = status_of(world.site, "default", world.site.traffic("default"))
    assert found.note == f"no controller runs: ./ladder release start {CANARY} goes on"
    assert found.judgement is not None
    assert found.judgement.verdict is Verdict.FINE
    assert found.since == progress.window.at if progress.window else False
    with world.folder.locked():
        assert status_of(world.site, "default", world.site.traffic("default")).note.startswith(
            "its controller is process "
        )


def test_a_server_that_is_silent_still_has_weights(world: World) -> None:
    world.answers = False
    found = status_of(world.site, "default", world.site.traffic("default"))
    assert found.note == "the server does not answer"
    assert [(row.target, row.weight) for row in found.targets] == [(STABLE, 100.0)]


def test_a_release_that_is_over_is_not_judged(world: World) -> None:
    world.folder.save(aborted(world.begin(PLAN), world.now, why="enough"))
    found = status_of(world.site, "default", world.site.traffic("default"))
    assert found.judgement is None
    assert found.note == ""
    assert found.progress is not None
    assert found.progress.why == "enough"


def test_it_can_be_written_as_json(world: World) -> None:
    world.folder.save(world.begin(PLAN))
    assert f'"target":"{STABLE}"' in status_of(world.site, "default", world.site.traffic("default")).model_dump_json()
