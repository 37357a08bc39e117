"""The rules of placement, written down a second time: the oracle of the engine.

Written from docs/reference/policies.md and spread.md, for tiny fleets: nodes are looked at one by
one, copies are given one by one, and sets of clusters and of nodes are found by trying all of them.
It shares no code with the product and imports nothing of it at run time; it only reads the fields
of asks, policies and clusters.

Where the rules leave the choice to the engine the answer is None: strategy Pack, minimums per
cluster, `maxDomains`, and copies that have to leave a cluster without enough room elsewhere. Those are judged by
`checker` and by the invariants.
"""

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.unit.placement import seatbyseat
from tests.unit.placement.seatbyseat import Seats

if TYPE_CHECKING:
    from federator.model.ask import Ask, PodShape
    from federator.model.bounds import PerCluster
    from federator.model.fleet import ClusterView, FleetSnapshot, Holding
    from federator.model.kubernetes.taints import Taint
    from federator.model.policy import Policy
    from federator.model.terms import Conditions, Preference, Term

Node = dict[str, int]
Blocks = dict[str, tuple[tuple[int, int], ...]]
"""cluster -> ranges of numbers, both ends included."""


@dataclass(frozen=True)
class Spot:
    """A cluster that takes part."""

    name: str
    weight: int
    cap: int
    seats: int
    level: int
    order: int
    domains: tuple[str, ...]
    counted: bool
    score: int
    floor: int = 0

    @property
    def rank(self) -> tuple[int, int, int, int, str]:
        """The smallest is chosen first where not all may take part."""
        return self.level, -self.score, -self.cap, self.order, self.name


def stays(policy: "Policy", view: "ClusterView") -> bool:
    """Whether the policy lets copies stay in the cluster."""
    selector = policy.selector.match_labels if policy.selector is not None else ()
    return (
        (not policy.names or view.name in policy.names)
        and view.name not in policy.exclude
        and all(view.labels.get(key) == value for key, value in selector)
        and (not policy.division.groups or _group(policy, view) is not None)
        and meets(policy.conditions, view) != "never"
        and not any(taint.effect == "NoExecute" for taint in _untolerated(policy, view))
        and not (view.removing or view.draining)
    )


def takes(ask: "Ask", view: "ClusterView") -> bool:
    """Whether new copies may begin in the cluster."""
    return (
        stays(ask.policy, view)
        and meets(ask.policy.conditions, view) == "yes"
        and not any(taint.effect == "NoSchedule" for taint in _untolerated(ask.policy, view))
        and ask.tier in view.tiers
        and (view.projects is None or ask.project in view.projects)
        and view.ready
        and not view.cordoned
        and view.capacity is not None
        and not view.stale
    )


def value_of(view: "ClusterView", key: str) -> Any:
    """A property of a cluster: a text, a number, the parts of a version, or None."""
    prefix, _, rest = key.partition(".")
    if prefix in ("labels", "properties"):
        texts = view.labels if prefix == "labels" else view.stated.properties
        return texts.get(rest)
    if key == "price":
        return Fraction(view.stated.price) if view.stated.price else None
    if key == "version":
        numbers = view.stated.version.removeprefix("v").split(".") if view.stated.version else None
        return numbers and tuple(map(int, numbers))
    if view.capacity is None:
        return None
    resource, unit = {"cpu": ("cpu", 1000), "gpu": ("nvidia.com/gpu", 1)}[prefix]
    rows = view.capacity.rows
    amounts = [
        (row.count, Fraction((row.free if "ree" in rest else row.allocatable)[resource], unit))
        for row in rows
    ]
    if rest.startswith("node"):
        return max((amount for count, amount in amounts if count), default=0)
    return sum(count * amount for count, amount in amounts)


EXPRESSIONS: "dict[str, Callable[[ClusterView], bool]]" = {
    "cluster.labels.disk == 'ssd'": lambda view: view.labels["disk"] == "ssd",
    "cluster.price < 3.0 || cluster.cpu.free >= 0.02": lambda view: (
        (view.stated.price != "" and Fraction(view.stated.price) < 3)
        or value_of(view, "cpu.free") >= Fraction("0.02")
    ),
    "cluster.version >= semver('1.30') && !(cluster.name in ['a', 'b'])": lambda view: (
        value_of(view, "version") >= (1, 30) and view.name not in ("a", "b")
    ),
    "has(cluster.price) && cluster.price * 2.0 > 5.0": lambda view: (
        view.stated.price != "" and Fraction(view.stated.price) * 2 > 5
    ),
}
"""CEL expressions and what they mean."""


