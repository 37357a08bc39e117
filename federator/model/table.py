"""A map of very many small rows that takes a fraction of the memory of a dict.

A hub keeps a dozen maps over a hundred thousand workloads. A dict takes 30 to 52 bytes for each of
its entries; a `Table` takes 10 to 20, for three times the time of a lookup. `Columns` may keep the
values in another form than as objects.
"""

from array import array
from collections.abc import ItemsView as Items
from collections.abc import Iterator, MutableMapping
from collections.abc import ValuesView as Values
from struct import Struct
from typing import Any, Final, Generic, Protocol, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
Default = TypeVar("Default")
Key_contra = TypeVar("Key_contra", contravariant=True)

_FREE: Final = -1
_GONE: Final = -2
_SMALLEST: Final = 8
_READ_MAX: Final = 16
"""A hub has several tables for each of a thousand members."""
_ABSENT: Final[Any] = object()
_RENUMBERED: Final = "table rebuilt during iteration"


class Columns(Protocol[K, V]):
    """Where a table keeps its values, by the number of the row."""

    def append(self, value: V) -> None: ...
    def set(self, row: int, value: V) -> None: ...
    def get(self, row: int, key: K) -> V: ...
    def clear(self, row: int) -> None:
        """Frees what the row refers to; its number is not used again before `keep`."""
        ...

    def keep(self, rows: list[int]) -> None:
        """Drops all rows but these, which rise, and numbers them anew."""
        ...

    def copy(self) -> "Columns[K, V]":
        """Columns of their own with the same rows."""
        ...


class Objects(Generic[V]):
    """Values as they are."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[V | None] = []

    def append(self, value: V) -> None:
        self._values.append(value)

    def set(self, row: int, value: V) -> None:
        self._values[row] = value

    def get(self, row: int, key: object) -> V:
        return self._values[row]  # type: ignore[return-value]

    def clear(self, row: int) -> None:
        self._values[row] = None

    def keep(self, rows: list[int]) -> None:
        self._values = [self._values[row] for row in rows]

    def copy(self) -> "Objects[V]":
        made: Objects[V] = Objects()
        made._values = self._values.copy()
        return made


class Nothing:
    """No values, for a table that is a set of keys."""

    __slots__ = ()

    def append(self, value: None) -> None: ...

    def set(self, row: int, value: None) -> None: ...

    def get(self, row: int, key: object) -> None: ...

    def clear(self, row: int) -> None: ...

    def keep(self, rows: list[int]) -> None: ...

    def copy(self) -> "Nothing":
        return self


class Numbers:
    """Whole numbers of 64 bits."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = array("q")

    def append(self, value: int) -> None:
        self._values.append(value)

    def set(self, row: int, value: int) -> None:
        self._values[row] = value

    def get(self, row: int, key: object) -> int:
        return self._values[row]

    def clear(self, row: int) -> None:
        """A number refers to nothing."""

    def keep(self, rows: list[int]) -> None:
        self._values = array("q", (self._values[row] for row in rows))

    def copy(self) -> "Numbers":
        made = Numbers()
        made._values = self._values[:]
        return made


class Packing(Protocol[Key_contra, V]):
    """How values are packed: figures of a fixed width, and objects that many values share."""

    layout: Struct
    shared: int
    """How many objects there are beside the figures."""

    def pack(self, value: V) -> tuple[bytes, tuple[Any, ...]] | None:
        """The figures by `layout`, and the shared objects; None for a value that does not fit and
        is kept as it is."""
        ...

    def unpack(self, key: Key_contra, figures: tuple[Any, ...], shared: list[Any]) -> V:
        """A value equal to the one that was packed."""
        ...


