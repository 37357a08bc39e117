"""Ingresses -> `spec.loadBalancers` of the workloads behind them. Pure.

A rule becomes a load balancer entry ("door") of the workload behind its backend; an Ingress over
several workloads becomes entries of each. An Ingress with content that entries cannot express (TLS,
exact paths, rewriting by annotations) is left.
"""

from collections.abc import Iterator
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.convert.drafts import Draft, Drafts, Item, LeftAlone, listed, only_fields
from federator.kinds import registry
from federator.kinds.service import schema
from federator.placement.policy import hostclaims
from federator.placement.policy.hostclaims import HostClaims

API_VERSION: Final = "networking.k8s.io/v1"
MAX_DOORS: Final = 16
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


def absorb(drafts: Drafts) -> None:
    """Decides the fate of every Ingress. Services must have theirs."""
    for item in list(drafts.open(API_VERSION, "Ingress")):
        try:
            pairs = list(_doors(item, drafts))
            _check_room(pairs)
        except LeftAlone as why:
            drafts.leave(item, str(why))
            continue
        for draft in drafts.made:
            doors = [door for owner, door in pairs if owner is draft]
            if doors:
                draft.doors += [door for door in doors if door not in draft.doors]
                drafts.absorb(item, draft)
                _tell(item, draft, drafts)


def _doors(item: Item, drafts: Drafts) -> Iterator[tuple[Draft, dict[str, Any]]]:
    spec = raw.mapping(item.obj, "spec")
    reasons = {
        "tls": (
            "loadBalancers end no TLS; keep this Ingress in the members, its backends keep their"
            " names"
        )
    }
    only_fields(spec, frozenset({"rules", "defaultBackend", "ingressClassName"}), reasons, "spec")
    annotations = sorted(
        set(raw.mapping(item.obj, "metadata", "annotations")) - {_CLASS_ANNOTATION}
    )
    if annotations:
        raise LeftAlone(
            f"metadata.annotations: {listed(annotations)} would not be on the Ingress that is made"
        )
    rules = raw.objects(spec, "rules")
    default = raw.mapping(spec, "defaultBackend")
    if default and rules:
        raise LeftAlone(
            "spec.defaultBackend: loadBalancers have no rule for what no other rule matches"
        )
    if not default and not rules:
        raise LeftAlone("spec.rules: it has none")
    if default:
        yield _door(default, "spec.defaultBackend", item, drafts)
    for number, rule in enumerate(rules):
        paths = raw.objects(rule, "http", "paths")
        if not paths:
            raise LeftAlone(f"spec.rules[{number}]: it names no backend")
        for index, path in enumerate(paths):
            here = f"spec.rules[{number}].http.paths[{index}]"
            kind = raw.text(path, "pathType")
            if kind == "Exact":
                raise LeftAlone(
                    f"{here}.pathType: Exact; loadBalancers match the beginning of a path"
                )
            draft, door = _door(raw.mapping(path, "backend"), f"{here}.backend", item, drafts)
            host, prefix = raw.text(rule, "host"), raw.text(path, "path", default="/")
            if not prefix.startswith("/"):
                raise LeftAlone(f"{here}.path: {prefix!r} is no plain path")
            yield (
                draft,
                door
                | ({"host": host} if host else {})
                | ({"path": prefix} if prefix != "/" else {}),
            )


def _door(backend: Obj, path: str, item: Item, drafts: Drafts) -> tuple[Draft, dict[str, Any]]:
    """The workload behind a backend, and its port. Raises LeftAlone."""
    name = raw.text(backend, "service", "name")
    if not name:
        raise LeftAlone(f"{path}: it leads to no Service")
    for draft in drafts.made:
        if (
            draft.service is not None
            and draft.obj["kind"] == schema.KIND
            and draft.namespace == item.namespace
            and draft.service.name == name
        ):
            return draft, {"port": _number(draft, raw.mapping(backend, "service", "port"), path)}
    given = any(
        other.is_a("v1", "Service") and other.name == name and other.namespace == item.namespace
        for other in drafts.items
    )
    why = "is not made by a PinterestService" if given else "is not given here"
    raise LeftAlone(f"{path}: Service/{name} {why}; keep this Ingress in the members")


