from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tools.engine.errors import LaunchError
from tools.engine.tokenizer_loading import load_tokenizer

TEXTS = ("<s>[INST] Hi [/INST]", "<|im_start|>user\n你好 🙂<|im_end|>\n", "  two  spaces ", "")


@pytest.mark.parametrize("folder", ["chatml_folder", "llama2_folder"])
def test_it_is_the_tokenizer_that_vllm_loads(folder: str, request: pytest.FixtureRequest) -> None:
    path = str(request.getfixturevalue(folder))
    ours, vllms = load_tokenizer(path), AutoTokenizer.from_pretrained(path)
    assert type(ours) is type(vllms)
    for text in TEXTS:
        assert ours.encode(text) == vllms.encode(text)
        assert ours.encode(text, add_special_tokens=False) == vllms.encode(text, add_special_tokens=False)
    assert ours.chat_template == vllms.chat_template


@pytest.mark.slow
def test_a_plain_tokenizer_loads_without_torch(chatml_folder: Path) -> None:
    program = (
        "import sys; from tools.engine.tokenizer_loading import load_tokenizer; load_tokenizer(sys.argv[1]); "
        "print('torch' in sys.modules)"
    )
    home = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", program, str(chatml_folder)],
        cwd=home, capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == "False"


def test_any_other_class_is_left_to_transformers(llama2_folder: Path, tmp_path: Path) -> None:
    for file in llama2_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["tokenizer_class"] = "LlamaTokenizer"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert type(load_tokenizer(str(tmp_path))).__name__ == "LlamaTokenizer"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as refused:
        load_tokenizer(f"{tmp_path}/none")
    assert str(refused.value) == (
        f'model folder "{tmp_path}/none" does not exist in "{Path.cwd()}": make the model artifact first'
    )


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=f'the tokenizer in "{tmp_path}" cannot be loaded: '):
        load_tokenizer(str(tmp_path))
