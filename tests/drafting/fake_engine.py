"""Stands in for the interpreter that `writing.py` starts: an engine of `python -m tools.drafting write`.

What it does is in FAKE_ENGINE: "write" a shard, "fail" with a text, "nothing", or "hang" in the middle of a file.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def main(arguments: list[str]) -> None:
    options = dict(zip(arguments[4::2], arguments[5::2], strict=True))
    folder = Path(options["--work"]) / "data"
    match os.environ["FAKE_ENGINE"]:
        case "write":
            from tests.drafting.examples import conversation
            from tools.drafting.conversations import write_shard

            tokens = int(options["--tokens"])
            writer = int(options["--writer"])
            write_shard(folder, writer, [conversation(writer, 8 + tokens)], target_sha256="a", origin="a test")
        case "fail":
            print("the last words of an engine", flush=True)
            sys.exit(3)
        case "hang":
            (folder / f".conversations-00-0000.safetensors.{os.getpid()}.partial").write_bytes(b"half")
            (folder.parent / "pid").write_text(str(os.getpid()), encoding="utf-8")
            time.sleep(600)


main(sys.argv)
