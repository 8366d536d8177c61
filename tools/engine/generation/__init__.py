"""The parts of the transformers baseline: arguments, sampling, rows of a batch, and the call of `generate`."""
