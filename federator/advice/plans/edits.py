"""Edits: the objects that a person is about to apply, delete, scale or lose, and the situation
after that. Pure: the present situation stays as it is.

An applied object replaces the spec of the present one, as `kubectl apply` does: labels and
annotations that the last apply set and this one leaves out are removed, all others stay. Status and
identity stay.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from federator.advice import drills
from federator.api import federatedquota, membercluster, raw, runtimeprofile
from federator.api.placement import placementinvariant
from federator.hub.cache import policying
from federator.hub.evacuation import drain_words
from federator.hub.placing import offline
from federator.hub.placing.offline import Id, Situation
from federator.hub.records import workloads
from federator.kinds import registry
from federator.kinds.pods import podparts
from federator.model.fleet import ClusterView
from federator.model.kubernetes import pod_security
from federator.model.names import WorkloadKey
from federator.model.rules.invariant import Invariant
from federator.placement.policy import holds
from federator.placement.policy.policies import Policies, Rule

Obj = Mapping[str, Any]
NAMESPACE: Final = "Namespace"
PROFILE: Final = "RuntimeProfile"
POLICIES: Final = ("PlacementPolicy", "ClusterPlacementPolicy")
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
LOST: Final = "it is lost in this plan"
WRITTEN: Final = (
    "labels",
    "taints",
    "cordoned",
    "maintained",
    "removing",
    "dead",
    "fenced",
    "draining",
    "drain_waits",
    "tiers",
    "projects",
    "usable_permille",
    "buffer_permille",
)
"""What of a cluster's view people write; the rest is what members report and hubs hear."""

BESIDE_PODS: Final = ("priority", "service", "additionalServices", "loadBalancers", "paused")
"""Fields of a workload that change no pod."""


class Unplanned(ValueError):
    """An edit that cannot be planned, as a sentence."""


@dataclass(frozen=True, slots=True)
class Edits:
    """What somebody is about to do, all of it together."""

    applied: tuple[Obj, ...] = ()
    """Objects of the kinds that placing reads."""
    deleted: tuple[Id, ...] = ()
    lost: tuple[str, ...] = ()
    """Clusters of which nothing is left, as after `federator cluster declare-dead`."""
    scaled: tuple[tuple[WorkloadKey, int], ...] = ()
    """Workloads with another number of copies or shards."""
    partly: tuple[str, ...] = ()
    """Clusters that lie in a domain which is lost, and in others too: they are not lost."""

    def __bool__(self) -> bool:
        return bool(self.applied or self.deleted or self.lost or self.scaled)


@dataclass(slots=True)
class Edited:
    """The situation after the edits, and what is new in it."""

    situation: Situation
    edited: set[WorkloadKey] = field(default_factory=set)
    """Workloads with another content than before: their caps are void, and old copies are charged
    until they are replaced."""
    restarted: set[WorkloadKey] = field(default_factory=set)
    """Of these, those of which every copy is replaced, wherever it runs."""
    deleted: set[WorkloadKey] = field(default_factory=set)
    policies: bool = False
    """Policies are applied or deleted."""
    same_asks: bool = False
    """Workloads that are the same ask for the same."""
    rules: list[Rule] = field(default_factory=list)
    """Policies as they were and as they are that may be in force for other workloads than before.
    """
    drains: list[str] = field(default_factory=list)
    """Clusters that begin to be drained, unless that leaves copies without a place."""
    held_drains: dict[str, str] = field(default_factory=dict)
    """Those of them that do not begin, each with a sentence."""
    written: set[str] = field(default_factory=set)
    """Invariants that are applied."""
    refused: list[str] = field(default_factory=list)
    """Sentences about edits that the hub refuses to carry out."""
    warnings: list[str] = field(default_factory=list)


def unedited(present: Situation) -> Edited:
    """The situation without an edit, with the same policies and asks."""
    return Edited(
        replace(
            present,
            workloads=dict(present.workloads),
            records=dict(present.records),
            standings={},
            _claims=None,
        )
    )


