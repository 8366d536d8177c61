"""Walks a release: loads and checks the new version, gives it its shares, watches it, goes on or goes back.

Before anything is done, the progress that says so is written by rename. So a controller that is killed at any point
is followed by one that finds out what was under way, sees to it that it is done, and goes on. Only the route's weights
are ever changed: no request is touched, and the stable target is not either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from . import moves
from .background import Background
from .errors import ReleaseError
from .folder import ReleaseFolder
from .golden import Comparison, problem_of
from .judgement import Judgement, Verdict, judge, looks_at
from .ledger import RouteWeights, carry_out
from .observation import Counts, Observation, window
from .plan import Golden
from .progress import Progress, Stage
from .weights import Weights, same, text_of

POLL_S: Final = 0.5
# The router looks at the release file twice a second and reports four times a second.
TAKEN_OVER_S: Final = 2.0


class Traffic(Protocol):
    """What the router counts."""

    def observe(self) -> Observation | None:
        """A look at the release's route; None while the server does not answer."""
        ...


class Candidate(Protocol):
    """The new version, before it gets requests. Both calls take long, and raise ReleaseError."""

    def prepare(self, target: str, tell: Callable[[str], None]) -> None:
        """Load the target if it is not, and warm it up."""
        ...

    def compare(self, target: str, stable: str, golden: Golden) -> Comparison:
        """Ask both the golden prompts."""
        ...


class Task(Protocol):
    """Something under way."""

    @property
    def done(self) -> bool: ...

    def result(self) -> Any:
        """What came of it; raises what it raised."""


@dataclass(frozen=True)
class Standing:
    """What there is to show. `note` says what it waits for; `judgement` is the latest of this step."""

    progress: Progress
    observation: Observation | None
    judgement: Judgement | None
    note: str


