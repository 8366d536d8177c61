"""Makes one artifact in a process of its own, so that torch's memory is given back afterwards."""

import sys
from pathlib import Path

# Run as a directory by an isolated interpreter: the package is found from the repository's root.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.artifacts.catalogue import main  # noqa: E402

sys.exit(main(sys.argv[1]))
