"""A fleet of real tritonservers behind Envoy: one stable, one canary, engines that compute nothing, and 8 streams."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fleet.conftest import free_base
from tests.release.crowd import Crowd
from tests.serving.ladder import HOME, Foreground, assert_nothing_left, ladder, process_of, running
from tests.waiting import wait_until
from tools.benchmark.repository import write_mock_model, write_router
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol, ServerAddress
from tools.fleet.control import FleetStatus, status_of
from tools.fleet.files import FleetFiles
from tools.fleet.plan import CANARY, STABLE
from tools.fleet.site import FleetSite
from tools.release.progress import Progress, Stage
from tools.rendering.plan import ENSEMBLES, rendered_files
from tools.spec.loading import load_profile

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(300)]

ABORTED = 3
LAYOUT = Layout.of_this_checkout()
# Everything shares two cores with everything else here: what is caught has to be far beyond that.
PLAN = """\
steps: [25, 100]
bake_s: 1
min_requests: 12
patience_s: 200
margins: {ttft_p95_percent: 300, itl_p95_percent: 300}
golden:
  prompts:
  - {ask: Name three colours., expect: colours}
"""


class Fleet(Foreground):
    """A `./ladder fleet up` that stays."""

    def __init__(self, port_base: int, repository: Path, log: Path) -> None:
        self.port_base = port_base
        self.files = FleetFiles.at(port_base, LAYOUT)
        words = ["--replicas", "1", "--canary", "1", "--repository", str(repository), "--accept-lint-errors"]
        super().__init__(log, *words, "--port-base", str(port_base), command=("fleet", "up"))

    @property
    def site(self) -> FleetSite:
        return FleetSite.at(self.port_base, LAYOUT)

    @property
    def status(self) -> FleetStatus:
        status = status_of(self.port_base, LAYOUT)
        assert status is not None
        return status

    @property
    def weights(self) -> dict[str, float]:
        return {name: weight for name, weight in self.site.weights("fleet").read().items() if weight}

    @property
    def progress(self) -> Progress:
        progress = self.site.folder.progress()
        assert progress is not None
        return progress

    def crowd(self) -> Crowd:
        address = ServerAddress.from_port_base(self.port_base)
        return Crowd(address.endpoint(Protocol.GRPC), members=8)

    def release(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return ladder("release", *arguments, "--fleet", "--port-base", str(self.port_base), timeout=200)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, envoy: Path) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    repository = folder / "repository"
    profile = load_profile()
    write_mock_model(repository, profile, "llm_bf16", {"step_s": 0.02})
    write_router(repository, profile, "llm_bf16")
    for path, text in rendered_files(profile).items():
        if path.is_relative_to(ENSEMBLES / "chat_tokenizer"):
            file = repository / path.relative_to(ENSEMBLES)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    fleet = Fleet(free_base(2), repository, folder / "up.log")
    try:
        fleet.wait_until("Serving:", 120)
        yield fleet
    finally:
        fleet.kill()
        ladder("fleet", "down", "--port-base", str(fleet.port_base))
        shutil.rmtree(fleet.files.folder)


@pytest.fixture
def plan(tmp_path: Path) -> str:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN, encoding="utf-8")
    return str(file)


def test_a_release_walks_over_the_servers_and_back_and_no_stream_fails(fleet: Fleet, plan: str) -> None:
    with fleet.crowd() as crowd:
        done = fleet.release("start", CANARY, "--plan", plan)
        assert done.returncode == 0, done.stdout + done.stderr
        assert fleet.weights == {CANARY: 100.0}
        assert fleet.status.in_force == {CANARY: 100.0, STABLE: 0.0}
        back = fleet.release("abort", "--why", "to see it go back")
        assert back.returncode == 0, back.stdout + back.stderr
        assert "In force at the proxy after" in back.stdout
    assert fleet.weights == {STABLE: 100.0}
    assert crowd.failed == crowd.cut == []
    assert crowd.answered.total() > 100
    shares = [event.after.get(CANARY, 0.0) for event in fleet.site.folder.history.events()]
    assert shares == [0.0, 25.0, 100.0, 100.0, 0.0]
    requests = {name: seen.requests for name, seen in fleet.status.traffic.items()}
    assert all(count > 20 for count in requests.values())


def test_a_canary_server_that_is_killed_ends_the_release_and_is_started_again(fleet: Fleet, plan: str) -> None:
    canary = fleet.status.state.plan.of_track(CANARY)[0]
    victim = process_of(running(canary.port_base), "tritonserver")
    words = [
        HOME / "ladder",
        "release",
        "start",
        CANARY,
        "--plan",
        plan,
        "--fleet",
        "--port-base",
        str(fleet.port_base),
    ]
    with fleet.crowd() as crowd:
        controller = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: fleet.site.folder.progress() and fleet.progress.stage is Stage.STEP, 60)
            wait_until(lambda: fleet.status.traffic[canary.name].in_flight > 0)
            os.kill(victim, signal.SIGKILL)
            assert controller.wait(60) == ABORTED
        finally:
            controller.kill()
            controller.wait()
        answered = crowd.answered.total()
        wait_until(lambda: crowd.answered.total() > answered + 20)
    assert fleet.progress.why == 'the engine of "canary" died'
    assert fleet.weights == {STABLE: 100.0}
    # Streams that had begun on it cannot be saved. There are 8 at most.
    assert len(crowd.failed) <= 8
    assert crowd.cut == []
    wait_until(lambda: fleet.status.running and fleet.status.state.servers[1].starts == 2, 120)


def test_a_killed_proxy_is_started_again_with_its_weights(fleet: Fleet) -> None:
    done = ladder("fleet", "set", "canary=12.5", "--port-base", str(fleet.port_base))
    assert "stable 100 % -> stable 87.5 %, canary 12.5 %" in done.stdout
    assert "In force at the proxy after" in done.stdout
    folder = fleet.files.proxy
    os.kill(int((folder / "state.json").read_text().partition('"server": ')[2].partition(",")[0]), signal.SIGKILL)
    wait_until(lambda: fleet.status.state.proxy.starts == 2 and fleet.status.running, 60)
    assert fleet.status.in_force == {CANARY: 12.5, STABLE: 87.5}
    assert httpx.get(f"http://127.0.0.1:{fleet.port_base}/v2/models/chat/ready").status_code == 200
    shown = ladder("fleet", "status", "--port-base", str(fleet.port_base))
    assert shown.returncode == 0
    assert "canary-0" in shown.stdout


def test_ctrl_c_leaves_nothing(fleet: Fleet) -> None:
    fleet.process.send_signal(signal.SIGINT)
    assert fleet.process.wait(60) == 130
    assert "Stopped: nothing of the fleet is left." in fleet.output
    assert status_of(fleet.port_base, LAYOUT) is None
    for base in (fleet.port_base, fleet.port_base + 10, fleet.port_base + 20):
        assert_nothing_left(base)
