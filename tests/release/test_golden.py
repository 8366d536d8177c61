"""The golden prompts: what is asked, how answers are compared, and when they will not do."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.client.fakes.running import running
from tests.client.fakes.triton import FakeTriton, Outputs, Say, Seen, Step, engine, tokenizer
from tools.client.address import Protocol
from tools.client.errors import ClientError
from tools.client.request import Target
from tools.release import site
from tools.release.errors import ReleaseError
from tools.release.golden import Comparison, compare, problem_of, score
from tools.release.plan import Golden, GoldenPrompt
from tools.release.site import ServedCandidate, Site
from tools.serving.instance import Instance

PROMPTS = (GoldenPrompt(ask="Capital of France?", expect="paris"), GoldenPrompt(ask="Say something."))
GOLDEN = Golden(prompts=PROMPTS, max_tokens=7, min_equal_percent=10.0, max_score_drop_points=20.0)
STABLE, CANARY = Target("llm_bf16", 1), Target("llm_awq", 1)


def words(seen: Seen) -> Sequence[Step]:
    """A tokenizer that puts a token in front of every text; a word is a token."""
    texts = seen.inputs.get("text_input") or seen.inputs["messages"]
    ids = [1, *(zlib.crc32(word.encode()) % 50_000 for word in texts[0].split())]
    return [Outputs({"prompt": [texts[0]], "input_ids": ids, "num_input_tokens": [len(ids)]})]


def answering(name: str, *answers: str) -> object:
    """An engine with one answer for each golden prompt."""

    def script(seen: Seen) -> Sequence[Step]:
        answer = answers["something" in seen.inputs["text_input"][0]]
        return [Say(answer, tokens=5, finish="stop", final=True)]

    return engine(name, script=script)


def compared(*models: object) -> tuple[FakeTriton, Comparison]:
    triton = FakeTriton(tokenizer(script=words), *models)  # type: ignore[arg-type]
    with running(triton) as address:
        return triton, asyncio.run(compare(address.endpoint(Protocol.GRPC), CANARY, STABLE, GOLDEN))


def test_tokens_are_equal_up_to_the_first_difference_and_scores_are_of_what_is_expected() -> None:
    triton, found = compared(
        answering("llm_bf16", "It is Paris of course", "one two three four"),
        answering("llm_awq", "It is Rome of course", "one two three four"),
    )
    # Two of five and all of four; what the tokenizer puts in front is not counted.
    assert found.equal_percent == pytest.approx((40 + 100) / 2)
    assert (found.prompts, found.score, found.stable_score) == (2, 0.0, 100.0)
    sampled = [seen.sampling for seen in triton.seen if seen.model.startswith("llm")]
    assert len(sampled) == 4
    assert all(sampling == {"temperature": 0.0, "max_tokens": 7} for sampling in sampled)


def test_an_empty_answer_has_no_token_in_common() -> None:
    _, found = compared(answering("llm_bf16", "Paris", "one"), answering("llm_awq", "", ""))
    assert found.equal_percent == 0.0


def test_a_version_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ClientError, match=r'model "llm_awq:1"'):
        compared(answering("llm_bf16", "Paris", "one"))


@pytest.mark.parametrize(
    ("equal", "new", "stable", "says"),
    [
        (
            9.0,
            100.0,
            100.0,
            "2 golden prompts: 9 % of the tokens are equal; quality score 100 %, the stable",
        ),
        (50.0, 79.0, 100.0, "the plan allows it to be 20 points lower"),
        (50.0, 80.0, 100.0, ""),
        (10.0, 100.0, 50.0, ""),
        (10.0, None, None, ""),
    ],
)
def test_what_will_not_do_is_said(equal: float, new: float | None, stable: float | None, says: str) -> None:
    problem = problem_of(GOLDEN, Comparison(prompts=2, equal_percent=equal, score=new, stable_score=stable))
    assert (says in problem) if says else not problem


def test_without_anything_expected_there_is_no_score() -> None:
    assert score((GoldenPrompt(ask="Hi"),), ["anything"]) is None
    assert score(PROMPTS, ["PARIS!", ""]) == 100.0


# Loading


def candidate(tmp_path: Path, grpc_port: int) -> ServedCandidate:
    instance = Instance("fake", grpc_port - 1, "", (str(tmp_path),), (), str(tmp_path))
    return ServedCandidate(Site(instance, tmp_path / "release.yaml", tmp_path / "start.yaml"))


def prepared(tmp_path: Path, target: str, *models: object) -> list[str]:
    triton = FakeTriton(*models)  # type: ignore[arg-type]
    told: list[str] = []
    with running(triton) as address:
        candidate(tmp_path, address.grpc_port).prepare(target, told.append)
    return told


def test_a_version_that_is_ready_and_has_an_engine_is_only_warmed_up(tmp_path: Path) -> None:
    (tmp_path / "llm_awq-1-77.endpoint").touch()
    told = prepared(tmp_path, "llm_awq:1", engine("chat"), tokenizer(script=words), answering("llm_awq", "a", "b"))
    assert told == ['warming "llm_awq:1" up']


def test_a_model_without_an_engine_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "_ENDPOINT_S", 0.0)
    with pytest.raises(ReleaseError, match=r'^"chat_awq:1" has no engine of its own that the router'):
        prepared(tmp_path, "chat_awq:1", engine("chat"), engine("chat_awq"))


def test_without_a_router_nothing_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r'^the router "chat" is not ready: ./ladder status says why$'):
        prepared(tmp_path, "llm_awq:1", engine("llm_awq"))


def test_an_unknown_model_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r'^the repositories hold no model "llm_agw": did you mean "llm_awq"\?$'):
        prepared(tmp_path, "llm_agw:1", engine("chat"), engine("llm_awq"))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            "failed to load 'llm_awq', explicit model load / unload is not allowed",
            r'may not load "llm_awq": it runs without --model-control-mode=explicit, which ./ladder up sets. Start it '
            r"so, or load the version your way first",
        ),
        ("no weights", r'^"llm_awq" does not load: no weights$'),
    ],
)
def test_a_load_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, says: str) -> None:
    class Failing:
        done = True

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Failing:
            return self

        def __exit__(self, *_: object) -> None: ...

        def error(self, model: str) -> str:
            return error

    monkeypatch.setattr(site, "Loading", Failing)
    unloaded = engine("llm_awq", states={"": ("", "")})
    with pytest.raises(ReleaseError, match=says):
        prepared(tmp_path, "llm_awq:1", engine("chat"), unloaded)
