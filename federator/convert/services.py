"""Services -> `spec.service` and `spec.loadBalancers` of the workloads behind them. Pure.

Clients use the name of a Service, so a PinterestService takes the name of the Service that it
replaces. A Service that cannot be expressed stays unchanged: pods keep their labels, so it still
selects them in every member.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.convert.drafts import Draft, Drafts, Item, LeftAlone, listed, only_fields
from federator.kinds.kind import LONGEST_WORKLOAD_NAME
from federator.kinds.service import schema
from federator.kinds.statefulset import schema as stateful
from federator.kinds.training import schema as training
from federator.model.kubernetes import selectors

MAX_FURTHER: Final = 8
"""Entries of `spec.additionalServices` that the schema allows."""
HELP: Final = "apply it in the members: the pods there keep the labels that it selects"
_KNOWN: Final = frozenset(
    {
        "ports",
        "selector",
        "type",
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "sessionAffinity",
        "publishNotReadyAddresses",
    }
)
_DEFAULTS: Final[Mapping[str, Any]] = {
    "sessionAffinity": "None",
    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
    "internalTrafficPolicy": "Cluster",
    "externalTrafficPolicy": "Cluster",
    "allocateLoadBalancerNodePorts": True,
    "publishNotReadyAddresses": False,
}
_REASONS: Final[Mapping[str, str]] = {
    "sessionAffinityConfig": "a PinterestService keeps clients on their pod for three hours",
    "externalTrafficPolicy": "a PinterestService does not keep clients' addresses",
    "internalTrafficPolicy": "a PinterestService does not keep traffic on the node",
    "externalIPs": "addresses of one cluster",
    "loadBalancerIP": "an address of one cluster",
    "loadBalancerClass": "loadBalancers become an Ingress, which has no such class",
    "loadBalancerSourceRanges": "loadBalancers cannot be limited to addresses",
}
_ASSIGNED: Final = frozenset(
    {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"}
)
"""Filled in by servers: not wishes of the owner in an object read from a cluster."""


def absorb(drafts: Drafts) -> None:
    """Decides the fate of every Service."""
    _drop_namesakes(drafts)
    fronts: dict[int, list[Item]] = {}
    for item in list(drafts.open("v1", "Service")):
        try:
            fronts.setdefault(id(_target(item, drafts)), []).append(item)
        except LeftAlone as why:
            drafts.leave(item, str(why))
    for draft in list(drafts.made):
        if id(draft) not in fronts:
            continue
        if draft.obj["kind"] == stateful.KIND:
            _headless(draft, fronts[id(draft)][0], drafts)
        else:
            _in_front(draft, fronts[id(draft)], drafts)


def _drop_namesakes(drafts: Drafts) -> None:
    """Leaves workloads that would make a Service of a name that a Service with another meaning has:
    in members one would take the place of the other."""
    by_name = {
        (item.namespace, item.name): item for item in drafts.distinct if item.is_a("v1", "Service")
    }
    for draft in list(drafts.made):
        item = by_name.get((draft.namespace, draft.name))
        if item is None or draft.obj["kind"] not in (stateful.KIND, training.KIND):
            continue
        is_its_own = (
            draft.obj["kind"] == stateful.KIND
            and raw.text(item.obj, "spec", "clusterIP") == "None"
            and _selects(raw.mapping(item.obj, "spec", "selector"), draft.labels)
        )
        if not is_its_own:
            drafts.drop(
                draft,
                f"metadata.name: {item.title} is another one than the headless Service of this name"
                f" that a {draft.obj['kind']} makes; give one of them another name",
            )


def _target(item: Item, drafts: Drafts) -> Draft:
    """The only drafted service that the Service selects. Raises LeftAlone when it selects anything
    else."""
    spec = raw.mapping(item.obj, "spec")
    kind = raw.text(spec, "type", default="ClusterIP")
    if kind == "ExternalName":
        raise LeftAlone(
            "spec.type: ExternalName is a DNS alias and has no pods; apply it in the members"
        )
    wanted = raw.mapping(spec, "selector")
    if not wanted:
        raise LeftAlone(
            "spec.selector: it selects no pods, its endpoints are kept by somebody else"
        )
    by_item = {id(draft.item): draft for draft in drafts.made}
    matching = [
        draft
        for draft in drafts.distinct
        if draft.namespace == item.namespace
        and _selects(wanted, _pod_labels(draft, by_item.get(id(draft))))
    ]
    if not matching:
        raise LeftAlone("spec.selector: it selects the pods of no workload given here")
    if len(matching) > 1:
        names = listed([draft.title for draft in matching])
        raise LeftAlone(
            f"spec.selector: it selects the pods of {len(matching)} workloads ({names}); {HELP}"
        )
    draft = by_item.get(id(matching[0]))
    if draft is None:
        raise LeftAlone(
            f"spec.selector: it selects the pods of {matching[0].title}, which is not converted"
        )
    if draft.obj["kind"] == stateful.KIND:
        if item.name != draft.name or raw.text(spec, "clusterIP") != "None":
            raise LeftAlone(
                f"spec.selector: it selects the pods of {matching[0].title}, which has only the "
                f"headless Service {draft.name}; {HELP}"
            )
        return draft
    if draft.obj["kind"] != schema.KIND:
        raise LeftAlone(
            f"spec.selector: it selects the pods of {matching[0].title}, and a "
            f"{draft.obj['kind']} has no Service; {HELP}"
        )
    return draft


def _pod_labels(item: Item, draft: Draft | None) -> Mapping[str, str]:
    """Labels of the pods that an object makes, {} for one that makes none."""
    if draft is not None:
        return draft.labels
    if item.kind == "Pod":
        return raw.text_map(item.obj, "metadata", "labels")
    nested = raw.mapping(item.obj, "spec", "jobTemplate") or item.obj
    return raw.text_map(nested, "spec", "template", "metadata", "labels")


def _selects(wanted: Obj, labels: Mapping[str, str]) -> bool:
    return bool(labels) and all(labels.get(key) == value for key, value in wanted.items())


def _in_front(draft: Draft, items: Sequence[Item], drafts: Drafts) -> None:
    """The first Service that can be expressed is replaced, one with the workload's name first; the
    rest become load balancers or further Services."""
    rest: list[Item] = []
    for item in sorted(items, key=lambda service: (_is_outer(service), service.name != draft.name)):
        if draft.service is not None:
            rest.append(item)
            continue
        try:
            fields, doors = _fields(item, draft)
            _take_name(item, draft, drafts)
        except LeftAlone as why:
            drafts.leave(item, str(why))
            continue
        draft.spec["service"] = fields
        draft.doors += doors
        draft.service = item
        drafts.absorb(item, draft)
        _take_labels(item, draft, drafts)
        _tell(item, fields, doors, draft, drafts)
    for item in rest:
        try:
            _further(item, draft, drafts)
        except LeftAlone as why:
            drafts.leave(item, str(why))


def _headless(draft: Draft, item: Item, drafts: Drafts) -> None:
    """The Service of a stateful set's name, which each of its clusters gets."""
    try:
        ports = _ports(item, draft) if raw.objects(item.obj, "spec", "ports") else []
    except LeftAlone as why:
        drafts.leave(item, str(why))
        return
    early = raw.flag(item.obj, "spec", "publishNotReadyAddresses")
    draft.spec["service"] = {"ports": ports} | ({"publishNotReadyAddresses": True} if early else {})
    draft.service = item
    drafts.absorb(item, draft)
    _take_labels(item, draft, drafts)


