"""The error of this package."""


class ArtifactError(RuntimeError):
    """An artifact that is missing or unusable; the text says what to do."""
