"""The ledger of one cycle: room and quota after what this cycle has already given.

It is opened above the commitments and one snapshot. `decide` reads room and quota here and charges
both in one step. Charges can be taken back (`mark`, `rollback`), which trials and all-or-nothing
placements use. The ledger never changes the commitments.
"""

import itertools
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask, Former, PodShape, Tier
from federator.model.fleet import Commitment, FleetSnapshot, copies_of
from federator.model.resources import UNLIMITED, ZERO, Resources
from federator.model.rules.namespaces import Room
from federator.placement.growth.growth import Growth, promised
from federator.placement.growth.pools import Pools
from federator.placement.quota import quota
from federator.placement.quota.domain_usage import Ceiling
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Uses
from federator.placement.room import fleetwide, gangs, limits
from federator.placement.room.binding import Ints
from federator.placement.room.given import Given
from federator.placement.room.nodes import Nodes
from federator.placement.room.world import PENDING, Charge, World


class Committed(Protocol):
    """What a ledger reads of the commitments below it (`commitments`)."""

    version: int
    terminating: dict[str, tuple[Former, ...]]

    def commitment(self, uid: str) -> Commitment | None: ...
    def neighbour(self, uid: str) -> Commitment | None: ...
    def usage(self, project: str, tier: Tier) -> Resources: ...
    def beyond(self, after: Commitment) -> tuple[Former, ...]: ...
    def terminating_in(self, projects: Collection[str]) -> dict[Tier, Resources]: ...
    def placed(self, project: str) -> int: ...
    def preemptible(self, cluster: str) -> Resources: ...
    def tree(self, quotas: tuple[QuotaAccount, ...]) -> Tree: ...
    def world(self, snapshot: FleetSnapshot, reader: object) -> World: ...
    def uncovered(self, cluster: str, includes_seq: int) -> list[tuple[PodShape, int]]: ...
    def uncovered_in(self, cluster: str, includes_seq: int) -> Mapping[str, limits.Charge]: ...


class _Charged(Protocol):
    """What room was charged for. The ledger is an argument: it ends with its cycle, and not when
    the collector finds it."""

    def take_back(self, ledger: "Ledger") -> None: ...


