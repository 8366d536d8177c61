"""From the name or path of a workload to what a run draws its sessions from."""

from __future__ import annotations

from functools import partial
from importlib import resources
from pathlib import Path
from random import Random
from typing import Final

from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions
from tools.spec.base import unknown_name
from tools.spec.document import Document, DocumentError

from .definition import Definition, Mixture
from .fitting import CountTokens
from .generated import GeneratedWorkload
from .mixture import MixedWorkload
from .planned import Workload
from .recorded import RecordedWorkload

_YAML: Final = (".yaml", ".yml")
_JSONL: Final = ".jsonl"


def workload_names() -> list[str]:
    """Names of the workloads that come with the project, sorted."""
    return sorted(Path(entry.name).stem for entry in _shipped().iterdir() if entry.name.endswith(_YAML))


def load_workload(options: LoadOptions, *, count_tokens: CountTokens | None) -> Workload:
    """The workload that `options` names, with the lengths and sampling parameters they ask for.

    A text with a "/" or one of the suffixes .yaml, .yml and .jsonl is a path, anything else a name.

    Args:
        options: workload, input_tokens, output_tokens, sampling and seed count.
        count_tokens: how many tokens the model under test makes of a text, special tokens that it adds included.
            Makes prompt lengths exact, for about half a dozen calls a request; None estimates, and `notes` say so.

    Raises:
        LoadTestError: there is no such workload, it cannot be read or is not valid, or the tokenizer cannot make a text
            of one of its lengths.
    """
    if "max_tokens" in options.sampling:
        raise LoadTestError('sampling parameter "max_tokens": give the length of the answer with --output-tokens')
    workload = _load(options.workload, Path(), options, count_tokens)
    # The first request is made now, since a tokenizer that fits no text should fail before the run begins.
    next(workload.sessions(Random(0))).next(None)  # noqa: S311  # prompts, not secrets
    return workload


def _load(
    name: str, seen_from: Path, options: LoadOptions, count_tokens: CountTokens | None, *, inside: str | None = None
) -> Workload:
    """`inside` is the mixture that names the workload; a mixture has no mixture in it, so that none holds itself."""
    if name.endswith(_JSONL):
        return RecordedWorkload(seen_from / name, options, count_tokens)
    document = _read(name, seen_from)
    load = partial(_load, options=options, count_tokens=count_tokens, inside=name)
    try:
        if "mix" not in document.data:
            definition = document.check(Definition).overridden(options)
            return GeneratedWorkload(name, definition, options.seed, count_tokens)
        mixture = document.check(Mixture)
    except DocumentError as error:
        raise LoadTestError(str(error)) from None
    if inside is not None:
        raise LoadTestError(f'workload "{inside}": mix: "{name}" is a mix itself: name its parts instead')
    folder = (seen_from / name).parent
    return MixedWorkload(
        name=name,
        description=mixture.description,
        workloads=tuple(load(part, folder) for part in mixture.mix),
        shares=tuple(mixture.mix.values()),
    )


def _read(name: str, seen_from: Path) -> Document:
    if "/" not in name and not name.endswith(_YAML):
        if name not in workload_names():
            raise LoadTestError(unknown_name("workload", name, workload_names(), ".yaml or .jsonl"))
        source = f"{name}.yaml"
        return Document(_shipped().joinpath(source).read_text(encoding="utf-8"), source, "workload")
    path = seen_from / name
    if not path.name.endswith(_YAML):
        raise LoadTestError(f'workload file "{path}": its name must end in {", ".join(_YAML)} or {_JSONL}')
    try:
        return Document(path.read_text(encoding="utf-8"), str(path), "workload")
    except FileNotFoundError:
        raise LoadTestError(
            f'no workload file "{path}": give the path of a YAML or JSONL file, or one of the shipped names '
            f"({', '.join(workload_names())})"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise LoadTestError(f'workload file "{path}" cannot be read: {error}') from None
    except DocumentError as error:
        raise LoadTestError(str(error)) from None
    except ValueError as error:
        raise LoadTestError(f'workload file "{path}" has no name of a file ({error}): give its path') from None


def _shipped() -> resources.abc.Traversable:
    return resources.files(__package__).joinpath("shipped")
