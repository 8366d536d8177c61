"""Model folders that a model.json names: what their own files say, read without loading a weight."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

_MOST_BYTES = 32 * 2**20
"""tokenizer.json of a large vocabulary has some 20 MB; anything beyond is not what its name says."""


_CONFIGS = ("config.json", "params.json")
"""By which vLLM knows a model: Hugging Face's format, and Mistral's own."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of a model folder that is missing or cannot be read, and what is wrong with it."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """A local model folder. The mappings are empty where the file is absent or not readable as a JSON object."""

    path: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_config: Mapping[str, Any] = field(default_factory=dict)
    adds_bos: bool | None = None
    """Whether the tokenizer puts a BOS in front of plain text; None where its files do not say."""
    chat_template: str = ""
    weight_bytes: int = 0
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shape of every tensor in safetensors files that can be read."""
    damages: tuple[Damage, ...] = ()
    """What keeps vLLM from loading it as a model; a folder that holds a tokenizer alone has such, too."""

    @property
    def text_config(self) -> Mapping[str, Any]:
        """The language model's part of the config: `text_config` of a multimodal model, else the config itself."""
        inner = self.config.get("text_config")
        return inner if isinstance(inner, dict) else self.config

    def integer(self, key: str) -> int | None:
        """A size out of the language model's config."""
        value = self.text_config.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, key: str) -> str:
        value = self.text_config.get(key, self.config.get(key))
        return value if isinstance(value, str) else ""

    @property
    def quantization(self) -> Mapping[str, Any]:
        value = self.config.get("quantization_config")
        return value if isinstance(value, dict) else {}

    @property
    def weights_dtype(self) -> str:
        """The dtype vLLM's `auto` starts from: `dtype`, or `torch_dtype` in configs older than transformers 5."""
        return (self.text("dtype") or self.text("torch_dtype")).removeprefix("torch.")


def find_artifact(name: str, roots: Iterable[Path]) -> Artifact | None:
    """The folder `name` means, looked for below each root in turn; None for a hub id or a folder that is not here.

    A folder without a config.json counts only where no root has one with it.
    """
    if not name or "\0" in name or len(name) > 4096:
        return None
    bare: Path | None = None
    for root in roots:
        folder = root / name
        try:
            if (folder / "config.json").is_file():
                return read_artifact(folder)
            if bare is None and folder.is_dir():
                bare = folder
        except (OSError, RuntimeError):  # no permission, name too long, symbolic link loop
            continue
    return None if bare is None else read_artifact(bare)


def read_artifact(folder: Path) -> Artifact:
    """Reads config.json, the tokenizer's files, and of the weights their size and the safetensors headers."""
    tokenizer_config = _json_object(folder / "tokenizer_config.json")
    shapes, weight_damages = _read_headers(folder)
    return Artifact(
        path=folder,
        config=_json_object(folder / "config.json"),
        tokenizer_config=tokenizer_config,
        adds_bos=_adds_bos(folder, tokenizer_config),
        chat_template=_chat_template(folder, tokenizer_config),
        weight_bytes=_weight_bytes(folder),
        shapes=shapes,
        damages=(*_config_damages(folder), *weight_damages),
    )


def _post_processor(path: Path) -> Any:
    """That of a tokenizer.json, None without one. Megabytes that all models of a repository share: read once."""
    try:
        status = path.stat()
    except OSError:
        return None
    return _read_post_processor(path.absolute(), status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=16)
def _read_post_processor(path: Path, _inode: int, _size: int, _written_ns: int) -> Any:
    return _json_object(path).get("post_processor")


def _json_object(path: Path) -> Mapping[str, Any]:
    text = _read(path)
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read(path: Path) -> str:
    try:
        # Opening a pipe waits for whoever writes into it.
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _adds_bos(folder: Path, tokenizer_config: Mapping[str, Any]) -> bool | None:
    """`add_bos_token` where it is written; otherwise whether tokenizer.json's post-processor starts with the BOS."""
    flag = tokenizer_config.get("add_bos_token")
    if isinstance(flag, bool):
        return flag
    bos = tokenizer_config.get("bos_token")
    bos_text = bos.get("content") if isinstance(bos, dict) else bos
    processor = _post_processor(folder / "tokenizer.json") if bos_text else None
    if not isinstance(processor, dict):
        return None
    steps = processor.get("processors") if processor.get("type") == "Sequence" else [processor]
    for step in steps if isinstance(steps, list) else ():
        single = step.get("single") if isinstance(step, dict) and step.get("type") == "TemplateProcessing" else None
        first = single[0] if isinstance(single, list) and single else None
        special = first.get("SpecialToken") if isinstance(first, dict) else None
        if isinstance(special, dict) and special.get("id") == bos_text:
            return True
    return False


def _chat_template(folder: Path, tokenizer_config: Mapping[str, Any]) -> str:
    """chat_template.jinja, or the template inside tokenizer_config.json (one text, or the one named 'default')."""
    template = _read(folder / "chat_template.jinja") or tokenizer_config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else ""


def _weight_bytes(folder: Path) -> int:
    try:
        return sum(
            entry.stat().st_size
            for entry in folder.iterdir()
            if entry.suffix in {".safetensors", ".bin", ".gguf", ".pt"}
        )
    except OSError:
        return 0


def _config_damages(folder: Path) -> Iterator[Damage]:
    if not any((folder / name).is_file() for name in _CONFIGS):
        yield Damage("config.json", "is missing")
    elif (folder / "config.json").is_file() and not _json_object(folder / "config.json"):
        yield Damage("config.json", "is no JSON object: cut short, or something else")


def _read_headers(folder: Path) -> tuple[Mapping[str, tuple[int, ...]], list[Damage]]:
    """Shapes out of every safetensors file's header, which also tells whether the file is whole; no weight is read."""
    shapes: dict[str, tuple[int, ...]] = {}
    damages: list[Damage] = []
    try:
        files = sorted(folder.glob("*.safetensors"))
    except OSError:
        return shapes, damages
    for file in files:
        try:
            with safe_open(str(file), framework="numpy") as content:
                shapes |= {name: tuple(content.get_slice(name).get_shape()) for name in content.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            damages.append(Damage(file.name, f"is cut short or no safetensors file ({error})"))
    index = "model.safetensors.index.json"
    named = _json_object(folder / index).get("weight_map")
    missing = set(map(str, named.values())) - {file.name for file in files} if isinstance(named, dict) else set()
    damages += [Damage(name, f"is missing, '{index}' names it") for name in sorted(missing)]
    return shapes, damages
