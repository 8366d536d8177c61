"""A report of real cells: a real tritonserver with an engine that computes nothing, and real load tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.reporting.examples import PROFILE
from tests.reporting.test_walk import Told
from tools.benchmark.deployment import serving as serving_one
from tools.benchmark.repository import write_mock_model
from tools.bootstrap.layout import Layout
from tools.client.address import ServerAddress
from tools.reporting.compare import compare
from tools.reporting.folder import read_report
from tools.reporting.locust_cell import LocustRun
from tools.reporting.rungs import RungFacts
from tools.reporting.serving import RunningServer
from tools.reporting.session import Order, make_report
from tools.reporting.settings import Settings
from tools.reporting.walk import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(300)]

LAYOUT = Layout.of_this_checkout()


@pytest.fixture(scope="module")
def server() -> Iterator[ServerAddress]:
    with tempfile.TemporaryDirectory(prefix="lr-") as name:
        write_mock_model(Path(name), PROFILE, "llm_bf16", {"step_s": 0.005})
        with serving_one(Path(name), ("llm_bf16",), None, LAYOUT, lambda _: None) as running:
            yield running.address


def test_cells_are_measured_kept_and_compared(server: ServerAddress, tmp_path: Path) -> None:
    settings = Settings(levels=(1, 4), output_tokens=16, min_requests=8, repeats=2)

    def serving(rungs: Sequence[RungFacts]) -> tuple[Serve, str]:
        running = RunningServer(server, settings.protocol)
        return running, running.require(rungs)

    order = Order("cpu-smollm2", PROFILE, settings, ("v2",), tmp_path / "report")
    made = make_report(order, LAYOUT, serving, LocustRun(LAYOUT.home), Told())
    assert [cell.reason for cell in made.unmeasured] == []
    for level in made.rungs[0].levels:
        # The mock takes 5 ms for a token, and the machine what it takes.
        assert level.tpot_ms.median > 4
    for cell in made.cells:
        assert cell.figures is not None
        assert (cell.figures.requests, cell.figures.output_tokens) == (8, 8 * 16)

    # All of it is there a second time.
    again = make_report(order, LAYOUT, serving, LocustRun(LAYOUT.home), Told())
    assert all(cell.reused for cell in again.cells)

    found = read_report(tmp_path / "report")
    comparison = compare(found, found, tolerance=5)
    assert {change.interval.change for change in comparison.changes} == {0.0}
    assert not comparison.regressed
