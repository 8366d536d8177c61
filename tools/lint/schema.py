"""A model's configuration as plain values, converted from the published protobuf schema.

Rules work on these frozen values and never on protobuf messages, so that they are typed and need no server package.
Only the fields that a rule reads are here; names follow the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output. `dims` leaves out the batch dimension, as in config.pbtxt; -1 is any size."""

    name: str
    data_type: str
    dims: tuple[int, ...]
    optional: bool = False
    reshape: tuple[int, ...] | None = None
    allow_ragged_batch: bool = False

    @property
    def model_side_dims(self) -> tuple[int, ...]:
        """The shape the model itself sees: `reshape` where there is one."""
        return self.dims if self.reshape is None else self.reshape


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    name: str
    kind: str
    count: int
    gpus: tuple[int, ...]
    rate_limited: bool

    @property
    def instances_per_device(self) -> int:
        return max(1, self.count)


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    delays: bool
    default_timeout_microseconds: int
    allow_timeout_override: bool
    max_queue_size: int

    @property
    def limits_anything(self) -> bool:
        return bool(self.default_timeout_microseconds or self.allow_timeout_override or self.max_queue_size)


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    preferred_batch_size: tuple[int, ...]
    preserve_ordering: bool
    priority_levels: int
    default_priority_level: int
    default_queue_policy: QueuePolicy | None
    priority_queue_policy: Mapping[int, QueuePolicy]

    @property
    def queue_policies(self) -> tuple[QueuePolicy, ...]:
        default = () if self.default_queue_policy is None else (self.default_queue_policy,)
        return (*default, *self.priority_queue_policy.values())


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """`num_versions` belongs to `latest`, `versions` to `specific`."""

    kind: Literal["latest", "all", "specific"]
    num_versions: int = 1
    versions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EnsembleStep:
    """Both maps lead from the model's own tensor name to the ensemble's."""

    model_name: str
    model_version: int
    input_map: Mapping[str, str]
    output_map: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ensemble:
    steps: tuple[EnsembleStep, ...]
    max_inflight_requests: int


@dataclass(frozen=True, slots=True)
class MetricControl:
    family: str
    buckets: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    name: str = ""
    backend: str = ""
    platform: str = ""
    max_batch_size: int = 0
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    dynamic_batching: DynamicBatching | None = None
    sequence_batching: bool = False
    sequence_preferred_batch_size: tuple[int, ...] = ()
    ensemble: Ensemble | None = None
    instance_groups: tuple[InstanceGroup, ...] = ()
    version_policy: VersionPolicy | None = None
    decoupled: bool | None = None
    """None where the transaction policy is not written at all."""
    response_cache: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    default_model_filename: str = ""
    cc_model_filenames: tuple[str, ...] = ()
    optimization: bool = False
    warmup_samples: int = 0
    metric_controls: tuple[MetricControl, ...] = ()

    @property
    def is_ensemble(self) -> bool:
        return self.platform == "ensemble" or self.ensemble is not None


def config_from_message(message: Any) -> ModelConfig:
    """Converts a parsed `inference.ModelConfig` message."""
    return ModelConfig(
        name=message.name,
        backend=message.backend,
        platform=message.platform,
        max_batch_size=message.max_batch_size,
        inputs=tuple(_tensor(entry, entry.optional, entry.allow_ragged_batch) for entry in message.input),
        outputs=tuple(_tensor(entry) for entry in message.output),
        dynamic_batching=_dynamic_batching(message) if message.HasField("dynamic_batching") else None,
        sequence_batching=message.HasField("sequence_batching"),
        sequence_preferred_batch_size=tuple(message.sequence_batching.oldest.preferred_batch_size),
        ensemble=_ensemble(message.ensemble_scheduling) if message.HasField("ensemble_scheduling") else None,
        instance_groups=tuple(_instance_group(entry) for entry in message.instance_group),
        version_policy=_version_policy(message.version_policy) if message.HasField("version_policy") else None,
        decoupled=(
            message.model_transaction_policy.decoupled if message.HasField("model_transaction_policy") else None
        ),
        response_cache=message.response_cache.enable,
        parameters={key: value.string_value for key, value in message.parameters.items()},
        default_model_filename=message.default_model_filename,
        cc_model_filenames=tuple(message.cc_model_filenames.values()),
        optimization=message.HasField("optimization"),
        warmup_samples=len(message.model_warmup),
        metric_controls=tuple(
            MetricControl(entry.metric_identifier.family, tuple(entry.histogram_options.buckets))
            for entry in message.model_metrics.metric_control
        ),
    )


def _enum_name(message: Any, field_name: str) -> str:
    """The enum value's name, or its number as text where the schema has no name for it."""
    number = getattr(message, field_name)
    value = message.DESCRIPTOR.fields_by_name[field_name].enum_type.values_by_number.get(number)
    return str(number) if value is None else str(value.name)


def _tensor(message: Any, optional: bool = False, allow_ragged_batch: bool = False) -> Tensor:
    return Tensor(
        name=message.name,
        data_type=_enum_name(message, "data_type"),
        dims=tuple(message.dims),
        optional=optional,
        reshape=tuple(message.reshape.shape) if message.HasField("reshape") else None,
        allow_ragged_batch=allow_ragged_batch,
    )


def _instance_group(message: Any) -> InstanceGroup:
    return InstanceGroup(
        name=message.name,
        kind=_enum_name(message, "kind"),
        count=message.count,
        gpus=tuple(message.gpus),
        rate_limited=message.HasField("rate_limiter"),
    )


def _queue_policy(message: Any) -> QueuePolicy:
    return QueuePolicy(
        delays=_enum_name(message, "timeout_action") == "DELAY",
        default_timeout_microseconds=message.default_timeout_microseconds,
        allow_timeout_override=message.allow_timeout_override,
        max_queue_size=message.max_queue_size,
    )


def _dynamic_batching(config: Any) -> DynamicBatching:
    message = config.dynamic_batching
    return DynamicBatching(
        preferred_batch_size=tuple(message.preferred_batch_size),
        preserve_ordering=message.preserve_ordering,
        priority_levels=message.priority_levels,
        default_priority_level=message.default_priority_level,
        default_queue_policy=(
            _queue_policy(message.default_queue_policy) if message.HasField("default_queue_policy") else None
        ),
        priority_queue_policy={
            level: _queue_policy(policy) for level, policy in sorted(message.priority_queue_policy.items())
        },
    )


def _version_policy(message: Any) -> VersionPolicy | None:
    match message.WhichOneof("policy_choice"):
        case "latest":
            return VersionPolicy("latest", num_versions=message.latest.num_versions)
        case "all":
            return VersionPolicy("all")
        case "specific":
            return VersionPolicy("specific", versions=tuple(message.specific.versions))
        case _:
            return VersionPolicy("all")  # the server's code tests for the other two and else loads every version


def _ensemble(message: Any) -> Ensemble:
    return Ensemble(
        steps=tuple(
            EnsembleStep(step.model_name, step.model_version, dict(step.input_map), dict(step.output_map))
            for step in message.step
        ),
        max_inflight_requests=message.max_inflight_requests,
    )
