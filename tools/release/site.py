"""A server of this checkout whose router divides requests: its release files, its metrics page, its models."""

from __future__ import annotations

import asyncio
import glob
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import httpx
from pydantic import ValidationError

from tools.bootstrap.layout import Layout
from tools.client.address import Endpoint, Protocol, ServerAddress
from tools.client.client import Client
from tools.client.errors import ClientError
from tools.client.question import Question
from tools.client.request import Target
from tools.client.server_info import ServerInfo
from tools.serving.instance import Instance, InstanceFiles
from tools.serving.loading import Loading
from tools.serving.repository import LoadPlan, RepositoryModel
from tools.spec.base import nearest
from tools.spec.document import problems_of
from tools.spec.release import Release, ReleaseTarget
from tools.wire.launch import ENDPOINT_SUFFIX

from .errors import ReleaseError, ReleaseFileError
from .file import FILE_NAME, read_release, running_file, with_weights, write_release
from .folder import ReleaseFolder
from .golden import Comparison, compare
from .observation import Observation, observation_in
from .plan import Golden
from .weights import Weights, text_of

ROUTER: Final = "chat"

_METRICS_TIMEOUT_S: Final = 2.0
_POLL_S: Final = 0.3
# A stub names its engine's socket as soon as the model is ready, or a moment later.
_ENDPOINT_S: Final = 5.0
_MEANT: Final = "name a model that answers, such as llm_bf16:1"
_ANSWER: Final = "text_output"
_WARM_UP: Final = ("Say hello.", "What is the capital of France?", "Name three colours.", "Count to five.")


@dataclass(frozen=True)
class Site:
    """What a release needs of an instance."""

    instance: Instance
    running: Path
    start: Path

    @classmethod
    def at(cls, port_base: int, layout: Layout) -> Self:
        """The site of the server at a port base. Raises ReleaseError when none runs there, or none with a router."""
        files = InstanceFiles.at(port_base, layout)
        instance = Instance.read(files) if files.supervised() else None
        if instance is None:
            raise ReleaseError(
                f"no server of this checkout runs at port base {port_base}: ./ladder up starts one, ./ladder status "
                "lists them"
            )
        found = [start for folder in instance.repositories if (start := Path(folder) / ROUTER / FILE_NAME).is_file()]
        if not found:
            raise ReleaseError(
                f'the server at port base {port_base} ({instance.title}) has no "{ROUTER}/{FILE_NAME}" in its '
                "repositories, so it has no release router: ./ladder render writes one from a profile"
            )
        return cls(instance, running_file(layout, port_base, instance.profile, instance.repositories), found[0])

    @property
    def folder(self) -> ReleaseFolder:
        return ReleaseFolder(self.running.parent)

    @property
    def endpoint(self) -> Endpoint:
        return ServerAddress.from_port_base(self.instance.port_base).endpoint(Protocol.GRPC)

    def release(self) -> Release:
        """The release in force. Raises ReleaseFileError."""
        return read_release(self.running if self.running.exists() else self.start)

    @property
    def option(self) -> str:
        """See `Steered.option`."""
        return ""

    @property
    def divider(self) -> str:
        """See `Steered.divider`."""
        return "router"

    @property
    def routes(self) -> list[str]:
        """See `Steered.routes`."""
        return [route.name for route in self.release().routes]

    def weights(self, route: str) -> FileWeights:
        """See `Steered.weights`."""
        return FileWeights(self, route)

    def traffic(self, route: str) -> MetricsPage:
        """See `Steered.traffic`."""
        return MetricsPage(self, route)

    @property
    def candidate(self) -> ServedCandidate:
        """See `Steered.candidate`."""
        return ServedCandidate(self)

    def check(self, route: str, weights: Weights) -> None:
        """See `Steered.check`."""
        try:
            with_weights(self.release(), route, weights)
        except ValidationError as error:
            raise ReleaseError(problems_of(error)) from None

    def target_name(self, text: str) -> str:
        """See `Steered.target_name`: a model with its version, MODEL:VERSION."""
        try:
            target = Target.parse(text)
            if target.version is None:
                raise ReleaseError(f'"{text}" names no version: write {text}:1, say; a release always names one')
            name = ReleaseTarget(model=target.model, version=target.version).name
        except ValidationError as error:
            raise ReleaseError(f'"{text}": {error.errors()[0]["msg"]}') from None
        except ValueError as error:
            raise ReleaseError(str(error)) from None
        if target.model == ROUTER:
            raise ReleaseError(f'"{name}" is the router itself, which cannot send requests to itself: {_MEANT}')
        return name

    def route_name(self, name: str | None) -> str:
        """See `Steered.route_name`."""
        release = self.release()
        if name is None:
            return release.routes[-1].name
        try:
            return release.route(name).name
        except KeyError as error:
            raise ReleaseError(error.args[0]) from None


