"""What can go wrong with a release."""

from __future__ import annotations


class ReleaseFileError(ValueError):
    """A release file cannot be read, accepted or written; the text says where and what to do."""


class ReleaseError(RuntimeError):
    """A release cannot be started, steered or read; the text says what to do."""
