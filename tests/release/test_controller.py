"""The controller before a fake router: where releases go, when they turn back, and that killing it loses nothing."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.release.world import CANARY, STABLE, START, Behaviour, Done, World
from tools.release import moves
from tools.release.errors import ReleaseError
from tools.release.file import write_release
from tools.release.folder import Order
from tools.release.golden import Comparison
from tools.release.history import Event
from tools.release.plan import Golden, GoldenPrompt, Plan
from tools.release.progress import Progress, Stage
from tools.release.site import FileWeights
from tools.spec.release import Release, Route, WeightedTarget

GOLDEN = Golden(prompts=(GoldenPrompt(ask="Capital of France?", expect="Paris"),), min_equal_percent=5.0)
PLAN = Plan(steps=(5.0, 25.0, 50.0, 100.0), bake_s=10.0, min_requests=40, patience_s=600.0, golden=GOLDEN)
SHORT = Plan(steps=(50.0, 100.0), bake_s=2.0, min_requests=10, patience_s=60.0)


def shares(world: World) -> list[float]:
    """The canary's shares in the order in which it got them."""
    found = [event.after.get(CANARY, 0.0) for event in world.events()]
    return [share for index, share in enumerate(found) if index == 0 or share != found[index - 1]]


def whats(world: World) -> list[str]:
    return [event.what for event in world.events()]


def walk(world: World, plan: Plan = PLAN) -> Progress:
    return world.controller(world.begin(plan)).run()


def test_a_version_that_is_as_good_walks_to_the_end(tmp_path: Path) -> None:
    world = World(tmp_path)
    ended = walk(world)
    assert ended.stage is Stage.PROMOTED
    assert world.weights == {CANARY: 100.0}
    assert shares(world) == [0.0, 5.0, 25.0, 50.0, 100.0]
    assert whats(world) == ["start", "step", "step", "step", "step", "finish"]
    assert world.loaded == [CANARY]
    assert {event.who for event in world.events()} == {"ann@here", "ann@here (controller)"}
    assert "1 golden prompts" not in world.events()[1].why
    assert "50 % of the tokens are equal" in world.events()[1].why
    # Four steps and the time before, each watched for as long as the plan says.
    assert world.now - START >= 5 * PLAN.bake_s


def test_the_stable_version_keeps_the_rest_and_nothing_else_in_the_file_changes(tmp_path: Path) -> None:
    world = World(tmp_path)
    gold = Route(
        name="gold",
        when={"user": "ann"},  # type: ignore[arg-type]
        targets=(WeightedTarget(model="llm_eagle", version=1, weight=100.0),),
    )
    default = Route(
        name="default",
        sticky="user",
        targets=(
            WeightedTarget(model="llm_bf16", version=1, weight=75.0),
            WeightedTarget(model="llm_eagle", version=1, weight=25.0),
        ),
    )
    write_release(world.site.start, Release(routes=(gold, default)))
    world.add("llm_eagle:1")
    plan = SHORT.model_copy(update={"steps": (10.0,)})
    ended = walk(world, plan)
    assert ended.stage is Stage.PROMOTED
    assert ended.stable == STABLE
    assert world.weights == {STABLE: 67.5, "llm_eagle:1": 22.5, CANARY: 10.0}
    release = world.site.release()
    assert release.route("gold") == gold
    assert release.route("default").sticky == "user"


def test_a_slow_version_is_taken_back_by_itself(tmp_path: Path) -> None:
    world = World(tmp_path, canary=Behaviour(slower=2.5))
    ended = walk(world)
    assert ended.stage is Stage.ABORTED
    assert world.weights == {STABLE: 100.0}
    assert "TTFT p95" in ended.why
    assert "allowed are +25 %" in ended.why
    assert world.events()[-1].what == "abort"
    assert world.events()[-1].why == ended.why
    assert shares(world)[-1] == 0.0
    assert max(shares(world)) <= 25.0


def test_a_version_that_is_slower_within_its_margin_is_promoted(tmp_path: Path) -> None:
    world = World(tmp_path, canary=Behaviour(slower=1.1))
    assert walk(world).stage is Stage.PROMOTED


def test_a_version_that_fails_is_taken_back_before_it_has_the_plans_number_of_requests(tmp_path: Path) -> None:
    world = World(tmp_path, canary=Behaviour(failing=1.0))
    ended = walk(world)
    assert ended.stage is Stage.ABORTED
    assert "error rate (internal" in ended.why
    counts = world.observe().of(CANARY)
    assert counts.failed < PLAN.min_requests


