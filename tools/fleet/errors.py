"""What goes wrong with a fleet."""


class FleetError(RuntimeError):
    """A fleet cannot be started, read or changed; the text says why and what to do."""
