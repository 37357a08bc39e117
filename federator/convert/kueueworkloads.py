"""Workloads of Kueue as PinterestJobSets, the admitted ones with their PlacementDecision.

Pods of one pod set are shards; pods of several sets become one shard that requests all they do, as
a job set has one template. What is admitted holds the flavors that it was assigned.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from federator.api import raw
from federator.api.placement import placementdecision
from federator.api.raw import Obj
from federator.convert.drafts import Drafts, Item, LeftAlone
from federator.convert.kueueaccounts import fitting
from federator.convert.kueueflavors import Flavors
from federator.kinds import asks, registry
from federator.kinds.pods import effective
from federator.model import names
from federator.model.ask import Ask, Tier
from federator.model.decision import Decision, Reason, Share
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity
from federator.model.names import CONVERTED_FROM
from federator.model.policy import DEFAULT_POLICY
from federator.model.resources import PODS, ZERO, Resources

KIND: Final = "Workload"
PRIORITIES: Final = ("WorkloadPriorityClass", "PriorityClass")
IMAGE: Final = "registry.k8s.io/pause:3.10"
"""Of pods that stand for those of a Workload, which names none that would have to run."""
LARGEST: Final = (1 << 60) - 1
"""An amount that no cluster has; larger ones become this."""
CAUSE: Final = "admitted by Kueue"


@dataclass(frozen=True, slots=True)
class Part:
    """Equal pods of a Workload."""

    count: int
    least: int
    each: Resources
    pod: Obj


@dataclass(frozen=True, slots=True)
class Admission:
    """What Kueue admitted."""

    queue: str
    flavors: Mapping[str, str]
    """Resource -> flavor."""
    parts: tuple[Part, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Made:
    """A job set, the account's project that it is charged to, and what of it is admitted."""

    item: Item
    obj: dict[str, Any]
    admission: Admission | None


def made(
    drafts: Drafts, items: Iterable[Item], queues: Mapping[tuple[str, str], str], flavors: Flavors
) -> Iterator[Made]:
    """`queues`: namespace and name of a LocalQueue -> its queue. Those that cannot be said are left
    with the reason."""
    priorities = {
        (item.kind, item.name): raw.integer(item.obj, "value")
        for item in drafts.items
        if item.kind in PRIORITIES
    }
    owners = {
        raw.text(item.given, "metadata", "uid"): item for item in drafts.items if item.kind != KIND
    }
    for item in items:
        try:
            yield _made(item, queues, priorities, owners, flavors)
        except LeftAlone as why:
            drafts.leave(item, str(why))
        except FieldError as bad:
            drafts.leave(item, str(bad))


def notes(row: Made) -> Iterator[str]:
    """What is to know about a job set."""
    rows = raw.objects(row.item.obj, "spec", "podSets")
    if len(rows) > 1:
        yield f"one shard stands for the pods of its {len(rows)} pod sets"
    if row.admission is not None and _condition(row.item, "Evicted"):
        yield (
            "status.conditions: Evicted is not carried over; the job set holds its quota until it"
            " has ended or leaves for another"
        )
    for at, entry in enumerate(rows):
        if len(rows) > 1 and raw.integer(entry, "minCount"):
            yield f"spec.podSets[{at}].minCount is not carried over: the pod sets start together"
        if raw.at(entry, "template", "spec", "affinity") is not None:
            yield f"spec.podSets[{at}].template.spec.affinity is not carried over"


def decisions(rows: Iterable[Made], clusters: Iterable[Obj], flavors: Flavors) -> Iterator[Obj]:
    """The decisions of the admitted, in the order in which they were."""
    admitted = [row for row in rows if row.admission is not None]
    times = sorted({row.admission.at for row in admitted if row.admission is not None})
    places = {
        raw.text(cluster, "metadata", "name"): raw.text_map(cluster, "metadata", "labels")
        for cluster in clusters
    }
    for row in admitted:
        assert row.admission is not None
        wanted = {
            label: value
            for flavor in row.admission.flavors.values()
            for label, value in flavors.selector(flavor)["matchLabels"].items()
        }
        fitting = [
            name
            for name, labels in sorted(places.items())
            if all(labels.get(label) == value for label, value in wanted.items())
        ]
        if fitting:
            yield _decision(row, fitting[0], times.index(row.admission.at) + 1)


