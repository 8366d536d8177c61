from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bootstrap.conftest import Checkout
from tools.bootstrap.environments import STAMP, Stamp, build, is_ready, is_usable
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.processes import Runner


def build_it(checkout: Checkout, *, torch: bool = False, report: Callable[[str], None] = lambda _: None) -> Path:
    environment = checkout.environment(torch=torch)
    build(environment, checkout.layout, Runner(), report)
    return checkout.layout.environment(environment.name)


def installs(checkout: Checkout) -> list[str]:
    return [call.partition(" install --no-deps ")[2] for call in checkout.calls if " install " in call]


def test_building_installs_the_locked_pins_without_resolving_and_proves_that_imports_work(checkout: Checkout) -> None:
    target = build_it(checkout)
    assert checkout.calls[0] == f"-I -m venv {target}"
    assert installs(checkout) == ["pip==26.3", f"--no-compile -r {checkout.layout.locks / 'small.txt'}"]
    assert checkout.calls[-1] == "-I -c import one, two"


def test_the_stamp_is_written_last_and_says_what_the_server_needs(checkout: Checkout) -> None:
    checkout.behaves(f"assert not list(base.glob('*/.ladder/env/small/{STAMP}')) and not (base / '{STAMP}').exists()")
    target = build_it(checkout)
    stamp = json.loads((target / STAMP).read_text(encoding="utf-8"))
    assert (stamp["python"], stamp["libpython"]) == ("3.11.7", "/python/lib")
    assert is_ready(checkout.environment(), checkout.layout)


def test_a_changed_lock_file_makes_an_environment_usable_but_not_ready(checkout: Checkout) -> None:
    build_it(checkout)
    environment = checkout.environment()
    checkout.lock("small", "one==2\n")
    assert not is_ready(environment, checkout.layout)
    assert is_usable(environment, checkout.layout)


@pytest.mark.parametrize("stamp", ["", "{", "[]", '{"lock": "x"}'])
def test_a_broken_stamp_is_no_stamp(checkout: Checkout, stamp: str) -> None:
    target = build_it(checkout)
    (target / STAMP).write_text(stamp, encoding="utf-8")
    assert Stamp.read(checkout.environment(), checkout.layout) is None


def test_an_environment_whose_interpreter_is_gone_is_not_ready(checkout: Checkout) -> None:
    target = build_it(checkout)
    python = target / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert not is_usable(checkout.environment(), checkout.layout)


@pytest.mark.slow
def test_building_again_starts_from_nothing(checkout: Checkout) -> None:
    target = build_it(checkout)
    half_unpacked = target / "half-unpacked"
    half_unpacked.touch()
    build_it(checkout)
    assert not half_unpacked.exists()
    assert sorted(entry.name for entry in target.parent.iterdir()) == ["small"]


def test_progress_names_each_phase_and_counts_packages(checkout: Checkout) -> None:
    phases: list[str] = []
    build_it(checkout, report=phases.append)
    assert [phase for phase in phases if "packages" in phase] == [
        "fetching packages",
        "fetching packages, 1 of 2",
        "fetching packages, 2 of 2",
        "unpacking packages",
    ]
    assert phases[-2:] == ["importing for the first time", "ready"]


@pytest.mark.slow
def test_torch_is_looked_for_where_pip_is_set_up_to_look(checkout: Checkout) -> None:
    build_it(checkout, torch=True)
    assert installs(checkout)[1] == "--no-compile torch==2.13.0+cpu"
    assert not any("index-url" in call for call in installs(checkout))


@pytest.mark.slow
def test_torch_alone_comes_from_its_own_index_where_pip_finds_no_cpu_build(checkout: Checkout) -> None:
    checkout.behaves(
        """
if "torch==2.13.0+cpu" in arguments:
    print("ERROR: No matching distribution found for torch==2.13.0+cpu")
    sys.exit(1)
"""
    )
    build_it(checkout, torch=True)
    index = "--index-url https://download.pytorch.org/whl/cpu"
    assert installs(checkout)[1:] == [
        "--no-compile torch==2.13.0+cpu",
        f"--no-compile {index} torch==2.13.0",
        f"--no-compile -r {checkout.layout.locks / 'small.txt'}",
    ]


def test_a_full_disk_while_torch_is_installed_is_not_taken_for_a_missing_build(checkout: Checkout) -> None:
    checkout.behaves(
        """
if "torch==2.13.0+cpu" in arguments:
    print("ERROR: Could not install packages: [Errno 28] No space left on device")
    sys.exit(1)
"""
    )
    with pytest.raises(BootstrapError, match="The disk is full: free some space"):
        build_it(checkout, torch=True)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("ERROR: No matching distribution found for one==1", "No index that pip knows has this version"),
        ("SSLError: CERTIFICATE_VERIFY_FAILED", "set pip's `cert` option"),
        ("ProxyError('Cannot connect to proxy.')", "check HTTPS_PROXY"),
        ("Failed to establish a new connection: [Errno 111]", "The index is out of reach"),
        ("ReadTimeoutError: Read timed out.", "set pip's `timeout` option"),
        ("something else", "The lines above name the cause."),
    ],
)
def test_a_failure_shows_the_last_lines_and_what_to_do(checkout: Checkout, line: str, advice: str) -> None:
    checkout.behaves(f"if '-r' in arguments:\n    print({line!r})\n    sys.exit(1)")
    with pytest.raises(BootstrapError) as failure:
        build_it(checkout)
    text = str(failure.value)
    assert text.startswith("the small environment could not be built on Python 3.")
    assert f"  {line}" in text
    assert advice in text
    log = checkout.layout.logs / "install-small.log"
    assert f'The whole log: "{log}"' in text
    assert line in log.read_text(encoding="utf-8")
    assert not is_usable(checkout.environment(), checkout.layout)


def test_too_little_disk_is_said_before_anything_is_installed(checkout: Checkout) -> None:
    environment = checkout.environment()
    greedy = type(environment)(**{**vars(environment), "gigabytes": 1e9})
    with pytest.raises(BootstrapError, match=r'the small environment needs 1000000000.0 GB in ".*", .* GB are free'):
        build(greedy, checkout.layout, Runner(), lambda _: None)
    assert checkout.calls == []
