"""The stages as functions over one folder of work: `data/`, `checkpoint.pt`, `loss.png`, `head/`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.manifest import MANIFEST
from tools.drafting.acceptance import AcceptanceSettings
from tools.drafting.architecture import Target
from tools.drafting.conversations import Dataset
from tools.drafting.errors import DraftError
from tools.drafting.manifest import HeadManifest
from tools.drafting.training import TrainingSettings
from tools.drafting.whole_file import cannot_write, whole_file

Report = Callable[[str], None]


@dataclass(frozen=True)
class Work:
    """One run's folder, and what lies where in it."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def curve(self) -> Path:
        return self.folder / "loss.png"

    @property
    def history(self) -> Path:
        return self.folder / "history.json"


def train_stage(target: Target, work: Work, head: Path, settings: TrainingSettings, report: Report) -> HeadManifest:
    """Trains on what `work/data` holds and writes the head. Raises DraftError."""
    from tools.drafting.curve import draw_curve
    from tools.drafting.export import export_head
    from tools.drafting.training import train

    sha256 = target.weights_sha256()
    data = Dataset.read(work.data, sha256)
    report(
        f"{len(data.training):,} conversations to train on, {len(data.unseen):,} unseen; "
        f"draft vocabulary of {settings.draft_vocab_size:,} tokens"
    )
    trained = train(target, data, settings, work.folder, report)
    report(f"the draft vocabulary covers {trained.coverage:.1%} of the answers' tokens")
    points = trained.progress.points
    with whole_file(work.history) as partial:
        partial.write_text(json.dumps([vars(point) for point in points], indent=1) + "\n", encoding="utf-8")
    draw_curve(points, work.curve)
    manifest = export_head(head, trained, target, sha256, data, settings)
    report(f'wrote "{head}" ({sum(manifest.files.values()) / 1e6:.1f} MB) and "{work.curve}"')
    return manifest


def accept_stage(
    target: Target,
    head: Path,
    settings: AcceptanceSettings,
    *,
    save: bool,
    report: Report,
) -> HeadManifest:
    """Measures the head on unseen prompts; `save` writes the figures into its manifest. Raises DraftError."""
    from tools.drafting.acceptance import measure_acceptance
    from tools.drafting.export import read_unseen_prompts

    manifest = check_fits(head, target)
    acceptance = measure_acceptance(target.folder, head, read_unseen_prompts(head), settings)
    measured = manifest.model_copy(update={"acceptance": acceptance})
    if save:
        try:
            measured.write(head)
        except OSError as error:
            raise cannot_write(head / MANIFEST, error) from error
    by_position = ", ".join(f"{rate:.3f}" for rate in acceptance.by_position)
    report(
        f"mean acceptance length {acceptance.mean_length:.3f} over {acceptance.prompts} unseen prompts, "
        f"{acceptance.answer_tokens:,} tokens; by position {by_position}"
    )
    return measured


def check_fits(head: Path, target: Target) -> HeadManifest:
    """The head's manifest. Raises DraftError for a head that is missing, damaged, or another target's."""
    manifest = HeadManifest.read(head)
    if manifest is None:
        raise DraftError(f'"{head}" holds no head with a readable manifest: train one with ./ladder draft train')
    if missing := manifest.missing_from(head):
        raise DraftError(f'"{head}" is damaged: "{missing[0]}" is missing or cut short; train it again, or restore it')
    config = json.loads((head / "config.json").read_text(encoding="utf-8"))
    for key, expected in (("target_hidden_size", target.hidden_size), ("vocab_size", target.vocab_size)):
        if config.get(key) != expected:
            raise DraftError(
                f'"{head}" was made for another target ("{manifest.source}"): its "{key}" is {config.get(key)}, '
                f'"{target.folder}" has {expected}; train a head for this one'
            )
    return manifest
