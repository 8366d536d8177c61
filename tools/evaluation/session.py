"""An evaluation from the command's words to its report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tools.benchmark.machine import Machine
from tools.client.address import Endpoint
from tools.client.async_client import AsyncClient
from tools.client.errors import ClientError
from tools.client.server_info import ServerInfo
from tools.spec.profile import Profile

from .git_state import git_state
from .results import Evaluation, RungResult, Settings
from .run import Evaluator, Progress, Questions
from .targets import Served, Targets
from .verdict import judge


@dataclass(frozen=True)
class Order:
    """What to evaluate: `words` name models or artifacts (none for every rung), `reference` one (None for bf16)."""

    endpoint: Endpoint
    profile: Profile
    words: Sequence[str]
    reference: str | None
    settings: Settings


@dataclass(frozen=True)
class Outcome:
    """`ended_by` is what ended the evaluation early: a KeyboardInterrupt, or the error of a server that has gone."""

    found: Evaluation
    ended_by: BaseException | None


def evaluate(order: Order, home: Path, progress: Progress) -> Outcome:
    """Measure and judge. `home` is the checkout's root.

    Raises EvaluationError for files and names that are wrong, ClientError when the server does not answer at all.
    """
    questions = Questions.read(order.settings)
    with ServerInfo.at(order.endpoint) as server:
        targets = Targets(order.profile, server.ready_targets(), home)
        machine = Machine.here(server.metadata().version)
    reference = targets.default_reference() if order.reference is None else targets.named(order.reference)
    rungs = [reference, *([targets.named(word) for word in order.words] or targets.all_rungs())]
    started_at, started = datetime.now(UTC), time.monotonic()
    results, ended_by = _run(order, list(dict.fromkeys(rungs)), questions, progress)
    found = Evaluation(
        started_at=started_at,
        seconds=time.monotonic() - started,
        complete=ended_by is None and not any(result.broken for result in results),
        machine=machine,
        git=git_state(home),
        profile=order.profile.name,
        server=order.endpoint.url,
        settings=order.settings,
        reference=str(reference),
        rungs=tuple(
            result.model_copy(update={"verdict": judge(result, results[0], order.profile.quality, order.settings)})
            for result in results
        ),
    )
    return Outcome(found, ended_by)


def _run(
    order: Order, rungs: Sequence[Served], questions: Questions, progress: Progress
) -> tuple[list[RungResult], BaseException | None]:
    evaluator = Evaluator(rungs, questions, order.settings, progress)

    async def run() -> None:
        client = AsyncClient(order.endpoint)
        try:
            await evaluator.run(client)
        finally:
            await client.close()

    try:
        asyncio.run(run())
    except (KeyboardInterrupt, ClientError) as ended_by:
        return evaluator.results, ended_by
    return evaluator.results, None
