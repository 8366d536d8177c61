"""A whole run as somebody at a browser sees it: two models of a real tritonserver, with an engine that only waits."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from loadtest.statistics.results import RunResult
from tests.loadtest.webui.chromium import PATIENCE_S, Page, browsing
from tests.loadtest.webui.drawn import pixels
from tests.waiting import wait_until
from tools.benchmark.deployment import serving
from tools.benchmark.repository import write_mock_model
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol
from tools.serving.loading import Loading
from tools.serving.repository import plan_loading, read_models
from tools.serving.server import Server
from tools.spec.loading import load_profile

pytestmark = [pytest.mark.browser, pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(600)]

LOCUSTFILE = Path(__file__).parents[3] / "loadtest" / "locustfile.py"
TARGETS = ("llm_bf16", "llm_awq")


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of two models; the second answers sooner."""
    repository = tmp_path_factory.mktemp("server") / "models"
    profile = load_profile()
    for target, ttft_s in zip(TARGETS, (0.1, 0.03), strict=True):
        write_mock_model(repository, profile, target, {"step_s": 0.005, "ttft_s": ttft_s})
    with serving(repository, [TARGETS[0]], None, Layout.of_this_checkout(), lambda _: None) as server:
        load(repository, TARGETS[1], server)
        yield f"http://{server.address.host}:{server.address.http_port}"


def load(repository: Path, model: str, server: Server) -> None:
    with Loading(plan_loading(read_models([repository]), [model]), server.address.endpoint(Protocol.GRPC)) as loading:
        wait_until(lambda: loading.done, PATIENCE_S)
        assert not loading.error(model)


@pytest.fixture
def locust(triton: str, tmp_path: Path) -> Iterator[str]:
    """The address of Locust's web UI."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    log = tmp_path / "locust.log"
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--host", triton]
    command += ["--web-host", "127.0.0.1", "--web-port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=tmp_path)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(address, process, log), PATIENCE_S)
        yield address
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()


def answers(address: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text(errors="replace")
    try:
        return httpx.get(address).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browsing(tmp_path) as page:
        yield page


def start(page: Page, targets: str) -> None:
    """Fill in Locust's form and start."""
    page.write("input[name=userCount]", "4")
    page.write("input[name=targets]", targets)
    page.choose("select[name=workload]", "fixed-50-256")
    page.write("input[name=outputTokens]", "20")
    page.write("input[name=sla]", "ttft_ms=10000")
    page.click("button[type=submit]")


def test_a_run_from_the_form_to_the_report(locust: str, page: Page, tmp_path: Path) -> None:
    page.open(f"{locust}/")
    page.click("[role=button], button", "Custom parameters")
    start(page, "llm_nothing")
    page.wait("document.body.innerText.includes('llm_nothing')")
    assert "READY" in page.ask("document.body.innerText")

    start(page, ",".join(TARGETS))
    page.click("[role=tab]", "LLM")
    page.wait("document.querySelectorAll('tbody tr').length === 2")
    page.wait("[...document.querySelectorAll('tbody tr')].every((row) => Number(row.cells[1].innerText) > 5)")
    table = page.ask("[...document.querySelectorAll('tr')].map((row) => [...row.cells].map((cell) => cell.innerText))")
    assert table[0][:7] == [
        "Target", "Requests", "Failures", "In SLA (%)", "TTFT p50 (ms)", "TTFT p95 (ms)", "TPOT p50 (ms)",
    ]  # fmt: skip
    awq, bf16 = table[1:]
    assert (awq[0], bf16[0]) == ("llm_awq", "llm_bf16")
    assert 30 <= float(awq[4]) < float(bf16[4])
    assert (awq[2], awq[3]) == ("0", "100")

    page.problems.clear()
    page.click("a", "Live LLM charts")
    page.wait("document.querySelectorAll('.chart canvas').length === 6")
    for color in range(2):
        wait_until(lambda color=color: pixels(page, 0, color) > 50, PATIENCE_S)
    assert page.ask("document.getElementById('state').innerText") == "running"

    page.open(f"{locust}/")
    page.click("button", "Stop")
    page.wait("document.body.innerText.includes('STOPPED')")
    page.click("a", "Live LLM charts")
    page.wait("document.getElementById('state').innerText === 'finished'")
    page.click("a", "results.json")
    result = RunResult.model_validate_json(page.downloaded("results.json").read_bytes())
    assert [target.target for target in result.targets] == list(TARGETS)
    assert all(target.requests > 5 and not target.failures for target in result.targets)
    assert all(set(target.finish_reasons) == {"length"} for target in result.targets)
    assert result.targets[0].output_tokens == 20 * result.targets[0].requests

    page.click("a", "report.html")
    page.open(page.downloaded("report.html").as_uri())
    assert page.ask("document.querySelectorAll('.chart canvas').length") == 14
    assert all(pixels(page, 0, color) > 50 for color in range(2))
    assert f"--url {result.options.host}" in page.ask("document.body.innerText")
    assert page.problems == []
