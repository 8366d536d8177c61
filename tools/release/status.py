"""A route as it is now: what its release is doing, and what each target got."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tools.bootstrap.locking import is_held

from .controller import Traffic
from .intervals import critical_value, quantile, wilson
from .judgement import Judgement, judge
from .observation import Counts, Observation, window
from .progress import Progress, Stage
from .steered import Steered
from .weights import Weights, same

_CONFIDENCE = 0.95
_QUANTILE = 0.95


class TargetRow(BaseModel):
    """One target. Weights, shares and rates are in percent, times in milliseconds; None where nothing was measured.

    `users` are the different sticky keys of the last 5 minutes.

    `share_low` to `share_high` and `error_low` to `error_high` are 95 % confidence intervals (Wilson). They hold for
    requests that come independently of each other; where users send many and stick to a target, they are too narrow.
    """

    model_config = ConfigDict(frozen=True)

    target: str
    weight: float
    requests: int = 0
    share: float | None = None
    share_low: float | None = None
    share_high: float | None = None
    in_flight: int = 0
    users: int = 0
    ttft_p95_ms: float | None = None
    itl_p95_ms: float | None = None
    failed: int = 0
    error_rate: float | None = None
    error_low: float | None = None
    error_high: float | None = None


class RouteStatus(BaseModel):
    """A route. `since` is when counting began, in seconds since the epoch; None: when the server started."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    route: str
    targets: list[TargetRow]
    since: float | None = None
    progress: Progress | None = None
    judgement: Judgement | None = None
    note: str = ""


def status_of(site: Steered, route: str, traffic: Traffic) -> RouteStatus:
    """The route's status; whoever asks again gives the same `traffic`. Raises ReleaseError and ReleaseFileError."""
    weights = site.weights(route).read()
    found = site.folder.progress()
    progress = found if found is not None and found.route == route else None
    look = traffic.observe()
    if look is None:
        rows = [TargetRow(target=name, weight=weight) for name, weight in weights.items()]
        return RouteStatus(route=route, targets=rows, progress=progress, note="the server does not answer")
    earlier = progress.window if progress is not None and same(weights, progress.event.after) else None
    try:
        rows = rows_of(look, earlier, weights)
    except ValueError:
        earlier = None
        rows = rows_of(look, None, weights)
    return RouteStatus(
        route=route,
        targets=rows,
        since=None if earlier is None else earlier.at,
        progress=progress,
        judgement=None if progress is None or earlier is None else judgement_of(progress, look, earlier),
        note=_note(site, progress, look),
    )


def judgement_of(progress: Progress, look: Observation, earlier: Observation) -> Judgement | None:
    """What the controller would find now, at its latest look; None when there is nothing to judge."""
    if progress.stage is not Stage.STEP:
        return None
    canary, stable = (window(look, earlier, name) for name in (progress.target, progress.stable))
    if progress.share == 100:
        stable = progress.baseline or Counts()
    return judge(progress.plan, canary, stable, max(1, progress.looks), progress.baseline)


def rows_of(look: Observation, earlier: Observation | None, weights: Weights) -> list[TargetRow]:
    """Every target that has or had something to do, the heaviest first: what happened since `earlier`, or in all.

    Raises ValueError when the counters have begun again since.
    """
    names = {*weights, *(name for name, counts in look.counts.items() if counts.requests)}
    counts = {name: look.of(name) if earlier is None else window(look, earlier, name) for name in names}
    total = sum(found.requests for found in counts.values())
    rows = [_row(name, weights.get(name, 0.0), counts[name], total, look) for name in sorted(names)]
    return sorted(rows, key=lambda row: -row.weight)


def _note(site: Steered, progress: Progress | None, look: Observation) -> str:
    notes = ["the router finds the release file broken: its log says why"] if look.file_broken else []
    if progress is not None and not progress.over:
        if is_held(site.folder.lock):
            notes.append(f"its controller is process {site.folder.holder()}")
        else:
            notes.append(f"no controller runs: ./ladder release start {progress.target}{site.option} goes on")
    return "; ".join(notes)


def _row(name: str, weight: float, counts: Counts, total: int, look: Observation) -> TargetRow:
    share, errors = _percent(counts.requests, total), _percent(counts.failed, counts.ended)
    return TargetRow(
        target=name,
        weight=weight,
        requests=counts.requests,
        share=share[0],
        share_low=share[1],
        share_high=share[2],
        in_flight=look.in_flight.get(name, 0),
        users=look.users.get(name, 0),
        ttft_p95_ms=_milliseconds(quantile(counts.ttft, _QUANTILE)),
        itl_p95_ms=_milliseconds(quantile(counts.itl, _QUANTILE)),
        failed=counts.failed,
        error_rate=errors[0],
        error_low=errors[1],
        error_high=errors[2],
    )


def _percent(part: int, total: int) -> tuple[float | None, float | None, float | None]:
    """A share with its interval."""
    if not total:
        return None, None, None
    low, high = wilson(part, total, critical_value((1 - _CONFIDENCE) / 2))
    return 100 * part / total, 100 * low, 100 * high


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds
