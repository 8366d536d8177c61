"""Runs one job: reads the source, quantises it, measures the result against it, writes down what came out."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Calibration, Losses, Method
from tools.artifacts.quantization.recipe import JOB, OUTCOME, Job, Outcome, Step
from tools.artifacts.quantization.texts import read_texts
from tools.artifacts.quantization.worker.blocks import Blocks, cut, encode
from tools.artifacts.quantization.worker.checkpoint import finish_result, write_view
from tools.artifacts.quantization.worker.layers import LayerStore
from tools.artifacts.quantization.worker.losses import measure
from tools.artifacts.quantization.worker.packed_checkpoint import PackedCheckpoint

Report = Callable[[Step], None]

PACKAGES: Final[Mapping[Method, tuple[str, ...]]] = {
    "autoawq": ("autoawq", "torch", "transformers", "tokenizers", "safetensors"),
    "llmcompressor": ("llmcompressor", "compressed-tensors", "torch", "transformers", "tokenizers", "safetensors"),
}
INTERRUPTED: Final = 130


def main(work: Path) -> int:
    """Exit code 0; 1 with the reason on standard error; 130 for an interruption. Steps are JSON lines on standard
    output.
    """
    # Libraries print to standard output; theirs goes to the log, and the steps keep the real one.
    steps = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def report(step: Step) -> None:
        print(step.model_dump_json(exclude_none=True), file=steps, flush=True)

    try:
        run(Job.model_validate_json((work / JOB).read_text(encoding="utf-8")), report)
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def run(job: Job, report: Report) -> None:
    started = time.monotonic()
    view = job.work / "source"
    write_view(job.source, view)
    tokenizer = AutoTokenizer.from_pretrained(str(view))
    texts = read_texts(job.calibration)
    blocks = cut(encode(tokenizer, texts), job.recipe.sequence_length, job.recipe.calibration_tokens)
    shutil.rmtree(job.result, ignore_errors=True)
    report(Step(phase=f"loading {job.recipe.method} and the model"))
    resumed = _quantize(job, view, blocks.blocks, report)
    finish_result(job.source, job.result)
    losses = _measure(job, view, tokenizer, report)
    outcome = Outcome(
        device="cuda" if torch.cuda.is_available() else "cpu",
        threads=torch.get_num_threads(),
        seconds=round(time.monotonic() - started, 1),
        resumed_layers=resumed,
        calibration=_calibration(job, len(texts), blocks),
        losses=losses,
        versions={package: importlib.metadata.version(package) for package in PACKAGES[job.recipe.method]},
    )
    (job.work / OUTCOME).write_text(outcome.model_dump_json(), encoding="utf-8")


def _quantize(job: Job, view: Path, blocks: Sequence[Sequence[int]], report: Report) -> int:
    """Writes the result, and returns how many layers an earlier run had finished."""
    # Each environment holds one of the two.
    if job.recipe.method == "llmcompressor":
        from tools.artifacts.quantization.worker import llmcompressor

        llmcompressor.quantize(view, job.result, job.recipe, blocks, report)
        return 0
    from tools.artifacts.quantization.worker import autoawq

    store = LayerStore(job.layers)
    resumed = store.finished
    autoawq.quantize(view, job.result, job.recipe, blocks, store, report)
    return resumed


def _measure(job: Job, view: Path, tokenizer: Any, report: Report) -> Losses:
    heldout = cut(encode(tokenizer, read_texts(job.heldout)), job.recipe.sequence_length, sys.maxsize)
    on_gpu = torch.cuda.is_available()
    model = AutoModelForCausalLM.from_pretrained(str(view), torch_dtype=torch.bfloat16 if on_gpu else torch.float32)
    if on_gpu:
        model.to("cuda")
    checkpoint = PackedCheckpoint(job.result)
    return measure(
        model.eval(),
        checkpoint,
        job.recipe.group_size,
        heldout.blocks,
        job.heldout_sha256,
        lambda phase: report(Step(phase=phase)),
    )


def _calibration(job: Job, texts: int, blocks: Blocks) -> Calibration:
    return Calibration(
        sha256=job.calibration_sha256,
        texts=texts,
        texts_cut=blocks.texts_cut,
        tokens=blocks.tokens,
        tokens_left_out=blocks.tokens_left_out,
    )
