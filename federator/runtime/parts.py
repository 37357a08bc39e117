"""What a part of the runtime is: identity, secrets, configuration, traffic, logs, metrics.

`federator runtime` runs the parts of one pod in one process: `prepare` in the init run, before the
application starts, then `run` in the sidecar, beside it.
"""

from dataclasses import dataclass
from typing import Final, Protocol

DRAIN_MAX_S: Final = 60.0
"""A drain and the application's own preStop hooks take no longer; admission refuses more."""
DRAIN_TOKEN: Final = "FEDERATOR_DRAIN_TOKEN"
"""Variable of the sidecar: `/drain` answers only those that send the same in the header."""
DRAIN_HEADER: Final = "X-Federator-Drain"


@dataclass(frozen=True, slots=True)
class PartState:
    """How one part of a pod's runtime is now."""

    part: str
    ready: bool
    reason: str
    """CamelCase, as the reason of a condition."""
    message: str
    """One sentence for the owner of the workload; never a secret."""


class Waiting(Exception):
    """A part cannot go on yet: the runner shows `state` and tries again later."""

    def __init__(self, state: PartState) -> None:
        super().__init__(f"{state.part}: {state.message}")
        self.state = state


class Part(Protocol):
    """One part of the runtime of a pod."""

    @property
    def name(self) -> str: ...

    async def prepare(self) -> None:
        """What has to be there before the application starts. May be repeated: what is done
        already is kept. Raises Waiting with the reason while it cannot be done."""

    async def run(self) -> None:
        """Keeps it as it has to be until cancelled. A backend that does not answer changes `state`
        and ends nothing."""

    async def drain(self) -> None:
        """Before the application is told to end: returns when nobody is sent to this pod any
        more, or after the drain time."""

    def state(self) -> PartState: ...
