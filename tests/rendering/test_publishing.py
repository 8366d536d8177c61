"""Rendering ends in the lint: what is shipped is clean, and what lies beside it is looked at too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint import Severity
from tools.rendering.publishing import publish
from tools.spec.loading import load_profile, shipped_profiles


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_profiles())
def test_every_shipped_profile_renders_to_a_clean_repository(name: str, tmp_path: Path) -> None:
    publication = publish(load_profile(name), tmp_path)
    assert publication.rendering.written
    assert publication.lint.models == 2 * len(load_profile(name).enabled_variants) + 2
    assert [str(finding) for finding in publication.lint.findings if finding.severity is not Severity.NOTE] == []


def test_a_model_beside_the_rendered_ones_is_linted_too(tmp_path: Path) -> None:
    own = tmp_path / "model_repository" / "own"
    (own / "1").mkdir(parents=True)
    (own / "config.pbtxt").write_text("dynamic batching { }", encoding="utf-8")
    publication = publish(load_profile(), tmp_path)
    assert publication.lint.failed
    assert {finding.path for finding in publication.lint.findings} == {own / "config.pbtxt"}


def test_pruned_files_are_not_linted(tmp_path: Path) -> None:
    own = tmp_path / "model_repository" / "own" / "1"
    own.mkdir(parents=True)
    (own.parent / "config.pbtxt").write_text("dynamic batching { }", encoding="utf-8")
    assert not publish(load_profile(), tmp_path, prune=True).lint.failed
