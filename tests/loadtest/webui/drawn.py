"""What can be seen of a chart."""

from __future__ import annotations

from tests.loadtest.webui.chromium import Page

_PIXELS = """
(chart, color) => {
  const canvas = document.querySelectorAll('.chart canvas')[chart];
  const probe = document.createElement('canvas').getContext('2d');
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--series-' + color).trim();
  probe.fillRect(0, 0, 1, 1);
  const want = probe.getImageData(0, 0, 1, 1).data;
  const have = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let at = 0; at < have.length; at += 4)
    if ([0, 1, 2].every((part) => Math.abs(have[at + part] - want[part]) < 12) && have[at + 3] > 200) found += 1;
  return found;
}
"""


def pixels(page: Page, chart: int, color: int) -> int:
    """How many pixels of a chart have about the colour of a target: a curve that is drawn has hundreds."""
    return int(page.ask(f"({_PIXELS})({chart}, {color})"))
