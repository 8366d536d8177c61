"""docker/triton.Dockerfile against the repository: what it names exists, and what it would run does what it should."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.docker.dockerfile import DOCKERFILE, ROOT, build_arguments, environment, instructions, parse, the_one
from tools.spec.loading import load_profile

HOME = "/workspace/ladder"


def test_continuation_lines_are_joined_and_comments_left_out() -> None:
    [run, copy] = parse("# a\nRUN one && \\\n    # not this\n    two\nCOPY --from=x a b\n")
    assert run.value.split() == ["one", "&&", "two"]
    assert copy.words == ["--from=x", "a", "b"]


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed in this environment")
    found = subprocess.run(
        [hadolint, "--no-color", str(DOCKERFILE)], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_every_copied_path_exists_and_is_in_the_build_context() -> None:
    sources = [copy.words[:-1] for copy in instructions("COPY") if not copy.words[0].startswith("--from=")]
    assert sources
    allowed = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    ]
    for source in (path for paths in sources for path in paths):
        assert (ROOT / source).exists(), f'COPY source "{source}" does not exist'
        assert source.split("/")[0] in allowed, f'".dockerignore" keeps "{source}" out of the build'


def test_every_stage_that_is_copied_from_or_built_on_exists() -> None:
    stages = {found.words[2] for found in instructions("FROM") if len(found.words) == 3}
    copied = {word.removeprefix("--from=") for copy in instructions("COPY") for word in copy.words if "--from" in word}
    built_on = {found.words[0] for found in instructions("FROM") if "/" not in found.words[0]}
    assert copied | built_on <= stages


def test_every_build_argument_is_used() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    assert set(build_arguments()) == {"TRITON_RELEASE", "PROFILE", "BACKEND"}
    for name in build_arguments():
        assert f"${{{name}}}" in text


def test_the_default_profile_is_one_for_gpus() -> None:
    assert load_profile(build_arguments()["PROFILE"]).target.accelerator == "cuda"


def test_nvidias_release_is_named_in_one_place() -> None:
    release = build_arguments()["TRITON_RELEASE"]
    assert re.fullmatch(r"\d\d\.\d\d", release)
    image = [found.words[0] for found in instructions("FROM") if "/" in found.words[0]]
    assert image == ["nvcr.io/nvidia/tritonserver:${TRITON_RELEASE}-vllm-python-py3"]

    listed = subprocess.run(
        ["git", "grep", "-lF", "-e", f"{release}-", "-e", f"RELEASE={release}", "-e", f"tritonserver:{release}"],
        cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert set(listed.stdout.split()) <= {"docker/triton.Dockerfile"}


@pytest.mark.slow
def test_the_packages_for_rendering_are_locked_and_enough() -> None:
    """Everything that `render` imports comes from the packages that the image installs, or from what they require."""
    [run] = [found for found in instructions("RUN") if "pip install" in found.value]
    words = run.words[: run.words.index("&&")]
    lock = words[words.index("--constraint") + 1]
    locked = {
        re.split(r"[=;]", line)[0].lower().replace("_", "-")
        for line in (ROOT / lock).read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    }
    named = set(words[words.index("--constraint") + 2 :])
    assert named
    assert named <= locked

    missing = _imported_by_rendering() - _closure(named)
    assert not missing, f"the image lacks {sorted(missing)} for rendering"


def _imported_by_rendering() -> set[str]:
    """Distributions whose modules are loaded after one rendering, in a process of its own."""
    code = (
        "import json, sys; at_start = set(sys.modules); "
        "from tools.cli.app import main; main(['render', '--check']); "
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - at_start})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True
    )
    distributions = importlib.metadata.packages_distributions()
    modules = json.loads(done.stdout.splitlines()[-1])
    # The namespace package "google" belongs to several distributions, of which only protobuf is used.
    modules = [name for name in modules if name not in {"google", "tools"}]
    return {name.lower().replace("_", "-") for module in modules for name in distributions.get(module, ())}


def _closure(names: set[str]) -> set[str]:
    """The distributions and what they require, extras and other platforms left out."""
    found: set[str] = set()
    open_names = set(names)
    while open_names:
        name = open_names.pop()
        found.add(name)
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                open_names |= {requirement.name.lower().replace("_", "-")} - found
    return found


def test_the_command_that_renders_is_one_of_the_ladder() -> None:
    [run] = [found for found in instructions("RUN") if "tools.cli render" in found.value]
    words = run.words[run.words.index("tools.cli") + 1 :]
    words = [build_arguments()["PROFILE"] if word == "${PROFILE}" else word for word in words]
    assert words[0] == "render"
    assert words[-2:] == ["--out", "/rendered"]
    assert "/rendered" in next(copy.words for copy in instructions("COPY") if "--from=rendered" in copy.words)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder that looks like the image's file system where the Dockerfile touches it."""
    backend = tmp_path / "opt" / "tritonserver" / "backends" / "vllm"
    backend.mkdir(parents=True)
    (backend / "model.py").write_text("NVIDIA's", encoding="utf-8")
    (backend / "utils").mkdir()
    workspace = tmp_path / HOME.removeprefix("/")
    workspace.mkdir(parents=True)
    (workspace / "tools").symlink_to(ROOT / "tools")
    return tmp_path


