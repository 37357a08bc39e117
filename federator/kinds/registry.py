"""Every kind the federation knows, by name. A new workload kind is a folder of its own and one name
here.

Read by the CRD generator, the command line, hub and member.
"""

from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.kinds import (
    cronjob,
    daemon,
    deployment,
    federation,
    jobset,
    nativecron,
    service,
    statefulset,
    training,
)
from federator.kinds.kind import Kind
from federator.kinds.natives import NATIVES, OF_OPERATORS, POD_GROUP, qualified
from federator.kinds.verbs import WorkloadVerbs
from federator.model import names
from federator.model.names import WorkloadKey

_FOLDERS: Final = (service, jobset, daemon, statefulset, training, nativecron, deployment)
"""In the order in which people are shown them."""

WORKLOADS: Final[Mapping[str, Kind]] = {folder.KIND.kind: folder.KIND for folder in _FOLDERS}
EXPANDED: Final = tuple(
    row for row in WORKLOADS.values() if row.verbs is not None and not row.verbs.carried
)
"""The workload kinds with slices that a member turns into native objects."""
APIS: Final[Mapping[str, tuple[str, str]]] = {
    **{row.qualified: (row.api_version, row.kind) for row in WORKLOADS.values()},
    **{qualified(kind): (NATIVES[kind].api_version, kind) for kind in (*OF_OPERATORS, POD_GROUP)},
}
"""What clusters serve that matters to placement, as `Kind.group` -> (apiVersion, kind): workload
kinds, those of operators that workloads can become, and what makes gangs safe."""
RECURRING: Final[Mapping[str, Kind]] = {folder.KIND.kind: folder.KIND for folder in (cronjob,)}
"""Kinds that make workloads on the host again and again; they are never placed themselves."""
KINDS: Final[Mapping[str, Kind]] = {
    **WORKLOADS,
    **RECURRING,
    **{row.kind: row for row in federation.KINDS},
}


def kind_of(obj: Mapping[str, Any]) -> Kind | None:
    """The row of this object, by its apiVersion and kind; None for a kind we do not know."""
    row = KINDS.get(raw.text(obj, "kind"))
    return row if row is not None and row.api_version == raw.text(obj, "apiVersion") else None


def verbs_of(kind: str) -> WorkloadVerbs:
    """The verbs of a workload kind. KeyError for any other."""
    verbs = KINDS[kind].verbs
    if verbs is None:
        raise KeyError(f"{kind} is not a workload kind")
    return verbs


def key_of(obj: Mapping[str, Any]) -> WorkloadKey:
    return names.key(
        raw.text(obj, "kind"),
        raw.text(obj, "metadata", "namespace"),
        raw.text(obj, "metadata", "name"),
    )
