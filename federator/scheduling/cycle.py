"""One scheduling cycle: what each due workload gets, what it waits for, and in which order the
decisions are written.

Everything of placing that needs no await. The hub runs a cycle for every batch, `place` one for all
workloads of its files, `explain` one for each trial; the same entries get the same decisions.
Charges made here end with the cycle: a caller that wants its decisions to count assumes what they
hold (`Decided.after`) in the commitments.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from federator.model.ask import Ask, Unit
from federator.model.decision import Decision
from federator.model.fleet import Commitment, FleetSnapshot, copies_of
from federator.model.names import WorkloadKey
from federator.model.neighbours import NOBODY
from federator.model.quickly import quickly
from federator.placement import contradictions, engine, inputs
from federator.placement.quota.domain_usage import Ceiling, InDomains
from federator.placement.room import setaside
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.scheduling import (
    displacing,
    editing,
    numbering,
    ordering,
    queueing_hints,
    refusals,
    write_order,
)
from federator.scheduling.admission import (
    confining,
    edits,
    preempting,
    room_preemption,
    rooms,
    stage,
)
from federator.scheduling.admission.nominating import Nominations
from federator.scheduling.admission.notice import AT_ONCE, Notice, Pace
from federator.scheduling.admission.preempting import Evictions, Terms, Turn, naming_victims
from federator.scheduling.admission.room_preemption import RoomPreemption
from federator.scheduling.admission.stage import Admissions
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from federator.scheduling.queueing_hints import Hint, HintKind, Waiting
from federator.scheduling.refusals import Made
from federator.scheduling.waiting.reservations import Reservation, Reservations
from federator.scheduling.waiting.room_claims import WAITS_S, Claims, RoomClaim, given_up
from federator.scheduling.write_order import Decided, Effect

_decided, _turn = quickly(Decided), quickly(Turn)
STOPS_S: Final = 60.0
"""What waits for shards to stop elsewhere is looked at again after this: nothing tells that a write
which was under way has not arrived."""


@dataclass(frozen=True, slots=True)
class Cycle:
    decided: tuple[Decided, ...]
    """In decision order; each builds on those before it."""
    inadmissible: Mapping[WorkloadKey, Waiting]
    """Decided workloads that lack something -> which hints may help."""
    requeues: Mapping[WorkloadKey, float]
    """Inadmissible workloads -> seconds until they are retried without a hint."""
    failed: Mapping[WorkloadKey, Exception]
    """Entries without a decision because of a bug. Each failure is rolled back and affects no other
    entry."""
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    """Cluster -> the reservation there."""
    released: tuple[str, ...] = ()
    """Clusters in which a reservation has ended, or went to another workload."""
    notices: tuple[Notice, ...] = ()
    """The notices to victims, for the preemptors among the decided workloads. Earlier notices for
    these preemptors are void."""
    undecided: frozenset[WorkloadKey] = frozenset()
    """The preemptors among them for which no victims were selected anew: earlier notices stand."""
    preempted: int = 0
    """Copies that leave and count for the pace."""
    room_claims: Claims = field(default_factory=dict)
    """The preemptors that were decided and lack room that their victims leave or have left."""
    claims: Mapping[WorkloadKey, Entry] = field(default_factory=dict)
    """Those that were decided and wait for quota which others give up in this cycle."""
    leaves_domains: bool = False
    """Copies leave domains of clusters in which their accounts have limits."""

    @property
    def left(self) -> Iterator[tuple[str, str, int]]:
        """(uid, cluster, copies) of those with a disruption budget that left for others."""
        for made in self.decided:
            budget = made.entry.ask.disruptions
            if budget is None or made.before is None or made.beneficiary == made.key:
                continue
            after = {holding.cluster: copies_of(holding) for holding in made.after.holdings}
            for holding in made.before.holdings:
                gone = copies_of(holding) - after.get(holding.cluster, 0)
                if gone > 0:
                    yield made.decision.uid, holding.cluster, gone

    @property
    def write_order(self) -> Sequence[tuple[Effect, Sequence[Decided]]]:
        """The decisions grouped by effect: a group is written after the one before has been written
        completely."""
        return write_order.by_effect(self.decided)

    def hints_of(self, written: Sequence[Decided]) -> tuple[Hint, ...]:
        """Hints for other workloads once these of its decisions have been written. A decision that
        the host refused frees nothing: it may be of a workload that waits for quota itself, and is
        to be tried again as late as its failures say."""
        if written and (self.leaves_domains or any(map(write_order.gives_up, written))):
            return (Hint(HintKind.QUOTA),)
        return ()

    @property
    def released_hints(self) -> tuple[Hint, ...]:
        """Hints for the workloads that may use the room of ended reservations."""
        return tuple([Hint(HintKind.ROOM, name) for name in self.released]) if self.released else ()

    @property
    def keys(self) -> tuple[WorkloadKey, ...]:
        """Of the workloads that were decided."""
        return tuple([decided.entry.ask.key for decided in self.decided])

    @property
    def settled(self) -> frozenset[WorkloadKey]:
        """Those that were decided, and for which no earlier notice stands."""
        return frozenset(self.keys) - self.undecided


_cycle = quickly(Cycle)


def run(
    heads: Sequence[Entry],
    queue: Queue,
    snapshot: FleetSnapshot,
    commitments: Commitments,
    *,
    seq: Callable[[], int],
    find: preempting.Find = preempting.nobody,
    pace: Pace = AT_ONCE,
) -> Cycle:
    """Decides on the heads of the queue, in order, above what all workloads hold already. Victims
    go before them: as many as `pace` allows. `find` returns the entry of a victim that is not due.
    Room may be reserved for workloads that are earlier in the order. `seq` returns the number of
    the next decision. The queue and the commitments are only read."""
    ledger = commitments.open(snapshot)
    turns = {(key := entry.ask.key): _turn(entry, key) for entry in heads}
    buffers = setaside.buffers(ledger)

    # 1. Nominate. Quota is judged before any cluster is chosen: a workload that is not admitted
    # takes no room from one that is. Without accounts, claims, reservations and buffers all are.
    nominated = _ALL_ADMITTED
    if snapshot.quotas or queue.claims or queue.room_claims or queue.reservations or buffers:
        nominated = _nominate(heads, turns, queue, commitments, ledger, find=find, pace=pace)
    evictions, reservations = nominated.evictions, nominated.reservations

    # 2. Order, by the workloads alone: the same ones get the same decisions.
    due = [turn.entry.charged for turn in turns.values()]
    if reservations is not None:  # these have a place in the order, though they are not due
        due += reservations.waiting
    asks = ordering.order(due, commitments, ledger)
    if snapshot.peers is not NOBODY:
        asks = ordering.behind_neighbours(asks, turns, commitments)

    # 3. Place. Victims go first: the ledger has what they free, though not for their preemptor in
    # this cycle. Each decision charges the ledger, so the next one sees what is left.
    batch = _Batch.of(snapshot, commitments, ledger, nominated, seq, buffers)
    for turn in evictions.turns:
        batch.decide(turn)
    for ask in asks:
        if (head := turns.get(ask.key)) is not None:
            batch.decide(head)
        elif reservations is not None:
            reservations.reserve(ask, now=True)
    if evictions.turns:
        admissions = nominated.admissions
        batch.decided = [naming_victims(made, evictions, admissions) for made in batch.decided]

    # 4. Preempt for room. Only now it is known which admitted workloads found none.
    room_claims: Claims = {}
    if reservations is not None and nominated.terms is not None:
        room_claims = batch.preempt_for_room(queue.room_claims, find, nominated.terms, evictions)
        ledger.keep = None  # it refers to the ledger: as a cycle of references both would stay

    # 5. Requeue what lacks something, each with the hints that may help it.
    return _result(batch, queue, nominated, room_claims)


def _result(
    batch: "_Batch",
    queue: Queue,
    nominated: "_Nominated",
    room_claims: Claims,
) -> Cycle:
    decided, evictions, reservations = batch.decided, nominated.evictions, nominated.reservations
    if nominated is _ALL_ADMITTED:  # no eviction, reservation or claim
        return _cycle(tuple(decided), *_requeues(decided, queue, evictions.later), batch.failed)
    released: tuple[str, ...] = ()
    if reservations is not None:
        released = (
            *reservations.ended(queue.reservations),
            *given_up(queue.room_claims, {made.key for made in decided}, room_claims),
        )
    return _cycle(
        tuple(decided),
        *_requeues(decided, queue, evictions.later),
        batch.failed,
        reservations.made if reservations is not None else {},
        released,
        tuple(evictions.notices),
        frozenset(evictions.undecided),
        evictions.counted,
        room_claims,
        preempting.claims(
            decided, evictions, queue.claims, nominated.admissions.ending, batch.snapshot.as_of
        ),
        nominated.used is not None and nominated.used.leaves,
    )


@dataclass(frozen=True, slots=True)
class _Nominated:
    """Result of the first phase. The defaults say that all are admitted and no room is reserved."""

    admissions: Admissions = field(default_factory=Admissions)
    evictions: Evictions = field(default_factory=Evictions)
    reservations: Reservations | None = None
    used: InDomains | None = None
    terms: Terms | None = None


_ALL_ADMITTED: Final = _Nominated()


def _nominate(
    heads: Sequence[Entry],
    turns: dict[WorkloadKey, Turn],
    queue: Queue,
    commitments: Commitments,
    ledger: Ledger,
    *,
    find: preempting.Find,
    pace: Pace,
) -> _Nominated:
    """Judges the heads by their accounts, and finds victims. Victims that are due lose their turn:
    they are taken out of `turns`."""
    claims = list(queue.claims.values())
    nominations = Nominations(commitments, ledger)
    # Before quota: whether a workload may begin, and so whether others leave for it, depends on it.
    nominations.claimed(claims, queue.room_claims.values())
    admissions = stage.run(heads, commitments, ledger, claims, pace.budgets)
    terms = Terms(ledger.tree, ledger.snapshot.as_of, pace)
    evictions = preempting.accepted(
        admissions, turns, commitments, find, terms, nominations=nominations
    )
    ledger.rulings, ledger.held_back = admissions.rulings, admissions.held_back
    reservations = Reservations(
        queue.for_room(), turns.keys(), commitments, ledger, queue.room_claims
    )
    used = None
    if ledger.snapshot.quotas:
        used = confining.in_domains(commitments, ledger, admissions.claimed.values())
    return _Nominated(admissions, evictions, reservations, used, terms)


def _requeues(
    every: Iterable[Decided], queue: Queue, later: Mapping[WorkloadKey, float]
) -> tuple[dict[WorkloadKey, Waiting], dict[WorkloadKey, float]]:
    """Those that lack something, and the seconds until each is retried. `later`: seconds until
    those that wait for a moment are looked at again."""
    inadmissible: dict[WorkloadKey, Waiting] = {}
    requeues: dict[WorkloadKey, float] = {}
    for decided in every:
        key = decided.entry.ask.key
        entry, decision = decided.entry, decided.decision
        waiting = queueing_hints.waits(entry.charged, decision, entry.standing.capped)
        if waiting is not None:
            inadmissible[key] = waiting
            requeues[key] = min(queue.retry_after_s(key), later.get(key, math.inf))
        if decision.may_run:
            requeues[key] = min(requeues.get(key, STOPS_S), STOPS_S)
    return inadmissible, requeues


@dataclass(slots=True)
class _Batch:
    """The decisions of one cycle, as they are made."""

    snapshot: FleetSnapshot
    commitments: Commitments
    ledger: Ledger
    reservations: Reservations | None
    """None where no room is reserved."""
    within: Mapping[str, tuple[str, ...]]
    """uid -> the clusters in which it gets quota, for those that do not everywhere."""
    seq: Callable[[], int]
    buffers: frozenset[str] = frozenset()
    """The clusters that keep room for what loses its own."""
    used: InDomains | None = None
    """What is used in domains of clusters; None where no account has limits there."""
    decided: list[Decided] = field(default_factory=list)
    failed: dict[WorkloadKey, Exception] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(  # noqa: PLR0917 the parts of a cycle
        cls,
        snapshot: FleetSnapshot,
        commitments: Commitments,
        ledger: Ledger,
        nominated: _Nominated,
        seq: Callable[[], int],
        buffers: frozenset[str],
    ) -> "_Batch":
        within, used = nominated.admissions.clusters, nominated.used
        return cls(
            snapshot, commitments, ledger, nominated.reservations, within, seq, buffers, used
        )

    def decide(self, turn: Turn) -> None:
        entry, ask, mark = turn.entry, turn.entry.charged, self.ledger.mark()
        try:
            displaced = self._keep_from(entry, leaves=turn.eviction is not None)
            if displaced and turn.eviction is None:
                self.ledger.rulings = displacing.rulings(entry, self.ledger.rulings)
            if turn.eviction is not None:
                # They name this workload alone, so they may stay for the turns that follow.
                self.ledger.held_back = edits.after_leaving(entry, self.ledger)
                self.ledger.rulings = preempting.bounded(entry, turn.eviction, self.ledger.rulings)
            within = self.within.get(ask.uid)
            inside = turn if within is None else replace(turn, within=within)
            decision, after, ceilings = self._within_domains(inside)
        except Exception as bug:
            self.ledger.rollback(mark)
            self.failed[ask.key] = bug
            return
        if self.reservations is not None:
            decision = self.reservations.decided(entry.ask, decision, after)
        before = self.commitments.commitment(ask.uid)
        self.decided.append(
            _decided(
                entry=entry,
                decision=decision,
                before=before,
                after=after,
                beneficiary=turn.beneficiary,
                ceilings=ceilings,
            )
        )

    def _keep_from(self, entry: Entry, *, leaves: bool) -> bool:
        """Until the next call the ledger has no room that is kept from this workload. Returns
        whether it loses a cluster, so that failover buffers are for it."""
        displaced = bool(self.buffers) and entry.lost(self.snapshot) > 0
        if self.reservations is not None:
            self.reservations.keep_from(entry.ask, leaves=leaves, displaced=displaced)
        return displaced

    def _within_domains(self, turn: Turn) -> tuple[Decision, Commitment, Mapping[str, Ceiling]]:
        """The decision, what the workload holds after it, and what bounded it in clusters."""
        kept = None
        if self.snapshot.invariants and turn.eviction is None:
            kept = confining.kept(turn.entry, self.ledger)
        if self.used is None and kept is None:
            return *self._attempted(turn, self.seq()), {}
        seq, numbers = self.seq(), self._numbers

        def attempt(entry: Entry) -> tuple[Decision, Commitment]:
            self._numbers = dict(numbers)
            return self._attempted(replace(turn, entry=entry), seq)

        made = confining.decide(turn.entry, self.used, kept, self.ledger, attempt)
        if self.used is not None:
            self.used.hold(made[1])
        return made

    def _attempted(self, turn: Turn, seq: int) -> tuple[Decision, Commitment]:
        decision = _decide(turn, self.snapshot, self.ledger, self._numbers, seq)
        return decision, self._after(decision, decision.under or turn.entry.charged)

    def _after(self, decision: Decision, under: Ask) -> Commitment:
        """What the workload holds after the decision, in the ledger too."""
        began_s, given = self.snapshot.as_of, self.ledger.given(under.uid)
        if (  # as it was charged when it was divided
            given is not None
            and given.holdings is decision.shares
            and given.began_s == began_s
            and decision.under is None
        ):
            after = self.commitments.counted(given)
            if after is given:
                return after
        else:
            made = Commitment.of(under, decision.shares, began_s=began_s)
            after = self.commitments.counted(made)
        self.ledger.hold(after)
        return after

    def preempt_for_room(
        self, before: Claims, find: preempting.Find, terms: Terms, evictions: Evictions
    ) -> dict[WorkloadKey, RoomClaim]:
        """Evicts victims for preemptors that have quota and no room, beyond what these claim
        already. Of the workloads that were decided on in this cycle, only unchanged ones of tier
        Preemptible are victims: what the others hold is not known yet. Returns what is claimed."""
        claims: dict[WorkloadKey, RoomClaim] = {}
        for at, decided in enumerate([*self.decided]):
            ask, (lacks, lent) = (
                decided.entry.ask,
                displacing.lacks(decided, self.ledger, self.buffers),
            )
            waits = decided.key in before and rooms.stranded(decided.decision, self.snapshot)
            if not (lacks or waits):
                continue
            claim = self._outstanding(before.get(decided.key), decided)
            made = RoomPreemption()
            if (missing := lacks - claim.total) > 0:
                # The ledger still keeps what is kept from the workload that was decided last.
                self._keep_from(decided.entry, leaves=False)
                as_before = displacing.as_before(self.decided)
                mine = {self.decided[place].decision.uid for place in as_before.values()}
                spared = {other.decision.uid for other in self.decided} - mine
                entry_of = functools.partial(self._entry_of, as_before, find)
                left = replace(terms, pace=terms.pace.less(evictions.counted))
                made = room_preemption.make(
                    ask,
                    missing,
                    self.commitments,
                    self.ledger,
                    spared=spared,
                    find=entry_of,
                    terms=left,
                    lent=lent,
                    claimed=claim.copies,
                )
                room_preemption.note(made, decided.key, evictions)
                for turn in made.turns:
                    self._decide_again(turn, as_before.get(turn.entry.key))
                if made.turns:
                    claim = claim.more(made.copies, self.snapshot.as_of + WAITS_S)
            if claim.copies:
                claims[decided.key] = claim
                evictions.wait(decided.key, claim.until_s - self.snapshot.as_of)
            if claim.copies or made.when:
                when = "" if claim.copies else made.when
                speaking = preempting.saying_room_preemption(
                    decided.decision, when, lent=bool(lent)
                )
                self.decided[at] = replace(decided, decision=speaking)
        return claims

    def _entry_of(
        self, as_before: Mapping[WorkloadKey, int], find: preempting.Find, key: WorkloadKey
    ) -> Entry | None:
        at = as_before.get(key)
        return find(key) if at is None else self.decided[at].entry

    def _decide_again(self, turn: Turn, at: int | None) -> None:
        """Decides on a victim; an earlier decision on it in this cycle is void."""
        count = len(self.decided)
        self.decide(turn)
        if at is not None and len(self.decided) > count:
            self.decided[at] = self.decided.pop()

    def _outstanding(self, claim: RoomClaim | None, decided: Decided) -> RoomClaim:
        """The part of a claim that the workload has not got yet; nothing if the claim has ended."""
        now_s, ask = self.snapshot.as_of, decided.entry.ask
        if claim is None or claim.ask.uid != ask.uid or claim.until_s <= now_s:
            return RoomClaim(ask, {}, now_s)
        before = decided.before.holdings if decided.before is not None else ()
        held = {holding.cluster: copies_of(holding) for holding in before}
        given = {holding.cluster: copies_of(holding) for holding in decided.after.holdings}
        return claim.less({name: copies - held.get(name, 0) for name, copies in given.items()})


def _decide(
    turn: Turn, snapshot: FleetSnapshot, ledger: Ledger, numbers: dict[str, int], seq: int
) -> Decision:
    """`numbers`: cluster -> highest seq given in this cycle; updated here."""
    entry, standing = turn.entry, turn.entry.standing
    mark = numbering.marker(entry, numbers, seq)

    if entry.native or entry.refused is not None:
        hashed = inputs.inputs_hash(entry.ask, snapshot, ledger.memo)
        made = Made(hashed, snapshot.as_of, seq)
        if entry.native:
            return refusals.host_would_run_it(entry.ask, made)
        assert entry.refused is not None
        decision = refusals.not_permitted(entry, entry.refused, _as_recorded(made, standing))
    else:
        decision = _tried(turn, snapshot, ledger, mark, seq)
    if standing.ended:
        decision = numbering.stopped(decision, mark, seq)
    if standing.overtaken:
        decision = numbering.numbered(decision, standing.refusing, mark, seq)
    if decision.seq != seq:
        decision = numbering.issued(decision, entry, seq)
    if standing.marks:
        decision = numbering.marked(decision, standing.marks)
    for share in decision.shares:
        if share.seq > numbers.get(share.cluster, 0):
            numbers[share.cluster] = share.seq
    if entry.ask.ordinals is not None or not standing.held:
        return decision  # ranges of ordinals are blocks, which grow
    return numbering.in_pieces(
        decision, {holding.cluster: holding.ranges for holding in standing.held}
    )


def _as_recorded(made: Made, standing: Standing) -> Made:
    """With the recorded seq while the shares stay as recorded. They do not where the last decision
    never reached a member and what it gave counts for nothing."""
    recorded = standing.recorded
    if recorded is None:
        return made
    given = {(share.cluster, share.count, share.ranges) for share in recorded.shares}
    held = {(holding.cluster, holding.count, holding.ranges) for holding in standing.held}
    return replace(made, seq=recorded.seq) if given == held else made


def _tried(
    turn: Turn, snapshot: FleetSnapshot, ledger: Ledger, mark: Callable[[str], int], seq: int
) -> Decision:
    """The division of what the workload asks for, or of what is left when copies leave. It is
    recorded as one of what it asks for."""
    entry, within = turn.entry, turn.within
    if turn.eviction is None and within is None:
        return preempting.still_preempted(_divided(entry, snapshot, ledger, mark, seq), entry)
    ask = entry.ask if within is None else stage.restricted(entry.ask, within)
    if turn.eviction is not None:
        ask = preempting.shrunk(replace(entry, ask=ask), turn.eviction)
        entry = preempting.capped(entry, turn.eviction)
    decision = _divided(replace(entry, ask=ask), snapshot, ledger, mark, seq)
    hashed = inputs.inputs_hash(entry.ask, snapshot, ledger.memo)
    decision = replace(decision, inputs_hash=hashed)
    if turn.eviction is None:
        return preempting.still_preempted(decision, entry)
    return preempting.on_whole_ask(decision, entry, ask, turn.eviction)


def _divided(
    entry: Entry, snapshot: FleetSnapshot, ledger: Ledger, mark: Callable[[str], int], seq: int
) -> Decision:
    standing = entry.standing
    if _begins(entry):
        return engine.decide(
            entry.ask,
            (),
            snapshot,
            ledger,
            seq=seq,
            mark=mark,
            capped=standing.capped,
            finished=standing.done,
        )
    anew = _is_anew(entry)
    decision = editing.decide(
        _as_new(entry.ask) if anew else entry.ask,
        standing.held,
        snapshot,
        ledger,
        seq=seq,
        mark=mark,
        admitted=standing.admitted,
        capped=standing.capped,
        previous_hash="" if anew else _previous(entry, snapshot, ledger),
        leave=entry.leave,
        finished=standing.done,
        per_cluster=_per_cluster(entry),
        blocks=standing.recorded.blocks if standing.recorded is not None else {},
        empty=standing.empty,
        may_run=standing.may_run,
        replaced=standing.replaced,
        support=standing.support,
    )
    if not anew:
        return decision
    # what it depends on is what it asks for
    hashed = inputs.inputs_hash(entry.ask, snapshot, ledger.memo)
    return replace(decision, inputs_hash=hashed)


def _begins(entry: Entry) -> bool:
    """Whether nothing was decided on it before: then nothing runs that could be edited or moved.
    Ordinals and shards that may not run twice have their own ways."""
    standing, ask = entry.standing, entry.ask
    before = standing.recorded or standing.held or standing.admitted or standing.overtaken
    return not (before or entry.anew or ask.exclusive) and ask.ordinals is None


def _is_anew(entry: Entry) -> bool:
    """Whether what it holds gets no preference: it may go home, or somebody asked for a rebalance.
    Shards and ordinals keep theirs: what moves of them begins again, or leaves its data."""
    recorded, ask = entry.standing.recorded, entry.ask
    asked = recorded is not None and recorded.rebalance
    return entry.anew or (asked and ask.unit is Unit.REPLICAS and ask.ordinals is None)


def _as_new(ask: Ask) -> Ask:
    """The ask under a division that gives what is held no preference."""
    return replace(
        ask, policy=replace(ask.policy, division=replace(ask.policy.division, fresh=True))
    )


def _previous(entry: Entry, snapshot: FleetSnapshot, ledger: Ledger) -> str:
    """The inputs hash for which held copies were divided; "" when the division must be repeated."""
    recorded, policy = entry.standing.recorded, entry.ask.policy
    if (
        recorded is not None
        and recorded.to_move > 0
        and not (policy.lazy and not recorded.rebalance)
    ):
        return ""  # an unfinished move continues
    if entry.standing.overtaken:  # the inputs of the lost decisions are unknown: their result stays
        return inputs.inputs_hash(entry.ask, snapshot, ledger.memo)
    return recorded.inputs_hash if recorded is not None else ""


def _per_cluster(entry: Entry) -> int:
    """What strategy Duplicate gave each cluster, for the engine. 0 also when a rebalance was asked
    for and the policy can be followed."""
    recorded = entry.standing.recorded
    if recorded is None or (recorded.rebalance and not contradictions.contradiction(entry.ask)):
        return 0
    return recorded.per_cluster
