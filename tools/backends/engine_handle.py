"""A model's engine, as its stub sees it: start it, hand it requests, stop it."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence

from tools.wire.launch import AdapterName
from tools.wire.messages import (
    Cancel,
    Delta,
    Failure,
    Metrics,
    Request,
    Sample,
    Step,
    Submit,
    ToEngine,
    Tokenized,
    ToPeer,
    Welcome,
)

from .delivery import Delivery, Outlet
from .metrics import ServedMetrics
from .model_config import ModelConfig
from .supervisor import Patience, State, Supervisor

log = logging.getLogger(__name__)

# Two overlap the round trips of their sends. Four brought no more tokens at 256 streams on an H200, for more CPU.
_SENDERS = 2
_DRAIN_S = 10.0


class EngineHandle:
    """The engine of one model instance with the streams that run through it; usable from any thread."""

    def __init__(
        self,
        config: ModelConfig,
        adapter: AdapterName,
        *,
        on_tokenized: Callable[[Tokenized], None] | None = None,
        on_failed: Callable[[str], None] | None = None,
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        """`on_tokenized` takes answers to Tokenize; `on_failed` is told when the engine is given up for good."""
        self._name = f'"{config.name}" version {config.version}'
        self._keys = itertools.count(1)
        self._on_tokenized = on_tokenized
        self._on_failed = on_failed
        with_metrics = config.parameters.get("REPORT_CUSTOM_METRICS", "false").strip().lower() == "true"
        self._metrics = ServedMetrics(config.name, config.version) if with_metrics else None
        self._delivery = Delivery(_SENDERS, lambda key: self.send(Cancel([key])))
        launch = config.launch(adapter, metrics=with_metrics)
        self._restarts = 0
        self._supervisor = Supervisor(config.place(), launch, config.engine_environment(), self, patience)

    def start(self) -> Welcome:
        """Start the engine and wait for it; it can take minutes. Raises what `Supervisor.start` does."""
        try:
            self._supervisor.start()
        except (RuntimeError, OSError, ValueError):
            self._delivery.close()
            raise
        welcome = self._supervisor.welcome
        assert welcome is not None
        self._gauge_up(1)
        return welcome

    def next_key(self) -> int:
        """A stream key that was never used before."""
        return next(self._keys)

    def submit(self, streams: Sequence[tuple[Request, Outlet]], *, together: bool = False) -> None:
        """Hand requests over; each outlet gets its deltas, the last with `final`, whatever happens to the engine."""
        for request, outlet in streams:
            self._delivery.open(request.key, outlet)
        # Checked after the streams are open: an engine that dies from here on finds and fails them.
        if failure := self.unavailable():
            self._count("ladder_requests_rejected_total", len(streams), "engine_down")
            self._delivery.push([Delta(r.key, [], [], [], final=True, failure=failure) for r, _ in streams])
            return
        self.send(Submit([request for request, _ in streams], together))

    def send(self, message: ToEngine) -> None:
        """Send a message to the running engine."""
        self._supervisor.send(message)

    def unavailable(self) -> Failure | None:
        """Why the engine cannot take a request now; None when it can."""
        state = self._supervisor.state
        if state is State.READY:
            return None
        advice = {
            State.FAILED: "it is not started again: mend the cause, then load the model again",
            State.RESTARTING: "it is being started again: retry in some seconds",
        }.get(state, "retry in some seconds")
        return Failure("UNAVAILABLE", f"the engine of {self._name} is down ({self._supervisor.reason}); {advice}")

    @property
    def open_streams(self) -> int:
        """Streams whose final response has not been sent yet."""
        return self._delivery.open_streams

    def retire(self) -> None:
        """The model is being unloaded: let what is in flight finish up to a limit, then cancel it."""
        if not self._delivery.wait_empty(_DRAIN_S):
            self.send(Cancel(self._delivery.open_keys(), "unload"))

    def stop(self) -> None:
        """Finish what is in flight up to a limit, then end the engine."""
        self._supervisor.stop(_DRAIN_S)
        self._delivery.fail_all(Failure("UNAVAILABLE", f"{self._name} was unloaded"))
        self._delivery.wait_empty(1.0)
        self._delivery.close()
        self._gauge_up(0)

    # What the supervisor tells

    def on_message(self, message: ToPeer) -> None:
        if isinstance(message, Step):
            self._delivery.push(message.deltas)
        elif isinstance(message, Metrics):
            if self._metrics:
                self._metrics.add(message.samples)
        elif isinstance(message, Tokenized) and self._on_tokenized:
            self._on_tokenized(message)

    def on_down(self, reason: str, state: State) -> None:
        self._gauge_up(0)
        self._count("ladder_requests_failed_total", self._delivery.open_streams)
        self._delivery.fail_all(Failure("UNAVAILABLE", f"the engine of {self._name} died: {reason}"))
        if state is State.FAILED and self._on_failed:
            self._on_failed(reason)

    def on_ready(self, restarts: int) -> None:
        log.info("the engine of %s is ready again, after %d restarts in all", self._name, restarts)
        self._gauge_up(1)
        # Starts that came to nothing count too.
        self._count("ladder_engine_restarts_total", restarts - self._restarts)
        self._restarts = restarts

    def _count(self, name: str, amount: int, label: str = "") -> None:
        if self._metrics:
            self._metrics.add([Sample(name, amount, label)])

    def _gauge_up(self, value: int) -> None:
        if self._metrics:
            self._metrics.add([Sample("ladder_engine_up", value)])
