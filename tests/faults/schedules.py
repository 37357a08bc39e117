"""When faults of single requests happen: by seeded chance, when they are ordered, or at one
counted request."""

import random
from collections.abc import Callable, Mapping
from typing import Protocol

from tests.faults import table
from tests.faults.rows import RequestFault, Sending


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


class Ordered:
    """Each fault once, at the next request that it was ordered for."""

    def __init__(self) -> None:
        self._orders: list[tuple[RequestFault, Callable[[Sending], bool]]] = []

    def order(self, name: str, wanted: Callable[[Sending], bool]) -> None:
        """The next request that this holds for, and that the fault can befall, has it."""
        self._orders.append((table.REQUEST_FAULTS[name], wanted))

    def cancel(self) -> None:
        """Nothing is ordered any more."""
        self._orders.clear()

    @property
    def open(self) -> int:
        """Orders that have not been met yet."""
        return len(self._orders)

    def pick(self, sending: Sending) -> RequestFault | None:
        """The fault that was ordered first of those for this request."""
        for order in self._orders:
            fault, wanted = order
            if fault.befalls(sending) and wanted(sending):
                self._orders.remove(order)
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
