"""The plan: every engine of a profile on one GPU, whether they fit, and what would."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, computed_field

from tools.planning.devices import Device
from tools.planning.engines import TENSOR_PARALLEL, Engine, Kind, outside_share, tensor_parallel_problem
from tools.planning.errors import PlanningError
from tools.planning.placement import advice, cache_bytes
from tools.planning.verdict import find_problems, find_remedies


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class TensorParallelOption(_Value):
    """The engine over `degree` GPUs with the same share of each; bytes are of one GPU, tokens of the whole engine.

    `problem` says why vLLM would refuse it; the figures are 0 then.
    """

    degree: int
    problem: str | None
    weights_bytes: int
    kv_cache_bytes: int
    kv_cache_tokens: int
    sequences: int


class EnginePlan(_Value):
    """One engine on the fullest of its GPUs. `parts` are bytes by what takes them, the KV cache among them.

    `sequences` fit into the cache at `context` tokens each; `max_num_seqs` is how many the engine is allowed.
    `share` is the profile's gpu_memory_utilization, `advised_share` the one that lets everything on the GPU fit; None
    for an engine that takes no share, and for advice where nothing fits.
    """

    model: str
    version: int
    context: int
    parts: dict[str, int]
    kv_token_bytes: int
    kv_cache_tokens: int
    sequences: int
    max_num_seqs: int
    tensor_parallel_size: int
    share: float | None
    share_is_default: bool
    advised_share: float | None
    short_by_bytes: int
    tensor_parallel: list[TensorParallelOption]

    @property
    def label(self) -> str:
        return f"{self.model}:{self.version}"

    @property
    def total(self) -> int:
        return sum(self.parts.values())


class MemoryPlan(_Value):
    """A profile on one device. `free_bytes` is negative when the engines take more than there is.

    `problems` say what does not fit and by how much, `remedies` what would.
    """

    profile: str
    device: str
    accelerator: str
    total_bytes: int
    taken_bytes: int
    free_bytes: int
    engines: list[EnginePlan]
    problems: list[str]
    remedies: list[str]

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def fits(self) -> bool:
        return not self.problems


def check_context(context: int | None, engines: Sequence[Engine], longest: int) -> None:
    """Refuse a context that the model was not trained for, or that an engine of the plan would not take.

    Raises PlanningError.
    """
    if context is None:
        return
    if context > longest:
        raise PlanningError(f"--context {context} is over the model's {longest} tokens: ask for {longest} at most")
    for engine in engines:
        if context > engine.max_model_len:
            raise PlanningError(
                f'--context {context} is over "max_model_len" {engine.max_model_len} of "{engine.label}": raise it in '
                f"the profile, or ask for {engine.max_model_len} at most"
            )


def plan_memory(profile: str, engines: Sequence[Engine], device: Device, context: int | None = None) -> MemoryPlan:
    """Plan engines that share one GPU, for sequences of `context` tokens; without it each engine's max_model_len."""
    shares = advice(engines, device, context)
    plans = [
        _plan_engine(engine, device, context, shares.get(index) if shares else None)
        for index, engine in enumerate(engines)
    ]
    free = device.total - device.taken - sum(plan.total for plan in plans)
    short = [plan.short_by_bytes for plan in plans]
    problems = find_problems(engines, device, context, short, free)
    return MemoryPlan(
        profile=profile,
        device=device.name,
        accelerator=device.accelerator,
        total_bytes=device.total,
        taken_bytes=device.taken,
        free_bytes=free,
        engines=plans,
        problems=problems,
        remedies=find_remedies(engines, device, context, short, free) if problems else [],
    )


def _plan_engine(engine: Engine, device: Device, context: int | None, advised: float | None) -> EnginePlan:
    length = context or engine.max_model_len
    degree = engine.tensor_parallel
    resident = engine.resident(device.accelerator, length, degree)
    cache = engine.cache(degree)
    available = cache_bytes(engine, device, length, degree)
    needed = cache.bytes_for(1, engine.max_model_len) if engine.is_vllm else 0
    parts = {kind.value: size for kind, size in resident.items()}
    if outside := outside_share(device.accelerator, degree):
        parts[Kind.CONTEXT.value] = outside
    parts[Kind.KV_CACHE.value] = max(0, available)
    return EnginePlan(
        model=engine.model,
        version=engine.version,
        context=length,
        parts=parts,
        kv_token_bytes=cache.token_bytes,
        kv_cache_tokens=cache.tokens(available),
        sequences=cache.sequences(available, length) if engine.is_vllm else engine.sequences,
        max_num_seqs=engine.sequences,
        tensor_parallel_size=degree,
        share=engine.share,
        share_is_default=engine.share_is_default,
        advised_share=advised,
        short_by_bytes=max(0, needed - available),
        tensor_parallel=_options(engine, device, length),
    )


def _options(engine: Engine, device: Device, context: int) -> list[TensorParallelOption]:
    if not engine.is_vllm or device.accelerator == "cpu":
        return []
    return [_option(engine, device, context, degree) for degree in TENSOR_PARALLEL]


def _option(engine: Engine, device: Device, context: int, degree: int) -> TensorParallelOption:
    problem = tensor_parallel_problem(engine, degree)
    if problem:
        return TensorParallelOption(
            degree=degree, problem=problem, weights_bytes=0, kv_cache_bytes=0, kv_cache_tokens=0, sequences=0
        )
    cache = engine.cache(degree)
    available = max(0, cache_bytes(engine, device, context, degree))
    return TensorParallelOption(
        degree=degree,
        problem=None,
        weights_bytes=engine.weights(degree),
        kv_cache_bytes=available,
        kv_cache_tokens=cache.tokens(available),
        sequences=cache.sequences(available, context),
    )
