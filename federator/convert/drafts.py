"""State of a conversion: the input objects, the workloads drafted from them, and the fate of each
object.

Used by the other modules of `convert`. Every object ends with exactly one fate; a missing one is an
error.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.model import errors
from federator.model.errors import FieldError

_SERVER_SET: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class LeftAlone(Exception):
    """Raised by a converter for an object that it does not convert; the text is the reason, as a
    sentence."""


class BadInput(ValueError):
    """An object that cannot be read. `title` is its kind and name, `errors` have the fields."""

    def __init__(self, origin: str, title: str, problems: Sequence[FieldError]) -> None:
        self.origin, self.title, self.errors = origin, title, tuple(problems)
        super().__init__("\n".join(self.sentences()))

    def sentences(self) -> list[str]:
        """One per problem, with the file and the object."""
        where = ": ".join(part for part in (self.origin, self.title) if part)
        return [f"{where}: {error}" for error in self.errors]


class Fate(StrEnum):
    """The result for an object."""

    CONVERTED = "converted"
    ABSORBED = "absorbed"
    KEPT = "kept"
    """Goes to the host unchanged."""
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Account:
    """One input object and its fate."""

    origin: str
    title: str
    fate: Fate
    into: tuple[str, ...] = ()
    """The workloads that it became, or became part of."""
    reason: str = ""
    """Why it was left."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something to know about a resulting workload."""

    title: str
    text: str


@dataclass(eq=False, slots=True)
class Item:
    """One input object, without nulls and without fields that servers fill in."""

    obj: dict[str, Any]
    origin: str
    live: bool
    """It was read from a cluster: fields set by servers are then not its owner's wishes."""
    given: Obj = field(default_factory=dict)
    """As it was given, with what servers set."""

    @property
    def api_version(self) -> str:
        return raw.text(self.obj, "apiVersion")

    @property
    def kind(self) -> str:
        return raw.text(self.obj, "kind")

    @property
    def name(self) -> str:
        return raw.text(self.obj, "metadata", "name")

    @property
    def namespace(self) -> str:
        return raw.text(self.obj, "metadata", "namespace")

    @property
    def title(self) -> str:
        shown = self.name or f"{raw.text(self.obj, 'metadata', 'generateName')}*"
        return f"{self.kind}/{shown}"

    def bad(self, path: str, message: str) -> BadInput:
        """The error for a field of this object."""
        return BadInput(self.origin, self.title, [FieldError(path, message)])

    def is_a(self, api_version: str, kind: str) -> bool:
        return (self.api_version, self.kind) == (api_version, kind)


@dataclass(eq=False, slots=True)
class Draft:
    """A workload being built."""

    item: Item
    obj: dict[str, Any]
    path: str
    """Path of its pod template in the input."""
    parts: list[Item] = field(default_factory=list)
    doors: list[dict[str, Any]] = field(default_factory=list)
    service: Item | None = None
    """The Service that it replaces."""
    port_names: dict[str, int] = field(default_factory=dict)
    """Port names removed from its containers."""

    @property
    def name(self) -> str:
        return raw.text(self.obj, "metadata", "name")

    @property
    def namespace(self) -> str:
        return self.item.namespace

    @property
    def spec(self) -> dict[str, Any]:
        """What a workload asks for; of a cron job what each run does."""
        spec: dict[str, Any] = self.obj["spec"]
        return spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec

    @property
    def pod(self) -> dict[str, Any]:
        """The pod's spec; created when missing, so that validation reports what is missing."""
        pod: dict[str, Any] = self.spec["template"].setdefault("spec", {})
        return pod

    @property
    def labels(self) -> dict[str, str]:
        return raw.text_map(self.spec, "template", "metadata", "labels")

    @property
    def title(self) -> str:
        shown = self.name or f"{raw.text(self.obj, 'metadata', 'generateName')}*"
        return f"{self.obj['kind']}/{shown}"


