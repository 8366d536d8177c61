"""vLLM's AsyncLLM behind the adapter's border. Only this module and `vllm_bare`, the yardstick of a bench, import vLLM.

Written against vLLM 0.23 and 0.32, which differ here in the base class of client errors (`_CLIENT_ERRORS`) and in how
the scheduler counts what waits (`_SchedulerStats`).
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm import SamplingParams
from vllm import __version__ as vllm_version
from vllm import exceptions as vllm_exceptions
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.lora.request import LoRARequest
from vllm.platforms import current_platform
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError as VllmDeadError
from vllm.v1.engine.exceptions import EngineGenerateError
from vllm.v1.metrics.loggers import PrometheusStatLogger

from tools.wire.launch import EngineLaunch
from tools.wire.messages import Delta, Request, Tokenize, Tokenized

from ..accounting import Accounting
from ..embedding import EmbeddingRequest
from ..errors import EngineDeadError, LaunchError, RequestError, invalid
from ..images import decode_images
from ..limits import Limits
from ..lora import LoraTable
from ..parameters import SAMPLING_RULES, Rule, limit_max_tokens, parse_parameters
from ..process_memory import ProcessTreeMemory
from .base import Emit, EngineInfo, Work, cannot_tokenize
from .vllm_threads import set_up_cpu
from .vllm_worker import PEAK_MEMORY, has_worker_memory, with_worker_memory

log = logging.getLogger(__name__)

# vLLM 0.32 has a base class for what a client did wrong; 0.23 raises a ValueError of its own for it.
_CLIENT_ERRORS = (
    getattr(vllm_exceptions, "VLLMClientError", vllm_exceptions.VLLMValidationError),
    ValueError,
    TypeError,
)

# Tokenizing a longer prompt takes long enough (about 1 ms) to be done beside the event loop.
_LONG_PROMPT = 4096


@dataclass(frozen=True)
class _Generation:
    """What `prepare` makes of a request: either `sampling` or `embedding` is set. `logprobs`: whether to send them."""

    sampling: SamplingParams | None
    lora: LoRARequest | None
    embedding: EmbeddingRequest | None
    logprobs: bool


class VllmAdapter:
    """One AsyncLLM, with the arguments of model.json."""

    def __init__(self, launch: EngineLaunch, limits: Limits) -> None:
        self._arguments = launch.arguments
        self._limits = limits
        self._loras = LoraTable.load(Path(launch.model_directory), launch.arguments)
        self._rules = _rules(limits)
        self._stats = _SchedulerStats()
        self._with_metrics = launch.metrics
        self._engine: AsyncLLM | None = None
        self._tasks: tuple[str, ...] = ()
        self._max_model_len = 0
        self._vocab_size = 0
        self._takes_images = False
        self._memory: ProcessTreeMemory | None = None
        self._memory_task: asyncio.Task[None] | None = None
        self._worked = False
        self._accounting = Accounting()

    async def start(self, accounting: Accounting) -> EngineInfo:
        self._accounting = accounting
        self._stats.accounting = accounting
        try:
            arguments = AsyncEngineArgs(**_on_this_platform(self._arguments))
        except (TypeError, ValueError) as error:
            raise LaunchError(
                f"model.json: vLLM {vllm_version} does not take these engine arguments: {error}"
            ) from error
        if self._with_metrics and arguments.disable_log_stats:
            log.warning('REPORT_CUSTOM_METRICS is set but model.json has "disable_log_stats": no scheduler metrics')
        loggers = [_logger_class(self._stats)] if self._with_metrics and not arguments.disable_log_stats else []
        self._engine = AsyncLLM.from_engine_args(arguments, stat_loggers=loggers)
        self._tasks = await self._engine.get_supported_tasks()
        config = self._engine.vllm_config
        self._max_model_len = config.model_config.max_model_len
        self._vocab_size = config.model_config.get_vocab_size()
        self._takes_images = config.model_config.is_multimodal_model
        if current_platform.is_cuda_alike():
            await self._ask_workers_memory()
        else:
            # vLLM's own processes are all there now. On a GPU their resident memory would say nothing.
            self._memory = ProcessTreeMemory.of_this_process()
        return EngineInfo(
            f"vllm {vllm_version}",
            self._max_model_len,
            config.scheduler_config.max_num_seqs,
            f"({config.model_config.dtype}, {config.cache_config.num_gpu_blocks} KV cache blocks)",
        )

    def prepare(self, request: Request) -> tuple[Any, int]:
        if request.embedding is not None:
            return self._prepare_embedding(request), 1
        if "generate" not in self._tasks:
            raise RequestError("UNSUPPORTED", 'this model only embeds: send an "embedding_request"')
        parameters = parse_parameters(request.parameters, request.parameters_source, self._rules)
        lora = self._loras.find(parameters.pop("lora_name", None))
        with_logprobs = parameters.get("logprobs") is not None
        if request.flags.cumulative_logprob and not with_logprobs:
            # vLLM adds up only what it computes: 0 is the generated token alone.
            parameters["logprobs"] = 0
        sampling = _sampling_params(parameters)
        if request.images and not self._takes_images:
            raise RequestError("UNSUPPORTED", '"image" was sent, but this model takes text only')
        if request.token_ids is not None:
            self._check_tokens(request.token_ids, "input_ids")
        elif not request.prompt:
            raise invalid('"text_input" is empty: a prompt needs at least one character')
        lora_request = LoRARequest(*lora) if lora else None
        return _Generation(sampling, lora_request, None, with_logprobs), sampling.n

    def _prepare_embedding(self, request: Request) -> _Generation:
        if "embed" not in self._tasks:
            raise RequestError(
                "UNSUPPORTED",
                f'"embedding_request" was sent, but this model does not embed: it supports '
                f"{', '.join(sorted(self._tasks))}",
            )
        return _Generation(None, None, EmbeddingRequest.parse(request.embedding or ""), logprobs=False)

    def _check_tokens(self, ids: Sequence[int], name: str) -> None:
        if not ids:
            raise invalid(f'"{name}" is empty: a prompt needs at least one token')
        if len(ids) >= self._max_model_len:
            raise invalid(
                f'"{name}" has {len(ids)} tokens: the context takes {self._max_model_len}, of which at least one is '
                f"for the answer, so at most {self._max_model_len - 1}"
            )
        if not 0 <= min(ids) <= max(ids) < self._vocab_size:
            wrong = next(token for token in ids if not 0 <= token < self._vocab_size)
            raise invalid(f'"{name}" has the token {wrong}: the vocabulary is 0 to {self._vocab_size - 1}')

    async def generate(self, group: Sequence[Work], emit: Emit) -> None:
        await asyncio.gather(*(self._generate_one(work, emit) for work in group))

    async def _generate_one(self, work: Work, emit: Emit) -> None:
        assert self._engine is not None
        params: _Generation = work.params
        try:
            if params.embedding is not None:
                await self._embed(work, params.embedding, emit)
            else:
                await self._stream(work, params, emit)
        except VllmDeadError as error:
            raise EngineDeadError(str(error)) from error
        except EngineGenerateError as error:
            raise RequestError("INTERNAL", f"vLLM could not generate: {error.__cause__ or error}") from error
        except _CLIENT_ERRORS as error:
            raise invalid(f"vLLM refuses the request: {error}") from error

    async def _stream(self, work: Work, params: _Generation, emit: Emit) -> None:
        assert self._engine is not None
        assert params.sampling is not None
        prompt = await self._prompt(work.request)
        outputs: AsyncGenerator[Any, None] = self._engine.generate(
            prompt,
            params.sampling,
            work.request_id,
            lora_request=params.lora,
            priority=work.priority if self._has_priorities() else 0,
        )
        n, with_cumulative = params.sampling.n, params.sampling.logprobs is not None
        async for output in outputs:
            if output.finished and output.metrics and output.metrics.scheduled_ts:
                work.queued_s = max(0.0, output.metrics.scheduled_ts - output.metrics.queued_ts)
            emit(work, _delta(work.request.key, output, n, with_cumulative, params.logprobs))

    def _has_priorities(self) -> bool:
        return bool(self._arguments.get("scheduling_policy") == "priority")

    async def _prompt(self, request: Request) -> dict[str, Any]:
        if request.images:
            # Beside the event loop: a photograph takes tens of milliseconds, in which no stream would move.
            images = await asyncio.to_thread(decode_images, request.images)
            return {"prompt": request.prompt, "multi_modal_data": {"image": images}}
        ids = request.token_ids
        if ids is None:
            ids = await self._encode(request.prompt)
            self._check_tokens(ids, "text_input")
        return {"prompt_token_ids": ids, "prompt": request.prompt}

    async def _encode(self, text: str) -> list[int]:
        assert self._engine is not None
        tokenizer = self._engine.get_tokenizer()
        if len(text) < _LONG_PROMPT:
            return list(tokenizer.encode(text))
        return list(await asyncio.to_thread(tokenizer.encode, text))

    async def _embed(self, work: Work, embedding: EmbeddingRequest, emit: Emit) -> None:
        assert self._engine is not None
        ids = embedding.token_ids
        if ids is None:
            ids = await self._encode(embedding.text or "")
        self._check_tokens(ids, "input")
        params = PoolingParams(task="embed", dimensions=embedding.dimensions)
        async for output in self._engine.encode({"prompt_token_ids": ids}, params, work.request_id):
            vector = output.outputs.data.tolist()
            emit(
                work,
                Delta(work.request.key, [json.dumps(vector)], [0], ["stop"], len(output.prompt_token_ids), final=True),
            )

    def tokenize(self, message: Tokenize) -> Tokenized:
        return cannot_tokenize(f"vllm {vllm_version}", message)

    async def check_health(self) -> None:
        assert self._engine is not None
        if self._engine.errored:
            raise EngineDeadError(f"vLLM's engine core has died: {self._engine.dead_error}")

    def refresh_gauges(self, waiting: int, running: int) -> None:
        # What vLLM has taken but not scheduled waits too.
        vllm_waiting = self._stats.waiting if self._with_metrics else 0
        for prefix in ("vllm:num_requests", "ladder_requests"):
            self._accounting.gauge(f"{prefix}_waiting", waiting + vllm_waiting)
            self._accounting.gauge(f"{prefix}_running", max(0, running - vllm_waiting))
        self._accounting.gauge("vllm:kv_cache_usage_perc", self._stats.kv_cache_usage)
        if self._memory is not None:
            self._accounting.gauge("ladder_peak_memory_bytes", self._memory.peak_bytes())
        elif running:
            self._worked = True
        elif self._worked:
            # Only an idle engine is asked: no stream waits for the answer.
            self._worked = False
            self._memory_task = asyncio.get_running_loop().create_task(self._ask_workers_memory())

    async def _ask_workers_memory(self) -> None:
        """The workers' GPU memory as the gauge; theirs alone, for this process has none."""
        assert self._engine is not None
        if not has_worker_memory(self._arguments):
            return
        try:
            peaks = await self._engine.collective_rpc(PEAK_MEMORY)
        except (VllmDeadError, EngineGenerateError) as error:
            log.warning("vLLM's workers did not say how much memory they use: %s", error)
            return
        self._accounting.gauge("ladder_peak_memory_bytes", sum(peaks))

    async def stop(self) -> None:
        if self._engine:
            self._engine.shutdown()


