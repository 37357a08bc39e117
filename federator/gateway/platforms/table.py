"""The platforms as a table: a new one is a module and one row here
(docs/internals/adding-a-platform.md).

Workflow files, searches, answers and the OpenAPI document follow the kinds of the rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from federator.gateway.platforms import kinds
from federator.gateway.platforms.kinds import SubmittedKind

if TYPE_CHECKING:
    from federator.gateway.platforms.platform import Parts, Platform


@dataclass(frozen=True, slots=True)
class Row:
    """One platform."""

    name: str
    """As answers, problems and the audit name it."""
    kinds: tuple[SubmittedKind, ...]
    """What it runs. No other row has a kind of the same name."""
    build: "Callable[[Parts], Platform]"


class Table:
    """Rows in the order in which people are shown them. Raises ValueError where two have a name or
    a kind in common: the kind of an object says where it runs, and submissions list their objects
    as KIND/NAME."""

    def __init__(self, *rows: Row) -> None:
        known: dict[str, Row] = {}
        listed: dict[str, SubmittedKind] = {}
        names: set[str] = set()
        for row in rows:
            if row.name in names:
                raise ValueError(f"two platforms are called {row.name}")
            if not row.kinds:
                raise ValueError(f"the platform {row.name} runs no kind")
            names.add(row.name)
            for each in row.kinds:
                if each.kind in known:
                    other = known[each.kind].name
                    raise ValueError(f"{each.kind} is a kind of two platforms: {other}, {row.name}")
                known[each.kind], listed[each.kind] = row, each
        self.rows: Final = rows
        self.kinds: Final[Mapping[str, SubmittedKind]] = MappingProxyType(listed)
        """The kinds of all rows: what a workflow may hold."""
        self.described: Final = tuple(
            (row.name, tuple((each.api_version, each.kind) for each in row.kinds)) for row in rows
        )
        """As `openapi` writes it."""
        self._known = known

    def name_of(self, kind: str) -> str:
        """The platform that runs a kind; "" for a kind that none runs."""
        row = self._known.get(kind)
        return row.name if row is not None else ""


def _federation(parts: "Parts") -> "Platform":
    # Commands read workflow files without a gateway, in half the time.
    from federator.gateway.platforms.federation import Federation

    return Federation(parts)


PLATFORMS: Final = Table(Row("federation", kinds.OF_THE_FEDERATION, _federation))
