"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# A slow machine is no reason to fail.
settings.register_profile("ladder", deadline=None)
settings.load_profile("ladder")
