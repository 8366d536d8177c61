"""Names, paths and files of workloads, and what is said about those that are none."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from loadtest.errors import LoadTestError
from loadtest.workloads.catalogue import load_workload, workload_names
from loadtest.workloads.planned import stream
from tests.loadtest.workloads.tokenizers import options

NAMES = "chat, en, fixed-200-256, fixed-50-256, long-context, mix, multi-turn, shared-prefix, zh"
WHOLE = "description: Mine.\nlanguages: {en: 1}\ninput_tokens: 20\noutput_tokens: 5\n"


def refused(workload: str, **others: object) -> str:
    with pytest.raises(LoadTestError) as caught:
        load_workload(options(workload, **others), count_tokens=None)
    return str(caught.value)


def refused_text(folder: Path, text: str) -> str:
    file = folder / "own.yaml"
    file.write_text(text, encoding="utf-8")
    return refused(str(file)).replace(f"{folder}/", "")


def test_what_is_shipped() -> None:
    assert ", ".join(workload_names()) == NAMES
    for name in workload_names():
        workload = load_workload(options(name), count_tokens=None)
        assert workload.name == name
        assert workload.description.endswith(".")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    assert refused("chatt") == (
        f'no workload "chatt": did you mean "chat"? shipped workloads are {NAMES}; '
        "for a file of your own give its path, ending in .yaml or .jsonl"
    )


def test_a_file_that_is_not_there() -> None:
    assert refused("away/own.yaml") == (
        'no workload file "away/own.yaml": give the path of a YAML or JSONL file, or one of the shipped names '
        f"({NAMES})"
    )
    assert refused("away/own.jsonl") == 'no workload file "away/own.jsonl": give the path of a JSONL file'


def test_a_file_of_another_kind() -> None:
    assert refused("prompts/own.csv") == ('workload file "prompts/own.csv": its name must end in .yaml, .yml or .jsonl')


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    assert "Is a directory" in refused(str(tmp_path / "folder.yaml"))
    (tmp_path / "latin.yaml").write_bytes(b"description: caf\xe9\n")
    assert f'workload file "{tmp_path}/latin.yaml" cannot be read: ' in refused(str(tmp_path / "latin.yaml"))


def test_a_workload_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(WHOLE, encoding="utf-8")
    workload = load_workload(options(str(file)), count_tokens=None)
    request = next(workload.sessions(stream(0, 0, 0))).next(None)
    assert request is not None
    assert (workload.name, workload.description, request.max_tokens) == (str(file), "Mine.", 5)
    assert not request.exact


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "own.yaml: a workload is a mapping of keys to values, this file holds nothing"),
        (WHOLE + "turn: 2\n", 'own.yaml:1: unknown key "turn": did you mean "turns"?'),
        (WHOLE + "exact: maybe\n", "own.yaml:5: exact: Input should be a valid boolean"),
        (WHOLE.replace("output_tokens: 5\n", ""), "own.yaml:1: output_tokens: this key is required"),
        (WHOLE.replace("{en: 1}", "{fr: 1}"), "own.yaml:2: languages.fr: Input should be 'en' or 'zh'"),
        (WHOLE.replace("20", "0"), "own.yaml:3: input_tokens: a fixed length is a whole number from 1 on, not 0"),
        (WHOLE + "think_s: {median: 1, p90: 2, max: 3}\n",
         "own.yaml:1: think_s is the time between turns: give turns too, or leave it out"),
        (WHOLE + "form: prompt\nturns: 2\n", 'own.yaml:1: a system message and several turns need "form: messages"'),
        (WHOLE + "sampling: {max_tokens: 3}\n",
         'own.yaml:1: the length of the answer is "output_tokens", not a sampling parameter'),
        (WHOLE + "exact: true\nexact: false\n", 'own.yaml:6: key "exact" is given twice'),
        (WHOLE + "sampling: {top_p: .nan}\n",
         "own.yaml:5: sampling: a sampling parameter is not finite, which JSON cannot say: leave it out"),
        (WHOLE + "system_tokens: 10000000\n",
         "own.yaml:5: system_tokens: Input should be less than or equal to 1000000"),
        (WHOLE + "? [a]\n: 1\n", "own.yaml:5: a key is no name"),
        ("description: 2001-99-99\n",
         "own.yaml: a value cannot be read (month must be in 1..12): write it in quotes"),
        ("description: d\nmix: {}\n",
         "own.yaml:2: mix: Dictionary should have at least 1 item after validation, not 0"),
        ("description: d\nmix: {chat: 0}\n", "own.yaml:2: mix.chat: Input should be greater than 0"),
        ("description: d\nmix: {chat: 1}\nexact: true\n",
         'own.yaml:1: unknown key "exact": known keys: description, mix'),
        ("description: d\nmix: {mix: 1}\n",
         'workload "own.yaml": mix: "mix" is a mix itself: name its parts instead'),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert refused_text(tmp_path, text) == message


@pytest.mark.parametrize("length", ["1" + "0" * 400, "{median: 5, p90: 6, max: 1.0e+9}"])
def test_a_length_that_no_model_has_is_not_made_up(tmp_path: Path, length: str) -> None:
    text = f"description: d\nlanguages: {{en: 1}}\ninput_tokens: {length}\noutput_tokens: 5\n"
    assert "tokens is too much: the most is 1000000" in refused_text(tmp_path, text)


@pytest.mark.parametrize("name", ["\0.yaml", "\0.jsonl", "\ud800.yaml", "\ud800.jsonl"])
def test_what_can_be_no_files_name_is_said(name: str) -> None:
    assert "has no name of a file" in refused(name)


def test_max_tokens_is_no_sampling_parameter() -> None:
    assert refused("chat", sampling={"max_tokens": 5}) == (
        'sampling parameter "max_tokens": give the length of the answer with --output-tokens'
    )


@pytest.mark.slow
def test_a_mixture_draws_its_parts_by_their_shares(tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text(WHOLE, encoding="utf-8")
    (tmp_path / "lines.jsonl").write_text('{"prompt": "Hello", "max_tokens": 3}\n', encoding="utf-8")
    mixture = tmp_path / "own.yaml"
    mixture.write_text("description: d\nmix: {part.yaml: 5, lines.jsonl: 3, fixed-50-256: 2}\n", encoding="utf-8")
    workload = load_workload(options(str(mixture)), count_tokens=None)
    counted: Counter[int] = Counter()
    for session in islice(workload.sessions(stream(0, 0, 0)), 2000):
        request = session.next(None)
        assert request is not None
        counted[request.max_tokens] += 1
    assert counted[5] / 2000 == pytest.approx(0.5, abs=0.05)
    assert counted[3] / 2000 == pytest.approx(0.3, abs=0.05)
    assert counted[256] / 2000 == pytest.approx(0.2, abs=0.05)


def test_a_mixture_checks_the_context_of_each_part() -> None:
    with pytest.raises(LoadTestError, match='workload "multi-turn" goes up to'):
        load_workload(options("mix"), count_tokens=None).check_context(1100)
