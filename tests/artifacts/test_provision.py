from __future__ import annotations

from pathlib import Path

import pytest

from tools.artifacts import provision
from tools.artifacts.errors import ArtifactError
from tools.bootstrap.layout import Layout

MAKER = """
import pathlib, sys
folder = pathlib.Path(sys.argv[1])
print("first", flush=True)
print("second", flush=True)
{behaviour}
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def maker(layout: Layout, behaviour: str) -> None:
    main = layout.home / "tools" / "artifacts" / "__main__.py"
    main.parent.mkdir(parents=True)
    main.write_text(MAKER.format(behaviour=behaviour), encoding="utf-8")


def test_progress_of_the_maker_is_passed_on(layout: Layout) -> None:
    maker(layout, "folder.mkdir(parents=True)")
    phases: list[str] = []
    folder = layout.models / "smollm2-135m-instruct"
    provision.provide(folder, "SmolLM2", layout, phases.append)
    assert phases == ["first", "second"]
    assert folder.is_dir()


def test_a_failure_shows_the_end_of_what_the_maker_said(layout: Layout) -> None:
    maker(layout, "sys.exit('the reason')")
    folder = layout.models / "smollm2-135m-instruct"
    with pytest.raises(ArtifactError) as failure:
        provision.provide(folder, "SmolLM2", layout, lambda _: None)
    assert str(failure.value) == f'"{folder}" could not be made:\n  the reason'


def test_an_interruption_ends_the_maker(layout: Layout) -> None:
    maker(layout, "import time; time.sleep(60)")

    def interrupt(phase: str) -> None:
        if phase == "second":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        provision.provide(layout.models / "smollm2-135m-instruct", "SmolLM2", layout, interrupt)


def test_nothing_is_started_for_what_cannot_be_made(layout: Layout) -> None:
    with pytest.raises(ArtifactError, match="cannot be made here"):
        provision.provide(layout.models / "llama-2-7b-chat", "Llama", layout, lambda _: None)
    assert not layout.logs.exists()
