from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tools.bootstrap.doctor.gpu import Gpu
from tools.planning.devices import device_of, known_devices, of_gpu
from tools.planning.errors import PlanningError
from tools.planning.units import GIB, MIB
from tools.spec.model import Target

CPU = Target(accelerator="cpu")
CUDA = Target(accelerator="cuda", gpus=1, gpu_memory_gib=40)


def test_without_a_name_the_profiles_target_is_planned_for() -> None:
    device = device_of(None, CUDA)
    assert (device.accelerator, device.total) == ("cuda", 40 * GIB)
    assert device_of(None, CPU).accelerator == "cpu"


def test_the_host_has_its_memory() -> None:
    assert device_of("cpu", CUDA).total == psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("name", "sold_as"), [("l4", 24), ("l40s", 48), ("a100-40g", 40), ("a100-80g", 80), ("h100", 80), ("h200", 141)]
)
def test_a_gpu_has_a_little_less_than_it_is_sold_with(name: str, sold_as: int) -> None:
    total = device_of(name, CPU).total
    assert 0.9 * sold_as * 1e9 < total < sold_as * GIB


def test_known_gpus_ascend() -> None:
    totals = [device.total for device in known_devices()]
    assert totals == sorted(totals)


@pytest.mark.parametrize(("wrong", "right"), [("a100-40", "a100-40g"), ("h20", "h200"), ("atuo", "auto")])
def test_an_unknown_gpu_is_refused_with_the_nearest_name(wrong: str, right: str) -> None:
    with pytest.raises(PlanningError, match=rf'no GPU "{wrong}": did you mean "{right}"\? known are l4, '):
        device_of(wrong, CPU)


def test_names_may_be_in_capitals() -> None:
    assert device_of("L40S", CPU) == device_of("l40s", CPU)


def test_the_start_of_several_names_asks_which() -> None:
    with pytest.raises(PlanningError, match='no GPU "A100": did you mean "a100-40g" or "a100-80g"'):
        device_of("A100", CPU)


def test_a_name_like_none_is_refused_with_all_names() -> None:
    with pytest.raises(PlanningError, match=r'no GPU "tpu-v5e": known are l4, .*h200, b200, cpu, auto'):
        device_of("tpu-v5e", CPU)


def test_auto_asks_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, NVIDIA L4, 8.9, 550.1, 20000, 23034'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    device = device_of("auto", CPU)
    assert device.name == "GPU 0, NVIDIA L4"
    assert device.total == pytest.approx(device_of("l4", CPU).total, rel=0.01)
    assert device.total - device.taken == 20000 * MIB


def test_auto_without_a_gpu_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlanningError) as caught:
        device_of("auto", CUDA)
    assert str(caught.value).startswith('no GPU to plan for with "--gpu auto" (no nvidia-smi on PATH): name one (l4, ')
    assert 'or plan for this machine without a GPU with "--gpu cpu"' in str(caught.value)


def test_an_idle_gpu_has_nothing_taken() -> None:
    assert of_gpu(Gpu(0, "NVIDIA H200", (9, 0), "570.1", free=143_600, total=143_771)).taken == 0
