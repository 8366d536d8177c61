"""The virtual environments: what they hold, whether they are ready, how they are built.

An environment is ready when its stamp, written last, carries the hash of its lock file. One without a stamp was
interrupted and is built anew: pip takes a half-unpacked package for an installed one.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.bootstrap import interpreters
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.interpreters import Interpreter
from tools.bootstrap.layout import Layout
from tools.bootstrap.pip import Pip, advice, locked_packages
from tools.bootstrap.processes import CommandFailedError, Runner

STAMP = "ladder-stamp.json"
PIP = "pip==26.3"
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True)
class Environment:
    """One virtual environment. `first_imports` prove that it works, and leave their bytecode behind.

    Without bytecode an engine spends 20 s more on its imports at every start, and compiling all of the 20,000 files
    an environment holds takes longer than importing the 5,000 that are used. `serves` is false where no running
    instance uses it, so that it may be rebuilt beneath one.
    """

    name: str
    gigabytes: float
    choose_interpreter: Callable[[], Interpreter]
    first_imports: tuple[str, ...]
    torch: bool = False
    serves: bool = True


ENGINE = Environment(
    name="engine",
    gigabytes=2.7,
    choose_interpreter=interpreters.for_engine,
    first_imports=(
        "vllm.v1.engine.async_llm",
        "vllm.v1.worker.cpu_worker",
        "vllm.model_executor.models.llama",
        "transformers.models.llama.modeling_llama",
        "transformers.generation.utils",
        "accelerate",
        "gguf",
        "tritonclient.grpc.aio",
        "xgrammar",
        "httpx",
        "jinja2",
        "psutil",
        "pydantic",
        "rich",
        "typer",
        "yaml",
    ),
    torch=True,
)
SERVER = Environment(
    name="server",
    gigabytes=0.4,
    choose_interpreter=interpreters.for_server,
    first_imports=("msgspec", "numpy", "zmq"),
)
# What every command needs; the others are built when a command first wants one.
ENVIRONMENTS = (ENGINE, SERVER)
QUANTIZE = Environment(
    name="quantize",
    gigabytes=1.5,
    choose_interpreter=interpreters.for_engine,
    first_imports=("awq", "transformers.models.llama.modeling_llama", "accelerate", "pydantic"),
    torch=True,
    serves=False,
)
LLMCOMPRESSOR = Environment(
    name="quantize-llmcompressor",
    gigabytes=1.5,
    choose_interpreter=interpreters.for_engine,
    first_imports=("llmcompressor.modifiers.transform.awq", "transformers.models.llama.modeling_llama"),
    torch=True,
    serves=False,
)
# An Envoy that runs keeps its program, whatever becomes of the file, so this may be rebuilt beneath it.
FLEET = Environment(
    name="fleet",
    gigabytes=0.4,
    choose_interpreter=interpreters.for_engine,
    first_imports=("envoy", "kubernetes_validate"),
    serves=False,
)


@dataclass(frozen=True)
class Stamp:
    """What a finished environment says of itself.

    `libpython` is a folder, None where Triton's stub brings its own. `kit` is the offline kit it was made from, None
    for one that pip installed. `accelerator`, "cpu" or "cuda", is what its vLLM was built for.
    """

    lock: str
    python: str
    libpython: str | None
    kit: str | None = None
    accelerator: str = "cpu"

    @classmethod
    def read(cls, environment: Environment, layout: Layout) -> Stamp | None:
        """The stamp of a finished environment, None when there is none or its interpreter is gone."""
        if not os.access(layout.environment_python(environment.name), os.X_OK):
            return None
        try:
            fields = json.loads((layout.environment(environment.name) / STAMP).read_text(encoding="utf-8"))
            return cls(
                lock=fields["lock"],
                python=fields["python"],
                libpython=fields["libpython"],
                kit=fields.get("kit"),
                accelerator=fields.get("accelerator", "cpu"),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, environment: Environment, layout: Layout) -> None:
        path = layout.environment(environment.name) / STAMP
        draft = path.with_suffix(".partial")
        draft.write_text(json.dumps(vars(self), indent=2) + "\n", encoding="utf-8")
        draft.replace(path)


def lock_file(environment: Environment, layout: Layout) -> Path:
    return layout.locks / f"{environment.name}.txt"


def lock_hash(environment: Environment, layout: Layout) -> str:
    return hashlib.sha256(lock_file(environment, layout).read_bytes() + PIP.encode()).hexdigest()


def is_ready(environment: Environment, layout: Layout) -> bool:
    """True when the environment was finished from the lock file as it is now, or from an offline kit."""
    stamp = Stamp.read(environment, layout)
    return stamp is not None and (stamp.kit is not None or stamp.lock == lock_hash(environment, layout))


def is_usable(environment: Environment, layout: Layout) -> bool:
    """True when the environment was finished, be it from an older lock file."""
    return Stamp.read(environment, layout) is not None


def build(environment: Environment, layout: Layout, runner: Runner, report: Callable[[str], None]) -> None:
    """Builds one environment from nothing; `report` gets the phases. Raises BootstrapError."""
    report("choosing an interpreter")
    interpreter = environment.choose_interpreter()
    target = layout.environment(environment.name)
    report("removing the old one")
    remove(target)
    require_disk(environment, layout)
    layout.logs.mkdir(parents=True, exist_ok=True)
    log = layout.logs / f"install-{environment.name}.log"
    log.write_text(f"{environment.name}: {interpreter.executable} {interpreter.version}\n", encoding="utf-8")
    lock = lock_file(environment, layout)
    packages = locked_packages(lock)
    # Read before the build: a lock file edited meanwhile must not be taken for the one installed.
    expected = lock_hash(environment, layout)
    try:
        report("creating it")
        runner.run([interpreter.executable, "-I", "-m", "venv", target], log)
        pip = Pip(target, log, runner, report)
        pip.install([PIP], "pip")
        if environment.torch:
            _install_torch(pip, packages["torch"])
        pip.install(["--no-compile", "-r", str(lock)], "packages", total=len(packages))
        report("importing for the first time")
        imports = f"import {', '.join(environment.first_imports)}"
        runner.run([layout.environment_python(environment.name), "-I", "-c", imports], log)
    except CommandFailedError as error:
        raise BootstrapError(_failure(environment, log, error)) from error
    libpython = None if interpreter.libpython is None else str(interpreter.libpython)
    Stamp(expected, ".".join(map(str, interpreter.version)), libpython).write(environment, layout)
    report("ready")


def _install_torch(pip: Pip, version: str) -> None:
    """torch's CPU build from wherever pip is set up to look, and only where that has none from PyTorch's CPU index."""
    try:
        pip.install(["--no-compile", f"torch=={version}+cpu"], f"torch {version}, CPU build")
    except CommandFailedError as error:
        if not any("No matching distribution" in line for line in error.tail):
            raise
        # There `==` also takes 2.13.0+cpu; some platforms have only the plain name.
        only_there = ["--no-compile", "--index-url", PYTORCH_CPU_INDEX, f"torch=={version}"]
        pip.install(only_there, f"torch {version}, from PyTorch's CPU index")


def remove(target: Path) -> None:
    """Moves the folder aside before deleting it: a deletion cut short leaves nothing that looks like an environment."""
    aside = target.with_name(f".{target.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    if target.exists():
        target.rename(aside)
        shutil.rmtree(aside)


def require_disk(environment: Environment, layout: Layout) -> None:
    """Raises BootstrapError where there is no room for it."""
    layout.environments.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(layout.environments).free / 1e9
    if free < environment.gigabytes:
        raise BootstrapError(
            f'the {environment.name} environment needs {environment.gigabytes} GB in "{layout.environments}", '
            f"{free:.1f} GB are free: free some, or clone to a larger disk"
        )


def _failure(environment: Environment, log: Path, error: CommandFailedError) -> str:
    lines = [
        f"the {environment.name} environment could not be built on Python {platform.python_version()}. The last lines:",
        *(f"  {line}" for line in error.tail),
        advice(error.tail),
        f'The whole log: "{log}". Then run the command again.',
    ]
    return "\n".join(lines)
