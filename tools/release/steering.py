"""What a person asks of a release: begin it, hold it, push it on, take it back, or set the weights by hand."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from tools.client.request import Target
from tools.spec.release import WeightedTarget, tenths

from . import moves
from .controller import Controller, Standing
from .errors import ReleaseError
from .file import with_weights
from .folder import Ask, Order
from .history import Event, who
from .ledger import RouteWeights, carry_out
from .plan import DEFAULT_PLAN, load_plan
from .progress import Progress, Stage
from .site import FileWeights, MetricsPage, ServedCandidate, Site
from .weights import same, text_of, weights_with

_REPLY_S: Final = 5.0
_POLL_S: Final = 0.1


def start(site: Site, target: str, plan: str | None, route: str | None, show: Callable[[Standing], None]) -> Controller:
    """A controller for the release of `target`: a new one by that plan, or the one that was not finished by its own.

    To be called, and the controller run, while the folder is locked. Raises ReleaseError and ReleaseFileError.
    """
    folder = site.folder
    finish_change(site)
    found = folder.progress()
    at = time.time()
    if found is not None and not found.over:
        progress = _again(found, target, plan, at)
    else:
        chosen = load_plan(plan or DEFAULT_PLAN)
        name = site.route_name(route)
        progress = moves.begun(name, target, chosen, FileWeights(site, name).read(), at=at, who=who())
    return Controller(
        progress,
        folder,
        weights=FileWeights(site, progress.route),
        traffic=MetricsPage(site, progress.route),
        candidate=ServedCandidate(site),
        show=show,
    )


def ask(site: Site, what: Ask, why: str, *, all_the_way: bool = False) -> Progress:
    """Have it done, by the controller that runs or here. Raises ReleaseError, also when it is refused."""
    order = Order(ask=what, who=who(), why=why, all_the_way=all_the_way)
    folder = site.folder
    deadline = time.monotonic() + _REPLY_S
    given = False
    while True:
        with folder.locked() as ours:
            if ours:
                folder.take_order_away()
                finish_change(site)
                progress = folder.progress()
                if progress is None:
                    raise ReleaseError("no release was begun here: ./ladder release start MODEL:VERSION begins one")
                return _accepted(progress if progress.order == order.id else _done_here(site, progress, order))
        progress = folder.progress()
        if progress is not None and progress.order == order.id:
            return _accepted(progress)
        if not given:
            folder.give(order)
            given = True
        if time.monotonic() >= deadline:
            folder.take_order_away()
            raise ReleaseError(
                f"the controller (process {folder.holder()}) does not react within {_REPLY_S:g} s: end it with "
                f"kill -9 {folder.holder()}, nothing is lost by it, and ask again"
            )
        time.sleep(_POLL_S)


def set_weights(site: Site, given: Mapping[str, float], route: str | None, why: str) -> Event:
    """Give targets these weights; the others share what is left as before. Raises ReleaseError and ReleaseFileError."""
    folder = site.folder
    with folder.locked() as ours:
        if not ours:
            raise ReleaseError(
                f"a release is under way (process {folder.holder()}): ./ladder release abort or pause it first"
            )
        finish_change(site)
        progress = folder.progress()
        if progress is not None and not progress.over:
            raise ReleaseError(
                f'the release of "{progress.target}" is not finished ({progress.title}): ./ladder release abort ends it'
            )
        name = site.route_name(route)
        weights = FileWeights(site, name)
        before = weights.read()
        after = _checked(site, name, before, given)
        event = Event(
            id=f"set/{secrets.token_hex(8)}", at=time.time(), who=who(), what="set", route=name,
            target=", ".join(given), before=before, after=after, why=why,
        )  # fmt: skip
        folder.begin_change(event)
        finish_change(site)
    return event


def finish_change(site: Site) -> None:
    """See to it that a change by hand is done whose process was killed. The lock is held."""
    event = site.folder.change()
    if event is not None:
        carry_out(event, FileWeights(site, event.route), site.folder)
        site.folder.end_change()


def go_on(progress: Progress) -> str:
    """What to type after a controller has ended before its release has."""
    return (
        f"The weights stay as they are: {text_of(progress.event.after)}. Go on: ./ladder release start "
        f"{progress.target}; take it back: ./ladder release abort"
    )


def _again(found: Progress, target: str, plan: str | None, at: float) -> Progress:
    if found.target != target:
        raise ReleaseError(
            f'the release of "{found.target}" is not finished ({found.title}): go on with ./ladder release start '
            f"{found.target}, or end it with ./ladder release abort"
        )
    if plan is not None and load_plan(plan) != found.plan:
        raise ReleaseError(
            f'the release of "{target}" goes on by the plan it was begun with: leave out --plan, or end it with '
            "./ladder release abort and begin again"
        )
    return moves.resumed(found, at, who=who()) if found.paused else found


def _done_here(site: Site, progress: Progress, order: Order) -> Progress:
    """Obey an order without a controller. The lock is held."""
    folder, weights = site.folder, FileWeights(site, progress.route)
    carry_out(progress.event, weights, folder)
    moved = moves.obeyed(progress, order, time.time())
    if progress.over and not moved.refused:
        _require_untouched(progress, weights)
        if progress.stage is Stage.PROMOTED:
            ServedCandidate(site).require_ready(progress.stable)
    folder.save(moved)
    carry_out(moved.event, weights, folder)
    return moved


def _require_untouched(progress: Progress, weights: RouteWeights) -> None:
    found = weights.read()
    if not same(found, progress.event.after):
        raise ReleaseError(
            f'the weights were changed after the release of "{progress.target}" was through ({text_of(found)}): set '
            "what you want with ./ladder release set"
        )


def _accepted(progress: Progress) -> Progress:
    if progress.refused:
        raise ReleaseError(progress.reply)
    return progress


def _checked(site: Site, route: str, before: Mapping[str, float], given: Mapping[str, float]) -> dict[str, float]:
    try:
        after = weights_with(before, given)
        with_weights(site.release(), route, after)
    except ValidationError as error:
        raise ReleaseError("; ".join(detail["msg"] for detail in error.errors())) from None
    except ValueError as error:
        raise ReleaseError(f"{error}: weights of a route make 100 %") from None
    candidate = ServedCandidate(site)
    for name, weight in after.items():
        if tenths(weight) > tenths(before.get(name, 0.0)):
            candidate.require_ready(name)
    return after


def parse_weights(words: Sequence[str]) -> dict[str, float]:
    """Weights in percent out of MODEL:VERSION=WEIGHT. Raises ReleaseError."""
    weights: dict[str, float] = {}
    for word in words:
        name, separator, number = word.partition("=")
        target = parse_target(name)
        try:
            weight = WeightedTarget(model=target.model, version=target.version or 0, weight=float(number)).weight
        except ValidationError as error:
            raise ReleaseError(f'"{word}": {error.errors()[0]["msg"]}') from None
        except ValueError:
            missing = "gives no weight" if not separator or not number else f'"{number}" is no number'
            raise ReleaseError(f'"{word}": {missing}: write MODEL:VERSION=PERCENT, such as llm_awq:1=12.5') from None
        if name in weights:
            raise ReleaseError(f'"{name}" is given two weights')
        weights[name] = weight
    return weights


def parse_target(text: str) -> Target:
    """A model with its version out of MODEL:VERSION. Raises ReleaseError."""
    try:
        target = Target.parse(text)
    except ValueError as error:
        raise ReleaseError(str(error)) from None
    if target.version is None:
        raise ReleaseError(f'"{text}" names no version: write {text}:1, say; a release always names one')
    return target
