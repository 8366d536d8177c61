"""The stub's side of `chat`, the release router."""
