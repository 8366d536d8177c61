"""What a person asks of a release: begin it, hold it, push it on, take it back, or set the weights by hand."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pydantic import TypeAdapter, ValidationError

from tools.spec.release import Percent, tenths

from . import moves
from .controller import Controller, Standing
from .errors import ReleaseError
from .folder import Ask, Order
from .history import Event, reason, who
from .ledger import RouteWeights, carry_out
from .plan import DEFAULT_PLAN, load_plan
from .progress import Progress, Stage
from .steered import Steered
from .weights import same, text_of, weights_with

_REPLY_S: Final = 5.0
_POLL_S: Final = 0.1
_PERCENT: Final[TypeAdapter[float]] = TypeAdapter(Percent)


def start(
    site: Steered, target: str, plan: str | None, route: str | None, show: Callable[[Standing], None]
) -> Controller:
    """A controller for the release of `target`: a new one by that plan, or the one that was not finished by its own.

    To be called, and the controller run, while the folder is locked. Raises ReleaseError and ReleaseFileError.
    """
    folder = site.folder
    settle(site)
    found = folder.progress()
    at = time.time()
    if found is not None and not found.over:
        progress = _again(found, target, plan, at, site)
    else:
        chosen = load_plan(plan or DEFAULT_PLAN)
        name = site.route_name(route)
        before = site.weights(name).read()
        progress = moves.begun(name, target, chosen, before, at=at, who=who(), mark=secrets.token_hex(4))
        for weights in moves.all_weights(progress):
            site.check(name, weights)
    return Controller(
        progress,
        folder,
        weights=site.weights(progress.route),
        traffic=site.traffic(progress.route),
        candidate=site.candidate,
        show=show,
        option=site.option,
    )


def ask(site: Steered, what: Ask, why: str, *, all_the_way: bool = False) -> Progress:
    """Have it done, by the controller that runs or here. Raises ReleaseError, also when it is refused."""
    order = Order(ask=what, who=who(), why=reason(why), all_the_way=all_the_way)
    folder = site.folder
    deadline = time.monotonic() + _REPLY_S
    while True:
        with folder.locked() as ours:
            if ours:
                folder.take_order_away()
                settle(site)
                progress = folder.progress()
                if progress is None:
                    raise ReleaseError(f"no release was begun here: ./ladder release start{site.option} begins one")
                return _accepted(progress if progress.order == order.id else _done_here(site, progress, order))
        # In this order: an order that is gone has been answered, unless somebody else's was written over it.
        waiting = folder.order()
        progress = folder.progress()
        if progress is not None and progress.order == order.id:
            return _accepted(progress)
        if waiting is None:
            folder.give(order)
        if time.monotonic() >= deadline:
            if waiting is None or waiting.id == order.id:
                folder.take_order_away()
            raise ReleaseError(
                f"the controller (process {folder.holder()}) does not react within {_REPLY_S:g} s: end it with "
                f"kill -9 {folder.holder()}, nothing is lost by it, and ask again"
            )
        time.sleep(_POLL_S)


def set_weights(site: Steered, given: Mapping[str, float], route: str | None, why: str) -> Event:
    """Give targets these weights; the others share what is left as before. Raises ReleaseError and ReleaseFileError."""
    folder, why = site.folder, reason(why)
    with folder.locked() as ours:
        if not ours:
            raise ReleaseError(
                f"a release is under way (process {folder.holder()}): ./ladder release abort{site.option} ends it"
            )
        settle(site)
        progress = folder.progress()
        if progress is not None and not progress.over:
            raise ReleaseError(
                f'the release of "{progress.target}" is not finished ({progress.title}): ./ladder release '
                f"abort{site.option} ends it"
            )
        name = site.route_name(route)
        weights = site.weights(name)
        before = weights.read()
        after = _checked(site, name, before, given)
        event = Event(
            id=f"set/{secrets.token_hex(8)}", at=time.time(), who=who(), what="set", route=name,
            target=", ".join(given), before=before, after=after, why=why,
        )  # fmt: skip
        folder.begin_change(event)
        settle(site)
    return event


def settle(site: Steered) -> None:
    """See to it that what was written down as about to be done is done, whose process was killed. The lock is held.

    A release comes before a change by hand, which is refused until the release is over.
    """
    progress = site.folder.progress()
    if progress is not None and progress.over and _is_pending(site, progress):
        carry_out(progress.event, site.weights(progress.route), site.folder)
    event = site.folder.change()
    if event is not None:
        carry_out(event, site.weights(event.route), site.folder)
        site.folder.end_change()


def _is_pending(site: Steered, progress: Progress) -> bool:
    """Whether the last thing of a release was not done yet. What somebody has set since is left alone."""
    if site.folder.history.holds(progress.event.id) or progress.route not in site.routes:
        return False
    found = site.weights(progress.route).read()
    return same(found, progress.event.before) or same(found, progress.event.after)


def go_on(progress: Progress, site: Steered) -> str:
    """What to type after a controller has ended before its release has."""
    return (
        f"The weights stay as they are: {text_of(progress.event.after)}. Go on: ./ladder release start "
        f"{progress.target}{site.option}; take it back: ./ladder release abort{site.option}"
    )


def _again(found: Progress, target: str, plan: str | None, at: float, site: Steered) -> Progress:
    if found.target != target:
        raise ReleaseError(
            f'the release of "{found.target}" is not finished ({found.title}): go on with ./ladder release start '
            f"{found.target}{site.option}, or end it with ./ladder release abort{site.option}"
        )
    if plan is not None and load_plan(plan) != found.plan:
        raise ReleaseError(
            f'the release of "{target}" goes on by the plan it was begun with: leave out --plan, or end it with '
            f"./ladder release abort{site.option} and begin again"
        )
    return moves.resumed(found, at, who=who()) if found.paused else found


def _done_here(site: Steered, progress: Progress, order: Order) -> Progress:
    """Obey an order without a controller. The lock is held, and what a release that is over had left is settled."""
    folder, weights = site.folder, site.weights(progress.route)
    if not progress.over:
        carry_out(progress.event, weights, folder)
    moved = moves.obeyed(progress, order, time.time())
    if progress.over and not moved.refused:
        _require_untouched(progress, weights, site)
        if progress.stage is Stage.PROMOTED:
            site.candidate.require_ready(progress.stable)
    folder.save(moved)
    carry_out(moved.event, weights, folder)
    return moved


def _require_untouched(progress: Progress, weights: RouteWeights, site: Steered) -> None:
    found = weights.read()
    if not same(found, progress.event.after):
        raise ReleaseError(
            f'the weights were changed after the release of "{progress.target}" was through ({text_of(found)}): set '
            f"what you want with ./ladder release set{site.option}"
        )


def _accepted(progress: Progress) -> Progress:
    if progress.refused:
        raise ReleaseError(progress.reply)
    return progress


def _checked(site: Steered, route: str, before: Mapping[str, float], given: Mapping[str, float]) -> dict[str, float]:
    try:
        after = weights_with(before, given)
    except ValueError as error:
        raise ReleaseError(f"{error}: weights of a route make 100 %") from None
    site.check(route, after)
    candidate = site.candidate
    for name, weight in after.items():
        if tenths(weight) > tenths(before.get(name, 0.0)):
            candidate.require_ready(name)
    return after


def parse_weights(words: Sequence[str], site: Steered) -> dict[str, float]:
    """Weights in percent out of TARGET=WEIGHT. Raises ReleaseError."""
    weights: dict[str, float] = {}
    for word in words:
        name, separator, number = word.partition("=")
        name = site.target_name(name)
        try:
            weight = _PERCENT.validate_python(float(number))
        except ValidationError as error:
            raise ReleaseError(f'"{word}": {error.errors()[0]["msg"]}') from None
        except ValueError:
            missing = "gives no weight" if not separator or not number else f'"{number}" is no number'
            raise ReleaseError(f'"{word}": {missing}: write {name}=12.5, say') from None
        if name in weights:
            raise ReleaseError(f'"{name}" is given two weights')
        weights[name] = weight
    return weights
