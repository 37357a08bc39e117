"""Resource vectors in exact integers.

`cpu` is in milli-cores, everything else in its base unit (memory and ephemeral-storage in bytes,
pods and extended resources such as nvidia.com/gpu in counts). An absent name is zero. All
arithmetic of capacity and quota uses this class.
"""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Final

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
GPU: Final = "nvidia.com/gpu"

UNLIMITED: Final = 1 << 62
"""Result of `fits` for an ask that needs nothing: more copies than anything can hold."""


class Resources(Mapping[str, int]):
    """An immutable vector name -> amount. Zeros are dropped, so equal vectors compare and hash
    equal."""

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        items = amounts.items() if isinstance(amounts, dict | Mapping) else amounts
        self._amounts: dict[str, int] = {name: amount for name, amount in sorted(items) if amount}
        self._hash: int | None = None

    @classmethod
    def _of(cls, amounts: dict[str, int]) -> "Resources":
        """Of amounts that are sorted by name and have no zero."""
        made = cls.__new__(cls)
        made._amounts, made._hash = amounts, None
        return made

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def get(self, name: str, default: int = 0) -> int:  # type: ignore[override]
        return self._amounts.get(name, default)

    def keys(self) -> KeysView[str]:
        return self._amounts.keys()

    def values(self) -> ValuesView[int]:
        return self._amounts.values()

    def items(self) -> ItemsView[str, int]:
        return self._amounts.items()

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resources):
            return self._amounts == other._amounts
        return NotImplemented

    def __repr__(self) -> str:
        return f"Resources({self._amounts})"

    def __add__(self, other: "Resources") -> "Resources":
        if not self._amounts or not other._amounts:
            return self if self._amounts else other
        total = self._amounts.copy()
        for name, amount in other._amounts.items():
            total[name] = total.get(name, 0) + amount
        return self._like(total)

    def __sub__(self, other: "Resources") -> "Resources":
        """May be negative; use `at_least_zero` for a floor."""
        total = self._amounts.copy()
        for name, amount in other._amounts.items():
            total[name] = total.get(name, 0) - amount
        return self._like(total)

    def _like(self, total: dict[str, int]) -> "Resources":
        """Of amounts that begin with the names of this vector; names that are new stand behind."""
        if len(total) == len(self._amounts) and all(total.values()):
            return self._of(total)
        return Resources(total)

    def __mul__(self, copies: int) -> "Resources":
        if copies == 1:
            return self
        if not copies:
            return ZERO
        return self._of({name: amount * copies for name, amount in self._amounts.items()})

    def at_least_zero(self) -> "Resources":
        return Resources({name: max(amount, 0) for name, amount in self._amounts.items()})

    def upper(self, other: "Resources") -> "Resources":
        """The larger amount of both, by name (how init containers combine with the others)."""
        names = self._amounts.keys() | other._amounts.keys()
        return Resources({name: max(self[name], other[name]) for name in names})

    def scaled(self, permille: int) -> "Resources":
        """This many thousandths, rounded down."""
        return Resources(
            {name: amount * permille // 1000 for name, amount in self._amounts.items()}
        )

    def within(self, limit: "Resources") -> bool:
        """Whether no amount exceeds the limit's; a name absent from the limit is zero there."""
        if self is limit:
            return True
        return all(amount <= limit[name] for name, amount in self._amounts.items())

    def fits(self, ask: "Resources") -> int:
        """How many whole copies of `ask` this vector holds; `UNLIMITED` when the ask needs
        nothing."""
        copies = UNLIMITED
        for name, need in ask._amounts.items():
            if need > 0:
                copies = min(copies, max(self[name], 0) // need)
        return copies


ZERO: Final = Resources()

_IN: Final = " in "


def cell(resource: str, domain: str) -> str:
    """The name of what a limit of a domain of clusters is about; without a domain the resource's
    own: limits over all clusters."""
    return f"{resource}{_IN}{domain}" if domain else resource


def resource_of(name: str) -> str:
    return name.partition(_IN)[0]


def domain_of(name: str) -> str:
    """The domain of a cell; "" for a resource over all clusters."""
    return name.partition(_IN)[2]


def total(parts: Iterable[Resources]) -> Resources:
    """The sum of some vectors."""
    return sum(parts, ZERO)
