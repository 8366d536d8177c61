"""Multiple-choice questions in the files of MMLU (Hendrycks et al., https://github.com/hendrycks/test).

A folder holds `dev/SUBJECT_dev.csv` (the examples) and `test/SUBJECT_test.csv`; each row is question, A, B, C, D,
answer, and there is no header.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import EvaluationError

LETTERS: Final = ("A", "B", "C", "D")
EXAMPLES: Final = 5
_COLUMNS: Final = 6


@dataclass(frozen=True)
class Question:
    """`options` are the texts of A to D, `answer` is one of these letters."""

    text: str
    options: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Subject:
    """The questions of one file, and the examples that stand before each of them."""

    name: str
    examples: tuple[Question, ...]
    questions: tuple[Question, ...]


def read_subjects(folder: Path) -> list[Subject]:
    """Every subject that has a test file, by name. Raises EvaluationError naming file, line and mistake."""
    files = sorted((folder / "test").glob("*_test.csv"))
    if not files:
        raise EvaluationError(
            f'"{folder}" holds no test/SUBJECT_test.csv: name the folder of MMLU\'s CSV files, the one with dev/ and '
            "test/ in it (in the published archive it is called data)"
        )
    return [_subject(folder, file) for file in files]


def _subject(folder: Path, file: Path) -> Subject:
    name = file.name.removesuffix("_test.csv")
    examples = folder / "dev" / f"{name}_dev.csv"
    if not examples.is_file():
        raise EvaluationError(f'"{examples}" is missing: the {EXAMPLES} examples before a question come from there')
    return Subject(name, _questions(examples)[:EXAMPLES], _questions(file))


def _questions(file: Path) -> tuple[Question, ...]:
    questions = []
    try:
        with file.open(encoding="utf-8", newline="") as content:
            rows = csv.reader(content, strict=True)
            for row in rows:
                if row:
                    questions.append(_question(row, f'"{file}" line {rows.line_num}'))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise EvaluationError(f'"{file}" cannot be read as UTF-8 CSV: {error}') from error
    if not questions:
        raise EvaluationError(f'"{file}" is empty: a row is question,A,B,C,D,answer')
    return tuple(questions)


def _question(row: list[str], where: str) -> Question:
    if len(row) != _COLUMNS:
        raise EvaluationError(
            f"{where}: the row has {len(row)} columns, not the {_COLUMNS} of question,A,B,C,D,answer: put quotes "
            "round a text that holds a comma"
        )
    text, *options, answer = (cell.strip() for cell in row)
    if not text:
        raise EvaluationError(f"{where}: the question is empty")
    if answer not in LETTERS:
        raise EvaluationError(f'{where}: the answer is "{answer}", not one of {", ".join(LETTERS)}')
    return Question(text, tuple(options), answer)
