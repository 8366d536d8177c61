"""The engine behind `chat`: the tokenizer's, and the release file beside it, for the stub may import neither."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from tools.wire.launch import RELEASE_STATE, EngineLaunch
from tools.wire.release import Released

from ..accounting import Accounting
from ..errors import LaunchError
from ..release_watch import ReleaseWatch
from .base import EngineInfo
from .tokenizer import TokenizerAdapter

PARAMETER = "RELEASE_FILE"


class RouterAdapter(TokenizerAdapter):
    """Tells every peer that asks the release in force, at once and whenever it changes."""

    def __init__(self, launch: EngineLaunch) -> None:
        super().__init__(launch)
        self._watch = ReleaseWatch(_start_file(launch), _running_file())
        self._watching: asyncio.Task[None] | None = None
        self._peers: dict[str, Callable[[Released], None]] = {}

    async def start(self, accounting: Accounting) -> EngineInfo:
        info = await super().start(accounting)
        self._watch.look()
        self._watching = asyncio.create_task(self._tell_changes())
        return info

    def watch_release(self, peer: str, tell: Callable[[Released], None]) -> None:
        """Tell `peer` what is in force now, and whatever changes from now on."""
        self._peers[peer] = tell
        tell(self._watch.released)

    async def stop(self) -> None:
        if self._watching:
            self._watching.cancel()
        await super().stop()

    async def _tell_changes(self) -> None:
        while True:
            await self._watch.wait()
            for tell in self._peers.values():
                tell(self._watch.released)


def _start_file(launch: EngineLaunch) -> Path:
    named = launch.parameters.get(PARAMETER)
    if not named:
        raise LaunchError(
            f'config.pbtxt of "{launch.model}" has no parameter "{PARAMETER}": name the release file there, such as '
            '"release.yaml" in the folder of the model'
        )
    # Beside config.pbtxt, one above the version's folder; an absolute path stays what it is.
    return Path(launch.model_directory).parent / named


def _running_file() -> Path | None:
    named = os.environ.get(RELEASE_STATE)
    return Path(named) if named else None
