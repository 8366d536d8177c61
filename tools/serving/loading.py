"""Loading models into a running server through gRPC: the HTTP load call would freeze every running HTTP stream."""

from __future__ import annotations

import time
from typing import Any, Self

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tools.client.address import Endpoint
from tools.client.grpc_channel import open_channel
from tools.serving.repository import LoadPlan, RepositoryModel

_BEGIN_TIMEOUT_S = 5.0
_POLL_S = 0.02


class Loading:
    """Loads of one plan in progress: engines side by side, every ensemble as soon as its steps are there.

    Whoever asks whether it is `done` moves it on.
    """

    def __init__(self, plan: LoadPlan, endpoint: Endpoint) -> None:
        """Begins the loads in the order of the plan. `endpoint` is the gRPC front end."""
        self._channel = open_channel(endpoint)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._waiting = list(plan.models)
        self._calls: dict[str, Any] = {}
        self._errors: dict[str, str] = {}
        self._begin_loads()

    @property
    def done(self) -> bool:
        """Whether every model of the plan is loaded, or has failed."""
        self._begin_loads()
        return not self._waiting and all(call.done() for call in self._calls.values())

    def error(self, model: str) -> str:
        """Why a model did not load; empty while that is not known, and for one that did."""
        call = self._calls.get(model)
        if call is not None and call.done() and model not in self._errors:
            self._errors[model] = _reason(call)
        return self._errors.get(model, "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Lets go of what is still being loaded; the server goes on with it."""
        self._channel.close()

    def _begin_loads(self) -> None:
        for model in list(self._waiting):
            if all(self._has_ended(step) for step in model.steps):
                self._waiting.remove(model)
                self._begin(model)

    def _begin(self, model: RepositoryModel) -> None:
        # Loading an ensemble loads its steps too: a step that failed would be tried again, for minutes.
        failed = [step for step in model.steps if self.error(step)]
        if failed:
            self._errors[model.name] = f'step "{failed[0]}" did not load'
            return
        request = service_pb2.RepositoryModelLoadRequest(model_name=model.name)
        call = self._calls[model.name] = self._stub.RepositoryModelLoad.future(request)
        if model.is_slowest:
            self._let_begin(model.name, call)

    def _let_begin(self, model: str, call: Any) -> None:
        """Returns once the server has begun a load, so that loads asked for later do not overtake it."""
        deadline = time.monotonic() + _BEGIN_TIMEOUT_S
        while not call.done() and time.monotonic() < deadline:
            try:
                index = self._stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(), timeout=_BEGIN_TIMEOUT_S)
            except grpc.RpcError:
                # The load itself will say what is wrong.
                return
            if any(entry.name == model and entry.version for entry in index.models):
                return
            time.sleep(_POLL_S)

    def _has_ended(self, model: str) -> bool:
        call = self._calls.get(model)
        return model in self._errors or (call is not None and bool(call.done()))


def _reason(call: Any) -> str:
    return "" if call.code() is grpc.StatusCode.OK else str(call.details())
