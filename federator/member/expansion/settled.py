"""What a full turn of a slice led to, so that the next turn with the same inputs need not make the
natives again: each write of ours brings an event, and so a turn, when the watch shows it.

Remembered only where the wish depends on nothing but the inputs in `Inputs`: not for shards, gangs,
repeated runs, or counts that an autoscaler chooses.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from federator.api import raw
from federator.kinds.labels import bounds_of
from federator.kinds.natives import OPTIONAL, pod_templates
from federator.member.cache.rows import NativeKey, SliceRow, account_of
from federator.member.cache.stores import Stores
from federator.member.expansion import references
from federator.member.expansion.comparing import Verdicts, native_key
from federator.model.ask import Unit
from federator.model.names import WorkloadKey


class Inputs(NamedTuple):
    """What the natives of a slice are made from."""

    uid: str
    content: str
    generation: int
    profile: tuple[str, str]
    """Name and version of the RuntimeProfile; two empty strings for none."""
    offered: tuple[bool, ...]
    """Which optional kinds the cluster serves."""


class Named(NamedTuple):
    """What the pods of a slice name and the slice does not make."""

    account: NativeKey | None
    """Their service account; None where they name none."""
    others: tuple[NativeKey, ...]


def named(row: SliceRow, wanted: Sequence[Mapping[str, Any]]) -> Named:
    """What the pods of the slice name beyond `wanted`."""
    namespace = row.key.namespace
    made = {native_key(body) for body in wanted}
    templates = [template for body in wanted for template in pod_templates(body)]
    if row.verbs.carried:
        templates = [row.verbs.pod_template(row.obj())]
    if not templates:
        return Named(None, ())
    account = ("ServiceAccount", namespace, account_of(templates[0]))
    others = {
        (kind, "" if kind == "PriorityClass" else namespace, name)
        for kind, name in references.of_template(templates[0])
    }
    makes = account[2] and account not in made
    return Named(account if makes else None, tuple(sorted(others - made)))


class Settled(NamedTuple):
    """The outcome of a turn after which each native was as wished, or had just been written so."""

    inputs: Inputs
    natives: frozenset[NativeKey]
    named: Named


class Memory:
    """The last outcome of each slice. One per process."""

    def __init__(self, caches: Stores, verdicts: Verdicts) -> None:
        self._caches = caches
        self._verdicts = verdicts
        self._settled: dict[WorkloadKey, Settled] = {}

    def inputs(self, row: SliceRow, profile: Mapping[str, Any] | None) -> Inputs | None:
        """Of a turn; None where the natives depend on more."""
        verbs = row.verbs
        plain = not (verbs.carried or verbs.gang or verbs.repeats) and verbs.unit is Unit.REPLICAS
        if not plain or self._caches.account_lists(row.key.namespace):
            return None
        meta = raw.mapping(profile or {}, "metadata")
        version = raw.text(meta, "name"), raw.text(meta, "resourceVersion")
        offered = tuple(self._caches.offers(kind) for kind in OPTIONAL)
        return Inputs(row.uid, row.content, row.generation, version, offered)

    def keep(
        self,
        key: WorkloadKey,
        inputs: Inputs | None,
        wanted: Sequence[Mapping[str, Any]],
        named: Named,
    ) -> None:
        """A turn went through: the verdicts hold what each of `wanted` led to."""
        chosen = any(bounds_of(raw.mapping(body, "metadata", "annotations")) for body in wanted)
        if inputs is not None and not chosen:
            natives = frozenset(native_key(body) for body in wanted)
            self._settled[key] = Settled(inputs, natives, named)

    def forget(self, key: WorkloadKey) -> None:
        """The next turn makes the natives again."""
        self._settled.pop(key, None)

    def still(
        self, row: SliceRow, inputs: Inputs | None, now_s: float
    ) -> tuple[Named, list[NativeKey]] | None:
        """What the pods of a slice name if the caches show each native as the last turn left it,
        and nothing else; None if there is anything to do. Natives that have just been made may not
        show yet: these are named."""
        settled = self._settled.get(row.key)
        if settled is None or settled.inputs != inputs:
            return None
        account = settled.named.account
        if account is not None and self._caches.native(account) is None:
            return None
        owned = self._caches.natives_of(row.uid)
        held = all(
            native.key in settled.natives
            and not native.deleting
            and self._verdicts.holds_still(native, now_s)
            for native in owned
        )
        if not held:
            return None
        missing = settled.natives.difference(native.key for native in owned)
        if not all(self._verdicts.just_made(key, now_s) for key in missing):
            return None
        return settled.named, sorted(missing)
