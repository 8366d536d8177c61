"""Loading models into a running server through gRPC: the HTTP load call would freeze every running HTTP stream."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tools.client.address import Endpoint
from tools.client.grpc_channel import open_channel
from tools.serving.repository import LoadPlan, RepositoryModel


class Loading:
    """Loads of one plan in progress: engines side by side, every ensemble as soon as its steps are there."""

    def __init__(self, plan: LoadPlan, endpoint: Endpoint) -> None:
        """`endpoint` is the gRPC front end."""
        self._channel = open_channel(endpoint)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        # One thread for each model: they only wait.
        self._threads = ThreadPoolExecutor(max_workers=len(plan.models), thread_name_prefix="load")
        self._results: dict[str, Future[str]] = {}
        for model in plan.models:
            self._results[model.name] = self._threads.submit(self._load, model)

    @property
    def done(self) -> bool:
        return all(result.done() for result in self._results.values())

    def error(self, model: str) -> str:
        """Why a model did not load; empty while that is not known, and for one that did."""
        result = self._results.get(model)
        return result.result() if result is not None and result.done() else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Lets go of what is still being loaded; the server goes on with it."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._channel.close()

    def _load(self, model: RepositoryModel) -> str:
        # Steps come before their ensemble in the plan, so their results are there to wait for. Loading an ensemble
        # loads its steps too: a step that failed would be tried again, for minutes.
        failed = [step for step in model.steps if self._results[step].result()]
        if failed:
            return f'step "{failed[0]}" did not load'
        try:
            self._stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name=model.name))
        except grpc.RpcError as error:
            return str(error.details())
        return ""