def _on_this_platform(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    if current_platform.is_cuda_alike():
        return with_worker_memory(arguments)
    return set_up_cpu(arguments) if current_platform.is_cpu() else arguments


def _rules(limits: Limits) -> Mapping[str, Rule]:
    """The parameters that this vLLM has, with this model's cap on max_tokens."""
    known = set(SamplingParams.__struct_fields__) | {"lora_name"}
    rules = {name: rule for name, rule in SAMPLING_RULES.items() if name in known}
    return limit_max_tokens(rules, limits.max_tokens_limit)


def _sampling_params(parameters: dict[str, Any]) -> SamplingParams:
    structured = parameters.pop("structured_outputs", None)
    if structured is not None:
        _check_structured(structured)
    try:
        return SamplingParams(
            **parameters,
            structured_outputs=StructuredOutputsParams(**structured) if structured is not None else None,
            output_kind=RequestOutputKind.DELTA,
        )
    except _CLIENT_ERRORS as error:
        raise invalid(f"vLLM refuses the sampling parameters: {error}") from error


def _check_structured(structured: dict[str, Any]) -> None:
    """vLLM itself passes over a key that it does not know. Raises RequestError."""
    known = [name for name in inspect.signature(StructuredOutputsParams).parameters if not name.startswith("_")]
    for name in structured:
        if name not in known:
            raise invalid(
                f'sampling parameter "structured_outputs" has the key "{name}": known ones are {", ".join(known)}'
            )
    if not any(value is not None for value in structured.values()):
        raise invalid(f'sampling parameter "structured_outputs" is empty: give it one of {", ".join(known)}')


def _delta(key: int, output: Any, n: int, with_cumulative: bool, with_logprobs: bool) -> Delta:
    """One RequestOutput of kind DELTA: it holds only those sequences that have something new."""
    texts, counts = [""] * n, [0] * n
    reasons: list[str | None] = [None] * n
    cumulative: list[float | None] = [None] * n
    logprobs: list[list[str]] = [[] for _ in range(n)]
    for sequence in output.outputs:
        i = sequence.index
        texts[i] = sequence.text
        counts[i] = len(sequence.token_ids)
        reasons[i] = sequence.finish_reason
        cumulative[i] = sequence.cumulative_logprob
        if with_logprobs and sequence.logprobs:
            logprobs[i] = [_logprobs_json(position) for position in sequence.logprobs]
    return Delta(
        key,
        texts,
        counts,
        reasons,
        len(output.prompt_token_ids or ()),
        output.finished,
        cumulative if with_cumulative else None,
        logprobs if with_logprobs else None,
        # vLLM hands them out once, with the first delta.
        prompt_logprobs=[_logprobs_json(position) for position in output.prompt_logprobs or ()] or None,
    )


def _logprobs_json(position: dict[int, Any] | None) -> str:
    """`position` is None for the first token of a prompt."""
    return (
        "null"
        if position is None
        else json.dumps(
            {
                # A token that is ruled out has minus infinity, which JSON cannot say; vLLM's own server says this.
                token: {
                    "logprob": max(entry.logprob, -9999.0),
                    "rank": entry.rank,
                    "decoded_token": entry.decoded_token,
                }
                for token, entry in position.items()
            }
        )
    )


class _SchedulerStats:
    """What vLLM's scheduler says of itself at each step."""

    def __init__(self) -> None:
        self.accounting = Accounting()
        self.waiting = 0
        self.kv_cache_usage = 0.0

    def record(self, scheduler: Any, iteration: Any) -> None:
        if scheduler is not None:
            # 0.32 counts apart those that wait for something other than room, such as a grammar being compiled.
            self.waiting = scheduler.num_waiting_reqs + getattr(scheduler, "num_skipped_waiting_reqs", 0)
            self.kv_cache_usage = scheduler.kv_cache_usage
            self.accounting.count("vllm:prefix_cache_queries_total", scheduler.prefix_cache_stats.queries)
            self.accounting.count("vllm:prefix_cache_hits_total", scheduler.prefix_cache_stats.hits)
            if scheduler.spec_decoding_stats is not None:
                self._record_speculation(scheduler.spec_decoding_stats)
        if iteration is not None:
            self.accounting.count("vllm:num_preemptions_total", iteration.num_preempted_reqs)

    def _record_speculation(self, stats: Any) -> None:
        self.accounting.count("vllm:spec_decode_num_drafts_total", stats.num_drafts)
        self.accounting.count("vllm:spec_decode_num_draft_tokens_total", stats.num_draft_tokens)
        self.accounting.count("vllm:spec_decode_num_accepted_tokens_total", stats.num_accepted_tokens)
        for position, accepted in enumerate(stats.num_accepted_tokens_per_pos):
            self.accounting.count("vllm:spec_decode_num_accepted_tokens_per_pos_total", accepted, str(position))


def _logger_class(stats: _SchedulerStats) -> type[Any]:
    """A stat logger that only feeds `stats`.

    It is a PrometheusStatLogger by class and in nothing else: vLLM then leaves out its own, which would observe every
    token into metrics that nobody scrapes, on the event loop that all streams share.
    """

    class SchedulerStatLogger(PrometheusStatLogger):  # type: ignore[misc]
        def __init__(self, vllm_config: Any, engine_indexes: Any = None) -> None:
            self.engine_indexes = engine_indexes

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
        ) -> None:
            stats.record(scheduler_stats, iteration_stats)

        def log_engine_initialized(self) -> None:
            """Nothing to announce."""

        def log(self) -> None:
            """Nothing to log."""

        def record_sleep_state(self, sleep: int = 0, level: int = 0) -> None:
            """The ladder never puts an engine to sleep."""

        def record_admission_rejection(self, reason: str) -> None:
            """vLLM's own admission limits are off; ours are counted where they are."""

    return SchedulerStatLogger
