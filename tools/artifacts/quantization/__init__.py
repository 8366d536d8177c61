"""4-bit AWQ checkpoints: made in an environment of their own, measured against their original, and judged."""
