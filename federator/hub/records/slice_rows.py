"""Slices as a member's store keeps them: the figures of each in seventy bytes, and what many have
in common once.

A hub holds one row for each workload and cluster, and all the texts in it but a uid are those of
others: cluster, fleet, name, the uid of the workload, the content's digest.
"""

from struct import Struct
from struct import error as StructError
from typing import Any, Final

from federator.hub.records import slices
from federator.hub.records.slices import SliceSeen, made_slice
from federator.kinds.verbs import made_mark
from federator.kube.store import Bound, Key, Store, own_version, version_number
from federator.model import interning
from federator.model.names import WorkloadKey
from federator.model.table import Packed, Table

_FORMS_MAX: Final = 4096
"""So many different forms are remembered, to be shared with later slices."""
_NO_UID: Final = bytes(16)
_DIGEST_BYTES: Final = 12


def slice_store(name: str, bound: Bound | None = None) -> Store[SliceSeen]:
    packing = SlicePacking()
    return Store(
        name,
        version_of=own_version,
        bound=bound,
        weight=slices.weight,
        rows=lambda: Table(Packed(packing)),
    )


class SlicePacking:
    """Packs the slices of one store (`model.table.Packing`), each filed by its namespace and
    name."""

    layout = Struct("<16sq16sqii12s")
    shared = 3

    def __init__(self) -> None:
        self._forms: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def pack(self, value: SliceSeen) -> tuple[bytes, tuple[Any, ...]] | None:
        """None for a slice with a uid, a version or an amount that no API server and no hub
        writes."""
        mark = value.mark
        uid, owner = interning.packed_uid(value.uid), _NO_UID
        seq = generation = 0
        if mark is not None:
            owner, seq, generation = (
                interning.packed_uid(mark.workload_uid),
                mark.seq,
                mark.origin_generation,
            )
        number = version_number(value.resource_version)
        if not uid or not owner or str(number) != value.resource_version:
            return None
        if len(value.live) != _DIGEST_BYTES:
            return None
        try:
            figures = self.layout.pack(
                uid, number, owner, seq, generation, value.amount, value.live
            )
        except StructError:
            return None
        return figures, (self._form(value), value.observation, value.native)

    def unpack(self, key: Key, figures: tuple[Any, ...], shared: list[Any]) -> SliceSeen:
        uid, number, owner, seq, generation, amount, live = figures
        (kind, cluster, deleting, plain, marked), observation, native = shared
        mark = None
        if marked is not None:
            fleet, named, ranges, rules, pods = marked
            owner_uid = interning.uid_text(owner)
            mark = made_mark(fleet, owner_uid, generation, named, seq, ranges, rules, pods)
        return made_slice(
            cluster,
            WorkloadKey(kind, *key),
            interning.uid_text(uid),
            str(number),
            mark,
            deleting,
            amount,
            live,
            plain,
            observation,
            native,
        )

    def _form(self, value: SliceSeen) -> tuple[Any, ...]:
        """What it has in common with others, as one object for all of them."""
        mark = value.mark
        marked = mark and (mark.fleet, mark.cluster, mark.ranges, mark.rules, mark.pods)
        form = (value.key.kind, value.cluster, value.deleting, value.plain, marked)
        if len(self._forms) > _FORMS_MAX:
            self._forms.clear()
        return self._forms.setdefault(form, form)
