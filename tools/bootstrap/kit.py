"""An offline kit: both environments as they are unpacked on a machine that reaches no package index.

    KIT/kit.json                    what is in it, and the SHA-256 of each piece
    KIT/piece.00, piece.01, ...     one tar.xz, cut so that each fits through a narrow transfer:
        engine/...                  site-packages of the engine environment
        server/...                  site-packages of the server environment

What the engine environment does not hold (torch, transformers, numpy) is the machine's own: that of the interpreter
that runs this.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import site
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.bootstrap import interpreters
from tools.bootstrap.environments import ENGINE, ENVIRONMENTS, SERVER, Environment, Stamp, remove, require_disk
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.interpreters import Interpreter
from tools.bootstrap.layout import Layout
from tools.bootstrap.processes import CommandFailedError, Runner

MANIFEST: Final = "kit.json"
FORMAT: Final = 1
# Beside these the engine environment of a kit needs nothing of the machine.
FROM_THE_MACHINE: Final = ("torch", "transformers", "numpy")
_BLOCK: Final = 1 << 20


@dataclass(frozen=True)
class Kit:
    """A kit's manifest. `python` is "3.12", `pieces` maps names to SHA-256, in the order in which they are one file."""

    folder: Path
    python: str
    accelerator: str
    first_imports: tuple[str, ...]
    pieces: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Kit:
        """Raises BootstrapError for a folder that holds no kit, or one of another version of this project."""
        file = folder / MANIFEST
        try:
            fields = json.loads(file.read_text(encoding="utf-8"))
            if fields["format"] != FORMAT:
                raise BootstrapError(f'"{file}" has format {fields["format"]}, not {FORMAT}: build the kit again')
            return cls(
                folder, fields["python"], fields["accelerator"], tuple(fields["first_imports"]), dict(fields["pieces"])
            )
        except FileNotFoundError:
            raise BootstrapError(
                f'"{folder}" holds no {MANIFEST}: give the folder that ./ladder kit build wrote, with all its pieces'
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BootstrapError(f'"{file}" cannot be read ({error}): bring it over once more') from None

    def write(self) -> None:
        text = json.dumps(
            {
                "format": FORMAT,
                "python": self.python,
                "accelerator": self.accelerator,
                "first_imports": self.first_imports,
                "pieces": self.pieces,
            },
            indent=2,
        )
        draft = self.folder / f".{MANIFEST}"
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(self.folder / MANIFEST)

    def check(self) -> None:
        """Raises BootstrapError naming a piece that is missing, or not what was built."""
        for name, expected in self.pieces.items():
            piece = self.folder / name
            if not piece.is_file():
                raise BootstrapError(
                    f'"{piece}" is missing: bring all {len(self.pieces)} pieces of the kit over, '
                    f"{next(iter(self.pieces))} to {list(self.pieces)[-1]}"
                )
            if sha256(piece) != expected:
                raise BootstrapError(f'"{piece}" is damaged (another SHA-256 than in {MANIFEST}): bring it over again')


def install(kit: Kit, layout: Layout, report: Callable[[str], None]) -> None:
    """Builds both environments from a kit; `report` gets the phases. Raises BootstrapError.

    They stay what they are, whatever the lock files say: no index could bring them up to date here.
    """
    engine = interpreters.for_engine()
    if engine.minor != kit.python:
        raise BootstrapError(
            f'the kit in "{kit.folder}" is for Python {kit.python}, and "{engine.executable}" is {engine.minor}: '
            f"set LADDER_PYTHON to a Python {kit.python}, or build a kit with --python {engine.minor}"
        )
    server = interpreters.for_server([engine.executable, *interpreters.candidates()])
    if server.minor != kit.python:
        raise BootstrapError(
            f"no Python {kit.python} here has a shared libpython{kit.python}.so.1.0, which Triton's Python backend "
            "loads: Debian, Ubuntu: apt install libpython3-dev"
        )
    report("checking the pieces")
    kit.check()
    for environment in ENVIRONMENTS:
        require_disk(environment, layout)
    unpacked = layout.environments / ".kit.partial"
    remove(unpacked)
    try:
        report("unpacking")
        _unpack(kit, unpacked)
        for environment, interpreter in ((ENGINE, engine), (SERVER, server)):
            report(f"making the {environment.name} environment")
            _build(environment, interpreter, kit, unpacked, layout)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    report("ready")


def _build(environment: Environment, interpreter: Interpreter, kit: Kit, unpacked: Path, layout: Layout) -> None:
    target = layout.environment(environment.name)
    log = layout.logs / f"install-{environment.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f'{environment.name} from "{kit.folder}"\n', encoding="utf-8")
    remove(target)
    runner, python = Runner(), layout.environment_python(environment.name)
    try:
        runner.run([interpreter.executable, "-I", "-m", "venv", "--without-pip", target], log)
        packages = target / "lib" / f"python{kit.python}" / "site-packages"
        packages.rmdir()
        (unpacked / environment.name).rename(packages)
        if environment is ENGINE:
            # Read last, so that what the kit holds comes first.
            lines = [f"import site; site.addsitedir({folder!r})" for folder in _own_packages()]
            (packages / "zz-machine.pth").write_text("\n".join([*lines, ""]), encoding="utf-8")
        imports = kit.first_imports if environment is ENGINE else environment.first_imports
        runner.run([python, "-I", "-c", f"import {', '.join(imports)}"], log)
    except CommandFailedError as error:
        said = "\n".join(f"  {line}" for line in error.tail)
        needs = f" The machine itself has to have {', '.join(FROM_THE_MACHINE)}." if environment is ENGINE else ""
        raise BootstrapError(
            f"the {environment.name} environment of the kit does not work here.{needs} The last lines:\n{said}\n"
            f'The whole log: "{log}"'
        ) from error
    libpython = None if interpreter.libpython is None else str(interpreter.libpython)
    version = ".".join(map(str, interpreter.version))
    Stamp("", version, libpython, kit=str(kit.folder), accelerator=kit.accelerator).write(environment, layout)


def _own_packages() -> list[str]:
    """Where the interpreter that runs this keeps its packages."""
    return [folder for folder in site.getsitepackages() if Path(folder).is_dir()]


def _unpack(kit: Kit, target: Path) -> None:
    joined = io.BufferedReader(_Joined([kit.folder / name for name in kit.pieces]), _BLOCK)
    try:
        with tarfile.open(fileobj=joined, mode="r|xz") as archive:
            archive.extractall(target, filter="tar")
    except (tarfile.TarError, EOFError) as error:
        raise BootstrapError(f'the kit in "{kit.folder}" cannot be unpacked ({error}): build it again') from error


class _Joined(io.RawIOBase):
    """Files one after the other, as one."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._blocks = _blocks(files)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # typeshed's Buffer is not importable in 3.11
        if not self._left:
            self._left = memoryview(next(self._blocks, b""))
        count = min(len(view), len(self._left))
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def _blocks(files: Sequence[Path]) -> Iterator[bytes]:
    for file in files:
        with file.open("rb") as content:
            while block := content.read(_BLOCK):
                yield block


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