def after(present: Situation, edits: Edits) -> Edited:
    """The situation once all edits are made. Raises `Unplanned`."""
    made = Edited(
        replace(
            present,
            rules=Policies(present.rules, in_force_max=present.rules.in_force_max),
            workloads=dict(present.workloads),
            records=dict(present.records),
            objects=dict(present.objects),
            standings={},
            _claims=None,
            _asks=policying.Asks(offline.ASKS_MAX),
        )
    )
    for obj in edits.applied:
        _apply(made, obj)
    for key, count in edits.scaled:
        _apply(made, _scaled(made.situation, key, count))
    for which in edits.deleted:
        _delete(made, which)
    for name in edits.lost:
        _lose(made, name)
    for name in edits.partly:
        made.warnings.append(
            f"MemberCluster/{name} also lies in domains that are not lost (spec.topology), so this"
            " plan does not lose it"
        )
    _keep_asks(made, present)
    _admit_drains(made)
    _refuse_impossible(made)
    return made


def _keep_asks(made: Edited, present: Situation) -> None:
    """What the edits do not concern is asked for as at present: it is not read again."""
    made.same_asks = not made.policies and made.situation.snapshot.quotas is present.snapshot.quotas
    if made.same_asks:
        made.situation.share_asks(present)
        return
    bindings = present.bindings()

    def concerned(workload: workloads.Workload) -> bool:
        return any(policying.speaks(rule, workload, bindings) for rule in made.rules)

    made.situation.keep_asks(present, concerned)


def _admit_drains(made: Edited) -> None:
    """Begins the drains that leave no copy without a place, as the hub does, and refuses others."""
    for name in sorted(made.drains):
        if why := begin_drain(made, made.situation, name):
            title = f"MemberCluster/{name}"
            made.held_drains[name] = f"{title}: the hub does not begin this drain: {why}"
            _view(made, replace(made.situation.snapshot.clusters[name], drain_waits=True))


def begin_drain(made: Edited, situation: Situation, name: str) -> str:
    """Begins the drain of a cluster, unless that leaves copies without a place in this situation.
    Returns why not, as the hub says it; "" when it begins."""
    views = situation.snapshot.clusters.values()
    clusters = {name, *(view.name for view in views if view.empties and view.name < name)}
    entries = drills.holders(situation, clusters)
    left = [each for each in drills.rehearse(situation, entries, clusters) if each.stays]
    if left:
        ordered = sorted(left, key=lambda each: (-each.stays, each.key))
        return drain_words.of_unplaced(ordered, remove=False)
    view = made.situation.snapshot.clusters[name]
    _view(made, replace(view, draining=True, drain_waits=False))
    made.held_drains.pop(name, None)
    return ""


def merged(given: Obj, live: Obj | None, now: str) -> dict[str, Any]:
    """The object once it is written: a new one, or `live` with what is given. `now`: the time of
    creation of a new one, RFC 3339.

    The uid of a new one, unless one is given, is made from its name, so that ties break the same
    way every time.
    """
    kind, meta = str(given["kind"]), raw.mapping(given, "metadata")
    identity = {name: meta[name] for name in ("name", "namespace") if meta.get(name)}
    head: dict[str, Any] = {"apiVersion": given["apiVersion"], "kind": kind}
    head |= {"spec": given["spec"]} if "spec" in given else {}
    if live is None:
        parts = (kind, identity.get("namespace", ""), identity["name"])
        uid = raw.text(meta, "uid") or "/".join(parts)
        born = {"uid": uid, "generation": 1, "creationTimestamp": now}
        texts = {name: raw.text_map(meta, name) for name in ("labels", "annotations")}
        status = {"status": given["status"]} if "status" in given else {}
        return {**head, "metadata": {**identity, **texts, **born}, **status}
    before = raw.mapping(live, "metadata")
    last = _last_applied(before)
    texts = {
        name: {
            **{
                key: text
                for key, text in raw.text_map(before, name).items()
                if key not in raw.text_map(raw.mapping(last, "metadata"), name)
            },
            **raw.text_map(meta, name),
        }
        for name in ("labels", "annotations")
    }
    kept = {
        name: before[name]
        for name in ("uid", "creationTimestamp", "finalizers", "deletionTimestamp")
        if name in before
    }
    changed = head.get("spec") != live.get("spec")
    generation = raw.integer(before, "generation") + (1 if changed else 0)
    status = {"status": live["status"]} if "status" in live else {}
    return {**head, "metadata": {**identity, **texts, **kept, "generation": generation}, **status}


