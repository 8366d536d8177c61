from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.bootstrap.conftest import Checkout
from tools.bootstrap.doctor import gpu, main, software, system
from tools.bootstrap.doctor.findings import Finding, as_json, as_text, exit_code
from tools.bootstrap.environments import build
from tools.bootstrap.layout import Layout
from tools.bootstrap.pip import locked_packages
from tools.bootstrap.processes import Runner

OK = Finding("ok", "CPU", "2 cores")
WARN = Finding("warn", "GPU", "none", "nothing to do")
FAIL = Finding("fail", "glibc", "2.31", "newer")


def test_only_failures_count() -> None:
    assert exit_code([OK, WARN]) == 0
    assert exit_code([OK, FAIL]) == 1


def test_every_line_that_is_not_ok_says_what_to_do() -> None:
    text = as_text([OK, WARN, FAIL], colour=False)
    assert text.splitlines() == [
        "ok    CPU    2 cores",
        "warn  GPU    none",
        "             -> nothing to do",
        "fail  glibc  2.31",
        "             -> newer",
        "",
        "1 ok, 1 warn, 1 fail: ./ladder up will not work here until the failures are mended",
    ]
    assert as_text([OK], colour=False).endswith("1 ok, 0 warn, 0 fail: fit to serve")


def test_json_holds_the_same() -> None:
    document = json.loads(as_json([OK, FAIL]))
    assert document == {
        "ok": False,
        "findings": [
            {"level": "ok", "check": "CPU", "message": "2 cores", "fix": ""},
            {"level": "fail", "check": "glibc", "message": "2.31", "fix": "newer"},
        ],
    }


def test_the_whole_report_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(["--json", "--port-base", "18216"], Layout.of_this_checkout())
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is (code == 0)
    checks = {finding["check"] for finding in document["findings"]}
    expected = {
        "platform",
        "glibc",
        "Python",
        "libpython",
        "CPU",
        "memory",
        "shared memory",
        "disk",
        "path",
        "port 18216",
    }
    assert expected | {"port 18217", "port 18218", "engine env", "server env", ".ladder/", "models/"} <= checks
    assert all(finding["fix"] for finding in document["findings"] if finding["level"] != "ok")


def test_a_path_that_tritons_python_backend_cannot_take_fails() -> None:
    finding = system.path_is_served(Layout(Path("/my clone")))
    assert (finding.level, finding.check) == ("fail", "path")
    assert finding.message == "\"/my clone\" has a ' ' in it, which Triton's Python backend cannot take"
    assert finding.fix == "move this checkout to a path of ASCII letters, digits and _ - . /"
    assert system.path_is_served(Layout(Path("/my-clone"))).level == "ok"


def test_a_wrong_option_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--jsn"], Layout.of_this_checkout()) == 2
    assert "unrecognized arguments: --jsn" in capsys.readouterr().err


@pytest.mark.parametrize("base", ["-5", "0", "65534", "99999999999999999999", "x", ""])
def test_a_port_base_without_room_for_three_ports_is_a_wrong_command_line(
    base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([f"--port-base={base}"], Layout.of_this_checkout()) == 2
    assert f'"{base}" is no port base: choose one from 1 to 65533' in capsys.readouterr().err


A100 = "0, NVIDIA A100-SXM4-40GB, 8.0, 535.104.05, 40000, 40960\n"


def test_a_fit_gpu_is_named() -> None:
    [found] = gpu.parse(A100)
    assert gpu.judge(found) == [
        Finding("ok", "GPU 0", "NVIDIA A100-SXM4-40GB, compute capability 8.0"),
        Finding("ok", "GPU 0", "driver 535.104.05"),
        Finding("ok", "GPU 0", "40000 MiB free of 40960 MiB"),
    ]


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        (
            "0, Tesla T4, 7.5, 550.1, 15000, 15360",
            "fail",
            "Tesla T4, compute capability 7.5: the GPU profiles need >= 8.0",
        ),
        ("0, L4, 8.9, 525.60, 23000, 24000", "fail", "driver 525.60: >= 535 is needed"),
        ("0, L4, 8.9, 550.1, 3000, 24000", "warn", "3000 MiB free of 24000 MiB"),
        ("1, H200, 10.0, 570.1, 3000, 24000", "warn", "3000 MiB free"),
    ],
)
def test_what_is_wrong_with_a_gpu(line: str, level: str, message: str) -> None:
    [found] = gpu.parse(line)
    wrong = [finding for finding in gpu.judge(found) if finding.level != "ok"]
    assert wrong[0].level == level
    assert message in wrong[0].message
    assert wrong[0].fix


def fake_nvidia_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_gpus_are_asked_of_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(tmp_path, f"echo '{A100.strip()}'", monkeypatch)
    assert [finding.check for finding in gpu.gpus_are_fit()] == ["GPU 0"] * 3


def test_no_gpu_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    [absent] = gpu.gpus_are_fit()
    assert (absent.level, absent.message) == ("warn", "none (no nvidia-smi on PATH)")
    fake_nvidia_smi(tmp_path, "echo 'NVIDIA-SMI has failed'; exit 9", monkeypatch)
    [broken] = gpu.gpus_are_fit()
    assert (broken.level, broken.message) == ("warn", "none (NVIDIA-SMI has failed)")


