"""One distribution of times: the buckets of an HdrHistogram, kept sparsely, because most of them stay empty.

From 1 us to 1 h with three significant digits, as in Tene's HdrHistogram: exact below 2,048 us, above that buckets of
at most a thousandth of their value. Everything that is reported (mean, standard deviation, percentiles) is computed
from the buckets alone, so histograms can be taken apart and added up again in any order without changing a figure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Final, Self

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram
from pydantic import PlainSerializer, PlainValidator

from loadtest.statistics.results import Quantiles

_Integers = npt.NDArray[np.int64]

LONGEST_US: Final = 3_600_000_000
_DIGITS: Final = 3
# HdrHistogram's layout for three digits: 2,048 buckets of 1 us, then 1,024 for each doubling.
_HALF_BITS: Final = 10
_HALF: Final = 1 << _HALF_BITS
_PACKED: Final = "<u8"
_PER_MILLE: Final = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}


def bucket_of(seconds: float) -> int:
    """Index of the bucket that this time falls into; what is shorter than 1 us or longer than 1 h counts as that."""
    microseconds = int(seconds * 1e6 + 0.5)
    if microseconds < 2 * _HALF:
        return max(microseconds, 1)
    microseconds = min(microseconds, LONGEST_US)
    doublings = microseconds.bit_length() - _HALF_BITS - 1
    return (doublings << _HALF_BITS) + (microseconds >> doublings)


class Histogram:
    """Counts by bucket. Recording is cheap: a request may bring hundreds of values."""

    __slots__ = ("_counts", "_packed")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._packed = b""

    def record(self, bucket: int) -> None:
        """One more value in this bucket; see `bucket_of`."""
        self._filled()[bucket] += 1

    def record_all(self, buckets: Iterable[int]) -> None:
        """One more value in each of these buckets."""
        self._filled().update(buckets)

    def merge(self, other: Histogram) -> None:
        """Add the other's values."""
        self._filled().update(other._filled())

    def compact(self) -> None:
        """Take a tenth of the memory, until the next time it is used."""
        self._packed = self.pack()
        self._counts = Counter()

    @property
    def count(self) -> int:
        """How many values there are."""
        return self._filled().total()

    def percentiles_ms(self, *per_mille: int) -> list[float | None]:
        """Percentiles, given in thousandths, in milliseconds; None when there is no value.

        By nearest rank: the smallest value that at least so large a part of the values do not exceed, rounded up
        within its bucket.
        """
        buckets, counts = self._ascending()
        if not len(buckets):
            return [None] * len(per_mille)
        return _percentiles_ms(buckets, counts, per_mille)

    def quantiles(self) -> Quantiles:
        """Everything that is reported of the distribution; the mean takes each bucket at its middle."""
        buckets, counts = self._ascending()
        if not len(buckets):
            return Quantiles(count=0)
        total = int(counts.sum())
        middles_ms = (_lowest_us(buckets) + _lowest_us(buckets + 1) - 1) / 2000
        mean = float(middles_ms @ counts) / total
        percentiles = _percentiles_ms(buckets, counts, _PER_MILLE.values())
        return Quantiles(
            count=total,
            mean=mean,
            stddev=math.sqrt(float((middles_ms - mean) ** 2 @ counts) / total),
            min=int(_lowest_us(buckets[:1])[0]) / 1000,
            max=_highest_ms(int(buckets[-1])),
            **dict(zip(_PER_MILLE, percentiles, strict=True)),
        )

    def pack(self) -> bytes:
        """The filled buckets, for a message or for keeping; empty for an empty histogram."""
        return np.column_stack(self._ascending()).astype(_PACKED).tobytes()

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """What `pack` was called on. Raises ValueError."""
        histogram = cls()
        histogram._packed = packed
        histogram._filled()
        return histogram

    def encode(self) -> str:
        """HdrHistogram's own interchange format (V2, base64), in microseconds: any of its ports reads it."""
        histogram = HdrHistogram(1, LONGEST_US, _DIGITS)
        buckets, counts = self._ascending()
        for microseconds, count in zip(_lowest_us(buckets).tolist(), counts.tolist(), strict=True):
            histogram.record_value(microseconds, count)
        return str(histogram.encode(), "ascii")

    def _filled(self) -> Counter[int]:
        if self._packed:
            self._counts.update(dict(np.frombuffer(self._packed, _PACKED).reshape(-1, 2).tolist()))
            self._packed = b""
        return self._counts

    def _ascending(self) -> tuple[_Integers, _Integers]:
        """Filled buckets and their counts. One order, so that sums round the same way however they were filled."""
        counts = self._filled()
        buckets = np.fromiter(counts.keys(), np.int64, len(counts))
        order = np.argsort(buckets)
        return buckets[order], np.fromiter(counts.values(), np.int64, len(counts))[order]


PackedHistogram = Annotated[Histogram, PlainValidator(Histogram.unpack), PlainSerializer(Histogram.pack)]
"""A histogram in a message."""


def _percentiles_ms(buckets: _Integers, counts: _Integers, per_mille: Iterable[int]) -> list[float | None]:
    up_to = counts.cumsum()
    total = int(up_to[-1])
    ranks = [-(-share * total // 1000) for share in per_mille]
    return [_highest_ms(int(bucket)) for bucket in buckets[np.searchsorted(up_to, ranks)]]


def _highest_ms(bucket: int) -> float:
    return (int(_lowest_us(np.array([bucket + 1]))[0]) - 1) / 1000


def _lowest_us(buckets: _Integers) -> _Integers:
    doublings = np.maximum((buckets >> _HALF_BITS) - 1, 0)
    lowest: _Integers = (buckets - (doublings << _HALF_BITS)) << doublings
    return lowest
