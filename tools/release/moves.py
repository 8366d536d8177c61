"""How a release goes from one state to the next. Pure: a `Progress` in, the next one with the event to carry out."""

from __future__ import annotations

from datetime import UTC, datetime

from .errors import ReleaseError
from .folder import Order
from .history import Event, What
from .plan import Plan
from .progress import Progress, Stage
from .weights import Weights, heaviest_but, text_of, weights_with


def begun(route: str, target: str, plan: Plan, before: Weights, *, at: float, who: str, mark: str) -> Progress:
    """A release that is about to load its target. `mark` tells it from every other, also of the same second.

    Raises ReleaseError when the route cannot be walked that way.
    """
    if before.get(target):
        raise ReleaseError(
            f'"{target}" has {before[target]:g} % of route "{route}" already: set its weight to 0 first '
            f"(now: {text_of(before)})"
        )
    before = {name: weight for name, weight in before.items() if weight}
    stable = heaviest_but(before, target)
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y%m%d-%H%M%S")
    release_id = f"{stamp}-{target.replace(':', '-')}-{mark}"
    steps = ", ".join(f"{step:g}" for step in plan.steps)
    event = Event(
        id=f"{release_id}/1", at=at, who=who, what="start", route=route, target=target, before=before, after=before,
        why=f"plan: {steps} %",
    )  # fmt: skip
    return Progress(
        id=release_id, route=route, target=target, stable=stable, plan=plan, who=who, before=before,
        stage=Stage.LOADING, event=event, entered=at,
    )  # fmt: skip


def all_weights(progress: Progress) -> list[dict[str, float]]:
    """What the plan makes of the route's weights, step by step."""
    return [weights_with(progress.before, {progress.target: step}) for step in progress.plan.steps]


def checking(progress: Progress, at: float) -> Progress:
    """The target is loaded, its answers are looked at."""
    return progress.model_copy(update={"stage": Stage.CHECKING, "entered": at, "why": ""})


def past_checks(progress: Progress, at: float, why: str) -> Progress:
    """The target may have its first requests, or the stable one is watched alone first, if the plan takes it all."""
    if progress.plan.takes_all:
        return progress.model_copy(update={"stage": Stage.BASELINE, "entered": at, "why": why, "window": None})
    return stepped(progress, 0, at, why=why)


def stepped(progress: Progress, step: int, at: float, *, why: str, who: str = "", what: What = "step") -> Progress:
    """At a step of the plan, with nothing counted yet."""
    after = weights_with(progress.before, {progress.target: progress.plan.steps[step]})
    moved = progress.model_copy(
        update={
            "stage": Stage.STEP, "step": step, "entered": at, "paused": False, "why": why, "window": None, "looks": 0,
            "closing": False,
        }
    )  # fmt: skip
    return _with_event(moved, what, at, after, why, who)


def onward(progress: Progress, at: float, *, why: str, who: str = "", what: What = "step") -> Progress:
    """At the next step, or at the end when this was the last one."""
    if progress.step + 1 < len(progress.plan.steps):
        return stepped(progress, progress.step + 1, at, why=why, who=who, what=what)
    ended = progress.model_copy(update={"stage": Stage.PROMOTED, "paused": False, "entered": at, "why": why})
    return _with_event(ended, "finish", at, progress.event.after, why, who)


def paused(progress: Progress, at: float, *, why: str, who: str = "") -> Progress:
    """Held where it is."""
    held = progress.model_copy(update={"paused": True, "entered": at, "why": why})
    return _with_event(held, "pause", at, progress.event.after, why, who)


def resumed(progress: Progress, at: float, *, who: str) -> Progress:
    """Walking again from where it was held."""
    walking = progress.model_copy(update={"paused": False, "entered": at, "why": ""})
    return _with_event(walking, "resume", at, progress.event.after, "goes on", who)


def aborted(progress: Progress, at: float, *, why: str, who: str = "") -> Progress:
    """Back to the weights of before."""
    ended = progress.model_copy(
        update={"stage": Stage.ABORTED, "paused": False, "entered": at, "why": why, "window": None}
    )
    return _with_event(ended, "abort", at, progress.before, why, who)


def obeyed(progress: Progress, order: Order, at: float) -> Progress:
    """What the release is once the order has been read; `refused` when nothing comes of it."""
    refusal = _refusal(progress, order)
    if refusal:
        return progress.model_copy(update={"order": order.id, "reply": refusal, "refused": True})
    moved = _move(progress, order, at)
    reply = f"{moved.target}: {moved.title}" + (", paused" if moved.paused else "")
    return moved.model_copy(update={"order": order.id, "reply": reply, "refused": False})


def _move(progress: Progress, order: Order, at: float) -> Progress:
    if order.ask == "abort":
        return aborted(progress, at, why=order.why or "asked to", who=order.who)
    if order.ask == "resume":
        return resumed(progress, at, who=order.who)
    if order.ask == "pause":
        return paused(progress, at, why=order.why or "asked to", who=order.who)
    why = order.why or "asked to, without a judgement"
    last = len(progress.plan.steps) - 1
    if progress.stage is Stage.BASELINE:
        return stepped(progress, last if order.all_the_way else 0, at, why=why, who=order.who, what="promote")
    if order.all_the_way and progress.step < last:
        return stepped(progress, last, at, why=why, who=order.who, what="promote")
    return onward(progress, at, why=why, who=order.who, what="promote")


def _refusal(progress: Progress, order: Order) -> str:
    release = f'the release of "{progress.target}"'
    if progress.stage is Stage.ABORTED:
        return f"{release} was aborted already ({progress.why})"
    if progress.stage is Stage.PROMOTED and order.ask != "abort":
        return f"{release} is through: all that can be asked of it is an abort, which takes it back"
    if order.ask == "pause" and progress.paused:
        return f"{release} is paused already ({progress.why})"
    if order.ask == "resume" and not progress.paused:
        return f"{release} is not paused"
    if order.ask == "promote" and progress.stage in (Stage.LOADING, Stage.CHECKING):
        return f"{release} is {progress.stage}: nothing gets requests before it has been checked"
    return ""


def _with_event(progress: Progress, what: What, at: float, after: Weights, why: str, who: str) -> Progress:
    number = progress.events + 1
    event = Event(
        id=f"{progress.id}/{number}", at=at, who=who or f"{progress.who} (controller)", what=what,
        route=progress.route, target=progress.target, before=progress.event.after, after=after, why=why,
    )  # fmt: skip
    return progress.model_copy(update={"event": event, "events": number})
