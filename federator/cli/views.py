"""Tables of the federated view: the printer columns of our kinds, rendered here, so that get and
watch look alike.

Rows are made from the host's objects; problems in members show up in the conditions of those.
"""

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from federator.cli import common, kindtable
from federator.cli.kindtable import Column, Shown
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.kinds.kind import Kind
    from federator.kube.client import Client

_SHORT: Final = [kind.short_names[0] for kind in kindtable.TABLE.values() if kind.placed]
WORKLOADS: Final = " or ".join(filter(None, (", ".join(_SHORT[:-1]), *_SHORT[-1:])))
"""The short names of the workload kinds, for sentences: `psvc, pjs or deploy`."""

ALIASES: Mapping[str, str] = {
    name: kind.kind
    for kind in kindtable.TABLE.values()
    for name in (kind.plural, kind.singular, kind.kind.lower(), *kind.short_names)
} | {
    "clusters": "MemberCluster",
    "cluster": "MemberCluster",
    "decisions": "PlacementDecision",
    "decision": "PlacementDecision",
    "policies": "PlacementPolicy",
    "policy": "PlacementPolicy",
    "quotas": "FederatedQuota",
    "quota": "FederatedQuota",
    "invariants": "PlacementInvariant",
    "invariant": "PlacementInvariant",
}
"""Name on the command line, in lower case -> kind."""


STATUS: Final = ".status.summary"
"""The path of the column that says in a line how an object stands."""
DESIRED: Final = "Desired"
"""The column of the count that a workload asks for."""


def kind_named(text: str) -> "Kind":
    """The kind of a plural, singular or short name. Exits with an error for an unknown name."""
    from federator.kinds import registry

    return registry.KINDS[shown_named(text).kind]


def shown_named(text: str) -> Shown:
    """As `kind_named`, for those that only look at objects."""
    kind = ALIASES.get(text.lower())
    if kind is None:
        common.fail(
            f"there is no kind {text!r}; try {WORKLOADS}, or clusters, decisions, policies,"
            " quotas or invariants"
        )
    return kindtable.TABLE[kind]


def columns(kind: Shown, *, wide: bool) -> list[Column]:
    return [column for column in kind.columns if wide or not column.wide]


def headers(kind: Shown, *, wide: bool = False, with_namespace: bool = False) -> list[str]:
    titles = ["NAME", *(column.name.upper() for column in columns(kind, wide=wide))]
    return ["NAMESPACE", *titles] if with_namespace and kind.namespaced else titles


def row(
    kind: Shown,
    obj: Mapping[str, Any],
    *,
    wide: bool = False,
    with_namespace: bool = False,
    halted: str = "",
) -> list[str]:
    """The cells of one object. `halted`: why no hub acts on specs now; then a workload shows the
    count of its spec, and this before what was last reported."""
    meta, shown = obj["metadata"], columns(kind, wide=wide)
    cells = [meta["name"], *(cell(column, obj) for column in shown)]
    if halted and kind.placed:
        cells[1:] = [
            _halted(kind, column, obj, text, halted)
            for column, text in zip(shown, cells[1:], strict=True)
        ]
    return [meta.get("namespace", ""), *cells] if with_namespace and kind.namespaced else cells


def _halted(kind: Shown, column: Column, obj: Mapping[str, Any], text: str, halted: str) -> str:
    """A cell of a workload while no hub acts on specs."""
    from federator.kinds import registry

    if column.json_path == STATUS:
        return plaintext.clipped(f"{halted}; {text}", plaintext.STATUS_MAX) if text else halted
    verbs = registry.verbs_of(kind.kind)
    scaled = verbs.bounds is not None and verbs.bounds(obj) is not None
    if column.name == DESIRED and not verbs.every_node and not scaled:
        return str(verbs.count(obj))
    return text


def cell(column: Column, obj: Mapping[str, Any]) -> str:
    """The value of one column, formatted as by the API server; "" where it is missing."""
    value = _value(column.json_path, obj)
    if value is None:
        return ""
    if column.type == "date":
        return common.age(str(value), time.time())
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def steps(path: str) -> tuple[str, ...]:
    """The names of a column's path up to the list of which it selects an entry, or to its end."""
    names: list[str] = []
    for name, key, _ in _STEP.findall(path):
        names.append(name)
        if key:
            break
    return tuple(names)


_STEP: Final = re.compile(r'\.(\w+)(?:\[\?\(@\.(\w+)=="(\w+)"\)\])?')


def _value(path: str, obj: Any) -> Any:
    """The value at a column's path: names joined by dots, one of which may select an entry of a
    list (`conditions[?(@.type=="Ready")]`). None where it is missing."""
    value = obj
    for name, key, selected in _STEP.findall(path):
        value = value.get(name) if isinstance(value, Mapping) else None
        if key:
            value = next((entry for entry in value or () if entry.get(key) == selected), None)
    return value


def text(
    kind: Shown,
    objs: Sequence[Mapping[str, Any]],
    *,
    wide: bool,
    with_namespace: bool,
    no_headers: bool,
) -> str:
    rows = [row(kind, obj, wide=wide, with_namespace=with_namespace) for obj in objs]
    return common.table(
        headers(kind, wide=wide, with_namespace=with_namespace), rows, no_headers=no_headers
    )


async def table_of(
    client: "Client", kind_name: str, *, all_namespaces: bool = False, namespace: str = ""
) -> str:
    """The table of one kind, read from the host; "" when there are no objects."""
    kind = kindtable.TABLE[kind_name]
    listing = await client.list(kind.api_version, kind.plural, "" if all_namespaces else namespace)
    if not listing.items:
        return ""
    return text(kind, listing.items, wide=False, with_namespace=all_namespaces, no_headers=False)