def _made(
    item: Item,
    queues: Mapping[tuple[str, str], str],
    priorities: Mapping[tuple[str, str], int],
    owners: Mapping[str, Item],
    flavors: Flavors,
) -> Made:
    spec = raw.mapping(item.obj, "spec")
    if _condition(item, "Finished"):
        raise LeftAlone("status.conditions: it is finished")
    for owner in raw.objects(item.given, "metadata", "ownerReferences"):
        if (of := owners.get(raw.text(owner, "uid"))) is not None:
            raise LeftAlone(f"metadata.ownerReferences: {of.title}, which it was made of, is given")
    admission = _admission(item)
    namespace = item.namespace or "default"
    queue = queues.get((namespace, raw.text(spec, "queueName")), "")
    project = admission.queue if admission is not None else queue
    if not project:
        named = raw.text(spec, "queueName") or "no LocalQueue"
        raise LeftAlone(f"spec.queueName: {named} is not converted")
    parts = admission.parts if admission is not None else tuple(_parts(item))
    whole = parts[0] if len(parts) == 1 else _together(parts)
    obj = _job_set(item, whole, fitting(project), namespace)
    if (priority := _priority(spec, priorities)) != 0:
        obj["spec"]["priority"] = priority
    if spec.get("active") is False:
        obj["spec"]["suspend"] = True
    if admission is None and (placement := _placement(parts, flavors, whole)):
        obj["spec"]["placement"] = placement
    return Made(item, obj, admission)


def _parts(item: Item) -> Iterator[Part]:
    for row in raw.objects(item.obj, "spec", "podSets"):
        count = raw.integer(row, "count", default=1)
        pod = raw.mapping(row, "template", "spec")
        least = raw.integer(row, "minCount")
        if count > 0:
            yield Part(count, least if 0 < least < count else count, _requests(pod), pod)


def _requests(pod: Obj) -> Resources:
    try:
        asked = effective.pod_requests(pod)
    except FieldError:  # more than any cluster has
        asked = ZERO
        for container in raw.objects(pod, "containers"):
            for name, value in raw.mapping(container, "resources", "requests").items():
                asked = asked + Resources({name: _amount(name, value)})
    return Resources({name: amount for name, amount in asked.items() if name != PODS})


def _amount(name: str, value: Any) -> int:
    try:
        return quantity.vector({name: value})[name]
    except FieldError:
        return LARGEST


def _together(parts: Iterable[Part]) -> Part:
    total = ZERO
    for part in parts:
        total = total + part.each * part.count
    most = Resources({name: min(amount, LARGEST) for name, amount in total.items()})
    return Part(1, 1, most, {})


