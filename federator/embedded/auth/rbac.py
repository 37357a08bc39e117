"""Authorization: the RBAC objects of one server, evaluated on every request of a caller that is no
administrator.

Rules only ever allow. Roles, ClusterRoles and their bindings are read from the store; matching
follows the rules of Kubernetes (`*`, `*/subresource`, resourceNames, nonResourceURLs with a
trailing `*`). Roles are added up by `aggregation`; `escalation` checks that
users grant only what they hold.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from federator.embedded.catalogue.registry import Registry
from federator.embedded.storage.messages import Caller
from federator.embedded.storage.revisions import JsonObject
from federator.embedded.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a request wants to do. `path` is set for non-resource URLs only."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason`: by which binding it is allowed, or what went wrong when it is not; may be empty
    either way."""

    allowed: bool
    reason: str = ""


class Rbac:
    """The authorizer of one server. Administrators (`system:masters`) may do everything."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def decide(self, caller: Caller, wanted: Attributes) -> Decision:
        if caller.is_master:
            return Decision(True)
        missing: list[str] = []
        for source, rule in self._granted(caller, wanted.namespace, missing):
            if _allows(rule, wanted):
                return Decision(True, f"RBAC: allowed by {source}")
        if not missing:
            return Decision(False)
        listed = missing[0] if len(missing) == 1 else "[" + ", ".join(missing) + "]"
        return Decision(False, f"rbac: RBAC: {listed}")

    def rules(self, caller: Caller, namespace: str) -> tuple[list[JsonObject], list[str]]:
        """The rules that hold for the caller in a namespace, and the roles that are bound but
        missing."""
        missing: list[str] = []
        return [rule for _, rule in self._granted(caller, namespace, missing)], missing

    def rules_of(self, plural: str, namespace: str, name: str) -> list[JsonObject] | None:
        """The rules of a role (`namespace` is "" for a ClusterRole); None when there is no such
        role."""
        role = self._store.get(self._registry.get(GROUP, plural), namespace, name)
        return None if role is None else list(role.obj.get("rules") or ())

    def _granted(
        self, caller: Caller, namespace: str, missing: list[str]
    ) -> Iterator[tuple[str, JsonObject]]:
        """(where it comes from, rule) of every rule bound to the caller; fills `missing` on the
        way."""
        spaces = [""] if not namespace else ["", namespace]
        for space in spaces:
            plural = "rolebindings" if space else "clusterrolebindings"
            for revision in self._store.items(self._registry.get(GROUP, plural), space):
                binding = revision.obj
                subject = next(
                    (
                        subject
                        for subject in binding.get("subjects") or ()
                        if _is(caller, subject, space)
                    ),
                    None,
                )
                if subject is None:
                    continue
                reference = binding["roleRef"]
                clusterwide = reference["kind"] == "ClusterRole"
                resource = self._registry.get(GROUP, "clusterroles" if clusterwide else "roles")
                role = self._store.get(resource, "" if clusterwide else space, reference["name"])
                if role is None:
                    missing.append(
                        f'{reference["kind"].lower()}.{GROUP} "{reference["name"]}" not found'
                    )
                    continue
                source = _source(binding, subject, space)
                for rule in role.obj.get("rules") or ():
                    yield source, rule


def _is(caller: Caller, subject: JsonObject, space: str) -> bool:
    kind, name = subject["kind"], subject["name"]
    if kind == "Group":
        return name in caller.groups
    if kind == "ServiceAccount":
        return caller.name == f"{SERVICE_ACCOUNT}{subject.get('namespace') or space}:{name}"
    return bool(caller.name == name)


def _source(binding: JsonObject, subject: JsonObject, space: str) -> str:
    reference, name = binding["roleRef"], binding["metadata"]["name"]
    bound = f'RoleBinding "{name}/{space}"' if space else f'ClusterRoleBinding "{name}"'
    named = subject["name"]
    if subject["kind"] == "ServiceAccount":
        named = f"{named}/{subject.get('namespace') or space}"
    return f'{bound} of {reference["kind"]} "{reference["name"]}" to {subject["kind"]} "{named}"'


def _allows(rule: JsonObject, wanted: Attributes) -> bool:
    if not one_of(rule.get("verbs"), wanted.verb):
        return False
    if wanted.path:
        return any(same_path(path, wanted.path) for path in rule.get("nonResourceURLs") or ())
    if not one_of(rule.get("apiGroups"), wanted.group):
        return False
    names = rule.get("resourceNames")
    if names and wanted.name not in names:
        return False
    full = f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
    any_of = f"*/{wanted.subresource}" if wanted.subresource else full
    return any(resource in {"*", full, any_of} for resource in rule.get("resources") or ())


def one_of(listed: Collection[str] | None, wanted: str) -> bool:
    """Whether a list of a rule names this or everything."""
    return "*" in (listed or ()) or wanted in (listed or ())


def same_path(allowed: str, path: str) -> bool:
    """Whether a path of `nonResourceURLs` grants this one."""
    return allowed in {"*", path} or (
        allowed.endswith("*") and path.startswith(allowed.rstrip("*"))
    )


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups every service account of a namespace is in."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
