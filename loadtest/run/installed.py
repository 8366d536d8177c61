"""What belongs to which of Locust's environments: its users and shapes know nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from locust.env import Environment

if TYPE_CHECKING:
    from .conductor import Conductor
    from .worker import Worker

_WORKERS: WeakKeyDictionary[Environment, Worker] = WeakKeyDictionary()
_CONDUCTORS: WeakKeyDictionary[Environment, Conductor] = WeakKeyDictionary()


def install_worker(environment: Environment, worker: Worker) -> None:
    """The environment's users send for this worker."""
    _WORKERS[environment] = worker


def worker_of(environment: Environment) -> Worker:
    """The worker that the environment's users send for."""
    return _WORKERS[environment]


def install_conductor(environment: Environment, conductor: Conductor) -> None:
    """The environment's shape asks this conductor."""
    _CONDUCTORS[environment] = conductor


def conductor_of(environment: Environment) -> Conductor:
    """The conductor that the environment's shape asks."""
    return _CONDUCTORS[environment]
