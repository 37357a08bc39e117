"""Users grant only what they hold: the check of Kubernetes on writes of roles and of bindings.

A user who writes a Role or ClusterRole must hold every right in it, or have the verb `escalate` on
it. A user who binds a role must hold every right of that role, or have the verb `bind` on it. A
ClusterRole with an aggregationRule may collect anything, so that it needs every right there is.
Administrators (`system:masters`) are not asked.

Source:
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
"""

from collections.abc import Iterable, Iterator
from typing import Final

from federator.embedded.auth.rbac import GROUP, Attributes, Rbac, one_of, same_path
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import Caller, Target
from federator.embedded.storage.revisions import JsonObject

ROLES: Final = frozenset({"roles", "clusterroles"})
BINDINGS: Final = frozenset({"rolebindings", "clusterrolebindings"})
_EVERYTHING: Final[tuple[JsonObject, ...]] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
_COLLECTED: Final = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion"})
"""Fields of metadata that a garbage collector may write whatever rights the object grants."""


def check(
    rbac: Rbac, caller: Caller, target: Target, obj: JsonObject, old: JsonObject | None
) -> None:
    """Refuses (403) a role or binding that grants more than the caller holds. Raises `Refusal` 404
    for a binding to a role that is not there, of a caller without the verb `bind`."""
    info = target.info
    if (
        info.group != GROUP
        or target.subresource
        or caller.is_master
        or (old is not None and _same(obj, old))
    ):
        return
    if info.plural in ROLES:
        _check_role(rbac, caller, target, obj, old)
    elif info.plural in BINDINGS:
        _check_binding(rbac, caller, target, obj)


def _check_role(
    rbac: Rbac, caller: Caller, target: Target, obj: JsonObject, old: JsonObject | None
) -> None:
    info = target.info
    wanted = Attributes("escalate", GROUP, info.plural, namespace=target.space, name=target.name)
    if rbac.decide(caller, wanted).allowed:
        return
    name = obj["metadata"].get("name") or ""
    lacking = missing(rbac, caller, target.space, obj.get("rules") or ())
    if lacking:
        raise refusals.forbidden(GROUP, info.plural, name, _why(caller, lacking))
    aggregates = obj.get("aggregationRule")
    collects = aggregates and (old is None or old.get("aggregationRule") != aggregates)
    if collects and missing(rbac, caller, target.space, _EVERYTHING):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise refusals.forbidden(GROUP, info.plural, name, why)


def _check_binding(rbac: Rbac, caller: Caller, target: Target, obj: JsonObject) -> None:
    reference = obj.get("roleRef") or {}
    kind, role = reference.get("kind"), reference.get("name") or ""
    plural = "clusterroles" if kind == "ClusterRole" else "roles"
    wanted = Attributes("bind", GROUP, plural, namespace=target.space, name=role)
    if kind not in {"ClusterRole", "Role"} or rbac.decide(caller, wanted).allowed:
        return
    rules = rbac.rules_of(plural, target.space if plural == "roles" else "", role)
    if rules is None:
        # sic: a real server names the role so
        raise refusals.not_found(GROUP, target.info.plural, role)
    lacking = missing(rbac, caller, target.space, rules)
    if lacking:
        name = obj["metadata"].get("name") or ""
        raise refusals.forbidden(GROUP, target.info.plural, name, _why(caller, lacking))


def missing(
    rbac: Rbac, caller: Caller, namespace: str, rules: Iterable[JsonObject]
) -> list[JsonObject]:
    """What of the rules the caller does not hold, in atoms: one group, resource, name and verb
    each."""
    held, _ = rbac.rules(caller, namespace)
    return [
        atom
        for rule in rules
        for atom in _atoms(rule)
        if not any(_covers(other, atom) for other in held)
    ]


def _atoms(rule: JsonObject) -> Iterator[JsonObject]:
    verbs = rule.get("verbs") or ()
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in verbs:
                atom = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames") or ()
                yield from (
                    ({**atom, "resourceNames": [name]} for name in names) if names else (atom,)
                )
    for url in rule.get("nonResourceURLs") or ():
        yield from ({"nonResourceURLs": [url], "verbs": [verb]} for verb in verbs)


def _covers(held: JsonObject, atom: JsonObject) -> bool:
    """Whether one rule grants an atom. A rule for named objects does not cover one for all
    names."""
    if not one_of(held.get("verbs"), atom["verbs"][0]):
        return False
    if "nonResourceURLs" in atom:
        url = atom["nonResourceURLs"][0]
        return any(same_path(given, url) for given in held.get("nonResourceURLs") or ())
    names = held.get("resourceNames")
    if names and (atom.get("resourceNames") or [None])[0] not in names:
        return False
    return one_of(held.get("apiGroups"), atom["apiGroups"][0]) and _has_resource(
        held, atom["resources"][0]
    )


def _has_resource(held: JsonObject, wanted: str) -> bool:
    listed = held.get("resources") or ()
    _, slash, subresource = wanted.partition("/")
    return one_of(listed, wanted) or (bool(slash) and f"*/{subresource}" in listed)


def _why(caller: Caller, lacking: list[JsonObject]) -> str:
    """A real server's sentence: the rights that are missing, verbs of one resource put together,
    sorted."""
    groups = _quoted(caller.groups)
    listed = "\n".join(sorted({_shown(rule) for rule in _compact(lacking)}))
    return (
        f'user "{caller.name}" (groups={groups}) is attempting to grant RBAC permissions'
        f" not currently held:\n{listed}"
    )


def _compact(atoms: list[JsonObject]) -> Iterator[JsonObject]:
    verbs: dict[tuple[str, str, str | None], JsonObject] = {}
    for atom in atoms:
        if "nonResourceURLs" in atom:
            yield atom
            continue
        key = (atom["apiGroups"][0], atom["resources"][0], (atom.get("resourceNames") or [None])[0])
        merged = verbs.setdefault(key, {**atom, "verbs": []})
        merged["verbs"] += atom["verbs"]
    yield from verbs.values()


def _shown(rule: JsonObject) -> str:
    fields = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    )
    return (
        "{"
        + ", ".join(f"{shown}:{_quoted(rule[field])}" for shown, field in fields if rule.get(field))
        + "}"
    )


def _quoted(texts: Iterable[str]) -> str:
    """A list as Go prints it with %q."""
    return "[" + " ".join(f'"{text}"' for text in texts) + "]"


def _same(obj: JsonObject, old: JsonObject) -> bool:
    """Whether only fields differ that a garbage collector writes."""

    def rest(whole: JsonObject) -> JsonObject:
        metadata = {key: value for key, value in whole["metadata"].items() if key not in _COLLECTED}
        return {**whole, "metadata": metadata}

    return rest(obj) == rest(old)
