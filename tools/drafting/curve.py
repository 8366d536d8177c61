"""The loss curve as a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from tools.drafting.checkpoint import Point
from tools.drafting.objective import mean_acceptance_length
from tools.drafting.whole_file import whole_file

_WIDTH, _HEIGHT = 960, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 24, 48, 48
_INK, _GRID = "#333333", "#dddddd"
_TRAINING, _UNSEEN = "#1f77b4", "#d62728"
_LINES: Final = 5

Panel = tuple[str, list[float], list[float]]


def draw_curve(points: Sequence[Point], file: Path) -> None:
    """Two panels over the training steps: the loss, and the acceptance length estimated from agreement.

    Raises DraftError when the file cannot be written.
    """
    panels: list[Panel] = [
        ("loss", [point.loss for point in points], [point.unseen_loss for point in points]),
        (
            "tokens a step (estimate)",
            [mean_acceptance_length(point.agreement) for point in points],
            [mean_acceptance_length(point.unseen_agreement) for point in points],
        ),
    ]
    image = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    half = _WIDTH // 2
    for number, panel in enumerate(panels):
        _draw_panel(draw, number * half, half, panel, [point.step for point in points])
    with whole_file(file) as partial:
        image.save(partial, format="PNG")


def _draw_panel(draw: ImageDraw.ImageDraw, x0: int, width: int, panel: Panel, steps: list[int]) -> None:
    title, training, unseen = panel
    font = ImageFont.load_default(13)
    left, right, top, bottom = x0 + _LEFT, x0 + width - _RIGHT, _TOP, _HEIGHT - _BOTTOM
    low, high = min(training + unseen), max(training + unseen)
    spread = (high - low) or 1.0
    for line in range(_LINES):
        share = line / (_LINES - 1)
        y = bottom - share * (bottom - top)
        draw.line((left, y, right, y), fill=_GRID)
        draw.text((left - 8, y), f"{low + share * spread:.2f}", fill=_INK, font=font, anchor="rm")
    draw.text((left, top - 26), title, fill=_INK, font=font)
    draw.text((right - 70, top - 26), "training", fill=_TRAINING, font=font, anchor="ra")
    draw.text((right, top - 26), "unseen", fill=_UNSEEN, font=font, anchor="ra")
    draw.text((left, bottom + 10), f"step {steps[0]}", fill=_INK, font=font)
    draw.text((right, bottom + 10), f"{steps[-1]}", fill=_INK, font=font, anchor="ra")
    for values, colour in ((training, _TRAINING), (unseen, _UNSEEN)):
        line_points = [
            (
                left + (step - steps[0]) / ((steps[-1] - steps[0]) or 1) * (right - left),
                bottom - (value - low) / spread * (bottom - top),
            )
            for step, value in zip(steps, values, strict=True)
        ]
        draw.line(line_points, fill=colour, width=2)
