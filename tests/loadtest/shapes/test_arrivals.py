"""Properties of the arrivals, over seeds."""

from __future__ import annotations

import math
from itertools import islice, pairwise, takewhile
from random import Random

import pytest

from loadtest.shapes.arrivals import Share, arrivals
from loadtest.shapes.curves import RateCurve


def times(curve: RateCurve, seed: int, until: float) -> list[float]:
    return list(takewhile(lambda at: at < until, arrivals(curve, Random(seed))))


@pytest.mark.parametrize("rate", [0.5, 3.0, 40.0])
def test_the_mean_rate_is_the_one_asked_for(rate: float) -> None:
    seconds = 4000 / rate
    counts = [len(times(RateCurve.constant(rate), seed, seconds)) for seed in range(10)]

    # 40,000 arrivals: five standard deviations of their number are 1000.
    assert abs(sum(counts) - 40_000) < 1000


def test_gaps_scatter_as_those_of_a_poisson_process_do() -> None:
    found = list(islice(arrivals(RateCurve.constant(5.0), Random(1)), 20_000))
    gaps = [after - before for before, after in pairwise(found)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))

    assert deviation / mean == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
def test_a_ramp_brings_as_many_as_the_area_under_it() -> None:
    ramp = RateCurve(((0.0, 10.0), (100.0, 50.0)))
    early = sum(len(times(ramp, seed, 50.0)) for seed in range(20))
    late = sum(len([at for at in times(ramp, seed, 100.0) if at >= 50.0]) for seed in range(20))

    assert early / 20 == pytest.approx(50 * 20, rel=0.05)
    assert late / 20 == pytest.approx(50 * 40, rel=0.05)


def test_the_same_seed_brings_the_same_times_and_another_seed_others() -> None:
    curve = RateCurve(((0.0, 1.0), (10.0, 9.0)))

    assert times(curve, 7, 50.0) == times(curve, 7, 50.0)
    assert times(curve, 7, 50.0) != times(curve, 8, 50.0)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("targets", [1, 2, 3])
def test_every_arrival_is_taken_by_exactly_one_process(count: int, targets: int) -> None:
    shares = [Share(index, count) for index in range(count)]

    for number in range(200):
        assert sum(share.takes(number, targets) for share in shares) == 1


@pytest.mark.parametrize("targets", [1, 2, 3])
def test_every_process_gets_to_every_target_equally_often(targets: int) -> None:
    mine = [number for number in range(12 * targets) if Share(1, 2).takes(number, targets)]
    turns = [number % targets for number in mine]

    assert [turns.count(target) for target in range(targets)] == [6] * targets


def test_users_of_several_processes_have_numbers_of_their_own() -> None:
    numbers = [Share(index, 3).number_of(place) for index in range(3) for place in range(4)]

    assert sorted(numbers) == list(range(12))
