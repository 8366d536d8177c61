"""Sampling parameters for questions asked by hand."""

from collections.abc import Mapping, Sequence

from tools.client.request import JsonValue

# Greedy: every rung that holds the same weights gives the same answer, and so does asking again.
GREEDY: Mapping[str, JsonValue] = {"temperature": 0.0}


def sampling_parameters(
    *, max_tokens: int, temperature: float, top_p: float = 1.0, stop: Sequence[str] = (), seed: int | None = None
) -> dict[str, JsonValue]:
    """Sampling parameters in the engine's names; what is at its neutral value is left out."""
    parameters: dict[str, JsonValue] = {"temperature": temperature, "max_tokens": max_tokens}
    if top_p != 1.0:
        parameters["top_p"] = top_p
    if stop:
        parameters["stop"] = list(stop)
    if seed is not None:
        parameters["seed"] = seed
    return parameters
