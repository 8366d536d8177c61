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
from typing import NoReturn

from tools.drafting.architecture import Target
from tools.drafting.commands import Work, accept_stage, train_stage
from tools.drafting.errors import DraftError
from tools.drafting.generation import WriterSettings, write_conversations
from tools.drafting.training import TrainingSettings
from tools.drafting.whole_file import cannot_write
from tools.drafting.writing import write_with_engines

_INTERRUPTED = 130


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
        _accept(options, target)
        return
    work = Work(options.work.resolve())
    work.folder.mkdir(parents=True, exist_ok=True)
    if options.stage == "generate":
        write_with_engines(
            target.folder,
            work.folder,
            tokens=options.tokens,
            engines=options.engines,
            seconds=options.seconds,
            longest=options.longest,
            at_once=options.at_once,
            seed=options.seed,
            prompts=options.prompts,
            report=_say,
        )
    elif options.stage == "write":
        write_conversations(_writer_settings(options, target, work))
    else:
        train_stage(target, work, options.head, _training_settings(options), _say)


def _accept(options: argparse.Namespace, target: Target) -> None:
    accept_stage(
        target,
        options.head,
        num_speculative_tokens=options.num_speculative_tokens,
        prompts=options.prompts,
        max_tokens=options.max_tokens,
        at_once=options.at_once,
        save=options.save,
        report=_say,
    )


def _writer_settings(options: argparse.Namespace, target: Target, work: Work) -> WriterSettings:
    return WriterSettings(
        target=target.folder,
        target_sha256=target.weights_sha256(),
        folder=work.data,
        writer=options.writer,
        writers=options.writers,
        tokens=options.tokens,
        seconds=options.seconds,
        longest=options.longest,
        at_once=options.at_once,
        seed=options.seed,
        prompts=options.prompts,
    )


def _training_settings(options: argparse.Namespace) -> TrainingSettings:
    given = {name: getattr(options, name) for name in TrainingSettings.model_fields}
    return TrainingSettings(**{name: value for name, value in given.items() if value is not None})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.drafting", description=__doc__.splitlines()[0])
    stages = parser.add_subparsers(dest="stage", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--target", type=Path, required=True, help="folder of the target's checkpoint")
    kept = argparse.ArgumentParser(add_help=False)
    kept.add_argument("--work", type=Path, required=True, help="folder for data, checkpoint and loss curve")
    writing = argparse.ArgumentParser(add_help=False)
    writing.add_argument("--tokens", type=int, required=True, help="answer tokens, those of earlier runs included")
    writing.add_argument("--seconds", type=float, default=1e9, help="no new batch after this")
    writing.add_argument("--longest", type=int, default=512, help="tokens of a conversation, prompt included")
    writing.add_argument("--at-once", type=int, default=64, help="conversations an engine answers together")
    writing.add_argument("--seed", type=int, default=0)
    writing.add_argument("--prompts", type=Path, help="a prompt a line; without it the target writes them")
    generate = stages.add_parser("generate", parents=[common, kept, writing], help="the target answers prompts")
    generate.add_argument("--engines", type=int, default=1, help="vLLM processes side by side")
    write = stages.add_parser("write", parents=[common, kept, writing], help="one engine of `generate`")
    write.add_argument("--writer", type=int, required=True)
    write.add_argument("--writers", type=int, required=True)
    train = stages.add_parser("train", parents=[common, kept], help="train on the data and write the head")
    train.add_argument("--head", type=Path, required=True, help="folder that gets the head")
    for name, field in TrainingSettings.model_fields.items():
        kind = type(field.default)
        train.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"default {field.default}")
    accept = stages.add_parser("accept", parents=[common], help="measure acceptance on unseen prompts")
    accept.add_argument("--head", type=Path, required=True)
    accept.add_argument("--num-speculative-tokens", type=int, default=3)
    accept.add_argument("--prompts", type=int, default=200, help="how many unseen prompts")
    accept.add_argument("--max-tokens", type=int, default=256)
    accept.add_argument("--at-once", type=int, default=16)
    accept.add_argument("--save", action="store_true", help="write the figures into the head's manifest")
    return parser


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
