import pytest

from tools.client.chat.commands import HELP, Command, CommandError, Say, parse_line, parse_parameters


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("  hello there \n", Say("hello there")),
        ("\n", None),
        ("   ", None),
        ("/model llm_bf16:1 \n", Command("/model", "llm_bf16:1")),
        ("/reset", Command("/reset", "")),
        ("/system be  brief", Command("/system", "be  brief")),
        ("//model is a word", Say("/model is a word")),
        ("1/2", Say("1/2")),
    ],
)
def test_parse_line(line: str, meaning: object) -> None:
    assert parse_line(line) == meaning


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "/modle x",
            'there is no command "/modle": did you mean "/model"? To say it to the model, write "//modle".',
        ),
        ("/xyzzy", 'there is no command "/xyzzy": /help lists them. To say it to the model, write "//xyzzy".'),
    ],
)
def test_unknown_commands(line: str, message: str) -> None:
    with pytest.raises(CommandError) as refusal:
        parse_line(line)

    assert str(refusal.value) == message


def test_every_command_is_explained_under_its_name() -> None:
    assert all(text.split()[0] == name for name, text in HELP.items())


def test_parse_parameters() -> None:
    assert parse_parameters('temperature=0.7 max_tokens=20 stop=["a"] ignore_eos=true lora_name=doll seed=') == {
        "temperature": 0.7,
        "max_tokens": 20,
        "stop": ["a"],
        "ignore_eos": True,
        "lora_name": "doll",
        "seed": None,
    }


@pytest.mark.parametrize("argument", ["temperature", "=3", "a=1 temperature"])
def test_parameters_without_a_value(argument: str) -> None:
    with pytest.raises(CommandError, match=r"is not of the form NAME=VALUE, for example temperature=0.7$"):
        parse_parameters(argument)
