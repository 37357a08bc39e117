"""What decisions say of policies: copies under each policy, and recent moves. It is kept with every
record, because a hub holds a hundred thousand of them and the move budgets ask while others wait.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from federator.hub.records.decisions import Record
from federator.model.names import ObjectName

Account = tuple[str, str, str]
"""The account of a budget: namespace and name of a policy and "" ("required" for what it moves as a
Required policy), or the key of a workload with a placement of its own."""
REQUIRED: Final = "required"
KEPT_S: Final = 120.0
"""Seconds for which a decision that moved copies is kept, by the newest of them: more than the
minute that counts, because the clocks of two leaders may differ."""


class PolicyUse:
    """Copies and recent moves by policy. `note` and `forget` follow the hub's records."""

    def __init__(self) -> None:
        self._copies: dict[Account, int] = {}
        self._moving: OrderedDict[ObjectName, Record] = OrderedDict()
        """Decisions that moved copies, in the order in which they were noted."""
        self._newest_s = 0.0

    def note(self, name: ObjectName, old: Record | None, new: Record) -> None:
        """A decision is stored in place of `old`."""
        if old is not None:
            self._count(name, old, -1)
        self._count(name, new, 1)
        self._moving.pop(name, None)
        if new.terms.moved:
            self._moving[name] = new
            self._newest_s = max(self._newest_s, new.facts.as_of)
            self._drop_old()

    def forget(self, name: ObjectName, old: Record) -> None:
        """A decision is removed."""
        self._count(name, old, -1)
        self._moving.pop(name, None)

    def copies(self) -> dict[Account, int]:
        """Copies, for job sets slots, by the policies of their decisions: a copy of the table."""
        return dict(self._copies)

    def moved_since(self, since_s: float) -> Iterator[Record]:
        """The decisions after this moment that moved copies. Epoch seconds, at most `KEPT_S` before
        the newest of them."""
        return (record for record in self._moving.values() if record.facts.as_of > since_s)

    def _drop_old(self) -> None:
        while self._moving:
            first = next(iter(self._moving.values()))
            if first.facts.as_of > self._newest_s - KEPT_S:
                return
            self._moving.popitem(last=False)

    def _count(self, name: ObjectName, record: Record, sign: int) -> None:
        running = sign * sum(share.slots for share in record.facts.portions)
        if not running:
            return
        for account in _counted_under(name[0], record):
            left = self._copies.get(account, 0) + running
            if left:
                self._copies[account] = left
            else:
                self._copies.pop(account, None)


def _counted_under(namespace: str, record: Record) -> Iterable[Account]:
    terms = record.terms
    under: list[Account] = [("", required, REQUIRED) for required in terms.required]
    if terms.policy_namespace in {"", namespace}:
        under.append((terms.policy_namespace, terms.policy_name, ""))
    return under
