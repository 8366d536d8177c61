"""What keeps a load test from running as it was asked to."""


class LoadTestError(Exception):
    """The text names the object in quotes, says what is wrong with it, and what to do."""
