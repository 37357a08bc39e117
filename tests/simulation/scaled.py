"""Services whose copies an autoscaler chooses, by objects alone: what is charged, how their bounds
are divided, and that nobody but the autoscaler writes the count.

The sums are reckoned here from what is written; `federator.kinds` is never asked for them.
"""

import contextlib
import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from federator.api import raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.kinds import labels
from federator.kube import errors
from federator.model import names
from federator.model.steps import ObjectRef
from tests.simulation.invariants import Obj, Step, all_of
from tests.simulation.lives import NAMESPACE, PREFIX, SERVICE
from tests.simulation.world import World

WITHIN = "6 bounds are within bounds"
COUNT = "18 the count is the autoscaler's"
SUMS = "1 bounds add up"
CHARGED = "6 what may come is charged"
TOLD = "19 what autoscalers ask for is told"
AUTOSCALERS = ("autoscaling", "horizontalpodautoscalers")


class Load:
    """Says to the autoscalers of a world what they measure, and is one where the service has its
    own.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    async def turn(self, world: World) -> None:
        """The load of one cluster changes."""
        name = self._rng.choice(sorted(world.federation.members))
        wanted, member = self._rng.randint(0, 14), world.federation.members[name]
        for entry in member.store.items(member.registry.get(*AUTOSCALERS), NAMESPACE):
            meta = entry.obj["metadata"]
            ref = ObjectRef(
                "autoscaling/v2",
                AUTOSCALERS[1],
                NAMESPACE,
                meta["name"],
                "HorizontalPodAutoscaler",
            )
            note = {f"{PREFIX}wanted-replicas": str(wanted)}
            with contextlib.suppress(errors.NotFound):
                await world.member(name).patch(ref, {"metadata": {"annotations": note}})
            return
        for entry in member.store.items(member.registry.get("apps", "deployments"), NAMESPACE):
            bounds = labels.bounds_of(raw.mapping(entry.obj, "metadata", "annotations"))
            if bounds is None:
                continue
            await _own_scales(world, name, entry.obj, min(max(wanted, bounds[0]), bounds[1]))

    async def bound(self, world: World) -> None:
        """Each autoscaler of a member's own takes copies away that are beyond its bounds, as one
        that goes on working does: these may have become fewer since its load last changed.
        """
        for name, member in sorted(world.federation.members.items()):
            if any(True for _ in member.store.items(member.registry.get(*AUTOSCALERS), NAMESPACE)):
                continue  # its controller does so by itself
            for entry in member.store.items(member.registry.get("apps", "deployments"), NAMESPACE):
                bounds = labels.bounds_of(raw.mapping(entry.obj, "metadata", "annotations"))
                if bounds is not None and raw.integer(entry.obj, "spec", "replicas") > bounds[1]:
                    await _own_scales(world, name, entry.obj, bounds[1])


async def _own_scales(world: World, cluster: str, deployment: Obj, count: int) -> None:
    """The autoscaler that a member has of its own writes how many copies run."""
    meta = deployment["metadata"]
    ref = ObjectRef("apps/v1", "deployments", NAMESPACE, meta["name"], "Deployment")
    with contextlib.suppress(errors.NotFound):
        await world.member(cluster).patch(ref, {"spec": {"replicas": count}})


class Scaled:
    """Remembers how far each service was ever let scale: a member acts by what it has heard."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()
        self._most: dict[tuple[str, str], int] = {}

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if step.kind == SERVICE and step.cluster == "host" and step.new is not None:
            which, most = _which(step.new), raw.integer(step.new, "spec", "autoscaling", "max")
            self._most[which] = max(most, self._most.get(which, 0))
        if step.new is None or not step.writer.startswith("member"):
            return []
        if step.kind == "HorizontalPodAutoscaler":
            return list(self._bounded(step, step.new))
        return list(self._kept(step)) if step.kind == "Deployment" else []

    def _bounded(self, step: Step, obj: Obj) -> Iterator[str]:
        self.judged[WITHIN] += 1
        least, most = (raw.integer(obj, "spec", f"{end}Replicas") for end in ("min", "max"))
        whole = self._most.get(_which(obj), most)
        if not 1 <= least <= most <= whole:
            yield f"{WITHIN}: {step.name}: {least} to {most}, of at most {whole}"

    def _kept(self, step: Step) -> Iterator[str]:
        """A member process leaves a count alone that is within the bounds."""
        if not step.same or step.old is None or step.new is None:
            return
        bounds = labels.bounds_of(raw.mapping(step.new, "metadata", "annotations"))
        was, now = (raw.integer(obj, "spec", "replicas") for obj in (step.old, step.new))
        if bounds is None:
            return
        self.judged[COUNT] += 1
        if was != now and bounds[0] <= was <= bounds[1]:
            yield (
                f"{COUNT}: {step.name}: {step.writer} makes {now} of {was}, between {bounds[0]} "
                f"and {bounds[1]}"
            )


