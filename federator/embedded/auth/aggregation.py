"""The user-facing ClusterRoles `admin`, `edit` and `view`, and the controller that adds
ClusterRoles up.

A role with an `aggregationRule` has the rules of all roles that its selectors name, in the order of
their names, each rule once; whatever else is written into it is written over. As a controller
manager does it, on store events: between two turns of the loop, never inside a write.
"""

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from federator.embedded.apply import ownership
from federator.embedded.catalogue.registry import Registry
from federator.embedded.schema import facts
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import Event, JsonObject
from federator.embedded.storage.store import Store
from federator.model.kubernetes import selectors

GROUP: Final = "rbac.authorization.k8s.io"
_MANAGER: Final = "clusterrole-aggregation-controller"
_LABEL: Final = f"{GROUP}/aggregate-to-"
_UIDS: Final = uuid.UUID("6f1c2f0a-5c0e-4d43-9d7e-5d8f3b0d7a11")
"""Names of roles are hashed with it, so that uids of what comes later are drawn as they were."""

_PASSES: Final = 10
"""One role may be part of another that is part of a third; roles in a ring would never come to
rest."""

_OWN: Final[Mapping[str, Sequence[tuple[str, str, str]]]] = facts.of("clusterRoles")
"""Role -> (verbs, API groups, resources) of what it has beyond the role below it, as Kubernetes
1.37 ships them."""
_ABOVE: Final = {"view": "edit", "edit": "admin"}


def user_facing() -> Iterator[JsonObject]:
    """The six roles as a new server has them: `admin`, `edit` and `view` are empty until they are
    added up."""
    for name, rows in _OWN.items():
        own = f"system:aggregate-to-{name}"
        rules = [
            {"verbs": verbs.split(), "apiGroups": groups.split(","), "resources": resources.split()}
            for verbs, groups, resources in rows
        ]
        yield {"metadata": _named(own, {_LABEL + name: "true"}), "rules": rules}
        labels = {_LABEL + _ABOVE[name]: "true"} if name in _ABOVE else {}
        selector = {"clusterRoleSelectors": [{"matchLabels": {_LABEL + name: "true"}}]}
        yield {"metadata": _named(name, labels), "aggregationRule": selector, "rules": []}


def _named(name: str, labels: dict[str, str]) -> JsonObject:
    return {"name": name, "uid": str(uuid.uuid5(_UIDS, name)), "labels": labels}


def added_up(role: JsonObject, roles: Iterable[JsonObject]) -> list[Any]:
    """The rules that an aggregated role has to have. `roles`: all there are, in the order of their
    names."""
    chosen = [
        selectors.from_dict(selector)
        for selector in role["aggregationRule"].get("clusterRoleSelectors") or ()
    ]
    rules: list[Any] = []
    for source in roles:
        labels = source["metadata"].get("labels") or {}
        is_part = any(selector.matches(labels) for selector in chosen)
        if is_part and source["metadata"]["name"] != role["metadata"]["name"]:
            for rule in source.get("rules") or ():
                if rule not in rules:
                    rules.append(rule)
    return rules


class Aggregation:
    """Adds ClusterRoles up on one server, from now on. Needs no task: store events schedule it."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._roles: ResourceInfo = registry.get(GROUP, "clusterroles")
        self._due = False
        self._run()
        store.subscribe(self._roles, self._on_event)

    def _on_event(self, _: Event) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._due = True  # its own writes call for no other run
        for _ in range(_PASSES):
            wrote = [
                self._add_up(revision.obj) for revision in list(self._store.items(self._roles))
            ]
            if not any(wrote):
                break
        self._due = False

    def _add_up(self, role: JsonObject) -> bool:
        """Whether it wrote."""
        if not role.get("aggregationRule"):
            return False
        rules = added_up(role, (revision.obj for revision in self._store.items(self._roles)))
        if rules == (role.get("rules") or []):
            return False
        fresh = {**role, "rules": rules}
        if role["metadata"].get("managedFields"):
            now = self._store.clock.rfc3339()
            fields = ownership.track(role, fresh, _MANAGER, self._roles, now)
            fresh["metadata"] = {**role["metadata"], "managedFields": fields}
        self._store.update(self._roles, fresh)
        return True
