"""Tiny models are computed with in this process."""

from __future__ import annotations

from tests.fixtures.one_thread import one_thread

__all__ = ["one_thread"]
