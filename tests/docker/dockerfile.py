"""A Dockerfile as a list of instructions: enough of the format to hold it against the repository."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "docker" / "triton.Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"


@dataclass(frozen=True)
class Instruction:
    """One instruction, its continuation lines joined and its comments left out."""

    keyword: str
    value: str

    @property
    def words(self) -> list[str]:
        """The value as a shell would split it, flags such as `--from=x` included."""
        return shlex.split(self.value)

    @property
    def command(self) -> list[str]:
        """The value of an instruction in exec form. Raises ValueError when it is in shell form."""
        return [str(word) for word in json.loads(self.value[self.value.index("[") :])]


def parse(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile, in order."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [Instruction(*line.strip().split(None, 1)) for line in joined.splitlines()]


def instructions(keyword: str) -> list[Instruction]:
    """Those of docker/triton.Dockerfile with this keyword."""
    return [found for found in parse(DOCKERFILE.read_text(encoding="utf-8")) if found.keyword == keyword]


def the_one(keyword: str) -> Instruction:
    """The only instruction with this keyword."""
    [found] = instructions(keyword)
    return found


def build_arguments() -> dict[str, str]:
    """Build arguments with their defaults."""
    return dict(found.value.split("=", 1) for found in instructions("ARG") if "=" in found.value)


def environment() -> dict[str, str]:
    """Variables of the final image."""
    return dict(word.split("=", 1) for found in instructions("ENV") for word in found.words)
