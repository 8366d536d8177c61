"""The baseline's engine: transformers' `generate`, for one request at a time or for a batch that came together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tools.wire.launch import EngineLaunch
from tools.wire.messages import Delta, Request, Tokenize, Tokenized

from ..accounting import Accounting
from ..errors import EngineDeadError, LaunchError, RequestError, invalid
from ..generation.arguments import BaselineArguments
from ..generation.rows import Prompt, Row
from ..generation.sampling import parse_sampling
from ..limits import Limits
from ..model_json import read_arguments
from ..prompt_tokens import check_tokens
from .base import Emit, EngineInfo, Work, cannot_tokenize

if TYPE_CHECKING:
    from ..generation.loading import Loaded

log = logging.getLogger(__name__)

MAX_BATCH_SIZE = "MAX_BATCH_SIZE"


class TransformersAdapter:
    """One thread generates, one batch after the other; everything else happens in the event loop."""

    def __init__(self, launch: EngineLaunch, limits: Limits) -> None:
        owner = f'"{launch.model}" version {launch.version}'
        self._model = launch.model
        self._arguments = read_arguments(launch.arguments, BaselineArguments, owner)
        self._limits = limits
        self._max_batch_size = _max_batch_size(launch) if self._arguments.batching else 1
        self._accounting = Accounting()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="generate")
        self._turn = asyncio.Lock()
        self._running = 0
        self._loaded_model: Loaded | None = None

    async def start(self, accounting: Accounting) -> EngineInfo:
        self._accounting = accounting
        self._loaded_model = await asyncio.get_running_loop().run_in_executor(self._worker, self._load)
        return EngineInfo(
            engine="transformers",
            max_model_len=self._arguments.max_model_len,
            max_num_seqs=self._max_batch_size,
            description=self._description(self._loaded_model),
        )

    def _load(self) -> Loaded:
        # Imported in the thread that loads: torch and transformers take seconds.
        from ..generation.loading import load

        started = time.monotonic()
        loaded = load(self._arguments)
        log.info("%s; loaded in %.1f s", self._description(loaded), time.monotonic() - started)
        return loaded

    def _description(self, loaded: Loaded) -> str:
        at_once = f"batches of up to {self._max_batch_size}" if self._arguments.batching else "one request at a time"
        return f"generate, {self._arguments.dtype}, attention {loaded.attention}, {loaded.device}, {at_once}"

    @property
    def _loaded(self) -> Loaded:
        assert self._loaded_model is not None, "start() has not ended"
        return self._loaded_model

    def prepare(self, request: Request) -> tuple[Prompt, int]:
        self._refuse_unsupported(request)
        sampling = parse_sampling(
            request.parameters, request.parameters_source, self._model, self._limits.max_tokens_limit
        )
        for token in sampling.stop_token_ids:
            if token >= self._loaded.vocab_size:
                raise invalid(
                    f'sampling parameter "stop_token_ids" has the token {token}: '
                    f"the vocabulary is 0 to {self._loaded.vocab_size - 1}"
                )
        token_ids = self._token_ids(request)
        stop_ids = sampling.stop_token_ids | (frozenset() if sampling.ignore_eos else self._loaded.eos_ids)
        room = self._arguments.max_model_len - len(token_ids)
        return Prompt(token_ids, sampling, min(sampling.max_tokens, room), stop_ids), 1

    def _refuse_unsupported(self, request: Request) -> None:
        asked = {
            "image": bool(request.images),
            "embedding_request": request.embedding is not None,
            "return_cumulative_logprob": request.flags.cumulative_logprob,
            "return_logprobs": request.flags.logprobs,
        }
        for name, is_asked in asked.items():
            if is_asked:
                raise RequestError("UNSUPPORTED", f'input "{name}" is not supported by "{self._model}": use "llm_bf16"')

    def _token_ids(self, request: Request) -> list[int]:
        if request.token_ids is not None:
            name, ids = "input_ids", request.token_ids
        elif request.prompt:
            name, ids = "text_input", list(self._loaded.tokenizer.encode(request.prompt))
        else:
            raise invalid('"text_input" is empty: a prompt needs at least one character')
        check_tokens(ids, name, self._arguments.max_model_len, self._loaded.vocab_size)
        return ids

    async def generate(self, group: Sequence[Work], emit: Emit) -> None:
        batches = [list(group)] if self._arguments.batching else [[work] for work in group]
        arrived = time.monotonic()
        # The server hands over a little more than fits, so that no time is lost between two batches.
        async with self._turn:
            for batch in batches:
                works = [work for work in batch if not work.cancelled]
                for work in works:
                    work.queued_s = time.monotonic() - arrived
                if works:
                    await self._generate_batch(works, emit)

    async def _generate_batch(self, works: list[Work], emit: Emit) -> None:
        from ..generation.batch import generate

        loop = asyncio.get_running_loop()

        def emit_all(deltas: list[tuple[Row, Delta]]) -> None:
            for row, delta in deltas:
                emit(row.work, delta)

        def on_step(deltas: list[tuple[Row, Delta]]) -> None:
            loop.call_soon_threadsafe(emit_all, deltas)

        rows = [Row(work, self._loaded.tokenizer.backend_tokenizer) for work in works]
        self._running = len(rows)
        generating = loop.run_in_executor(
            self._worker,
            generate,
            self._loaded.model,
            rows,
            self._loaded.pad_id,
            on_step,
        )
        try:
            await asyncio.shield(generating)
        except asyncio.CancelledError:
            # The thread sees it at its next token; until then the model is in use.
            for work in works:
                work.cancelled = True
            await asyncio.wait([generating])
            raise
        except RuntimeError as error:
            if "CUDA error" in str(error):
                raise EngineDeadError(f"the GPU cannot be used any more: {error}") from error
            raise
        finally:
            self._running = 0

    def tokenize(self, message: Tokenize) -> Tokenized:
        return cannot_tokenize("transformers", message)

    async def check_health(self) -> None:
        """It is healthy as long as its process lives: a failed call fails its own batch only."""

    def refresh_gauges(self, waiting: int, running: int) -> None:
        from ..generation.memory import peak_memory_bytes

        in_adapter_queue = running - min(running, self._running)
        for prefix in ("vllm:num_requests", "ladder_requests"):
            self._accounting.gauge(f"{prefix}_running", running - in_adapter_queue)
            self._accounting.gauge(f"{prefix}_waiting", waiting + in_adapter_queue)
        self._accounting.gauge("ladder_peak_memory_bytes", peak_memory_bytes())

    async def stop(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._loaded_model = None


def _max_batch_size(launch: EngineLaunch) -> int:
    """Triton's max_batch_size, which the stub passes on: no group is larger."""
    text = launch.parameters.get(MAX_BATCH_SIZE, "1")
    if not text.isdecimal() or int(text) < 1:
        raise LaunchError(f'parameter "{MAX_BATCH_SIZE}" is "{text}": write a whole number, 1 or more')
    return int(text)
