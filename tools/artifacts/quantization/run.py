"""From a profile's unquantised checkpoint to its AWQ artifact: checks, a process, the verdict, the manifest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tools.artifacts.catalogue import check_undamaged, is_complete
from tools.artifacts.errors import ArtifactError
from tools.artifacts.maker import follow
from tools.artifacts.manifest import Manifest, Method, Quantization, Recipe, sizes_of
from tools.artifacts.quantization.gate import judge
from tools.artifacts.quantization.recipe import JOB, OUTCOME, Job, Outcome, Step
from tools.artifacts.quantization.source import check_source, fingerprint
from tools.artifacts.quantization.texts import (
    DEFAULT_CALIBRATION,
    HELDOUT,
    Text,
    read_texts,
    sha256_of_texts,
    to_lines,
)
from tools.artifacts.safetensors_file import read_header
from tools.bootstrap.environments import LLMCOMPRESSOR, QUANTIZE, Environment, lock_file, lock_hash
from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import exclusive
from tools.bootstrap.preparation import prepare
from tools.bootstrap.processes import isolated
from tools.bootstrap.progress import ReportedProgress
from tools.spec.model import AwqWeights
from tools.spec.profile import Profile

ENVIRONMENTS: Final[Mapping[Method, Environment]] = {"autoawq": QUANTIZE, "llmcompressor": LLMCOMPRESSOR}
PYTHON: Final = "LADDER_QUANTIZE_PYTHON"
Report = Callable[[Step], None]


@dataclass(frozen=True)
class Options:
    """What a user may choose. `clip_search` None: on a GPU only. `calibration` is a file or folder."""

    method: Method = "autoawq"
    calibration: Path = DEFAULT_CALIBRATION
    calibration_tokens: int | None = None
    clip_search: bool | None = None


def recipe_for(profile: Profile, awq: AwqWeights, options: Options) -> Recipe:
    """The recipe a profile's machine has time for.

    On CPU 4,096 tokens and no search for clipping ranges: on the embedded model the search takes longer than everything
    else together, and the gate is passed without it. A GPU has time for both.
    """
    on_gpu = profile.target.accelerator == "cuda"
    tokens = options.calibration_tokens or (65_536 if on_gpu else 4_096)
    return Recipe(
        method=options.method,
        group_size=awq.group_size,
        clip_search=on_gpu if options.clip_search is None else options.clip_search,
        sequence_length=min(512, tokens),
        calibration_tokens=tokens,
    )


def quantize(profile: Profile, layout: Layout, report: Report, options: Options, *, anew: bool = False) -> Manifest:
    """Makes the profile's AWQ artifact unless it is there, and returns its manifest; `anew` replaces one that is.

    The artifact's folder appears whole or not at all. Finished layers survive an interruption, and the same call goes
    on after them. Raises ArtifactError; a gate that is not passed is no error here, it stands in the manifest.
    """
    awq = profile.artifacts.awq
    if awq is None:
        raise ArtifactError(f'profile "{profile.name}" names no "artifacts.awq": add its path and group size')
    target = layout.home / awq.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(target.with_name(f".{target.name}.lock"), lambda holder: report(_waiting(holder))):
        if not anew and (there := _existing(target)) is not None:
            report(Step(phase="it is there already; --force makes it anew"))
            return there
        return _make(profile, awq, target, layout, report, options)


def _existing(target: Path) -> Manifest | None:
    check_undamaged(target)
    if not is_complete(target):
        return None
    manifest = Manifest.read(target)
    if manifest is None:
        raise ArtifactError(f'"{target}" was not made here: --force replaces it')
    return manifest


def _make(
    profile: Profile, awq: AwqWeights, target: Path, layout: Layout, report: Report, options: Options
) -> Manifest:
    environment = ENVIRONMENTS[options.method]
    python = interpreter(profile, environment, layout, os.environ)
    source, work = layout.home / profile.artifacts.bf16.path, target.with_name(f".{target.name}.quantizing")
    recipe = recipe_for(profile, awq, options)
    check_source(source, recipe.group_size)
    calibration, heldout = _texts(options.calibration)
    _require_disk(source, target.parent)
    report(Step(phase="hashing the checkpoint"))
    job = Job(
        source=source.resolve(),
        work=work.resolve(),
        fingerprint=fingerprint(source),
        lock=lock_hash(environment, layout),
        recipe=recipe,
        calibration_sha256=sha256_of_texts(calibration),
        heldout_sha256=sha256_of_texts(heldout),
    )
    _prepare_work(job, calibration, heldout)
    if python == layout.environment_python(environment.name):
        prepare([environment], layout, ReportedProgress(lambda phase: report(Step(phase=phase))))
    _run(job, python, layout, report)
    manifest = _finish(job, profile, awq)
    _replace(target, job.result)
    shutil.rmtree(work)
    return manifest


def interpreter(profile: Profile, environment: Environment, layout: Layout, variables: Mapping[str, str]) -> Path:
    """The Python that quantises. Raises ArtifactError for a GPU profile where nobody has named one with CUDA."""
    named = variables.get(PYTHON)
    if named:
        if not os.access(named, os.X_OK):
            raise ArtifactError(f'{PYTHON} is "{named}", which cannot be run: name a Python interpreter, or unset it')
        return Path(named)
    if profile.target.accelerator == "cuda":
        raise ArtifactError(
            f'profile "{profile.name}" is for NVIDIA GPUs, and the {environment.name} environment holds torch\'s CPU '
            f"build: set {PYTHON} to an interpreter that has torch for CUDA and the packages of "
            f'"{lock_file(environment, layout)}"'
        )
    return layout.environment_python(environment.name)


def _waiting(holder: str) -> Step:
    return Step(phase=f"another process ({holder}) is making it, waiting")


def _texts(calibration: Path) -> tuple[list[Text], list[Text]]:
    """Texts for calibration and for measuring. A text in both would be measured on what it was fitted to."""
    fitted, measured = read_texts(calibration), read_texts(HELDOUT)
    if set(fitted) & set(measured):
        raise ArtifactError(f'"{calibration}" holds texts of the held-out set "{HELDOUT}": take them out')
    return fitted, measured


def _require_disk(source: Path, folder: Path) -> None:
    """The finished layers and the result take less than the source does, together."""
    needed = sum(sizes_of(source).values())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ArtifactError(
            f'quantising "{source}" needs {needed / 1e9:.1f} GB in "{folder}", {free / 1e9:.1f} GB are free: '
            "free some space and run the command again"
        )


def _prepare_work(job: Job, calibration: Sequence[Text], heldout: Sequence[Text]) -> None:
    """Keeps the finished layers of the same job, and nothing of another."""
    file = job.work / JOB
    try:
        same = Job.model_validate_json(file.read_text(encoding="utf-8")) == job
    except (FileNotFoundError, ValidationError):
        same = False
    if not same:
        shutil.rmtree(job.work, ignore_errors=True)
        job.work.mkdir()
    job.calibration.write_text(to_lines(calibration), encoding="utf-8")
    job.heldout.write_text(to_lines(heldout), encoding="utf-8")
    file.write_text(job.model_dump_json(), encoding="utf-8")


def _run(job: Job, python: Path, layout: Layout, report: Report) -> None:
    entry = layout.home / "tools" / "artifacts" / "quantization" / "worker"
    # Threads that spin while they wait made this six times slower on 2 busy cores. Nothing is looked up on a hub.
    variables = {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
    follow(
        [python, "-I", "-X", "utf8", entry, job.work],
        layout.logs / f"artifact-{job.work.name.strip('.')}.log",
        lambda line: report(Step.model_validate_json(line)),
        f'the {job.recipe.method} checkpoint of "{job.source}"',
        isolated(variables | os.environ),
    )


def _finish(job: Job, profile: Profile, awq: AwqWeights) -> Manifest:
    """Judges the result, and writes its manifest as the last of its files."""
    outcome = Outcome.model_validate_json((job.work / OUTCOME).read_text(encoding="utf-8"))
    manifest = Manifest(
        name=Path(awq.path).name,
        source=profile.artifacts.bf16.path,
        source_sha256=job.fingerprint,
        versions=outcome.versions,
        tensors=sum(len(read_header(file)) for file in job.result.glob("*.safetensors")),
        dtype="INT4",
        files=sizes_of(job.result),
        quantization=Quantization(
            recipe=job.recipe,
            calibration=outcome.calibration,
            losses=outcome.losses,
            device=outcome.device,
            threads=outcome.threads,
            seconds=outcome.seconds,
            resumed_layers=outcome.resumed_layers,
        ),
        gate=judge(outcome.losses, awq.gate),
    )
    manifest.write(job.result)
    return manifest


def _replace(target: Path, result: Path) -> None:
    if target.exists():
        old = target.with_name(f".{target.name}.replaced")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        result.rename(target)
        shutil.rmtree(old)
    else:
        result.rename(target)
