"""When faults of single requests happen: by seeded chance, or at one counted request."""

import random
from collections.abc import Mapping
from typing import Protocol

from federator.sandbox.faults import table
from federator.sandbox.faults.rows import RequestFault, Sending


class Schedule(Protocol):
    """Says which fault, if any, befalls a request."""

    def pick(self, sending: Sending) -> RequestFault | None: ...


class Seeded:
    """Each fault with its own chance in a thousand, drawn from one generator; nothing after
    `stop`."""

    def __init__(self, rng: random.Random, per_mille: Mapping[str, int]) -> None:
        unknown = sorted(set(per_mille) - set(table.REQUEST_FAULTS))
        if unknown:
            raise ValueError(f"there is no fault {unknown[0]!r} of single requests in the table")
        self._rng = rng
        self._chances = [
            (table.REQUEST_FAULTS[name], chance) for name, chance in per_mille.items() if chance
        ]
        self.stopped = False

    def stop(self) -> None:
        """Faults are over: the world may settle."""
        self.stopped = True

    def pick(self, sending: Sending) -> RequestFault | None:
        """The first fault whose draw succeeds."""
        if self.stopped:
            return None
        for fault, chance in self._chances:
            if fault.befalls(sending) and self._rng.randrange(1000) < chance:
                return fault
        return None


class Exactly:
    """One fault at the n-th request that it can befall (counted from 0 over all API servers): for
    enumeration."""

    def __init__(self, name: str, nth: int) -> None:
        self._fault = table.REQUEST_FAULTS[name]
        self._nth = nth
        self.seen = 0
        """Requests so far that the fault could have hit; a run without it counts them all."""

    def pick(self, sending: Sending) -> RequestFault | None:
        """The fault, once."""
        if not self._fault.befalls(sending):
            return None
        self.seen += 1
        return self._fault if self.seen == self._nth + 1 else None
