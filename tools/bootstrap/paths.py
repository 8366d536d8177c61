"""Which paths tritonserver's Python backend can serve from.

It starts a stub as `bash -c "exec STUB MODEL ..."` without quoting, and the stub's interpreter decodes paths as ASCII,
whatever the locale: a blank splits the command, so that loading never ends, and `$(...)` would be run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_SERVED: Final = re.compile(r"[A-Za-z0-9_./,:=@%+-]*")


def unserved_character(path: Path) -> str:
    """The first character of a path that the backend cannot take; empty when there is none."""
    text = str(path)
    served = _SERVED.match(text)
    assert served is not None
    return text[served.end() : served.end() + 1]
