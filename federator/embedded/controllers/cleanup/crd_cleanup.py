"""Removes custom objects when their definition is deleted, as apiextensions' finalizer controller
does.

A definition carries the clean-up finalizer from the start; when it is being deleted its objects are
deleted, and when the last one is gone the finalizer goes, and with it the definition. Works between
two turns of the loop, never inside a write.
"""

import asyncio

from federator.embedded.catalogue.registry import Registry
from federator.embedded.controllers.tools import with_list
from federator.embedded.storage.revisions import DELETED, Event, JsonObject
from federator.embedded.storage.store import Store

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


class CrdCleanup:
    """The clean-up of one server. Needs no task: store events schedule it."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._due = False
        store.subscribe_all(self._on_event)

    def _on_event(self, event: Event) -> None:
        is_crd = event.resource.key == self._registry.crd.key
        leaving = (
            is_crd
            and "deletionTimestamp" in event.current.obj["metadata"]
            and event.type is not DELETED
        )
        unblocked = not event.resource.is_builtin and event.type is DELETED
        unprotected = is_crd and FINALIZER not in (
            event.current.obj["metadata"].get("finalizers") or ()
        )
        if (leaving or unblocked or (unprotected and event.type is not DELETED)) and not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._due = False
        store, registry = self._store, self._registry
        for revision in store.items(registry.crd):
            metadata = revision.obj["metadata"]
            finalizers = metadata.get("finalizers") or []
            if "deletionTimestamp" not in metadata:
                if FINALIZER not in finalizers:
                    more = [*finalizers, FINALIZER]
                    store.update(registry.crd, with_list(revision.obj, "finalizers", more))
            elif FINALIZER in finalizers and self._emptied(revision.obj):
                rest = [name for name in finalizers if name != FINALIZER]
                store.update(registry.crd, with_list(revision.obj, "finalizers", rest))

    def _emptied(self, crd: JsonObject) -> bool:
        """Deletes what is left of the definition's objects; whether none is left."""
        try:
            info = self._registry.get(crd["spec"]["group"], crd["spec"]["names"]["plural"])
        except KeyError:
            return True
        store = self._store
        for revision in store.items(info):
            if "deletionTimestamp" not in revision.obj["metadata"]:
                store.delete(info, *revision.key)
        return store.count(info) == 0
