"""The namespace life cycle: what every namespace is given, and the emptying of one that is being
deleted.

Content is counted from changes, so an emptying namespace is swept once and then only waits for its
counts to reach zero.
"""

import collections
from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.controllers.agenda import Dirty
from federator.embedded.controllers.tools import Tools, stated
from federator.embedded.schema import facts
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import ADDED, DELETED, Event

CA_CONFIGMAP: Final = "kube-root-ca.crt"
_CA_TEXT: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal"
    " endpoints such as the "
    "internal service IP or kubernetes.default.svc. "
    "No other usage is guaranteed across distributions of Kubernetes clusters."
)


class Namespaces:
    """One controller for all namespaces of a cluster; wants to hear of every change."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._content: dict[str, collections.Counter[ResourceInfo]] = {}
        self._latest: dict[tuple[str, str], ResourceInfo] = {}
        self._dirty: Dirty[str] = Dirty()
        self._closing: set[str] = set()
        self._unswept: set[str] = set()

    def notice(self, event: Event) -> None:
        kinds = self._tools.kinds
        namespace = event.key[0]
        if event.resource is kinds.namespaces:
            self._notice_namespace(event)
            return
        if not namespace:
            return
        if event.type is ADDED:
            # One entry per resource, whatever version it was written in.
            resource = self._latest.setdefault(event.resource.key, event.resource)
            self._content.setdefault(namespace, collections.Counter())[resource] += 1
            if namespace in self._closing:
                self._unswept.add(namespace)
                self._dirty.add(namespace)
        elif event.type is DELETED:
            resource = self._latest.setdefault(event.resource.key, event.resource)
            counts = self._content.get(namespace, collections.Counter())
            counts[resource] -= 1
            if counts[resource] <= 0:
                del counts[resource]
            if not counts:
                self._content.pop(namespace, None)
            given = event.resource is kinds.serviceaccounts or event.resource is kinds.configmaps
            if namespace in self._closing or (given and event.key[1] in ("default", CA_CONFIGMAP)):
                self._dirty.add(namespace)

    def _notice_namespace(self, event: Event) -> None:
        name = event.key[1]
        if event.type is DELETED:
            self._closing.discard(name)
            self._unswept.discard(name)
            return
        if "deletionTimestamp" in event.current.obj["metadata"] and name not in self._closing:
            self._closing.add(name)
            self._unswept.add(name)
        self._dirty.add(name)

    def recheck(self) -> None:
        """Looks at what every namespace is given again."""
        for revision in self._tools.store.items(self._tools.kinds.namespaces):
            self._dirty.add(revision.key[1])

    def steps(self) -> Iterator[None]:
        for name in self._dirty.drain():
            obj = self._tools.get(self._tools.kinds.namespaces, ("", name))
            if obj is None:
                continue
            if "deletionTimestamp" in obj["metadata"]:
                yield from self._empty(name)
            else:
                self._furnish(name)
            yield

    def _furnish(self, name: str) -> None:
        tools, kinds = self._tools, self._tools.kinds
        if tools.get(kinds.serviceaccounts, (name, "default")) is None:
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name},
            }
            tools.store.create(kinds.serviceaccounts, account)
        if not tools.root_ca:
            # Nothing outside this process can reach the server, so there is nothing to trust.
            return
        data = {"ca.crt": tools.root_ca}
        have = tools.get(kinds.configmaps, (name, CA_CONFIGMAP))
        if have is not None:
            tools.store.update(kinds.configmaps, {**have, "data": data})
            return
        metadata: dict[str, Any] = {"name": CA_CONFIGMAP, "namespace": name}
        metadata["annotations"] = {"kubernetes.io/description": _CA_TEXT}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        tools.store.create(kinds.configmaps, obj)

    def _empty(self, name: str) -> Iterator[None]:
        if name in self._unswept:
            self._unswept.discard(name)
            # Pods last: their controllers must be gone before, or they would make new ones.
            resources = sorted(
                self._content.get(name, ()),
                key=lambda resource: (resource is self._tools.kinds.pods, resource.key),
            )
            for resource in resources:
                for revision in self._tools.store.items(resource, name):
                    if "deletionTimestamp" not in revision.obj["metadata"]:
                        self._tools.delete(resource, revision.obj)
                        yield
            if self._content.get(name):
                self._explain(name)
        if not self._content.get(name):
            obj = self._tools.get(self._tools.kinds.namespaces, ("", name))
            if obj is not None:
                left = [
                    finalizer
                    for finalizer in obj["spec"].get("finalizers") or ()
                    if finalizer != "kubernetes"
                ]
                spec = {**obj["spec"], "finalizers": left}
                if not left:
                    del spec["finalizers"]
                self._tools.store.update(self._tools.kinds.namespaces, {**obj, "spec": spec})

    def _explain(self, name: str) -> None:
        """Conditions that say what the namespace still waits for."""
        obj = self._tools.get(self._tools.kinds.namespaces, ("", name))
        if obj is None:
            return
        remaining, finalizers = [], collections.Counter[str]()
        for resource in sorted(self._content.get(name, ()), key=lambda resource: resource.key):
            present = self._tools.store.items(resource, name)
            remaining.append(
                f"{resource.qualified_resource}{'' if resource.group else '.'} has {len(present)}"
                " resource instances"
            )
            for revision in present:
                finalizers.update(revision.obj["metadata"].get("finalizers") or ())
        held = [
            f"{finalizer} in {count} resource instances"
            for finalizer, count in sorted(finalizers.items())
        ]
        status = dict(obj.get("status") or {})
        old, now = status.get("conditions"), self._tools.now()
        text = f"Some resources are remaining: {', '.join(remaining)}"
        finalizing = "False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"
        if held:
            left = f"Some content in the namespace has finalizers remaining: {', '.join(held)}"
            finalizing = "True", "SomeFinalizersRemain", left
        rows = [
            *facts.of("namespaceConditions"),
            ("NamespaceContentRemaining", "True", "SomeResourcesRemain", text),
            ("NamespaceFinalizersRemaining", *finalizing),
        ]
        status["conditions"] = [stated(old, row, now) for row in rows]
        self._tools.set_status(self._tools.kinds.namespaces, obj, status)
