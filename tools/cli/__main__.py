"""The command line's process, run as a directory by the isolated interpreter of the engine environment."""

import sys
from pathlib import Path

# Python put this directory first on the path; the package is found from the repository's root instead.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.cli.app import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
