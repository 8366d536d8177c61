"""The stub's side of the transformers baseline."""