def _answer(term: "Term", view: "ClusterView") -> str:
    """yes; never: running copies leave too; or not now."""
    if term.cel:
        lasting = "free" not in term.cel
        try:
            answer = EXPRESSIONS[term.cel](view)
        except TypeError:
            return "not now"  # a property is missing
        return "yes" if answer else "never" if lasting else "not now"
    value, lasting = value_of(view, term.key), term.key.split(".")[0] not in ("cpu", "gpu")
    if term.operator in ("Exists", "DoesNotExist"):
        answer = (value is not None) == (term.operator == "Exists")
    elif term.operator in ("In", "NotIn"):
        wanted = [text if isinstance(value, str) else _read(text, value) for text in term.values]
        answer = (value is not None and value in wanted) == (term.operator == "In")
    elif value is None:
        answer = False
    else:
        try:
            have = Fraction(value) if isinstance(value, str) else value
        except ValueError:
            return "not now"
        bound = _read(term.values[0], have)
        answer = have > bound if term.operator == "Gt" else have < bound
    return "yes" if answer else "never" if lasting else "not now"


def _read(text: str, like: Any) -> Any:
    if isinstance(like, tuple):
        return tuple(int(part) for part in [*text.split("."), "0"][:3])
    return Fraction(text)


_ORDER = ("never", "not now", "yes")


def meets(conditions: "Conditions", view: "ClusterView") -> str:
    """The worst of all terms, and of alternatives the best."""

    def worst(answers: Sequence[str]) -> str:
        return min(answers, key=_ORDER.index, default="yes")

    of_terms = [_answer(term, view) for term in conditions.terms]
    of_alternatives = []
    for each in conditions.any_of:
        selector = each.selector.match_labels if each.selector is not None else ()
        admitted = (
            (not each.names or view.name in each.names)
            and view.name not in each.exclude
            and all(view.labels.get(key) == value for key, value in selector)
        )
        answers = [_answer(term, view) for term in each.terms]
        of_alternatives.append(worst(answers) if admitted else "never")
    either = max(of_alternatives, key=_ORDER.index, default="yes")
    return worst([*of_terms, either])


def preferred(
    ask: "Ask", views: "Mapping[str, ClusterView]", fit: Mapping[str, int]
) -> Counter[str]:
    """Points for the preferences of the policy, 10,000 for a cluster that is the best by all.
    `fit`: copies that could lie in each cluster."""
    points, wishes = Counter[str](), ask.policy.preferences
    for wish in wishes:
        whole = sum(each.weight for each in wishes)
        for name, part in _thousandths(ask, wish, views, fit).items():
            points[name] += 10_000 * wish.weight * part // (1000 * whole)
    return points


