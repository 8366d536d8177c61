"""Answers and their measurements, for people."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from tools.client.completion import Completion
from tools.client.question import WARM_UP_TOKENS, RungAnswer

_ANSWER_WIDTH = 140
_CAPTION = (
    f"One request at a time, each rung after a warm-up of {WARM_UP_TOKENS} tokens that is not counted. "
    "TPOT = (end to end - TTFT) / (tokens - 1). What batching gains shows only under load."
)


def answers_table(answers: Sequence[RungAnswer]) -> Table:
    """One line a rung: what it adds, the answer, TTFT and TPOT in milliseconds, tokens/s of the one request."""
    table = Table(title="One question, every rung", caption=_CAPTION, caption_justify="left", show_lines=True)
    table.add_column("rung", no_wrap=True)
    table.add_column("what it adds, and its answer", ratio=1, min_width=20)
    for heading in ("TTFT ms", "TPOT ms", "tokens/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for answer in answers:
        rung = Text.assemble((answer.rung.label, "bold"), f"\n{answer.rung.target}")
        content = Text.assemble((f"{answer.rung.adds}{_instead(answer)}", "dim"), "\n", _content(answer))
        table.add_row(rung, content, *_figures(answer.completion))
    return table


def summary(completion: Completion) -> str:
    """One line: who answered, how many tokens, how fast, and why it stopped."""
    parts = [str(completion.served_by)]
    if completion.num_output_tokens is not None:
        parts.append(f"{completion.num_output_tokens} tokens")
    if completion.ttft_s is not None:
        parts.append(f"TTFT {_milliseconds(completion.ttft_s)} ms")
    if completion.tpot_s is not None:
        parts.append(f"TPOT {_milliseconds(completion.tpot_s)} ms")
    if completion.tokens_per_s is not None:
        parts.append(f"{completion.tokens_per_s:.1f} tokens/s")
    if completion.finish_reason == "length":
        parts.append("cut off at max_tokens")
    return " | ".join(parts)


def shortened(text: str, width: int) -> str:
    """The text on one line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3].rstrip()}..."


def _instead(answer: RungAnswer) -> str:
    """Who answered, where that is another than was asked."""
    served_by = answer.completion and answer.completion.served_by
    return f"; this time {served_by}" if served_by and served_by != answer.rung.target else ""


def _content(answer: RungAnswer) -> Text:
    if answer.completion is None:
        return Text(str(answer.error), style="red")
    return Text(shortened(answer.completion.text, _ANSWER_WIDTH))


def _figures(completion: Completion | None) -> tuple[str, str, str]:
    if completion is None:
        return "", "", ""
    rate = completion.tokens_per_s
    return (
        _milliseconds(completion.ttft_s),
        _milliseconds(completion.tpot_s),
        "" if rate is None else f"{rate:.1f}",
    )


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.1f}"
