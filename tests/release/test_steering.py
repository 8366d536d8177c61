"""What people ask of a release, with a controller that runs and without one."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.release.world import CANARY, STABLE, START, World
from tools.client.request import Target
from tools.release import site, steering
from tools.release.controller import Standing
from tools.release.errors import ReleaseError, ReleaseFileError
from tools.release.file import write_release
from tools.release.folder import Order
from tools.release.history import Event
from tools.release.moves import aborted, obeyed, stepped
from tools.release.plan import Plan
from tools.release.progress import Progress, Stage
from tools.release.site import FileWeights, ServedCandidate
from tools.spec.release import Release, Route, WeightedTarget

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
    with pytest.raises(ReleaseError, match=r"^no release was begun here: ./ladder release start begins one$"):
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
    with pytest.raises(ReleaseError, match=r"is through: all that can be asked of it is an abort, which"):
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
        (["llm_awq:1"], r'^"llm_awq:1": gives no weight: write llm_awq:1=12.5, say$'),
        (["llm_awq:1=much"], r'^"llm_awq:1=much": "much" is no number: write'),
        (["llm_awq:1=0.25"], r'^"llm_awq:1=0.25": 0.25 % is no multiple of 0.1 %: write 0.2$'),
        (["llm_awq:1=101"], r'^"llm_awq:1=101": Input should be less than or equal to 100$'),
        (["llm_awq:1=1", "llm_awq:1=2"], r'^"llm_awq:1" is given two weights$'),
        ([":1=1"], r"names no model"),
    ],
)
def test_what_is_no_weight_is_refused(world: World, words: list[str], says: str) -> None:
    with pytest.raises(ReleaseError, match=says):
        steering.parse_weights(words, world.site)


def test_weights_are_read(world: World) -> None:
    found = steering.parse_weights(["llm_awq:1=12.5", "llm_bf16:2=0"], world.site)
    assert found == {"llm_awq:1": 12.5, "llm_bf16:2": 0.0}
    assert WeightedTarget(model="llm_awq", version=1, weight=12.5).name in found


def test_two_releases_of_the_same_second_are_two(world: World) -> None:
    world.load_error = "no such model"
    assert world.controller(world.begin(PLAN)).run().stage is Stage.ABORTED
    world.load_error = ""
    plan = Plan(steps=(5.0,), bake_s=1.0, min_requests=1)
    world.now = START
    assert world.controller(world.begin(plan)).run().stage is Stage.PROMOTED
    assert world.weights == {STABLE: 95.0, CANARY: 5.0}


def test_a_release_is_not_taken_back_over_what_was_set_long_after(world: World) -> None:
    at_step(world, 2)
    steering.ask(world.site, "promote", "")
    steering.set_weights(world.site, {STABLE: 30.0}, None, "x" * 100_000)
    with pytest.raises(ReleaseError, match=r"the weights were changed after the release of .* was through"):
        steering.ask(world.site, "abort", "")
    assert world.weights == {CANARY: 70.0, STABLE: 30.0}


def test_an_abort_that_was_killed_is_done_before_weights_are_set(world: World) -> None:
    world.folder.save(aborted(at_step(world, 1), world.now, why="bad answers"))
    with pytest.raises(ReleaseError, match=r"^llm_bf16:1 50 % leaves 50 % that no other target can take"):
        steering.set_weights(world.site, {STABLE: 50.0}, None, "by hand")
    assert world.weights == {STABLE: 100.0}
    assert world.events()[-1].why == "bad answers"
    steering.set_weights(world.site, {CANARY: 50.0}, None, "by hand")
    with pytest.raises(ReleaseError, match=r"was aborted already \(bad answers\)$"):
        steering.ask(world.site, "abort", "")
    assert world.weights == {STABLE: 50.0, CANARY: 50.0}


def test_what_a_lost_history_does_not_know_is_not_done_over_what_was_set_since(world: World) -> None:
    at_step(world, 2)
    steering.ask(world.site, "promote", "")
    steering.set_weights(world.site, {STABLE: 30.0}, None, "some back")
    world.folder.history.path.unlink()
    steering.set_weights(world.site, {STABLE: 40.0}, None, "more back")
    with pytest.raises(ReleaseError, match=r"the weights were changed after the release of .* was through"):
        steering.ask(world.site, "abort", "")
    assert [event.why for event in world.events()] == ["more back"]
    assert world.weights == {CANARY: 60.0, STABLE: 40.0}


def test_a_step_that_the_route_cannot_have_is_refused_before_anything_is_loaded(world: World) -> None:
    targets = (
        WeightedTarget(model="llm_bf16", version=1, weight=100.0),
        WeightedTarget(model="llm_awq", version=1, weight=0.0, max_in_flight=4),
    )
    write_release(world.site.start, Release(routes=(Route(name="default", targets=targets),)))
    with pytest.raises(ReleaseError, match=r'^route "default" bounds "llm_awq:1" to 4 requests in flight and names no'):
        steering.start(world.site, CANARY, None, None, _ignored)
    with pytest.raises(ReleaseFileError, match=r'cannot have llm_awq:1 100 %: route "default" bounds "llm_awq:1"'):
        FileWeights(world.site, "default").write({CANARY: 100.0})
    assert world.folder.progress() is None


@pytest.mark.parametrize("written", ["llm_awq:01", "llm_awq:0001"])
def test_a_target_has_one_name_however_it_is_written(world: World, written: str) -> None:
    assert world.site.target_name(written) == CANARY
    assert steering.parse_weights([f"{written}=5"], world.site) == {CANARY: 5.0}


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("chat:1", r'^"chat:1" is the router itself, which cannot send requests to itself: name a model that answers'),
        ("llm_awq:2147483648", r'^"llm_awq:2147483648": Input should be less than 2147483648$'),
        ("llm awq:1", r'^"llm awq:1": String should match pattern'),
        ("llm_awq:" + "9" * 5000, r"^\"llm_awq:9+\": the version \"9+\" is not a positive integer"),
    ],
)
def test_what_can_be_no_target_is_refused_by_name(world: World, target: str, says: str) -> None:
    with pytest.raises(ReleaseError, match=says):
        world.site.target_name(target)


def test_a_model_that_answers_nothing_is_no_target() -> None:
    info = Mock()
    info.contract.return_value = Mock(outputs={"input_ids": Mock()})
    with pytest.raises(
        ReleaseError, match=r'^"chat_tokenizer:1" has no output "text_output", so it answers no requests'
    ):
        site._require_answers(info, Target("chat_tokenizer", 1))


def test_a_reason_that_is_no_text_is_refused(world: World) -> None:
    at_step(world, 1)
    says = r"^the reason 'caf\\udce9' is no UTF-8 text: write it in a terminal that is set to UTF-8$"
    with pytest.raises(ReleaseError, match=says):
        steering.ask(world.site, "pause", "caf\udce9")
    with pytest.raises(ReleaseError, match=says):
        steering.set_weights(world.site, {CANARY: 5.0}, None, "caf\udce9")


@pytest.mark.slow
def test_an_order_that_another_one_has_overwritten_is_given_again(world: World) -> None:
    progress = at_step(world, 0)
    obeyed_orders: list[str] = []

    def controller() -> None:
        nonlocal progress
        with world.folder.locked() as ours:
            assert ours
            holding.set()
            while world.folder.order() is None:
                time.sleep(0.01)
            # Somebody else asks at the same moment.
            world.folder.give(Order(ask="pause", who="bob@here", why="theirs"))
            while len(obeyed_orders) < 2:
                order = world.folder.order()
                if order is not None:
                    progress = obeyed(progress, order, world.now)
                    obeyed_orders.append(order.why)
                    world.folder.save(progress)
                    world.folder.take_order_away()
                time.sleep(0.01)

    holding = threading.Event()
    thread = threading.Thread(target=controller)
    thread.start()
    holding.wait()
    after = steering.ask(world.site, "promote", "mine")
    thread.join()
    assert obeyed_orders == ["theirs", "mine"]
    assert after.step == 1