class Controller:
    """One release, by the one process that holds the folder's lock."""

    def __init__(
        self,
        progress: Progress,
        folder: ReleaseFolder,
        *,
        weights: RouteWeights,
        traffic: Traffic,
        candidate: Candidate,
        show: Callable[[Standing], None],
        option: str = "",
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        background: Callable[[Callable[[], Any]], Task] = Background,
    ) -> None:
        self.progress = progress
        self._folder = folder
        self._weights = weights
        self._traffic = traffic
        self._candidate = candidate
        self._show = show
        # See `Steered.option`.
        self._option = option
        self._now = now
        self._sleep = sleep
        self._background = background
        self._task: Task | None = None
        self._judgement: Judgement | None = None
        self._observation: Observation | None = None
        self._note = ""

    def run(self) -> Progress:
        """Walk to an end.

        Raises ReleaseError when somebody else changed the weights meanwhile, and ReleaseFileError when they cannot be
        read or written; the release then stays where it is.
        """
        self._folder.take_order_away()
        self._folder.save(self.progress)
        carry_out(self.progress.event, self._weights, self._folder)
        while not self.progress.over:
            self._turn()
            self._show(Standing(self.progress, self._observation, self._judgement, self._note))
            if not self.progress.over:
                self._sleep(POLL_S)
        return self.progress

    def _turn(self) -> None:
        order = self._folder.order()
        if order is not None:
            if order.id != self.progress.order:
                self._go(moves.obeyed(self.progress, order, self._now()))
            self._folder.take_order_away()
            return
        self._refuse_other_hands()
        match self.progress.stage:
            case Stage.LOADING:
                self._load()
            case Stage.CHECKING:
                self._check()
            case _:
                self._watch()

    def _go(self, progress: Progress) -> None:
        """Write down what is to be, then see to it."""
        if progress.stage is not self.progress.stage or progress.step != self.progress.step:
            self._task = self._judgement = None
            self._note = ""
        self._folder.save(progress)
        self.progress = progress
        carry_out(progress.event, self._weights, self._folder)

    def _refuse_other_hands(self) -> None:
        found, expected = self._weights.read(), self.progress.event.after
        if not same(found, expected):
            raise ReleaseError(
                f'the weights of route "{self.progress.route}" are {text_of(found)}, and this release has set '
                f"{text_of(expected)}: somebody else changed them, so they are left alone. ./ladder release "
                f"abort{self._option} goes back to {text_of(self.progress.before)}"
            )

    # Before the first request

    def _load(self) -> None:
        if self._task is None:
            target = self.progress.target
            self._task = self._background(lambda: self._candidate.prepare(target, self._tell))
        if not self._task.done:
            return
        try:
            self._task.result()
        except ReleaseError as error:
            self._go(moves.aborted(self.progress, self._now(), why=str(error)))
        else:
            self._go(moves.checking(self.progress, self._now()))

    def _check(self) -> None:
        if self.progress.plan.golden is None:
            self._pass("loaded; the plan has no golden prompts")
            return
        found, problem = self._golden(self.progress.plan.golden, "asking both versions the golden prompts")
        if problem:
            self._go(moves.aborted(self.progress, self._now(), why=problem))
        elif found is not None:
            self._pass(str(found))

    def _pass(self, why: str) -> None:
        if not self.progress.paused:
            self._go(moves.past_checks(self.progress, self._now(), why))

    def _golden(self, golden: Golden, note: str) -> tuple[Comparison | None, str]:
        """The comparison once it is there, and what is wrong with it."""
        if self._task is None:
            target, stable = self.progress.target, self.progress.stable
            self._task = self._background(lambda: self._candidate.compare(target, stable, golden))
        if not self._task.done:
            self._note = note
            return None, ""
        try:
            found: Comparison = self._task.result()
        except ReleaseError as error:
            return None, str(error)
        return found, problem_of(golden, found)

    def _tell(self, note: str) -> None:
        self._note = note

    # While requests come

    def _watch(self) -> None:
        look = self._traffic.observe()
        if look is None:
            self._note = "the server does not answer; the weights stay as they are"
            self._lose_patience()
            return
        self._observation = look
        if self.progress.window is None:
            self._begin_window(look)
            return
        try:
            canary, stable = (
                window(look, self.progress.window, name) for name in (self.progress.target, self.progress.stable)
            )
        except ValueError:
            # Of several servers it may be the canary's, and a controller that was away has not seen it go.
            if self.progress.has_weight and _restarts(look, self.progress.window, self.progress.target):
                why = f'the engine of "{self.progress.target}" died'
                self._go(moves.aborted(self.progress, self._now(), why=why))
            else:
                self._begin_again(look, "the server was started again")
            return
        if self.progress.has_weight and (death := self._death(look, canary)):
            self._go(moves.aborted(self.progress, self._now(), why=death))
        elif _restarts(look, self.progress.window, self.progress.stable):
            self._begin_again(look, f'the engine of "{self.progress.stable}" was started again')
        elif self.progress.stage is Stage.BASELINE:
            self._watch_alone(look, stable)
        else:
            self._judge(look, canary, self.progress.baseline if self.progress.share == 100 else stable)

    def _begin_window(self, look: Observation) -> None:
        if self._is_in_force(look):
            self._note_down(window=look, looks=0, closing=False)
            return
        self._note = (
            "the router finds the release file broken: its log says why"
            if look.file_broken
            else f"waiting for the router to take over {text_of(self.progress.event.after)}"
        )
        self._lose_patience()

    def _begin_again(self, look: Observation, why: str) -> None:
        self._note = f"{why}: counting begins again"
        self._judgement = None
        self._note_down(window=look, looks=0, closing=False)

    def _watch_alone(self, look: Observation, stable: Counts) -> None:
        """The stable target has everything, as the new one will at the last step."""
        missing = self.progress.plan.min_requests - stable.ended
        self._note = f'watching "{self.progress.stable}" alone' + _waits_for({self.progress.stable: missing})
        if missing <= 0 and self._is_baked(look) and not self.progress.paused:
            watched = self.progress.model_copy(update={"baseline": stable})
            self._go(moves.stepped(watched, 0, self._now(), why=self.progress.why))
        else:
            self._lose_patience()

    def _death(self, look: Observation, canary: Counts) -> str:
        """Why nothing has to be counted any more; empty while the engine of the target lives."""
        target = self.progress.target
        assert self.progress.window is not None
        if canary.errors.get("engine_died"):
            return f'the engine of "{target}" died: {canary.errors["engine_died"]} requests failed with it'
        if _restarts(look, self.progress.window, target) or look.engines_up.get(target) is False:
            return f'the engine of "{target}" died'
        return ""

    def _judge(self, look: Observation, canary: Counts, stable: Counts | None) -> None:
        plan, baked = self.progress.plan, self._is_baked(look)
        if stable is None:
            stable = Counts()
        enough = min(canary.ended, stable.ended) >= plan.min_requests
        closes = baked and enough and not self.progress.closing
        is_due = closes or canary.ended >= looks_at(self.progress.looks + 1)
        # A controller that follows a killed one has its last look again.
        if is_due or (self._judgement is None and self.progress.looks):
            number = self.progress.looks + is_due
            self._judgement = judge(plan, canary, stable, number, self.progress.baseline)
            self._note_down(looks=number, closing=self.progress.closing or closes)
            if self._judgement.verdict is Verdict.WORSE:
                worse = self._judgement.of(Verdict.WORSE)
                self._go(moves.aborted(self.progress, self._now(), why=worse))
                return
        self._note = self._waiting(canary, stable, baked=baked)
        passed = self._judgement is not None and self._judgement.verdict in (Verdict.FINE, Verdict.ABSENT)
        if not (baked and self.progress.closing and passed):
            self._lose_patience()
        elif not self.progress.paused:
            self._leave_step()

    def _leave_step(self) -> None:
        golden = self.progress.plan.golden
        why = "judged no worse than allowed"
        if golden is not None and golden.scored:
            found, problem = self._golden(golden, "asking the golden prompts again")
            if found is None and problem:
                self._go(moves.paused(self.progress, self._now(), why=problem))
                self._task = None
                return
            if problem:
                self._go(moves.aborted(self.progress, self._now(), why=problem))
                return
            if found is None:
                return
            why = f"{why}; {found}"
        self._go(moves.onward(self.progress, self._now(), why=why))

    def _waiting(self, canary: Counts, stable: Counts, *, baked: bool) -> str:
        progress = self.progress
        if progress.paused:
            return f"paused: {progress.why}"
        if not baked:
            left = progress.plan.bake_s - (self._now() - self._window_began())
            note = f"{left:.0f} s of this step left"
        else:
            note = "the time of this step is over"
        missing = {
            progress.target: progress.plan.min_requests - canary.ended,
            progress.stable: progress.plan.min_requests - stable.ended,
        }
        unsure = self._judgement.of(Verdict.UNSURE) if self._judgement else ""
        return note + _waits_for(missing) + (f"; not sure yet: {unsure}" if unsure else "")

    def _lose_patience(self) -> None:
        progress = self.progress
        if not progress.paused and self._now() - progress.entered > progress.plan.patience_s:
            why = f"{progress.title} could not be left within {progress.plan.patience_s:g} s: {self._note}"
            self._go(moves.paused(progress, self._now(), why=why))

    def _note_down(self, **fields: object) -> None:
        """Write down what was seen; nothing is done about it."""
        self.progress = self.progress.model_copy(update=fields)
        self._folder.save(self.progress)

    def _is_baked(self, look: Observation) -> bool:
        return look.at - self._window_began() >= self.progress.plan.bake_s

    def _window_began(self) -> float:
        return self.progress.window.at if self.progress.window else self._now()

    def _is_in_force(self, look: Observation) -> bool:
        return same(look.weights, self.progress.event.after)


def wait_until_in_force(traffic: Traffic, weights: Weights) -> float | None:
    """Wait until the router divides by these weights: how many seconds, or None when it has not in TAKEN_OVER_S."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) <= TAKEN_OVER_S:
        look = traffic.observe()
        if look is not None and same(look.weights, weights):
            return waited
        time.sleep(POLL_S / 5)
    return None


def _restarts(look: Observation, earlier: Observation, target: str) -> bool:
    return look.restarts.get(target, 0) > earlier.restarts.get(target, 0)


def _waits_for(missing: dict[str, int]) -> str:
    wanted = [f'{count} of "{target}"' for target, count in missing.items() if count > 0]
    return f"; waiting for more requests: {', '.join(wanted)}" if wanted else ""
