"""Whether a member process is alive, by its lease and by the report that only it writes.

The status of a slice is written by that process. If it is silent for longer than the grace period,
the slice's figures are unknown. A process that was silent is believed again once it has looked at
everything (`CATCHING_UP` is gone from its lease). Its clock is not trusted: only that the lease
changes counts. Pure: times are arguments, in seconds of the monotonic clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federator.api import raw
from federator.kube import clock as clocks
from federator.model import names

LEASE = "federator-member"
"""The lease of every member process, in the system namespace of its cluster."""
RENEWED_MAX = 64
"""Characters of its renewTime that are kept: it is compared, never parsed as a time."""


@dataclass(slots=True)
class ProcessWatch:
    """What is known of one member's process."""

    silent_since: str = ""
    """RFC 3339 time since which it is silent; "" while its reports count."""
    heard_s: float | None = None
    """When the lease last changed, or a report came; None before either."""
    _looked_s: float | None = None
    """When the lease was last read: while this process itself stood still, nobody was silent
    (F10)."""
    _renewed: str = ""
    _reported: bool = False
    """A report came since the lease was last read."""

    @property
    def speaks(self) -> bool:
        """Whether what it last wrote may be taken as the present state."""
        return self.heard_s is not None and not self.silent_since

    def recorded(self, silent_since: str) -> None:
        """An earlier hub found it silent: it gets no new grace period from this hub."""
        if self._looked_s is None:
            self.silent_since = silent_since

    def look(
        self, lease: Mapping[str, Any] | None, now_s: float, wall_s: float, grace_s: float
    ) -> None:
        """Takes the lease as it is now; None without one."""
        before_s, self._looked_s = self._looked_s, now_s
        renewed = raw.text(lease or {}, "spec", "renewTime")[:RENEWED_MAX]
        first = before_s is None and not self.silent_since
        moved = bool(renewed) and renewed != self._renewed and (before_s is not None or first)
        alive, self._reported = moved or self._reported, False
        if renewed:
            self._renewed = renewed
        if alive:
            self.heard_s = now_s
        elif self.heard_s is not None and before_s is not None and now_s - before_s > grace_s / 2:
            self.heard_s += now_s - before_s  # the lease could not be read: that is not its silence
        if alive and not catching_up(lease):
            self.silent_since = ""
        elif not self.silent_since and self.heard_s is not None and now_s - self.heard_s > grace_s:
            self.silent_since = clocks.stamp(wall_s - (now_s - self.heard_s))

    def report(self, now_s: float) -> None:
        """Something changed that only the member process writes."""
        self.heard_s, self._reported = now_s, True

    def why(self) -> str:
        """Why it is not believed, as a sentence without a full stop; "" when it is."""
        if self.speaks:
            return ""
        if not self.silent_since:
            return f"no member process has reported there (lease federator-system/{LEASE})"
        return (
            f"its member process has not been heard since {self.silent_since} (lease"
            f" federator-system/{LEASE})"
        )


def catching_up(lease: Mapping[str, Any] | None) -> bool:
    """Whether the process with this lease has not yet looked at everything since its start."""
    return raw.text(lease or {}, "metadata", "annotations", names.CATCHING_UP) == "true"
