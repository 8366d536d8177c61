"""Entry of the quantising process, run as a directory by the interpreter of an environment of its own."""

import sys
from pathlib import Path

# Run as a directory by an isolated interpreter: the package is found from the repository's root.
sys.path[0] = str(Path(__file__).resolve().parents[4])

from tools.artifacts.quantization.worker.main import main  # noqa: E402

sys.exit(main(Path(sys.argv[1])))
