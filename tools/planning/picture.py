"""The bars as a PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from tools.bootstrap.whole_file import whole_file
from tools.planning.bars import COLOURS, Bar, Chart
from tools.planning.errors import PlanningError
from tools.planning.units import gib

_WIDTH: Final = 1200
_MARGIN: Final = 24
_LABELS: Final = 170
_BAR_HEIGHT: Final = 40
_ROW: Final = 60
_TITLE: Final = 60
_LEGEND: Final = 50
_INK: Final = "#222222"
_LIMIT: Final = "#c44e52"
_NARROWEST_FIGURE: Final = 60
"""Pixels that a figure inside a bar needs."""

_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def write_png(chart: Chart, path: Path) -> None:
    """Draw the chart into `path`, which is replaced as a whole. Raises PlanningError when it cannot be written."""
    try:
        with whole_file(path) as draft:
            draw(chart).save(draft, format="PNG")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PlanningError(f'"{path}" cannot be written: {reason}: name another file with --png') from None


def draw(chart: Chart) -> Image.Image:
    """The chart, 1200 pixels wide: a row per bar, the device's end as a line, a legend."""
    height = _TITLE + _ROW * len(chart.bars) + _LEGEND
    image = Image.new("RGB", (_WIDTH, height), "white")
    canvas = ImageDraw.Draw(image)
    font = ImageFont.load_default(16)
    canvas.text((_MARGIN, 18), f"{chart.title}: {gib(chart.limit)}", fill=_INK, font=ImageFont.load_default(22))
    for row, bar in enumerate(chart.bars):
        _draw_bar(canvas, chart, bar, _TITLE + row * _ROW, font)
    end = _x(chart, chart.limit)
    canvas.line((end, _TITLE - 6, end, _TITLE + _ROW * len(chart.bars) - 14), fill=_LIMIT, width=2)
    _draw_legend(canvas, chart, height - _LEGEND, font)
    return image


def _x(chart: Chart, size: int) -> int:
    start = _MARGIN + _LABELS
    return start + round(size * (_WIDTH - _MARGIN - start) / chart.scale)


def _draw_bar(canvas: ImageDraw.ImageDraw, chart: Chart, bar: Bar, top: int, font: _Font) -> None:
    canvas.text((_MARGIN, top + 10), bar.label, fill=_INK, font=font)
    position = 0
    for segment in bar.segments:
        left, right = _x(chart, position), _x(chart, position + segment.size)
        position += segment.size
        if right > left:
            canvas.rectangle((left, top, right - 1, top + _BAR_HEIGHT), fill=COLOURS[segment.name])
        if right - left >= _NARROWEST_FIGURE:
            middle = ((left + right) // 2, top + _BAR_HEIGHT // 2)
            canvas.text(middle, gib(segment.size), fill=_INK, font=font, anchor="mm")


def _draw_legend(canvas: ImageDraw.ImageDraw, chart: Chart, top: int, font: _Font) -> None:
    left = float(_MARGIN)
    for name in chart.names:
        canvas.rectangle((left, top, left + 16, top + 16), fill=COLOURS[name])
        canvas.text((left + 22, top), name, fill=_INK, font=font)
        left += 22 + canvas.textlength(name, font=font) + 24