@pytest.mark.parametrize(
    ("version", "level"), [(("glibc", "2.36"), "ok"), (("glibc", "2.31"), "fail"), (("", ""), "fail")]
)
def test_glibc(version: tuple[str, str], level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system.platform, "libc_ver", lambda: version)
    finding = system.glibc_is_new_enough()
    assert finding.level == level
    if level == "fail":
        assert "2.35" in finding.message + finding.fix


@pytest.mark.parametrize(("machine", "level"), [("x86_64", "ok"), ("aarch64", "ok"), ("riscv64", "fail")])
def test_platform(machine: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system.platform, "machine", lambda: machine)
    assert system.platform_is_served().level == level


@pytest.mark.parametrize(
    ("flags", "level", "message"),
    [
        ("fpu avx2", "ok", "AVX2"),
        ("fpu avx2 avx512f amx_bf16", "ok", "AVX2, AVX-512, AMX BF16"),
        ("fpu sse4_2", "fail", "without AVX2"),
    ],
)
def test_cpu_flags(flags: str, level: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(system.os, "sched_getaffinity", lambda _: {0, 1})
    finding = system.cpu_has_what_vllm_needs(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t:\n")
    assert finding.level == level
    assert message in finding.message


@pytest.mark.parametrize(("available", "level"), [(20, "ok"), (7, "warn"), (2, "fail")])
def test_memory(available: int, level: str) -> None:
    meminfo = f"MemTotal:       24000000 kB\nMemAvailable:   {available}000000 kB\n"
    finding = system.memory_is_enough(meminfo)
    assert finding.level == level
    assert finding.message.startswith(f"{available}.0 GB available of 24.0 GB")


@pytest.mark.parametrize(("megabytes", "level"), [(1000, "ok"), (64, "warn"), (8, "fail")])
def test_shared_memory(megabytes: int, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": megabytes * 1e6})
    monkeypatch.setattr(system.shutil, "disk_usage", lambda _: usage)
    finding = system.shared_memory_is_enough(tmp_path)
    assert finding.level == level
    if level != "ok":
        assert "--shm-size=1g" in finding.fix


def test_shared_memory_that_is_not_there(tmp_path: Path) -> None:
    assert system.shared_memory_is_enough(tmp_path / "none").level == "fail"


def test_a_full_disk_fails(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1e9})
    monkeypatch.setattr(system.shutil, "disk_usage", lambda _: usage)
    finding = system.disk_is_enough(checkout.layout)
    assert finding.level == "fail"
    assert "1.0 GB free" in finding.message


def test_a_long_temporary_folder_cannot_hold_sockets(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    long = checkout.layout.home / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(system.tempfile, "gettempdir", lambda: str(long))
    finding = system.folders_are_writable(checkout.layout)[-1]
    assert (finding.level, finding.fix) == ("fail", "set TMPDIR=/tmp")


def test_a_busy_port_names_its_holder() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        finding = software.ports_are_free(port)[0]
    assert finding.level == "warn"
    assert finding.message.startswith("HTTP: held by ")
    assert "(process " in finding.message


def install(packages: Path, *names: str) -> None:
    packages.mkdir(parents=True)
    for name in names:
        (packages / f"{name}.dist-info").mkdir()


def test_an_environment_is_compared_with_its_lock_file(checkout: Checkout) -> None:
    environment = checkout.environment()
    assert software.environment_matches_lock(environment, checkout.layout).message == "not prepared yet"
    build(environment, checkout.layout, Runner(), lambda _: None)
    packages = checkout.layout.environment("small") / "lib" / "python3.11" / "site-packages"
    install(packages, "One-1", "two-3")
    different = software.environment_matches_lock(environment, checkout.layout)
    assert (different.level, different.message) == ("fail", "differs from its lock file: two is 3, not 2")
    assert different.fix.endswith("&& ./ladder setup")
    (packages / "two-3.dist-info").rename(packages / "two-2.dist-info")
    assert software.environment_matches_lock(environment, checkout.layout).level == "ok"
    checkout.lock("small", "one==9\n")
    assert software.environment_matches_lock(environment, checkout.layout).message == "built from an older lock file"


def test_differences_know_builds_spellings_and_markers(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(
        '# comment\ntorch==2.13.0\nruamel.yaml==1\nabsent==1; python_version > "3.99"\ngone==4\n', encoding="utf-8"
    )
    install(tmp_path / "p", "torch-2.13.0+cpu", "ruamel_yaml-1")
    assert software.differences(lock, tmp_path / "p") == ["gone 4 is missing"]


@pytest.mark.parametrize("name", ["engine", "server"])
def test_lock_files_pin_every_package_once_and_in_order(name: str) -> None:
    lines = (Layout.of_this_checkout().locks / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all("==" in pin for pin in pins)
    assert pins == sorted(pins, key=str.lower)
    assert len(locked_packages(Layout.of_this_checkout().locks / f"{name}.txt")) == len(pins)


def test_the_lock_files_keep_what_the_design_rests_on() -> None:
    locks = Layout.of_this_checkout().locks
    server, engine = locked_packages(locks / "server.txt"), locked_packages(locks / "engine.txt")
    assert int(server["numpy"].split(".")[0]) < 2
    # Messages between stub and engine are read on both sides.
    assert (server["msgspec"], server["pyzmq"]) == (engine["msgspec"], engine["pyzmq"])
    assert not {"torchvision", "torchaudio", "torchcodec"} & set(engine)
