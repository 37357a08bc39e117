"""The decision of a workload with numbered copies: ordinals in blocks over clusters.

An ordinal stays in the cluster where it began, because its name and its claims are there. No
drain, failover, taint or edit of a policy moves it: it holds, and the decision says so. What began
where is recorded in blocks, which are disjoint over the clusters and stay recorded when their
ordinals are scaled away; so an ordinal comes back to its claims, and never runs in two clusters. A
person alone gives the ordinals of a cluster up (`spec.release`): they stop there, and begin anew
elsewhere once nothing of the workload is left in that cluster.

The highest ordinals come and go with the count. New ones extend the last block where there is room,
unless a spread rule says how copies are to lie; the others are divided as the policy says, and open
blocks of their own.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from federator.model import seq as seqs
from federator.model import shards
from federator.model.ask import Ask, Ordinals
from federator.model.decision import Decision, Reason, Share, Verdict
from federator.model.fleet import Commitment, Holding
from federator.model.policy import Policy, Strategy
from federator.model.shards import Range, Ranges
from federator.placement import inputs
from federator.placement.contradictions import contradiction
from federator.placement.policy import percluster
from federator.placement.quota.quota import Admission
from federator.placement.request import Blocks, Divide, Request
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates, filters
from federator.placement.selection.candidates import Place


def policy_of(policy: Policy) -> Policy:
    """A policy as it applies to copies with numbers: one cluster after the other gets a new
    template unless the policy says otherwise, and each ordinal runs once."""
    at_once, problem = policy.max_clusters_at_once or 1, policy.problem
    if policy.division.strategy is Strategy.DUPLICATE and not problem:
        named = filters.field_of(policy, "division.strategy")
        problem = f"{named} is Duplicate, which cannot number copies: each ordinal runs once"
    return replace(policy, max_clusters_at_once=at_once, problem=problem)


def homes(blocks: Blocks, held: Iterable[Holding], clusters: Collection[str]) -> dict[str, Ranges]:
    """The blocks of clusters that are in the fleet, with what is held beyond them.

    What runs counts before what is recorded, as after the loss of a decision; of two that hold the
    same ordinal, the one with the later decision.
    """
    present = {name: list(ranges) for name, ranges in blocks.items() if name in clusters and ranges}
    taken: Ranges = ()
    # The later decision counts: of the earlier one the cluster may not have heard the end yet.
    for holding in sorted(held, key=lambda holding: (-holding.seq, holding.cluster)):
        if holding.cluster not in clusters:
            continue
        mine = shards.minus(shards.normal(holding.ranges), taken)
        taken = shards.union(taken, mine)
        for name, others in present.items():
            if name != holding.cluster:
                present[name] = list(shards.minus(others, mine))
        present[holding.cluster] = _with(present.get(holding.cluster, []), holding.ranges, mine)
    return {name: tuple(sorted(ranges)) for name, ranges in sorted(present.items()) if ranges}


def _with(blocks: list[Range], pieces: Ranges, mine: Ranges) -> list[Range]:
    """The blocks, such that each piece that is held begins one."""
    for piece in pieces:
        for low, high in shards.intersect((piece,), mine):
            around = next((block for block in blocks if block[0] < low <= block[1]), None)
            if around is not None:
                blocks.remove(around)
                blocks.extend([(around[0], low - 1), (low, around[1])])
            for part in shards.minus(((low, high),), shards.normal(blocks)):
                # A piece that begins where its run begins has a StatefulSet of its own already.
                if part[0] == low:
                    blocks.append(part)
                else:
                    _extend(blocks, part)
    return blocks


def _extend(blocks: list[Range], piece: Range) -> None:
    """Adds ordinals: to the block that ends just below them, or as a block of their own."""
    low, high = piece
    below = next((block for block in blocks if block[1] == low - 1), None)
    if below is not None:
        blocks.remove(below)
        low = below[0]
    blocks.append((low, high))


@dataclass(slots=True)
class _Plan:
    """What is given so far."""

    ask: Ask
    ordinals: Ordinals
    places: Mapping[str, Place]
    blocks: dict[str, Ranges]
    given: dict[str, Ranges] = field(default_factory=dict)
    """cluster -> ordinals, sorted and joined."""
    waiting: dict[str, Ranges] = field(default_factory=dict)
    """cluster -> ordinals that began there and find no room, or no quota."""
    by_quota: Admission | None = None
    """Why some have no quota."""

    @property
    def all_given(self) -> Ranges:
        return shards.normal(piece for ranges in self.given.values() for piece in ranges)

    def placed(self) -> int:
        return sum(map(shards.size, self.given.values()))

    def open(self, cluster: str) -> bool:
        return self.places[cluster].refusal is None and cluster not in self.ordinals.released

    def give(self, cluster: str, ranges: Ranges) -> None:
        self.given[cluster] = shards.union(self.given.get(cluster, ()), ranges)

    def begin(self, cluster: str, ranges: Ranges) -> None:
        """Gives ordinals that begin in this cluster."""
        blocks = list(self.blocks.get(cluster, ()))
        for piece in ranges:
            _extend(blocks, piece)
        self.blocks[cluster] = tuple(sorted(blocks))
        self.give(cluster, ranges)

    def pieces(self, cluster: str) -> Ranges:
        """The ordinals of a cluster in its blocks."""
        mine = self.given.get(cluster, ())
        return tuple(
            piece for block in self.blocks[cluster] for piece in shards.intersect((block,), mine)
        )


def decide(ask: Ask, request: Request, divide: Divide) -> Decision:
    """Decides for one workload with ordinals and charges the ledger."""
    snapshot, ledger, held, seq = request.snapshot, request.ledger, request.held, request.seq
    capped = request.capped
    assert ask.ordinals is not None
    present = homes(request.blocks, held, snapshot.clusters)
    for name in ask.ordinals.released:
        dead = name in snapshot.clusters and snapshot.clusters[name].dead
        if dead or (name in request.empty and all(holding.cluster != name for holding in held)):
            present.pop(name, None)
    plan = _Plan(ask, ask.ordinals, candidates.places(ask, snapshot, ledger), present)
    universe: Ranges = ((0, ask.count - 1),) if ask.count > 0 else ()
    mine = {holding.cluster: holding for holding in held if holding.cluster in plan.places}
    for name, holding in mine.items():
        if name not in ask.ordinals.released or ask.suspended:
            home = shards.normal(plan.blocks.get(name, ()))
            kept = shards.intersect(shards.intersect(shards.normal(holding.ranges), home), universe)
            if kept:
                plan.give(name, kept)
    running = {name: shards.size(ranges) for name, ranges in plan.given.items()}
    before = ledger.mark()
    if not (ask.suspended or contradiction(ask)):
        _return_and_extend(plan, universe, ledger, capped)
    made = _divided(plan, universe, mine, request, divide)
    if ask.policy.require_all and plan.placed() < ask.count:
        kept_only = {name: shards.take(plan.given[name], running[name])[0] for name in running}
        plan.given = kept_only
    ledger.rollback(before)
    shares = _shares(plan, mine, lambda name: seqs.above(request.mark(name), seq))
    grown = {share.cluster: share.count - running.get(share.cluster, 0) for share in shares}
    ledger.commit(
        Commitment.of(ask, shares), {name: more for name, more in grown.items() if more > 0}
    )
    everywhere = {holding.cluster: holding for holding in held}  # clusters that left, too
    decision = _worded(plan, made, universe, shares, everywhere, seq)
    return replace(decision, inputs_hash=inputs.inputs_hash(ask, snapshot, ledger.memo))


def _return_and_extend(
    plan: _Plan, universe: Ranges, ledger: Ledger, capped: Mapping[str, int]
) -> None:
    """Ordinals that began somewhere come back there; new ones extend the last block."""
    ask = plan.ask
    admission = ledger.admission(ask, ask.count, held=plan.placed())
    left = max(admission.copies - plan.placed(), 0)
    missing = shards.minus(universe, plan.all_given)
    # Before new ordinals begin anywhere: what returns has claims that exist only there.
    for name in sorted(plan.blocks):
        back = shards.intersect(missing, shards.normal(plan.blocks[name]))
        if not back:
            continue
        room = min(_room(plan, name, ledger, capped), shards.size(back))
        taken, waiting = shards.take(back, min(room, left))
        # Named as the reason only where room would have been enough.
        plan.by_quota = admission if room > left else plan.by_quota
        left -= _charged(plan, name, taken, ledger)
        plan.give(name, taken)
        if waiting:
            plan.waiting[name] = waiting
    new = shards.minus(
        missing, shards.normal(piece for ranges in plan.blocks.values() for piece in ranges)
    )
    # A rule says how copies lie over domains; a longer block would put them all into one.
    if not new or ask.policy.spread:
        return
    before = new[0][0] - 1
    last = next((n for n, own in plan.blocks.items() if any(b[1] == before for b in own)), None)
    if last is not None and plan.open(last) and not plan.waiting.get(last):
        most = min(_room(plan, last, ledger, capped), left, shards.size(new[:1]))
        # Only the lowest run: after a gap the next ordinals follow another cluster's block.
        taken = shards.take(new, most)[0]
        if taken:
            _charged(plan, last, taken, ledger)
            plan.begin(last, taken)


def _room(plan: _Plan, cluster: str, ledger: Ledger, capped: Mapping[str, int]) -> int:
    """How many more ordinals fit in a cluster, by its nodes and by the policy."""
    if not plan.open(cluster):
        return 0
    has = shards.size(plan.given.get(cluster, ()))
    room = max(ledger.room(cluster, plan.ask.shape), 0)
    if plan.ask.shape.one_per_node:
        room = max(room - has, 0)
    bounds = [percluster.of(plan.ask, plan.places[cluster].view).most, capped.get(cluster)]
    if (ceiling := ledger.ceilings.get(cluster)) is not None:
        bounds.append(ceiling.copies)
    return max(min([room, *(most - has for most in bounds if most is not None)]), 0)


def _charged(plan: _Plan, cluster: str, ranges: Ranges, ledger: Ledger) -> int:
    count = shards.size(ranges)
    if count:
        ledger.charge(cluster, plan.ask.shape, count)
    return count


def _divided(
    plan: _Plan,
    universe: Ranges,
    mine: Mapping[str, Holding],
    request: Request,
    divide: Divide,
) -> Decision:
    """Divides the ordinals that began nowhere yet, beside those that have their cluster."""
    ask, policy = plan.ask, plan.ask.policy
    waits = shards.normal(piece for ranges in plan.waiting.values() for piece in ranges)
    new = shards.minus(shards.minus(universe, plan.all_given), waits)
    count = plan.placed() + shards.size(new)
    # A released cluster gets no ordinal again before a person takes the release back.
    excluded = tuple(dict.fromkeys((*policy.exclude, *plan.ordinals.released)))
    # Ordinals never move, so a plan made afresh could only be refused.
    division = replace(policy.division, fresh=False)
    beside = replace(
        ask,
        count=count,
        slots=count,
        policy=replace(policy, exclude=excluded, division=division),
    )
    has = {name: shards.size(ranges) for name, ranges in plan.given.items()}
    numbers = {name: holding.seq for name, holding in mine.items()}
    held = tuple(
        Holding(name, n, n, numbers.get(name, request.seq)) for name, n in sorted(has.items())
    )
    # Copies with ordinals are moved by nothing that limits or remembers moves.
    plain = Request(
        request.snapshot,
        request.ledger,
        request.seq,
        request.mark,
        held,
        request.capped,
        by_name=request.by_name,
    )
    made = divide(beside, plain)
    if ask.suspended:
        return made
    more = {share.cluster: share.count - has.get(share.cluster, 0) for share in made.shares}
    _begin(plan, {name: n for name, n in more.items() if n > 0}, new)
    return made


def _begin(plan: _Plan, more: dict[str, int], new: Ranges) -> None:
    """Gives new ordinals, the lowest first, in as few runs as there are clusters: first to the
    cluster with the block that ends just below, then to those that get most."""
    while new and more:
        before = new[0][0] - 1
        # To extend a block costs no StatefulSet; then the largest run first, which keeps runs few.
        order = sorted(
            more,
            key=lambda name: (
                all(block[1] != before for block in plan.blocks.get(name, ())),
                -more[name],
                name,
            ),
        )
        name = order[0]
        taken, rest = shards.take(new, more[name])
        run = taken[:1]  # after a gap another cluster's block may end just below
        plan.begin(name, run)
        more[name] -= shards.size(run)
        if not more[name]:
            del more[name]
        new = shards.normal([*taken[1:], *rest])


def _shares(
    plan: _Plan, mine: Mapping[str, Holding], number: Callable[[str], int]
) -> tuple[Share, ...]:
    shares = []
    for name in sorted(plan.given):
        pieces = plan.pieces(name)
        count, former = shards.size(pieces), mine.get(name)
        if count:
            same = former is not None and former.ranges == pieces
            seq = former.seq if former is not None and same else number(name)
            shares.append(Share(name, count, count, seq, pieces))
    return tuple(shares)


def _worded(  # noqa: PLR0917 what `decide` knows by then
    plan: _Plan,
    made: Decision,
    universe: Ranges,
    shares: tuple[Share, ...],
    mine: Mapping[str, Holding],
    seq: int,
) -> Decision:
    ask, wanted = plan.ask, max(plan.ask.count, 0)
    placed = sum(share.count for share in shares)
    counts = {share.cluster: share.count for share in shares}
    missing = wanted - placed
    same = {share.cluster: share.seq for share in shares} == {
        name: holding.seq for name, holding in mine.items()
    }
    notes = [*_waits(plan, universe), *_stays(plan, counts)]
    reason = made.reason
    if not missing and reason not in (Reason.MISCONFIGURED, Reason.SUSPENDED):
        reason = Reason.CHOSEN
    elif missing and reason is Reason.CHOSEN:
        reason = _why_waiting(plan)
    why = "" if made.reason is Reason.CHOSEN or not missing else f": {made.message}"
    message = f"{placed} of {wanted} ordinals are placed{why}"
    return replace(
        made,
        wanted=wanted,
        shares=shares,
        shortfall=missing,
        reason=reason,
        message="; ".join([message, *notes]),
        verdicts=tuple(_verdict(plan, verdict, counts) for verdict in made.verdicts),
        seq=max((holding.seq for holding in mine.values()), default=seq) if same and mine else seq,
        held=sum(counts[name] for name in _holding_on(plan, counts)),
        to_move=0,
        moved=0,
        per_cluster=0,
        surplus=0,
        policy_name=ask.policy.name,
        blocks={name: ranges for name, ranges in sorted(plan.blocks.items()) if ranges},
    )


def _why_waiting(plan: _Plan) -> Reason:
    for name in sorted(plan.waiting):
        refusal = plan.places[name].refusal
        if refusal is not None:
            return refusal.reason
    return Reason.INSUFFICIENT_CAPACITY if plan.by_quota is None else plan.by_quota.reason


def _waits(plan: _Plan, universe: Ranges) -> list[str]:
    sentences = []
    what = "claims are" if plan.ordinals.claims else "name is"
    for name in sorted(plan.waiting):
        left = shards.minus(
            shards.intersect(plan.waiting[name], universe), shards.normal(plan.all_given)
        )
        if not left:
            continue
        refusal = plan.places[name].refusal
        if name in plan.ordinals.released:
            sentences.append(
                f"ordinals {shards.text(left)} begin anew when nothing is left in {name}, which was"
                " given up (spec.release)"
            )
            continue
        why = refusal.message if refusal is not None else f"cluster {name} has no room for more"
        if refusal is None and plan.by_quota is not None:
            why = plan.by_quota.message
        sentences.append(f"ordinals {shards.text(left)} wait for {name}, where their {what}: {why}")
    return sentences


def _stays(plan: _Plan, counts: Mapping[str, int]) -> list[str]:
    """Clusters that keep ordinals which interchangeable copies would leave."""
    sentences = []
    for name in _holding_on(plan, counts):
        refusal, ordinals = plan.places[name].refusal, shards.text(plan.given[name])
        assert refusal is not None
        sentences.append(
            f"ordinals {ordinals} stay, although {refusal.message}: an ordinal never moves by"
            " itself, only spec.release gives it up"
        )
    return sentences


def _holding_on(plan: _Plan, counts: Mapping[str, int]) -> list[str]:
    return [
        name
        for name in counts
        if (refusal := plan.places[name].refusal) is not None and (refusal.evicts or refusal.moves)
    ]


def _verdict(plan: _Plan, verdict: Verdict, counts: Mapping[str, int]) -> Verdict:
    name, got = verdict.cluster, counts.get(verdict.cluster, 0)
    if name in plan.ordinals.released and not got:
        message = f"cluster {name} was given up (spec.release)"
        return replace(verdict, reason=Reason.NOT_SELECTED, message=message, got=0)
    if got:
        ordinals = shards.text(plan.given[name])
        message = f"cluster {name} has ordinals {ordinals}: {verdict.message}"
        return replace(verdict, reason=Reason.CHOSEN, message=message, got=got)
    return replace(verdict, got=0)
