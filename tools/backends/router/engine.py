"""The router's own engine process: it tokenizes conversations and watches the release file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tools.wire.messages import Failure, Tokenize, Tokenized, ToPeer, Welcome
from tools.wire.release import Released, WatchRelease

from ..model_config import ModelConfig
from ..supervisor import Patience, State, Supervisor

log = logging.getLogger(__name__)

_FIRST_RELEASE_S = 30.0
_DRAIN_S = 1.0


class RouterEngine:
    """Hands over what the engine says, from its link's thread."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        on_tokenized: Callable[[Tokenized], None],
        on_released: Callable[[Released], None],
        on_down: Callable[[Failure], None],
        on_failed: Callable[[str], None],
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        """`on_down` gets what requests that wait for their tokens are to be told; `on_failed` is told when the engine
        is given up for good.
        """
        self._name = f'"{config.name}" version {config.version}'
        self._on_tokenized = on_tokenized
        self._on_released = on_released
        self._on_down = on_down
        self._on_failed = on_failed
        self._released = threading.Event()
        self._problem = ""
        launch = config.launch("router")
        self._supervisor = Supervisor(config.place(), launch, config.engine_environment(), self, patience)

    def start(self) -> Welcome:
        """Start the engine and wait until it has a release.

        Raises ValueError when the release file is broken, and what `Supervisor.start` raises.
        """
        self._supervisor.start()
        welcome = self._supervisor.welcome
        assert welcome is not None
        self._supervisor.send(WatchRelease())
        if not self._released.wait(_FIRST_RELEASE_S):
            self._problem = f"its engine did not tell the release within {_FIRST_RELEASE_S:g} s"
        if self._problem:
            self.stop()
            raise ValueError(f"{self._name} has no release to go by: {self._problem}")
        return welcome

    def tokenize(self, message: Tokenize) -> Failure | None:
        """Ask for tokens; the failure when there is nobody to ask."""
        if self._supervisor.state is not State.READY:
            return self._failure(self._supervisor.reason)
        self._supervisor.send(message)
        return None

    def stop(self) -> None:
        """End the engine."""
        self._supervisor.stop(_DRAIN_S)

    # What the supervisor tells

    def on_message(self, message: ToPeer) -> None:
        if isinstance(message, Tokenized):
            self._on_tokenized(message)
        elif isinstance(message, Released):
            if not self._released.is_set() and message.release is None:
                self._problem = message.problem
            else:
                self._on_released(message)
            self._released.set()

    def on_down(self, reason: str, state: State) -> None:
        self._on_down(self._failure(reason))
        if state is State.FAILED:
            self._on_failed(reason)

    def on_ready(self, restarts: int) -> None:
        log.info("the tokenizer of %s is ready again, after %d restarts in all", self._name, restarts)
        self._supervisor.send(WatchRelease())

    def _failure(self, reason: str) -> Failure:
        return Failure("UNAVAILABLE", f"the tokenizer of {self._name} is down ({reason}): retry in some seconds")
