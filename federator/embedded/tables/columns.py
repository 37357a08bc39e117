"""The Tables of builtin resources, as the printers of Kubernetes 1.37 define them: `LAYOUTS` maps
(group, plural) to the columns and to the function that makes one row's cells.

A layout is a text of `facts`, `|` between columns. After a name: `+` for wide only, `#` an integer,
`?` a boolean, `@` a date; then, after `=`, the field that the cell shows, and after `:` what stands
for an absent one (else 0 of an integer, False of a boolean, empty of the rest). Cells of no field
come from the functions of `cluster_rows` and `workload_rows`, by the name of the column; names,
ages, containers and selectors are the same in all.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from federator.embedded.schema import facts
from federator.embedded.storage.resources import Column
from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import cluster_rows, pod_rows, rowcells, workload_rows

Cells = Callable[[JsonObject, float], list[Any]]
"""(object, epoch seconds now) -> the cells of its row."""
Own = Callable[[JsonObject, float], Mapping[str, Any]]
"""(object, epoch seconds now) -> cells by the name of the column."""


_TYPES: Final = {"#": "integer", "?": "boolean", "@": "date"}
_ABSENT: Final[Mapping[str, Any]] = {"integer": 0, "boolean": False, "string": "", "date": None}
_COLUMN: Final = re.compile(
    r"(?P<name>[^=+#?@]+)(?P<marks>[+#?@]*)(=(?P<path>[^:]+)(:(?P<absent>.*))?)?"
)
_Cell = Callable[[JsonObject, float], Any]
_SHARED: Final[Mapping[str, _Cell]] = {
    "Name": lambda obj, now: rowcells.name_of(obj),
    "Age": rowcells.age_of,
    "Containers": lambda obj, now: rowcells.containers_of(obj, "name"),
    "Images": lambda obj, now: rowcells.containers_of(obj, "image"),
    "Selector": lambda obj, now: rowcells.selector_text(rowcells.job_of(obj).get("selector")),
}


def _read(text: str) -> tuple[Column, _Cell | None]:
    """One column of a layout, and how its cell is made, where that takes no function of its own."""
    match = _COLUMN.fullmatch(text)
    assert match is not None, text
    name, marks = match["name"], match["marks"]
    kind = next((_TYPES[mark] for mark in marks if mark in _TYPES), "string")
    column = Column(name, kind, "name" if name == "Name" else "", priority=int("+" in marks))
    if match["path"] is None:
        return column, _SHARED.get(name)
    path, absent = match["path"].split("."), match["absent"] or _ABSENT[kind]
    return column, lambda obj, now: rowcells.at(obj, path, absent)


def _layout(text: str, own: Own) -> tuple[tuple[Column, ...], Cells]:
    columns = [_read(part) for part in text.split("|")]

    def cells(obj: JsonObject, now: float) -> list[Any]:
        given = own(obj, now)
        return [
            cell(obj, now) if cell is not None and column.name not in given else given[column.name]
            for column, cell in columns
        ]

    return tuple(column for column, _ in columns), cells


_OWN: Final[Mapping[str, Own]] = {
    "pods": pod_rows.cells,
    "nodes": cluster_rows.node,
    "services": cluster_rows.service,
    "endpoints": cluster_rows.endpoints,
    "events": cluster_rows.event,
    "configmaps": cluster_rows.data,
    "secrets": cluster_rows.data,
    "persistentvolumeclaims": workload_rows.claim,
    "persistentvolumes": cluster_rows.volume,
    "resourcequotas": workload_rows.quota,
    "podtemplates": cluster_rows.pod_template,
    "deployments": workload_rows.deployment,
    "statefulsets": workload_rows.stateful_set,
    "daemonsets": workload_rows.daemon_set,
    "controllerrevisions": cluster_rows.controller_revision,
    "jobs": workload_rows.job,
    "cronjobs": workload_rows.cron_job,
    "ingresses": cluster_rows.ingress,
    "ingressclasses": cluster_rows.ingress_class,
    "networkpolicies": cluster_rows.network_policy,
    "endpointslices": cluster_rows.endpoint_slice,
    "poddisruptionbudgets": workload_rows.disruption_budget,
    "horizontalpodautoscalers": workload_rows.autoscaler,
    "rolebindings": cluster_rows.binding,
    "clusterrolebindings": cluster_rows.binding,
    "validatingadmissionpolicies": cluster_rows.admission_policy,
    "validatingadmissionpolicybindings": cluster_rows.admission_binding,
    "mutatingwebhookconfigurations": cluster_rows.webhooks,
    "validatingwebhookconfigurations": cluster_rows.webhooks,
    "customresourcedefinitions": cluster_rows.definition,
    "storageclasses": cluster_rows.storage_class,
}
"""By plural: the cells that take more than a look at a field."""

LAYOUTS: Final[Mapping[tuple[str, str], tuple[tuple[Column, ...], Cells]]] = {
    key: _layout(text, _OWN.get(key[1], lambda obj, now: {}))
    for key, text in facts.by_resource("tables").items()
}
