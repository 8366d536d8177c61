"""The router's adapter: a tokenizer that also tells its peers the release."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.engine.running import serving
from tools.engine import release_watch
from tools.engine.accounting import Accounting
from tools.engine.adapters.router import RouterAdapter
from tools.engine.errors import LaunchError
from tools.release.file import write_release
from tools.spec.release import ReleaseTarget, everything_to
from tools.wire.launch import RELEASE_STATE, EngineLaunch
from tools.wire.messages import Tokenize
from tools.wire.release import Released, WatchRelease


def release_to(path: Path, model: str) -> None:
    write_release(path, everything_to(ReleaseTarget(model=model, version=1)))


def target(released: Released) -> str:
    assert released.release is not None
    return released.release.routes[0].targets[0].model


def break_file(path: Path) -> None:
    path.write_text("nonsense", encoding="utf-8")


@pytest.fixture
def start(tmp_path: Path) -> Path:
    path = tmp_path / "chat" / "release.yaml"
    release_to(path, "start")
    return path


def launch(chatml_folder: Path, model_folder: Path, **parameters: str) -> EngineLaunch:
    return EngineLaunch(
        "router",
        "chat",
        "1",
        "",
        str(model_folder / "1"),
        {"model": str(chatml_folder), "max_model_len": 256},
        parameters,
    )


@pytest.mark.anyio
async def test_its_peers_are_told_now_and_at_every_change(
    chatml_folder: Path, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_watch, "POLL_S", 0.01)
    adapter = RouterAdapter(launch(chatml_folder, start.parent, RELEASE_FILE="release.yaml"))
    await adapter.start(Accounting())
    told: asyncio.Queue[Released] = asyncio.Queue()
    adapter.watch_release("stub", told.put_nowait)
    assert target(told.get_nowait()) == "start"
    release_to(start, "changed")
    assert target(await asyncio.wait_for(told.get(), 30)) == "changed"
    break_file(start)
    broken = await asyncio.wait_for(told.get(), 30)
    assert target(broken) == "changed"
    assert "this file holds a str" in broken.problem
    conversation = json.dumps([{"role": "user", "content": "Hi"}])
    assert adapter.tokenize(Tokenize(1, conversation, None)).prompt.startswith("<|im_start|>user\nHi")
    await adapter.stop()


@pytest.mark.anyio
async def test_the_running_state_is_named_by_the_environment(
    chatml_folder: Path, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = tmp_path / "running.yaml"
    release_to(running, "canary")
    monkeypatch.setenv(RELEASE_STATE, str(running))
    adapter = RouterAdapter(launch(chatml_folder, start.parent, RELEASE_FILE=str(start)))
    await adapter.start(Accounting())
    told: list[Released] = []
    adapter.watch_release("stub", told.append)
    assert target(told[0]) == "canary"
    await adapter.stop()


def test_a_config_without_a_release_file_is_refused(chatml_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r'config\.pbtxt of "chat" has no parameter "RELEASE_FILE": name the release'):
        RouterAdapter(launch(chatml_folder, tmp_path))


@pytest.mark.anyio
async def test_an_engine_without_a_release_says_so_in_its_log(socket: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.send(WatchRelease())
        await peer.hello()
    assert 'peer "peer" asked "llm" version 1 for the release: only the engine of the router has one' in caplog.text
