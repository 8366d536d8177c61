"""A fleet as a release steers it: targets are tracks, weights are the proxy's, traffic is what the servers count."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import httpx

from tools.bootstrap.layout import Layout
from tools.client.address import Endpoint, Protocol
from tools.client.client import Client
from tools.client.errors import ClientError
from tools.client.question import Question
from tools.client.request import Target
from tools.client.server_info import ServerInfo
from tools.release.errors import ReleaseError, ReleaseFileError
from tools.release.folder import ReleaseFolder
from tools.release.golden import Comparison, compare
from tools.release.observation import Observation
from tools.release.plan import Golden
from tools.release.weights import Weights
from tools.rendering.plan import ROUTER

from .errors import FleetError
from .files import FleetFiles, FleetState, known_fleets
from .observation import ServerLook, Tally, fleet_observation, server_look
from .plan import CANARY, STABLE, FleetPlan, Member
from .weights import read_weights, weights_in_force, write_weights

ROUTE: Final = "fleet"
_METRICS_S: Final = 2.0
# A busy machine may miss one look at a server that lives.
_LOOKS_MISSED: Final = 3
_WARM_UP: Final = ("Say hello.", "What is the capital of France?")


@dataclass(frozen=True)
class FleetSite:
    """See `Steered`. There is one route: the proxy divides everything alike."""

    files: FleetFiles
    plan: FleetPlan

    @classmethod
    def at(cls, port_base: int | None, layout: Layout) -> Self:
        """The fleet at a port base, or the only one. Raises ReleaseError when none runs there."""
        running = [base for base in known_fleets(layout) if FleetFiles.at(base, layout).kept()]
        if port_base is None and len(running) > 1:
            raise ReleaseError(f"several fleets run: give one of {', '.join(map(str, running))} as --port-base")
        base = port_base if port_base is not None else next(iter(running), None)
        if base not in running:
            where = "" if port_base is None else f" at port base {port_base}"
            raise ReleaseError(f"no fleet of this checkout runs{where}: ./ladder fleet up --canary 1 starts one")
        files = FleetFiles.at(base, layout)
        return cls(files, _state(files).plan)

    @property
    def option(self) -> str:
        return " --fleet"

    @property
    def divider(self) -> str:
        return "proxy"

    @property
    def folder(self) -> ReleaseFolder:
        return ReleaseFolder(self.files.release)

    @property
    def routes(self) -> list[str]:
        return [ROUTE]

    def route_name(self, name: str | None) -> str:
        if name not in (None, ROUTE):
            raise ReleaseError(f'no route "{name}": a fleet has one, "{ROUTE}", and --route can be left out')
        return ROUTE

    def target_name(self, text: str) -> str:
        if text not in (STABLE, CANARY):
            raise ReleaseError(f'no track "{text}": a fleet has "{STABLE}" and "{CANARY}"')
        if text not in self.plan.tracks:
            raise ReleaseError("this fleet has no canary servers: ./ladder fleet up --canary 1 starts one with")
        return text

    def weights(self, route: str) -> FleetWeights:
        return FleetWeights(self.files)

    def traffic(self, route: str) -> FleetTraffic:
        return FleetTraffic(self.files)

    @property
    def candidate(self) -> FleetCandidate:
        return FleetCandidate(self.plan)

    def check(self, route: str, weights: Weights) -> None:
        for name in weights:
            self.target_name(name)


class FleetWeights:
    """See `RouteWeights`. Where the file was removed, what the proxy still divides by."""

    def __init__(self, files: FleetFiles) -> None:
        self._files = files
        self._file = files.weights

    def read(self) -> dict[str, float]:
        if not self._file.exists() and (found := weights_in_force(_state(self._files).admin)):
            return found
        try:
            return read_weights(self._file)
        except FleetError as error:
            raise ReleaseFileError(str(error)) from None

    def write(self, weights: Weights) -> None:
        try:
            write_weights(self._file, weights)
        except FleetError as error:
            raise ReleaseFileError(str(error)) from None


class FleetTraffic:
    """See `Traffic`. What the routers of the servers count, by track, and the weights that the proxy divides by."""

    def __init__(self, files: FleetFiles) -> None:
        self._files = files
        self._client = httpx.Client(timeout=_METRICS_S, trust_env=False)
        self._tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self._missed = 0

    def observe(self) -> Observation | None:
        """See `Traffic.observe`. Also None while a stable server is down: until it is back nothing can be compared.

        Raises ReleaseError for servers that cannot be compared.
        """
        state = _state(self._files)
        weights = weights_in_force(state.admin)
        if weights is None:
            return None
        servers = {server.name: server for server in state.servers}
        looks: dict[str, list[ServerLook]] = {track: [] for track in state.plan.tracks}
        silent, down = set(), set()
        for member in state.plan.members:
            look, answers = self._look(member, servers[member.name].starts)
            looks[member.track].append(look)
            if servers[member.name].phase != "ready":
                down.add(member.track)
            elif not answers:
                silent.add(member.track)
        self._missed = self._missed + 1 if silent else 0
        if self._missed >= _LOOKS_MISSED:
            down |= silent
        if STABLE in silent | down or silent - down:
            return None
        try:
            return fleet_observation(looks, down, weights, time.time())
        except ValueError as error:
            raise ReleaseError(
                f"{error}: they cannot be compared, serve the same version of the ladder on all"
            ) from None

    def _look(self, member: Member, starts: int) -> tuple[ServerLook, bool]:
        """A server, and whether it answers; one that does not has what was counted last."""
        tally = self._tallies[member.name]
        try:
            page = self._client.get(f"http://127.0.0.1:{member.address.metrics_port}/metrics")
            page.raise_for_status()
        except httpx.HTTPError:
            return ServerLook(starts, tally.sum), False
        return tally.add(server_look(page.text, starts)), True


class FleetCandidate:
    """See `CheckedCandidate`: the servers of a track, which are asked for the router behind each of them."""

    def __init__(self, plan: FleetPlan) -> None:
        self._plan = plan

    def prepare(self, target: str, tell: Callable[[str], None]) -> None:
        for member in self._members(target):
            _require_router(member)
            tell(f'warming "{member.name}" up')
            try:
                with Client(_endpoint(member)) as client:
                    for text in _WARM_UP:
                        client.complete(Target(ROUTER), Question(text).warm_up())
            except ClientError as error:
                raise ReleaseError(f'"{member.name}" does not answer: {error}') from error

    def compare(self, target: str, stable: str, golden: Golden) -> Comparison:
        new, old = (self._members(name)[0] for name in (target, stable))
        try:
            return asyncio.run(compare(_endpoint(new), Target(ROUTER), Target(ROUTER), golden, _endpoint(old)))
        except ClientError as error:
            raise ReleaseError(f"the golden prompts could not be asked: {error}") from error

    def require_ready(self, target: str) -> None:
        for member in self._members(target):
            _require_router(member)

    def _members(self, target: str) -> list[Member]:
        return [member for member in self._plan.members if member.track == target]


def _state(files: FleetFiles) -> FleetState:
    try:
        state = FleetState.read(files)
    except FleetError as error:
        raise ReleaseError(str(error)) from None
    if state is None:
        raise ReleaseError("the fleet was stopped meanwhile: ./ladder fleet up starts it, and the release goes on")
    return state


def _endpoint(member: Member) -> Endpoint:
    return member.address.endpoint(Protocol.GRPC)


def _require_router(member: Member) -> None:
    """What is judged is what the router counts."""
    try:
        with ServerInfo.at(_endpoint(member)) as info:
            info.explain(Target(ROUTER))
    except ClientError as error:
        raise ReleaseError(f'"{member.name}" is not ready to be released: {error}') from error
