"""Work of which most questions need only a short first part.

The snapshot worker tries the first part in its own process, which costs no fork, keeps what the
engine remembers from one question to the next, and holds up the changes of the leader's memory for
a moment. Only the rest is computed in a process of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Quick:
    """Both are functions of modules, called as work is (`computing`)."""

    first: Callable[..., Any]
    """Returns None if it takes the rest. It changes nothing in the world, takes about as long as
    one decision, and waits for nothing."""
    rest: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        """The answer, in one process."""
        answer = self.first(*arguments)
        return self.rest(*arguments) if answer is None else answer
