"""The server's own endpoints (health, repository index, config, statistics), over HTTP or gRPC, blocking.

Both protocols give the same JSON form, protobuf field names, so that one reader does for both.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import grpc
import httpx
from google.protobuf.json_format import MessageToDict
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tools.client import address
from tools.client.address import Endpoint
from tools.client.errors import MalformedResponseError, ServerUnreachableError
from tools.client.grpc_channel import from_rpc_error, open_channel
from tools.client.grpc_waiting import answer_of
from tools.client.http_codec import decode_error, model_path
from tools.client.request import Target
from tools.client.tls import verification

TIMEOUT_S = 10.0
_SILENT = f"no answer within {TIMEOUT_S:g} s"


class ControlPlane(Protocol):
    """The questions a server answers about itself.

    Every method raises ServerUnreachableError if nothing answers, and another ClientError if the server refuses.
    """

    endpoint: Endpoint

    def live(self) -> bool:
        """Whether the server is up."""

    def ready(self) -> bool:
        """Whether the server says that it can serve."""

    def metadata(self) -> Mapping[str, Any]:
        """ServerMetadataResponse."""

    def index(self) -> list[Mapping[str, Any]]:
        """`models` of RepositoryIndexResponse: every model and version in the repositories, ready or not."""

    def config(self, target: Target) -> Mapping[str, Any]:
        """ModelConfig."""

    def statistics(self, target: Target | None) -> list[Mapping[str, Any]]:
        """`model_stats` of ModelStatisticsResponse, of all ready models if no target is given."""

    def close(self) -> None:
        """Close the connection."""


def open_control_plane(endpoint: Endpoint) -> ControlPlane:
    """The control plane that this endpoint's protocol offers; nothing is sent yet."""
    if endpoint.protocol is address.Protocol.GRPC:
        return GrpcControlPlane(endpoint)
    return HttpControlPlane(endpoint)


class GrpcControlPlane:
    """See `ControlPlane`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._channel = open_channel(endpoint)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    def live(self) -> bool:
        """See `ControlPlane.live`."""
        return bool(self._call("ServerLive", service_pb2.ServerLiveRequest()).get("live", False))

    def ready(self) -> bool:
        """See `ControlPlane.ready`."""
        return bool(self._call("ServerReady", service_pb2.ServerReadyRequest()).get("ready", False))

    def metadata(self) -> Mapping[str, Any]:
        """See `ControlPlane.metadata`."""
        return self._call("ServerMetadata", service_pb2.ServerMetadataRequest())

    def index(self) -> list[Mapping[str, Any]]:
        """See `ControlPlane.index`."""
        return list(self._call("RepositoryIndex", service_pb2.RepositoryIndexRequest()).get("models", []))

    def config(self, target: Target) -> Mapping[str, Any]:
        """See `ControlPlane.config`."""
        request = service_pb2.ModelConfigRequest(name=target.model, version=_version_text(target))
        config: Mapping[str, Any] = self._call("ModelConfig", request, target)["config"]
        return config

    def statistics(self, target: Target | None) -> list[Mapping[str, Any]]:
        """See `ControlPlane.statistics`."""
        request = service_pb2.ModelStatisticsRequest()
        if target is not None:
            request = service_pb2.ModelStatisticsRequest(name=target.model, version=_version_text(target))
        return list(self._call("ModelStatistics", request, target).get("model_stats", []))

    def close(self) -> None:
        """See `ControlPlane.close`."""
        self._channel.close()

    def _call(self, method: str, request: Any, target: Target | None = None) -> dict[str, Any]:
        try:
            response = answer_of(getattr(self._stub, method), request, TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise ServerUnreachableError(self.endpoint, _SILENT, target) from error
            raise from_rpc_error(error, self.endpoint, target, TIMEOUT_S) from error
        body: dict[str, Any] = MessageToDict(response, preserving_proto_field_name=True)
        return body


class HttpControlPlane:
    """See `ControlPlane`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client = httpx.Client(
            base_url=endpoint.url, verify=verification(endpoint), trust_env=False, timeout=TIMEOUT_S
        )

    def live(self) -> bool:
        """See `ControlPlane.live`."""
        return self._request("GET", "/v2/health/live").status_code == httpx.codes.OK

    def ready(self) -> bool:
        """See `ControlPlane.ready`."""
        return self._request("GET", "/v2/health/ready").status_code == httpx.codes.OK

    def metadata(self) -> Mapping[str, Any]:
        """See `ControlPlane.metadata`."""
        metadata: Mapping[str, Any] = self._json("GET", "/v2")
        return metadata

    def index(self) -> list[Mapping[str, Any]]:
        """See `ControlPlane.index`."""
        return list(self._json("POST", "/v2/repository/index"))

    def config(self, target: Target) -> Mapping[str, Any]:
        """See `ControlPlane.config`."""
        config: Mapping[str, Any] = self._json("GET", f"{model_path(target)}/config", target)
        return config

    def statistics(self, target: Target | None) -> list[Mapping[str, Any]]:
        """See `ControlPlane.statistics`."""
        path = "/v2/models/stats" if target is None else f"{model_path(target)}/stats"
        return list(self._json("GET", path, target).get("model_stats", []))

    def close(self) -> None:
        """See `ControlPlane.close`."""
        self._client.close()

    def _request(self, method: str, path: str, target: Target | None = None) -> httpx.Response:
        try:
            return self._client.request(method, path)
        except httpx.TimeoutException as error:
            raise ServerUnreachableError(self.endpoint, _SILENT, target) from error
        except httpx.TransportError as error:
            raise ServerUnreachableError(self.endpoint, str(error), target) from error

    def _json(self, method: str, path: str, target: Target | None = None) -> Any:
        response = self._request(method, path, target)
        if response.status_code != httpx.codes.OK:
            raise decode_error(response.status_code, response.text, target)
        try:
            return response.json()
        except ValueError as error:
            raise MalformedResponseError(
                f"{self.endpoint.url}{path} does not answer in JSON: is it a tritonserver?", target
            ) from error


def _version_text(target: Target) -> str:
    return "" if target.version is None else str(target.version)
