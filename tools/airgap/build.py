"""Builds an offline kit where a package index is in reach: wheels of another Python, unpacked, in pieces."""

from __future__ import annotations

import hashlib
import io
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.airgap.errors import KitError
from tools.bootstrap.environments import ENGINE, SERVER, lock_file
from tools.bootstrap.kit import Kit
from tools.bootstrap.layout import Layout
from tools.bootstrap.pip import PIN, normalised

ENGINE_LOCK: Final = Path(__file__).with_name("locks") / "engine-cuda.txt"
# They prove that the engine environment works, and leave their bytecode behind.
FIRST_IMPORTS: Final = (
    "vllm.v1.engine.async_llm",
    "vllm.v1.worker.gpu_worker",
    "vllm.model_executor.models.llama",
    "transformers.models.llama.modeling_llama",
    "gguf",
    "httpx",
    "jinja2",
    "gevent",
    "psutil",
    "pydantic",
    "rich",
    "tritonclient.grpc.aio",
    "typer",
    "yaml",
)
# pip matches the number exactly; wheels of these platforms run on glibc 2.39.
_GLIBC_MINORS: Final = (39, 36, 35, 34, 31, 28, 27, 24, 17)
_PLATFORMS: Final = (
    *(f"manylinux_2_{minor}_x86_64" for minor in _GLIBC_MINORS),
    "manylinux2014_x86_64",
    "manylinux_2_5_x86_64",
    "manylinux1_x86_64",
)
# What no engine loads: an import library, test vocabularies, bytecode of another machine.
_NEVER_USED: Final = ("**/__pycache__", "engine/xgrammar/lib/*.a", "engine/mistral_common/data/tekken_*.json")
# Kernels for other models or other GPUs: mixture of experts, multi-head latent attention, everything before Hopper.
_NOT_FOR_DENSE_HOPPER: Final = (
    "engine/vllm/vllm-rs",
    "engine/vllm/_moe_C.abi3.so",
    "engine/vllm/_flashmla*",
    "engine/vllm/third_party/deep_gemm",
    "engine/vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
)
_STUBS: Final = "server/pytriton/tritonserver/python_backend_stubs"
_XZ_PRESET: Final = 2

Report = Callable[[str], None]


@dataclass(frozen=True)
class KitOptions:
    """`left_out` are names of distributions that the machine has itself; `lean` leaves out kernels that a dense model
    on Hopper does not use; a piece has at most `piece_bytes`.
    """

    python: str = "3.12"
    left_out: frozenset[str] = frozenset()
    lean: bool = False
    piece_bytes: int = 1 << 30


def build_kit(out: Path, options: KitOptions, layout: Layout, report: Report) -> Kit:
    """Write a kit into the folder `out`, which is new or empty. Raises KitError; OSError when the disk is full."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise KitError(f'"{out}" is not empty: name a new folder with --out')
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        tree, draft = Path(scratch) / "tree", Path(scratch) / "kit"
        draft.mkdir()
        for name, lock in ((ENGINE.name, ENGINE_LOCK), (SERVER.name, lock_file(SERVER, layout))):
            pins = pins_of(lock, options.left_out if name == ENGINE.name else frozenset())
            report(f"fetching {len(pins)} packages of the {name} environment")
            fetch(pins, tree / name, options.python)
        prune(tree, options)
        report("compressing, a few minutes")
        pieces = pack(tree, draft, options.piece_bytes)
        kit = Kit(draft, options.python, "cuda", FIRST_IMPORTS, pieces)
        kit.write()
        if out.exists():
            out.rmdir()
        draft.rename(out)
    return Kit.read(out)


def pins_of(lock: Path, left_out: Collection[str] = ()) -> list[str]:
    """`name==version` of every line of a lock file but those named in `left_out`."""
    found = [match.group(0) for line in lock.read_text(encoding="utf-8").splitlines() if (match := PIN.match(line))]
    skipped = {normalised(name) for name in left_out}
    return [pin for pin in found if normalised(pin.partition("==")[0]) not in skipped]


def fetch(pins: Collection[str], target: Path, python: str) -> None:
    """Unpack the wheels of another Python into `target`. Raises KitError with pip's last lines."""
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    command = [
        *(sys.executable, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--no-compile", "--only-binary=:all:", "--python-version", python, "--implementation", "cp", *platforms),
        *("--target", str(target), *pins),
    ]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        tail = "\n".join(f"  {line}" for line in done.stderr.splitlines()[-5:])
        raise KitError(f"pip could not fetch the wheels for Python {python} on Linux x86-64:\n{tail}")


def prune(tree: Path, options: KitOptions) -> None:
    """Remove what the machine will not use."""
    for pattern in (*_NEVER_USED, *(_NOT_FOR_DENSE_HOPPER if options.lean else ())):
        for path in list(tree.glob(pattern)):
            _remove(path)
    for stub in (tree / _STUBS).glob("*"):
        if stub.name != options.python:
            _remove(stub)


def pack(tree: Path, out: Path, piece_bytes: int) -> dict[str, str]:
    """Write the tree as one tar.xz in pieces; returns their names with their SHA-256, in order."""
    # lzma takes whatever has these methods, and its types say only BinaryIO.
    writer: Any = _PieceWriter(out, piece_bytes)
    with (
        lzma.LZMAFile(writer, "wb", preset=_XZ_PRESET) as compressed,
        tarfile.open(fileobj=compressed, mode="w|") as archive,
    ):
        for path in _sorted(tree):
            archive.add(path, str(path.relative_to(tree)), recursive=False, filter=_of_nobody)
    writer.close()
    digests: dict[str, str] = writer.digests
    return digests


class _PieceWriter(io.RawIOBase):
    """A file that goes on in the next one when it has its size."""

    def __init__(self, folder: Path, piece_bytes: int) -> None:
        self.digests: dict[str, str] = {}
        self._folder = folder
        self._piece_bytes = piece_bytes
        self._left = 0
        self._file: io.BufferedWriter | None = None
        self._digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # tarfile writes bytes
        view = memoryview(data)
        while view:
            if not self._left:
                self._next()
            assert self._file is not None
            part, view = view[: self._left], view[self._left :]
            self._file.write(part)
            self._digest.update(part)
            self._left -= len(part)
        return len(data)

    def close(self) -> None:
        self._finish()
        super().close()

    def _next(self) -> None:
        self._finish()
        self._file = (self._folder / f"piece.{len(self.digests):02}").open("wb")
        self._digest = hashlib.sha256()
        self._left = self._piece_bytes

    def _finish(self) -> None:
        if self._file is not None:
            self._file.close()
            self.digests[Path(self._file.name).name] = self._digest.hexdigest()
            self._file = None


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _sorted(tree: Path) -> Iterator[Path]:
    """Folders before what is in them, always in the same order."""
    yield from sorted(tree.rglob("*"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
