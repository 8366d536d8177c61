"""The release file: what is refused and how it is said, that it survives writing, and what the router is told."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tools.bootstrap.layout import Layout
from tools.release.errors import ReleaseFileError
from tools.release.file import (
    compile_release,
    parse_release,
    read_release,
    release_yaml,
    running_file,
    with_weights,
    write_release,
)
from tools.spec.release import Release, Route, WeightedTarget
from tools.wire import release as wire

RELEASE = """\
routes:
- name: gold
  when:
    user: [ann, bob]
    parameters: {tier: gold, seats: [1, 2.0, 2.5], beta: true}
    headers: {X-Team: red}
    prompt_tokens: {over: 10}
  sticky: user
  targets:
  - {model: llm_bf16, version: 1, weight: 99.9}
  - {model: llm_awq, version: 1, weight: 0.1}
- name: default
  targets:
  - {model: llm_eagle, version: 1, weight: 100, max_in_flight: 16}
  fallback:
  - {model: llm_awq, version: 1}
  shadow: {model: llm_awq, version: 2, share: 5}
"""


def refused(old: str, new: str) -> str:
    assert RELEASE.count(old) == 1, f"the example does not hold {old!r} once"
    with pytest.raises(ReleaseFileError) as caught:
        parse_release(RELEASE.replace(old, new), "release.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "weight: 99.9",
            "weight: 99",
            'release.yaml:2: routes.0: the weights of route "gold" add up to 99.1 % (99 + 0.1): they have to make 100',
        ),
        ("weight: 99.9", "weight: 99.93", "routes.0.targets.0.weight: 99.93 % is no multiple of 0.1 %: write 99.9"),
        ("weight: 99.9", "weight: -1", "routes.0.targets.0.weight: Input should be greater than or equal to 0"),
        ("weight: 99.9", 'weight: "99.9"', "routes.0.targets.0.weight: Input should be a valid number"),
        ("sticky:", "stiky:", 'release.yaml:2: routes.0: unknown key "stiky": did you mean "sticky"?'),
        ("share: 5", "percent: 5", 'unknown key "percent": known keys: model, version, share, max_in_flight'),
        ("version: 2", "version: 0", "release.yaml:17: routes.1.shadow.version: Input should be greater than 0"),
        ("llm_eagle", "llm_eagle:1", "release.yaml:14: routes.1.targets.0.model: String should match pattern"),
        (
            "  fallback:\n  - {model: llm_awq, version: 1}\n",
            "",
            'route "default" bounds "llm_eagle:1" to 16 requests in flight and names no target for the rest: '
            'add one to "fallback"',
        ),
        (
            "model: llm_awq, version: 1, weight",
            "model: llm_bf16, version: 1, weight",
            '"targets" of route "gold" holds "llm_bf16:1" twice: keep one of them',
        ),
        (
            "  - {model: llm_awq, version: 1}\n",
            "  - {model: llm_awq, version: 1}\n  - {model: llm_awq, version: 1}\n",
            '"fallback" of route "default" holds "llm_awq:1" twice: keep one of them',
        ),
        ("name: default", "name: gold", 'two routes are called "gold": metrics and commands tell routes apart'),
        (
            "name: default",
            "name: default\n  when: {user: x}",
            'the last route "default" has "when": requests that no route takes would fail, so end with a route '
            'without "when"',
        ),
        (
            RELEASE[RELEASE.index("  when:") : RELEASE.index("  sticky:")],
            "",
            'route "gold" has no "when" and takes every request: put it last',
        ),
        ("user: [ann, bob]", "user: []", "routes.0.when.user: Value should have at least 1 item"),
        ("tier: gold,", "user: ann,", '"when" asks for the user twice: leave out "parameters.user"'),
        ("over: 10", "", '"prompt_tokens" bounds nothing: give "over", "under" or both'),
        ("over: 10", "over: 10, under: 11", "no prompt has over 10 and under 11 tokens"),
        ("name: gold", "name: gold\n  name: g", 'release.yaml:3: key "name" is given twice'),
    ],
)
def test_a_wrong_file_is_refused_with_what_to_do(old: str, new: str, text: str) -> None:
    assert text in refused(old, new)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "release.yaml: a release file is a mapping of keys to values, this file holds nothing"),
        ("- a", "release.yaml: a release file is a mapping of keys to values, this file holds a list"),
        ("routes: []", "release.yaml:1: routes: "),
        ("routes: [{name: x, when: {}, targets: []}]", '"when" asks nothing: give "user", "parameters", "headers" or'),
        ("routes: [", "release.yaml:1: "),
        ("[" * 5000, "release.yaml: it is nested too deeply for a release file"),
    ],
)
def test_what_is_no_release_file_is_refused(text: str, said: str) -> None:
    with pytest.raises(ReleaseFileError) as caught:
        parse_release(text, "release.yaml")
    assert said in str(caught.value)


def test_it_is_compiled_for_the_router() -> None:
    compiled = compile_release(parse_release(RELEASE, "release.yaml"))
    bf16, awq, eagle = (wire.Target(name, 1) for name in ("llm_bf16", "llm_awq", "llm_eagle"))
    assert compiled.routes == [
        wire.Route(
            name="gold",
            targets=[wire.Target("llm_bf16", 1, 999), wire.Target("llm_awq", 1, 1)],
            fallback=[bf16, awq],
            condition=wire.Condition(
                parameters={
                    "user": ["ann", "bob"],
                    "tier": ["gold"],
                    "seats": ["1", "2", "2.5"],
                    "beta": ["true"],
                },
                headers={"x-team": ["red"]},
                over=10,
            ),
            sticky="user",
        ),
        wire.Route(
            name="default",
            targets=[wire.Target(*eagle.identity, 1000, 16)],
            fallback=[awq],
            shadow=wire.Shadow("llm_awq", 2, 50, 16),
        ),
    ]


def test_a_fallback_keeps_the_bound_that_the_target_has() -> None:
    text = (
        RELEASE.replace("weight: 100, max", "weight: 40, max")
        .replace("  fallback:", "  - {model: llm_awq, version: 1, weight: 60, max_in_flight: 3}\n  fallback:")
        .replace(
            "  - {model: llm_awq, version: 1}\n",
            "  - {model: llm_awq, version: 1}\n  - {model: llm_bf16, version: 1}\n",
        )
    )
    default = compile_release(parse_release(text, "release.yaml")).routes[1]
    assert default.fallback == [wire.Target("llm_awq", 1, 0, 3), wire.Target("llm_bf16", 1)]


def test_without_the_key_the_fallback_is_what_has_a_weight() -> None:
    route = Route(
        name="default",
        targets=tuple(
            WeightedTarget(model=name, version=1, weight=weight) for name, weight in (("a", 10), ("b", 0), ("c", 90))
        ),
    )
    assert [target.name for target in route.fallback_targets] == ["c:1", "a:1"]
    assert route.model_copy(update={"fallback": ()}).fallback_targets == ()


weights = st.lists(st.integers(0, 1000), max_size=4).map(lambda cuts: [0, *sorted(cuts), 1000]).map(
    lambda cuts: [(high - low) / 10 for low, high in itertools.pairwise(cuts)]
)  # fmt: skip


@given(weights)
def test_any_weights_of_a_tenth_that_make_100_survive_writing(given_weights: list[float]) -> None:
    targets = tuple(
        WeightedTarget(model="m", version=number, weight=weight) for number, weight in enumerate(given_weights, start=1)
    )
    release = Release(routes=(Route(name="default", targets=targets),))
    assert parse_release(release_yaml(release), "again") == release
    assert sum(target.weight for target in compile_release(release).routes[0].targets) == 1000


def test_it_survives_the_disk(tmp_path: Path) -> None:
    release = parse_release(RELEASE, "release.yaml")
    path = tmp_path / "new" / "release.yaml"
    write_release(path, release)
    inode = path.stat().st_ino
    write_release(path, release)
    assert read_release(path) == release
    assert path.stat().st_ino != inode, "written in place: a reader could see half of it"
    assert [file.name for file in path.parent.iterdir()] == ["release.yaml"]


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseFileError, match=r'no release file ".*/release.yaml": ./ladder render writes'):
        read_release(tmp_path / "release.yaml")
    (tmp_path / "release.yaml").mkdir()
    with pytest.raises(ReleaseFileError, match=r'release file ".*release.yaml" cannot be read: '):
        read_release(tmp_path / "release.yaml")
    with pytest.raises(ReleaseFileError, match=r'cannot write ".*release.yaml": Is a directory'):
        write_release(tmp_path / "release.yaml", parse_release(RELEASE, "release.yaml"))
    assert [file.name for file in tmp_path.iterdir()] == ["release.yaml"]


def test_weights_of_one_route_are_replaced() -> None:
    release = with_weights(parse_release(RELEASE, ""), "default", {"llm_eagle:1": 95.0, "llm_awq:3": 5})
    assert [(target.name, target.weight, target.max_in_flight) for target in release.route("default").targets] == [
        ("llm_eagle:1", 95.0, 16),
        ("llm_awq:3", 5.0, None),
    ]
    assert release.route("gold") == parse_release(RELEASE, "").route("gold")
    alone = with_weights(release, "default", {"llm_awq:3": 100}).route("default")
    assert {target.name: target.weight for target in alone.targets if target.weight} == {"llm_awq:3": 100}
    with pytest.raises(KeyError, match=r'no route "defaul": did you mean "default"\?'):
        with_weights(release, "defaul", {})
    with pytest.raises(ValidationError, match="add up to 90 %"):
        with_weights(release, "default", {"llm_eagle:1": 90})


def test_every_target_is_listed_once() -> None:
    assert list(parse_release(RELEASE, "").targets()) == ["llm_bf16:1", "llm_awq:1", "llm_eagle:1", "llm_awq:2"]


def test_the_running_state_belongs_to_what_an_instance_serves(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    own = running_file(layout, 8000, "cpu-smollm2", ["/a"])
    assert own == tmp_path / ".ladder" / "release" / "8000" / "cpu-smollm2" / "release.yaml"
    others = {
        running_file(layout, 8000, "", ["/a"]),
        running_file(layout, 8000, "", ["/b"]),
        running_file(layout, 8100, "", ["/a"]),
    }
    assert len(others) == 3


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (f"version: {2**31}", r"release.yaml:4: routes.0.targets.0.version: Input should be less than 2147483648$"),
        (f"version: 1, max_in_flight: {2**63}", r"max_in_flight: Input should be less than 9223372036854775808$"),
        (r'version: 1, model: "\ud83d"', r"release.yaml:4: '\\ud83d' holds half of a character that is written as two"),
    ],
)
def test_what_no_message_to_the_router_holds_is_refused(value: str, says: str) -> None:
    model = "" if "model" in value else "model: a, "
    text = f"routes:\n- name: default\n  targets:\n  - {{{model}{value}, weight: 100}}\n"
    with pytest.raises(ReleaseFileError, match=says):
        parse_release(text, "release.yaml")
