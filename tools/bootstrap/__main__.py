"""Entry of `./ladder`, run as a directory by an isolated interpreter, so that no PYTHONPATH of the user's counts."""

import sys
from pathlib import Path

# Python put this directory first on the path; the package is found from the repository's root instead.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.bootstrap.entry import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
