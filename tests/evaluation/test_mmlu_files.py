"""MMLU's CSV files: what is read, and how a mistake in them is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.evaluation.errors import EvaluationError
from tools.evaluation.mmlu_files import LETTERS, Question, read_subjects
from tools.evaluation.run import DATA

ROW = "Is it, or not?,yes,no,perhaps,never,A\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "dev", "law", "Example?,a,b,c,d,D\n" * 7)
    write(tmp_path, "test", "law", '"Is it, or not?",yes,no,"per\nhaps",never,A\n\nSecond?,1,2,3,4,C\n')
    return tmp_path


def write(folder: Path, part: str, subject: str, text: str) -> Path:
    (folder / part).mkdir(exist_ok=True)
    file = folder / part / f"{subject}_{part}.csv"
    file.write_text(text, encoding="utf-8")
    return file


def refused(folder: Path) -> str:
    with pytest.raises(EvaluationError) as caught:
        read_subjects(folder)
    return str(caught.value)


def test_questions_and_the_first_five_examples(folder: Path) -> None:
    [law] = read_subjects(folder)
    assert law.name == "law"
    assert law.examples == (Question("Example?", ("a", "b", "c", "d"), "D"),) * 5
    assert law.questions == (
        Question("Is it, or not?", ("yes", "no", "per\nhaps", "never"), "A"),
        Question("Second?", ("1", "2", "3", "4"), "C"),
    )


def test_a_folder_without_files(tmp_path: Path) -> None:
    assert refused(tmp_path).startswith(f'"{tmp_path}" holds no test/SUBJECT_test.csv: name the folder of MMLU\'s CSV')


def test_a_subject_without_examples(folder: Path) -> None:
    (folder / "dev" / "law_dev.csv").unlink()
    assert refused(folder).startswith(f'"{folder / "dev" / "law_dev.csv"}" is missing: the 5 examples')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Fine?,a,b,c,d,A\nShort?,a,b,c,A\n", " line 2: the row has 5 columns, not the 6 of question,A,B,C,D,answer: "),
        (ROW, " line 1: the row has 7 columns, not the 6 of question,A,B,C,D,answer: put quotes round a text that "),
        ("Which?,a,b,c,d,E\n", ' line 1: the answer is "E", not one of A, B, C, D'),
        (" ,a,b,c,d,A\n", " line 1: the question is empty"),
        ("\n", " is empty: a row is question,A,B,C,D,answer"),
        ('"Open?,a,b,c,d,A\n', " cannot be read as UTF-8 CSV: unexpected end of data"),
    ],
)
def test_a_mistake_is_named_with_its_line(folder: Path, text: str, message: str) -> None:
    file = write(folder, "test", "law", text)
    assert refused(folder).startswith(f'"{file}"{message}')


def test_the_shipped_set_has_examples_and_every_letter_as_an_answer() -> None:
    subjects = read_subjects(DATA / "choice")
    assert [len(subject.examples) for subject in subjects] == [5] * len(subjects)
    answers = [question.answer for subject in subjects for question in subject.questions]
    assert all(4 <= answers.count(letter) <= 8 for letter in LETTERS)