class FileWeights:
    """A route's weights in the release file, which is parsed again only when it is another one."""

    def __init__(self, site: Site, route: str) -> None:
        self._site = site
        self._route = route
        self._seen: tuple[Path, int, int] | None = None
        self._weights: dict[str, float] = {}

    def read(self) -> dict[str, float]:
        """See `RouteWeights.read`. Raises ReleaseError when somebody has taken the route away."""
        seen = self._signature()
        if seen is None or seen != self._seen:
            self._weights = self._parsed()
            self._seen = seen
        return dict(self._weights)

    def _signature(self) -> tuple[Path, int, int] | None:
        for path in (self._site.running, self._site.start):
            try:
                found = path.stat()
            except OSError:
                # Reading it says what is the matter, if the other one is missing too.
                continue
            return path, found.st_ino, found.st_mtime_ns
        return None

    def _parsed(self) -> dict[str, float]:
        try:
            route = self._site.release().route(self._route)
        except KeyError as error:
            raise ReleaseError(f"{error.args[0]} in the release file: put the route back, or abort") from None
        return {target.name: target.weight for target in route.targets}

    def write(self, weights: Weights) -> None:
        """See `RouteWeights.write`."""
        try:
            release = with_weights(self._site.release(), self._route, weights)
        except KeyError as error:
            raise ReleaseFileError(f"{error.args[0]} in the release file: put the route back") from None
        except ValidationError as error:
            raise ReleaseFileError(f"the release file cannot have {text_of(weights)}: {problems_of(error)}") from None
        write_release(self._site.running, release)


class MetricsPage:
    """The router's counters of a route."""

    def __init__(self, site: Site, route: str) -> None:
        port = ServerAddress.from_port_base(site.instance.port_base).metrics_port
        self._client = httpx.Client(timeout=_METRICS_TIMEOUT_S, trust_env=False)
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._route = route

    def observe(self) -> Observation | None:
        """See `Traffic.observe`."""
        at = time.time()
        try:
            page = self._client.get(self._url)
            page.raise_for_status()
        except httpx.HTTPError:
            return None
        return observation_in(page.text, self._route, at)


class ServedCandidate:
    """Versions of models on the server."""

    def __init__(self, site: Site) -> None:
        self._endpoint = site.endpoint
        self._sockets = Path(site.instance.sockets)

    def prepare(self, target: str, tell: Callable[[str], None]) -> None:
        """See `Candidate.prepare`. Through gRPC: the HTTP load call would freeze every running HTTP stream."""
        wanted = Target.parse(target)
        try:
            with ServerInfo.at(self._endpoint) as info:
                if not info.is_model_ready(Target(ROUTER)):
                    raise ReleaseError(f'the router "{ROUTER}" is not ready: ./ladder status says why')
                if not info.is_model_ready(wanted):
                    _require_known(info, wanted)
                    tell(f'loading "{wanted.model}"')
                    self._load(wanted)
                    info.explain(wanted)
                _require_answers(info, wanted)
            self._require_engine(wanted)
            tell(f'warming "{target}" up')
            with Client(self._endpoint) as client:
                for text in _WARM_UP:
                    client.complete(wanted, Question(text).warm_up())
        except ClientError as error:
            raise ReleaseError(f'"{target}" cannot be released: {error}') from error

    def compare(self, target: str, stable: str, golden: Golden) -> Comparison:
        """See `Candidate.compare`."""
        try:
            return asyncio.run(compare(self._endpoint, Target.parse(target), Target.parse(stable), golden))
        except ClientError as error:
            raise ReleaseError(f"the golden prompts could not be asked: {error}") from error

    def require_ready(self, target: str) -> None:
        """Raises ReleaseError unless the target could answer now."""
        wanted = Target.parse(target)
        try:
            with ServerInfo.at(self._endpoint) as info:
                info.explain(wanted)
                _require_answers(info, wanted)
        except ClientError as error:
            raise ReleaseError(f"{error}: ./ladder release start {target} loads and checks it first") from error
        self._require_engine(wanted)

    def _load(self, target: Target) -> None:
        with Loading(LoadPlan((RepositoryModel(target.model),)), self._endpoint) as loading:
            while not loading.done:
                time.sleep(_POLL_S)
            error = loading.error(target.model)
        if "load / unload is not allowed" in error:
            raise ReleaseError(
                f'the server may not load "{target.model}": it runs without --model-control-mode=explicit, which '
                "./ladder up sets. Start it so, or load the version your way first: one that is ready is not loaded"
            )
        if error:
            raise ReleaseError(f'"{target.model}" does not load: {error}')

    def _require_engine(self, target: Target) -> None:
        deadline = time.monotonic() + _ENDPOINT_S
        pattern = f"{glob.escape(target.model)}-{target.version}-*{ENDPOINT_SUFFIX}"
        while not any(self._sockets.glob(pattern)):
            if time.monotonic() >= deadline:
                raise ReleaseError(
                    f'"{target}" has no engine of its own that the router could send requests to: an ensemble has '
                    "none, name the model behind it"
                )
            time.sleep(_POLL_S)


def _require_answers(info: ServerInfo, target: Target) -> None:
    """A tokenizer has an engine of its own too, which answers nothing."""
    if _ANSWER not in info.contract(target).outputs:
        raise ReleaseError(f'"{target}" has no output "{_ANSWER}", so it answers no requests: {_MEANT}')


def _require_known(info: ServerInfo, target: Target) -> None:
    names = sorted({state.name for state in info.models()})
    if target.model not in names:
        guess = nearest(target.model, names)
        hint = f'did you mean "{guess}"?' if guess else f"there are {', '.join(names)}"
        raise ReleaseError(f'the repositories hold no model "{target.model}": {hint}')
