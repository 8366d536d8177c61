"""The error of this package."""


class ServingError(RuntimeError):
    """Why a server cannot be started, stopped or found; the text says what to do."""
