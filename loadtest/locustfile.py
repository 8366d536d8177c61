"""Load tests of the ladder: `locust -f loadtest/locustfile.py`, with all of Locust's options and ours."""

from __future__ import annotations

import sys
from pathlib import Path

# Locust is started from anywhere, and imports this file by its path alone.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from loadtest.options import Protocol  # noqa: E402
from loadtest.run.installation import install  # noqa: E402
from loadtest.run.load_shape import LadderShape  # noqa: E402
from loadtest.users.generate import GenerateUser  # noqa: E402
from loadtest.users.generate_stream import GenerateStreamUser  # noqa: E402
from loadtest.users.grpc_stream import GrpcStreamUser  # noqa: E402
from loadtest.users.openai import OpenAiUser  # noqa: E402

__all__ = ["GenerateStreamUser", "GenerateUser", "GrpcStreamUser", "LadderShape", "OpenAiUser"]

install(
    {
        Protocol.GENERATE_STREAM: GenerateStreamUser,
        Protocol.GENERATE: GenerateUser,
        Protocol.GRPC: GrpcStreamUser,
        Protocol.OPENAI: OpenAiUser,
    }
)
