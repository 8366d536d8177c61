"""The folder tritonserver finds its backends in: the wheel's Python backend, and this project's "vllm".

.ladder/backends/
  python/  libtriton_python.so, triton_python_backend_utils.py   links into the server environment
           triton_python_backend_stub                            the one of the environment's Python version
  vllm/    model.py, tools                                       links into this checkout
"""

from __future__ import annotations

import filecmp
import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

from tools.bootstrap.environments import SERVER, Stamp
from tools.bootstrap.layout import Layout
from tools.serving.errors import ServingError


@dataclass(frozen=True)
class ServerSoftware:
    """What the server environment holds. `libraries` are the folders the dynamic linker has to know."""

    binary: Path
    backends: Path
    stub: Path
    libraries: tuple[Path, ...]
    bin: Path

    @classmethod
    def of(cls, layout: Layout) -> ServerSoftware:
        """Raises ServingError when the environment is not there, or does not hold what it should."""
        stamp = Stamp.read(SERVER, layout)
        if stamp is None:
            raise ServingError("the server environment is not there: ./ladder setup builds it")
        minor = ".".join(stamp.python.split(".")[:2])
        environment = layout.environment(SERVER.name)
        packages = environment / "lib" / f"python{minor}" / "site-packages"
        server = packages / "pytriton" / "tritonserver"
        software = cls(
            binary=server / "bin" / "tritonserver",
            backends=server / "backends",
            stub=server / "python_backend_stubs" / minor / "triton_python_backend_stub",
            libraries=(packages / "nvidia_pytriton.libs", *([Path(stamp.libpython)] if stamp.libpython else [])),
            bin=environment / "bin",
        )
        for path in (software.binary, software.backends, software.stub, *software.libraries):
            if not path.exists():
                raise ServingError(f'"{path}" is missing: rm -r "{environment}" and ./ladder setup')
        return software


def build(software: ServerSoftware, layout: Layout) -> Path:
    """Makes or mends the folder and returns it. What is right is left alone: servers may be running from it."""
    python = software.backends / "python"
    for source in (python / "libtriton_python.so", python / "triton_python_backend_utils.py", software.stub):
        _copy(source, layout.backends / "python" / source.name)
    _link(layout.home / "tools" / "backends" / "vllm" / "model.py", layout.backends / "vllm" / "model.py")
    return layout.backends


def _copy(source: Path, copy: Path) -> None:
    if copy.is_file() and not copy.is_symlink() and filecmp.cmp(source, copy):
        return
    draft = _draft(copy)
    try:
        shutil.copy2(source, draft)
        draft.replace(copy)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _link(target: Path, link: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    draft = _draft(link)
    draft.symlink_to(target)
    draft.replace(link)


def _draft(path: Path) -> Path:
    """A name of this thread's own: a fleet starts its servers side by side."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}")
    draft.unlink(missing_ok=True)
    return draft
