"""What we know of one collection on one API server: projections by (namespace, name), fed by one
reflector.

Read synchronously by controllers. Silence is not absence: `heard_at` says when the server was last
heard, `synced` whether a whole list has been read in this process's life, and nothing may be
deleted on the word of an unsynced store.
"""

import asyncio
import math
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
)
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
N = TypeVar("N", bound=Hashable)

Key = tuple[str, str]
"""(namespace, name); the namespace is "" for cluster-scoped kinds."""


class Version(NamedTuple):
    """Which state of which object a row shows. `number` is the resourceVersion, -1 when it is no
    number."""

    number: int
    uid: str


class Bound(NamedTuple):
    """How much of one collection is kept. `bytes` are what rows are estimated to take."""

    objects: int
    bytes: int


def version_number(resource_version: str) -> int:
    """The resourceVersion as a number that can be compared (Kubernetes promises that since 1.35);
    -1 if it is none."""
    if resource_version.isascii() and resource_version.isdigit() and len(resource_version) < 40:
        return int(resource_version)
    return -1


def put(table: dict[N, T], name: N, row: T | None) -> None:
    """Stores a row in a table; None removes the one that is there."""
    if row is None:
        table.pop(name, None)
    else:
        table[name] = row


class Flag:
    """An event of asyncio that takes memory only while somebody waits for it: a hub has some twenty
    for each of a thousand members, and each `asyncio.Event` has a queue of 760 bytes."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: tuple[asyncio.Future[None], ...] = ()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Wakes all that wait."""
        self._is_set = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        """From now on `wait` waits until the next `set`."""
        self._is_set = False

    async def wait(self) -> None:
        """Returns when it is set."""
        if self._is_set:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters += (waiter,)
        try:
            await waiter
        finally:
            self._waiters = tuple(other for other in self._waiters if other is not waiter)


class Versioned(Protocol):
    """A row that knows which state of which object it shows."""

    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


def own_version(row: Versioned) -> Version:
    """The `version_of` of rows that keep both."""
    return Version(version_number(row.resource_version), row.uid)


