"""One distribution of times: the buckets of an HdrHistogram, kept sparsely, because most of them stay empty.

From 1 us to 1 h with three significant digits, as in Tene's HdrHistogram: exact below 2,048 us, above that buckets of
at most a thousandth of their value. Everything that is reported (mean, standard deviation, percentiles) is computed
from the buckets alone, so histograms can be taken apart and added up again in any order without changing a figure.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Final, Self

from hdrh.histogram import HdrHistogram
from pydantic import PlainSerializer, PlainValidator

from loadtest.statistics.results import Quantiles

LONGEST_US: Final = 3_600_000_000
_DIGITS: Final = 3
# HdrHistogram's layout for three digits: 2,048 buckets of 1 us, then 1,024 for each doubling.
_HALF_BITS: Final = 10
_HALF: Final = 1 << _HALF_BITS
_PACKED: Final = "IQ"
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
        """Percentiles, given ascending and in thousandths, in milliseconds; None when there is no value.

        By nearest rank: the smallest value that at least so large a part of the values do not exceed, rounded up
        within its bucket.
        """
        found: list[float | None] = []
        total, seen = self.count, 0
        wanted = iter(per_mille)
        share = next(wanted, None)
        for bucket, count in sorted(self._filled().items()):
            seen += count
            while share is not None and seen * 1000 >= share * total:
                found.append(_highest_us(bucket) / 1000)
                share = next(wanted, None)
        return found or [None] * len(per_mille)

    def quantiles(self) -> Quantiles:
        """Everything that is reported of the distribution; the mean takes each bucket at its middle."""
        counts, total = self._filled(), self.count
        if not total:
            return Quantiles(count=0)
        middles = [((_lowest_us(bucket) + _highest_us(bucket)) / 2000, count) for bucket, count in counts.items()]
        # fsum rounds once, so that the order in which the buckets were filled does not show in the last digit.
        mean = math.fsum(middle * count for middle, count in middles) / total
        variance = math.fsum((middle - mean) ** 2 * count for middle, count in middles) / total
        percentiles = dict(zip(_PER_MILLE, self.percentiles_ms(*_PER_MILLE.values()), strict=True))
        return Quantiles(
            count=total,
            mean=mean,
            stddev=math.sqrt(variance),
            min=_lowest_us(min(counts)) / 1000,
            max=_highest_us(max(counts)) / 1000,
            **percentiles,
        )

    def pack(self) -> bytes:
        """The filled buckets, for a message or for keeping; empty for an empty histogram."""
        buckets = sorted(self._filled().items())
        return struct.pack(f"<{_PACKED * len(buckets)}", *chain.from_iterable(buckets))

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
        for bucket, count in self._filled().items():
            histogram.record_value(_lowest_us(bucket), count)
        return str(histogram.encode(), "ascii")

    def _filled(self) -> Counter[int]:
        if self._packed:
            try:
                self._counts.update(dict(struct.iter_unpack(f"<{_PACKED}", self._packed)))
            except struct.error as error:
                raise ValueError(f"a packed histogram of {len(self._packed)} bytes is damaged: {error}") from None
            self._packed = b""
        return self._counts


PackedHistogram = Annotated[Histogram, PlainValidator(Histogram.unpack), PlainSerializer(Histogram.pack)]
"""A histogram in a message."""


def _lowest_us(bucket: int) -> int:
    doublings = max((bucket >> _HALF_BITS) - 1, 0)
    return (bucket - (doublings << _HALF_BITS)) << doublings


def _highest_us(bucket: int) -> int:
    return _lowest_us(bucket + 1) - 1
