"""The models of a plan as a person wants to see them: the server's states, and ours for what it says nothing about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tools.serving.repository import LoadPlan
from tools.serving.status import ModelStatus

WAITING = "WAITING"
FAILED = "FAILED"
READY = "READY"


class Loads(Protocol):
    """What is known of loads in progress."""

    def error(self, model: str) -> str:
        """Why a model did not load; empty while that is not known, and for one that did."""


def states_of(plan: LoadPlan, loading: Loads, listed: Sequence[ModelStatus]) -> list[ModelStatus]:
    """One entry for each version the server lists, and one for each planned model it lists no version of."""
    states = []
    for model in plan.models:
        versions = [entry for entry in listed if entry.name == model.name and entry.version is not None]
        if versions:
            states += versions
        elif error := loading.error(model.name):
            states.append(ModelStatus(name=model.name, version=None, state=FAILED, reason=error))
        else:
            # An ensemble waits for its steps; the others wait for one of the server's loading threads.
            waits_for = f"for {', '.join(model.steps)}" if model.steps else ""
            states.append(ModelStatus(name=model.name, version=None, state=WAITING, reason=waits_for))
    return states
