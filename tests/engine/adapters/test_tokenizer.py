from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.tiny_model import CONTEXT
from tools.engine.accounting import Accounting
from tools.engine.adapters.tokenizer import TokenizerAdapter
from tools.engine.errors import LaunchError, RequestError
from tools.wire.launch import EngineLaunch
from tools.wire.messages import Request, Tokenize

pytestmark = pytest.mark.anyio

USER = [{"role": "user", "content": "Hi"}]


def make(folder: Path, parameters: dict[str, str] | None = None, **arguments: Any) -> TokenizerAdapter:
    given = {"model": str(folder), "max_model_len": CONTEXT, **arguments}
    return TokenizerAdapter(EngineLaunch("tokenizer", "chat_tokenizer", "1", "", "", given, parameters or {}))


@pytest.fixture
async def adapter(chatml_folder: Path) -> AsyncIterator[TokenizerAdapter]:
    started = make(chatml_folder, {"MAX_PROMPT_BYTES": "400"})
    await started.start(Accounting())
    yield started
    await started.stop()


def messages(*conversation: dict[str, Any]) -> Tokenize:
    return Tokenize(7, json.dumps(conversation), None)


async def test_messages_become_prompt_and_tokens(adapter: TokenizerAdapter, chatml_folder: Path) -> None:
    answer = adapter.tokenize(messages(*USER))
    assert answer.failure is None
    assert answer.key == 7
    assert answer.prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert len(answer.token_ids) > 4


async def test_text_is_taken_as_it_is(adapter: TokenizerAdapter) -> None:
    answer = adapter.tokenize(Tokenize(8, None, "The quick brown"))
    assert (answer.key, answer.prompt, answer.failure) == (8, "The quick brown", None)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Tokenize(1, "[]", "x"), 'both "messages" and "text_input" were sent: send one of them'),
        (Tokenize(1, None, None), 'neither "messages" nor "text_input" was sent: send one of them'),
        (Tokenize(1, None, ""), '"text_input" is empty: there is nothing to answer'),
        (messages({"role": "bot", "content": "x"}), 'message 0 has the role "bot": it takes one of'),
        (Tokenize(1, None, "x" * 401), '"text_input" has 401 bytes: MAX_PROMPT_BYTES allows at most 400'),
        (Tokenize(1, None, "好" * 134), '"text_input" has 402 bytes: MAX_PROMPT_BYTES allows at most 400'),
        (
            messages({"role": "user", "content": "x" * 2400}),
            '"messages" has 2433 bytes of JSON: MAX_PROMPT_BYTES allows prompts of at most 400, whose',
        ),
        (
            messages({"role": "user", "content": "x" * 352}),
            'the prompt made of "messages" has 402 bytes: MAX_PROMPT_BYTES allows at most 400',
        ),
        (
            Tokenize(1, None, "x" * 256),
            '"text_input" has 256 tokens: the context takes 256, of which at least one is for the answer, ',
        ),
        (
            messages({"role": "user", "content": "x" * 255}),
            '"messages" has 268 tokens: the context takes 256, of which',
        ),
    ],
)
async def test_wrong_input_is_refused(adapter: TokenizerAdapter, message: Tokenize, says: str) -> None:
    accounting = Accounting()
    adapter._accounting = accounting
    answer = adapter.tokenize(message)
    assert answer.failure is not None
    assert answer.failure.code == "INVALID_ARG"
    assert answer.failure.message.startswith(says)
    assert (answer.prompt, answer.token_ids) == ("", [])
    assert [(sample.name, sample.label) for sample in accounting.take()] == [
        ("ladder_requests_rejected_total", "invalid")
    ]


async def test_the_longest_prompt_that_fits_is_taken(adapter: TokenizerAdapter) -> None:
    answer = adapter.tokenize(Tokenize(1, None, "x" * 255))
    assert len(answer.token_ids) == CONTEXT - 1


async def test_a_prompt_of_nothing_but_the_bos_is_empty(llama2_folder: Path) -> None:
    started = make(llama2_folder)
    await started.start(Accounting())
    failure = started.tokenize(Tokenize(1, None, "<s>")).failure
    assert failure is not None
    assert failure.message == '"text_input" is empty: there is nothing to answer'


async def test_a_template_file_replaces_the_tokenizers_own(chatml_folder: Path, tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages[0].content }}，", encoding="utf-8")
    started = make(chatml_folder, chat_template=str(template))
    await started.start(Accounting())
    assert started.tokenize(messages(*USER)).prompt == "Hi，"


async def test_a_missing_template_file_is_named(chatml_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=f'the chat template "{tmp_path}/no" named in model.json cannot be read: '):
        await make(chatml_folder, chat_template=f"{tmp_path}/no").start(Accounting())


async def test_a_template_that_breaks_does_not_end_the_engine(chatml_folder: Path, tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages[0].content + 1 }}", encoding="utf-8")
    started = make(chatml_folder, chat_template=str(template))
    await started.start(Accounting())
    failure = started.tokenize(messages(*USER)).failure
    assert failure is not None
    assert failure.code == "INTERNAL"
    assert failure.message.startswith(f'"{chatml_folder}": TypeError: ')


async def test_it_does_not_generate(adapter: TokenizerAdapter) -> None:
    with pytest.raises(RequestError) as refused:
        adapter.prepare(Request(1, "", "x"))
    assert str(refused.value) == '"chat_tokenizer" renders and encodes chats, it does not generate: use "llm_bf16"'
    assert refused.value.code == "UNSUPPORTED"


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(LaunchError) as refused:
        make(Path("m"), chat_templates="x")
    assert str(refused.value) == (
        'model.json of "chat_tokenizer" version 1: key "chat_templates" is unknown: did you mean "chat_template"?'
    )


async def test_json_may_be_longer_than_the_prompt_it_spells(adapter: TokenizerAdapter) -> None:
    escaped = json.dumps([{"role": "user", "content": "好" * 80}], ensure_ascii=True)
    assert len(escaped) > 400
    assert adapter.tokenize(Tokenize(1, escaped, None)).failure is None