def _number(draft: Draft, port: Obj, path: str) -> int:
    for offered in draft.spec["service"]["ports"]:
        if port.get("number") == offered["port"] or (
            port.get("name") and port.get("name") == offered.get("name")
        ):
            number: int = offered["port"]
            return number
    wanted = port.get("number") or port.get("name")
    raise LeftAlone(f"{path}.service.port: Service/{draft.name} has no port {wanted}")


def _check_room(pairs: list[tuple[Draft, dict[str, Any]]]) -> None:
    for draft, _ in pairs:
        count = len(draft.doors) + sum(owner is draft for owner, _ in pairs)
        if count > MAX_DOORS:
            raise LeftAlone(
                f"spec.rules: {draft.title} would have {count} loadBalancers, {MAX_DOORS} are"
                " allowed"
            )


def _tell(item: Item, draft: Draft, drafts: Drafts) -> None:
    given = raw.text(item.obj, "spec", "ingressClassName") or raw.text(
        item.obj, "metadata", "annotations", _CLASS_ANNOTATION
    )
    if given:
        drafts.note(
            draft,
            f"the class {given} of {item.title} is not carried: set spec.ingressClassName of the"
            " RuntimeProfile, or "
            "make it the default class of the members",
        )
    kinds = {
        raw.text(p, "pathType")
        for r in raw.objects(item.obj, "spec", "rules")
        for p in raw.objects(r, "http", "paths")
    }
    if "ImplementationSpecific" in kinds:
        drafts.note(
            draft, f"paths of {item.title} with pathType ImplementationSpecific become Prefix"
        )
    if item.name != draft.name:
        drafts.note(
            draft,
            f"{item.title} becomes spec.loadBalancers; the Ingress that is made is called"
            f" {draft.name}",
        )


def place(drafts: Drafts) -> None:
    """Writes the entries into the drafts, in input order."""
    for draft in drafts.made:
        if not draft.doors or draft.obj["kind"] != schema.KIND:
            continue
        draft.spec["loadBalancers"] = draft.doors
        for item in drafts.distinct:
            alike = item.kind == "Ingress" and (item.namespace, item.name) == (
                draft.namespace,
                draft.name,
            )
            if alike and not drafts.absorbed(item):
                text = (
                    f"members make an Ingress {draft.name} from spec.loadBalancers: rename"
                    f" {item.title}, which is left"
                )
                drafts.note(draft, text)


EVERY_HOST: Final = "*"


def note_taken_hosts(drafts: Drafts) -> None:
    """Notes each draft with a host name that an earlier one of another namespace has. Objects that
    go to the host unchanged have theirs first."""
    claims = HostClaims()
    made = [*(item.obj for item in drafts.kept), *(draft.obj for draft in drafts.made)]
    for number, obj in enumerate(made):
        for _, host in _hosts(obj):
            claims.put(host, registry.key_of(obj), (0.0, number))
    for draft in drafts.made:
        taken = _host_of_others(draft.obj, claims)
        if taken is not None:
            path, host, other = taken
            what = f"overlaps {other} of" if other != host else "is that of"
            drafts.note(
                draft,
                f"{path}: is {host}, which {what} a workload of another namespace; the host gives"
                " it to the one that is created first, and refuses the other. Choose another name,"
                " or put both into one namespace",
            )


def _host_of_others(obj: Obj, claims: HostClaims) -> tuple[str, str, str] | None:
    key = registry.key_of(obj)
    return hostclaims.taken_by(_hosts(obj), lambda host: claims.rival(host, key, lambda _: 0))


def _hosts(obj: Obj) -> Iterator[tuple[str, str]]:
    if raw.text(obj, "apiVersion").startswith("pinterest.com/"):
        for index, door in enumerate(raw.objects(obj, "spec", "loadBalancers")):
            yield f"spec.loadBalancers[{index}].host", raw.text(door, "host") or EVERY_HOST
