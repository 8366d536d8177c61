"""What does not fit, by how much, and what would: sentences for a person who has to change a profile."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from tools.planning.devices import Device, known_devices
from tools.planning.engines import TENSOR_PARALLEL, Engine, Kind, tensor_parallel_problem
from tools.planning.placement import advice, missing_bytes
from tools.planning.sharing import HEADROOM
from tools.planning.units import gib
from tools.planning.weights import awq_bytes

_CONTEXT_STEP: Final = 128
_AWQ_GROUP: Final = 128


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


def find_remedies(
    engines: Sequence[Engine], device: Device, context: int | None, short: Sequence[int], free: int
) -> list[str]:
    """What would make them fit, each a sentence; at least one where `find_problems` finds any."""
    remedies = [*_possible_degrees(engines), *_larger_caches(engines, short)]
    shares = advice(engines, device, context)
    if shares is None:
        remedies += _shorter_contexts(engines, device, context)
        remedies += _more_memory(engines, device, context)
        remedies += _smaller_weights(engines, short)
        remedies += _more_gpus(engines, short)
        remedies += _fewer_engines(engines)
    elif shares and (any(short) or free < 0):
        advised = ", ".join(f"{engines[index].label} {share:g}" for index, share in shares.items())
        remedies.append(f"all of them fit with these shares (gpu_memory_utilization): {advised}")
    return remedies


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


def _possible_degrees(engines: Sequence[Engine]) -> Iterator[str]:
    for engine in engines:
        if tensor_parallel_problem(engine, engine.tensor_parallel):
            possible = [degree for degree in TENSOR_PARALLEL if tensor_parallel_problem(engine, degree) is None]
            if possible:
                yield f"{engine.label} starts with tensor_parallel_size {' or '.join(map(str, possible))}"
            else:
                yield f"{engine.label} starts when quantised with a group size that divides its matrices"


def _shorter_contexts(engines: Sequence[Engine], device: Device, context: int | None) -> Iterator[str]:
    longest = context or max(engine.max_model_len for engine in engines)
    lengths = range(_CONTEXT_STEP, longest, _CONTEXT_STEP)
    fitting = bisect_left(lengths, True, key=lambda length: missing_bytes(engines, device, length) > 0)
    if fitting:
        length = lengths[fitting - 1]
        yield f"requests of at most {length} tokens fit; --context {length} shows with which shares"


def _more_memory(engines: Sequence[Engine], device: Device, context: int | None) -> Iterator[str]:
    needed = device.total + math.ceil(missing_bytes(engines, device, context) / (1 - HEADROOM))
    known = next((known for known in known_devices() if known.total >= needed), None)
    example = f" (--gpu {known.name})" if known and device.accelerator == "cuda" else ""
    yield f"{gib(needed)} of memory would do{example}"


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