class Ledger:
    """Mutable; for one batch in one thread."""

    def __init__(
        self, commitments: Committed, snapshot: FleetSnapshot, memo: dict[Any, Any] | None = None
    ) -> None:
        self._below = commitments
        self._version = commitments.version
        self.snapshot = snapshot
        self.memo: dict[Any, Any] = {} if memo is None else memo
        """Cache of what depends alone on what filters judge of the clusters, and is read again and
        again (eligibility under a policy); kept from ledger to ledger while that is the same."""
        self.fleet = fleetwide.of(snapshot, self.memo)
        bounding = self.fleet.bounding
        self.limits = limits.Charges(snapshot, bounding) if bounding else limits.UNBOUNDED
        """What ResourceQuotas of members are charged beyond their reports."""
        self._world: World | None = None
        """The commitments' own until the first charge, then a copy."""
        self._copied = False
        self._due: list[Given] = []
        """What is not charged yet, in order."""
        self._growth: Growth | None = None
        """What clusters can add; None until it is read or charged, and where none states any."""
        self._widened = False
        """Whether `rooms` counts nodes that are to be added."""
        self._trials: dict[PodShape, gangs.GangFit] = {}
        """Of gangs, as long as nothing is charged."""
        self._commitments: dict[str, Commitment | None] = {}
        self._uncounted: set[str] = set()
        """Workloads with a difference to the commitments that must be counted again."""
        self._set_aside: set[str] = set()
        """The same of projects that no account names: counted when somebody asks for one."""
        self._named: frozenset[str] = _named(snapshot.quotas) if snapshot.quotas else frozenset()
        """The projects that accounts name."""
        self._deltas: dict[str, list[tuple[Commitment, int]]] = {}
        self._left: dict[str, list[tuple[tuple[Former, ...], int]]] = {}
        """The same for pods beyond the commitment: what they use is free once they have ended."""
        self._usage: dict[tuple[str, Tier], Resources] = {}
        self._placed: dict[str, int] = {}
        self._uses: Uses | None = None
        self._free: dict[tuple[str, str], bool] = {}
        """(project, namespace) -> whether no account says anything of it."""
        self.rulings: Mapping[str, quota.Admission] = {}
        """uid -> the most that it may get in this cycle: by quota, or as it loses a cluster."""
        self.held_back: Mapping[str, quota.Admission] = {}
        """uid -> why its edit is not admitted in this cycle, by the same decisions."""
        self.ceilings: Mapping[str, Ceiling] = {}
        """Cluster -> the most that the workload in hand may have, by its accounts' domains."""
        self.keep: Callable[[PodShape, Ints], Ints] | None = None
        """What of the rooms for a shape is left where something is kept for others."""
        self.resolved: dict[str, tuple[Ask, int, Ask]] = {}
        """uid -> (ask, version of the holdings, the ask as others leave it), of `neighbours`."""
        self.holdings_version = 0
        """Rises when a workload holds something else than before, or is nominated."""
        self.nominated: dict[str, tuple[Ask, frozenset[str]]] = {}
        """uid -> a preemptor that holds nothing yet, and the clusters in which it is to begin."""
        self._undo: list[_Charged | tuple[str, bool, Commitment | None]] = []
        """What was given, or (uid, whether anything was noted of it, what it held before)."""

    @property
    def below(self) -> Committed:
        """The commitments, as they were when the ledger was opened. Raises RuntimeError once they
        have changed: a charge made here would count twice or not at all."""
        if self._below.version != self._version:
            raise RuntimeError("the commitments have changed since this ledger was opened")
        return self._below

    @property
    def world(self) -> World:
        """The room of all clusters, for reading."""
        if self._world is None:
            self._world = self.below.world(self.snapshot, self)
        if self._due:
            # The kept world serves the next cycle too, and most ledgers never charge.
            if not self._copied:
                self._world, self._copied = self._world.copy(), True
            growth = self._growth
            for given in self._due:
                given.charge_in(self._world, growth)
            self._due.clear()
        return self._world

    def rooms(self, shape: PodShape) -> Ints:
        """As `room`, for all clusters of the snapshot in the order of their names."""
        rooms = self.trial(shape).fits if shape.parts else self.world.rooms(shape)
        offered = rooms if self.keep is None else self.keep(shape, rooms)
        return self._with_growth(shape, offered) if self._widened else offered

    def _with_growth(self, shape: PodShape, offered: Ints) -> Ints:
        """The rooms with what is to be added. A cluster adds none where its nodes have room that is
        not offered, because it is kept or beyond spec.usable: no pod would wait there."""
        growth, widened, world = self.growth, offered.copy(), self.world
        assert growth is not None
        for at in growth.clusters:
            if shape.parts:
                all_free = self.trial(shape).fits[at] == offered[at]
                if all_free and growth.fits(at, shape, world.nodes.nodes(at)):
                    widened[at] = max(int(offered[at]), 1)
            elif offered[at] != PENDING:
                plain = shape.plain
                free = world.nodes.copies_of(shape, at) if plain else int(world.rooms(shape)[at])
                if free <= offered[at]:
                    more = growth.room(at, shape)
                    widened[at] = min(int(offered[at]) + more, UNLIMITED)
        return widened

    @property
    def growth(self) -> Growth | None:
        """What clusters can add, after what this batch has charged; None where none states any."""
        if self._growth is None and self.fleet.growing:
            world = self.world
            self._growth = Growth(
                {
                    world.at[name]: promised(
                        self.snapshot.clusters[name], opened.nodes, self.below.uncovered
                    )
                    for name in self.fleet.growing
                    if (opened := world.opened[world.at[name]]) is not None
                }
            )
        elif self._due:
            _ = self.world  # which charges what is due
        return self._growth

    @contextmanager
    def widened(self) -> Iterator[None]:
        """Meanwhile nodes that are to be added count as room."""
        before, self._widened = self._widened, self.growth is not None
        try:
            yield
        finally:
            self._widened = before

    def trial(self, shape: PodShape) -> gangs.GangFit:
        """Where all pods of a gang fit together now, and where which do not."""
        trial = self._trials.get(shape)
        if trial is None:
            trial = self._trials[shape] = gangs.trial(self.world, shape)
        return trial

    def room(self, cluster: str, shape: PodShape) -> int:
        """How many more copies fit in the cluster: 0 when it never reported or its report is stale,
        PENDING when only the member can count the shape and has not reported it."""
        at = self.world.at.get(cluster)
        return 0 if at is None else int(self.rooms(shape)[at])

    def nodes_admitting(self, cluster: str, shape: PodShape) -> int:
        """How many nodes of the cluster a daemon's pod goes to, whether they have room or not;
        PENDING without a report to rely on, and when only the member can tell and has not."""
        at = self.world.at.get(cluster)
        return PENDING if at is None else self.world.nodes_admitting(at, shape)

    def nodes_with_room(self, cluster: str, shape: PodShape) -> int:
        """On how many nodes of the cluster a copy fits by free amounts; at most a known `room`."""
        at = self.world.at.get(cluster)
        return 0 if at is None else self.world.nodes_with_room(at, shape)

    def all_nodes_with_room(self, shape: PodShape) -> Ints:
        """`nodes_with_room` for all clusters of the snapshot in the order of their names."""
        return self.world.all_nodes_with_room(shape)

    def allocatable(self, cluster: str) -> Resources:
        """What all nodes of the cluster offer together; nothing without a report to rely on."""
        at = self.world.at.get(cluster)
        opened = None if at is None else self.world.opened[at]
        return ZERO if opened is None else opened.base.allocatable

    def quota_left(self, ask: Ask, cluster: str, freed: Resources = ZERO) -> Room | None:
        """Copies beyond those of its last decision that ResourceQuotas of a cluster leave the
        workload; None where none bounds them. `freed`: what its own copies there give back."""
        return self.limits.room(ask, cluster, self._commitments, self.below, freed)

    def could_hold(self, cluster: str, shape: PodShape) -> bool:
        """Whether each pod of the shape would fit on some node of the cluster if that were empty.
        Of a shape that only the member can count this says no more than that it may."""
        at = self.world.at.get(cluster)
        opened = None if at is None else self.world.opened[at]
        if opened is None:
            return False
        return all(opened.base.empty.copies(pod) > 0 for pod, _ in shape.pods)

    def could_take(self, cluster: str, shape: PodShape) -> int:
        """How many copies would fit in the cluster if it were empty, or more; of gangs 1 where
        `could_hold` says so."""
        if not self.could_hold(cluster, shape):
            return 0
        opened = self.world.opened[self.world.at[cluster]]
        return 1 if shape.parts or opened is None else opened.base.emptied.copies(shape)

    def left(self, cluster: str) -> tuple[Nodes | None, Resources | None]:
        """(nodes with their free amounts, headroom under spec.usable; None where that leaves
        everything). For advice; decisions use `room`."""
        at = self.world.at.get(cluster)
        if at is None or self.world.opened[at] is None:
            return None, None
        return self.world.nodes.nodes(at), self.world.headroom(at)

    def charge(self, cluster: str, shape: PodShape, copies: int) -> None:
        """Charges room for copies that the cluster's last summary does not include."""
        self._charge(shape, {cluster: copies})

    def _charge(self, shape: PodShape, grown: Mapping[str, int]) -> None:
        if any(copies > 0 for copies in grown.values()):
            self._owe(Given(shape, grown))

    def _owe(self, given: Given) -> None:
        if self._world is None:
            self._world = self.below.world(self.snapshot, self)
        if self.fleet.growing and self._growth is None:
            _ = self.growth  # as it is before this charge
        if self._trials:
            self._trials.clear()
        # A gang is charged pod by pod: its pods lie on different nodes.
        for pods_given in given.pods():
            self._due.append(pods_given)
            self._undo.append(pods_given)

    def take_back(self, charge: Charge | None, grew: Iterable[tuple[int, Pools]] = ()) -> None:
        """Takes back the last charge, which is None where it is not made yet or changed nothing."""
        self._trials.clear()
        # Charges wait in order, so the last one is the one to take back while any waits.
        if self._due:
            self._due.pop()
            return
        for at, before in grew:
            if self._growth is not None:
                self._growth.put_back(at, before)
        if charge is not None:
            self.world.undo(charge)

    def hold(self, commitment: Commitment) -> None:
        """Sets what the workload holds, replacing what was charged before; room does not change."""
        if self._commitments.get(commitment.uid) == commitment:
            self._commitments[commitment.uid] = commitment  # which charges the same
        else:
            self._hold(commitment.uid, commitment)

    def commit(self, commitment: Commitment, grown: Mapping[str, int]) -> None:
        """New holdings of one workload: quota is held for them instead of the former ones, and room
        is charged for the copies that each cluster gains."""
        self._hold(commitment.uid, commitment)
        self._charge(commitment.shape, grown)

    def commit_at(self, commitment: Commitment, clusters: list[int], copies: list[int]) -> None:
        """As `commit`, for clusters with room: their places among all, rising, and the copies of
        each."""
        self._hold(commitment.uid, commitment)
        if clusters:
            self._owe(Given(commitment.shape, (clusters, copies)))

    def release(self, uid: str) -> None:
        """Returns the workload's quota; its room returns only with a summary."""
        self._hold(uid, None)

    def commitment(self, uid: str) -> Commitment | None:
        """What the workload holds, as far as this batch has decided."""
        return self._commitments[uid] if uid in self._commitments else self.below.commitment(uid)

    def neighbour(self, uid: str) -> Commitment | None:
        """The same of a workload of which terms of others speak."""
        return self._commitments[uid] if uid in self._commitments else self.below.neighbour(uid)

    def nominate(self, ask: Ask, clusters: Iterable[str]) -> None:
        """The workload is to begin in these clusters: until it does, terms between workloads speak
        of it as if it had copies there (`neighbours`)."""
        self.nominated[ask.uid] = ask, frozenset(clusters)
        self.holdings_version += 1

    def given(self, uid: str) -> Commitment | None:
        """What this batch has given the workload; None when it has not decided on it."""
        return self._commitments.get(uid)

    def usage(self, project: str, tier: Tier) -> Resources:
        self._recount(everything=project not in self._named)
        return self.below.usage(project, tier) + self._usage.get((project, tier), ZERO)

    def terminating(self, projects: Collection[str], tier: Tier) -> Resources:
        """Of their usage, what pods beyond commitments use."""
        self._recount()
        total = self.below.terminating_in(projects).get(tier, ZERO)
        for besides, sign in itertools.chain.from_iterable(self._left.values()):
            for left in besides:
                if left.tier is tier and left.project in projects:
                    total = total + left.usage * sign
        return total

    def placed(self, project: str) -> int:
        """Workloads of the project that hold anything."""
        self._recount(everything=project not in self._named)
        return self.below.placed(project) + self._placed.get(project, 0)

    def admission(self, ask: Ask, wanted: int, held: int) -> quota.Admission:
        """How many copies quota admits; the workload's own present copies do not count as use."""
        if not self.snapshot.quotas or self._uncovered(ask):
            admission = quota.UNBOUND
        else:
            own = self.commitment(ask.uid)
            placed = self._placed_beside(own)
            admission = quota.admit(ask, wanted, held, self.uses, own=own, placed=placed)
        ruling = self.rulings.get(ask.uid)
        # The stricter of both: a ruling was made before others of this cycle got their quota.
        if ruling is None or ruling.copies > admission.copies:
            return admission
        return replace(ruling, unlimited=admission.unlimited, generations=admission.generations)

    def barred(self, ask: Ask, wanted: int, held: int) -> bool:
        """Whether quota admits nothing beyond the `held` copies however much others leave."""
        return quota.barred(
            ask, wanted, held, self.tree, self._placed_beside(self.commitment(ask.uid))
        )

    def _uncovered(self, ask: Ask) -> bool:
        """Whether no account says anything of the project, and it is not refused for that."""
        key = (ask.project, ask.key.namespace)
        uncovered = self._free.get(key)
        if uncovered is None:
            tree = self.tree
            speaks = tree.above(ask.project) or quota.refusal(ask, tree.accounts.values())
            uncovered = self._free[key] = not speaks
        return uncovered

    def edit(self, edit: quota.Edit) -> quota.Admission | None:
        """Why quota does not admit an edit of running copies; None when it does."""
        own = self.commitment(edit.ask.uid)
        refused = quota.refuse_edit(edit, self.uses, own=own, placed=self._placed_beside(own))
        ruling = self.held_back.get(edit.ask.uid)
        if ruling is None or (refused is not None and refused.reason is not ruling.reason):
            return refused
        said = refused.message if refused is not None else quota.wish(edit)
        return replace(ruling, message=f"{said}; {ruling.message}" if ruling.message else said)

    @property
    def uses(self) -> Uses:
        """What the accounts of the snapshot use, as far as this batch has decided."""
        self._recount()
        if self._uses is None:
            mine = weakref.proxy(self)

            def usage(project: str, tier: Tier) -> Resources:
                """Without holding the ledger, which would end only when the collector finds it."""
                held: Resources = mine.usage(project, tier)
                return held

            self._uses = Uses(self.tree, usage)
        return self._uses

    @property
    def tree(self) -> Tree:
        """The accounts of the snapshot."""
        return self.below.tree(self.snapshot.quotas)

    def _placed_beside(self, own: Commitment | None) -> quota.Placed:
        """Placed workloads of a project without this one."""

        def placed(project: str) -> int:
            return self.placed(project) - bool(own and own.project == project and own.copies)

        return placed

    def quota_room(
        self, project: str, namespace: str, tier: Tier, requests: Resources
    ) -> tuple[int | None, tuple[QuotaAccount, ...]]:
        """Copies of `requests` that the project may add in this tier (None: no limit), and the
        accounts that limit it. For advice; decisions use `admission`."""
        uses, room = self.uses, None
        speaking = quota.accounts_of(project, self.snapshot.quotas)
        for account in speaking:
            # A bound project is closed to this namespace, however much its account has left.
            if account.namespaces and namespace not in account.namespaces:
                return 0, speaking
        for account_name in uses.tree.charged(project):
            for name in uses.tree.names(account_name, tier):
                if (
                    requests[name] > 0
                    and (amount := uses.left(account_name, tier, name)) is not None
                ):
                    left = amount // requests[name]
                    room = left if room is None else min(room, left)
        return (None if room is not None and room >= UNLIMITED else room), speaking

    def mark(self) -> int:
        """A point to which `rollback` returns."""
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Takes back everything given since `mark`."""
        while len(self._undo) > mark:
            undone = self._undo.pop()
            if isinstance(undone, tuple):
                self._hold_again(*undone)
            else:
                undone.take_back(self)

    def _hold(self, uid: str, commitment: Commitment | None) -> None:
        self.holdings_version += 1
        before = self._commitments.get(uid)
        self._undo.append((uid, uid in self._commitments, before))
        self._commitments[uid] = commitment
        if self.limits.bounding:
            self.limits.changed(uid)
        self._to_count(uid, commitment, before)

    def _hold_again(self, uid: str, held: bool, before: Commitment | None) -> None:
        self.holdings_version += 1
        self._to_count(uid, self._commitments.get(uid), before)
        if self.limits.bounding:
            self.limits.changed(uid)
        if held:
            self._commitments[uid] = before
        else:
            self._commitments.pop(uid, None)

    def _to_count(self, uid: str, new: Commitment | None, former: Commitment | None) -> None:
        """The workload has one of these commitments now, had the other, or the one below."""
        for commitment in (new, former, self._below.commitment(uid)) if self._named else ():
            if commitment is not None and self._is_named(commitment):
                self._uncounted.add(uid)
                return
        self._set_aside.add(uid)

    def _is_named(self, commitment: Commitment) -> bool:
        """Whether an account names a project that is charged for it."""
        return commitment.project in self._named or any(
            former.project in self._named for former in commitment.former
        )

    def _recount(self, *, everything: bool = False) -> None:
        """Updates the difference between holdings here and in the commitments.

        web held 4 cpu and got 6 here, others of its project hold 10: the difference is -4 + 6,
        and `usage` says 14 + 2 = 16. A workload is subtracted first, or it would count twice.
        """
        if everything:
            self._uncounted |= self._set_aside
            self._set_aside.clear()
        below = self.below
        for uid in self._uncounted:
            for commitment, sign in self._deltas.pop(uid, ()):
                self._count(commitment, -sign)
            for besides, sign in self._left.pop(uid, ()):
                self._charge_besides(besides, -sign)
            if uid not in self._commitments:
                continue
            both = ((below.commitment(uid), -1), (self._commitments[uid], +1))
            delta = [(commitment, sign) for commitment, sign in both if commitment is not None]
            self._deltas[uid] = delta
            for commitment, sign in delta:
                self._count(commitment, sign)
            # Only what was held before can leave pods that are still to end.
            if len(delta) > 1:
                self._left[uid] = left = self._left_by(delta[0][0], delta[1][0])
                for besides, sign in left:
                    self._charge_besides(besides, sign)
        self._uncounted.clear()

    def _left_by(
        self, before: Commitment, after: Commitment
    ) -> list[tuple[tuple[Former, ...], int]]:
        """How the charge for pods beyond the commitment changes."""
        charged = self.below.terminating.get(after.uid, ())
        if not charged and not _takes(before, after):
            return []
        beyond = self.below.beyond(after)
        return [] if beyond == charged else [(charged, -1), (beyond, +1)]

    def _charge_besides(self, besides: tuple[Former, ...], sign: int) -> None:
        for left in besides:
            self._move((left.project, left.tier), left.requests * (left.copies * sign))

    def _count(self, commitment: Commitment, sign: int) -> None:
        self._charge_besides(commitment.former, sign)
        copies = commitment.copies
        if not copies:
            return
        key = (commitment.project, commitment.tier)
        self._move(key, commitment.shape.requests * (copies * sign))
        self._placed[commitment.project] = self._placed.get(commitment.project, 0) + sign

    def _move(self, key: tuple[str, Tier], moved: Resources) -> None:
        self._usage[key] = self._usage.get(key, ZERO) + moved
        if self._uses is not None:
            self._uses.moved(*key, moved)


def _takes(before: Commitment, after: Commitment) -> bool:
    """Whether a cluster has fewer copies than before."""
    has = {holding.cluster: copies_of(holding) for holding in after.holdings}
    return any(copies_of(holding) > has.get(holding.cluster, 0) for holding in before.holdings)


def _named(quotas: tuple[QuotaAccount, ...]) -> frozenset[str]:
    return frozenset().union(*(account.projects for account in quotas))
