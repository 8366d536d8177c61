"""Locust's shape: whatever the conductor says."""

from __future__ import annotations

from locust import LoadTestShape, User

from .installed import conductor_of


class LadderShape(LoadTestShape):
    """Users, spawn rate and run time come from Locust's own options."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | tuple[int, float, list[type[User]] | None] | None:
        """See `Conductor.tick`."""
        assert self.runner is not None
        return conductor_of(self.runner.environment).tick()
