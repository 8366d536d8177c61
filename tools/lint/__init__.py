"""Lint for Triton model repositories: what the server or the engine would refuse, silently ignore or get wrong."""

from tools.lint.findings import Finding, LintInputError, LintReport, Place, Severity
from tools.lint.linter import lint_repositories

__all__ = ["Finding", "LintInputError", "LintReport", "Place", "Severity", "lint_repositories"]