def _is_outer(item: Item) -> bool:
    return raw.text(item.obj, "spec", "type", default="ClusterIP") != "ClusterIP"


def _fields(item: Item, draft: Draft) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """`spec.service`, and the Service's external ports as `spec.loadBalancers`. Raises LeftAlone
    for content that would be lost."""
    spec = raw.mapping(item.obj, "spec")
    ports = _ports(item, draft)
    fields: dict[str, Any] = {"ports": ports}
    if raw.text(spec, "clusterIP") == "None":
        fields["headless"] = True
    annotations = raw.text_map(item.obj, "metadata", "annotations")
    if annotations:
        fields["annotations"] = annotations
    for name in ("sessionAffinity", "publishNotReadyAddresses"):
        if name in spec and spec[name] != _DEFAULTS[name]:
            fields[name] = spec[name]
    kind = raw.text(spec, "type")
    # A balancer's annotations are for the balancer of a cloud, not for an Ingress.
    if kind == "LoadBalancer" and not annotations and all(map(_is_http, ports)):
        for port in ports:
            port.pop("nodePort", None)
        return fields, [{"port": port["port"]} for port in ports]
    if kind in ("NodePort", "LoadBalancer"):
        fields["type"] = kind
    return fields, []


def _ports(item: Item, draft: Draft) -> list[dict[str, Any]]:
    """`spec.service.ports`. Raises LeftAlone for content that would be lost."""
    spec = raw.mapping(item.obj, "spec")
    given = {
        name: value
        for name, value in spec.items()
        if _DEFAULTS.get(name) != value and not (item.live and name in _ASSIGNED)
    }
    only_fields(given, _KNOWN, _REASONS, "spec")
    address = raw.text(spec, "clusterIP")
    if not item.live and address not in ("", "None"):
        raise LeftAlone(f"spec.clusterIP: {address} is an address of one cluster")
    for name in ("ipFamilies", "ipFamilyPolicy"):
        if name in given and raw.text(spec, "ipFamilyPolicy") != "SingleStack":
            raise LeftAlone(
                f"spec.{name}: a PinterestService leaves address families to each cluster"
            )
    ports = [
        _port(port, index, item, draft) for index, port in enumerate(raw.objects(spec, "ports"))
    ]
    if not ports:
        raise LeftAlone(
            "spec.ports: it has no port, and the Service of a PinterestService has at least one"
        )
    return ports