class Drafts:
    """All input objects of one run, in order, and their fates."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self.made: list[Draft] = []
        self._notes: list[tuple[Draft, str]] = []
        self._reasons: dict[int, str] = {}
        self._into: dict[int, list[Draft]] = {}
        self._repeated: set[int] = set()
        self._kept: dict[int, Item] = {}
        self.quotas: list[dict[str, Any]] = []
        """FederatedQuotas that were made, with all else that queues become."""
        self._became: dict[int, str] = {}
        self._joined: dict[int, str] = {}
        self._quota_notes: list[Note] = []

    @property
    def distinct(self) -> Iterator[Item]:
        """The objects without those that repeat an earlier kind and name."""
        return (item for item in self.items if id(item) not in self._repeated)

    def draft(self, draft: Draft) -> None:
        self.made.append(draft)

    def leave_repeated(self, item: Item, earlier: Item) -> None:
        """Leaves an object and hides it from the others, because another has its kind and name."""
        self._repeated.add(id(item))
        where = f" in {earlier.origin}" if earlier.origin else ""
        self.leave(item, f"metadata.name: another {item.title} was given before{where}")

    def drop(self, draft: Draft, reason: str) -> None:
        """Removes a draft: its object is left."""
        self.made.remove(draft)
        self._notes = [note for note in self._notes if note[0] is not draft]
        self.leave(draft.item, reason)

    def keep(self, item: Item) -> None:
        """The host takes the object unchanged."""
        self._kept[id(item)] = item

    @property
    def kept(self) -> tuple[Item, ...]:
        """Objects that go to the host unchanged, namespaces first."""
        return tuple(sorted(self._kept.values(), key=lambda item: item.kind != "Namespace"))

    def become(self, quota: dict[str, Any], item: Item | None, notes: Sequence[str]) -> None:
        """An account was made of this object, or of what others say of it."""
        title = f"{quota['kind']}/{quota['metadata']['name']}"
        self.quotas.append(quota)
        if item is not None:
            self._became[id(item)] = title
        self._quota_notes += [Note(title, text) for text in notes]

    def add(self, obj: dict[str, Any]) -> None:
        """Something that none of the input objects became alone."""
        self.quotas.append(obj)

    def join(self, item: Item, title: str) -> None:
        """The object became part of the account of this title."""
        self._joined[id(item)] = title

    def joined(self, item: Item) -> bool:
        return id(item) in self._joined

    def leave(self, item: Item, reason: str) -> None:
        self._reasons[id(item)] = reason

    def absorb(self, item: Item, draft: Draft) -> None:
        draft.parts.append(item)
        self._into.setdefault(id(item), []).append(draft)

    def absorbed(self, item: Item) -> bool:
        return id(item) in self._into

    def note(self, draft: Draft, text: str) -> None:
        self._notes.append((draft, text))

    def open(self, api_version: str, kind: str) -> Iterator[Item]:
        """Objects of this kind without a fate."""
        for item in self.items:
            if (
                item.is_a(api_version, kind)
                and id(item) not in self._reasons
                and id(item) not in self._into
            ):
                yield item

    def undecided(self) -> list[Item]:
        made = {id(draft.item) for draft in self.made}
        return [
            item
            for item in self.items
            if not any(
                id(item) in record
                for record in (
                    made,
                    self._into,
                    self._reasons,
                    self._kept,
                    self._became,
                    self._joined,
                )
            )
        ]

    def accounts(self) -> tuple[Account, ...]:
        """One row per object, in their order."""
        made = {id(draft.item): draft for draft in self.made}
        rows: list[Account] = []
        for item in self.items:
            if id(item) in made:
                rows.append(
                    Account(item.origin, item.title, Fate.CONVERTED, (made[id(item)].title,))
                )
            elif (title := self._became.get(id(item))) is not None:
                rows.append(Account(item.origin, item.title, Fate.CONVERTED, (title,)))
            elif (title := self._joined.get(id(item))) is not None:
                rows.append(Account(item.origin, item.title, Fate.ABSORBED, (title,)))
            elif id(item) in self._into:
                into = tuple(draft.title for draft in self._into[id(item)])
                rows.append(Account(item.origin, item.title, Fate.ABSORBED, into))
            elif id(item) in self._kept:
                rows.append(Account(item.origin, item.title, Fate.KEPT, (item.title,)))
            else:
                rows.append(
                    Account(item.origin, item.title, Fate.LEFT, reason=self._reasons[id(item)])
                )
        return tuple(rows)

    def notes(self) -> tuple[Note, ...]:
        """Notes by workload, in the order of the workloads, with final titles."""
        order = {id(draft): index for index, draft in enumerate(self.made)}
        in_order = sorted(self._notes, key=lambda note: order[id(note[0])])
        return (*self._quota_notes, *(Note(draft.title, text) for draft, text in in_order))


def item_of(obj: Obj, origin: str) -> Item:
    """Reads an object's identity. Raises BadInput without apiVersion, kind or name."""
    shown = f"{raw.text(obj, 'kind') or 'object'}/{raw.text(obj, 'metadata', 'name')}"
    problems = [
        FieldError(field, "is required")
        for field in ("apiVersion", "kind")
        if not raw.text(obj, field)
    ]
    for field_name in ("metadata", "spec"):
        if obj.get(field_name) is not None and not isinstance(obj[field_name], Mapping):
            problems.append(FieldError(field_name, "must be an object"))
    named = raw.text(obj, "metadata", "name") or raw.text(obj, "metadata", "generateName")
    if not named and not raw.text(obj, "apiVersion").startswith("config.kueue.x-k8s.io/"):
        problems.append(FieldError("metadata.name", "is required"))
    if problems:
        raise BadInput(origin, shown, problems)
    clean = without_nulls(obj)
    meta = clean.setdefault("metadata", {})
    live = bool(meta.get("uid") or meta.get("resourceVersion"))
    for name in (*_SERVER_SET, *(("ownerReferences", "finalizers") if live else ())):
        meta.pop(name, None)
    annotations = meta.get("annotations")
    if isinstance(annotations, dict):
        annotations.pop(_LAST_APPLIED, None)
        if not annotations:
            del meta["annotations"]
    clean.pop("status", None)
    return Item(clean, origin, live, obj)


def without_nulls(value: Any) -> Any:
    """A copy without null fields, as API servers read it."""
    if isinstance(value, Mapping):
        return {name: without_nulls(entry) for name, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [without_nulls(entry) for entry in value]
    return value


def only_fields(
    fields: Obj, allowed: frozenset[str], reasons: Mapping[str, str], path: str
) -> None:
    """Raises LeftAlone for the first field that would be lost. Empty values are ignored."""
    for name in sorted(fields):
        if name in allowed or fields[name] in ("", [], {}):
            continue
        why = reasons.get(name, "it is not known here, so it would be lost")
        raise LeftAlone(f"{errors.join(path, name)}: {why}")


def listed(names: Sequence[str], most: int = 5) -> str:
    """`a, b and 3 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
