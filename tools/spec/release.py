"""Who is answered by which model version: the routes of the router `chat`, in a profile and in a release file alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from .base import PositiveInt, SpecModel, failure, nearest

# Weights and shares are in percent, in steps of a tenth.
TENTHS_OF_ALL: Final = 1000


def tenths(percent: float) -> int:
    """A weight or share as a whole number of 0.1 %."""
    return round(percent * 10)


def _in_tenths(percent: float) -> float:
    if abs(percent * 10 - tenths(percent)) > 1e-6:
        raise failure(f"{percent:g} % is no multiple of 0.1 %: write {tenths(percent) / 10:g}")
    return percent


def _as_list(value: Any) -> Any:
    """One value stands for a list of one."""
    return value if isinstance(value, list | tuple) else [value]


Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False), AfterValidator(_in_tenths)]
ModelName = Annotated[str, Field(min_length=1, pattern=r"^[^\s:]+$")]
# The response says it in a tensor of 32 bits.
Version = Annotated[int, Field(gt=0, lt=2**31)]
RouteName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
ParameterName = Annotated[str, Field(min_length=1)]
Scalar = str | bool | int | float
Values = Annotated[tuple[Scalar, ...], BeforeValidator(_as_list), Field(min_length=1, strict=False)]
Users = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1, strict=False)]


class ReleaseTarget(SpecModel):
    """One version of one model with an engine of its own."""

    model: ModelName
    version: Version

    @property
    def name(self) -> str:
        """MODEL:VERSION, as it is written on the command line."""
        return f"{self.model}:{self.version}"


class WeightedTarget(ReleaseTarget):
    """A target and its share of the route's requests, in percent.

    By load: with `max_in_flight`, no more requests than that are in flight to the target, whatever route they came by;
    the rest goes to the route's fallback.
    """

    weight: Percent
    max_in_flight: PositiveInt | None = None


class Shadow(ReleaseTarget):
    """A target that gets a copy of `share` percent of the route's requests. Its answers are compared and discarded.

    At most `max_in_flight` copies run at once; beyond that none is made, so a slow shadow piles nothing up.
    """

    share: Percent
    max_in_flight: PositiveInt = 16


class TokenCount(SpecModel):
    """Bounds on a prompt's length, both exclusive."""

    over: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    under: PositiveInt | None = None

    @model_validator(mode="after")
    def _bounds_something(self) -> TokenCount:
        if self.over is None and self.under is None:
            raise failure('"prompt_tokens" bounds nothing: give "over", "under" or both')
        if self.over is not None and self.under is not None and self.over + 1 >= self.under:
            raise failure(
                f'no prompt has over {self.over} and under {self.under} tokens: raise "under" or lower "over"'
            )
        return self


class Condition(SpecModel):
    """What a request must be for a route to take it; all that is given has to hold.

    `parameters` are Triton's request parameters, each with a value or a list of which one has to match; values compare
    as text, so 1 matches "1". `headers` are parameters whose names compare without regard to case: tritonserver makes
    them of gRPC metadata whose names begin with "x-ladder-"; over HTTP, where it forwards none to a model that streams,
    they are keys of the body. `user` is the parameter of that name.
    """

    user: Users | None = None
    parameters: dict[ParameterName, Values] = Field(default_factory=dict)
    headers: dict[ParameterName, Values] = Field(default_factory=dict)
    prompt_tokens: TokenCount | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Condition:
        if self.user is None and not self.parameters and not self.headers and self.prompt_tokens is None:
            raise failure('"when" asks nothing: give "user", "parameters", "headers" or "prompt_tokens"')
        if self.user is not None and "user" in self.parameters:
            raise failure('"when" asks for the user twice: leave out "parameters.user"')
        return self


