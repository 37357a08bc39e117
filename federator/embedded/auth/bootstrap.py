"""What a new server has before anybody speaks to it: its first namespaces, and the roles everybody
is bound to.

Called once by `server`; the roles are those of a Kubernetes 1.37 server that users meet (without
the parts for its own components).
"""

from collections.abc import Mapping
from typing import Final

from federator.embedded.auth import aggregation
from federator.embedded.auth.rbac import GROUP
from federator.embedded.catalogue.registry import Registry
from federator.embedded.schema import facts
from federator.embedded.storage.revisions import JsonObject
from federator.embedded.storage.store import Store

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_ROLES: Final[Mapping[str, JsonObject]] = facts.of("bootstrapRoles")
"""Name of role and binding -> the groups bound to it, and its rules."""


def furnish(store: Store, registry: Registry) -> None:
    namespaces = registry.get("", "namespaces")
    for name in NAMESPACES:
        store.create(
            namespaces,
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            },
        )
    roles, bindings = (
        registry.get(GROUP, "clusterroles"),
        registry.get(GROUP, "clusterrolebindings"),
    )
    for role in aggregation.user_facing():
        metadata = role["metadata"]
        present = _metadata(metadata["name"])
        merged = {
            **present,
            "uid": metadata["uid"],
            "labels": {**present["labels"], **metadata["labels"]},
        }
        store.create(
            roles, {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", **role, "metadata": merged}
        )
    for name, role in _ROLES.items():
        head = {"apiVersion": f"{GROUP}/v1", "metadata": _metadata(name)}
        store.create(roles, {**head, "kind": "ClusterRole", "rules": role["rules"]})
        subjects = [{"kind": "Group", "apiGroup": GROUP, "name": group} for group in role["groups"]]
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        store.create(
            bindings,
            {**head, "kind": "ClusterRoleBinding", "subjects": subjects, "roleRef": reference},
        )


def _metadata(name: str) -> JsonObject:
    return {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
