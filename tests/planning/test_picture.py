from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageColor

from tests.planning.examples import ENGINE
from tools.planning.bars import COLOURS, Chart, chart_of
from tools.planning.devices import Device
from tools.planning.errors import PlanningError
from tools.planning.picture import draw, write_png
from tools.planning.plan import plan_memory
from tools.planning.units import GIB


@pytest.fixture
def chart() -> Chart:
    return chart_of(plan_memory("p", [ENGINE], Device("a GPU", "cuda", 80 * GIB)))


def test_the_segments_are_as_wide_as_they_are_large(chart: Chart) -> None:
    image = draw(chart)
    bottom_bar = 60 + 60 + 4  # title, first bar, and past the upper edge of the second
    colours = [image.getpixel((x, bottom_bar)) for x in range(image.width)]
    for name in ("weights", "KV cache", "free"):
        size = next(segment.size for segment in chart.bars[-1].segments if segment.name == name)
        pixels = colours.count(ImageColor.getrgb(COLOURS[name]))
        assert pixels / (1200 - 24 - 194) == pytest.approx(size / chart.scale, abs=0.003)


def test_a_png_is_written_as_a_whole(chart: Chart, tmp_path: Path) -> None:
    file = tmp_path / "plan.png"
    file.write_bytes(b"old")
    write_png(chart, file)
    with Image.open(file) as image:
        assert (image.format, image.size) == ("PNG", (1200, 230))
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_is_not_there_is_named(chart: Chart, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "plan.png"
    with pytest.raises(PlanningError) as caught:
        write_png(chart, file)
    assert str(caught.value) == (f'"{file}" cannot be written: no such file or directory: name another file with --png')


def test_a_folder_in_its_place_leaves_nothing_behind(chart: Chart, tmp_path: Path) -> None:
    (tmp_path / "plan.png").mkdir()
    with pytest.raises(PlanningError, match="is a directory"):
        write_png(chart, tmp_path / "plan.png")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.png"]


def test_an_interruption_leaves_the_picture_before(
    chart: Chart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(_: Image.Image, path: Path, **__: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    (tmp_path / "plan.png").write_bytes(b"old")
    monkeypatch.setattr(Image.Image, "save", save)
    with pytest.raises(KeyboardInterrupt):
        write_png(chart, tmp_path / "plan.png")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"plan.png": b"old"}
