"""The error of this package."""


class LoadTestError(Exception):
    """Why a load test cannot run; the text names the object, what is wrong with it and what to do."""
