"""The one error of this package."""


class KitError(Exception):
    """What is wrong and what to do next, for the person at the terminal."""
