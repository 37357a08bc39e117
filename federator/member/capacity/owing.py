"""What slices may take beyond the pods that they have bound, kept up to date slice by slice: a
survey of a member with thousands of slices looks only at those that changed.

Fed by the caches, which signal each slice with changed content, pods or controllers; read by the
capacity report.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from federator.member.cache.caches import Caches
from federator.member.cache.rows import SliceRow
from federator.model.ask import PodShape
from federator.model.names import WorkloadKey

Entitlement = Callable[[SliceRow], tuple[PodShape, int] | None]
"""What a slice of ours may have at once: the shape of a copy and how many; None for what is not
ours to count."""


class Owed(NamedTuple):
    """Copies of one shape that a slice is entitled to and that are not bound yet."""

    seq: int
    shape: PodShape
    copies: int
    apart: bool = False
    """No two copies of the slice share a node, copies of two slices may."""


class Lacking(NamedTuple):
    """What a slice counts for in the ResourceQuotas of its namespace."""

    shape: PodShape
    entitled: int
    """Copies that it may have; for a daemon as many as the nodes that admit it, whatever this
    says."""
    alive: int
    """Copies of which pods exist."""


class Owing:
    """One per process. A slice is looked at again when it is read after a signal."""

    def __init__(self, caches: Caches, entitlement: Entitlement) -> None:
        self._caches = caches
        self._entitlement = entitlement
        self._changed: set[WorkloadKey] = set()
        self._every = True
        """All slices are to be looked at: what they refer to has changed."""
        self._owed: dict[WorkloadKey, tuple[Owed, ...]] = {}
        self._lacking: dict[str, dict[WorkloadKey, Lacking]] = {}
        """By namespace, of those with a ResourceQuota."""
        caches.signals.to_owe.append(self._changed.add)
        caches.signals.to_reference.append(self._on_reference)

    def of_slices(self) -> Iterator[Owed]:
        """All that is owed, in order of kind, namespace and name of the slices."""
        self._look()
        for key in sorted(self._owed):
            yield from self._owed[key]

    def lacking(self, namespace: str) -> Iterable[Lacking]:
        """What slices of a namespace with ResourceQuotas are entitled to, beside the pods that
        exist."""
        self._look()
        return self._lacking.get(namespace, {}).values()

    def _on_reference(self, kind: str, _: str, __: str) -> None:
        self._every = self._every or kind in ("RuntimeProfile", "ResourceQuota")

    def _look(self) -> None:
        if self._every:
            self._every = False
            self._changed.update(self._owed, (row.key for row in self._caches.every_slice()))
        for key in self._changed:
            row = self._caches.slice(key)
            if owed := tuple(self._owed_to(row)) if row is not None else ():
                self._owed[key] = owed
            else:
                self._owed.pop(key, None)
            self._note_lacking(key, row)
        self._changed.clear()

    def _note_lacking(self, key: WorkloadKey, row: SliceRow | None) -> None:
        if not (len(self._caches.quotas) or self._lacking):
            return
        entitled = None
        if row is not None and key.namespace in self._caches.quota_namespaces():
            entitled = self._entitlement(row)
        if row is None or entitled is None:
            self._lacking.get(key.namespace, {}).pop(key, None)
            return
        shape, copies = entitled
        books, crews = self._caches.commitments, self._caches.crews_of(row)
        alive = sum(books.alive(crew)[0] for crew in crews)
        if shape.parts:  # each copy is all pods of the gang
            pods = sum(part.count for part in shape.parts)
            alive = alive // pods if pods else copies
        self._lacking.setdefault(key.namespace, {})[key] = Lacking(shape, copies, alive)

    def _owed_to(self, row: SliceRow) -> Iterator[Owed]:
        entitled = self._entitlement(row)
        if entitled is None:
            return
        shape, copies = entitled
        seq, books = row.mark.seq if row.mark is not None else 0, self._caches.commitments
        if shape.every_node:  # its DaemonSet is asked by the report, unless it is still to be made
            if not self._caches.crews_of(row):
                yield Owed(seq, shape, 1, apart=True)
            return
        if shape.parts:
            bound: Counter[str] = Counter()
            for native in self._caches.natives_of(row.uid):
                if native.role:
                    bound[native.role] += books.bound(native.uid)
            for part in shape.parts:
                if (missing := part.count * copies - bound[part.name]) > 0:
                    yield Owed(seq, part.shape, missing)
            return
        missing = copies - sum(books.bound(crew) for crew in self._caches.crews_of(row))
        if missing > 0:
            yield Owed(seq, shape, missing, apart=shape.one_per_node)