def _admission(item: Item) -> Admission | None:
    """None for one that waits."""
    status = raw.mapping(item.given, "status", "admission")
    if not status:
        return None
    flavors: dict[str, str] = {}
    parts: list[Part] = []
    said = {raw.text(row, "name"): row for row in raw.objects(item.obj, "spec", "podSets")}
    for row in raw.objects(status, "podSetAssignments"):
        assigned = raw.text_map(row, "flavors")
        for resource, flavor in assigned.items():
            if flavors.setdefault(resource, flavor) != flavor:
                raise LeftAlone(
                    f"status.admission: its pods have {resource} in several flavors, and a job set"
                    " has one template"
                )
        usage = {
            name: _amount(name, value) for name, value in raw.mapping(row, "resourceUsage").items()
        }
        pods = raw.integer(said.get(raw.text(row, "name"), {}), "count", default=1)
        count = max(raw.integer(row, "count", default=pods), 1)
        if any(amount % count for amount in usage.values()):
            count = 1
        each = Resources({name: amount // count for name, amount in usage.items() if name != PODS})
        parts.append(Part(count, count, each, {}))
    at = raw.epoch_s(_reserved_at(item))
    return Admission(raw.text(status, "clusterQueue"), flavors, tuple(parts), at)


def _reserved_at(item: Item) -> str:
    rows = raw.objects(item.given, "status", "conditions")
    stamps = {raw.text(row, "type"): raw.text(row, "lastTransitionTime") for row in rows}
    created = raw.text(item.given, "metadata", "creationTimestamp")
    return stamps.get("QuotaReserved") or stamps.get("Admitted") or created


def _condition(item: Item, kind: str) -> bool:
    rows = raw.objects(item.given, "status", "conditions")
    return any((raw.text(r, "type"), raw.text(r, "status")) == (kind, "True") for r in rows)


def _priority(spec: Obj, priorities: Mapping[tuple[str, str], int]) -> int:
    if spec.get("priority") is not None:
        return raw.integer(spec, "priority")
    ref = raw.mapping(spec, "priorityClassRef")
    named = raw.text(ref, "name") or raw.text(spec, "priorityClassName")
    for kind in PRIORITIES:
        if (kind, named) in priorities:
            return priorities[kind, named]
    return 0


def _job_set(item: Item, part: Part, project: str, namespace: str) -> dict[str, Any]:
    requests = {
        name: quantity.render_amount(name, amount) for name, amount in part.each.items() if amount
    }
    container = {"name": "main", "image": IMAGE, "resources": {"requests": requests}}
    name = fitting(item.name)
    meta: dict[str, Any] = {"name": name, "namespace": namespace}
    if name != item.name:
        meta["annotations"] = {CONVERTED_FROM: item.name}
    # A uid ends ties between the equal, as it does in Kueue.
    uid = raw.text(item.given, "metadata", "uid") or item.name
    meta["uid"] = f"{uid}.{namespace}"
    if created := raw.text(item.given, "metadata", "creationTimestamp"):
        meta["creationTimestamp"] = created
    spec: dict[str, Any] = {"project": project, "tier": str(Tier.ON_DEMAND), "shards": part.count}
    if part.least < part.count:
        spec["minParallelism"] = part.least
    else:
        spec["placement"] = {"partial": "RequireAll"}
    spec["template"] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": registry.KINDS["PinterestJobSet"].api_version,
        "kind": "PinterestJobSet",
        "metadata": meta,
        "spec": spec,
    }


def _placement(parts: Iterable[Part], flavors: Flavors, whole: Part) -> dict[str, Any]:
    """Which flavors its pods may use, and the taints of flavors that they tolerate."""
    placement: dict[str, Any] = {} if whole.least < whole.count else {"partial": "RequireAll"}
    keys = frozenset(key for name in flavors.items for key in flavors.node_labels(name))
    tolerations: list[Obj] = []
    barred: dict[str, set[str]] = {}
    for part in parts:
        wanted = dict(raw.text_map(part.pod, "nodeSelector"))
        for name in flavors.groups:
            of_group = frozenset(
                key
                for other, at in flavors.groups.items()
                if at == flavors.groups[name]
                for key in flavors.node_labels(other)
            )
            if wanted and not flavors.matches(name, wanted, of_group & keys):
                label = next(iter(flavors.selector(name)["matchLabels"]))
                barred.setdefault(label, set()).add(name)
        tolerations += [row for row in raw.objects(part.pod, "tolerations") if row.get("effect")]
    if barred:
        placement["clusters"] = {
            "selector": {
                "matchExpressions": [
                    {"key": label, "operator": "NotIn", "values": sorted(those)}
                    for label, those in sorted(barred.items())
                ]
            }
        }
    if tolerations:
        placement["tolerations"] = [
            {field: row[field] for field in ("key", "operator", "value", "effect") if field in row}
            for row in tolerations
        ]
    return placement


def _decision(row: Made, cluster: str, seq: int) -> dict[str, Any]:
    kind = registry.KINDS["PinterestJobSet"]
    assert kind.verbs is not None
    ask: Ask = replace(asks.ask(row.obj, kind.verbs, DEFAULT_POLICY), policy=DEFAULT_POLICY)
    share = Share(cluster, ask.count, ask.slots, seq, ((0, ask.count - 1),))
    decision = Decision(
        key=ask.key,
        uid=ask.uid,
        wanted=ask.count,
        shares=(share,),
        shortfall=0,
        reason=Reason.CHOSEN,
        message="",
        verdicts=(),
        as_of=row.admission.at if row.admission is not None else 0.0,
        inputs_hash="",
        seq=seq,
    )
    return {
        "apiVersion": registry.KINDS["PlacementDecision"].api_version,
        "kind": "PlacementDecision",
        "metadata": {
            "name": names.decision_name(kind.short_names[0], ask.key.name, ask.uid),
            "namespace": ask.key.namespace,
        },
        "spec": placementdecision.to_spec(decision, (CAUSE,), ask),
    }
