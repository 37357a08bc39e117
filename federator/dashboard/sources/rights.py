"""What a person may see, as the host's SubjectAccessReviews say; each answer is used for at most
10 s.

A list shows the namespaces in which its reader may list that kind, and counts and searches count
those only.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from federator.dashboard.sessions import Session
from federator.dashboard.sources.acting import Admitted
from federator.hub.query.access import Access, User
from federator.hub.query.router import Right
from federator.kinds.kind import Kind
from federator.kube.clock import Clock

KEPT_S: Final = 10.0
KEPT_MAX: Final = 200_000
AT_ONCE: Final = 8
"""Reviews of all readers at once: fewer than `access.REVIEWS_AT_ONCE`, so that sign-ins get
through."""
CHECKED_MAX: Final = 2000
"""Pairs of kind and namespace that one page checks. A reader with more names a namespace."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a reader may list of some kinds."""

    whole: frozenset[str]
    """Kinds that may be listed in every namespace."""
    parts: frozenset[tuple[str, str]] = frozenset()
    """(kind, namespace)."""
    unchecked: int = 0
    """Namespaces that were not checked, and so are not shown."""

    def shows(self, kind: str, namespace: str) -> bool:
        return kind in self.whole or (kind, namespace) in self.parts

    @property
    def empty(self) -> bool:
        return not self.whole and not self.parts


class Rights:
    """Asks, and remembers for a while."""

    def __init__(self, access: Access, clock: Clock, admitted: Admitted | None = None) -> None:
        self._access = access
        self._clock = clock
        self._admitted = admitted or Admitted()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._kept: OrderedDict[tuple[bytes, bool, Right, str], tuple[float, bool]] = OrderedDict()

    async def may(self, reader: Session, right: Right, namespace: str = "") -> bool:
        """Whether the reader has this right; "" for all namespaces, or for what has none. Raises
        `access.AccessRefused` 503 while the host does not answer."""
        return await self._checked((reader.ident, False, right, namespace), reader.user)

    def acting(self, reader: Session) -> User | None:
        """The user that the host is to see when the reader acts; None where the reader may not."""
        return self._admitted.acting(reader.user)

    async def acts(self, reader: Session, right: Right, namespace: str = "") -> bool:
        """Whether the reader may do this with a button. Raises as `may`."""
        user = self.acting(reader)
        if user is None:
            return False
        return await self._checked((reader.ident, True, right, namespace), user)

    async def _checked(self, key: tuple[bytes, bool, Right, str], user: User) -> bool:
        now = self._clock.monotonic()
        kept = self._kept.get(key)
        if kept is not None and kept[0] > now:
            return kept[1]
        async with self._gate:
            allowed = await self._access.may(user, *key[2:])
        # The age counts from the question: an answer may have been on its way for seconds.
        self._kept[key] = (now + KEPT_S, allowed)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return allowed

    async def sees(self, reader: Session, verb: str, kind: Kind, namespace: str = "") -> bool:
        """Whether the reader may get or list objects of a kind."""
        return await self.may(reader, Right(verb, kind.group, kind.plural), namespace)

    async def gets(self, reader: Session, kind: Kind, namespace: str, name: str) -> bool:
        """Whether the reader may get this very object."""
        return await self.may(reader, Right("get", kind.group, kind.plural, name=name), namespace)

    async def scope(
        self, reader: Session, present: Iterable[tuple[Kind, str]], namespace: str = ""
    ) -> Scope:
        """What the reader may list of the (kind, namespace) that are present, of one namespace
        where it is named."""
        pairs = {(kind.kind, space): kind for kind, space in present if namespace in ("", space)}
        kinds = {kind.kind: kind for kind in pairs.values()}
        everywhere = await asyncio.gather(
            *(self.sees(reader, "list", kind) for kind in kinds.values())
        )
        whole = frozenset(name for name, yes in zip(kinds, everywhere, strict=True) if yes)
        rest = sorted(pair for pair in pairs if pair[0] not in whole)
        checked, left = rest[:CHECKED_MAX], rest[CHECKED_MAX:]
        allowed = await asyncio.gather(
            *(self.sees(reader, "list", pairs[pair], pair[1]) for pair in checked)
        )
        parts = frozenset(pair for pair, yes in zip(checked, allowed, strict=True) if yes)
        return Scope(whole, parts, len({space for _, space in left}))
