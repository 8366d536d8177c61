"""Where things lie in a checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The folders of one checkout; `home` is the repository's root."""

    home: Path

    @classmethod
    def of_this_checkout(cls) -> Layout:
        return cls(Path(__file__).resolve().parents[2])

    @property
    def private(self) -> Path:
        """Everything the ladder makes for itself: environments, run state, logs. Safe to delete when nothing runs."""
        return self.home / ".ladder"

    @property
    def environments(self) -> Path:
        return self.private / "env"

    @property
    def logs(self) -> Path:
        return self.private / "logs"

    @property
    def runs(self) -> Path:
        """One folder per instance, named after its port base."""
        return self.private / "run"

    @property
    def backends(self) -> Path:
        return self.private / "backends"

    @property
    def locks(self) -> Path:
        return self.home / "tools" / "bootstrap" / "locks"

    @property
    def models(self) -> Path:
        return self.home / "models"

    def environment(self, name: str) -> Path:
        return self.environments / name

    def environment_python(self, name: str) -> Path:
        return self.environment(name) / "bin" / "python"
