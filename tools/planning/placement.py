"""Engines on a device: the cache each gets there, and the shares that would let all of them start."""

from __future__ import annotations

from collections.abc import Sequence

from tools.planning.devices import Device
from tools.planning.engines import Engine, outside_share
from tools.planning.sharing import Claim, advised_shares, shortfall


def cache_bytes(engine: Engine, device: Device, context: int, tensor_parallel: int) -> int:
    """Bytes of KV cache on each GPU; negative when what must be there beside it is more than the engine's share."""
    if not engine.is_vllm:
        return engine.baseline_cache(context)
    if engine.share is None:
        return engine.kv_space or 0
    inside = sum(engine.resident(device.accelerator, context, tensor_parallel).values())
    return int(engine.share * device.total) - inside


def missing_bytes(engines: Sequence[Engine], device: Device, context: int | None) -> int:
    """Bytes that the device lacks for all of them to start, with whatever shares; 0 when they can."""
    reserved, claims = _claims(engines, device, context)
    return shortfall(device.total, reserved, list(claims.values()))


def advice(engines: Sequence[Engine], device: Device, context: int | None) -> dict[int, float] | None:
    """Shares by the index of the engines that take one; None when the engines cannot all start."""
    reserved, claims = _claims(engines, device, context)
    shares = advised_shares(device.total, reserved, list(claims.values()))
    return None if shares is None else dict(zip(claims, shares, strict=True))


def _claims(engines: Sequence[Engine], device: Device, context: int | None) -> tuple[int, dict[int, Claim]]:
    """Bytes that no share is cut from, and the claims of the engines that take a share, by index."""
    reserved = device.taken
    claims = {}
    for index, engine in enumerate(engines):
        length, degree = context or engine.max_model_len, engine.tensor_parallel
        reserved += outside_share(device.accelerator, degree)
        fixed = sum(engine.resident(device.accelerator, length, degree).values())
        if engine.share is None:
            reserved += fixed + cache_bytes(engine, device, length, degree)
            continue
        cache = engine.cache(degree)
        least = cache.bytes_for(1, engine.max_model_len)
        claims[index] = Claim(fixed, least, max(least, cache.bytes_for(engine.sequences, length)))
    return reserved, claims
