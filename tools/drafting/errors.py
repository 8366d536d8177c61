"""The error of this package."""


class DraftError(RuntimeError):
    """A head, its data or its target that cannot be used; the text says what to do."""