def written(given: Obj, live: Obj | None) -> dict[str, Any]:
    """The object that is written so that it is the planned one: `given`, or `live` with what is
    given. It says what was applied last, as `kubectl apply` does, so that both can follow."""
    last = {LAST_APPLIED: json.dumps(given, separators=(",", ":"))}
    if live is None:
        meta = raw.mapping(given, "metadata")
        texts = {**raw.text_map(meta, "annotations"), **last}
        return {**given, "metadata": {**meta, "annotations": texts}}
    made = merged(given, live, "")
    meta = {name: made["metadata"][name] for name in ("labels", "annotations")}
    meta["annotations"] = {**meta["annotations"], **last}
    spec = {"spec": given["spec"]} if "spec" in given else {}
    return {**live, **spec, "metadata": {**live["metadata"], **meta}}


def _last_applied(meta: Obj) -> Obj:
    text = raw.text_map(meta, "annotations").get(LAST_APPLIED, "")
    try:
        last = json.loads(text) if text else {}
    except ValueError:
        return {}
    return last if isinstance(last, dict) else {}


def _apply(made: Edited, given: Obj) -> None:
    kind = str(given.get("kind", ""))
    apply = _APPLIED.get(kind) or (_apply_workload if kind in registry.WORKLOADS else None)
    if apply is None:
        kinds = ", ".join((*registry.WORKLOADS, *_APPLIED))
        raise Unplanned(f"{_title(given)}: placing does not read this kind; a plan takes {kinds}")
    which = offline.id_of(given)
    live = made.situation.objects.get(which)
    if live is None and _known(made.situation, which):
        raise Unplanned(
            f"{_title(given)}: the present object is not known here, so its edit is not"
        )
    obj = merged(given, live, raw.rfc3339(made.situation.snapshot.as_of))
    if kind != NAMESPACE:
        made.situation.objects[which] = obj
    apply(made, obj, live)


def _known(situation: Situation, which: Id) -> bool:
    """Whether there is such an object, whatever is known of it."""
    kind, namespace, name = which
    if kind in registry.WORKLOADS:
        return WorkloadKey(kind, namespace, name) in situation.workloads
    if kind == membercluster.KIND:
        return name in situation.snapshot.clusters
    return False


def _title(obj: Obj) -> str:
    return f"{obj.get('kind') or 'an object without kind'}/{raw.text(obj, 'metadata', 'name')}"


def _apply_workload(made: Edited, obj: Obj, live: Obj | None) -> None:
    _summarise(made, obj)
    key = WorkloadKey(*offline.id_of(obj))
    if live is None:
        return
    verbs = registry.verbs_of(key.kind)
    made.edited.add(key)
    if _restarts(obj, verbs.amount) != _restarts(live, verbs.amount):
        made.restarted.add(key)


def _restarts(obj: Obj, amount: str) -> dict[str, Any]:
    """The fields of a workload that replace its copies where they run when they change."""
    left_out = {*workloads.TAKEN_AT_ONCE, *BESIDE_PODS, amount}
    spec = {**raw.mapping(obj, "spec"), **podparts.of(obj)}
    if "runtime" not in podparts.of(obj):  # a pin of a version replaces nothing
        left_out.add("runtime")
    return {name: value for name, value in spec.items() if name not in left_out}


