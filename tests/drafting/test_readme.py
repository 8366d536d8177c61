"""tools/drafting/README.md gives the figures of the committed head's manifest."""

from __future__ import annotations

from pathlib import Path

from tools.drafting.manifest import HeadManifest
from tools.spec.loading import load_profile

HOME = Path(__file__).resolve().parents[2]


def test_its_figures_are_the_manifests() -> None:
    draft = load_profile().artifacts.draft
    assert draft is not None
    manifest = HeadManifest.read(HOME / draft.path)
    assert manifest is not None
    found = manifest.acceptance
    assert found is not None
    page = " ".join((HOME / "tools" / "drafting" / "README.md").read_text(encoding="utf-8").split())
    shares = " | ".join(f"{share:.1%}".replace("%", " %") for share in (*found.by_position, found.rate))
    assert f"| accepted | {shares} | {found.mean_length:.3f} |" in page
    assert f"on {found.prompts} unseen prompts ({found.answer_tokens:,} answer tokens)" in page
    assert f"k = {found.num_speculative_tokens}" in page
    data, training = manifest.data, manifest.training
    assert f"in {training.seconds:.0f} s, on {data.training_conversations:,} conversations of" in page
    assert f"{data.training_tokens / 1e6:.2f} million answer tokens, {training.settings.epochs} passes" in page
    assert f"layers {manifest.aux_layers[0]}, {manifest.aux_layers[1]} and {manifest.aux_layers[2]}" in page
