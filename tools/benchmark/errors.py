"""The error of this package."""


class BenchmarkError(RuntimeError):
    """Why a measurement could not be made, or cannot be trusted; the text says what to do."""
