"""The graph of an ensemble's tensors."""

from __future__ import annotations

from collections.abc import Mapping

from tools.lint.dataflow import stream_origins, trace
from tools.lint.schema import Ensemble, EnsembleStep, ModelConfig, Tensor


def config(*inputs: str) -> ModelConfig:
    return ModelConfig(inputs=tuple(Tensor(name, "TYPE_STRING", (1,)) for name in inputs))


def ensemble(*steps: tuple[Mapping[str, str], Mapping[str, str]]) -> Ensemble:
    return Ensemble(tuple(EnsembleStep("m", -1, inputs, outputs) for inputs, outputs in steps), 0)


def test_steps_run_when_their_tensors_are_there_whatever_their_order() -> None:
    flow = trace(config("q"), ensemble(({"x": "b"}, {"y": "c"}), ({"x": "a"}, {"y": "b"}), ({"x": "q"}, {"y": "a"})))
    assert flow.order == (2, 1, 0)
    assert flow.ready == {"q", "a", "b", "c"}
    assert flow.missing == frozenset()


def test_a_tensor_from_nowhere_holds_back_what_needs_it() -> None:
    graph = ensemble(({"x": "nowhere"}, {"y": "a"}), ({"x": "a"}, {"y": "b"}))
    assert trace(config("q"), graph).order == ()
    assert trace(config("q"), graph).missing == {"nowhere"}
    assert trace(config("q"), graph, frozenset({"nowhere"})).order == (0, 1)


def test_a_stream_reaches_everything_behind_it() -> None:
    graph = ensemble(
        ({"x": "q"}, {"y": "prompt", "n": "count"}), ({"x": "prompt"}, {"y": "s"}), ({"x": "s"}, {"y": "t"})
    )
    origins = stream_origins(config("q"), graph, {1}.__contains__)
    assert origins == {"q": None, "prompt": None, "count": None, "s": 1, "t": 1}


def test_a_stream_behind_a_stream_is_a_new_one() -> None:
    graph = ensemble(({"x": "q"}, {"y": "a"}), ({"x": "a"}, {"y": "b"}))
    assert stream_origins(config("q"), graph, {0, 1}.__contains__) == {"q": None, "a": 0, "b": 1}


def test_what_cannot_run_has_no_origin() -> None:
    graph = ensemble(({"x": "b"}, {"y": "a"}), ({"x": "a"}, {"y": "b"}))
    assert stream_origins(config("q"), graph, {0}.__contains__) == {"q": None}
