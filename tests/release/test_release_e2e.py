"""Releases on a real tritonserver, with the router, engines that compute nothing, and a crowd of 16 streams."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.deployment import Deployment
from tests.release.crowd import ROUTER, Crowd
from tests.serving.ladder import HOME, ladder
from tests.waiting import wait_until
from tools.benchmark.deployment import free_port_base, serving
from tools.benchmark.repository import write_mock_model, write_router
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol, ServerAddress
from tools.client.client import Client
from tools.client.errors import UnavailableError
from tools.client.request import GenerateRequest, Target
from tools.client.server_info import ServerInfo
from tools.release.history import Event
from tools.release.progress import Progress, Stage
from tools.release.site import FileWeights, MetricsPage, Site
from tools.rendering.plan import ENSEMBLES, MODEL_REPOSITORY, rendered_files
from tools.serving.server import Server
from tools.spec.loading import load_profile

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

STABLE = "llm_bf16:1"
CANARIES = {"good": 0.02, "slow": 0.4, "slower": 0.024, "victim": 0.02}
STEP_S = 0.02
ABORTED = 3
PLAN = """\
min_requests: 20
patience_s: 300
# Everything shares two cores with everything else here: what is caught has to be far beyond that.
margins: {ttft_p95_percent: 400, itl_p95_percent: 400}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The router, its tokenizer and the stable target; canaries lie in the repository and are not loaded."""
    folder = tmp_path_factory.mktemp("release") / "repository"
    profile = load_profile()
    write_mock_model(folder, profile, "llm_bf16", {"step_s": STEP_S})
    write_router(folder, profile, "llm_bf16")
    rendered = rendered_files(profile)
    for path, text in rendered.items():
        if path.is_relative_to(ENSEMBLES / "chat_tokenizer"):
            _write(folder / path.relative_to(ENSEMBLES), text)
    config = (folder / "llm_bf16" / "config.pbtxt").read_text(encoding="utf-8")
    assert MODEL_REPOSITORY / "llm_bf16" / "config.pbtxt" in rendered
    for name, step_s in CANARIES.items():
        _write(folder / f"llm_{name}" / "config.pbtxt", config.replace('"llm_bf16"', f'"llm_{name}"'))
        _write(folder / f"llm_{name}" / "1" / "model.json", json.dumps({"step_s": step_s}))
    layout = Layout.of_this_checkout()
    base = free_port_base(layout, 9200)
    with serving(folder, ["chat", "chat_tokenizer", "llm_bf16"], base, layout, print) as running:
        with Client(running.address.endpoint(Protocol.GRPC)) as client:
            wait_until(lambda: answers(client))
        yield running
        files = Site.at(base, layout).folder.path
    shutil.rmtree(files)


@pytest.fixture
def site(server: Server) -> Iterator[Site]:
    """The server's release files, with all weight on the stable target when the test has ended."""
    site = Site.at(server.instance.port_base, Layout.of_this_checkout())
    yield site
    release(site, "abort")
    FileWeights(site, "default").write({STABLE: 100.0})


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Half of the requests in two steps, which is enough where the way to the end is not what is tested."""
    return written_plan(tmp_path, "[25, 50]")


def written_plan(folder: Path, steps: str, bake_s: int = 2) -> Path:
    file = folder / "plan.yaml"
    _write(file, f"steps: {steps}\nbake_s: {bake_s}\n{PLAN}")
    return file


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def release(site: Site, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return ladder("release", *arguments, "--port-base", str(site.instance.port_base), timeout=timeout)


def begin(site: Site, *arguments: str) -> subprocess.Popen[str]:
    """`./ladder release start`, while the test goes on."""
    return subprocess.Popen(
        [HOME / "ladder", "release", "start", *arguments, "--port-base", str(site.instance.port_base)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )


def answers(client: Client) -> bool:
    """Whether the router hands a request on."""
    try:
        return bool(client.complete(ROUTER, GenerateRequest(prompt="hello", sampling={"max_tokens": 1})).text)
    except UnavailableError:
        return False


def weights(site: Site) -> dict[str, float]:
    """Those in the release file, without zeros."""
    return {name: weight for name, weight in FileWeights(site, "default").read().items() if weight}


def crowd(site: Site) -> Crowd:
    return Crowd(site.endpoint)


def events(site: Site, target: str) -> list[Event]:
    return [event for event in site.folder.history.events() if event.target == target]


def progress(site: Site) -> Progress:
    found = site.folder.progress()
    assert found is not None
    return found


def shares(site: Site, target: str) -> list[float]:
    """The target's shares in the order in which it got them."""
    return [event.after.get(target, 0.0) for event in events(site, target) if event.before != event.after]


def wait_for_share(site: Site, target: str, share: float) -> None:
    """Loading and the checks come before the first one."""
    wait_until(lambda: weights(site).get(target) == share, seconds=240)


