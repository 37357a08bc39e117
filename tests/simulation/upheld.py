"""2: a new placement breaks no PlacementInvariant with enforcement Refuse. By objects alone;
`federator.placement` is never asked.

In some seeds an operator writes one at the beginning, and edits it now and then. Drawn from a
generator of its own: the scripts of the others are the same with and without.

A decision may give a workload more copies in one domain than the invariant allows only if it had as
many there before, or gives it no more copies in all than it ever had: copies that lose their
cluster get another place in any case.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from federator.api import raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.hub.records.decisions import STRUCK
from federator.kinds import registry
from federator.model.fleet import copies_of
from tests.simulation.drawing import generator
from tests.simulation.invariants import Obj, Step, is_decision

Body = dict[str, Any]
Move = tuple[float, str, str, str, str, Body]
"""Pause in seconds, and what is done to which kind, namespace and name."""
RULE = "2 invariants are upheld"
PER_MILLE = 200
"""Of all seeds, so many have an invariant."""
KIND, NAME = "PlacementInvariant", "zones"
PERCENTS = (50, 60, 75)
"""There are two zones."""
MOVES = 4
DIVIDED = frozenset({"PinterestService", "PinterestJobSet", "PinterestStatefulSet", "Deployment"})
"""Kinds with copies of which one may stand for another."""


class Drawn:
    """What the operator of a seed writes."""

    def __init__(self, seed: int) -> None:
        self._rng: random.Random = generator(seed, "invariants")
        self.any = self._rng.randrange(1000) < PER_MILLE
        """Whether this seed has one."""

    def begin(self) -> Iterator[Move]:
        if self.any:
            spec = {"rule": self._rule(), "enforcement": "Refuse"}
            if self._rng.random() < 0.5:
                spec["workloads"] = {"namespaces": ["feed"]}
            yield 0.0, "create", KIND, "", NAME, {"spec": spec}

    def moves(self) -> Iterator[Move]:
        for _ in range(MOVES if self.any else 0):
            enforcement = self._rng.choice(("Refuse", "Refuse", "Warn"))
            spec = {"rule": self._rule(), "enforcement": enforcement}
            yield self._rng.uniform(1.0, 12.0), "patch", KIND, "", NAME, {"spec": spec}

    def _rule(self) -> Body:
        return {"maxShare": {"topologyKey": "zone", "percent": self._rng.choice(PERCENTS)}}


class Upheld:
    """What every decision gives, beside what the invariants say that its hub had heard of."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()
        self._most: dict[str, int] = {}
        """uid of a workload -> the most copies that any decision ever gave it."""

    def breaches(self, step: Step) -> Iterator[str]:
        """What one decision breaks."""
        if not is_decision(step) or not step.writer.startswith("hub"):
            return
        facts = decision_facts(step.obj)
        if facts.key.kind not in DIVIDED or facts.inputs_hash == STRUCK:
            return
        ever = self._most.get(facts.workload_uid, 0)
        after = {share.cluster: copies_of(share) for share in facts.shares}
        self._most[facts.workload_uid] = max(ever, sum(after.values()))
        before = decision_facts(step.before) if step.before is not None else None
        had = {share.cluster: copies_of(share) for share in before.shares} if before else {}
        rules = step.all_of(KIND)
        if not rules or facts.terms.per_cluster or sum(after.values()) <= ever:
            return
        wanted = self._wanted(step, facts)
        if wanted is None:
            return
        zones = _zones(step)
        if zones is None:
            return
        for obj in rules:
            if step.heard(obj) and _refuses(obj, facts):
                self.judged["upheld"] += 1
                yield from self._broken(step, obj, wanted, (had, after), zones)

    @staticmethod
    def _broken(
        step: Step,
        obj: Obj,
        wanted: int,
        change: tuple[Mapping[str, int], Mapping[str, int]],
        zones: Mapping[str, str],
    ) -> Iterator[str]:
        percent = raw.integer(obj, "spec", "rule", "maxShare", "percent")
        was, now = (_by_zone(copies, zones) for copies in change)
        for zone, copies in sorted(now.items()):
            most = max(wanted * percent // 100, 1)
            if copies > max(most, was[zone]):
                yield (
                    f"{RULE}: {step.name}: {copies} of {wanted} copies are in {zone} after"
                    f" {was[zone]}, and at most {most} may be"
                )

    @staticmethod
    def _wanted(step: Step, facts: DecisionFacts) -> int | None:
        """Copies that the workload asks for at once; None where the decision was made for another
        generation than the host's, or nothing is known of it."""
        for obj in step.all_of(facts.key.kind):
            meta, charged = obj["metadata"], facts.terms.charged
            if meta["uid"] != facts.workload_uid:
                continue
            if charged is None or charged.generation != meta.get("generation"):
                return None
            verbs = registry.verbs_of(facts.key.kind)
            return min(verbs.count(obj), verbs.slots(obj))
        return None


def _zones(step: Step) -> dict[str, str] | None:
    """Cluster -> its zone, without clusters that are lost; None where the hub had not heard of all
    labels."""
    zones: dict[str, str] = {}
    for cluster in step.all_of("MemberCluster"):
        if not step.heard(cluster):
            return None
        tainted = {one.get("key") for one in raw.objects(cluster, "status", "taints")}
        if not any("unreachable" in str(key) for key in tainted):
            zones[cluster["metadata"]["name"]] = raw.text(cluster, "metadata", "labels", "zone")
    return zones


def _by_zone(copies: Mapping[str, int], zones: Mapping[str, str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for cluster, count in copies.items():
        if cluster in zones:
            found[zones[cluster]] += count
    return found


def _refuses(obj: Obj, facts: DecisionFacts) -> bool:
    spaces = raw.texts(obj, "spec", "workloads", "namespaces")
    mine = not spaces or facts.key.namespace in spaces
    return mine and raw.text(obj, "spec", "enforcement") == "Refuse"
