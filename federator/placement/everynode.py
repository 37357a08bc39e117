"""The decision of a daemon: one of it in every cluster that admits it, and in no other.

There is nothing to divide and nothing to move. A daemon goes to clusters whether their nodes have
room or not, as the native DaemonSet does on nodes. It leaves a cluster that its policy no longer
admits at once, since no other cluster could run its pods instead; one that only takes nothing new
(cordoned, not ready, stale) keeps it. Quota and room are charged for a pod on each node that admits
it. Where quota is short, clusters that have the daemon keep it, and others get it as far as the
rest goes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from federator.model import names
from federator.model import seq as seqs
from federator.model.ask import Ask
from federator.model.decision import Decision, Reason, Share, Verdict
from federator.model.fleet import Commitment, Holding, copies_of
from federator.model.policy import Division, Policy, Strategy
from federator.placement import inputs, verdicts
from federator.placement.policy import enforcing
from federator.placement.quota.domain_usage import Ceiling
from federator.placement.quota.quota import Admission
from federator.placement.request import Divide, Request
from federator.placement.room.ledger import Ledger
from federator.placement.room.world import PENDING
from federator.placement.selection import candidates, filters
from federator.placement.selection.candidates import Place


def policy_of(policy: Policy) -> Policy:
    """A policy as it applies to daemons: which clusters, tolerations, roll-out. Division and spread
    have no meaning, and one cluster after the other gets a new template unless the policy says
    otherwise."""
    # A daemon has no second copy that serves meanwhile, so its clusters change one by one.
    at_once = policy.max_clusters_at_once or 1
    return replace(
        policy, division=Division(Strategy.DUPLICATE), spread=(), max_clusters_at_once=at_once
    )


def policy_of_repeating(policy: Policy) -> Policy:
    """A policy as it applies to what clusters run again and again by themselves: one run's copies
    in each cluster that it chooses. So it has to choose: one that leaves all clusters open would
    run it in the whole fleet, which nobody asked for by saying nothing."""
    problem = policy.problem
    if not problem and not (policy.names or policy.selector or policy.conditions):
        named = filters.field_of(policy, "clusters")
        problem = (
            f"{named} names and selects no clusters: with runs Native each cluster of the policy "
            "runs it, so say which"
        )
    return replace(policy, division=Division(Strategy.DUPLICATE), spread=(), problem=problem)


@dataclass(slots=True)
class _DaemonPart:
    """One cluster that has the daemon, or is to get it."""

    place: Place
    held: Holding | None
    nodes: int
    """Nodes that get a pod of it; PENDING while only the member can tell."""
    stays: str = ""
    """Why it stays against the policy, as a part of a sentence."""
    short: Ceiling | None = None
    """What leaves too little for it there; None where there is enough."""
    got: bool = False

    @property
    def name(self) -> str:
        return self.place.view.name


def decide(ask: Ask, request: Request, _: Divide) -> Decision:
    """Decides for one daemon and charges the ledger, as `engine.decide`."""
    snapshot, ledger, seq = request.snapshot, request.ledger, request.seq
    hashed = inputs.inputs_hash(ask, snapshot, ledger.memo)
    places = candidates.places(ask, snapshot, ledger)
    mine = {holding.cluster: holding for holding in request.held if holding.count > 0}
    parts = _parts(ask, places, mine, ledger)
    staying = [part for part in parts if part.held is not None]
    # Those that have it come first: quota that is short takes no daemon down.
    joining = _in_order(ask, [part for part in parts if part.held is None])
    closed = _closed(ask)
    node_count = sum(max(part.nodes, 0) for part in parts)
    has = sum(copies_of(part.held) for part in staying if part.held is not None)
    admission = ledger.admission(ask, node_count, held=has)
    for part in staying:
        part.got = True
    if closed is None:
        _join(ask, joining, admission, node_count, taken=sum(part.nodes for part in staying))
    shares = _shares(parts, lambda name: seqs.above(request.mark(name), seq))
    _charge(ask, shares, mine, ledger)
    wanted = max(len(parts), 1)
    reason, why = closed or _binding(ask, places, parts, admission, node_count)
    same = {share.cluster: share.seq for share in shares} == {
        name: holding.seq for name, holding in mine.items()
    }
    return Decision(
        key=ask.key,
        uid=ask.uid,
        wanted=wanted,
        shares=shares,
        shortfall=wanted - len(shares),
        reason=reason,
        message=_sentence(parts, why),
        verdicts=_verdicts(places, parts, reason, why),
        as_of=snapshot.as_of,
        inputs_hash=hashed,
        seq=max((holding.seq for holding in mine.values()), default=seq) if same else seq,
        quota_generations=admission.generations,
        unlimited_quota=admission.unlimited,
        held=sum(bool(part.stays) for part in parts),
        **inputs.recorded(ask.policy),
    )


def _parts(
    ask: Ask, places: Mapping[str, Place], mine: Mapping[str, Holding], ledger: Ledger
) -> list[_DaemonPart]:
    """The clusters that have it and keep it, and those that are open to it, by name."""
    chosen = any(place.refusal is None or _keeps(place) for place in places.values())
    parts: list[_DaemonPart] = []
    for name, place in places.items():
        holding = mine.get(name)
        stays = ""
        if place.refusal is not None:
            if holding is None:
                continue
            if not _keeps(place):
                if chosen or not _unselected(place):
                    continue
                # A selector that admits no cluster at all is more likely a slip than a wish.
                stays = "no cluster is admitted"
        nodes = ledger.nodes_admitting(name, ask.shape)
        # The last known number is nearer to the truth than none, and keeps the charge steady.
        if nodes == PENDING and holding is not None:
            nodes = copies_of(holding)
        ceiling = ledger.ceilings.get(name) if holding is None else None
        short = ceiling if ceiling is not None and nodes > ceiling.copies else None
        parts.append(_DaemonPart(place, holding, nodes, stays, short))
    return parts


def _keeps(place: Place) -> bool:
    """Whether a cluster that takes nothing new keeps what it has. A taint that the federation set
    itself is no person's word to take a daemon down: daemons stay on clusters that are not heard.
    """
    refusal = place.refusal
    if refusal is None or refusal.evicts:
        return False
    return not refusal.moves or (refusal.reason is Reason.TAINTED and not refusal.overdue)


def _unselected(place: Place) -> bool:
    """Whether only the policy's choice of clusters is against it."""
    refusal, view = place.refusal, place.view
    if refusal is None or refusal.evicts or refusal.enforced or view.removing:
        return False
    return refusal.reason is Reason.NOT_SELECTED


