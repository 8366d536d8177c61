import pytest

from tools.client.request import GenerateRequest, Target


@pytest.mark.parametrize(
    ("text", "target"), [("llm_bf16", Target("llm_bf16")), ("llm_baseline:3", Target("llm_baseline", 3))]
)
def test_target_reads_what_it_writes(text: str, target: Target) -> None:
    assert Target.parse(text) == target
    assert str(target) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '"" names no model; write MODEL or MODEL:VERSION'),
        (":1", '":1" names no model; write MODEL or MODEL:VERSION'),
        ("m:", '"m:": the version "" is not a positive integer; write MODEL:VERSION'),
        ("m:0", '"m:0": the version "0" is not a positive integer; write MODEL:VERSION'),
        ("m:-1", '"m:-1": the version "-1" is not a positive integer; write MODEL:VERSION'),
        ("m\n", r"'m\n' has a character that no model's name has; write MODEL or MODEL:VERSION"),
        ("m:²", '"m:²": the version "²" is not a positive integer; write MODEL:VERSION'),
    ],
)
def test_target_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        Target.parse(text)

    assert str(refusal.value) == message


def test_a_stream_cannot_echo() -> None:
    with pytest.raises(ValueError, match=r"^echo repeats the prompt in front of the text"):
        GenerateRequest(prompt="x", echo=True)


def test_a_deadline_lies_in_the_future() -> None:
    with pytest.raises(ValueError, match=r"^deadline_s is 0; give a number of seconds greater than 0, or None$"):
        GenerateRequest(prompt="x", deadline_s=0)
