"""What a report measures: the levels of concurrency, the requests of each, how often."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field

from loadtest.options import LoadOptions, Protocol
from tools.spec.profile import Profile

_GREEDY: Final = {"temperature": 0.0}
# One process looks at every token of its streams, and makes up their prompts.
_STREAMS_PER_WORKER: Final = 8


class Settings(BaseModel):
    """The load, which is the same on every rung.

    Every request has a prompt of `input_tokens` and an answer of exactly `output_tokens`, drawn with a seed that the
    rungs share and that no two cells of one rung do, so that no prefix cache answers for an engine.

    Attributes:
        levels: concurrent streams, each of which sends its next request when the last is answered.
        requests_per_stream: at each level; `min_requests` instead where that would be fewer.
        repeats: how often the whole ladder is walked.
        deadline_s: a request that is not answered whole by then is a failure.
        cell_s: a cell ends after so many seconds though requests still run; None for no limit. These are cut: what they
            had received counts for the tokens a second, and only whole answers have latencies.
        workers: processes that generate the load, 0 for one in all; None for what `workers_for` chooses.
        isolated: whether every rung had a server of its own; otherwise one server held all rungs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    levels: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    input_tokens: Annotated[int, Field(ge=1)] = 50
    # With fewer than two there is no time between tokens.
    output_tokens: Annotated[int, Field(ge=2)]
    requests_per_stream: Annotated[int, Field(ge=1)] = 1
    min_requests: Annotated[int, Field(ge=1)] = 16
    repeats: Annotated[int, Field(ge=1)] = 3
    seed: Annotated[int, Field(ge=0)] = 0
    protocol: Protocol = Protocol.GENERATE_STREAM
    deadline_s: Annotated[float, Field(gt=0)] = 120.0
    cell_s: Annotated[int, Field(ge=1)] | None = None
    workers: Annotated[int, Field(ge=0)] | None = None
    isolated: bool = False

    @classmethod
    def of_profile(cls, profile: Profile) -> Self:
        """What fits the profile's machine: on two CPU cores all rungs take about a quarter of an hour."""
        if profile.target.accelerator == "cpu":
            # An engine on these cores needs them, and is slow enough for one process.
            return cls(levels=(1, 8, 32), output_tokens=16, min_requests=8, workers=0)
        return cls(levels=(1, 16, 32, 64, 128, 256), output_tokens=256, requests_per_stream=2)

    def requests(self, level: int) -> int:
        """How many requests a cell of that level sends in all."""
        return max(self.min_requests, level * self.requests_per_stream)

    def cell_seed(self, level: int, repeat: int) -> int:
        """Seed of a cell's prompts: the same on every rung."""
        return (self.seed * 1_000 + repeat) * 100_000 + level

    def workers_for(self, level: int, cores: int) -> int:
        """Load generators of a cell at that level: at most half the cores, and one process where two are too many."""
        if self.workers is not None:
            return min(self.workers, level)
        wanted = min(-(-level // _STREAMS_PER_WORKER), cores // 2)
        return wanted if wanted > 1 else 0

    def load(self, host: str, target: str, level: int, repeat: int, tokenizer: str | None = None) -> LoadOptions:
        """The load test of one cell; `tokenizer` is the model's folder, without which prompts are about as long."""
        return LoadOptions(
            host=host,
            targets=(target,),
            protocol=self.protocol,
            workload="fixed-50-256",
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            sampling=_GREEDY,
            users=level,
            requests=self.requests(level),
            duration_s=self.cell_s,
            deadline_s=self.deadline_s,
            tokenizer=tokenizer,
            seed=self.cell_seed(level, repeat),
        )

    def text(self) -> str:
        """The workload in a sentence."""
        requests = ", ".join(f"{self.requests(level)} at {level}" for level in self.levels)
        return (
            f"Every request: a prompt of {self.input_tokens} tokens, {self.output_tokens} tokens of answer, greedy, "
            f"over {self.protocol}. Closed loop; requests by streams: {requests}{self._limit_text()}."
        )

    def _limit_text(self) -> str:
        return "" if self.cell_s is None else f", or as many as are answered in {self.cell_s} s"
