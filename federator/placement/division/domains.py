"""Domains of a spread rule: which clusters make one, and how many copies each has.

A domain is a value of the rule's label on a cluster that has copies, or may get some under the
policy as written. Free room does not matter: a full cluster still makes a domain, so that less room
never leads to more copies. docs/reference/spread.md has the same table.

    maxSkew 1, copies by zone a 3, b 1: least 1, excess 3 - 1 - 1 = 1
    one more in a: breach 3 + 1 - 1 - 1 = 2; one more in b: breach 1 + 1 - 1 - 1 = 0
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from federator.model.policy import SpreadRule
from federator.placement.division.division import Party

UNLABELLED: Final = ""
"""Domain of clusters without the label. Under a hard rule it is no domain and gets nothing new;
under a soft rule it is an ordinary domain."""


BETWEEN: Final = "\0"
"""Between the domains of a cluster that lies in several. No label value has this character."""


def joined(domains: Iterable[str]) -> str:
    """The domains of one cluster as one text."""
    return BETWEEN.join(domains)


def parts(domain: str) -> tuple[str, ...]:
    """The domains of a cluster: its own one, or several. Each of its copies counts as one in each
    of them."""
    return tuple(domain.split(BETWEEN)) if BETWEEN in domain else (domain,)


def each_of(domains: Iterable[str]) -> set[str]:
    """The domains that clusters lie in, each once."""
    made = {*domains}
    if BETWEEN in "".join(made):  # one search for all
        made = {part for domain in made for part in parts(domain)}
    return made


def share(domain: str, other: str) -> bool:
    """Whether two clusters have a domain in common."""
    if domain == other or (BETWEEN not in domain and BETWEEN not in other):
        return domain == other
    return not frozenset(parts(domain)).isdisjoint(parts(other))


def counts(*, held: int, closed: bool, weight: int, most: int | None) -> bool:
    """Whether a cluster makes a domain.

    With copies it always does. Without, it does not when it is closed (a filter refuses it: not
    selected, tainted, cordoned, not ready and the like), has weight 0 (strategy Weighted), or is
    barred (maxPerCluster 0). A cluster that is full, capped by its scheduler, left out
    (maxClusters, minPerCluster, or not chosen) or has not answered yet makes a domain with 0
    copies.
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
        # Without this, one zone alone could take everything although several are asked for.
        self.few = len(totals) < rule.min_domains
        """With fewer domains than minDomains the least counts as 0, as in Kubernetes."""
        self.total = total
        """All copies, including those outside every domain (no label under a hard rule)."""
        counted = totals.values()
        self.least = 0 if self.few else min(counted, default=0)
        self.high = max(counted, default=0)
        self.used = sum(count > 0 for count in counted)

    def excess(self) -> int:
        """Copies of the fullest domain above what maxSkew allows over the least."""
        return max(self.high - self.least - self.skew, 0) if self.skew else 0

    def lacking(self) -> int:
        """How many more domains must be used for minDomains, as far as there are copies for
        them.
        """
        return lacking(self.wants, self.total, self.used)

    def broken(self) -> bool:
        return self.excess() > 0 or self.lacking() > 0

    def breach(self, domain: str, block: int, unit: int = 1) -> int:
        """By how much `block` more copies in a domain break the rule: copies beyond maxSkew, plus
        one when they open no new domain while fewer are used than minDomains. `unit` is the
        smallest block; skew is never bounded more tightly than one block."""
        count = self.totals.get(domain)
        if count is None:
            return self._breach_of_several(domain, block, unit) if BETWEEN in domain else 0
        breach = 0
        # A floor may be larger than the skew: a cluster gets its floor in one step or not at all,
        # and the step alone is no breach.
        if self.skew:
            breach = count + block - self.least - (self.skew if self.skew > unit else unit)
            if breach <= 0:
                breach = 0
            elif count <= self.least and not self.few:
                # The domain is the lowest itself and rises: what counts is the next lowest.
                low = min(
                    (other for name, other in self.totals.items() if name != domain),
                    default=count + block,
                )
                breach = max(count + block - min(low, count + block) - max(self.skew, unit), 0)
        # A copy that opens no domain costs one of those that are still to open others.
        if self.used < self.wants and (count > 0 or (block > unit and self.used + 1 < self.wants)):
            breach += 1
        return breach

    def _breach_of_several(self, domain: str, block: int, unit: int) -> int:
        """As `breach`, in several domains at once: by that of them that is broken most."""
        counted = [part for part in parts(domain) if part in self.totals]
        if not counted:
            return 0
        breach = 0
        if self.skew:
            after = {**self.totals, **{part: self.totals[part] + block for part in counted}}
            least = 0 if self.few else min(after.values())
            high = max(after[part] for part in counted)
            breach = max(high - least - max(self.skew, unit), 0)
        opens = sum(self.totals[part] <= 0 for part in counted)
        if self.used < self.wants and (
            not opens or (block > unit and self.used + opens < self.wants)
        ):
            breach += 1
        return breach

    def _relief_of_several(self, domain: str, block: int) -> int:
        counted = [part for part in parts(domain) if part in self.totals]
        after = {**self.totals, **{part: self.totals[part] - block for part in counted}}
        used = sum(count > 0 for count in after.values())
        broken = max(min(self.wants, self.total - block) - used, 0) - self.lacking()
        if not counted or not self.skew:
            return -broken
        least = 0 if self.few else min(after.values())
        if least < self.least and len(after) > len(counted):
            broken += max(self.high - least - self.skew, 0) - self.excess()
        above = max(self.totals[part] for part in counted) - self.least - self.skew
        return max(above, 0) - broken

    def relief(self, domain: str, block: int) -> int:
        """What the rule gains when a domain gives up `block` copies: the domain's excess above the
        allowed skew, minus any new breach. Negative when the breach grows by more."""
        count = self.totals.get(domain)
        if count is None and BETWEEN in domain:
            return self._relief_of_several(domain, block)
        used = self.used if count is None else self.used - (count > 0 >= count - block)
        broken = max(min(self.wants, self.total - block) - used, 0) - self.lacking()
        if count is None or not self.skew:
            return -broken
        if count - block < self.least and not self.few and len(self.totals) > 1:
            # A lower least makes the highest domain exceed the skew, although that one does not
            # change.
            broken += max(self.high - (count - block) - self.skew, 0) - self.excess()
        return max(count - self.least - self.skew, 0) - broken

    def grow(self, domain: str, block: int) -> bool:
        """Adds `block` copies. Returns whether the breach of other domains may have changed; it can
        only fall, because the least and the number of used domains only rise."""
        self.total += block
        count = self.totals.get(domain)
        if count is None:
            return self._counted_again(domain, block) if BETWEEN in domain else False
        self.totals[domain] = count = count + block
        self.high = max(self.high, count)
        opened = count == block
        self.used += opened
        # Only a domain at the least can raise it, so all others need no second look.
        if count - block > self.least or self.few:
            return opened
        before, self.least = self.least, min(self.totals.values())
        return opened or before != self.least

    def lower(self, domain: str, block: int) -> bool:
        """Removes `block` copies. Returns whether the breach of other domains may have changed."""
        self.total -= block
        # With fewer copies than domains wanted, each copy less also lowers what can be asked for.
        few_left = self.total <= self.wants
        count = self.totals.get(domain)
        if count is None:
            return (BETWEEN in domain and self._counted_again(domain, -block)) or few_left
        self.totals[domain] = after = count - block
        before = (self.least, self.high, self.used)
        self.used -= count > 0 >= after
        if count == self.high:
            self.high = max(self.totals.values())
        if after < self.least and not self.few:
            self.least = after
        return few_left or before != (self.least, self.high, self.used)

    def _counted_again(self, domain: str, more: int) -> bool:
        """Changes the copies of several domains at once. Returns whether the breach of other
        domains may have changed."""
        before = (self.least, self.high, self.used)
        for part in parts(domain):
            if part in self.totals:
                self.totals[part] += more
        counted = self.totals.values()
        self.least = 0 if self.few else min(counted, default=0)
        self.high = max(counted, default=0)
        self.used = sum(count > 0 for count in counted)
        return before != (self.least, self.high, self.used)


