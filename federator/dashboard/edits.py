"""Edits that a reader plans, from the fields of a form or the parameters of an address. Pure."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api.decoding import Limits
from federator.api.positions import Lines
from federator.hub.placing import objects
from federator.hub.placing.offline import Id
from federator.kinds import read, registry
from federator.kinds.kind import Kind
from federator.model import plaintext
from federator.model.kubernetes import selectors
from federator.model.manifests import Manifest, Unreadable

TEXT_MAX: Final = 1 << 20
"""Characters of manifests."""
LIMITS: Final = Limits(size=TEXT_MAX, nodes=200_000)
COUNT_MAX: Final = 10**9
NAMED_MAX: Final = 50
"""Objects and clusters that one field may name."""
PASTED: Final = "the pasted text"


@dataclass(slots=True)
class Edits:
    """Edits that are planned together."""

    applied: list[dict[str, Any]] = field(default_factory=list)
    deleted: list[Id] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    scaled: list[tuple[Id, int]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    """Objects that a plan does not read, as sentences."""

    def __bool__(self) -> bool:
        return bool(self.applied or self.deleted or self.lost or self.scaled)

    def asked(self, *, losses: bool = False) -> dict[str, Any]:
        """As `advice.plans.asked` reads them."""
        return {
            "applied": self.applied,
            "deleted": self.deleted,
            "lost": self.lost,
            "scaled": self.scaled,
            "losses": losses,
        }


def of(given: Mapping[str, str]) -> Edits:
    """The edits of the fields `manifests`, `file`, `delete`, `lose` and `scale`. Raises
    `Unreadable` with the file, the document, the line and the field of what is wrong."""
    namespace = given.get("namespace", "").strip() or "default"
    if selectors.dns1123_label(namespace):
        raise Unreadable(f"namespace: {plaintext.clipped(namespace, 80)!r} is no namespace")
    made = Edits()
    for name, origin in (
        ("manifests", PASTED),
        ("file", plaintext.clipped(given.get("file.filename") or "the uploaded file", 80)),
    ):
        if text := given.get(name, ""):
            made.applied += manifests(text, origin, namespace, made.ignored)
    made.deleted = [named(each, "delete", namespace) for each in listed(given, "delete")]
    made.lost = listed(given, "lose")
    made.scaled = [scale(each, namespace) for each in listed(given, "scale")]
    return made


def manifests(text: str, origin: str, namespace: str, ignored: list[str]) -> list[dict[str, Any]]:
    """The objects of a text. `ignored` grows. Raises `Unreadable`."""
    try:
        objs = read.load_yaml(text, LIMITS)
    except read.InvalidObject as bad:
        raise Unreadable(*(f"{origin}: {problem}" for problem in bad.errors)) from None
    lines = Lines(text)
    given = [
        Manifest(obj, origin, number, functools.partial(lines.of, number))
        for number, obj in enumerate(objs, 1)
    ]

    def leave(manifest: Manifest, why: str) -> None:
        title = plaintext.clipped(objects.title(manifest.obj), 120)
        ignored.append(f"{title} ({manifest.where}) is left out: {why}.")

    return objects.checked(given, namespace, leave)


def listed(given: Mapping[str, str], name: str) -> list[str]:
    """The parts of a field, which commas or white space separate. Raises `Unreadable`."""
    parts = given.get(name, "").replace(",", " ").split()
    if len(parts) > NAMED_MAX:
        raise Unreadable(f"{name}: names {len(parts)}; at most {NAMED_MAX} are planned at once")
    return parts


def named(text: str, option: str, namespace: str) -> Id:
    """KIND/NAME, or KIND/NAMESPACE/NAME. Raises `Unreadable`."""
    prefix, *names = text.split("/")
    kind = _ALIASES.get(prefix.lower())
    if kind is None or not 1 <= len(names) <= 1 + kind.namespaced or not all(names):
        shown = plaintext.clipped(text, 80)
        raise Unreadable(f"{option}: {shown!r} is not KIND/NAME, such as psvc/web or cpp/us-only")
    where = names[0] if len(names) == 2 else namespace
    return kind.kind, where if kind.namespaced else "", names[-1]


def scale(text: str, namespace: str) -> tuple[Id, int]:
    """KIND/NAME=COUNT. Raises `Unreadable`."""
    before, _, amount = text.rpartition("=")
    which = named(before or text, "scale", namespace)
    if which[0] not in registry.WORKLOADS:
        raise Unreadable(f"scale: a {which[0]} has no copies")
    return which, count(amount, "scale")


def count(text: str, option: str) -> int:
    """A number of copies. Raises `Unreadable`."""
    if not (text.isascii() and text.isdecimal() and int(text[:12]) < COUNT_MAX):
        shown = plaintext.clipped(text, 40)
        raise Unreadable(f"{option}: {shown!r} is no number of copies, such as 300")
    return int(text)


def _names() -> Iterator[tuple[str, Kind]]:
    for kind in registry.KINDS.values():
        names: Sequence[str] = (kind.kind.lower(), kind.plural, kind.singular, *kind.short_names)
        yield from ((name, kind) for name in names)


_ALIASES: Final[Mapping[str, Kind]] = dict(_names())