def _thousandths(
    ask: "Ask", wish: "Preference", views: "Mapping[str, ClusterView]", fit: Mapping[str, int]
) -> dict[str, int]:
    """How far each cluster is from the worst (0) to the best (1000)."""
    most = max(fit.values(), default=0)
    if wish.selector is not None:
        wanted = wish.selector.match_labels
        return {
            name: 1000 * all(view.labels.get(key) == value for key, value in wanted)
            for name, view in views.items()
        }
    if wish.scorer == "FreeCapacity":
        return {name: fit[name] * 1000 // max(most, 1) for name in views}
    if wish.scorer == "Fit":
        return {name: 1000 - fit[name] * 1000 // max(most, 1) if fit[name] else 0 for name in views}
    if wish.scorer == "SpareGPUs":
        return {name: 1000 * (not value_of(view, "gpu.total")) for name, view in views.items()}
    key = {"Price": "price", "Fragmentation": "cpu.nodeFree"}.get(wish.scorer, wish.key)
    lowest = wish.scorer in ("Price", "Fragmentation") or not wish.descending
    values = {name: value_of(view, key) for name, view in views.items()}
    known = {name: float(value) for name, value in values.items() if value is not None}
    if not known:
        return {}
    low, high = min(known.values()), max(known.values())
    if low == high:
        return dict.fromkeys(known, 1000)
    return {
        name: math.floor(1000 * ((high - value if lowest else value - low) / (high - low)))
        for name, value in known.items()
    }


def _untolerated(policy: "Policy", view: "ClusterView") -> Sequence["Taint"]:
    keys = {toleration.key for toleration in policy.tolerations}
    return [taint for taint in view.taints if taint.key not in keys]


def _group(policy: "Policy", view: "ClusterView") -> int | None:
    groups = enumerate(policy.division.groups)
    return next((at for at, group in groups if view.name in group.names), None)


def nodes_of(view: "ClusterView") -> list[Node]:
    rows = view.capacity.rows if view.capacity is not None else ()
    return [dict(row.free.items()) for row in rows for _ in range(row.count)]


def fits(node: Node, shape: "PodShape") -> int:
    """How many pods of this shape the node has room for."""
    most = min(node.get(name, 0) // need for name, need in shape.requests.items() if need > 0)
    return min(most, 1) if shape.one_per_node else most


def packs(nodes: list[Node], pods: Sequence["PodShape"]) -> bool:
    """Whether some way to bind all these pods exists, by trying every one."""
    if not pods:
        return True
    for node in nodes:
        if fits(node, pods[0]):
            for name, need in pods[0].requests.items():
                node[name] = node.get(name, 0) - need
            done = packs(nodes, pods[1:])
            for name, need in pods[0].requests.items():
                node[name] = node.get(name, 0) + need
            if done:
                return True
    return False


def pods_of(shape: "PodShape") -> list["PodShape"]:
    """The pods of a gang, the largest first."""
    pods = [part.shape for part in shape.parts for _ in range(part.count)]
    return sorted(pods, key=lambda pod: -pod.requests["cpu"])


def tie(ask: "Ask", name: str, *, by_name: bool) -> int:
    """Breaks ties between clusters, for each workload in another order."""
    if by_name:
        return 0
    one, other = (hashlib.blake2b(f"{text}\0".encode(), digest_size=16) for text in (name, ask.uid))
    mixed = int.from_bytes(one.digest()[:8]) ^ int.from_bytes(other.digest()[:8])
    return mixed * 0x9E3779B97F4A7C15 % 2**64


class Oracle:
    """What a fleet has left while asks of one shape are decided one after the other."""

    def __init__(self, snapshot: "FleetSnapshot") -> None:
        self.views = dict(sorted(snapshot.clusters.items()))
        self.quotas = snapshot.quotas
        self.taken: Counter[str] = Counter()
        self.used: Counter[str] = Counter()

    def room(self, ask: "Ask", name: str) -> int:
        """Copies that still fit."""
        nodes, shape = nodes_of(self.views[name]), ask.shape
        if shape.parts:
            return int(packs(nodes, pods_of(shape)))
        return max(sum(fits(node, shape) for node in nodes) - self.taken[name], 0)

    def admitted(self, ask: "Ask", wanted: int, held: int = 0) -> int:
        """Copies that quota admits; of what is whole all or none."""
        for quota in self.quotas:
            if ask.project in quota.projects and ask.tier in quota.tiers:
                most = quota.tiers[ask.tier].maximum
                left = (most["cpu"] if most else 0) - self.used[ask.project]
                fit = held + max(left, 0) // max(ask.shape.requests["cpu"], 1)
                wanted = min(wanted, fit) if fit >= wanted or not ask.whole else held
        return wanted

    def place(
        self, ask: "Ask", held: Sequence["Holding"] = (), *, by_name: bool = True
    ) -> Seats | None:
        """Copies of each cluster, charged; None where the rules leave the choice to the engine."""
        division, mine = ask.policy.division, {each.cluster: each.count for each in held}
        if division.strategy == "Pack" or division.min_per_cluster > 0:
            return None
        if any(entry.least for entry in division.per_cluster):
            return None
        if any(rule.max_domains is not None for rule in ask.policy.spread):
            return None
        spots = self._spots(ask, mine, by_name=by_name)
        has = sum(mine.values())
        if any(mine.get(spot.name, 0) > spot.seats for spot in spots):
            return None  # beyond maxPerCluster
        if division.max_clusters is not None and (mine or ask.policy.spread):
            return None
        times = 1
        if division.strategy == "Duplicate":
            times = max(min(len(spots), division.max_clusters or len(spots)), 1)
        wanted = times * (min(ask.count, ask.slots) if ask.unit == "shards" else ask.count)
        total = self.admitted(ask, wanted, has)
        chosen = _chosen(spots, total, division.max_clusters)
        got = _seated(chosen, total, ask.policy)
        placed = sum(got.values())
        if placed < wanted and ask.policy.require_all:
            got = {}
        if placed < wanted and mine:
            return None
        for name, copies in got.items():
            more = max(copies - mine.get(name, 0), 0)
            self.taken[name] += more
            self.used[ask.project] += more * ask.shape.requests["cpu"]
        return {name: copies for name, copies in got.items() if copies}

    def _spots(self, ask: "Ask", mine: Mapping[str, int], *, by_name: bool) -> list[Spot]:
        policy = ask.policy
        open_to = {name: takes(ask, view) for name, view in self.views.items()}
        names = [
            name
            for name, view in self.views.items()
            if open_to[name] or (mine.get(name) and stays(policy, view))
        ]
        rooms = {name: self.room(ask, name) if open_to[name] else 0 for name in names}
        avoided = {
            name: sum(
                taint.effect == "PreferNoSchedule"
                for taint in _untolerated(policy, self.views[name])
            )
            for name in names
        }
        useful = {name: self._useful(ask, name, rooms[name], mine.get(name, 0)) for name in names}
        most_room = max((useful[name] + mine.get(name, 0) for name in names), default=0)
        most_avoided = max(avoided.values(), default=0)
        fit = {name: rooms[name] + mine.get(name, 0) for name in names}
        wished = preferred(ask, {name: self.views[name] for name in names}, fit)
        spots = []
        for name in names:
            has, view = mine.get(name, 0), self.views[name]
            where = tuple(_domain(view, rule.topology_key) for rule in policy.spread)
            most = most_of(ask, view)
            cap = _cap(ask, has, rooms[name], where, most)
            weight = _weight(policy, name, has + rooms[name])
            barred = most == 0 or (policy.division.strategy == "Weighted" and weight <= 0)
            share = 1000 * avoided[name] // most_avoided if most_avoided else 0
            score = 2 * (1000 - share)
            score += wished[name]
            if has:
                score += 14_000 if policy.preferences else 4000
            score += 1000 * (has + useful[name]) // most_room if most_room else 0
            spots.append(
                Spot(
                    name,
                    weight,
                    cap,
                    min(has, cap),
                    2 * (_group(policy, view) or 0) + bool(avoided[name]),
                    tie(ask, name, by_name=by_name),
                    where,
                    has > 0 or (open_to[name] and not barred),
                    score,
                )
            )
        return spots

    def _useful(self, ask: "Ask", name: str, room: int, has: int) -> int:
        """Room that counts for the score: as far as bounds of the cluster's own let it be used."""
        view, policy = self.views[name], ask.policy
        if not any(binds(entry, view) for entry in policy.division.per_cluster):
            return room
        if any(rule.hard and rule.topology_key not in view.labels for rule in policy.spread):
            return 0
        most = most_of(ask, view)
        return room if most is None else min(room, max(most - has, 0))

    def daemon(self, ask: "Ask") -> set[str]:
        """The clusters that get a daemon: all that take it, room or not, as far as quota goes."""
        nodes = {n: len(nodes_of(view)) for n, view in self.views.items() if takes(ask, view)}
        wanted = sum(nodes.values())
        left, got = self.admitted(ask, wanted), set[str]()
        if left <= 0 < wanted:
            return got
        for name in sorted(nodes, key=lambda name: (tie(ask, name, by_name=False), name)):
            if nodes[name] <= left:
                got.add(name)
                left -= nodes[name]
        return got


def _domain(view: "ClusterView", key: str) -> str:
    return seatbyseat.BETWEEN.join(view.stated.topology.get(key) or (view.labels.get(key, ""),))


def _weight(policy: "Policy", name: str, room: int) -> int:
    weights = policy.division.weights
    if policy.division.strategy == "Capacity":
        return room
    if policy.division.strategy == "Weighted" and weights:
        return max((each.weight for each in weights if name in each.names), default=0)
    return 1


def most_of(ask: "Ask", view: "ClusterView") -> int | None:
    """The most copies of one cluster: the smallest of all bounds that hold for it."""
    division = ask.policy.division
    whole = ask.slots if ask.unit == "shards" else ask.count
    bounds = [division.max_per_cluster]
    for entry in division.per_cluster:
        if not binds(entry, view):
            continue
        bounds.append(entry.most)
        if entry.percent is not None:
            part = whole * entry.percent / 100
            bounds.append(1 if 0 < part < 1 else int(part))
    return min((bound for bound in bounds if bound is not None), default=None)


def least_of(ask: "Ask", view: "ClusterView") -> int:
    """What a cluster that joins gets at least: the largest of all bounds that hold for it."""
    division = ask.policy.division
    mine = [entry.least for entry in division.per_cluster if binds(entry, view)]
    return max([division.min_per_cluster, *mine])


def binds(entry: "PerCluster", view: "ClusterView") -> bool:
    """Whether an entry of perCluster is about the cluster."""
    if entry.cluster:
        return entry.cluster == view.name
    wanted = entry.selector.match_labels if entry.selector is not None else ()
    return bool(entry.selector) and all(view.labels.get(key) == value for key, value in wanted)


def _cap(ask: "Ask", has: int, room: int, where: tuple[str, ...], most: int | None) -> int:
    division, cap = ask.policy.division, has + room
    unlabelled = any(
        rule.hard and not domain for rule, domain in zip(ask.policy.spread, where, strict=True)
    )
    bounds = [
        has if unlabelled else cap,
        cap if most is None else most,
        ask.count if ask.unit == "shards" or division.strategy == "Duplicate" else cap,
    ]
    return min(cap, *bounds)


def _chosen(spots: list[Spot], total: int, most: int | None) -> list[Spot]:
    """The set of at most `most` clusters: one that places most, and of those the first by rank."""
    able = [spot for spot in spots if spot.cap > 0 and spot.weight > 0]
    if most is None or most >= len(able):
        return spots
    return list(
        min(
            itertools.combinations(able, most),
            key=lambda taken: (
                -min(sum(spot.cap for spot in taken), total),
                sorted(spot.rank for spot in taken),
            ),
        )
    )


def _seated(spots: Sequence[Spot], total: int, policy: "Policy") -> Seats:
    """One copy at a time. A rule that the weights alone keep changes nothing."""
    missing = total - sum(spot.seats for spot in spots)
    step = seatbyseat.filled if missing >= 0 else seatbyseat.shrunk
    plain = step(spots, abs(missing), (), ())
    if not seatbyseat.broken(spots, plain, policy.spread, ()):
        return plain
    return step(spots, abs(missing), policy.spread, ())


def numbered(count: int, slots: Mapping[str, int]) -> Blocks:
    """The shards of a job set that held nothing: divided by slots, from the first cluster on."""
    spots = [Spot(name, each, count, 0, 0, 0, (), True, 0) for name, each in sorted(slots.items())]
    shares = seatbyseat.filled(spots, count, (), ())
    return dict(_ranges([(name, each) for name, each in shares.items() if each], 0))


def ordinals(count: int, before: Mapping[str, range], more: Mapping[str, int]) -> Blocks:
    """The ordinals below `count`: those that began stay where they are, new ones go to the cluster
    whose block ends just below, then to those that get most."""
    blocks: dict[str, list[int]] = {name: [*each] for name, each in before.items()}
    left, begun = dict(more), {each for numbers in before.values() for each in numbers}
    for ordinal in (each for each in range(count) if each not in begun):
        below = next((name for name in left if ordinal - 1 in blocks.get(name, ())), None)
        name = below or min(left, key=lambda name: (-left[name], name), default="")
        if not name:
            break
        blocks.setdefault(name, []).append(ordinal)
        left[name] -= 1
        left = {name: each for name, each in left.items() if each}
    return {
        name: tuple(_runs([each for each in sorted(numbers) if each < count]))
        for name, numbers in blocks.items()
        if any(each < count for each in numbers)
    }


def _ranges(
    shares: Sequence[tuple[str, int]], low: int
) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    for name, each in shares:
        yield name, ((low, low + each - 1),)
        low += each


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        listed = [number for _, number in run]
        yield listed[0], listed[-1]
