"""Random trees of accounts with batches of workloads, for properties of one scheduling cycle."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from federator.model.accounts import Ordering, Preemption, QuotaAccount, Take, TierQuota
from federator.model.ask import Ask, Tier
from federator.model.fleet import ClusterView, copies_of
from federator.model.policy import Policy
from federator.model.resources import Resources
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from tests.unit.placement.fleets import cluster, fleet, held, jobs, service

TIER = Tier.ON_DEMAND
LEAVES = ("a", "b", "c")
CPU = 1000


@dataclass(frozen=True, repr=False)
class World:
    """`batches`: what is due in each cycle, one after the other."""

    accounts: tuple[QuotaAccount, ...]
    batches: tuple[tuple[Ask, ...], ...]

    def __repr__(self) -> str:
        accounts = (
            f"{one.name} below {one.parent or '-'}: {one.tiers[TIER].guaranteed['cpu'] // CPU}"
            f" {one.ordering or ''} {'strict' if one.strict else ''} {one.preemption.reclaim}"
            for one in self.accounts
        )
        batches = (
            ", ".join(
                f"{ask.key.name} {ask.count}{' whole' if ask.whole else ''} p{ask.priority}"
                for ask in batch
            )
            for batch in self.batches
        )
        return f"World({'; '.join(accounts)} | {' | '.join(batches)})"

    @property
    def guaranteed(self) -> dict[str, int]:
        """Leaf -> what is guaranteed to it."""
        named = {account.name: account for account in self.accounts}
        return {name: named[name].tiers[TIER].guaranteed["cpu"] for name in LEAVES}

    def strict(self, leaf: str) -> bool:
        """Whether nothing of the account goes before its first."""
        return any(account.strict for account in self.accounts if account.name == leaf)


def account(name: str, parent: str, cpus: int, **more: Any) -> QuotaAccount:
    promised = TierQuota(Resources({"cpu": cpus * CPU})) if cpus else TierQuota()
    projects = frozenset({name}) if name in LEAVES else frozenset()
    return QuotaAccount(
        name, projects=projects, parent=parent, tiers={TIER: promised}, generation=1, **more
    )


@st.composite
def worlds(
    draw: st.DrawFn,
    ordering: st.SearchStrategy[Ordering | None] = st.sampled_from((None, *Ordering)),  # noqa: B008
    reclaim: st.SearchStrategy[Take] = st.sampled_from((Take.NEVER, Take.NEVER, Take.ANY)),  # noqa: B008
) -> World:
    """Three accounts below `company`, two of them now and then below `mid`, which guarantee all
    that there is; services and job sets of one cpu, also all or nothing."""
    promised = [draw(st.integers(0, 5)) for _ in LEAVES]
    nested = draw(st.booleans())
    spare = draw(st.integers(0, 3))
    rules = Preemption(reclaim=draw(reclaim))
    parents = ("company", *(("mid",) * 2 if nested else ("company",) * 2))
    accounts = [
        account(
            name, parent, cpus, preemption=rules, strict=draw(st.sampled_from((False, False, True)))
        )
        for name, parent, cpus in zip(LEAVES, parents, promised, strict=True)
    ]
    accounts.append(account("company", "", sum(promised) + spare, ordering=draw(ordering)))
    if nested:
        accounts.append(account("mid", "company", sum(promised[1:])))
    wishes = st.tuples(
        st.sampled_from(LEAVES), st.integers(1, 6), st.booleans(), st.booleans(), st.integers(0, 1)
    )
    asks = [
        ask_of(at, project, count, whole=whole, shards=shards, priority=priority)
        for at, (project, count, whole, shards, priority) in enumerate(
            draw(st.lists(wishes, min_size=1, max_size=7))
        )
    ]
    later = draw(st.integers(0, len(asks)))
    return World(tuple(accounts), tuple(filter(None, (tuple(asks[later:]), tuple(asks[:later])))))


def ask_of(
    at: int,
    project: str,
    count: int,
    *,
    whole: bool = False,
    shards: bool = False,
    priority: int = 0,
) -> Ask:
    """A workload of one cpu a copy, the older the smaller `at` is."""
    policy = Policy(require_all=whole)
    name = f"w{at}-{project}"
    if shards:
        made = jobs(count, count, name=name, policy=policy, project=project, namespace="x")
    else:
        made = service(count, name=name, policy=policy, project=project, namespace="x")
    return replace(made, priority=priority, created_s=float(at), whole=whole or shards)


@dataclass
class Played:
    """What became of a world."""

    made: list[Cycle]
    commitments: Commitments

    def holds(self, ask: Ask) -> int:
        held_ = self.commitments.commitment(ask.uid)
        return sum(map(copies_of, held_.holdings)) if held_ is not None else 0


def play(
    accounts: Sequence[QuotaAccount],
    batches: Sequence[Sequence[Ask]],
    clusters: Sequence[ClusterView] = (),
) -> Played:
    """One cycle for each batch, with those that wait from before. `clusters`: one that has room for
    everything when left out."""
    snapshot = fleet(*(clusters or [cluster("x", 100)]), quotas=accounts)
    queue, played, numbers = Queue(), Played([], Commitments()), itertools.count(100)
    known: dict[object, Ask] = {}

    def entry(key: object) -> Entry:
        ask = known[key]
        before = played.commitments.commitment(ask.uid)
        shares = before.holdings if before is not None else ()
        return Entry(ask=ask, standing=Standing(held=held(**{s.cluster: s.count for s in shares})))

    for batch in batches:
        waiting = [ask for ask in known.values() if ask.key in queue]
        known |= {ask.key: ask for ask in batch}
        made = cycle.run(
            [entry(ask.key) for ask in (*waiting, *batch)],
            queue,
            snapshot,
            played.commitments,
            seq=numbers.__next__,
            find=entry,
        )
        assert not made.failed, made.failed
        played.made.append(made)
        for decided in made.decided:
            played.commitments.assume(decided.after)
        queue.settle(made.keys, made.inadmissible, made.reservations, made.claims, made.room_claims)
    return played
