"""Pods and logs of one workload out of many clusters: asked side by side, bounded, and in part
where some are away.

Used by the query port with the hub's connections, and by the command line with a person's own. A
cluster that cannot be asked or does not answer in time costs the others nothing: it gets a row that
says why.
"""

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from federator.api import raw
from federator.api.common import NATIVES_MAX
from federator.hub.query import selection as selections
from federator.hub.query.selection import Selection
from federator.kinds import registry
from federator.kinds.pods import supporting
from federator.kube import errors
from federator.kube.client import Client
from federator.model import plaintext
from federator.model.shards import Ranges
from federator.status import health

T = TypeVar("T")
PAGE = 250
"""Pods in one page: decoding it takes about a millisecond."""
OBJECTS = 100
"""Whole pods in one page."""
RUNTIMES_MAX = 500
"""Of one cluster, the runtimes of so many pods are looked at: whole pods, with their specs."""
PAGE_BYTES_MAX = 4 * 1024 * 1024
"""A server that does not keep to pages is not read: decoding would hold the event loop."""
SLACK_BYTES = 4096
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
"""The member's own server makes the columns that its kubectl would print."""
NATIVE_FIELDS = ("kind", "name", "health", "reason", "owner")
WHY_MAX = 200
"""Characters of a member's sentence on why there is no log."""


@dataclass(frozen=True, slots=True)
class Target:
    """One cluster that has, or may have, a part of the workload."""

    cluster: str
    client: Client | None = None
    away: str = ""
    """Why it is not asked; "" when it is."""
    pieces: Ranges = ()
    """The shards it was given."""
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4), compare=False)
    """Bounds what is asked of it at once."""


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which pods, and how much of them."""

    pod: str = ""
    shard: int | None = None
    container: str = ""
    tail: int = 10
    """Lines from the end of each log."""
    since_seconds: int = 0
    """Not older than so many seconds; 0 for no bound."""
    timestamps: bool = False
    previous: bool = False
    pods_max: int = 10_000
    log_pods_max: int = 20
    log_bytes_max: int = 2_000_000
    timeout_s: float = 8.0


async def pods(
    targets: Sequence[Target], selection: Selection, wanted: LogSelection
) -> dict[str, Any]:
    """The pods of all targets, and how each target answered."""
    each = max(1, wanted.pods_max // max(1, len(targets)))
    pods, clusters = await _from_each(
        targets, wanted, lambda target: _pods_of(target, selection, wanted, each)
    )
    return {"pods": [{"cluster": cluster, **row} for cluster, row in pods], "clusters": clusters}


async def logs(
    targets: Sequence[Target], selection: Selection, wanted: LogSelection
) -> dict[str, Any]:
    """The ends of the logs of the chosen pods, one entry for each, and how each target answered. No
    more pods are looked for than can be shown: `leftOut` counts those that were found besides."""
    most = wanted.log_pods_max
    rows, clusters = await _from_each(
        targets, wanted, lambda target: _pods_of(target, selection, wanted, most)
    )
    rows = _in_turns(rows)
    chosen, left = rows[:most], rows[most:]
    by_cluster = {target.cluster: target for target in targets}
    each = max(1024, wanted.log_bytes_max // max(1, len(chosen)))
    entries = await asyncio.gather(
        *(_log_of(by_cluster[cluster], selection, row, wanted, each) for cluster, row in chosen)
    )
    return {"logs": list(entries), "clusters": clusters, "leftOut": len(left)}


async def natives(
    targets: Sequence[Target], selection: Selection, wanted: LogSelection
) -> dict[str, Any]:
    """What the workload's slices were expanded to in each target, and how each target answered."""
    natives, clusters = await _from_each(
        targets, wanted, lambda target: _natives_of(target, selection, wanted)
    )
    return {
        "natives": [{"cluster": cluster, **row} for cluster, row in natives],
        "clusters": clusters,
    }


async def runtimes(
    targets: Sequence[Target], selection: Selection, wanted: LogSelection
) -> dict[str, Any]:
    """What the runtimes of the pods have, cluster by cluster, and some of the pods by name."""
    pods, clusters = await _from_each(
        targets, wanted, lambda target: _runtimes_of(target, selection, wanted)
    )
    by_cluster: dict[str, list[dict[str, Any]]] = {}
    for cluster, row in pods:
        by_cluster.setdefault(cluster, []).append(row)
    rows = supporting.shown(pods)
    return {
        "facts": next((row["facts"] for _, row in pods if row["facts"]), {}),
        "clusters": [
            {**entry, **supporting.counted(by_cluster.get(str(entry["cluster"]), []))}
            for entry in clusters
        ],
        "pods": rows,
        "leftOut": len(pods) - len(rows),
    }


