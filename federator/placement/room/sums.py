"""What all commitments hold in sum: by project and tier, by cluster, and by when it ends.

Kept by `commitments`, which counts each commitment in and out again.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator

from federator.model.ask import Former, Tier
from federator.model.fleet import Commitment, copies_of
from federator.model.resources import ZERO, Resources


def used_by(
    charged: Iterable[tuple[Former, ...]], projects: Collection[str]
) -> dict[Tier, Resources]:
    """What these projects are charged in addition to commitments, by tier."""
    used: dict[Tier, Resources] = {}
    for left in itertools.chain.from_iterable(charged):
        if left.project in projects:
            used[left.tier] = used.get(left.tier, ZERO) + left.usage
    return used


class Sums:
    """Sums over commitments, moved with each of them."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, Tier], dict[str, int]] = {}
        """(project, tier) -> what its workloads hold."""
        self._usage: dict[tuple[str, Tier], Resources] = {}
        """The same, as far as it was read since it changed."""
        self._placed: dict[str, int] = {}
        self._preemptible: dict[str, dict[str, int]] = {}
        """cluster -> what work of tier Preemptible holds there."""
        self._lent: dict[str, Commitment] = {}
        """uid -> what of that tier holds any copies: it is looked through for many that lack
        room."""
        self._ending: dict[str, dict[str, Commitment]] = {}
        """cluster -> uid -> what holds something there and says how long it runs."""

    def usage(self, project: str, tier: Tier) -> Resources:
        """What the project's workloads of one tier hold, over all clusters."""
        key = (project, tier)
        usage = self._usage.get(key)
        if usage is None:
            usage = self._usage[key] = Resources(self._totals.get(key, ()))
        return usage

    def usage_by_project(self) -> dict[str, Resources]:
        """Use by project over all tiers."""
        totals: dict[str, Resources] = {}
        for project, tier in sorted(self._totals):
            totals[project] = totals.get(project, ZERO) + self.usage(project, tier)
        return totals

    def placed(self, project: str) -> int:
        """How many of the project's workloads hold anything."""
        return self._placed.get(project, 0)

    def lent(self) -> Collection[Commitment]:
        """What is of tier Preemptible and holds any copies, in any order."""
        return self._lent.values()

    def preemptible(self, cluster: str) -> Resources:
        """What work of tier Preemptible holds in a cluster."""
        return Resources(self._preemptible.get(cluster, ()))

    def ends(self, cluster: str) -> Iterator[Commitment]:
        """What holds something in the cluster and is known to end, by uid."""
        here = self._ending.get(cluster, {})
        for uid in sorted(here):
            yield here[uid]

    def count(self, commitment: Commitment, sign: int) -> None:
        """Counts a commitment in (+1), or out again (-1)."""
        copies = commitment.copies
        if commitment.former:
            self.charge(commitment.former, sign)
        if copies:
            key = (commitment.project, commitment.tier)
            self._add(key, commitment.shape.requests, sign * copies)
            self._placed[commitment.project] = self._placed.get(commitment.project, 0) + sign
            if commitment.tier is Tier.PREEMPTIBLE:
                self._count_preemptible(commitment, sign)
        if commitment.run_s is not None:
            self._note_end(commitment, there=sign > 0)

    def charge(self, besides: Iterable[Former], sign: int) -> None:
        """Charges accounts for copies beside those of commitments (+1), or no more (-1)."""
        for left in besides:
            self._add((left.project, left.tier), left.requests, sign * left.copies)

    def say(self, before: Commitment, now: Commitment) -> None:
        """The same charge with other words."""
        self._note_end(before, there=False)
        if now.uid in self._lent:
            self._lent[now.uid] = now
        self._note_end(now, there=True)

    def copy(self) -> "Sums":
        made = self.amounts(ends=True)
        made._lent = dict(self._lent)
        return made

    def amounts(self, *, ends: bool) -> "Sums":
        """A copy of what is held, without its holders; with `ends` of what is known to end."""
        made = Sums()
        made._totals = {key: dict(amounts) for key, amounts in self._totals.items()}
        made._placed = dict(self._placed)
        made._preemptible = {name: dict(held) for name, held in self._preemptible.items()}
        if ends:
            made._ending = {cluster: dict(here) for cluster, here in self._ending.items()}
        return made

    def _add(self, key: tuple[str, Tier], requests: Resources, copies: int) -> None:
        """The account holds so many more copies; fewer with a negative number."""
        # Made anew when it is read: one cycle moves a sum often and reads it seldom.
        self._usage.pop(key, None)
        totals = self._totals.get(key)
        if totals is None:
            totals = self._totals[key] = {}
        for name, amount in requests.items():
            totals[name] = totals.get(name, 0) + copies * amount
        # A project that holds nothing must not show up as one that uses 0.
        if not any(totals.values()):
            del self._totals[key]

    def _count_preemptible(self, commitment: Commitment, sign: int) -> None:
        if sign > 0:
            self._lent[commitment.uid] = commitment
        else:
            del self._lent[commitment.uid]
        for holding in commitment.holdings:
            here = self._preemptible.setdefault(holding.cluster, {})
            copies = copies_of(holding)
            for name, amount in commitment.shape.requests.items():
                here[name] = here.get(name, 0) + sign * copies * amount

    def _note_end(self, commitment: Commitment, *, there: bool) -> None:
        if commitment.run_s is None:
            return
        for holding in commitment.holdings:
            here = self._ending.setdefault(holding.cluster, {})
            if there and copies_of(holding):
                here[commitment.uid] = commitment
            else:
                here.pop(commitment.uid, None)
