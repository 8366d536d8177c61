import stat
from io import StringIO
from pathlib import Path

import pytest

from tools.client.chat.terminal import StandardTerminal, line_editing

readline = pytest.importorskip("readline")


def test_a_pipe_gives_lines_and_gets_answers_only(capsys: pytest.CaptureFixture[str]) -> None:
    answers = StringIO()
    terminal = StandardTerminal(StringIO("one\ntwo"), answers)

    assert not terminal.interactive
    assert terminal.read_line() == "one\n"
    assert terminal.read_line() == "two"
    with pytest.raises(EOFError):
        terminal.read_line()
    terminal.write_answer("[bold]x")
    terminal.end_answer()
    terminal.notice("[red]noticed")
    terminal.error("[red]failed")

    assert answers.getvalue() == "[bold]x\n"
    assert capsys.readouterr().err == "[red]noticed\nerror: [red]failed\n"


def test_lines_are_recalled_in_the_next_chat(tmp_path: Path) -> None:
    history = tmp_path / "private" / "chat_history"
    readline.clear_history()

    with line_editing(history, []):
        readline.add_history("what is a KV cache?")
    readline.clear_history()
    with line_editing(history, []):
        assert readline.get_history_item(1) == "what is a KV cache?"

    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert [path.name for path in history.parent.iterdir()] == ["chat_history"]


def test_commands_are_completed(tmp_path: Path) -> None:
    with line_editing(tmp_path / "h", ["/model", "/models", "/reset"]):
        complete = readline.get_completer()
        assert [complete("/mo", state) for state in range(3)] == ["/model", "/models", None]
        assert complete("", 0) is None
    assert readline.get_completer() is None
