"""What the router counted for each target of a route: read from the metrics page, and the difference of two looks.

Counters only grow, so what happened in a window is the later look minus the earlier one. Times are in seconds.

The buckets of a step histogram are counters of their own at Triton's endpoint, and a look may come while the router
adds to one after the other. What is torn that way is mended by what is known of cumulative counts: none is less than
the one before it, and none ever falls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from pydantic import BaseModel, ConfigDict

from tools.wire import release_metrics as names

from .errors import ReleaseError

# Failures that say nothing about the target: the request was wrong, its client hung up, or the route's own bound on
# requests in flight sent it elsewhere.
BLAMELESS: Final = frozenset({"invalid", "cancelled", "by_load"})

_ENGINE_UP: Final = "ladder_engine_up"
_ENGINE_RESTARTS: Final = "ladder_engine_restarts_total"
_PREFIX: Final = "ladder_release_"
_BUCKET: Final = "_bucket"
# The parser calls every counter X_total; those that a step histogram is made of are not written so.
_PARTS: Final = ("_bucket_total", "_sum_total", "_count_total")


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class Histogram(_Value):
    """Counts by bucket: `counts[i]` values are above `bounds[i - 1]` (0 for the first) and at most `bounds[i]`.

    The last count, one more than there are bounds, is of the values above all bounds. `sum` is exact.
    """

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = (0,)
    sum: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.counts)

    def edges(self, index: int) -> tuple[float, float]:
        """Between which values bucket `index` lies; the last has no upper one."""
        low = self.bounds[index - 1] if index else 0.0
        return low, self.bounds[index] if index < len(self.bounds) else float("inf")

    def since(self, earlier: Histogram) -> Histogram:
        """What came to this one after `earlier`, which may be empty. Raises ValueError when it is none of its past."""
        if not earlier.total:
            return self
        if earlier.bounds != self.bounds:
            raise ValueError("the buckets are others now")
        cumulative = zip(accumulate(self.counts), accumulate(earlier.counts), strict=True)
        came = [now - then for now, then in cumulative]
        if min(came) < 0:
            raise ValueError("a bucket holds fewer values than before")
        return Histogram(bounds=self.bounds, counts=_by_bucket(came), sum=self.sum - earlier.sum)


class Counts(_Value):
    """What happened at one target, by requests of one route.

    `answered` requests came to their end. `errors` are by reason, those that another target then answered included;
    `finished` counts sequences by finish reason. `streams` is the number of `ttft`'s values.
    """

    requests: int = 0
    answered: int = 0
    errors: Mapping[str, int] = {}
    finished: Mapping[str, int] = {}
    ttft: Histogram = Histogram()
    itl: Histogram = Histogram()
    output_tokens: Histogram = Histogram()

    @property
    def failed(self) -> int:
        """Requests that failed for what the target has to answer for."""
        return sum(count for reason, count in self.errors.items() if reason not in BLAMELESS)

    @property
    def ended(self) -> int:
        """Requests that say something about the target: answered or failed."""
        return self.answered + self.failed

    @property
    def streams(self) -> int:
        """Streamed requests that have had their first token."""
        return self.ttft.total

    def since(self, earlier: Counts) -> Counts:
        """What happened after `earlier`. Raises ValueError when a counter has begun again."""
        if self.requests < earlier.requests or self.answered < earlier.answered:
            raise ValueError("a counter is lower than before")
        return Counts(
            requests=self.requests - earlier.requests,
            answered=self.answered - earlier.answered,
            errors=_difference(self.errors, earlier.errors),
            finished=_difference(self.finished, earlier.finished),
            ttft=self.ttft.since(earlier.ttft),
            itl=self.itl.since(earlier.itl),
            output_tokens=self.output_tokens.since(earlier.output_tokens),
        )


class Observation(_Value):
    """One look at the metrics of a route. Targets are MODEL:VERSION.

    `weights` are in percent, as the router has them; `users` are the different sticky keys of the last 5 minutes.
    `restarts` and `engines_up` are of engines, where they say so.
    """

    at: float
    counts: Mapping[str, Counts] = {}
    weights: Mapping[str, float] = {}
    in_flight: Mapping[str, int] = {}
    users: Mapping[str, int] = {}
    engines_up: Mapping[str, bool] = {}
    restarts: Mapping[str, int] = {}
    file_broken: bool = False

    def of(self, target: str) -> Counts:
        """The target's counts; of one that was never asked, nothing."""
        return self.counts.get(target, Counts())


