from __future__ import annotations

from pathlib import Path

import pytest

from tools.artifacts.errors import ArtifactError
from tools.artifacts.quantization.texts import (
    DEFAULT_CALIBRATION,
    HELDOUT,
    Text,
    read_texts,
    sha256_of_texts,
    to_lines,
)

CHAT = '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.\u2028"}]}'


def write(file: Path, content: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
    return file


def test_a_file_of_lines_holds_texts_and_conversations(tmp_path: Path) -> None:
    texts = read_texts(write(tmp_path / "t.jsonl", f'{{"text": "One."}}\n\n{CHAT}\n'))
    assert texts[0] == Text(text="One.")
    assert texts[1].messages is not None
    assert [message.role for message in texts[1].messages] == ["user", "assistant"]
    assert read_texts(write(tmp_path / "again.jsonl", to_lines(texts))) == texts


def test_a_folder_is_read_in_the_order_of_names_without_what_it_does_not_know(tmp_path: Path) -> None:
    write(tmp_path / "b.md", "second")
    write(tmp_path / "a" / "x.txt", "first\nand more")
    write(tmp_path / "c.png", "no text")
    write(tmp_path / "d.txt", " \n")
    assert [text.text for text in read_texts(tmp_path)] == ["first\nand more", "second"]


@pytest.mark.parametrize(("name", "content"), [("e.txt", ""), ("e.jsonl", '{"text": " "}\n'), ("e.csv", "text")])
def test_a_file_with_no_text_is_refused(tmp_path: Path, name: str, content: str) -> None:
    file = write(tmp_path / name, content)
    with pytest.raises(ArtifactError) as refusal:
        read_texts(file)
    assert str(refusal.value) == (
        f'"{file}" holds no text: name a file, or a folder with files, ending in .txt, .md, .jsonl'
    )


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r'nowhere" does not exist: name a file or folder of texts'):
        read_texts(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Invalid JSON"),
        ('{"prompt": "x"}', 'needs either "text" or "messages"'),
        ('{"text": "x", "messages": [{"role": "user", "content": "y"}]}', 'needs either "text" or "messages"'),
        ('{"messages": [{"role": "robot", "content": "y"}]}', "Input should be"),
    ],
)
def test_a_line_that_is_no_text_is_named(tmp_path: Path, line: str, reason: str) -> None:
    file = write(tmp_path / "t.jsonl", f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(ArtifactError, match=r't.jsonl" line 2: ') as refusal:
        read_texts(file)
    assert reason in str(refusal.value)
    assert 'write {"text": "..."} or {"messages": ' in str(refusal.value)


def test_what_is_no_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"abc\xff")
    with pytest.raises(ArtifactError, match=r't.txt" is no UTF-8 text \(invalid start byte at byte 3\): convert it'):
        read_texts(tmp_path / "t.txt")


def test_the_shipped_sets_share_no_text() -> None:
    calibration, heldout = read_texts(DEFAULT_CALIBRATION), read_texts(HELDOUT)
    assert not set(calibration) & set(heldout)
    assert sha256_of_texts(calibration) != sha256_of_texts(heldout)
