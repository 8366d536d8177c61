"""The stages of making a head, one process each, so that the memory of each is given back.

`./ladder draft` runs them; a GPU machine that has only torch, transformers and vLLM runs them by hand:

    python -m tools.drafting generate --target models/NAME --work WORK --tokens 3000000 --engines 6
    python -m tools.drafting train --target models/NAME --work WORK --head HEAD
    python -m tools.drafting accept --target models/NAME --head HEAD --save
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar, get_args

from pydantic import BaseModel

from tools.drafting.acceptance import AcceptanceSettings
from tools.drafting.architecture import Target
from tools.drafting.commands import Work, accept_stage, train_stage
from tools.drafting.errors import DraftError
from tools.drafting.generation import WriterSettings, WritingSettings, write_conversations
from tools.drafting.training import TrainingSettings
from tools.drafting.whole_file import cannot_write
from tools.drafting.writing import write_with_engines

_INTERRUPTED = 130

Settings = TypeVar("Settings", bound=BaseModel)


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    _end_in_order_on(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        _run(options)
    except DraftError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # a folder or a log that cannot be made
        print(f"error: {cannot_write(Path(error.filename or options.target), error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _end_in_order_on(*signals: signal.Signals) -> None:
    """The first of them ends the stage; what it then clears up, none of them interrupts."""
    # Under nohup a hang-up is ignored on purpose.
    heard = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        for number in heard:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in heard:
        signal.signal(number, interrupt)


def _run(options: argparse.Namespace) -> None:
    # The engines of `generate` run elsewhere, so that they find this package.
    target = Target.read(options.target.resolve())
    if options.stage == "accept":
        accept_stage(target, options.head, _settings(AcceptanceSettings, options), save=options.save, report=_say)
        return
    work = Work(options.work.resolve())
    work.folder.mkdir(parents=True, exist_ok=True)
    if options.stage == "generate":
        writing = _settings(WritingSettings, options)
        write_with_engines(target.folder, work.folder, writing, engines=options.engines, report=_say)
    elif options.stage == "write":
        share = {"writer": options.writer, "writers": options.writers}
        made_by = {"target": target.folder, "target_sha256": target.weights_sha256(), "folder": work.data}
        write_conversations(WriterSettings(**made_by, **share, **dict(_settings(WritingSettings, options))))
    else:
        train_stage(target, work, options.head, _settings(TrainingSettings, options), _say)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.drafting", description=__doc__.splitlines()[0])
    stages = parser.add_subparsers(dest="stage", required=True)
    generate = _stage(stages, "generate", "the target answers prompts", WritingSettings)
    generate.add_argument("--engines", type=int, default=1, help="vLLM processes side by side")
    write = _stage(stages, "write", "one engine of `generate`", WritingSettings)
    write.add_argument("--writer", type=int, required=True)
    write.add_argument("--writers", type=int, required=True)
    train = _stage(stages, "train", "train on the data and write the head", TrainingSettings)
    accept = _stage(stages, "accept", "measure acceptance on unseen prompts", AcceptanceSettings)
    accept.add_argument("--save", action="store_true", help="write the figures into the head's manifest")
    for stage in (generate, write, train):
        stage.add_argument("--work", type=Path, required=True, help="folder for data, checkpoint and loss curve")
    for stage in (train, accept):
        stage.add_argument("--head", type=Path, required=True, help="folder of the head")
    return parser


def _stage(
    stages: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, settings: type[BaseModel]
) -> argparse.ArgumentParser:
    """A stage's parser, with an option for each field of its settings."""
    parser = stages.add_parser(name, help=text)
    parser.add_argument("--target", type=Path, required=True, help="folder of the target's checkpoint")
    for field_name, field in settings.model_fields.items():
        default = "" if field.is_required() or field.default is None else f"default {field.default}"
        parser.add_argument(
            f"--{field_name.replace('_', '-')}",
            type=next(kind for kind in (int, float, Path) if kind in (field.annotation, *get_args(field.annotation))),
            required=field.is_required(),
            default=None if field.is_required() else field.default,
            help="; ".join(filter(None, (field.description, default))),
        )
    return parser


def _settings(model: type[Settings], options: argparse.Namespace) -> Settings:
    return model(**{name: getattr(options, name) for name in model.model_fields})


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
