"""The domains of a spread rule: which clusters make one, and how many copies lie in each.

A domain is a value of the rule's label on a cluster where a copy lies, or may come to lie under the policy as it is
written. Room is no part of that: a full cluster makes a domain, so that less room never gives more copies. The table of
docs/reference/spread.md says the same for readers.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from federator.model.ask import SpreadRule
from federator.placement.division.division import Party

UNLABELLED: Final = ""
"""The domain of clusters without the label: none under a hard rule, which gives them nothing new; one under a soft."""


def counts(*, held: int, closed: bool, weight: int, most: int | None) -> bool:
    """Whether a cluster makes a domain.

    With copies it does (what lies there, lies there). Without, it does not when closed (a filter refuses it: not
    selected, tainted, cordoned, not ready and the like), weightless (strategy Weighted gives it no weight), or barred
    (maxPerCluster 0). Full (no room), capped (its scheduler could not bind copies lately), left out (maxClusters,
    minPerCluster, or not chosen) and not asked yet are no reasons: they make a domain, with 0 copies.
    """
    return held > 0 or not (closed or weight <= 0 or (most is not None and most <= 0))


class Domains:
    """The domains of one rule with the copies in each."""

    __slots__ = ("few", "high", "least", "skew", "total", "totals", "used", "wants")

    def __init__(self, rule: SpreadRule, totals: dict[str, int], total: int) -> None:
        self.totals = totals
        self.skew = max(rule.max_skew, 0)
        """0: no bound."""
        self.wants = rule.min_domains
        self.few = len(totals) < rule.min_domains
        """With fewer domains than minDomains the least counts as 0, as for pods."""
        self.total = total
        """All copies, those outside every domain (no label under a hard rule) included."""
        counted = totals.values()
        self.least = 0 if self.few else min(counted, default=0)
        self.high = max(counted, default=0)
        self.used = sum(count > 0 for count in counted)

    def excess(self) -> int:
        """Copies by which the fullest domain is further above the least than maxSkew allows."""
        return max(self.high - self.least - self.skew, 0) if self.skew else 0

    def lacking(self) -> int:
        """Domains that are not used although minDomains wants them and there are copies enough."""
        return max(min(self.wants, self.total) - self.used, 0)

    def breach(self, domain: str, block: int, unit: int = 1) -> int:
        """How far the rule would be broken by `block` more copies in a domain: by copies beyond maxSkew, and by one
        when they open none while fewer are used than minDomains. `unit` is the least that is given at a time: no skew
        is bounded more tightly than that."""
        count = self.totals.get(domain)
        if count is None:
            return 0
        breach = 0
        if self.skew:
            breach = count + block - self.least - (self.skew if self.skew > unit else unit)
            if breach <= 0:
                breach = 0
            elif count <= self.least and not self.few:
                low = min((other for name, other in self.totals.items() if name != domain), default=count + block)
                breach = max(count + block - min(low, count + block) - max(self.skew, unit), 0)
        if self.used < self.wants and (count > 0 or (block > unit and self.used + 1 < self.wants)):
            breach += 1
        return breach

    def relief(self, domain: str, block: int) -> int:
        """What is won for the rule when a domain gives up `block` copies: by how much it is above what the rule allows,
        less what the rule would be broken more than now (below 0 when that is more)."""
        count = self.totals.get(domain)
        used = self.used if count is None else self.used - (count > 0 >= count - block)
        broken = max(min(self.wants, self.total - block) - used, 0) - self.lacking()
        if count is None or not self.skew:
            return -broken
        if count - block < self.least and not self.few and len(self.totals) > 1:
            broken += max(self.high - (count - block) - self.skew, 0) - self.excess()
        return max(count - self.least - self.skew, 0) - broken

    def grow(self, domain: str, block: int) -> bool:
        """Counts `block` copies more; whether other domains are judged differently for it. Those that broke nothing
        still break nothing: the least only rises, and so does the number of used domains."""
        self.total += block
        count = self.totals.get(domain)
        if count is None:
            return False
        self.totals[domain] = count = count + block
        self.high = max(self.high, count)
        opened = count == block
        self.used += opened
        if count - block > self.least or self.few:
            return opened
        before, self.least = self.least, min(self.totals.values())
        return opened or before != self.least

    def lower(self, domain: str, block: int) -> bool:
        """Counts `block` copies less; whether any other domain is judged differently for it."""
        self.total -= block
        few_left = self.total <= self.wants
        count = self.totals.get(domain)
        if count is None:
            return few_left
        self.totals[domain] = after = count - block
        before = (self.least, self.high, self.used)
        self.used -= count > 0 >= after
        if count == self.high:
            self.high = max(self.totals.values())
        if after < self.least and not self.few:
            self.least = after
        return few_left or before != (self.least, self.high, self.used)


def of_rule(at: int, rule: SpreadRule, parties: Sequence[Party], idle: Collection[tuple[str, ...]] = ()) -> Domains:
    """The domains of the rule at this place of the policy, over those that take part and the idle ones."""
    totals: dict[str, int] = {}
    total = 0
    for party in parties:
        total += party.seats
        domain = party.domains[at]
        if (party.counted or party.seats > 0) and not (rule.hard and domain == UNLABELLED):
            totals[domain] = totals.get(domain, 0) + party.seats
    for each in idle:
        if not (rule.hard and each[at] == UNLABELLED):
            totals.setdefault(each[at], 0)
    return Domains(rule, totals, total)


def of_idle(parties: Iterable[Party]) -> tuple[tuple[str, ...], ...]:
    """The domains of clusters that were left out and yet count, each once."""
    return tuple(dict.fromkeys(party.domains for party in parties if party.counted))
