"""The rate over the time of a run."""

from __future__ import annotations

import pytest

from loadtest.options import LoadOptions, Shape
from loadtest.shapes.curves import RateCurve, curve_of


def options(shape: Shape, **more: object) -> LoadOptions:
    return LoadOptions.model_validate(
        {"host": "http://localhost:8000", "targets": ("a",), "shape": shape, "rate": 2, "peak_rate": 10, **more}
    )


def test_a_steady_rate_never_changes() -> None:
    curve = curve_of(options(Shape.RATE))

    assert [curve.at(seconds) for seconds in (0, 5, 1e6)] == [2, 2, 2]


def test_a_ramp_rises_from_the_end_of_the_warm_up_to_the_end_of_the_run() -> None:
    curve = curve_of(options(Shape.RAMP, warmup_s=10, duration_s=40))

    assert [curve.at(seconds) for seconds in (0, 10, 30, 50, 99)] == [2, 2, 6, 10, 10]
    assert curve.peak == 10


def test_a_spike_is_the_middle_fifth_of_the_measured_time() -> None:
    curve = curve_of(options(Shape.SPIKE, warmup_s=10, duration_s=100))

    assert [curve.at(seconds) for seconds in (0, 49.9, 50, 69.9, 70, 110)] == [2, 2, 10, 10, 2, 2]


@pytest.mark.parametrize("shape", [Shape.RAMP, Shape.SPIKE])
def test_what_is_drawn_over_the_run_needs_its_length(shape: Shape) -> None:
    with pytest.raises(ValueError, match=f'shape "{shape}" is drawn over the run: say how long that is'):
        curve_of(options(shape))


def test_between_two_points_the_rate_is_on_the_line() -> None:
    assert RateCurve(((0.0, 1.0), (4.0, 3.0))).at(1.0) == 1.5
