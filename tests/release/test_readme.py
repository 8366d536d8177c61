"""tools/release/README.md: its example is a release, its tables have every key and every metric."""

from __future__ import annotations

import re
from pathlib import Path

from tools.release.file import parse_release
from tools.release.plan import Golden, Margins, Plan
from tools.spec.release import Route
from tools.wire.release_metrics import ROUTER_METRICS, TARGET_METRICS

PAGE = (Path(__file__).parents[2] / "tools" / "release" / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(title: str) -> set[str]:
    """The names in code in the first column of the section's table."""
    rows = re.findall(r"^\| (.+?) \|", section(title), re.M)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_example_is_a_release() -> None:
    [block] = re.findall(r"^```yaml\n(.*?)^```$", section("The release file"), re.M | re.S)
    assert [route.name for route in parse_release(block, "README.md").routes] == ["gold", "default"]


def test_every_key_of_a_route_is_explained() -> None:
    assert first_cells("The release file") == set(Route.model_fields)


def test_every_key_of_a_plan_is_explained() -> None:
    nested = {f"margins.{key}" for key in Margins.model_fields} | {f"golden.{key}" for key in Golden.model_fields}
    known = set(Plan.model_fields) | nested
    named = first_cells("The plan")
    assert named <= known
    assert named >= set(Plan.model_fields) - {"margins", "golden"} | {f"margins.{key}" for key in Margins.model_fields}


def test_every_metric_is_there() -> None:
    named = {name for name in first_cells("The metrics") if name.startswith("ladder_")}
    assert named == {metric.name for metric in (*TARGET_METRICS, *ROUTER_METRICS)}
