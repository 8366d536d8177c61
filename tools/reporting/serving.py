"""The rungs as a report finds them served: all by the server that runs, or each by one of its own."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from loadtest.options import Protocol as LoadProtocol
from tools.benchmark.deployment import serving as serving_one
from tools.benchmark.errors import BenchmarkError
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol, ServerAddress
from tools.client.client import Client
from tools.client.errors import ClientError
from tools.client.request import GenerateRequest, Target
from tools.client.server_info import ServerInfo
from tools.lint.linter import lint_repositories
from tools.rendering.files import render
from tools.rendering.plan import MODEL_REPOSITORY, REPOSITORIES
from tools.reporting.errors import ReportError
from tools.reporting.rungs import RungFacts
from tools.reporting.server_metrics import EngineMetrics, engine_metrics_at
from tools.serving.errors import ServingError
from tools.spec.profile import Profile

_WARM_UP_TOKENS: Final = 4
_WARM_UP_S: Final = 120.0
_PROMPT: Final = "Name the planets, from the sun outwards."


class Triton:
    """One model version on one server."""

    def __init__(self, address: ServerAddress, target: Target, protocol: LoadProtocol) -> None:
        self._address = address
        self._target = target
        self._endpoint = address.endpoint(Protocol.GRPC if protocol is LoadProtocol.GRPC else Protocol.HTTP)
        self.host = self._endpoint.url

    def warm_up(self) -> None:
        sampling = {"temperature": 0.0, "max_tokens": _WARM_UP_TOKENS}
        try:
            with Client(self._endpoint) as client:
                client.complete(self._target, GenerateRequest(prompt=_PROMPT, sampling=sampling, deadline_s=_WARM_UP_S))
        except ClientError as error:
            raise ReportError(f"the warm-up request failed: {error}") from None

    def metrics(self) -> EngineMetrics:
        return engine_metrics_at(f"http://{self._address.host}:{self._address.metrics_port}/metrics", self._target)


class RunningServer:
    """One server that holds all rungs."""

    def __init__(self, address: ServerAddress, protocol: LoadProtocol) -> None:
        self._address = address
        self._protocol = protocol

    @contextlib.contextmanager
    def __call__(self, target: Target) -> Iterator[Triton]:
        yield Triton(self._address, target, self._protocol)

    def require(self, rungs: Sequence[RungFacts]) -> str:
        """The server's version, if it holds all of them. Raises ReportError naming what is not ready."""
        try:
            with ServerInfo.at(self._address.endpoint(Protocol.GRPC)) as server:
                ready, version = server.ready_targets(), server.metadata().version
        except ClientError as error:
            raise ReportError(f"{error}\nOr give every rung a server of its own: --isolate") from None
        missing = [rung for rung in rungs if rung.parsed_target not in ready]
        if missing:
            names = ", ".join(f"{rung.label} ({rung.target})" for rung in missing)
            served = ",".join(rung.label for rung in rungs if rung not in missing)
            instead = f"--rungs {served} leaves them out" if served else "./ladder status shows what it has"
            raise ReportError(f"not ready on the server: {names}: serve them with ./ladder up; {instead}")
        return version


class IsolatedServers:
    """A server for each rung that holds nothing else; it is stopped however its turn ends."""

    def __init__(
        self,
        profile: Profile,
        protocol: LoadProtocol,
        layout: Layout,
        say: Callable[[str], None],
        port_base: int | None = None,
    ) -> None:
        """Without `port_base` each takes the first free ports."""
        self._profile = profile
        self._protocol = protocol
        self._layout = layout
        self._say = say
        self._port_base = port_base

    @contextlib.contextmanager
    def __call__(self, target: Target) -> Iterator[Triton]:
        repository = self._rendered(target)
        with contextlib.ExitStack() as stack:
            try:
                server = stack.enter_context(
                    serving_one(repository, [target.model], self._port_base, self._layout, self._say)
                )
            except (ServingError, BenchmarkError) as error:
                raise ReportError(f'no server for "{target}": {error}') from None
            yield Triton(server.address, target, self._protocol)

    def _rendered(self, target: Target) -> Path:
        """A repository with this version alone."""
        root = self._layout.private / "report" / f"{target.model}-{target.version}"
        shutil.rmtree(root, ignore_errors=True)
        render(alone(self._profile, target), root)
        # Each by itself: together the rungs may claim more memory than there is.
        if lint_repositories([root / repository for repository in REPOSITORIES]).failed:
            raise ReportError(f'the repositories of "{target}" have errors: ./ladder lint {_relative(root)} shows them')
        return root / MODEL_REPOSITORY


def _relative(root: Path) -> str:
    return " ".join(str(root / repository) for repository in REPOSITORIES)


def alone(profile: Profile, target: Target) -> Profile:
    """The profile with nothing enabled but one version of one variant."""
    variant = profile.variants[target.model].model_copy(update={"load_versions": (target.version,)})
    return profile.model_copy(update={"variants": {target.model: variant}})