def lacking(wants: int, total: int, used: int) -> int:
    """How many more domains than those `used` must be, of so many copies in all."""
    return max(min(wants, total) - used, 0)


def keeps(
    rule: SpreadRule, where: Collection[str], seats: Sequence[int], idle: Iterable[str] = ()
) -> bool:
    """Whether clusters in these domains, which all have seats, keep a soft rule."""
    if rule.max_skew <= 0:  # how many seats a domain has does not matter
        return not lacking(rule.min_domains, sum(seats), len(each_of(where)))
    return not of_seats(rule, zip(where, seats, strict=True), idle).broken()


def of_rule(
    at: int, rule: SpreadRule, parties: Sequence[Party], idle: Collection[tuple[str, ...]] = ()
) -> Domains:
    """The domains of the rule at index `at` of the policy, over the parties and the idle
    clusters.
    """
    taking = [
        (party.domains[at], party.seats) for party in parties if party.counted or party.seats > 0
    ]
    return of_seats(rule, taking, (each[at] for each in idle))


def of_seats(
    rule: SpreadRule, taking: Iterable[tuple[str, int]], idle: Iterable[str] = ()
) -> Domains:
    """The domains of a rule over (domain, seats) of the clusters that make one, and the domains of
    idle clusters."""
    totals: dict[str, int] = {}
    total = 0
    for domain, seats in taking:
        total += seats
        if BETWEEN in domain:
            for part in parts(domain):
                totals[part] = totals.get(part, 0) + seats
        elif not (rule.hard and domain == UNLABELLED):
            totals[domain] = totals.get(domain, 0) + seats
    for domain in idle:
        if BETWEEN in domain:
            for part in parts(domain):
                totals.setdefault(part, 0)
        elif not (rule.hard and domain == UNLABELLED):
            totals.setdefault(domain, 0)
    return Domains(rule, totals, total)


def of_idle(parties: Iterable[Party]) -> tuple[tuple[str, ...], ...]:
    """The domains of clusters that are left out but count, each once."""
    return tuple(dict.fromkeys(party.domains for party in parties if party.counted))
