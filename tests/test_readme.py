"""README.md and README.zh-CN.md: in step with each other, and true of the repository."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tools.bootstrap.commands import COMMANDS
from tools.cli.app import application
from tools.engine.admission import DEFAULT_PRIORITY
from tools.lint.registry import all_rules
from tools.spec import contract
from tools.spec.loading import load_profile
from tools.wire.metric_names import METRICS

ROOT = Path(__file__).resolve().parents[1]
ENGLISH = ROOT / "README.md"
CHINESE = ROOT / "README.zh-CN.md"
BOTH = [ENGLISH, CHINESE]
PAGES = [
    *BOTH,
    ROOT / "docker" / "README.md",
    ROOT / "loadtest" / "README.md",
    ROOT / "loadtest" / "workloads" / "README.md",
    ROOT / "tools" / "drafting" / "README.md",
    ROOT / "tools" / "lint" / "README.md",
    ROOT / "tools" / "planning" / "README.md",
    ROOT / "tools" / "release" / "README.md",
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


on_both = pytest.mark.parametrize("page", BOTH, ids=name_of)
on_every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str
    text: str


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in re.findall(r"^```(\w*)\n(.*?)^```$", read(page), re.M | re.S)]


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", read(page), flags=re.M | re.S)


def headings(page: Path) -> list[tuple[int, str]]:
    """Level and text of every heading."""
    return [(len(marks), text) for marks, text in re.findall(r"^(#+) (.+)$", prose(page), re.M)]


def names_in_code(page: Path) -> set[str]:
    """What stands between backquotes outside the blocks."""
    return set(re.findall(r"`([^`\n]+)`", prose(page)))


def ladder_commands() -> list[tuple[str, list[str]]]:
    """Every line of a block that runs ./ladder, with its page."""
    return [
        (name_of(page), shlex.split(line)[1:])
        for page in PAGES
        for block in blocks(page)
        if block.language == "bash"
        for line in block.text.splitlines()
        if line.startswith("./ladder")
    ]


# In step


def test_both_languages_have_the_same_headings() -> None:
    assert [level for level, _ in headings(ENGLISH)] == [level for level, _ in headings(CHINESE)]


def test_both_languages_have_the_same_commands_and_pictures_in_the_same_sections() -> None:
    def by_section(page: Path) -> list[list[Block]]:
        sections = re.split(r"^#+ .+$", read(page), flags=re.M)
        return [[Block(*b) for b in re.findall(r"^```(\w*)\n(.*?)^```$", part, re.M | re.S)] for part in sections]

    assert by_section(ENGLISH) == by_section(CHINESE)


def test_both_languages_name_the_same_things() -> None:
    """Parameters, models, metrics, files and rules: whatever is code is the same in both."""
    assert names_in_code(ENGLISH) == names_in_code(CHINESE)


def test_both_languages_have_the_same_tables() -> None:
    def shapes(page: Path) -> list[int]:
        return [line.count("|") for line in read(page).splitlines() if line.startswith("|")]

    assert shapes(ENGLISH) == shapes(CHINESE)


# True


@pytest.mark.parametrize(("page", "words"), ladder_commands(), ids=lambda value: str(value)[:60])
def test_every_command_is_one_with_these_options(page: str, words: list[str]) -> None:
    name = words[0]
    assert name in {command.name for command in COMMANDS}, f'{page}: "./ladder {name}" does not exist'
    command = next(known for known in COMMANDS if known.name == name)
    if command.module is None:
        assert words[1:] == []
        return
    found = get_command(application(name))
    arguments = list(words)
    while isinstance(found, TyperGroup) and (arguments or not found.invoke_without_command):
        assert arguments[0] in found.commands, f'{page}: "{arguments[0]}" is no command of "./ladder {name}"'
        found = found.commands[arguments.pop(0)]
    # Parses, checks every option and value, and runs nothing.
    found.make_context(name, arguments)


@on_every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", prose(page)):
        file, _, anchor = target.partition("#")
        linked = page.parent / file if file else page
        assert linked.exists(), f'{name_of(page)}: link "{target}" leads nowhere'
        if anchor:
            assert anchor in {slug(text) for _, text in headings(linked)}, f'{name_of(page)}: no heading "{anchor}"'


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@on_every_page
def test_every_file_it_names_exists(page: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True,
    ).stdout.splitlines()  # fmt: skip
    folders = {str(parent) for file in tracked for parent in Path(file).parents}
    for name in names_in_code(page):
        if re.fullmatch(r"(tools|docker|tests|ensembles|model_repository|loadtest)/[\w./-]*", name):
            assert name.rstrip("/") in folders or name in tracked, f'{name_of(page)}: "{name}" does not exist'


@on_every_page
def test_no_page_names_a_path_of_somebodys_machine(page: Path) -> None:
    assert not re.search(r"(?<![\w.])/(work|root|home|tmp|opt)/", read(page))


@on_every_page
def test_every_rule_it_names_exists(page: Path) -> None:
    assert set(re.findall(r"\bTL\d+\b", read(page))) <= {rule.id for rule in all_rules()}


def test_the_tables_name_every_tensor_and_every_metric() -> None:
    named = names_in_code(ENGLISH)
    inputs = {tensor.name for tensor in (*contract.VLLM_INPUTS, *contract.BASELINE_INPUTS, *contract.TOKENIZER_INPUTS)}
    assert inputs <= named
    families = {name.removesuffix("*") for name in named if name.endswith("*")}
    twins = {"vllm:time_per_output_token_seconds"}
    unnamed = {name for name in METRICS if name not in named and not name.startswith(tuple(families))}
    assert unnamed <= twins
    assert {name for name in named if re.match(r"(vllm:|ladder_)\w+$", name)} <= set(METRICS)


@on_both
def test_the_limits_are_those_of_the_default_profile(page: Path) -> None:
    limits = load_profile().limits
    for name, value in {
        "MAX_WAITING_REQUESTS": limits.max_waiting_requests,
        "MAX_PROMPT_BYTES": limits.max_prompt_bytes,
        "MAX_TOKENS_LIMIT": limits.max_tokens,
        "DEFAULT_DEADLINE_MS": limits.default_deadline_ms,
    }.items():
        assert f"| `{name}` | {value} |" in read(page)
    assert str(DEFAULT_PRIORITY) in read(page)
