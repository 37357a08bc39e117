"""How the backends of a part fail."""


class Refusal(Exception):
    """Something cannot be had for a reason that waiting alone does not end. `reason` is CamelCase;
    the message is for the owner of the workload, and has nothing secret."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Away(Exception):
    """A backend does not answer, or what it needs is not there yet. Ask again later."""