def _which(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def services(world: World) -> Iterator[Obj]:
    for obj in all_of(world.federation.host, SERVICE):
        if raw.mapping(obj, "spec", "autoscaling"):
            yield obj


def whole_of(obj: Obj) -> int:
    """Copies that are charged for a service: `max`, or so much of the way to it."""
    scaling = raw.mapping(obj, "spec", "autoscaling")
    percent = raw.integer(scaling, "chargePercent", default=100)
    least, most = raw.integer(scaling, "min"), raw.integer(scaling, "max")
    return least + math.ceil((most - least) * percent / 100)


def charged(world: World) -> Iterator[str]:
    """What is decided for a service is what it may come to."""
    for obj, facts in _divided(world):
        if facts.terms.wanted != whole_of(obj):
            name, wanted = obj["metadata"]["name"], facts.terms.wanted
            yield f"{name}: the decision is for {wanted}, and {whole_of(obj)} may come"


def _divided(world: World) -> Iterator[tuple[Obj, DecisionFacts]]:
    """Services with their decisions, but for those of which each cluster has all."""
    found = list(map(decision_facts, all_of(world.federation.host, "PlacementDecision")))
    for obj in services(world):
        for facts in found:
            if facts.workload_uid == obj["metadata"]["uid"] and not facts.terms.per_cluster:
                yield obj, facts


def add_up(world: World) -> Iterator[str]:
    """The bounds of all clusters are those of the service, when all of it is placed: never more
    than `max` together, all of it where all is charged, and never less than `min`; rounding makes
    it one more a cluster at most.
    """
    for obj, facts in _divided(world):
        scaling = raw.mapping(obj, "spec", "autoscaling")
        least, most = raw.integer(scaling, "min"), raw.integer(scaling, "max")
        parts, name = list(_parts(world, obj)), obj["metadata"]["name"]
        low, high = sum(part.low for part in parts), sum(part.high for part in parts)
        if high > most:
            yield f"{name}: at most {most}, in all clusters {high}"
        if facts.placed != whole_of(obj):
            continue
        if raw.text(scaling, "owner") != "Member" and not least <= low < least + len(parts):
            yield f"{name}: at least {least}, in {len(parts)} clusters {low}"
        if high < most and whole_of(obj) == most:
            yield f"{name}: up to {most}, in all clusters {high}"


def told(world: World) -> Iterator[str]:
    """DESIRED is what the autoscalers ask for now."""
    for obj in services(world):
        asked = sum(part.copies for part in _parts(world, obj))
        desired = raw.integer(obj, "status", "desired")
        if raw.condition(obj, "Placed").get("status") == "True" and desired != asked:
            yield f"{obj['metadata']['name']}: {desired} desired, autoscalers ask for {asked}"


class Part(NamedTuple):
    """What one cluster has of a service."""

    low: int
    high: int
    """Its autoscaler's bounds."""
    copies: int
    """Copies that its Deployment has."""


def _parts(world: World, obj: Obj) -> Iterator[Part]:
    for member in world.federation.members.values():
        for entry in member.store.items(member.registry.get("apps", "deployments")):
            meta = entry.obj["metadata"]
            if raw.text(meta, "labels", names.WORKLOAD_UID_LABEL) != obj["metadata"]["uid"]:
                continue
            low, high = labels.bounds_of(raw.mapping(meta, "annotations")) or (0, 0)
            where = member.registry.get(*AUTOSCALERS)
            scaler = member.store.get(where, meta["namespace"], meta["name"])
            if scaler is not None:
                low, high = (
                    raw.integer(scaler.obj, "spec", f"{end}Replicas") for end in ("min", "max")
                )
            yield Part(low, high, raw.integer(entry.obj, "spec", "replicas"))
