"""The part of Gateway API 1.2 (gateway.networking.k8s.io/v1) that our manifests use: unknown keys are errors.

Field names, limits and enumerations are those of the published CRDs. The rules across objects that a controller would
check are in test_deployment.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Port = Annotated[int, Field(ge=1, le=65535)]
API = Literal["gateway.networking.k8s.io/v1"]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class Metadata(Strict):
    name: Name
    labels: dict[str, str] = {}


class Listener(Strict):
    name: Name
    port: Port
    protocol: Literal["HTTP", "HTTPS", "TLS", "TCP", "UDP"]


class GatewaySpec(Strict):
    gateway_class_name: Name
    listeners: Annotated[list[Listener], Field(min_length=1, max_length=64)]


class Gateway(Strict):
    api_version: API
    kind: Literal["Gateway"]
    metadata: Metadata
    spec: GatewaySpec


class ParentRef(Strict):
    name: Name
    section_name: Name


class HeaderChange(Strict):
    remove: Annotated[list[str], Field(max_length=16)]


class Filter(Strict):
    type: Literal["RequestHeaderModifier"]
    request_header_modifier: HeaderChange


class BackendRef(Strict):
    name: Name
    port: Port
    weight: Annotated[int, Field(ge=0, le=1_000_000)]


class PathMatch(Strict):
    type: Literal["Exact", "PathPrefix"]
    value: Annotated[str, Field(max_length=1024, pattern="^/")]


class HttpMatch(Strict):
    path: PathMatch


class Timeouts(Strict):
    request: Annotated[str, Field(pattern=r"^([0-9]{1,5}(h|m|s|ms)){1,4}$")]


class HttpRule(Strict):
    matches: Annotated[list[HttpMatch], Field(max_length=64)]
    filters: Annotated[list[Filter], Field(max_length=16)]
    backend_refs: Annotated[list[BackendRef], Field(max_length=16)]
    timeouts: Timeouts


class HttpRouteSpec(Strict):
    parent_refs: Annotated[list[ParentRef], Field(min_length=1, max_length=32)]
    rules: Annotated[list[HttpRule], Field(max_length=16)]


class HttpRoute(Strict):
    api_version: API
    kind: Literal["HTTPRoute"]
    metadata: Metadata
    spec: HttpRouteSpec


class MethodMatch(Strict):
    service: Annotated[str, Field(max_length=1024, pattern=r"^[A-Za-z_][A-Za-z_.0-9]*$")]
    method: Annotated[str, Field(max_length=1024, pattern=r"^[A-Za-z_][A-Za-z_0-9]*$")]


class GrpcMatch(Strict):
    method: MethodMatch


class GrpcRule(Strict):
    matches: Annotated[list[GrpcMatch], Field(max_length=64)]
    filters: Annotated[list[Filter], Field(max_length=16)]
    backend_refs: Annotated[list[BackendRef], Field(max_length=16)]


class GrpcRouteSpec(Strict):
    parent_refs: Annotated[list[ParentRef], Field(min_length=1, max_length=32)]
    rules: Annotated[list[GrpcRule], Field(max_length=16)]


class GrpcRoute(Strict):
    api_version: API
    kind: Literal["GRPCRoute"]
    metadata: Metadata
    spec: GrpcRouteSpec