def test_a_version_that_says_less_is_taken_back(tmp_path: Path) -> None:
    world = World(tmp_path, canary=Behaviour(tokens=4))
    ended = walk(world)
    assert ended.stage is Stage.ABORTED
    assert "output length 4 tokens against 16 tokens" in ended.why


def test_an_engine_that_dies_ends_the_release_at_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    step_25 = []

    def kill_at_25(world: World) -> None:
        if world.weights.get(CANARY) == 25.0 and not step_25:
            step_25.append(world.now)
            world.behaviours[CANARY].dies_at = world.now + 3

    world.on_sleep = kill_at_25
    ended = walk(world)
    assert ended.stage is Stage.ABORTED
    assert ended.why.startswith(f'the engine of "{CANARY}" died')
    # Three seconds after the step began; found out at the next look and acted upon before another one.
    assert world.events()[-1].at - step_25[0] <= 3 + 2.0
    assert world.weights == {STABLE: 100.0}


def test_the_last_step_is_compared_with_what_the_stable_version_did_alone(tmp_path: Path) -> None:
    world = World(tmp_path)

    def slow_down_at_100(world: World) -> None:
        if world.weights.get(CANARY) == 100.0:
            world.behaviours[CANARY].slower = 2.5

    world.on_sleep = slow_down_at_100
    ended = walk(world)
    assert ended.stage is Stage.ABORTED
    assert ended.step == 3
    assert world.weights == {STABLE: 100.0}


def test_without_requests_it_waits_says_how_many_are_missing_and_then_pauses(tmp_path: Path) -> None:
    world = World(tmp_path, rate=0.2)
    order_pause_is_over = []

    def end_it(world: World) -> None:
        progress = world.folder.progress()
        if progress is not None and progress.paused:
            order_pause_is_over.append(progress)
            world.folder.give(Order(ask="abort", who="ann@here", why="enough"))

    world.on_sleep = end_it
    ended = walk(world, PLAN.model_copy(update={"patience_s": 60.0}))
    assert ended.stage is Stage.ABORTED
    held = order_pause_is_over[0]
    assert held.stage is Stage.BASELINE
    assert f'waiting for more requests: 28 of "{STABLE}"' in held.why
    assert held.why.startswith("baseline could not be left within 60 s: ")
    assert [event.what for event in world.events()] == ["start", "pause", "abort"]


def test_what_cannot_be_loaded_never_gets_a_request(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.load_error = '"llm_awq" does not load: no weights'
    ended = walk(world)
    assert (ended.stage, ended.why) == (Stage.ABORTED, '"llm_awq" does not load: no weights')
    assert shares(world) == [0.0]
    assert not world.site.running.exists()


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ((4.0, 100.0), "the plan asks for 5 % equal tokens"),
        ((50.0, 25.0), "the plan allows it to be 20 points lower"),
    ],
)
def test_what_answers_the_golden_prompts_badly_never_gets_a_request(
    tmp_path: Path, found: tuple[float, float], says: str
) -> None:
    world = World(tmp_path)
    world.comparison = Comparison(prompts=1, equal_percent=found[0], score=found[1], stable_score=100.0)
    ended = walk(world)
    assert ended.stage is Stage.ABORTED
    assert says in ended.why
    assert shares(world) == [0.0]


def test_a_quality_score_that_falls_under_load_ends_the_release(tmp_path: Path) -> None:
    world = World(tmp_path)

    def forget_at_25(world: World) -> None:
        if world.weights.get(CANARY) == 25.0:
            world.comparison = world.comparison.model_copy(update={"score": 50.0})

    world.on_sleep = forget_at_25
    ended = walk(world)
    assert ended.stage is Stage.ABORTED
    assert "quality score 50 %, the stable version's is 100 %" in ended.why
    assert shares(world) == [0.0, 5.0, 25.0, 0.0]


def test_what_takes_long_at_the_end_of_a_step_is_said_for_as_long_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, asked = World(tmp_path), itertools.count()
    monkeypatch.setattr(Done, "done", property(lambda _: next(asked) % 5 == 4))
    assert walk(world).stage is Stage.PROMOTED
    notes = [standing.note for standing in world.shown]
    assert notes.count("asking the golden prompts again") == 4 * 4