def _summarise(made: Edited, obj: Obj) -> None:
    """Reads a workload again, with the RuntimeProfile that it has now."""
    situation, kind = made.situation, str(obj["kind"])
    profile = situation.profile_of(registry.verbs_of(kind).profile(obj))
    former = tuple(runtimeprofile.versions(profile).items()) if profile is not None else ()
    summary = workloads.summarise(kind, obj, profile, former)
    situation.workloads[summary.key] = summary


def _scaled(situation: Situation, key: WorkloadKey, count: int) -> dict[str, Any]:
    """The object of a workload with this amount."""
    obj = situation.objects.get((key.kind, key.namespace, key.name))
    if obj is None:
        raise Unplanned(f"{key}: there is no such workload to scale")
    amount = registry.verbs_of(key.kind).amount
    if not amount:
        raise Unplanned(f"{key}: a {key.kind} has no number of copies to scale")
    return {**obj, "spec": {**raw.mapping(obj, "spec"), amount: count}}


def _apply_policy(made: Edited, obj: Obj, _: Obj | None) -> None:
    made.policies = True
    made.rules += made.situation.rules.put(policying.rule_of(str(obj["kind"]), obj))


def _apply_quota(made: Edited, obj: Obj, _: Obj | None) -> None:
    account, snapshot = federatedquota.to_account(obj), made.situation.snapshot
    others = (each for each in snapshot.quotas if each.name != account.name)
    _quotas(made, (*others, account))


def _quotas(made: Edited, quotas: Iterable[Any]) -> None:
    snapshot = replace(made.situation.snapshot, quotas=tuple(quotas))
    made.situation = replace(made.situation, snapshot=snapshot)


def _apply_invariant(made: Edited, obj: Obj, _: Obj | None) -> None:
    """Adds or replaces a PlacementInvariant. Refuses an invariant that can never hold."""
    invariant, snapshot = placementinvariant.to_invariant(obj), made.situation.snapshot
    others = [each for each in snapshot.invariants if each.name != invariant.name]
    _invariants(made, [*others, invariant])
    made.written.add(invariant.name)


def _invariants(made: Edited, invariants: Iterable[Invariant]) -> None:
    by_name = tuple(sorted(invariants, key=lambda each: each.name))
    snapshot = replace(made.situation.snapshot, invariants=by_name)
    made.situation = replace(made.situation, snapshot=snapshot)


def _refuse_impossible(made: Edited) -> None:
    """Refuses the invariants of the plan that can never hold in the fleet as it is then."""
    snapshot = made.situation.snapshot
    for invariant in snapshot.invariants:
        if invariant.name not in made.written:
            continue
        if why := holds.impossible(invariant, snapshot.clusters.values()):
            made.refused.append(f"{placementinvariant.KIND}/{invariant.name}: {why}")


def _apply_cluster(made: Edited, obj: Obj, _: Obj | None) -> None:
    view = membercluster.to_view(obj, made.situation.snapshot.as_of)
    present = made.situation.snapshot.clusters.get(view.name)
    if present is not None:
        written = {name: getattr(view, name) for name in WRITTEN}
        wish = membercluster.drain_wish(obj, made.situation.snapshot.as_of)
        if wish is not None and not wish.force and not present.draining:
            written["draining"] = False  # until it is admitted (`_admit_drains`)
            made.drains.append(view.name)
        _view(made, replace(present, **written))
        return
    if view.capacity is None:
        made.warnings.append(
            f"MemberCluster/{view.name}: has no status.capacity, so it takes nothing in this plan;"
            " give it the nodes that it will report"
        )
    _view(made, view)


def _view(made: Edited, view: ClusterView) -> None:
    snapshot = made.situation.snapshot
    clusters = dict(sorted({**snapshot.clusters, view.name: view}.items()))
    made.situation = replace(made.situation, snapshot=replace(snapshot, clusters=clusters))


