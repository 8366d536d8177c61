"""Load tests of the ladder: `locust -f loadtest/locustfile.py`, with all of Locust's options and ours."""

from __future__ import annotations

import sys
from pathlib import Path

# Locust imports this file by its path alone, with its folder in front of all others: there, "statistics" would be taken
# for Python's. The repository's root stands in for it, twice, because Locust takes the first entry away again.
_FOLDER = Path(__file__).resolve().parent
_ROOT = str(_FOLDER.parent)
sys.path[:] = [_ROOT if Path(entry).resolve() == _FOLDER else entry for entry in sys.path]
sys.path.insert(1, _ROOT)

from loadtest.run.installation import install  # noqa: E402
from loadtest.run.load_shape import LadderShape  # noqa: E402
from loadtest.users.user_classes import GenerateStreamUser, GenerateUser, GrpcStreamUser, OpenAiUser  # noqa: E402

__all__ = ["GenerateStreamUser", "GenerateUser", "GrpcStreamUser", "LadderShape", "OpenAiUser"]

install([GenerateStreamUser, GenerateUser, GrpcStreamUser, OpenAiUser])