def window(later: Observation, earlier: Observation, target: str) -> Counts:
    """What happened at a target between two looks. Raises ValueError when the server was started again meanwhile."""
    return later.of(target).since(earlier.of(target))


def observation_in(page: str, route: str, at: float) -> Observation:
    """The look at `at` (seconds since the epoch) that the text of a metrics page gives.

    Raises ReleaseError for a page that is another program's.
    """
    try:
        return _observation(page, route, at)
    except (ValueError, KeyError) as error:
        raise ReleaseError(
            f"what answers as the server's metrics page is none of a tritonserver of this checkout ({error!r}): "
            "./ladder status and ./ladder fleet status show what runs where"
        ) from None


def _observation(page: str, route: str, at: float) -> Observation:
    by_target: defaultdict[str, list[Sample]] = defaultdict(list)
    restarts: dict[str, int] = {}
    up: dict[str, bool] = {}
    broken = False
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.labels.get("route") == route and sample.name.startswith(_PREFIX):
                by_target[_target(sample)].append(_named_as_written(sample))
            elif sample.name == _ENGINE_RESTARTS:
                restarts[_target(sample)] = int(sample.value)
            elif sample.name == _ENGINE_UP:
                up[_target(sample)] = bool(sample.value)
            elif sample.name == names.FILE_BROKEN:
                broken = broken or bool(sample.value)
    return Observation(
        at=at,
        counts={target: _counts(samples) for target, samples in by_target.items()},
        weights={target: round(_value(samples, names.WEIGHT) * 100, 1) for target, samples in by_target.items()},
        in_flight={target: int(_value(samples, names.IN_FLIGHT)) for target, samples in by_target.items()},
        users={target: int(_value(samples, names.USERS)) for target, samples in by_target.items()},
        engines_up=up,
        restarts=restarts,
        file_broken=broken,
    )


def _counts(samples: Iterable[Sample]) -> Counts:
    samples = list(samples)
    errors = _by_label(samples, names.ERRORS, "reason")
    # A target that was not ready and had a fallback failed the request too, though the client never saw it.
    skipped = _by_label(samples, names.FALLBACKS, "reason").get("not_ready", 0)
    if skipped:
        errors["not_ready"] = errors.get("not_ready", 0) + skipped
    return Counts(
        requests=int(_value(samples, names.REQUESTS)),
        answered=int(_value(samples, f"{names.E2E}_count")),
        errors=errors,
        finished=_by_label(samples, names.FINISHED, "finished_reason"),
        ttft=_histogram(samples, names.TTFT),
        itl=_histogram(samples, names.ITL),
        output_tokens=_histogram(samples, names.OUTPUT_TOKENS),
    )


def _histogram(samples: Iterable[Sample], name: str) -> Histogram:
    samples = list(samples)
    cumulative = sorted(
        (float(sample.labels["le"]), int(sample.value)) for sample in samples if sample.name == name + _BUCKET
    )
    if not cumulative:
        return Histogram()
    return Histogram(
        bounds=tuple(bound for bound, _ in cumulative[:-1]),
        counts=_by_bucket(count for _, count in cumulative),
        sum=_value(samples, f"{name}_sum"),
    )


def _by_bucket(cumulative: Iterable[int]) -> tuple[int, ...]:
    """Counts by bucket out of counts up to each bound."""
    whole = list(accumulate(cumulative, max))
    return tuple(count - before for count, before in zip(whole, [0, *whole], strict=False))


def _by_label(samples: Iterable[Sample], name: str, label: str) -> dict[str, int]:
    return {sample.labels[label]: int(sample.value) for sample in samples if sample.name == name and sample.value}


def _value(samples: Iterable[Sample], name: str) -> float:
    return next((sample.value for sample in samples if sample.name == name), 0.0)


def _named_as_written(sample: Sample) -> Sample:
    return sample._replace(name=sample.name.removesuffix("_total")) if sample.name.endswith(_PARTS) else sample


def _target(sample: Sample) -> str:
    return f"{sample.labels['model']}:{sample.labels['version']}"


def _difference(later: Mapping[str, int], earlier: Mapping[str, int]) -> dict[str, int]:
    difference = {name: count - earlier.get(name, 0) for name, count in later.items()}
    if any(count < 0 for count in difference.values()):
        raise ValueError("a counter is lower than before")
    return {name: count for name, count in difference.items() if count}