def test_weights_that_somebody_else_sets_are_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path)

    def meddle(world: World) -> None:
        if world.weights.get(CANARY) == 25.0:
            FileWeights(world.site, "default").write({STABLE: 90.0, CANARY: 10.0})

    world.on_sleep = meddle
    with pytest.raises(ReleaseError, match=r"somebody else changed them, so they are left alone"):
        walk(world)
    assert world.weights == {STABLE: 90.0, CANARY: 10.0}


def test_a_server_that_is_started_again_is_counted_from_the_beginning(tmp_path: Path) -> None:
    world = World(tmp_path)
    done = []

    def restart_at_50(world: World) -> None:
        if world.weights.get(CANARY) == 50.0 and not done and world.now > START + 50:
            done.append(world.restart_server())

    world.on_sleep = restart_at_50
    assert walk(world).stage is Stage.PROMOTED
    assert done
    assert any("counting begins again" in standing.note for standing in world.shown)


def test_a_server_of_the_canary_that_was_started_again_while_nobody_looked_ends_the_release(tmp_path: Path) -> None:
    world = World(tmp_path)

    def restart_at_50(world: World) -> None:
        if world.weights.get(CANARY) == 50.0 and world.now > START + 50:
            # Counters begin again, as they do for a controller that was away too.
            world.restart_server()
            world.behaviours[CANARY].restarted_at = world.now

    world.on_sleep = restart_at_50
    ended = walk(world)
    assert (ended.stage, ended.why) == (Stage.ABORTED, f'the engine of "{CANARY}" died')
    assert world.weights == {STABLE: 100.0}


def test_an_engine_of_the_stable_version_that_dies_is_not_held_against_the_new_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.behaviours[STABLE].restarted_at = START + 5
    assert walk(world).stage is Stage.PROMOTED
    assert any(f'the engine of "{STABLE}" was started again' in standing.note for standing in world.shown)


def test_a_server_that_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path)

    def silent_for_a_while(world: World) -> None:
        world.answers = not START + 30 < world.now < START + 60

    world.on_sleep = silent_for_a_while
    assert walk(world).stage is Stage.PROMOTED
    assert any("the server does not answer" in standing.note for standing in world.shown)


def give_once(world: World, order: Order, when: Callable[[Progress], bool]) -> None:
    given = []

    def give(world: World) -> None:
        progress = world.folder.progress()
        if not given and progress is not None and when(progress):
            given.append(order)
            world.folder.give(order)

    world.on_sleep = give


def test_an_order_to_abort_is_obeyed_at_the_next_turn(tmp_path: Path) -> None:
    world = World(tmp_path)
    order = Order(ask="abort", who="bob@there", why="page at night")
    give_once(world, order, lambda progress: progress.share == 25.0)
    ended = walk(world)
    assert (ended.stage, ended.why, ended.order, ended.refused) == (Stage.ABORTED, "page at night", order.id, False)
    assert world.weights == {STABLE: 100.0}
    last = world.events()[-1]
    assert (last.what, last.who, last.why) == ("abort", "bob@there", "page at night")
    assert world.folder.order() is None


@pytest.mark.slow
def test_an_order_to_promote_skips_the_rest_of_a_step(tmp_path: Path) -> None:
    world = World(tmp_path)
    slow = PLAN.model_copy(update={"bake_s": 100.0})
    give_once(world, Order(ask="promote", who="bob@there"), lambda progress: progress.share == 5.0)
    assert walk(world, slow).stage is Stage.PROMOTED
    by_hand = [event for event in world.events() if event.what == "promote"]
    assert [(event.before.get(CANARY), event.after.get(CANARY)) for event in by_hand] == [(5.0, 25.0)]


def test_an_order_to_promote_all_the_way_goes_to_the_last_step(tmp_path: Path) -> None:
    world = World(tmp_path)
    give_once(world, Order(ask="promote", who="b", all_the_way=True), lambda progress: progress.share == 5.0)
    assert walk(world).stage is Stage.PROMOTED
    assert shares(world) == [0.0, 5.0, 100.0]


@pytest.mark.slow
def test_a_paused_release_stays_where_it_is_and_is_still_watched(tmp_path: Path) -> None:
    world = World(tmp_path)
    give_once(world, Order(ask="pause", who="bob@there", why="lunch"), lambda progress: progress.share == 25.0)
    give = world.on_sleep

    def then_fail(world: World) -> None:
        give(world)
        progress = world.folder.progress()
        if progress is not None and progress.paused and world.now - progress.entered > 300:
            world.behaviours[CANARY].failing = 1.0

    world.on_sleep = then_fail
    ended = walk(world)
    assert ended.stage is Stage.ABORTED
    assert "error rate" in ended.why
    assert shares(world) == [0.0, 5.0, 25.0, 0.0]
    assert "pause" in whats(world)