class Route(SpecModel):
    """Requests that `when` holds for, and the targets that answer them. The weights add up to 100 %.

    `sticky` names the request parameter ("user", "session" or any other) whose value is always answered by the same
    target, as long as the weights allow; requests without it, and all without `sticky`, are spread at random.
    `fallback`: where a request goes when its target is not ready or full, in this order, and only before its first
    token; without the key the route's other targets that have a weight, heaviest first; an empty list for nowhere.
    """

    name: RouteName
    when: Condition | None = None
    sticky: ParameterName | None = None
    targets: Annotated[tuple[WeightedTarget, ...], Field(strict=False, min_length=1)]
    fallback: Annotated[tuple[ReleaseTarget, ...], Field(strict=False)] | None = None
    shadow: Shadow | None = None

    @property
    def fallback_targets(self) -> tuple[ReleaseTarget, ...]:
        """The fallback in force."""
        if self.fallback is not None:
            return self.fallback
        return tuple(sorted((target for target in self.targets if target.weight), key=lambda target: -target.weight))

    @model_validator(mode="after")
    def _targets_fit(self) -> Route:
        problems = [*self._weight_problems(), *self._repeats(), *self._bound_problems()]
        if problems:
            raise failure("; ".join(problems))
        return self

    def _weight_problems(self) -> Iterator[str]:
        total = sum(tenths(target.weight) for target in self.targets)
        if total != TENTHS_OF_ALL:
            written = " + ".join(f"{target.weight:g}" for target in self.targets)
            yield f'the weights of route "{self.name}" add up to {total / 10:g} % ({written}): they have to make 100 %'

    def _repeats(self) -> Iterator[str]:
        for key, targets in (("targets", self.targets), ("fallback", self.fallback or ())):
            names = [target.name for target in targets]
            for name in sorted({name for name in names if names.count(name) > 1}):
                yield f'"{key}" of route "{self.name}" holds "{name}" twice: keep one of them'

    def _bound_problems(self) -> Iterator[str]:
        for target in self.targets:
            others = [other for other in self.fallback_targets if other.name != target.name]
            if target.max_in_flight is not None and not others:
                yield (
                    f'route "{self.name}" bounds "{target.name}" to {target.max_in_flight} requests in flight and '
                    'names no target for the rest: add one to "fallback"'
                )


class Release(SpecModel):
    """The routes, in the order in which they are tried: the first whose `when` holds takes the request."""

    routes: Annotated[tuple[Route, ...], Field(strict=False, min_length=1)]

    def route(self, name: str) -> Route:
        """The route of that name. Raises KeyError with a text that names the nearest one."""
        names = [route.name for route in self.routes]
        if name not in names:
            guess = nearest(name, names)
            raise KeyError(
                f'no route "{name}": ' + (f'did you mean "{guess}"?' if guess else f"there is {', '.join(names)}")
            )
        return self.routes[names.index(name)]

    def targets(self) -> dict[str, ReleaseTarget]:
        """Every target that the release names anywhere, by MODEL:VERSION."""
        named: dict[str, ReleaseTarget] = {}
        for route in self.routes:
            shadow = () if route.shadow is None else (route.shadow,)
            for target in (*route.targets, *(route.fallback or ()), *shadow):
                named.setdefault(target.name, target)
        return named

    @model_validator(mode="after")
    def _routes_fit(self) -> Release:
        problems = [*self._name_problems(), *self._order_problems()]
        if problems:
            raise failure("; ".join(problems))
        return self

    def _name_problems(self) -> Iterator[str]:
        names = [route.name for route in self.routes]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f'two routes are called "{name}": metrics and commands tell routes apart by name, rename one'

    def _order_problems(self) -> Iterator[str]:
        *before, last = self.routes
        if last.when is not None:
            yield (
                f'the last route "{last.name}" has "when": requests that no route takes would fail, '
                'so end with a route without "when"'
            )
        for route in before:
            if route.when is None:
                yield f'route "{route.name}" has no "when" and takes every request: put it last'


def everything_to(target: ReleaseTarget) -> Release:
    """The release in which one target answers everybody, and in which users stick once there are more."""
    targets = (WeightedTarget(model=target.model, version=target.version, weight=100.0),)
    return Release(routes=(Route(name="default", sticky="user", targets=targets),))
