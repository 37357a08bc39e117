"""What the status of a slice says of its native objects: figures and health, read from their rows.

Pure. Called by the roll-up.
"""

from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.common import NATIVES_MAX, SHORT_MAX
from federator.kinds.pods import podparts
from federator.member.cache.rows import NativeRow, SliceRow
from federator.model.ask import Unit
from federator.model.observation import BlockFigures, NodeFigures
from federator.model.shards import Range
from federator.status import health

PROGRESS: Final = frozenset({"NotObserved", "RollingOut", "NotAvailable"})
"""What health says while things simply take their time: no reason for anybody to act."""


def of_replicas(row: SliceRow, natives: list[NativeRow]) -> dict[str, Any]:
    """Of a slice with copies, or with one on every node."""
    return on_nodes(natives) if row.verbs.every_node else copies(row, natives)


def copies(row: SliceRow, natives: list[NativeRow]) -> dict[str, Any]:
    """Copies, as the slice's Deployment or its StatefulSets count them."""
    obj = row.obj()
    desired = row.verbs.count(obj)
    own = [native.status for native in natives if native.key[0] in ("Deployment", "StatefulSet")]
    if row.verbs.bounds is not None and (bounds := row.verbs.bounds(obj)) is not None:
        chosen = [native.spec for native in natives if native.key[0] == "Deployment"]
        desired = sum(raw.integer(spec, "replicas") for spec in chosen) if chosen else bounds[0]
    ready = sum(raw.integer(status, "readyReplicas") for status in own)
    updated = sum(raw.integer(status, "updatedReplicas") for status in own)
    return {
        "desired": desired,
        "ready": ready,
        "updated": updated,
        "actual": sum(raw.integer(status, "replicas") for status in own),
        "enough": ready >= desired and updated >= desired,
    }


def blocks(named: Mapping[str, Range], natives: list[NativeRow]) -> tuple[BlockFigures, ...]:
    """Each block of the slice, as its StatefulSet counts it."""
    own = {native.key[2]: native.status for native in natives if native.key[0] == "StatefulSet"}
    return tuple(
        BlockFigures(
            low,
            high,
            ready=raw.figure(status, "readyReplicas"),
            updated=raw.figure(status, "updatedReplicas"),
            actual=raw.figure(status, "replicas"),
        )
        for name, (low, high) in named.items()
        for status in (own.get(name, raw.NO_FIELDS),)
    )


def on_nodes(natives: list[NativeRow]) -> dict[str, Any]:
    """A daemon, as its DaemonSet counts nodes. The cluster is one copy: there once nodes are
    counted, ready when all have it."""
    own = [native.status for native in natives if native.key[0] == "DaemonSet"]
    figures = NodeFigures(
        desired=sum(raw.figure(status, "desiredNumberScheduled") for status in own),
        current=sum(raw.figure(status, "currentNumberScheduled") for status in own),
        ready=sum(raw.figure(status, "numberReady") for status in own),
        updated=sum(raw.figure(status, "updatedNumberScheduled") for status in own),
    )
    observed = any("observedGeneration" in status for status in own)
    ready, updated = (
        observed and figure >= figures.desired for figure in (figures.ready, figures.updated)
    )
    return {
        "desired": 1,
        "ready": int(ready),
        "updated": int(updated),
        "actual": int(observed),
        "nodes": figures,
        "enough": ready and updated,
        "lacks": f"{figures.ready} of {figures.desired} nodes are ready.",
    }


def rollout(
    row: SliceRow, natives: list[NativeRow], live: Mapping[str, Any], observed: bool
) -> dict[str, Any]:
    """Which template `updated` counts, and whether its roll-out was given up. Until the present one
    has reached the Deployment, and its controller, the figure still is of the one before."""
    if row.verbs.unit is Unit.SHARDS:
        return {}
    late = any(
        health.deadline_exceeded(native.as_object())
        for native in natives
        if native.key[0] == "Deployment"
    )
    if observed:
        return {"template": podparts.digest(row.obj()), "stalled": late}
    return {"template": raw.word(live, "template")}


def acted_on(natives: list[NativeRow]) -> bool:
    """Whether the member's own controllers have seen what was written for them."""
    return all(
        raw.integer(native.status, "observedGeneration") >= native.generation
        for native in natives
        if native.key[0] in ("Deployment", "DaemonSet", "StatefulSet")
    )


def native_health(natives: list[NativeRow]) -> tuple[str, str, bool]:
    """(reason, message, all well): a reason only where waiting is not simply part of it."""
    reason, message, well = "", "", True
    for native in natives:
        judged = health.of(native.as_object())
        well = well and judged.healthy
        if not judged.healthy and judged.reason not in PROGRESS and not reason:
            reason, message = judged.reason, judged.message
    return reason, message, well


def natives(natives: list[NativeRow]) -> list[dict[str, str]]:
    """What the slice was expanded to, and how each is: those that are not well first, then by kind
    and name. What another one of them has made names it as its owner."""
    made = {native.uid: f"{native.key[0]}/{native.key[2]}" for native in natives}
    shown = []
    for native in natives:
        judged = health.of(native.as_object())
        waits = judged.reason in PROGRESS
        state = "Healthy" if judged.healthy else "Progressing" if waits else "Degraded"
        row = {"kind": native.key[0], "name": native.key[2], "health": state}
        owner = made.get(native.owner_uid, "")[:SHORT_MAX]
        shown.append(row | raw.present({"reason": judged.reason[:SHORT_MAX], "owner": owner}))
    shown.sort(key=lambda row: (row["health"] == "Healthy", row["kind"], row["name"]))
    return shown[:NATIVES_MAX]
