"""When a pod is to be in the registry: one table of phases and signs. Pure; times are arguments, in
seconds of one monotonic clock.

The registry is asked for one effect at a time. Every effect may be repeated: a write of an entry
that is there already, and a removal of one that is not, succeed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

RETRY_FIRST_S: Final = 0.2
RETRY_MAX_S: Final = 10.0
"""The longest wait after a failed request. While the registry is away for an hour, a pod asks six
times a minute at most."""
CHECK_S: Final = 60.0
"""The entry of a serving pod is looked at so often: somebody may have removed it."""


RECONNECT_S: Final = 0.5
"""All pods of a registry that comes back ask it within this time, not at one moment."""


class Phase(Enum):
    WAITING = "Waiting"
    """The application is not ready; the pod has no entry."""
    JOINING = "Joining"
    """It is ready, and the entry has to be written."""
    SERVING = "Serving"
    """The entry is there."""
    LEAVING = "Leaving"
    """It is not ready any more, and the entry has to be removed."""
    DRAINING = "Draining"
    """The pod ends, and the entry has to be removed."""
    GONE = "Gone"
    """The pod ends and has no entry. Nothing leads out of this phase."""


class Sign(Enum):
    READY = "ready"
    UNREADY = "unready"
    WRITTEN = "written"
    REMOVED = "removed"
    LOST = "lost"
    """The session has ended, and its entry with it."""
    DRAIN = "drain"


class Effect(Enum):
    WRITE = "write"
    REMOVE = "remove"


MOVES: Final[Mapping[tuple[Phase, Sign], Phase]] = {
    (Phase.WAITING, Sign.READY): Phase.JOINING,
    (Phase.WAITING, Sign.DRAIN): Phase.GONE,
    (Phase.JOINING, Sign.WRITTEN): Phase.SERVING,
    (Phase.JOINING, Sign.UNREADY): Phase.LEAVING,
    (Phase.JOINING, Sign.DRAIN): Phase.DRAINING,
    (Phase.SERVING, Sign.UNREADY): Phase.LEAVING,
    (Phase.SERVING, Sign.LOST): Phase.JOINING,
    (Phase.SERVING, Sign.DRAIN): Phase.DRAINING,
    (Phase.LEAVING, Sign.REMOVED): Phase.WAITING,
    (Phase.LEAVING, Sign.READY): Phase.JOINING,
    (Phase.LEAVING, Sign.DRAIN): Phase.DRAINING,
    (Phase.DRAINING, Sign.REMOVED): Phase.GONE,
}
"""A sign that is not in the table for a phase changes nothing. A write that was under way when the
phase changed is answered in LEAVING or DRAINING, and the removal follows it. A lost session ends
neither of them: the entry may be that of an earlier sidecar of the pod, and a removal finds out.
"""
EFFECTS: Final[Mapping[Phase, Effect]] = {
    Phase.JOINING: Effect.WRITE,
    Phase.SERVING: Effect.WRITE,
    Phase.LEAVING: Effect.REMOVE,
    Phase.DRAINING: Effect.REMOVE,
}


@dataclass(frozen=True, slots=True)
class Standing:
    """One pod's place in the registry."""

    phase: Phase = Phase.WAITING
    served: bool = False
    """It has been in the registry since it was last not ready. Such a pod stays ready for the
    kubelet when the registry is away."""
    due_s: float = 0.0
    """When the effect of the phase is asked for next."""
    failures: int = 0
    """Failed requests in a row."""
    why: str = ""
    """Why the last one failed; "" after a success."""

    def after(self, sign: Sign, now_s: float) -> "Standing":
        phase = MOVES.get((self.phase, sign), self.phase)
        answered = sign in (Sign.WRITTEN, Sign.REMOVED)
        # A registry that refuses has to be waited for in the next phase too; a drain is urgent.
        waits = self.failures and not answered and sign is not Sign.DRAIN
        after = Standing(
            phase=phase,
            served=phase is Phase.SERVING or (self.served and phase in _SERVES),
            due_s=self.due_s if waits or phase is self.phase else now_s,
            failures=0 if answered else self.failures,
            why="" if answered else self.why,
        )
        if phase is Phase.SERVING and sign is Sign.WRITTEN:
            return replace(after, due_s=now_s + CHECK_S)
        return after

    def failed(self, why: str, now_s: float, chance: float) -> "Standing":
        """The standing after a failed request. `chance`: between 0 and 1; pods that lost their
        registry at the same time do not come back at the same time."""
        wait_s = min(RETRY_FIRST_S * 2.0 ** min(self.failures, 16), RETRY_MAX_S)
        due_s = now_s + wait_s * (0.5 + 0.5 * chance)
        return replace(self, failures=self.failures + 1, why=why, due_s=due_s)

    def effect(self, now_s: float) -> Effect | None:
        return EFFECTS.get(self.phase) if now_s >= self.due_s else None

    def hurried(self, now_s: float, chance: float) -> "Standing":
        """The standing when the registry is reached again: what is due, is due within
        `RECONNECT_S`."""
        return replace(self, due_s=min(self.due_s, now_s + RECONNECT_S * chance))

    @property
    def ready(self) -> bool:
        """What the kubelet is answered. True while clients may have been sent here by an entry of
        this pod: a registry that is away makes no pod unready."""
        return self.phase in (Phase.SERVING, Phase.DRAINING) or self.served


_SERVES: Final = (Phase.JOINING, Phase.SERVING, Phase.DRAINING)