def choose_backend(image: Path, backend: str) -> subprocess.CompletedProcess[str]:
    """Runs the `case` of the Dockerfile in `image`."""
    [run] = [found for found in instructions("RUN") if 'case "${BACKEND}"' in found.value]
    script = run.value[: run.value.index("esac") + len("esac")]
    script = script.replace("/opt/", f"{image}/opt/").replace(HOME, f"{image}{HOME}")
    return subprocess.run(
        ["sh", "-euc", script], env={"BACKEND": backend, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip


def test_our_backend_takes_the_place_of_nvidias(image: Path) -> None:
    assert choose_backend(image, "ladder").returncode == 0
    backend = image / "opt/tritonserver/backends/vllm"
    assert [path.name for path in backend.iterdir()] == ["model.py"]
    # Resolved as the backend itself does, to find the package it belongs to.
    assert (backend / "model.py").resolve().parents[3] == ROOT


def test_nvidias_backend_is_left_as_it_is(image: Path) -> None:
    assert choose_backend(image, "nvidia").returncode == 0
    assert (image / "opt/tritonserver/backends/vllm/model.py").read_text(encoding="utf-8") == "NVIDIA's"


def test_another_backend_is_refused_by_name(image: Path) -> None:
    refused = choose_backend(image, "vllm")
    assert refused.returncode == 1
    assert refused.stderr.strip() == 'BACKEND="vllm" is not known: write ladder or nvidia'


def test_repositories_and_weights_lie_where_the_server_looks() -> None:
    entrypoint = the_one("ENTRYPOINT").command
    repositories = [word.partition("=")[2] for word in entrypoint if word.startswith("--model-repository=")]
    assert repositories == [f"{HOME}/model_repository", f"{HOME}/ensembles"]
    assert environment()["LADDER_HOME"] == HOME
    assert [found.value for found in instructions("WORKDIR")][-1] == HOME


def test_the_server_runs_in_exec_form_without_root() -> None:
    entrypoint = the_one("ENTRYPOINT").command
    assert entrypoint[1] == "tritonserver"
    assert the_one("USER").value == "1000:1000"
    assert the_one("STOPSIGNAL").value == "SIGTERM"
    assert the_one("HEALTHCHECK").command[-1] == "http://127.0.0.1:8000/v2/health/ready"


def test_variables_are_ones_that_something_reads() -> None:
    ours = [name for name in environment() if name.startswith("LADDER_")]
    assert ours
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tools").rglob("*.py")]
    for name in ours:
        assert any(f'"{name}"' in source for source in sources), f"nothing reads {name}"


@pytest.mark.e2e
def test_tritonserver_knows_every_option(tritonserver_help: str) -> None:
    options = {word.partition("=")[0] for word in the_one("ENTRYPOINT").command if word.startswith("--")}
    assert {option for option in options if not re.search(rf"^\s+{option}\b", tritonserver_help, re.M)} == set()
