"""What a load test's exit code says."""

from typing import Final

KEPT: Final = 0
MISSED: Final = 1
"""The SLA; without one, a request failed."""
COULD_NOT_RUN: Final = 2
"""Or only a part of what was asked for."""
