"""What came of this hub's writes to one member: what exists there, what is being created, what the
member refused, and what something there undid.

Dispatching and deletion report to it with its verbs; it lives as long as its `Member`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from federator.hub.records.slices import VerifiedSlices
from federator.kube.control.write_fights import WriteFightDetector
from federator.model.names import WorkloadKey
from federator.model.table import Numbers, Table


class Refusal(NamedTuple):
    """Why a member refused a write."""

    reason: str
    message: str
    permanent: bool
    """The same write will be refused again."""


@dataclass(slots=True)
class Writes:
    """The outcome of this hub's writes to one member."""

    existing: set[tuple[str, str]] = field(default_factory=set)
    """(kind, name) of namespaces and profile copies that are known to exist there."""
    creating: set[WorkloadKey] = field(default_factory=set)
    """Slices that this process is creating, until the member has answered."""
    verified: VerifiedSlices = field(default_factory=VerifiedSlices)
    in_place: Table[WorkloadKey, int] = field(default_factory=lambda: Table(Numbers()))
    """What each slice that was seen as decided was made from, as a number
    (`hub/dispatch/drift.py`)."""
    put_back: dict[WorkloadKey, str] = field(default_factory=dict)
    """Slices that its member process reports as restored, and what it restored."""
    refused: dict[WorkloadKey, Refusal] = field(default_factory=dict)
    fights: WriteFightDetector[WorkloadKey] = field(
        default_factory=lambda: WriteFightDetector(writes=3, window_s=120.0, pause_s=300.0)
    )
    """Slice writes that something there undid."""

    def observe_existing(self, kind: str, name: str) -> None:
        """A namespace or a profile copy exists there."""
        self.existing.add((kind, name))

    def observe_missing(self, kind: str, name: str) -> None:
        """A namespace or a profile copy is gone."""
        self.existing.discard((kind, name))

    @contextmanager
    def create(self, key: WorkloadKey) -> Iterator[None]:
        """While a slice is being created: until the member has answered, whatever it answers."""
        self.creating.add(key)
        try:
            yield
        finally:
            self.creating.discard(key)

    def observe_in_place(self, key: WorkloadKey, wish: int) -> None:
        """The slice is exactly what this wish makes."""
        self.in_place[key] = wish

    def forget_in_place(self, key: WorkloadKey) -> None:
        """Another wish is about to be written, or the workload is gone."""
        self.in_place.pop(key, None)

    def observe_put_back(self, key: WorkloadKey, what: str) -> None:
        """Its member process reports what it restored of a slice; "" for nothing."""
        if what:
            self.put_back[key] = what
        else:
            self.put_back.pop(key, None)

    def observe_refusal(self, key: WorkloadKey, why: Refusal) -> bool:
        """The member refused a write. Returns whether it is another refusal than before."""
        new = self.refused.get(key) != why
        self.refused[key] = why
        return new

    def observe_accepted(self, key: WorkloadKey) -> bool:
        """Nothing written is refused any more. Returns whether something was."""
        return self.refused.pop(key, None) is not None