class Store(Generic[T]):
    """A copy-on-write map of projections. Written by its reflector only.

    `version_of` reads a row's version out of the row, where rows hold it anyway: then it is not
    kept a second time. `bound`: what is beyond it is left out, by `weight` in bytes of a row;
    absence then says nothing (`complete`). `rows` makes the map that rows are kept in; one that
    packs them gives back equal rows, not the same.
    """

    __slots__ = (
        "_indexes",
        "_lent",
        "_made_rows",
        "_rows",
        "_synced",
        "_version_of",
        "_versions",
        "_weight",
        "bound",
        "bytes",
        "heard_at",
        "left_out",
        "name",
        "resource_version",
        "rewinds",
        "synced",
    )

    def __init__(
        self,
        name: str = "",
        *,
        version_of: Callable[[T], Version] | None = None,
        bound: Bound | None = None,
        weight: Callable[[T], int] = lambda row: 0,
        rows: Callable[[], MutableMapping[Key, Any]] = dict,
    ) -> None:
        self.name = name
        self.bound = bound
        self.bytes = 0
        """What the rows are estimated to take, where there is a bound."""
        self.left_out = 0
        """Objects that were beyond the bound since the last whole list."""
        self._weight = weight
        self._version_of = version_of
        self._made_rows = rows
        self._rows: MutableMapping[Key, T] = rows()
        self._versions: dict[Key, Version] = {}
        self._lent = False
        self._indexes: dict[str, _Index[T]] = {}
        self.synced = False
        """Whether a whole list has been read in this process's life."""
        self._synced = Flag()
        self.heard_at = -math.inf
        """When the server was last heard (list, event or bookmark), on `Clock.monotonic()`; -inf:
        never."""
        self.resource_version = ""
        """The newest version this store has seen; where a watch goes on."""
        self.rewinds = 0
        """How often the server's own history went back for good (a restored backup, another
        server): no reason to delete anything before its identity has been checked (F51)."""

    # -- reading --------------------------------------------------------------

    def get(self, key: Key) -> T | None:
        return self._rows.get(key)

    def items(self) -> Mapping[Key, T]:
        """Everything as of now: an immutable view that later changes do not reach. Order is that of
        arrival."""
        self._lent = True
        return MappingProxyType(self._rows)

    def keys(self) -> tuple[Key, ...]:
        """All keys, sorted."""
        return tuple(sorted(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys())

    def version(self, key: Key) -> Version | None:
        """Version and uid of the object a row came from."""
        if self._version_of is None:
            return self._versions.get(key)
        row = self._rows.get(key)
        return None if row is None else self._version_of(row)

    def is_rewritten(self, rows: "Listing[T]", refused: int = -1) -> bool:
        """Whether a whole list shows that the server's history was rewritten (restored from a
        backup): some object is older there than here, although the list as a whole is not. Versions
        alone do not show it for long, for a restored server counts on.

        `refused`: the version of a list that was refused just before because it was older than the
        store; -1 for none. What was written since that list must then be here in the same version,
        or be newer than the whole store: a restored server with objects that were brought up to
        date meanwhile shows nothing that is older.
        """
        if not self._rows and refused < 0:
            return False  # nothing to compare with: a first list may be very long
        newest = version_number(self.resource_version)
        for key in rows:
            listed, kept = rows.get(key)[0], self.version(key)
            if kept is not None and kept.uid == listed.uid and 0 <= listed.number < kept.number:
                return True
            same = kept is not None and kept.number == listed.number
            if 0 <= refused < listed.number <= newest and not same:
                return True
        return False

    @property
    def complete(self) -> bool:
        """Whether an object that is not here is not there, as far as the server was heard."""
        return self.synced and not self.left_out

    async def wait_synced(self) -> None:
        """Returns when `synced`; the caller sets the deadline."""
        await self._synced.wait()

    def add_index(self, name: str, values: Callable[[T], Iterable[Hashable]]) -> None:
        """Keeps an index: each row is found under every value of `values(row)`. Call it before the
        reflector runs."""
        index = _Index(values)
        for key, row in self._rows.items():
            index.add(key, row)
        self._indexes[name] = index

    def by_index(self, name: str, value: Hashable) -> list[tuple[Key, T]]:
        """Rows under `value`, sorted by key."""
        keys = self._indexes[name].keys_of(value)
        if len(keys) > 1:
            return [(key, self._rows[key]) for key in sorted(keys)]
        return [(key, self._rows[key]) for key in keys]

    def has_under(self, name: str, value: Hashable) -> bool:
        """Whether there are rows under `value`: most stores have none of one owner."""
        return value in self._indexes[name]

    # -- writing: the reflector's ---------------------------------------------

    def takes(self, key: Key, row: T) -> bool:
        """Whether a row is within the bound; counts it as left out where it is not."""
        if self.bound is None:
            return True
        old = self._rows.get(key)
        more = self._weight(row) - (self._weight(old) if old is not None else 0)
        fits = self.bytes + more <= self.bound.bytes and (
            old is not None or len(self._rows) < self.bound.objects
        )
        self.left_out += not fits
        return fits

    def put(self, key: Key, row: T, version: Version) -> T | None:
        """Sets a row; returns the one that was there."""
        self._own()
        old = self._rows.get(key)
        for index in self._indexes.values():
            if old is not None:
                index.remove(key, old)
            index.add(key, row)
        if self.bound is not None:
            self.bytes += self._weight(row) - (self._weight(old) if old is not None else 0)
        self._rows[key] = row
        if self._version_of is None:
            self._versions[key] = version
        return old

    def drop(self, key: Key) -> T | None:
        """Removes a row; returns it."""
        if key not in self._rows:
            return None
        self._own()
        old = self._rows.pop(key)
        if self.bound is not None:
            self.bytes -= self._weight(old)
        self._versions.pop(key, None)
        for index in self._indexes.values():
            index.remove(key, old)
        return old

    def listing(self) -> "Listing[T]":
        """An empty list of what this store shall hold."""
        return Listing(self._version_of, self.bound, self._weight, self._made_rows())

    def adopt(self, listed: "Listing[T]") -> bool:
        """Makes the rows of a whole list its own without a copy of each. Returns whether it did:
        only where it has none yet, and keeps each object of the list."""
        if self._rows or not listed.plain:
            return False
        self._rows, self._versions, self.bytes = listed.given_up()
        self._lent = False
        for name, index in list(self._indexes.items()):
            self.add_index(name, index.values)
        return True

    def mark_synced(self) -> None:
        """A whole list is in."""
        self.synced = True
        self._synced.set()

    def _own(self) -> None:
        if self._lent:
            lent, self._rows = self._rows, self._made_rows()
            self._rows.update(lent)
            self._lent = False


class Listing(Generic[T]):
    """A whole list while it is read. What a row says of itself is not kept beside it: a list may be
    very long, and what is made between rows that stay and goes again leaves holes in memory."""

    __slots__ = (
        "_added",
        "_bound",
        "_bytes",
        "_rows",
        "_version_of",
        "_versions",
        "_weight",
        "left_out",
    )

    def __init__(
        self,
        version_of: Callable[[T], Version] | None,
        bound: Bound | None,
        weight: Callable[[T], int],
        rows: MutableMapping[Key, T | None],
    ) -> None:
        self._version_of = version_of
        self._bound = bound
        self._weight = weight
        self._bytes = 0
        self._added = 0
        self.left_out = 0
        """Objects that are beyond the bound of the store."""
        self._rows = rows
        self._versions: dict[Key, Version] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def put(self, key: Key, row: T | None, version: Version) -> None:
        """Adds an object's row; None for an object that the store does not need."""
        self._rows[key] = row
        if row is None or self._version_of is None or self._version_of(row) != version:
            self._versions[key] = version
        elif self._versions:
            self._versions.pop(key, None)

    def add(self, key: Key, row: T | None, version: Version) -> None:
        """Adds the row of an object that the store does not have, as far as its bound allows. Of
        what the store does not need nothing is remembered then."""
        if self._bound is not None:
            if row is None:
                return
            weight = self._weight(row)
            if len(self._rows) >= self._bound.objects or self._bytes + weight > self._bound.bytes:
                self.left_out += 1
                return
            self._bytes += weight
        self._added += row is not None
        self.put(key, row, version)

    @property
    def plain(self) -> bool:
        """Whether it has nothing but new objects with a row, each of them once."""
        return self._added == len(self._rows)

    def given_up(self) -> tuple[MutableMapping[Key, T], dict[Key, Version], int]:
        """The rows, their versions where rows do not say them, and their weight: a list that is
        `plain` is no more afterwards."""
        rows: MutableMapping[Key, Any] = self._rows
        return rows, self._versions if self._version_of is None else {}, self._bytes

    def get(self, key: Key) -> tuple[Version, T | None]:
        row = self._rows[key]
        if row is None or self._version_of is None or key in self._versions:
            return self._versions[key], row
        return self._version_of(row), row


class _Index(Generic[T]):
    """Keys by the values that a function finds in a row."""

    __slots__ = ("_keys", "values")

    def __init__(self, values: Callable[[T], Iterable[Hashable]]) -> None:
        self.values = values
        self._keys: dict[Hashable, set[Key]] = {}

    def add(self, key: Key, row: T) -> None:
        for value in self.values(row):
            self._keys.setdefault(value, set()).add(key)

    def remove(self, key: Key, row: T) -> None:
        for value in self.values(row):
            keys = self._keys.get(value)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._keys[value]

    def __contains__(self, value: Hashable) -> bool:
        return value in self._keys

    def keys_of(self, value: Hashable) -> Collection[Key]:
        return self._keys.get(value, ())
