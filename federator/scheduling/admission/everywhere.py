"""Workloads for every cluster, among the workloads that want quota: services with strategy
Duplicate, and daemons. They preempt as divided workloads do.

Neither chooses a domain. What is lacking in the clusters of each is judged apart, and with
RequireAll all of it together:

    web wants 3 in each of a and b (east) and c (west), and has 1 in each: 4 in east, 2 in west

Copies of a service cannot go to another cluster. So others leave where copies of it lack room, and
only for as many as have room then. A daemon goes to nodes whether they have room or not, and to all
nodes of a cluster or to none: it asks for quota alone, for the smallest clusters first. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from federator.model.ask import Ask
from federator.model.fleet import copies_of, remaining
from federator.model.resources import Resources, cell
from federator.placement.policy import percluster
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.room.world import PENDING
from federator.placement.selection import candidates, leaving
from federator.placement.selection.candidates import Place
from federator.scheduling import editing
from federator.scheduling.admission import edits
from federator.scheduling.admission.domains import Want
from federator.scheduling.admission.edits import Lack, TierDomains
from federator.scheduling.admission.holders import Victim
from federator.scheduling.entry import Entry


def is_everywhere(ask: Ask) -> bool:
    return ask.shape.every_node or leaving.everywhere(ask)


def wants(
    entry: Entry,
    node: str,
    commitments: Commitments,
    ledger: Ledger,
    places: TierDomains,
) -> Iterator[Want]:
    """What it lacks, by the domains in which that is. `node`: the leaf of its account."""
    ask, parts = entry.ask, dict[tuple[str, ...], dict[str, int]]()
    held = {
        holding.cluster: copies_of(remaining(holding, entry.standing.done))
        for holding in entry.standing.held
        if holding.count
    }
    for cluster, copies in lacking(ask, held, ledger).items():
        # All or nothing: its clusters are judged together, whatever domains they are in.
        at = () if ask.policy.require_all else places.of(cluster)
        parts.setdefault(at, {})[cluster] = copies
    for _, there in sorted(parts.items()):
        copies, least = sum(there.values()), min(there.values()) if ask.shape.every_node else 1
        want = Want(
            node,
            ask.priority,
            ask.created_s,
            ask.shape.requests,
            copies,
            copies if ask.policy.require_all else least,
            edits.nowhere,
            cells=partial(_cells, ask, there, places),
            there=there,
        )
        yield want if ask.shape.every_node else _in_room(want, ask, commitments, ledger)


def lacking(ask: Ask, held: Mapping[str, int], ledger: Ledger) -> dict[str, int]:
    """Cluster -> copies that it lacks there, of those that are open to it and that it may be in.
    `held`: cluster -> copies that it has."""
    bounds, judged = ask.policy.division, candidates.places(ask, ledger.snapshot, ledger)
    opened = [name for name, place in judged.items() if place.refusal is None]
    if ask.shape.every_node:
        nodes = {name: ledger.nodes_admitting(name, ask.shape) for name in opened}
        joining = {name: count for name, count in nodes.items() if name not in held}
        # A cluster that has not counted its nodes yet: what all of them need is not known.
        if ask.policy.require_all and PENDING in joining.values():
            return {}
        return {name: count for name, count in joining.items() if count > 0}
    if bounds.max_clusters is not None:
        # Quota is asked for where the copies will go: clusters with more room score higher.
        joining_first = sorted(opened, key=lambda name: (-ledger.room(name, ask.shape), name))
        free = max(bounds.max_clusters - len(held.keys() & judged.keys()), 0)
        # Clusters that have it stay among them, whatever room others have: its copies do not move.
        others = [name for name in joining_first if name not in held][:free]
        opened = [name for name in opened if name in held or name in others]
    lacks = {name: _most(ask, judged[name]) - held.get(name, 0) for name in opened}
    return {name: copies for name, copies in lacks.items() if copies > 0}


def _most(ask: Ask, place: Place) -> int:
    """The most copies of one cluster."""
    most = percluster.of(ask, place.view).most
    return ask.count if most is None else min(ask.count, most)


def _cells(
    ask: Ask, there: Mapping[str, int], places: TierDomains, copies: int
) -> Mapping[str, int]:
    """What so many of its copies use: one cluster after the other; of a daemon as many clusters as
    have no more nodes, the smallest first."""
    total, inside, left = 0, dict[str, int](), copies
    for cluster, lacks in sorted(there.items(), key=lambda entry: (entry[1], entry[0])):
        given = min(lacks, left)
        if ask.shape.every_node and given < lacks:
            break
        total, left = total + given, left - given
        for domain in places.of(cluster):
            inside[domain] = inside.get(domain, 0) + given
    requests = ask.shape.requests
    return dict((requests * total).items()) | {
        cell(resource, domain): requests[resource] * given
        for domain, given in inside.items()
        for resource in places.limited[domain]
        if requests[resource]
    }


def rooms(want: Want, ask: Ask, ledger: Ledger) -> dict[str, int]:
    """Cluster -> of the copies that it lacks there, those that have room now; all where only the
    member can tell."""
    return {
        name: lacks if (room := ledger.room(name, ask.shape)) == PENDING else min(lacks, room)
        for name, lacks in want.there.items()
    }


def _in_room(want: Want, ask: Ask, commitments: Commitments, ledger: Ledger) -> Want:
    """What a service lacks, for which others leave where its copies lack room; anywhere where none
    does."""
    has, requests = rooms(want, ask, ledger), ask.shape.requests
    if has == want.there:
        return want
    lacks = {name: requests * (copies - has[name]) for name, copies in want.there.items()}
    place = partial(Lack, lacks, want.there.keys(), commitments)

    def whence(victims: Iterable[Victim]) -> Iterator[tuple[Victim, Mapping[str, int]]]:
        return edits.whence(place(), commitments, victims)

    def fits(cluster: str, freed: Resources) -> int:
        there = editing.in_place(cluster, want.there[cluster], requests, freed, ledger)
        return max(has[cluster], there or 0)

    def helped(victims: tuple[Victim, ...], copies: int) -> bool:
        freed = edits.room(whence(victims), commitments)
        fit = {**has, **{name: fits(name, freed[name]) for name in want.there if name in freed}}
        return not victims or sum(fit.values()) >= copies

    return replace(want, helped=helped, whence=whence, place=place)
