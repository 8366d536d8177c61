"""Why there is no report."""

from __future__ import annotations


class ReportError(RuntimeError):
    """A report cannot be made, read or compared; the text says what is wrong and what to do."""


class IncomparableError(ReportError):
    """Two reports measured different things, so that a difference between them would mean nothing."""
