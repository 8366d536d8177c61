"""Release plans: the shipped one, what is refused, and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release.errors import ReleaseError
from tools.release.plan import load_plan, parse_plan, shipped_plans


def test_the_shipped_plan_walks_to_all_in_five_steps() -> None:
    assert shipped_plans() == ["canary", "rehearsal"]
    plan = load_plan()
    assert plan.steps == (1, 5, 25, 50, 100)
    assert plan.takes_all
    assert plan.golden is not None
    assert plan.golden.scored


def test_a_short_plan_has_defaults(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("steps: [10, 50]\n", encoding="utf-8")
    plan = load_plan(str(file))
    assert (plan.steps, plan.takes_all, plan.golden) == ((10, 50), False, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("steps: [5, 5]", r'mine.yaml:1: "steps" (5, 5) have to rise, from above 0'),
        ("steps: [0, 5]", r'mine.yaml:1: "steps" (0, 5) have to rise, from above 0'),
        ("steps: [101]", r"mine.yaml:1: steps.0: Input should be less than or equal to 100"),
        ("steps: [0.25]", r"mine.yaml:1: steps.0: 0.25 % is no multiple of 0.1 %: write 0.2"),
        ("steps: []", r"mine.yaml:1: steps: "),
        ("bake_s: 1", r"mine.yaml:1: steps: this key is required"),
        ("steps: [5]\nbake: 3", r'mine.yaml:1: unknown key "bake": did you mean "bake_s"?'),
        ("steps: [5]\nmargins:\n  ttft_p95: 3", r'mine.yaml:2: margins: unknown key "ttft_p95": did you mean'),
        ("steps: [5]\nbake_s: 10\npatience_s: 5", r'"patience_s" (5) is shorter than "bake_s" (10)'),
        ("steps: [5]\nconfidence: 1", r"mine.yaml:2: confidence: Input should be less than 1"),
        ("steps: [5]\ngolden: {prompts: []}", r"mine.yaml:2: golden.prompts: "),
        ("- 5", r"mine.yaml: a release plan is a mapping of keys to values, this file holds a list"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ReleaseError) as refused:
        parse_plan(text, "mine.yaml")
    assert says in str(refused.value)


def test_a_plan_that_is_not_there_is_named() -> None:
    with pytest.raises(ReleaseError, match=r'no plan "canry": did you mean "canary"\?'):
        load_plan("canry")
    with pytest.raises(ReleaseError, match=r'no plan file "none.yaml": give the path of a YAML file, or a shipped'):
        load_plan("none.yaml")
