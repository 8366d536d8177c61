"""What the router's metrics keep, and for how long."""

from __future__ import annotations

import pytest

from tests.fixtures import fake_pb_utils
from tools.backends.router import metrics
from tools.backends.router.attempts import RETRIABLE
from tools.backends.router.metrics import ReleaseMetrics, Users, error_reason
from tools.wire.release import Release, Route, Shadow, Target
from tools.wire.release_metrics import ERROR_REASONS, FALLBACK_REASONS


def values(name: str) -> dict[tuple[str, str], float]:
    """Values of a gauge by model and route."""
    family = fake_pb_utils.MetricFamily.registered[name]
    return {(metric.labels["model"], metric.labels["route"]): metric.value() for metric in family.metrics}


def test_a_user_counts_for_five_minutes_after_the_last_request() -> None:
    users = Users()
    users.saw("ann", 0.0)
    users.saw("bob", 100.0)
    users.saw("ann", 200.0)
    assert users.count(350.0) == 2
    assert users.count(450.0) == 1, "bob has been away for more than five minutes"
    assert users.count(501.0) == 0


def test_what_is_kept_of_users_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_MOST_USERS", 3)
    users = Users()
    for number in range(10):
        users.saw(f"user-{number}", number)
    assert users.count(10.0) == 3


def test_weights_are_shares_and_fall_to_nothing_with_their_targets() -> None:
    release_metrics = ReleaseMetrics("chat", "1")
    bf16, awq = Target("bf16", 1, 750), Target("awq", 1, 250)
    release_metrics.weigh(Release([Route("r", [bf16, awq], fallback=[Target("awq", 1)], shadow=Shadow("s", 1, 5, 1))]))
    release_metrics.write(release_metrics.take(0.0))
    assert values("ladder_release_weight") == {("bf16", "r"): 0.75, ("awq", "r"): 0.25, ("s", "r"): 0.0}
    release_metrics.weigh(Release([Route("r", [Target("awq", 1, 1000)])]))
    release_metrics.write(release_metrics.take(0.0))
    assert values("ladder_release_weight") == {("bf16", "r"): 0.0, ("awq", "r"): 1.0, ("s", "r"): 0.0}


def test_every_series_of_a_target_is_there_before_anything_has_happened() -> None:
    release_metrics = ReleaseMetrics("chat", "1")
    release_metrics.weigh(Release([Route("r", [Target("m", 1, 1000)])]))
    release_metrics.write(release_metrics.take(0.0))
    families = fake_pb_utils.MetricFamily.registered
    reasons = {metric.labels["reason"] for metric in families["ladder_release_errors_total"].metrics}
    assert reasons == set(ERROR_REASONS)
    assert all(family.metrics for family in families.values()), "an alert would see no data"


@pytest.mark.parametrize(
    ("code", "reason", "label"),
    [
        ("UNAVAILABLE", "queue_full", "queue_full"),
        ("UNAVAILABLE", "deadline", "deadline"),
        ("CANCELLED", "", "cancelled"),
        ("CANCELLED", "unloading", "unloading"),
        ("INVALID_ARG", "", "invalid"),
        ("UNSUPPORTED", "", "invalid"),
        ("NOT_FOUND", "", "invalid"),
        ("INTERNAL", "", "internal"),
        ("UNAVAILABLE", "", "internal"),
    ],
)
def test_failures_have_a_label(code: str, reason: str, label: str) -> None:
    assert error_reason(code, reason) == label  # type: ignore[arg-type]
    assert label in ERROR_REASONS


def test_what_makes_a_request_go_on_has_a_label() -> None:
    assert set(FALLBACK_REASONS) == RETRIABLE | {"not_ready", "by_load"}
    assert set(FALLBACK_REASONS) <= set(ERROR_REASONS)