class Packed(Generic[K, V]):
    """Values as figures in one block of memory, beside references to what they share."""

    __slots__ = ("_figures", "_packing", "_read", "_rows", "_shared", "_whole", "_width")

    def __init__(self, packing: Packing[K, V]) -> None:
        self._packing = packing
        self._read: dict[int, V] = {}
        """The values that were read last, by row: a turn reads the same row several times."""
        self._whole: dict[int, V] = {}
        """By row, the few values that do not fit."""
        self._width = packing.layout.size
        self._rows = 0
        self._figures = bytearray()
        self._shared: list[list[Any]] = [[] for _ in range(packing.shared)]

    def append(self, value: V) -> None:
        figures, shared = self._packed(self._rows, value)
        self._rows += 1
        self._figures += figures
        for column, part in zip(self._shared, shared, strict=True):
            column.append(part)

    def set(self, row: int, value: V) -> None:
        self._read.pop(row, None)
        self._whole.pop(row, None)
        figures, shared = self._packed(row, value)
        at = row * self._width
        self._figures[at : at + self._width] = figures
        for column, part in zip(self._shared, shared, strict=True):
            column[row] = part

    def _packed(self, row: int, value: V) -> tuple[bytes, tuple[Any, ...]]:
        packed = self._packing.pack(value) if value is not None else None
        if packed is not None:
            return packed
        self._whole[row] = value
        return bytes(self._width), (None,) * self._packing.shared

    def get(self, row: int, key: K) -> V:
        read = self._read.get(row)
        if read is not None:
            return read
        if self._whole and row in self._whole:
            return self._whole[row]
        shared = [column[row] for column in self._shared]
        figures = self._packing.layout.unpack_from(self._figures, row * self._width)
        value = self._packing.unpack(key, figures, shared)
        if len(self._read) >= _READ_MAX:
            self._read.clear()
        self._read[row] = value
        return value

    def clear(self, row: int) -> None:
        self._read.pop(row, None)
        self._whole.pop(row, None)
        for column in self._shared:
            column[row] = None

    def keep(self, rows: list[int]) -> None:
        self._read.clear()
        if self._whole:
            whole = self._whole
            self._whole = {now: whole[row] for now, row in enumerate(rows) if row in whole}
        width, figures = self._width, memoryview(self._figures)
        self._figures = bytearray().join(figures[row * width : (row + 1) * width] for row in rows)
        self._shared = [[column[row] for row in rows] for column in self._shared]
        self._rows = len(rows)

    def copy(self) -> "Packed[K, V]":
        made = Packed(self._packing)
        made._rows = self._rows
        made._figures = self._figures[:]
        made._shared = [column.copy() for column in self._shared]
        made._whole = self._whole.copy()
        return made


class Hashes:
    """Packs hashes of sixteen hexadecimal digits."""

    layout = Struct("<8s")
    shared = 0

    def pack(self, value: str) -> tuple[bytes, tuple[Any, ...]] | None:
        try:
            packed = bytes.fromhex(value)
        except ValueError:
            return None
        return (packed, ()) if packed.hex() == value and len(packed) == 8 else None

    def unpack(self, key: object, figures: tuple[Any, ...], shared: list[Any]) -> str:
        packed: bytes = figures[0]
        return packed.hex()


