"""The graph of an ensemble's tensors: what can be computed from the request, and which streams each tensor is part of.

Follows the checks that the server makes when it loads an ensemble.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tools.lint.schema import Ensemble, ModelConfig


@dataclass(frozen=True, slots=True)
class Dataflow:
    """`writers`: ensemble tensor -> steps that write it; `readers`: -> steps that read it; both by index."""

    writers: Mapping[str, list[int]]
    readers: Mapping[str, list[int]]
    ready: frozenset[str]
    """Tensors that can be computed from the ensemble's inputs."""
    order: tuple[int, ...]
    """Steps in an order in which they can run; those that never can are left out."""

    @property
    def missing(self) -> frozenset[str]:
        """Tensors that are read but come from nowhere."""
        return frozenset(name for name in self.readers if name not in self.writers and name not in self.ready)


def trace(config: ModelConfig, ensemble: Ensemble, given: frozenset[str] = frozenset()) -> Dataflow:
    """Lets the request's tensors, and those `given` beside them, flow until no more steps can run."""
    writers: dict[str, list[int]] = defaultdict(list)
    readers: dict[str, list[int]] = defaultdict(list)
    for index, step in enumerate(ensemble.steps):
        for tensor in step.output_map.values():
            writers[tensor].append(index)
        for tensor in step.input_map.values():
            readers[tensor].append(index)
    ready = {tensor.name for tensor in config.inputs} | given
    order: list[int] = []
    progress = True
    while progress:
        progress = False
        for index, step in enumerate(ensemble.steps):
            if index not in order and set(step.input_map.values()) <= ready:
                order.append(index)
                ready |= set(step.output_map.values())
                progress = True
    return Dataflow(writers, readers, frozenset(ready), tuple(order))


def stream_origins(
    config: ModelConfig, ensemble: Ensemble, is_decoupled: Callable[[int], bool]
) -> dict[str, int | None]:
    """The decoupled step whose stream each tensor is part of; None for what there is once per request."""
    origins: dict[str, int | None] = {tensor.name: None for tensor in config.inputs}
    for index in trace(config, ensemble).order:
        step = ensemble.steps[index]
        sources = [origins.get(tensor) for tensor in step.input_map.values()]
        inherited = next((source for source in sources if source is not None), None)
        for tensor in step.output_map.values():
            origins[tensor] = index if is_decoupled(index) else inherited
    return origins