def test_a_version_that_is_slower_within_its_margin_walks_to_the_end_and_back_and_no_request_fails(
    site: Site, tmp_path: Path
) -> None:
    plan = written_plan(tmp_path, "[10, 50, 100]")
    with crowd(site) as people:
        walked = release(site, "start", "llm_slower:1", "--plan", str(plan))
        assert walked.returncode == 0, walked.stdout + walked.stderr
        assert "Promoted: llm_slower:1 100 %" in walked.stdout
        with ServerInfo.at(site.endpoint) as info:
            assert info.is_model_ready(Target("llm_slower", 1))
        back = release(site, "abort", "--why", "trying it out")
        assert back.returncode == 0, back.stdout + back.stderr
        assert "In force at the router after" in back.stdout
        answered = people.answered["llm_bf16:1"]
        wait_until(lambda: people.answered["llm_bf16:1"] > answered + 50)
    assert people.failed == []
    assert people.cut == []
    assert people.answered["llm_slower:1"] > 80
    assert shares(site, "llm_slower:1") == [10.0, 50.0, 100.0, 0.0]
    last = events(site, "llm_slower:1")[-1]
    assert (last.what, last.why, dict(last.after)) == ("abort", "trying it out", {STABLE: 100.0})
    shown = release(site, "history")
    assert "trying it out" in shown.stdout
    status = json.loads(release(site, "status", "--json").stdout)
    assert {row["target"]: row["weight"] for row in status[0]["targets"]}[STABLE] == 100.0


def test_a_canary_whose_engine_is_killed_is_taken_back_by_itself(site: Site, plan: Path) -> None:
    target = "llm_victim:1"
    page = MetricsPage(site, "default")
    with crowd(site) as people:
        controller = begin(site, target, "--plan", str(plan))
        wait_for_share(site, target, 25.0)
        wait_until(lambda: (look := page.observe()) and look.in_flight.get(target, 0) > 1)
        engine = Deployment(ServerAddress.from_port_base(site.instance.port_base)).engine_of("llm_victim")
        assert engine is not None
        engine.kill()
        output, _ = controller.communicate(timeout=120)
        assert controller.returncode == ABORTED, output
        wait_until(lambda: (look := page.observe()) and look.weights.get(target) == 0)
        answered = people.answered[STABLE]
        wait_until(lambda: people.answered[STABLE] > answered + 100)
    assert f'the engine of "{target}" died' in output
    assert weights(site) == {STABLE: 100.0}
    # Streams that had begun fail cleanly; the others were answered by the stable target.
    assert {(error.code, "died" in error.message) for error in people.failed} <= {("UNAVAILABLE", True)}
    assert len(people.failed) <= 16
    assert people.cut == []
    assert shares(site, target) == [25.0, 0.0]
    assert "In force at the router after" in output


def test_a_slow_canary_is_caught(site: Site, plan: Path) -> None:
    with crowd(site) as people:
        walked = release(site, "start", "llm_slow:1", "--plan", str(plan))
    assert walked.returncode == ABORTED, walked.stdout + walked.stderr
    assert "ITL p95" in walked.stdout
    assert shares(site, "llm_slow:1")[-1] == 0.0
    assert "In force at the router after" in walked.stdout
    assert (people.failed, people.cut) == ([], [])


def test_a_killed_controller_is_followed_by_one_that_goes_on(site: Site, plan: Path) -> None:
    target = "llm_good:1"
    before = len(events(site, target))
    with crowd(site) as people:
        first = begin(site, target, "--plan", str(plan))
        wait_for_share(site, target, 25.0)
        os.kill(int(site.folder.holder()), signal.SIGKILL)
        first.communicate(timeout=30)
        left = weights(site)
        assert target in left
        assert "no controller runs" in release(site, "status").stdout
        assert weights(site) == left
        ended = release(site, "start", target)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [event.what for event in events(site, target)[before:]] == ["start", "step", "step", "finish"]
    assert progress(site).stage is Stage.PROMOTED
    assert (people.failed, people.cut) == ([], [])


def test_one_controller_at_a_time_and_ctrl_c_leaves_the_weights_to_whoever_asks_next(
    site: Site, tmp_path: Path
) -> None:
    target = "llm_good:1"
    plan = written_plan(tmp_path, "[25, 50]", bake_s=200)
    with crowd(site) as people:
        controller = begin(site, target, "--plan", str(plan))
        wait_for_share(site, target, 25.0)
        second = release(site, "start", target)
        assert second.returncode == 1
        assert f"a controller is running (process {site.folder.holder()})" in second.stderr
        os.kill(int(site.folder.holder()), signal.SIGINT)
        output, _ = controller.communicate(timeout=60)
        assert controller.returncode == 130, output
        assert f"Go on: ./ladder release start {target}" in output
        assert weights(site) == {STABLE: 75.0, target: 25.0}
        assert "no controller runs" in release(site, "status").stdout
        promoted = release(site, "promote", "--why", "looks good to me")
        assert promoted.returncode == 0, promoted.stderr
        assert weights(site) == {STABLE: 50.0, target: 50.0}
        refused = release(site, "set", f"{target}=75")
        assert refused.returncode == 1
        assert "is not finished (step 2 of 2, 50 %): ./ladder release abort ends it" in refused.stderr
        assert release(site, "abort").returncode == 0
        by_hand = release(site, "set", f"{target}=12.5", "--why", "a few")
        assert by_hand.returncode == 0, by_hand.stderr
        assert weights(site) == {STABLE: 87.5, target: 12.5}
    assert (people.failed, people.cut) == ([], [])


def test_what_is_not_there_is_named(site: Site, plan: Path) -> None:
    unknown = release(site, "start", "llm_god:1", "--plan", str(plan))
    assert unknown.returncode == ABORTED
    assert 'the repositories hold no model "llm_god": did you mean "llm_good"?' in unknown.stdout
    unloaded = release(site, "set", "llm_slow:9=50")
    assert unloaded.returncode == 1
    assert "./ladder release start llm_slow:9 loads and checks it first" in unloaded.stderr
    tokenizer = release(site, "start", "chat_tokenizer:1", "--plan", str(plan))
    assert tokenizer.returncode == ABORTED
