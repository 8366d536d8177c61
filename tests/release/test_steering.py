"""What people ask of a release, with a controller that runs and without one."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.release.world import CANARY, STABLE, World
from tools.release import steering
from tools.release.controller import Standing
from tools.release.errors import ReleaseError
from tools.release.folder import Order
from tools.release.history import Event
from tools.release.moves import obeyed, stepped
from tools.release.plan import Plan
from tools.release.progress import Progress, Stage
from tools.release.site import FileWeights, ServedCandidate
from tools.spec.release import WeightedTarget

PLAN = Plan(steps=(5.0, 25.0, 100.0), bake_s=1.0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(autouse=True)
def _everything_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServedCandidate, "require_ready", lambda self, target: None)


def at_step(world: World, step: int) -> Progress:
    """A release that stands at a step, as a controller that is gone has left it."""
    progress = stepped(world.begin(PLAN), step, world.now, why="fine")
    world.folder.save(progress)
    FileWeights(world.site, "default").write(progress.event.after)
    world.folder.history.append(progress.event)
    return progress


def test_without_a_release_there_is_nothing_to_ask(world: World) -> None:
    with pytest.raises(
        ReleaseError, match=r"^no release was begun here: ./ladder release start MODEL:VERSION begins one$"
    ):
        steering.ask(world.site, "abort", "")


def test_an_abort_without_a_controller_is_done_here(world: World) -> None:
    at_step(world, 1)
    assert world.weights == {STABLE: 75.0, CANARY: 25.0}
    after = steering.ask(world.site, "abort", "bad answers")
    assert (after.stage, after.reply) == (Stage.ABORTED, f"{CANARY}: aborted")
    assert world.weights == {STABLE: 100.0}
    assert world.events()[-1].why == "bad answers"


def test_what_a_killed_controller_was_about_to_do_is_done_first(world: World) -> None:
    world.folder.save(stepped(world.begin(PLAN), 1, world.now, why="fine"))
    assert world.weights == {STABLE: 100.0}
    steering.ask(world.site, "promote", "go")
    assert [event.after[CANARY] for event in world.events()] == [25.0, 100.0]
    assert world.weights == {CANARY: 100.0}


def test_a_release_that_is_through_can_be_taken_back(world: World) -> None:
    at_step(world, 2)
    assert steering.ask(world.site, "promote", "").stage is Stage.PROMOTED
    with pytest.raises(ReleaseError, match=r"is through; ./ladder release abort would take it back$"):
        steering.ask(world.site, "promote", "")
    assert steering.ask(world.site, "abort", "").stage is Stage.ABORTED
    assert world.weights == {STABLE: 100.0}
    with pytest.raises(ReleaseError, match=r"was aborted already"):
        steering.ask(world.site, "abort", "")


def test_a_release_that_is_through_is_not_taken_back_over_what_was_set_since(world: World) -> None:
    at_step(world, 2)
    steering.ask(world.site, "promote", "")
    steering.set_weights(world.site, {STABLE: 30.0}, None, "some back")
    with pytest.raises(ReleaseError, match=r"the weights were changed after the release of .* was through"):
        steering.ask(world.site, "abort", "")
    assert world.weights == {CANARY: 70.0, STABLE: 30.0}


def test_a_controller_that_runs_obeys(world: World) -> None:
    progress = at_step(world, 1)
    seen: list[Order] = []

    def controller() -> None:
        with world.folder.locked() as ours:
            assert ours
            holding.set()
            while (order := world.folder.order()) is None:
                time.sleep(0.01)
            seen.append(order)
            world.folder.save(obeyed(progress, order, world.now))
            world.folder.take_order_away()

    holding = threading.Event()
    thread = threading.Thread(target=controller)
    thread.start()
    holding.wait()
    after = steering.ask(world.site, "pause", "lunch")
    thread.join()
    assert after.paused
    assert seen[0].why == "lunch"


def test_a_controller_that_hangs_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at_step(world, 1)
    monkeypatch.setattr(steering, "_REPLY_S", 0.1)
    with (
        world.folder.locked(),
        pytest.raises(ReleaseError, match=r"does not react within 0.1 s: end it with kill -9 \d+"),
    ):
        steering.ask(world.site, "abort", "")
    assert world.folder.order() is None


def test_weights_set_by_hand_are_history(world: World) -> None:
    event = steering.set_weights(world.site, {CANARY: 12.5}, None, "a few")
    assert world.weights == {STABLE: 87.5, CANARY: 12.5}
    assert world.events() == [event]
    assert (event.what, event.why, dict(event.before)) == ("set", "a few", {STABLE: 100.0})


def test_a_change_by_hand_that_was_killed_is_done_by_the_next_command(world: World) -> None:
    event = Event(
        id="set/1", at=world.now, who="ann@here", what="set", route="default", target=CANARY,
        before={STABLE: 100.0}, after={STABLE: 50.0, CANARY: 50.0}, why="half",
    )  # fmt: skip
    world.folder.begin_change(event)
    steering.set_weights(world.site, {CANARY: 60.0}, None, "more")
    assert [found.why for found in world.events()] == ["half", "more"]
    assert world.events()[1].before == event.after
    assert world.folder.change() is None


def test_weights_are_not_set_while_a_release_is_under_way(world: World) -> None:
    at_step(world, 0)
    with pytest.raises(ReleaseError, match=r'the release of "llm_awq:1" is not finished \(step 1 of 3, 5 %\)'):
        steering.set_weights(world.site, {CANARY: 50.0}, None, "")
    with world.folder.locked(), pytest.raises(ReleaseError, match=r"a release is under way \(process \d+\)"):
        steering.set_weights(world.site, {CANARY: 50.0}, None, "")


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({STABLE: 50.0}, r"^llm_bf16:1 50 % leaves 50 % that no other target can take: weights of a route make 100 %$"),
        ({STABLE: 90.0, CANARY: 20.0}, r"are more than 100 % together: weights of a route make 100 %$"),
    ],
)
def test_weights_that_do_not_add_up_change_nothing(world: World, weights: dict[str, float], says: str) -> None:
    with pytest.raises(ReleaseError, match=says):
        steering.set_weights(world.site, weights, None, "")
    assert world.events() == []


def test_an_unknown_route_is_named(world: World) -> None:
    with pytest.raises(ReleaseError, match=r'^no route "defualt": did you mean "default"\?$'):
        steering.set_weights(world.site, {CANARY: 50.0}, "defualt", "")


def test_another_release_cannot_be_begun_before_one_is_over(world: World) -> None:
    at_step(world, 0)
    with pytest.raises(ReleaseError, match=r'the release of "llm_awq:1" is not finished \(step 1 of 3, 5 %\): go on'):
        steering.start(world.site, "llm_eagle:1", None, None, _ignored)


def test_start_goes_on_where_a_release_was(world: World) -> None:
    progress = at_step(world, 1)
    assert steering.start(world.site, CANARY, None, None, _ignored).progress == progress
    steering.ask(world.site, "pause", "lunch")
    again = steering.start(world.site, CANARY, None, None, _ignored).progress
    assert not again.paused
    assert again.event.what == "resume"


def test_a_release_keeps_the_plan_it_was_begun_with(world: World, tmp_path: Path) -> None:
    progress = at_step(world, 1)
    other, same = tmp_path / "other.yaml", tmp_path / "same.yaml"
    other.write_text("steps: [5, 25, 100]\n", encoding="utf-8")
    same.write_text("steps: [5, 25, 100]\nbake_s: 1\n", encoding="utf-8")
    with pytest.raises(ReleaseError, match=r'of "llm_awq:1" goes on by the plan it was begun with: leave out --plan'):
        steering.start(world.site, CANARY, str(other), None, _ignored)
    assert steering.start(world.site, CANARY, str(same), None, _ignored).progress == progress


def _ignored(standing: Standing) -> None: ...


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["llm_awq=5"], r'^"llm_awq" names no version: write llm_awq:1, say; a release always names one$'),
        (["llm_awq:1"], r'^"llm_awq:1": gives no weight: write MODEL:VERSION=PERCENT, such as llm_awq:1=12.5$'),
        (["llm_awq:1=much"], r'^"llm_awq:1=much": "much" is no number: write'),
        (["llm_awq:1=0.25"], r'^"llm_awq:1=0.25": 0.25 % is no multiple of 0.1 %: write 0.2$'),
        (["llm_awq:1=101"], r'^"llm_awq:1=101": Input should be less than or equal to 100$'),
        (["llm_awq:1=1", "llm_awq:1=2"], r'^"llm_awq:1" is given two weights$'),
        ([":1=1"], r"names no model"),
    ],
)
def test_what_is_no_weight_is_refused(words: list[str], says: str) -> None:
    with pytest.raises(ReleaseError, match=says):
        steering.parse_weights(words)


def test_weights_are_read() -> None:
    found = steering.parse_weights(["llm_awq:1=12.5", "llm_bf16:2=0"])
    assert found == {"llm_awq:1": 12.5, "llm_bf16:2": 0.0}
    assert WeightedTarget(model="llm_awq", version=1, weight=12.5).name in found