async def _runtimes_of(
    target: Target, selection: Selection, wanted: LogSelection
) -> tuple[list[dict[str, Any]], bool]:
    assert target.client is not None
    lookup = registry.verbs_of(selection.kind).lookup
    belongs = functools.partial(lookup.made_for, selection.name)
    path = f"/api/v1/namespaces/{quote(selection.namespace, safe='')}/pods"
    rows: list[dict[str, Any]] = []
    token = ""
    limit = OBJECTS
    while True:
        query = [("labelSelector", selection.labels), ("limit", str(limit))]
        query += [("continue", token)] if token else []
        try:
            body = await target.client.raw(
                "GET", path, tuple(query), timeout_s=wanted.timeout_s, body_limit=PAGE_BYTES_MAX
            )
        except errors.Malformed:  # whole pods may be large: fewer of them fit
            if limit == 1:
                raise
            limit = max(1, limit // 5)
            continue
        page = supporting.pods(body)
        rows += supporting.rows(page, belongs)
        more = page.metadata.continue_
        if len(rows) > RUNTIMES_MAX or not more or more == token:
            rows.sort(key=lambda row: str(row["name"]))
            return rows[:RUNTIMES_MAX], len(rows) > RUNTIMES_MAX
        token = more


async def _natives_of(
    target: Target, selection: Selection, wanted: LogSelection
) -> tuple[list[dict[str, Any]], bool]:
    """By the status of the slice in one cluster; a carried native kind is its own native. None
    where another workload of this name holds the place."""
    assert target.client is not None
    kind = registry.KINDS[selection.kind]
    obj = await target.client.get(
        kind.ref(selection.namespace, selection.name), timeout_s=wanted.timeout_s
    )
    mark = registry.verbs_of(selection.kind).read_mark(obj)
    if mark is None or mark.workload_uid != selection.uid:
        return [], False
    listed = raw.objects(obj, "status", "natives")
    if kind.model is None:
        judged = health.of(obj)
        state = "Healthy" if judged.healthy else "Degraded"
        listed = [
            {
                "kind": selection.kind,
                "name": selection.name,
                "health": state,
                "reason": judged.reason,
            }
        ]
    rows = [
        {
            field: selections.text(raw.text(row, field))
            for field in NATIVE_FIELDS
            if field != "owner" or field in row
        }
        for row in listed
    ]
    return rows[:NATIVES_MAX], len(rows) > NATIVES_MAX


def _in_turns(rows: Sequence[tuple[str, T]]) -> list[tuple[str, T]]:
    """The rows with the first of every cluster first, then the second of each: where not all are
    shown, every cluster is."""
    turns: Counter[str] = Counter()
    placed: list[tuple[int, int, str, T]] = []
    for cluster, row in rows:
        placed.append((turns[cluster], len(placed), cluster, row))
        turns[cluster] += 1
    return [(cluster, row) for _, _, cluster, row in sorted(placed, key=lambda place: place[:2])]


async def _from_each(
    targets: Sequence[Target],
    wanted: LogSelection,
    ask: Callable[[Target], Awaitable[tuple[list[T], bool]]],
) -> tuple[list[tuple[str, T]], list[dict[str, Any]]]:
    """(cluster, row) of every target in order, and one entry for each target: answered or why
    not."""
    answers = await asyncio.gather(*(_within(target, wanted.timeout_s, ask) for target in targets))
    rows: list[tuple[str, T]] = []
    clusters: list[dict[str, Any]] = []
    for target, answer in zip(targets, answers, strict=True):
        if isinstance(answer, str):
            clusters.append({"cluster": target.cluster, "answered": False, "reason": answer})
            continue
        some, more = answer
        rows += [(target.cluster, row) for row in some]
        clusters.append(
            {"cluster": target.cluster, "answered": True, "pods": len(some), "more": more}
        )
    return rows, clusters


async def _within(
    target: Target, timeout_s: float, ask: Callable[[Target], Awaitable[tuple[list[T], bool]]]
) -> tuple[list[T], bool] | str:
    """What the cluster answered, or why it did not."""
    if target.away or target.client is None:
        return target.away or "is not connected"
    try:
        async with asyncio.timeout(timeout_s), target.gate:
            return await ask(target)
    except (errors.ApiError, TimeoutError, ValueError) as trouble:
        return why(trouble, timeout_s)


def why(trouble: Exception, timeout_s: float) -> str:
    """Why a cluster did not answer, in words that hold nothing of what it said: that may be about
    others."""
    match trouble:
        case TimeoutError():
            return f"did not answer within {timeout_s:g} s"
        case errors.Denied():
            return "does not allow it (list pods, get pods/log)"
        case errors.Unauthenticated():
            return "does not accept the credentials"
        case errors.NotFound():
            return "does not serve it"
        case errors.Throttled():
            return "is overloaded and asked to be left alone"
        case errors.OwnShortage():
            return "was not asked: the hub is short of file descriptors"
        case errors.Unreachable():
            return "cannot be reached"
        case _:
            return "gave no answer that can be read"


async def _pods_of(
    target: Target, selection: Selection, wanted: LogSelection, most: int
) -> tuple[list[dict[str, Any]], bool]:
    """The pods of one cluster by name, `most` of them, and whether there are more."""
    objects: list[dict[str, Any]] = []
    token = ""
    while True:
        page = await _page(target, selection, wanted, token)
        objects += [
            row
            for row in selections.rows(page, selection, target.pieces)
            if _is_wanted(row, wanted)
        ]
        if len(objects) > most or not page.metadata.continue_ or page.metadata.continue_ == token:
            objects.sort(key=lambda row: (row.get("shard") or 0, str(row["name"])))
            return objects[:most], len(objects) > most
        token = page.metadata.continue_


async def _page(
    target: Target, selection: Selection, wanted: LogSelection, token: str
) -> selections.Table:
    assert target.client is not None
    query = [
        ("labelSelector", selection.labels),
        ("limit", str(PAGE)),
        ("includeObject", "Metadata"),
    ]
    if wanted.pod:
        query.append(("fieldSelector", f"metadata.name={wanted.pod}"))
    if token:
        query.append(("continue", token))
    path = f"/api/v1/namespaces/{quote(selection.namespace, safe='')}/pods"
    body = await target.client.raw(
        "GET",
        path,
        tuple(query),
        headers=TABLE,
        timeout_s=wanted.timeout_s,
        body_limit=PAGE_BYTES_MAX,
    )
    return selections.table(body)


def _is_wanted(row: Mapping[str, Any], wanted: LogSelection) -> bool:
    return (not wanted.pod or row["name"] == wanted.pod) and (
        wanted.shard is None or row.get("shard") == wanted.shard
    )


async def _log_of(
    target: Target,
    selection: Selection,
    row: Mapping[str, Any],
    wanted: LogSelection,
    bytes_max: int,
) -> dict[str, Any]:
    """The end of one pod's log, or why there is none. `cut`: it did not fit."""
    container = wanted.container or selection.container
    entry: dict[str, Any] = {"cluster": target.cluster, "pod": row["name"], "container": container}
    query = (("container", container), *_bounds(wanted), ("limitBytes", str(bytes_max)))
    namespace, pod = quote(selection.namespace, safe=""), quote(str(row["name"]), safe="")
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    if row.get("shard") is not None:
        entry["shard"] = row["shard"]
    try:
        body = await _log(target, path, query, timeout_s=wanted.timeout_s, most=bytes_max)
    except (errors.Invalid, errors.NotFound) as trouble:
        # About this very pod: it waits to start, has no such container, or is gone.
        said = str(trouble).rpartition("/log: ")[2]
        return {**entry, "reason": plaintext.visible(said)[:WHY_MAX]}
    except (errors.ApiError, TimeoutError) as trouble:
        return {**entry, "reason": why(trouble, wanted.timeout_s)}
    return {
        **entry,
        "text": body[:bytes_max].decode("utf-8", "replace"),
        "cut": len(body) >= bytes_max,
    }


def _bounds(wanted: LogSelection) -> tuple[tuple[str, str], ...]:
    """How much of a log is asked for."""
    query = [("tailLines", str(wanted.tail))]
    if wanted.since_seconds:
        query.append(("sinceSeconds", str(wanted.since_seconds)))
    query += [
        (name, "true")
        for name, yes in (("timestamps", wanted.timestamps), ("previous", wanted.previous))
        if yes
    ]
    return tuple(query)


async def _log(
    target: Target, path: str, query: tuple[tuple[str, str], ...], *, timeout_s: float, most: int
) -> bytes:
    assert target.client is not None
    async with asyncio.timeout(timeout_s), target.gate:
        return await target.client.raw(
            "GET", path, query, timeout_s=timeout_s, body_limit=most + SLACK_BYTES
        )