class Table(MutableMapping[K, V]):
    """Like a dict, also in the order of its keys. While it is iterated, keys may be removed, and
    keys that are added may or may not be met. A change that numbers the rows again ends the
    iteration with a RuntimeError."""

    __slots__ = ("_columns", "_count", "_keys", "_size", "_slots")

    def __init__(self, columns: Columns[K, V] | None = None) -> None:
        self._columns: Columns[K, V] = Objects() if columns is None else columns
        self._keys: list[K | None] = []
        """By row; None for a row that is gone."""
        self._count = 0
        self._slots, self._size = _free(_SMALLEST), _SMALLEST
        """Rows by hash. Their number is no power of two: a table that grows by doubling has up to
        three times the slots that it needs."""

    def __getitem__(self, key: K) -> V:
        slots, keys = self._slots, self._keys  # as `get`
        at = hash(key) % self._size
        while (row := slots[at]) != _FREE:
            if row >= 0 and ((there := keys[row]) is key or there == key):
                return self._columns.get(row, key)
            at -= 1
        raise KeyError(key)

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | Default) -> V | Default: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        # as `_find`, without its call: nearly every read of the hub's memory is one of these
        slots, keys = self._slots, self._keys
        at = hash(key) % self._size
        while (row := slots[at]) != _FREE:
            if row >= 0 and ((there := keys[row]) is key or there == key):
                return self._columns.get(row, key)
            at -= 1  # below 0 it goes on from the end
        return default

    def __contains__(self, key: object) -> bool:
        return self._slots[self._find(key)] >= 0

    def __setitem__(self, key: K, value: V) -> None:
        # as `_find`, without its call
        slots, keys = self._slots, self._keys
        at = hash(key) % self._size
        while (row := slots[at]) != _FREE:
            if row >= 0 and ((there := keys[row]) is key or there == key):
                self._columns.set(row, value)
                return
            at -= 1
        if 4 * len(keys) >= 3 * self._size:
            self._rebuild()
            at, slots, keys = self._find(key), self._slots, self._keys
        self._columns.append(value)
        slots[at] = len(keys)
        keys.append(key)
        self._count += 1

    def __delitem__(self, key: K) -> None:
        at = self._find(key)
        row = self._slots[at]
        if row < 0:
            raise KeyError(key)
        self._slots[at] = _GONE
        self._keys[row] = None
        self._columns.clear(row)
        self._count -= 1

    def pop(self, key: K, default: Any = _ABSENT) -> Any:
        value = self.get(key, _ABSENT)
        if value is not _ABSENT:
            del self[key]
            return value
        if default is _ABSENT:
            raise KeyError(key)
        return default

    def __len__(self) -> int:
        return self._count

    def clear(self) -> None:
        self._columns.keep([])
        self._keys = []
        self._count = 0
        self._slots, self._size = _free(_SMALLEST), _SMALLEST

    def __iter__(self) -> Iterator[K]:
        keys = self._keys
        for key in keys:
            if key is not None:
                yield key
                if self._keys is not keys:
                    raise RuntimeError(_RENUMBERED)

    def listed(self) -> list[K]:
        """The keys at this moment, faster than they are iterated."""
        return [key for key in self._keys if key is not None]

    def values(self) -> Values[V]:
        return _Values(self)

    def items(self) -> Items[K, V]:
        return _Items(self)

    def rows(self) -> Iterator[tuple[K, V]]:
        """Keys and values, without a lookup of each key."""
        keys = self._keys
        for row, key in enumerate(keys):
            if key is not None:
                yield key, self._columns.get(row, key)
                if self._keys is not keys:
                    raise RuntimeError(_RENUMBERED)

    def copy(self) -> "Table[K, V]":
        """A table of its own with the same rows."""
        made = Table(self._columns.copy())
        made._keys, made._count = self._keys.copy(), self._count
        made._slots, made._size = self._slots[:], self._size
        return made

    def _find(self, key: object) -> int:
        """The slot of this key or, where it has none, a free one."""
        slots, keys = self._slots, self._keys
        at = hash(key) % self._size
        while (row := slots[at]) != _FREE:
            if row >= 0 and ((there := keys[row]) is key or there == key):
                return at
            at -= 1
        return at

    def _rebuild(self) -> None:
        """Makes room for as many rows again, and drops those that are gone."""
        if self._count < len(self._keys):
            rows = [row for row, key in enumerate(self._keys) if key is not None]
            self._columns.keep(rows)
            self._keys = [self._keys[row] for row in rows]
        size = max(_SMALLEST, 2 * self._count | 1)
        slots = self._slots = _free(size)
        self._size = size
        for row, key in enumerate(self._keys):
            at = hash(key) % size
            while slots[at] != _FREE:
                at -= 1
            slots[at] = row


class _Values(Values[V]):
    __slots__ = ()
    _mapping: Table[Any, V]

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in self._mapping.rows())


class _Items(Items[K, V]):
    __slots__ = ()
    _mapping: Table[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._mapping.rows()


def _free(size: int) -> "array[int]":
    return array("i", (_FREE,)) * size