def _in_order(ask: Ask, joining: Sequence[_DaemonPart]) -> list[_DaemonPart]:
    """Clusters that are to get it, in an order that favours no name where quota is short."""
    mine = names.stable_order(ask.tie_break)
    return sorted(
        joining,
        key=lambda part: (candidates.tie_break(part.place, mine, by_name=False), part.name),
    )


def _closed(ask: Ask) -> tuple[Reason, str] | None:
    """Why no cluster gets it newly, whatever there is."""
    if ask.policy.problem:
        return Reason.MISCONFIGURED, ask.policy.problem
    if ask.suspended:
        return Reason.SUSPENDED, "the workload is suspended (spec.suspend)"
    return None


def _join(
    ask: Ask, joining: Sequence[_DaemonPart], admission: Admission, node_count: int, *, taken: int
) -> None:
    """Gives it to the clusters with nodes that quota admits; to all or none with RequireAll."""
    # What stays is charged first, whatever the order of names.
    left = admission.copies - taken
    able = [part for part in joining if part.nodes != PENDING and not part.short]
    if ask.policy.require_all and (len(able) < len(joining) or admission.copies < node_count):
        return
    if admission.reason is not Reason.CHOSEN and left <= 0:
        return  # not even on clusters that have no node for it at present
    for part in able:
        # A cluster that is too large is passed over: a smaller one behind it may still fit.
        part.got = part.nodes <= left
        left -= part.nodes if part.got else 0


