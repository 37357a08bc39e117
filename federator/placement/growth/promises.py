"""What one member's autoscaler is trusted with: the classes of nodes that its MemberCluster states,
less those that did not deliver lately.

The hub keeps it in memory, as what schedulers could not bind: a new leader trusts what is stated,
and learns the same again. Its `placing/unschedulable` writes it, and the member's view reads it;
`simulate` follows the same rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from federator.model import plaintext
from federator.model.scaleup import NodeClass

LATE_TIMES: Final = 2
"""Nodes are late after so many times the stated minutes."""
LEAST_PAUSE_S: Final = 600.0
LONGEST_PAUSE_S: Final = 14_400.0
"""Seconds for which nothing is promised of a class after its nodes were late: twice as long each
time, from ten minutes (or the time that was waited, where that is longer) up to four hours."""


@dataclass(frozen=True, slots=True)
class _Late:
    """A class with nodes that did not come."""

    machines: int
    """Nodes of its type that the cluster had then."""
    pause_s: float
    until_s: float
    """Monotonic time."""
    waited_s: float


class Promises:
    """Mutable; one per member."""

    def __init__(self) -> None:
        self._late: dict[str, _Late] = {}

    def in_force(
        self, stated: Sequence[NodeClass], machines: Mapping[str, int], now_s: float
    ) -> tuple[NodeClass, ...]:
        """The stated classes, those with the reason that deliver nothing for now. A class delivers
        again when its pause is over, or as soon as the cluster has more nodes of its type."""
        if not self._late:
            return tuple(stated)
        return tuple(
            replace(each, late=_sentence(late))
            if (late := self._late.get(each.name)) is not None
            and late.until_s > now_s
            and machines.get(each.instance_type, 0) <= late.machines
            else each
            for each in stated
        )

    def note_late(
        self, node_class: NodeClass, machines: Mapping[str, int], now_s: float
    ) -> str | None:
        """The nodes of a class did not come in time. Returns a sentence on what follows; None when
        that is known already."""
        count, before = machines.get(node_class.instance_type, 0), self._late.get(node_class.name)
        waited_s = late_after_s(node_class)
        pause_s = max(LEAST_PAUSE_S, waited_s)
        if before is not None and count <= before.machines:
            if before.until_s > now_s:
                return None
            pause_s = min(2 * before.pause_s, max(LONGEST_PAUSE_S, pause_s))
        late = _Late(count, pause_s, now_s + pause_s, waited_s)
        self._late[node_class.name] = late
        pause = plaintext.counted(int(pause_s // 60), "minute", "minutes")
        return f"Nodes of {node_class.name} {_sentence(late)}: none are counted on for {pause}."

    def until_s(self, node_class: str) -> float:
        """The monotonic time at which the last pause of a class ends."""
        return self._late[node_class].until_s


def late_after_s(node_class: NodeClass) -> float:
    return float(LATE_TIMES * node_class.minutes * 60)


def _sentence(late: _Late) -> str:
    return f"did not come within {plaintext.counted(int(late.waited_s // 60), 'minute', 'minutes')}"
