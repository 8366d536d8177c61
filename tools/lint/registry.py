"""The rules' registry: each rule is a pure function over plain values, with its name, reason and fix beside it.

A rule yields Problems; the registry turns them into Findings by adding what is the same for every problem of the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tools.lint.findings import Finding, Place, Severity


class Scope(Enum):
    """What a rule is called with, once for each, beside the Workspace."""

    WORKSPACE = "workspace"
    REPOSITORY = "repository"
    MODEL = "model"
    ENGINE = "engine"
    ENSEMBLE = "ensemble"
    MANIFEST = "manifest"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found. `fix` and `severity` replace the rule's own where this case wants another."""

    message: str
    place: Place
    fix: str | None = None
    severity: Severity | None = None


Check = Callable[..., Iterable[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`reason` says in one line why it matters; `fix` what to do about it."""

    id: str
    slug: str
    severity: Severity
    reason: str
    fix: str
    scope: Scope
    check: Check

    def apply(self, *subject: Any) -> Iterator[Finding]:
        for problem in self.check(*subject):
            severity = problem.severity or self.severity
            yield Finding(self.id, self.slug, severity, problem.message, problem.fix or self.fix, problem.place)


_RULES: dict[str, Rule] = {}


def rule(id: str, slug: str, scope: Scope, severity: Severity, *, reason: str, fix: str) -> Callable[[Check], Check]:  # noqa: A002
    """Registers the decorated function as a rule.

    Raises:
        ValueError: the id or the slug is malformed or taken; a mistake in the code, so it surfaces at import.
    """
    if not re.fullmatch(r"TL\d{3}", id) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug):
        raise ValueError(f"rule '{id}' ('{slug}'): ids look like TL101, slugs like directory-name")
    if any(id == known.id or slug == known.slug for known in _RULES.values()):
        raise ValueError(f"rule '{id}' ('{slug}') is registered twice")

    def register(check: Check) -> Check:
        _RULES[id] = Rule(id, slug, severity, reason, fix, scope, check)
        return check

    return register


def all_rules() -> tuple[Rule, ...]:
    """Every registered rule, by id."""
    import tools.lint.rules  # noqa: F401  (importing a rule's module registers it)

    return tuple(sorted(_RULES.values(), key=lambda known: known.id))
