"""What is printed, at the width of a plain terminal."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from tests.planning.examples import BASELINE, ENGINE
from tools.planning.devices import Device
from tools.planning.engines import Engine
from tools.planning.plan import MemoryPlan, plan_memory
from tools.planning.terminal import render
from tools.planning.units import GIB
from tools.planning.weights import Draft

AWQ = replace(ENGINE, model="llm_awq", group_size=128, dtype="float16", share=0.2)
EAGLE = replace(AWQ, model="llm_eagle", draft=Draft("eagle3", 32000), sequences=16)


def planned(*engines: Engine, total: int = 80, taken: int = 0) -> MemoryPlan:
    return plan_memory("p", engines, Device("a GPU", "cuda", total * GIB, taken * GIB))


def printed(plan: MemoryPlan) -> list[str]:
    console = Console(width=80, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(*render(plan), sep="\n")
    return [line.rstrip() for line in capture.get().splitlines()]


def row(lines: list[str], title: str, engine: str) -> list[str]:
    """Cells of the engine's row in the table of that title."""
    start = next(index for index, line in enumerate(lines) if line.startswith(title))
    return next(line for line in lines[start:] if line.split()[:1] == [engine]).split()


def test_the_parts_stand_in_a_table() -> None:
    lines = printed(planned(ENGINE, EAGLE))
    assert lines[0] == "p on a GPU (80.0 GiB), in GiB"
    assert lines[2].split() == ["engine", "weights", "draft", "activations", "graphs", "runtime", "KV", "cache", "all"]
    assert row(lines, "p on", "llm_bf16:1") == ["llm_bf16:1", "12.55", "0.17", "0.23", "0.75", "26.74", "40.45"]
    assert row(lines, "p on", "llm_eagle:1")[1:3] == ["3.62", "0.81"]


def test_no_heading_is_cut_in_80_columns() -> None:
    lines = printed(planned(BASELINE, ENGINE, AWQ, EAGLE, taken=1))
    assert not [line for line in lines if "…" in line]


def test_what_runs_at_once_is_said_with_the_shares() -> None:
    lines = printed(planned(ENGINE, replace(AWQ, share=0.92, share_is_default=True)))
    assert row(lines, "What runs", "llm_bf16:1")[1:] == ["4,096", "13", "64", "512", "54,752", "0.5", "0.54"]
    assert row(lines, "What runs", "llm_awq:1")[-2:] == ["0.92", "0.428"]
    assert lines[lines.index(next(line for line in lines if "0.92 " in line)) + 1].split() == ["(default)"]


def test_the_bars_are_told_apart_without_colour() -> None:
    lines = printed(planned(ENGINE, taken=10))
    bar = next(line for line in lines if line.startswith("together"))
    assert list(dict.fromkeys(bar.split()[-1])) == ["x", "█", "=", "#", "·"]
    assert len(bar.split()[-1]) == 60


def test_the_end_of_the_memory_is_marked_where_it_is_passed() -> None:
    lines = printed(planned(ENGINE, replace(ENGINE, share=0.9), total=40))
    assert any(line.endswith("40.0 GiB is all there is ^") for line in lines)
    assert not any("all there is" in line for line in printed(planned(ENGINE)))


def test_degrees_that_are_refused_are_named_once() -> None:
    lines = printed(planned(AWQ, EAGLE))
    assert "not over 4 GPUs: llm_awq:1, llm_eagle:1 (11008 / 4 = 2752 rows are no whole" in lines
    assert len([line for line in lines if line.startswith("not over 4 GPUs")]) == 1


def test_the_verdict_comes_last() -> None:
    assert printed(planned(ENGINE))[-1] == "Fits: 39.6 GiB of 80.0 GiB stay free."
    lines = printed(planned(ENGINE, replace(ENGINE, share=0.9)))
    assert "Does not fit:" in lines
    assert lines[-2].startswith("  all of them fit with these shares (gpu_memory_utilization)")


def test_the_baselines_cache_is_explained_where_there_is_one() -> None:
    explanation = "transformers takes its cache as it needs it"
    assert any(line.startswith(explanation) for line in printed(planned(ENGINE, BASELINE)))
    assert not any(line.startswith(explanation) for line in printed(planned(ENGINE)))