@pytest.mark.slow
def test_a_paused_release_goes_on_when_it_is_asked_to(tmp_path: Path) -> None:
    world = World(tmp_path)
    give_once(world, Order(ask="pause", who="bob@there"), lambda progress: progress.share == 25.0)
    pause = world.on_sleep

    def and_resume(world: World) -> None:
        pause(world)
        progress = world.folder.progress()
        if progress is not None and progress.paused and world.now - progress.entered > 60:
            world.folder.give(Order(ask="resume", who="bob@there"))

    world.on_sleep = and_resume
    assert walk(world).stage is Stage.PROMOTED
    assert whats(world)[3:5] == ["pause", "resume"]


def test_an_order_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    progress = World(tmp_path).begin(PLAN)
    refused = moves.obeyed(progress, Order(ask="promote", who="bob@there"), START)
    assert refused.refused
    assert refused.reply == (f'the release of "{CANARY}" is loading: nothing gets requests before it has been checked')
    assert refused.event == progress.event


def test_an_interrupted_release_stays_where_it_is_and_goes_on_later(tmp_path: Path) -> None:
    world = World(tmp_path)

    def interrupt(world: World) -> None:
        if world.weights.get(CANARY) == 50.0:
            raise KeyboardInterrupt

    world.on_sleep = interrupt
    with pytest.raises(KeyboardInterrupt):
        walk(world)
    assert world.weights == {STABLE: 50.0, CANARY: 50.0}
    world.on_sleep = lambda world: None
    found = world.folder.progress()
    assert found is not None
    assert world.controller(found).run().stage is Stage.PROMOTED
    assert shares(world) == [0.0, 5.0, 25.0, 50.0, 100.0]


def test_a_target_with_weight_cannot_be_begun(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(ReleaseError, match=r'"llm_bf16:1" has 100 % of route "default" already'):
        world.begin(PLAN, target=STABLE)


# Killed


def run_killed(world: World, progress: Progress, kill_at: int, behaviour: Behaviour) -> bool:
    """Run a controller in a process of its own that is killed at the given of its durable steps; whether it was."""
    pid = os.fork()
    if not pid:
        count = 0

        def counted(call: Callable[..., object]) -> Callable[..., object]:
            def step(*arguments: object) -> object:
                nonlocal count
                for after in (False, True):
                    count += 1
                    if count == kill_at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    if not after:
                        result = call(*arguments)
                return result

            return step

        try:
            os.fsync = counted(os.fsync)  # type: ignore[assignment]
            Path.replace = counted(Path.replace)  # type: ignore[assignment, method-assign]
            world.behaviours[CANARY] = behaviour
            world.controller(progress).run()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def strip(event: Event) -> tuple[object, ...]:
    return event.what, dict(event.before), dict(event.after)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [Behaviour(), Behaviour(failing=1.0)], ids=["promoted", "aborted"])
def test_a_controller_killed_at_any_step_is_followed_by_one_that_ends_the_same(
    tmp_path: Path, behaviour: Behaviour
) -> None:
    undisturbed = World(tmp_path / "undisturbed", canary=behaviour)
    ended = walk(undisturbed, SHORT)
    expected = [strip(event) for event in undisturbed.events()]
    kill_at = 0
    killed = True
    while killed:
        kill_at += 1
        world = World(tmp_path / str(kill_at), canary=behaviour)
        killed = run_killed(world, world.begin(SHORT), kill_at, behaviour)
        with world.folder.locked() as ours:
            assert ours
        progress = world.folder.progress() or world.begin(SHORT)
        after = world.controller(progress).run()
        assert after.stage is ended.stage, kill_at
        assert world.weights == undisturbed.weights, kill_at
        assert [strip(event) for event in world.events()] == expected, kill_at
        ids = [event.id for event in world.events()]
        assert len(ids) == len(set(ids)), kill_at
        left = sorted(path.name for path in world.folder.path.iterdir())
        assert left == ["history.jsonl", "lock", "progress.json", "release.yaml"], kill_at
    # Every event has a progress, a line of history and, where weights change, a file: two or four steps each.
    assert kill_at > 8 * len(expected)
