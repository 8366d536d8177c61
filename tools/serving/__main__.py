"""The supervisor's process, run as a directory by an isolated interpreter."""

import sys
from pathlib import Path

# Python put this directory first on the path; the package is found from the repository's root instead.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.serving.supervisor import main  # noqa: E402

sys.exit(main())
