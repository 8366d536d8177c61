"""What does not fit, by how much, and what would: sentences for a person who has to change a profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tools.planning.devices import Device, known_devices
from tools.planning.engines import Engine, Kind, tensor_parallel_problem
from tools.planning.overheads import GIB
from tools.planning.placement import advice, missing_bytes
from tools.planning.weights import awq_bytes

_CONTEXT_STEP: Final = 128
_AWQ_GROUP: Final = 128


def gib(size: int) -> str:
    """As "12.6 GiB"."""
    return f"{size / GIB:.1f} GiB"


def find_problems(
    engines: Sequence[Engine], device: Device, context: int | None, short: Sequence[int], free: int
) -> list[str]:
    """Sentences on engines that would not start and on their sum; `short` are the bytes each lacks in its share,
    `free` is what all of them leave, negative when they take too much.
    """
    problems = [
        f"{engine.label} would not start: {refusal}"
        for engine in engines
        if (refusal := tensor_parallel_problem(engine, engine.tensor_parallel))
    ]
    for engine, lacking in zip(engines, short, strict=True):
        if lacking:
            problems.append(_does_not_start(engine, device, context, lacking))
    if free < 0:
        available = device.total - device.taken
        others = f" that other programs leave of {gib(device.total)}" if device.taken else ""
        problems.append(f"together they take {gib(available - free)} of {gib(available)}{others}: {gib(-free)} short")
    return problems


def find_remedies(engines: Sequence[Engine], device: Device, context: int | None, short: Sequence[int]) -> list[str]:
    """What would make them fit, each a sentence; at least one."""
    shares = advice(engines, device, context)
    if shares:
        advised = ", ".join(f"{engines[index].label} {share:g}" for index, share in shares.items())
        return [f"all of them fit with these shares (gpu_memory_utilization): {advised}"]
    return [
        *_shorter_contexts(engines, device, context),
        *_larger_gpus(engines, device, context),
        *_smaller_weights(engines, short),
        *_more_gpus(engines, short),
        *_larger_caches(engines, short),
        *_fewer_engines(engines),
    ]


def _does_not_start(engine: Engine, device: Device, context: int | None, lacking: int) -> str:
    sequence = engine.cache(engine.tensor_parallel).bytes_for(1, engine.max_model_len)
    needs = f"the cache of one sequence of {engine.max_model_len} tokens takes {gib(sequence)}"
    if engine.share is None:
        room = f"its KV cache has {gib(engine.kv_space or 0)}"
    else:
        length = context or engine.max_model_len
        parts = engine.resident(device.accelerator, length, engine.tensor_parallel)
        weights = parts[Kind.WEIGHTS]
        room = f"gpu_memory_utilization {engine.share:g} is {gib(int(engine.share * device.total))}"
        needs = f"weights take {gib(weights)}, the rest {gib(sum(parts.values()) - weights)}, {needs}"
    return f"{engine.label} would not start: {room}, {needs}: {gib(lacking)} short"


def _shorter_contexts(engines: Sequence[Engine], device: Device, context: int | None) -> Iterator[str]:
    longest = context or max(engine.max_model_len for engine in engines)
    for length in range((longest - 1) // _CONTEXT_STEP * _CONTEXT_STEP, 0, -_CONTEXT_STEP):
        if not missing_bytes(engines, device, length):
            yield f"requests of at most {length} tokens fit; --context {length} shows with which shares"
            return


def _larger_gpus(engines: Sequence[Engine], device: Device, context: int | None) -> Iterator[str]:
    if device.accelerator == "cuda":
        for known in known_devices():
            if known.total > device.total and not missing_bytes(engines, known, context):
                yield f"a GPU of {gib(known.total)} is enough (--gpu {known.name})"
                return


def _smaller_weights(engines: Sequence[Engine], short: Sequence[int]) -> Iterator[str]:
    for engine, lacking in zip(engines, short, strict=True):
        if lacking and engine.group_size is None and engine.architecture.hidden_size % _AWQ_GROUP == 0:
            quantised = awq_bytes(engine.architecture, _AWQ_GROUP, "float16")
            yield f"{engine.label} in 4 bits (AWQ) has weights of {gib(quantised)} instead of {gib(engine.weights(1))}"


def _more_gpus(engines: Sequence[Engine], short: Sequence[int]) -> Iterator[str]:
    for engine, lacking in zip(engines, short, strict=True):
        degree = 2 * engine.tensor_parallel
        if lacking and engine.share is not None and tensor_parallel_problem(engine, degree) is None:
            yield f"{engine.label} over {degree} GPUs has weights of {gib(engine.weights(degree))} on each"


def _larger_caches(engines: Sequence[Engine], short: Sequence[int]) -> Iterator[str]:
    for engine, lacking in zip(engines, short, strict=True):
        if lacking and engine.share is None:
            needed = engine.cache(engine.tensor_parallel).bytes_for(1, engine.max_model_len)
            yield f"{engine.label} starts with a KV cache of {gib(needed)}, or with a shorter max_model_len"


def _fewer_engines(engines: Sequence[Engine]) -> Iterator[str]:
    if len(engines) > 1:
        yield 'serve fewer engines: "enabled: false" or "load_versions" in the profile'