def _shares(parts: Sequence[_DaemonPart], number: Callable[[str], int]) -> tuple[Share, ...]:
    """A share keeps its seq as long as the cluster has the daemon: how many nodes there are is not
    written into members."""
    return tuple(
        Share(
            part.name,
            1,
            1,
            part.held.seq if part.held is not None else number(part.name),
            nodes=part.nodes,
        )
        for part in parts
        if part.got
    )


def _charge(
    ask: Ask, shares: tuple[Share, ...], mine: Mapping[str, Holding], ledger: Ledger
) -> None:
    """What nodes of clusters that have it already take is in their reports."""
    ledger.commit(
        Commitment.of(ask, shares),
        {share.cluster: copies_of(share) for share in shares if share.cluster not in mine},
    )


def _binding(
    ask: Ask,
    places: Mapping[str, Place],
    parts: Sequence[_DaemonPart],
    admission: Admission,
    node_count: int,
) -> tuple[Reason, str]:
    """Why a cluster that is to have it does not get it; (CHOSEN, "") when each has it."""
    if kept := [part.name for part in parts if part.stays]:
        field = enforcing.titles(ask.policy) or f"policy {ask.policy.name}"
        return (
            Reason.NO_CLUSTER_ADMITTED,
            f"{field} admits no cluster; it stays in {_named(kept)} until one is admitted",
        )
    missing = [part for part in parts if not part.got]
    if parts and not missing:
        return Reason.CHOSEN, ""
    if parts and admission.reason is not Reason.CHOSEN:
        return admission.reason, admission.message
    if short := next((part.short for part in missing if part.short), None):
        return short.reason, short.why
    if waiting := [part.name for part in missing if part.nodes == PENDING]:
        return (
            Reason.PENDING_EVALUATION,
            f"{_named(waiting)} has not answered yet how many nodes admit its pods",
        )
    return verdicts.shortage(
        ask, 1, 0, admission, eligible=places, pool=(), left_out={}, violated=False
    )


def _sentence(parts: Sequence[_DaemonPart], why: str) -> str:
    got = [part for part in parts if part.got]
    nodes = sum(part.nodes for part in got)
    head = f"{len(got)} of {len(parts)} clusters have it, on {nodes} nodes"
    if not why:
        return f"every cluster that admits it has it: {_count(len(got))}, {nodes} nodes"
    return f"{head}: {why}" if parts else why


def _verdicts(
    places: Mapping[str, Place], parts: Sequence[_DaemonPart], reason: Reason, why: str
) -> tuple[Verdict, ...]:
    by_name = {part.name: part for part in parts}
    return tuple(_verdict(place, by_name.get(name), reason, why) for name, place in places.items())


def _verdict(place: Place, part: _DaemonPart | None, reason: Reason, why: str) -> Verdict:
    name, refusal = place.view.name, place.refusal
    if part is None:
        assert refusal is not None
        return Verdict(name, refusal.reason, refusal.message)
    if not part.got:
        if part.nodes == PENDING:
            why = "it has not answered yet how many nodes admit its pods"
            return Verdict(name, Reason.PENDING_EVALUATION, f"cluster {name} gets nothing: {why}")
        reason, why = (part.short.reason, part.short.why) if part.short else (reason, why)
        return Verdict(
            name, reason, f"cluster {name} gets nothing on its {part.nodes} nodes: {why}"
        )
    if refusal is not None:
        said = refusal.message.removeprefix(f"cluster {name}").removeprefix(":").strip()
        text = f"keeps it on {part.nodes} nodes, although the cluster {said}"
        if said.startswith("its "):
            text = f"keeps it on {part.nodes} nodes, although {said}"
    elif part.held is not None:
        text = f"has it on {part.nodes} nodes"
    else:
        text = f"gets it on {part.nodes} nodes"
    return Verdict(name, Reason.CHOSEN, f"cluster {name} {text}", fit=1, got=1)


def _named(clusters: Sequence[str]) -> str:
    more = f" and {len(clusters) - 3} more" if len(clusters) > 3 else ""
    return f"{', '.join(clusters[:3])}{more}"


def _count(clusters: int) -> str:
    return "1 cluster" if clusters == 1 else f"{clusters} clusters"
