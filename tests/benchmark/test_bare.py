"""The bare engine's measuring process, and the yardstick itself, with a vLLM of a few lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.benchmark.child import Child
from tools.benchmark.errors import BenchmarkError
from tools.benchmark.workload import Load

HOME = Path(__file__).resolve().parents[2]

# What the yardstick needs of vLLM; it writes to standard output, as vLLM does, and generates two tokens an output.
VLLM = {
    "__init__.py": """
from .sampling_params import SamplingParams
__version__ = "0.99"
""",
    "sampling_params.py": """
from dataclasses import dataclass
from enum import Enum
RequestOutputKind = Enum("RequestOutputKind", ["DELTA", "CUMULATIVE"])
@dataclass
class SamplingParams:
    temperature: float
    max_tokens: int
    ignore_eos: bool
    output_kind: RequestOutputKind
""",
    "engine/__init__.py": "",
    "engine/arg_utils.py": """
from dataclasses import dataclass
@dataclass
class AsyncEngineArgs:
    model: str
    short_by: int = 0
    distributed_executor_backend: str = "mp"
""",
    "platforms/__init__.py": """
from types import SimpleNamespace
current_platform = SimpleNamespace(is_cpu=lambda: True)
""",
    "v1/__init__.py": "",
    "v1/engine/__init__.py": "",
    "v1/engine/async_llm.py": """
import asyncio
import multiprocessing
import os
import time
from types import SimpleNamespace
from vllm.sampling_params import RequestOutputKind
class AsyncLLM:
    @classmethod
    def from_engine_args(cls, arguments):
        print("loading", arguments.model, os.environ.get("VLLM_CPU_OMP_THREADS_BIND"), flush=True)
        if arguments.model == "broken":
            raise RuntimeError("no such weights")
        if arguments.model == "forking":
            # As vLLM does beside a GPU: the reader of standard input is waiting by now, and may hold its lock.
            time.sleep(0.5)
            child = multiprocessing.get_context("fork").Process(target=print)
            child.start()
            child.join(20)
            assert child.exitcode == 0, "the forked process hangs"
        self = cls()
        self.short_by = arguments.short_by
        self.ids = set()
        return self
    async def generate(self, prompt, params, request_id):
        assert (params.temperature, params.ignore_eos) == (0.0, True)
        assert params.output_kind is RequestOutputKind.DELTA
        assert request_id not in self.ids
        self.ids.add(request_id)
        left = params.max_tokens - self.short_by
        while left > 0:
            await asyncio.sleep(0.001 * len(prompt["prompt_token_ids"]))
            yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=[7] * min(2, left))])
            left -= 2
    def shutdown(self):
        print("shut down", flush=True)
""",
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "bare.log"


@pytest.fixture
def bare(tmp_path: Path, log: Path) -> Iterator[Child]:
    for name, text in VLLM.items():
        file = tmp_path / "vllm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(HOME)])}
    with Child([sys.executable, "-m", "tools.benchmark.bare"], tmp_path, environment, log) as child:
        yield child


@pytest.mark.slow
def test_it_loads_with_model_jsons_arguments_and_measures_at_the_generator(bare: Child, log: Path) -> None:
    assert bare.ask(json.dumps({"model": "m"}), 60) == "vllm 0.99\n"
    for _ in range(2):
        tally = bare.measure(Load(streams=3, tokens=5, prompts=((1,), (2, 3))), 60)
        assert (tally.tokens, tally.responses) == (15, 9)
        assert len(tally.ttft_s) == 3
        # The second stream's prompt is twice as long; the third one's is the first one's again.
        assert all(0 < ttft < tally.seconds for ttft in tally.ttft_s)
    # Its threads as free as those of the served engine, which it is held against.
    assert "loading m nobind" in log.read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_engine_may_fork_while_it_loads(bare: Child) -> None:
    assert bare.ask(json.dumps({"model": "forking"}), 60) == "vllm 0.99\n"


@pytest.mark.slow
def test_it_shuts_the_engine_down_when_it_is_no_longer_wanted(bare: Child, log: Path) -> None:
    bare.ask(json.dumps({"model": "m"}), 60)
    bare.__exit__(None, None, None)
    assert log.read_text(encoding="utf-8").endswith("shut down\n")


@pytest.mark.slow
def test_an_engine_that_stops_early_is_trouble(bare: Child) -> None:
    bare.ask(json.dumps({"model": "m", "short_by": 1}), 60)
    with pytest.raises(BenchmarkError, match="the bare engine generated 4 of 5 tokens"):
        bare.measure(Load(streams=1, tokens=5, prompts=((1,),)), 60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [({"model": "broken"}, "RuntimeError: no such weights"), ({"model": "m", "modle": 1}, "argument 'modle'")],
)
def test_an_engine_that_does_not_load_says_why(bare: Child, arguments: dict[str, object], reason: str) -> None:
    with pytest.raises(BenchmarkError, match=reason):
        bare.ask(json.dumps(arguments), 60)
