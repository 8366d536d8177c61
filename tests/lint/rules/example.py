"""How a rule's examples are written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.lint.trees import Tree
from tools.lint.findings import Severity


@dataclass(frozen=True)
class Example:
    """A tree that breaks one rule and one that keeps it.

    `says` is part of the finding's message, `line` its line. `beside` names rules that the failing tree breaks as well,
    `noted` rules that the passing tree breaks: neither tree may break any other.
    """

    rule: str
    says: str
    fails: Tree
    passes: Tree
    line: int | None = None
    beside: frozenset[str] = frozenset()
    noted: frozenset[str] = frozenset()
    fix: str = ""
    paths: Sequence[str] = field(default=("repo",))
    vllm_installed: bool = True
    gpus: int | None = None
    severity: Severity | None = None
    """Where it differs from the rule's own."""
