"""What a report says, in Markdown and in HTML: the same."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.reporting.examples import GIT, MACHINE, RUNGS, SETTINGS, V2, V4, cells, report
from tools.reporting.charts import charts
from tools.reporting.document import document
from tools.reporting.figures import Cell
from tools.reporting.html import kind_of_line, slug, to_html
from tools.reporting.markdown import to_markdown
from tools.reporting.model import Report

REPORT = report()
CHARTS = charts(REPORT, {("v2", 8): [1.0, 2.0]})


class Words(HTMLParser):
    """The text of a page, without its styles and charts, and what it refers to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._skipped = 0
        self.words: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in ("style", "svg", "nav")
        if not self._skipped:
            self.links += [value or "" for name, value in attributes if name in ("href", "src")]

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in ("style", "svg", "nav")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def markdown(of: Report = REPORT) -> str:
    return to_markdown(document(of, CHARTS))


def html(of: Report = REPORT) -> str:
    return to_html(document(of, CHARTS), CHARTS)


def row(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_both_have_the_same_figures() -> None:
    # What a figure is in one, a figure is in the other; marks and charts are each one's own.
    def figures(text: str) -> list[str]:
        return re.findall(r"\d[\d.,]*\d|\d", text)

    without_charts = re.sub(r"!\[.*?\]\(.*?\)", "", markdown())
    fences = re.sub(r"^\| [:| -]+\|$", "", without_charts, flags=re.MULTILINE)
    page = Words(html()).text
    assert sorted(figures(fences)) == sorted(figures(page.removeprefix(document(REPORT, CHARTS).title)))


def test_the_seeds_table() -> None:
    text = markdown()
    assert row(text, "| rung |") == [
        *("rung", "TTFT ms", "TPOT ms", "end to end s", "tokens/s at 1", "tokens/s at 32"),
        *("peak memory MiB", "quality"),
    ]
    assert row(text, "| v2 ") == [
        "v2 (vLLM: paged KV cache, continuous batching)",
        *("70.0 (69.3-70.7)", "50.0 (49.5-50.5)", "0.82 (0.81-0.83)", "19.0 (18.8-19.2)", "180 (178-182)"),
        *("1,526", "perplexity 46.0, format 94 %"),
    ]


def test_it_begins_with_what_the_ladder_brought() -> None:
    text = markdown()
    assert "- tokens/s at 32 streams: **16.4 → 180**, v0 → v2: 11.0× better" in text
    assert "- TPOT at 1 stream: **60.0 → 31.0 ms**, v0 → v4: 1.9× better" in text


def test_the_gain_of_each_step_stands_beside_its_diff() -> None:
    text = markdown()
    step = text[text.index("### v3:") : text.index("### v4:")]
    assert '-  "dtype": "bfloat16",' in step
    assert row(step, "| 32 streams") == [
        *("32 streams", "▼ 0.72× (0.72-0.72)", "▼ 0.78× (0.78-0.78)", "▼ 0.68× (0.68-0.68)", "▼ 0.70× (0.70-0.70)")
    ]
    assert "No gain over v2, in no figure and at no level" in step


def test_a_rung_that_drafts_shows_its_acceptance_and_both_comparisons() -> None:
    text = markdown()
    step = text[text.index("### v4:") : text.index("## All figures")]
    assert row(step, "| 8 streams | 1.95") == ["8 streams", "1.95 of 4", "32 %"]
    assert "v4 over v3" in step
    assert "v4 over v2" in step


def failed(reason: str = "3 of 32 requests failed (3 unavailable)") -> list[Cell]:
    """v4 fails at 32, its other repeats are skipped."""
    made = []
    for cell in cells():
        if (cell.rung, cell.level) == ("v4", 32):
            state = "failed" if cell.repeat == 1 else "skipped"
            why = reason if cell.repeat == 1 else "not tried, because the rung failed at concurrency 32"
            made.append(cell.model_copy(update={"state": state, "reason": why, "figures": None}))
        else:
            made.append(cell)
    return made


def test_a_cell_that_failed_is_shown_as_such_and_not_as_a_figure() -> None:
    text = markdown(report(failed()))
    assert row(text, "| v4 ")[5] == "failed"
    assert row(text[text.index("32 streams, 32 requests") :], "| v4 ")[1:] == ["failed"] * 9
    assert "⚠ 3 of 54 cells have no figure: see Not measured." in text
    assert (
        "⚠ No figure at 32: 3 of 32 requests failed (3 unavailable); not tried, because the rung failed at "
        "concurrency 32."
    ) in text
    missing = text[text.index("## Not measured") :]
    assert row(missing, "| v4 ") == ["v4", "32", "1", "▼ failed", "3 of 32 requests failed (3 unavailable)"]


def test_texts_of_servers_cannot_break_a_page() -> None:
    found = report(failed('<script>alert("|")</script> | `x`'))
    assert "<script>" not in html(found)
    assert "&lt;script&gt;" in html(found)
    missing = markdown(found)
    assert r'<script>alert("\|")</script> \| `x` |' in missing


def test_no_figure_at_all_is_still_a_report() -> None:
    nothing = [
        cell.model_copy(update={"state": "failed", "reason": "no server", "figures": None, "peak_memory_bytes": None})
        for cell in cells()
    ]
    found = report(nothing)
    text = to_markdown(document(found, ()))
    assert row(text, "| v0 ")[1:7] == [*["failed"] * 5, "–"]
    assert "⚠ 54 of 54 cells have no figure" in text


def test_how_it_was_measured() -> None:
    text = markdown()
    assert "- One server" not in text
    assert "3 repeats. One server held all rungs, and one was asked at a time; repeats by turns" in text
    assert f"- {MACHINE.text()}" in text
    assert "Seed 0: every rung gets the same prompts" in text
    assert "```sh\n./ladder report --profile cpu-smollm2\n```" in text
    assert "uncommitted changes" not in text
    isolated = markdown(report(settings=SETTINGS.model_copy(update={"isolated": True})))
    assert "Every rung had a server of its own and the machine to itself" in isolated


def test_a_dirty_checkout_and_reused_cells_are_said() -> None:
    made = [cell.model_copy(update={"reused": cell.repeat == 1}) for cell in cells()]
    text = markdown(report(made, git=GIT.model_copy(update={"dirty": True}), stale={"git commit": 4}))
    assert "⚠ The checkout had uncommitted changes" in text
    assert "commit `8eaa592c0ffe and changes`" in text
    assert "18 of them are from an earlier run with the same key." in text
    assert "Earlier cells that did not count any more: 4 for other git commit." in text


def test_warnings_of_every_rung_are_on_the_first_page() -> None:
    made = [
        cell.model_copy(update={"saturated": ("sent 40 ms late",) if cell.rung == "v2" else ()}) for cell in cells()
    ]
    text = markdown(report(made))
    assert "⚠ v2: At 8 the load generator did not keep up: sent 40 ms late." in text[: text.index("## Charts")]


def test_without_32_streams_the_highest_level_stands_for_it() -> None:
    settings = SETTINGS.model_copy(update={"levels": (1, 8)})
    made = [cell for cell in cells((V2, V4)) if cell.level < 32]
    text = markdown(report(made, (V2, V4), settings=settings))
    assert row(text, "| rung |")[4:6] == ["tokens/s at 1", "tokens/s at 8"]


def test_one_repeat_has_no_spread() -> None:
    made = [cell for cell in cells() if cell.repeat == 2]
    text = markdown(report(made, settings=SETTINGS.model_copy(update={"repeats": 1})))
    assert row(text, "| v2 ")[1] == "70.0"


@pytest.mark.parametrize("level", [1, 8, 32])
def test_all_figures_are_in_a_table_a_level(level: int) -> None:
    text = markdown()
    start = text.index(f"{level} stream{'s' if level > 1 else ''}, {max(8, level)} requests")
    assert [row(text[start:], f"| {facts.label} ")[0] for facts in RUNGS] == [facts.label for facts in RUNGS]


def test_the_page_needs_nothing_else() -> None:
    page = html()
    assert all(link.startswith("#") for link in Words(page).links)
    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\((?!#)", page)
    assert page.count("<svg") == len(CHARTS)


def test_every_entry_of_the_contents_leads_to_a_heading() -> None:
    page = html()
    anchors = re.findall(r'<a href="#([^"]+)"', page)
    assert len(anchors) > 8
    assert set(anchors) <= set(re.findall(r'<h\d id="([^"]+)"', page))
    assert slug("v1: FlashAttention-2 (sdpa without it)") == "v1-flashattention-2-sdpa-without-it"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("--- a", "file"),
        ("+++ b", "file"),
        ("@@ -1 +1 @@", "place"),
        ("-x", "removed"),
        ("+x", "added"),
        (" x", ""),
        ("", ""),
    ],
)
def test_lines_of_a_diff(line: str, kind: str) -> None:
    assert kind_of_line(line) == kind
