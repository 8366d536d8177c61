"""Engine arguments out of vLLM's source."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.lint.vllm_arguments import EngineArguments, dataclass_fields, installed_engine_arguments

SOURCE = '''
from typing import ClassVar
class Unrelated:
    z: int = 0
class Mixin:
    m: bool = False
@dataclass
class EngineArgs(Mixin, Elsewhere):
    """Docs."""
    model: str = ModelConfig.model
    tokens: "int | None" = None
    limits: dict[str, int] = get_field(
        ModelConfig, "limits")
    registry: ClassVar[int] = 3
    plain = 4
    def method(self):
        local: int = 3
@dataclass
class AsyncEngineArgs(EngineArgs):
    enable_log_requests: bool = False
'''


def test_fields_of_a_class_and_its_bases(tmp_path: Path) -> None:
    source = tmp_path / "arg_utils.py"
    source.write_text(SOURCE, encoding="utf-8")
    assert dataclass_fields(source, "AsyncEngineArgs") == {
        "m": "bool",
        "model": "str",
        "tokens": "int | None",
        "limits": "dict[str, int]",
        "enable_log_requests": "bool",
    }


@pytest.mark.parametrize("text", ["class AsyncEngineArgs(AsyncEngineArgs): ...", "def f(: ...", "x = 1", "\0"])
def test_what_is_not_there_gives_nothing(tmp_path: Path, text: str) -> None:
    source = tmp_path / "arg_utils.py"
    source.write_text(text, encoding="utf-8")
    assert dataclass_fields(source, "AsyncEngineArgs") == {}


def test_no_file_gives_nothing(tmp_path: Path) -> None:
    assert dataclass_fields(tmp_path / "absent.py", "AsyncEngineArgs") == {}


def install(monkeypatch: pytest.MonkeyPatch, root: Path, arg_utils: str | None) -> EngineArguments | None:
    """Puts a package named vllm in front of all others that is an error to import."""
    package = root / "vllm"
    (package / "engine").mkdir(parents=True)
    (package / "config").mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    if arg_utils is not None:
        (package / "engine" / "arg_utils.py").write_text(arg_utils, encoding="utf-8")
    (package / "config" / "speculative.py").write_text(
        "class SpeculativeConfig:\n    method: str = ''\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    return installed_engine_arguments()


def test_reads_the_installed_package_without_importing_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = install(monkeypatch, tmp_path, SOURCE)
    assert arguments is not None
    assert "model" in arguments.engine
    assert arguments.speculative == {"method": "str"}
    assert "vllm" not in sys.modules


def test_a_package_without_engine_arguments_counts_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert install(monkeypatch, tmp_path, None) is None


def test_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert installed_engine_arguments() is None
