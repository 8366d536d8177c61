"""What planning refuses."""


class PlanningError(ValueError):
    """The plan cannot be made from what was given; the text names it and says what to do."""