def _apply_profile(made: Edited, obj: Obj, live: Obj | None) -> None:
    kept = (live, *runtimeprofile.versions(live).values()) if live is not None else ()
    _read_again(made, offline.id_of(obj)[2], {runtimeprofile.version_name(each) for each in kept})


def _read_again(made: Edited, profile: str, kept: Collection[str] = ()) -> None:
    """Reads the workloads with this RuntimeProfile again: their copies are all replaced, unless
    they keep one of the versions of these names."""
    situation = made.situation
    for key, workload in list(situation.workloads.items()):
        if workload.profile != profile:
            continue
        obj = situation.objects.get((key.kind, key.namespace, key.name))
        if obj is None:
            raise Unplanned(
                f"{PROFILE}/{profile}: the objects of its workloads are not kept here; plan it on a"
                " dump (--dump)"
            )
        _summarise(made, obj)
        made.edited.add(key)
        name, until_s = workload.pin
        if not (name in kept and situation.snapshot.as_of < until_s):
            made.restarted.add(key)


def _apply_namespace(made: Edited, obj: Obj, _: Obj | None) -> None:
    snapshot = made.situation.snapshot
    level = pod_security.enforced(raw.mapping(obj, "metadata", "labels")).level
    levels = {**snapshot.levels, offline.id_of(obj)[2]: level}
    made.situation = replace(made.situation, snapshot=replace(snapshot, levels=levels))


_APPLIED: Final[Mapping[str, Callable[[Edited, Obj, Obj | None], None]]] = {
    **dict.fromkeys(POLICIES, _apply_policy),
    federatedquota.KIND: _apply_quota,
    placementinvariant.KIND: _apply_invariant,
    membercluster.KIND: _apply_cluster,
    PROFILE: _apply_profile,
    NAMESPACE: _apply_namespace,
}
KINDS: Final = frozenset({*registry.WORKLOADS, *_APPLIED})
"""Kinds of objects that a plan takes."""


def _delete(made: Edited, which: Id) -> None:
    kind, namespace, name = which
    situation, where = made.situation, f" in namespace {namespace}" if namespace else ""
    there = situation.objects.pop(which, None) is not None
    if kind in registry.WORKLOADS:
        key = WorkloadKey(kind, namespace, name)
        there = situation.workloads.pop(key, None) is not None
        situation.records.pop(key, None)
        made.deleted.add(key)
    elif kind in POLICIES:
        made.policies = True
        dropped = situation.rules.drop((namespace, name))
        there = bool(dropped)
        made.rules += dropped
    elif kind == federatedquota.KIND:
        left = [account for account in situation.snapshot.quotas if account.name != name]
        there = len(left) < len(situation.snapshot.quotas)
        _quotas(made, left)
    elif kind == placementinvariant.KIND:
        rest = [each for each in situation.snapshot.invariants if each.name != name]
        there = len(rest) < len(situation.snapshot.invariants)
        _invariants(made, rest)
    elif kind == membercluster.KIND:
        view = situation.snapshot.clusters.get(name)
        there = view is not None
        if view is not None:
            _view(made, replace(view, removing=True))
    elif kind == PROFILE and there:
        _read_again(made, name)
    elif kind not in KINDS or kind == NAMESPACE:
        raise Unplanned(f"{kind}/{name}: a plan does not take the deletion of this kind")
    if not there:
        raise Unplanned(f"{kind}/{name}: there is none{where} to delete")


def _lose(made: Edited, name: str) -> None:
    view = made.situation.snapshot.clusters.get(name)
    if view is None:
        known = ", ".join(list(made.situation.snapshot.clusters)[:10]) or "no cluster"
        raise Unplanned(f"there is no cluster {name} to lose; there is {known}")
    _view(made, replace(view, dead=True, ready=False, unready_reason=LOST))