def _port(port: Obj, index: int, item: Item, draft: Draft) -> dict[str, Any]:
    if not raw.integer(port, "port"):
        raise item.bad(f"spec.ports[{index}].port", "must be an integer from 1 to 65535")
    names = ["name", "port", "targetPort", "protocol", "appProtocol", "nodePort"]
    only_fields(port, frozenset(names), {}, f"spec.ports[{index}]")
    if item.live and raw.text(item.obj, "spec", "type") == "LoadBalancer":
        names.remove("nodePort")  # assigned by its API server; clients use the balancer's port
    out = {name: port[name] for name in names if name in port}
    target = out.get("targetPort")
    if isinstance(target, str) and target in draft.port_names:
        out["targetPort"] = draft.port_names[target]
    if out.get("protocol") == "TCP":
        del out["protocol"]
    return out


def _is_http(port: Obj) -> bool:
    if raw.text(port, "protocol", default="TCP") != "TCP":
        return False
    spoken = raw.text(port, "appProtocol") or raw.text(port, "name")
    if spoken:
        return spoken.partition("-")[0] in ("http", "kubernetes.io/ws", "kubernetes.io/h2c")
    return port.get("port") in (80, 8080)


def _take_name(item: Item, draft: Draft, drafts: Drafts) -> None:
    """Names the workload after the Service, so that clients find it. Raises LeftAlone when the name
    is taken."""
    if item.name == draft.name:
        return
    problem = selectors.dns1035_label(item.name)
    if problem or len(item.name) > LONGEST_WORKLOAD_NAME:
        raise LeftAlone(
            f"metadata.name: a workload cannot take this name ({problem or 'it is too long'});"
            f" {HELP}"
        )
    for other in drafts.made:
        beside = other is not draft and other.namespace == draft.namespace
        if beside and item.name in (other.name, other.item.name):
            raise LeftAlone(
                f"metadata.name: {draft.title} cannot take its name, which {other.item.title} has;"
                f" {HELP}"
            )
    old = draft.name
    draft.obj["metadata"]["name"] = item.name
    drafts.note(
        draft,
        f"takes the name of {item.title}, by which clients know it, instead of {old}: an"
        " autoscaler or a script that "
        f"names {draft.item.title} must change",
    )


def _take_labels(item: Item, draft: Draft, drafts: Drafts) -> None:
    """Adds labels of the Service that the workload does not have; the generated Service gets all of
    the workload's labels."""
    theirs = raw.text_map(item.obj, "metadata", "labels")
    labels = draft.obj["metadata"].setdefault("labels", {}) if theirs else {}
    for key, value in theirs.items():
        if labels.setdefault(key, value) != value:
            drafts.note(
                draft, f"label {key}={value} of {item.title} gives way to {key}={labels[key]}"
            )


def _further(item: Item, draft: Draft, drafts: Drafts) -> None:
    """Another Service over the same pods: a load balancer where it only opens ports of the first
    one, else a Service under its own name. Raises LeftAlone."""
    fields, doors = _fields(item, draft)
    offered = {port["port"]: _leads_to(port) for port in draft.spec["service"]["ports"]}
    if doors and all(offered.get(port["port"]) == _leads_to(port) for port in fields["ports"]):
        draft.doors += [door for door in doors if door not in draft.doors]
        drafts.absorb(item, draft)
        _tell(item, fields, doors, draft, drafts)
        return
    if doors:
        fields["type"] = "LoadBalancer"
    further = draft.spec.setdefault("additionalServices", [])
    if len(further) >= MAX_FURTHER:
        raise LeftAlone(
            f"{draft.title} has {MAX_FURTHER} additionalServices already, no more are allowed;"
            f" {HELP}"
        )
    problem = selectors.dns1035_label(item.name)
    if problem or item.name == draft.name:
        raise LeftAlone(
            f"metadata.name: {problem or f'the Service of {draft.title} has this name already'};"
            f" {HELP}"
        )
    further.append({"name": item.name, **fields})
    drafts.absorb(item, draft)
    _tell(item, fields, [], draft, drafts)


def _leads_to(port: Obj) -> Any:
    return port.get("targetPort", port.get("port"))


def _tell(item: Item, fields: Obj, doors: Sequence[Obj], draft: Draft, drafts: Drafts) -> None:
    """Adds a note on what becomes of an external port."""
    if doors:
        ports = ", ".join(str(door["port"]) for door in doors)
        drafts.note(
            draft,
            f"{item.title} of type LoadBalancer becomes spec.loadBalancers (port {ports}):"
            " requests from outside come "
            "in through an Ingress of each member, and an address of its own is gone",
        )
    elif "type" in fields:
        drafts.note(
            draft,
            f"{item.title} of type {fields['type']} is made in every member that has copies: each"
            " has its own "
            "addresses, and traffic from outside must be told of all of them",
        )
