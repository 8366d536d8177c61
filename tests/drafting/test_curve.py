from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.drafting.full_disk import full_disk
from tools.drafting.checkpoint import Point
from tools.drafting.curve import draw_curve
from tools.drafting.errors import DraftError

TRAINING, UNSEEN = (0x1F, 0x77, 0xB4), (0xD6, 0x27, 0x28)


def points(losses: list[float], unseen: list[float]) -> list[Point]:
    return [
        Point(10 * (number + 1), 1.0, loss, [0.5, 0.5], other, [0.4, 0.4])
        for number, (loss, other) in enumerate(zip(losses, unseen, strict=True))
    ]


def heights(image: Image.Image, colour: tuple[int, int, int], column: int) -> list[int]:
    """Rows of a panel at which a column shows a colour."""
    return [row for row in range(48, 373) if image.getpixel((column, row)) == colour]


def test_both_losses_run_from_left_to_right_and_downwards(tmp_path: Path) -> None:
    draw_curve(points([8.0, 6.0, 4.0], [8.0, 7.0, 6.0]), tmp_path / "loss.png")
    image = Image.open(tmp_path / "loss.png")
    assert image.size == (960, 420)
    left, right = 72, 454
    assert heights(image, TRAINING, left)[0] < heights(image, TRAINING, right)[0]
    # The end of the training loss is the lowest point of the panel, the unseen one's lies in the middle.
    assert heights(image, TRAINING, right)[-1] >= 370
    assert 200 <= heights(image, UNSEEN, right)[0] <= 220


@pytest.mark.parametrize("losses", [[5.0], [5.0, 5.0]], ids=["one point", "a flat line"])
def test_a_run_without_a_slope_is_drawn(tmp_path: Path, losses: list[float]) -> None:
    draw_curve(points(losses, losses), tmp_path / "loss.png")
    assert Image.open(tmp_path / "loss.png").format == "PNG"


def test_a_full_disk_names_the_picture_and_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "loss.png"
    file.write_bytes(b"old")
    with full_disk(), pytest.raises(DraftError, match=rf'^"{file}" cannot be written \('):
        draw_curve(points([5.0, 4.0], [5.0, 4.0]), file)
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]
