"""`python -m tools.engine`: reads an EngineLaunch as one JSON line on standard input and serves until told to stop.

Exit status: 0 after a drain, 2 when what it was given cannot work (starting again would not help), 1 when it died.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from pathlib import Path

import msgspec

from tools.wire.launch import REASON_SUFFIX, EngineLaunch
from tools.wire.process_group import kill_others

from .adapters.base import Adapter
from .adapters.mock import MockAdapter
from .errors import LaunchError
from .limits import Limits
from .server import EngineServer

log = logging.getLogger("tools.engine")

SHUTDOWN_GRACE_S = 5.0


def main() -> int:
    """Run one engine process; see the module's text for the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Ctrl-C in the terminal is for the server: it drains its engines through their sockets.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        launch = msgspec.json.decode(sys.stdin.buffer.readline(), type=EngineLaunch)
    except msgspec.DecodeError as error:
        log.error("standard input must hold one line, an EngineLaunch as JSON: %s", error)  # noqa: TRY400 - as below
        return 2
    threading.Thread(target=_end_with_stub, name="lifeline", daemon=True).start()
    try:
        asyncio.run(serve(launch))
    except LaunchError as error:
        log.error("cannot start: %s", error)  # noqa: TRY400 - the reason is the text, a traceback adds nothing
        _leave_reason(launch, str(error))
        return 2
    except Exception as error:
        log.exception("the engine died")
        _leave_reason(launch, f"{type(error).__name__}: {error}")
        return 1
    return 0


async def serve(launch: EngineLaunch) -> None:
    """Serve `launch` until drained. Raises LaunchError or EngineDeadError."""
    limits = Limits.from_parameters(launch.parameters)
    server = EngineServer(
        f'"{launch.model}" version {launch.version}', launch.socket, make_adapter(launch, limits), limits
    )
    # Whoever stops tritonserver sends SIGTERM here too: tritonserver itself waits for streams and tells nobody.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.retire, SHUTDOWN_GRACE_S)
    await server.run(os.getpid())


def make_adapter(launch: EngineLaunch, limits: Limits) -> Adapter:
    """The adapter that `launch` names; its library is imported only now."""
    match launch.adapter:
        case "vllm":
            from .adapters.vllm import VllmAdapter

            return VllmAdapter(launch, limits)
        case "transformers":
            from .adapters.transformers import TransformersAdapter

            return TransformersAdapter(launch, limits)
        case "tokenizer":
            from .adapters.tokenizer import TokenizerAdapter

            return TokenizerAdapter(launch)
        case "router":
            from .adapters.router import RouterAdapter

            return RouterAdapter(launch)
        case "mock":
            return MockAdapter(launch.arguments, limits.max_tokens_limit)


def _leave_reason(launch: EngineLaunch, reason: str) -> None:
    """Tell the stub why, in the file it reads after this process has ended."""
    with contextlib.suppress(OSError):
        Path(launch.socket + REASON_SUFFIX).write_text(reason, encoding="utf-8")


def _end_with_stub() -> None:
    """Standard input stays open as long as the stub lives; its end takes along vLLM's engine core, a child of ours."""
    while os.read(0, 1):
        pass
    # At each file that the search for processes reads, a busy main thread would hold it up for a whole interval.
    sys.setswitchinterval(1e-5)
    if os.getpgrp() == os.getpid():
        kill_others(os.getpid())
    os._exit(1)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of a model library must not keep a finished engine alive.
    os._exit(status)
