from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.statistics.histogram import LONGEST_US, Histogram, bucket_of
from loadtest.statistics.results import Quantiles

times = st.floats(1e-6, 3600.0)


def histogram_of(seconds: list[float]) -> Histogram:
    histogram = Histogram()
    histogram.record_all(map(bucket_of, seconds))
    return histogram


@given(st.integers(1, LONGEST_US))
def test_the_buckets_are_those_of_hdr_histogram(microseconds: int) -> None:
    assert bucket_of(microseconds / 1e6) == HdrHistogram(1, LONGEST_US, 3).get_counts_array_index(microseconds)


@given(st.lists(times, min_size=1), st.sampled_from([500, 900, 950, 990, 999]))
def test_a_percentile_is_the_nearest_rank_to_a_thousandth(seconds: list[float], per_mille: int) -> None:
    rank = -(-per_mille * len(seconds) // 1000)
    expected = sorted(seconds)[rank - 1] * 1000
    (found,) = histogram_of(seconds).percentiles_ms(per_mille)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_quantiles_of_a_known_distribution() -> None:
    found = histogram_of([second / 1000 for second in range(1, 1001)]).quantiles()
    assert found.count == 1000
    assert found.min == 1.0
    assert [found.p50, found.p90, found.p95, found.p99, found.p999, found.max] == pytest.approx(
        [500, 900, 950, 990, 999, 1000], rel=1e-3
    )
    assert found.mean == pytest.approx(500.5, rel=1e-3)
    assert found.stddev == pytest.approx(288.675, rel=1e-3)


def test_an_empty_distribution_has_no_figures() -> None:
    assert Histogram().quantiles() == Quantiles(count=0)
    assert Histogram().percentiles_ms(500, 950) == [None, None]


def test_times_beyond_the_range_count_at_its_ends() -> None:
    found = histogram_of([0.0, -0.5, 1e9]).quantiles()
    assert (found.count, found.min) == (3, 0.001)
    assert found.max == pytest.approx(3_600_000, rel=1e-3)


@given(st.lists(st.lists(times), max_size=5), st.randoms(use_true_random=False))
def test_parts_add_up_to_the_whole_in_any_order(parts: list[list[float]], order: random.Random) -> None:
    whole = histogram_of([value for part in parts for value in part])
    shuffled = order.sample(parts, len(parts))
    merged = Histogram()
    for part in shuffled:
        merged.merge(Histogram.unpack(histogram_of(part).pack()))
    assert merged.quantiles() == whole.quantiles()
    assert merged.pack() == whole.pack()
    assert merged.encode() == whole.encode()


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(times, min_size=1))
def test_other_ports_read_the_encoded_histogram(seconds: list[float]) -> None:
    decoded = HdrHistogram.decode(histogram_of(seconds).encode())
    expected = HdrHistogram(1, LONGEST_US, 3)
    for value in seconds:
        expected.record_value(max(int(value * 1e6 + 0.5), 1))
    assert list(decoded.counts) == list(expected.counts)
    assert decoded.get_total_count() == len(seconds)


def test_a_compacted_histogram_goes_on() -> None:
    histogram = histogram_of([0.01, 0.02])
    histogram.compact()
    histogram.record(bucket_of(0.03))
    assert histogram.pack() == histogram_of([0.01, 0.02, 0.03]).pack()


def test_a_damaged_message_is_refused() -> None:
    packed = histogram_of([0.01, 0.02]).pack()
    for cut in (3, 8):
        with pytest.raises(ValueError, match=r"buffer size|reshape"):
            Histogram.unpack(packed[:-cut])


def test_buckets_ascend_with_time() -> None:
    buckets = [bucket_of(1e-6 * 1.01**exponent) for exponent in range(2200)]
    assert all(earlier <= later for earlier, later in pairwise(buckets))
    assert len(set(buckets)) > 1600
