"""The errors of this package."""


class EvaluationError(RuntimeError):
    """Why an evaluation could not be made; the text names the object and what to do."""


class NotMeasurableError(RuntimeError):
    """Why one suite cannot be measured on one rung, by the rung's nature: others can."""
