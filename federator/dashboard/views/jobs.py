"""Jobs: the list with a strip of shards each, the shards of one job, and what runs on a schedule.
Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import listing, text
from federator.dashboard.listing import Page, Spec
from federator.dashboard.sources import rows
from federator.dashboard.sources.rows import CronRow, WorkloadRow
from federator.dashboard.views import workload
from federator.kinds.kind import Kind
from federator.model import plaintext, shards
from federator.model.shards import Ranges

CELLS: Final = 120
"""Cells of a strip at most: a cell stands for several shards where there are more."""
CELL: Final = 8
"""Width of a cell in units of the picture."""
STATES: Final = ("Failed", "Waiting", "Placed", "Done")
"""States of shards. A cell with several shows the first of them."""
HEIGHTS: Final[Mapping[str, int]] = {"Failed": 20, "Waiting": 4, "Placed": 12, "Done": 20}
"""A cell is told by its height too, and a failed one by a cross."""
RANGES_MAX: Final = 2000
"""Characters of a list of shards."""
SPEC: Final[Spec[WorkloadRow]] = Spec(
    facets={
        "kind": lambda row: (row.kind,),
        "namespace": lambda row: (row.namespace,),
        "health": lambda row: (row.health,),
        "account": lambda row: (row.account,),
    },
    sorts={
        "health": lambda row: rows.WORST[row.health],
        "namespace": lambda row: row.namespace,
        "done": lambda row: row.ready,
        "running": lambda row: row.running,
        "failed": lambda row: row.failed,
        "shards": lambda row: row.desired,
        "age": lambda row: row.created,
        "name": lambda row: (row.name, row.namespace, row.kind),
    },
    text=lambda row: f"{row.namespace}/{row.name} {row.account}".lower(),
    sort="health",
)
COLUMNS: Final = (
    ("Job", "name"),
    ("Namespace", "namespace"),
    ("Health", "health"),
    ("Progress", ""),
    ("Done", "done"),
    ("Running", "running"),
    ("Failed", "failed"),
    ("Shards", "shards"),
    ("Age", "age"),
)
CRONS: Final[Spec[CronRow]] = Spec(
    facets={
        "namespace": lambda row: (row.namespace,),
        "state": lambda row: (cron_state(row),),
    },
    sorts={
        "next": lambda row: row.next or "~",
        "last": lambda row: row.last,
        "namespace": lambda row: row.namespace,
        "name": lambda row: (row.name, row.namespace),
    },
    text=lambda row: f"{row.namespace}/{row.name}".lower(),
    sort="next",
)
CRON_COLUMNS: Final = (
    ("Cron job", "name"),
    ("Namespace", "namespace"),
    ("State", ""),
    ("Schedule", ""),
    ("Last run", "last"),
    ("Next run", "next"),
    ("Active", ""),
    ("Missed", ""),
)


def view(page: Page[WorkloadRow], now_s: float) -> dict[str, Any]:
    """The list of jobs."""
    return {
        **_list(page, SPEC, COLUMNS),
        "rows": [_line(row, now_s) for row in page.rows],
    }


def _list(page: Page[Any], spec: Spec[Any], columns: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "headers": listing.headers(page.query, spec, columns),
        "filters": page.filters(),
        "paging": page.paging(),
        "query": page.query.text,
        "sort": page.query.sort,
        "path": page.query.path,
    }


def _line(row: WorkloadRow, now_s: float) -> dict[str, Any]:
    address = ("workloads", row.kind, row.namespace, row.name, "shards")
    return {
        "kind": row.kind,
        "namespace": row.namespace,
        "name": row.name,
        "href": text.address(*address),
        "health": row.health,
        "tone": text.tone(row.health),
        "message": row.message if row.health not in ("Ready", "Complete") else "",
        "done": row.ready,
        "running": row.running,
        "failed": row.failed,
        "shards": row.desired,
        "age": text.age(row.created, now_s),
    }


def crons(page: Page[CronRow], now_s: float) -> dict[str, Any]:
    """The list of what runs on a schedule."""
    return {**_list(page, CRONS, CRON_COLUMNS), "rows": [_cron(row, now_s) for row in page.rows]}


def cron_state(row: CronRow) -> str:
    """In a word."""
    return "Stalled" if row.trouble else "Suspended" if row.suspended else "Scheduled"


def _cron(row: CronRow, now_s: float) -> dict[str, Any]:
    state = cron_state(row)
    return {
        "namespace": row.namespace,
        "name": row.name,
        "href": text.address("cronjobs", row.namespace, row.name),
        "state": state,
        "tone": {"Stalled": "bad", "Suspended": "idle"}.get(state, "good"),
        "trouble": row.trouble,
        "schedule": row.schedule,
        "last": row.last,
        "lastAge": text.age(row.last, now_s),
        "next": row.next,
        "active": row.active,
        "missed": row.missed,
    }


def cron(facts: Mapping[str, Any]) -> dict[str, Any]:
    """One object that runs on a schedule, by the facts of `federator explain` about it."""
    namespace = facts["workload"]["namespace"]
    runs = [
        {
            **run,
            "tone": {"Failed": "bad", "Completed": "good", "Active": "busy"}.get(
                run["state"], "idle"
            ),
            "href": text.address("workloads", facts["runKind"], namespace, run["name"]),
        }
        for run in reversed(facts["runs"])
    ]
    ready = facts["ready"]
    return {"facts": facts, "runs": runs, "tone": "good" if ready["status"] == "True" else "bad"}


# -- the shards of a job ------------------------------------------------------


def parts(kind: Kind, obj: Obj, decisions: Sequence[Obj] | None) -> dict[str, Any]:
    """The shards of a job set, or the components of a training job. None for decisions that the
    reader may not list: then the cluster of a shard is not said."""
    meta, status = raw.mapping(obj, "metadata"), raw.mapping(obj, "status")
    namespace, name = raw.text(meta, "namespace"), raw.text(meta, "name")
    decided = [
        each
        for each in decisions or ()
        if raw.text(each, "spec", "workload", "uid") == raw.text(meta, "uid")
    ]
    gang = kind.verbs is not None and kind.verbs.gang is not None
    states = {} if gang else _states(kind, obj, decided)
    health = rows.health_of(obj)
    return {
        **workload.head(kind, namespace, name, "shards"),
        "health": health,
        "tone": text.tone(health),
        "summary": raw.text(status, "message") or raw.text(status, "summary"),
        "strip": strip(states) if states else None,
        "states": [
            {
                "state": state,
                "count": shards.size(ranges),
                "shards": plaintext.clipped(shards.text(ranges), RANGES_MAX),
            }
            for state, ranges in states.items()
            if ranges
        ],
        "located": decisions is not None,
        "where": [] if gang else _where(obj, decided, states),
        "components": [_component(each) for each in raw.objects(status, "components")],
        "phases": [
            {
                "cluster": raw.text(row, "cluster"),
                "href": text.address("clusters", raw.text(row, "cluster")),
                "phase": raw.text(row, "phase"),
                "podGroup": raw.text(row, "podGroup"),
            }
            for row in raw.objects(status, "clusterStatuses")
        ]
        if gang
        else [],
    }


def _states(kind: Kind, obj: Obj, decided: Iterable[Obj]) -> dict[str, Ranges]:
    """State -> its shards. Placed: a cluster was given them, and they run or wait there."""
    total, status = rows.desired(kind, obj), raw.mapping(obj, "status")
    everything: Ranges = ((0, total - 1),) if total > 0 else ()
    done = shards.intersect(raw.ranges(status, "completedIndexes"), everything)
    failed = shards.intersect(raw.ranges(status, "failedIndexes"), everything)
    ended = shards.union(done, failed)
    given: Ranges = ()
    for each in decided:
        for share in raw.objects(each, "spec", "shares"):
            given = shards.union(given, raw.ranges(share, "ranges"))
    placed = shards.minus(shards.intersect(given, everything), ended)
    waiting = shards.minus(shards.minus(everything, ended), placed)
    return {"Failed": failed, "Waiting": waiting, "Placed": placed, "Done": done}


def strip(states: Mapping[str, Ranges]) -> dict[str, Any]:
    """The shards in order as cells of a picture, with the sentence that says the same."""
    total = sum(shards.size(ranges) for ranges in states.values())
    width = max(-(-total // CELLS), 1)
    worst: dict[int, str] = {}
    for state in reversed(STATES):
        for low, high in states[state]:
            worst |= dict.fromkeys(range(low // width, high // width + 1), state)
    said = ", ".join(f"{shards.size(states[state])} {state.lower()}" for state in reversed(STATES))
    return {
        "label": f"{plaintext.counted(total, 'shard', 'shards')}: {said}",
        "each": width,
        "width": CELL * len(worst),
        "cells": [
            {
                "x": CELL * at,
                "y": HEIGHTS["Done"] - HEIGHTS[state],
                "height": HEIGHTS[state],
                "state": state,
            }
            for at, state in sorted(worst.items())
        ],
    }


def _where(obj: Obj, decided: Iterable[Obj], states: Mapping[str, Ranges]) -> list[dict[str, Any]]:
    """By cluster: its shards and their states, and what it reports."""
    reported = {
        raw.text(row, "cluster"): row for row in raw.objects(obj, "status", "clusterStatuses")
    }
    given: dict[str, Ranges] = {}
    for each in decided:
        for share in raw.objects(each, "spec", "shares"):
            name = raw.text(share, "cluster")
            given[name] = shards.union(given.get(name, ()), raw.ranges(share, "ranges"))
    return [
        {
            "cluster": name,
            "href": text.address("clusters", name),
            "shards": plaintext.clipped(shards.text(given.get(name, ())), RANGES_MAX),
            "given": shards.size(given.get(name, ())),
            "done": shards.size(shards.intersect(given.get(name, ()), states["Done"])),
            "failed": shards.size(shards.intersect(given.get(name, ()), states["Failed"])),
            "running": raw.figure(reported.get(name, {}), "running"),
            "known": raw.at(reported.get(name, {}), "known") is not False,
            "trouble": ": ".join(
                filter(
                    None,
                    (
                        raw.text(reported.get(name, {}), "reason"),
                        raw.text(reported.get(name, {}), "message"),
                    ),
                )
            ),
        }
        for name in sorted({*given, *reported})
    ]


def _component(row: Obj) -> dict[str, Any]:
    """A component of a training job."""
    return {
        "name": raw.text(row, "name"),
        **{
            figure: raw.figure(row, figure)
            for figure in ("wanted", "active", "ready", "succeeded", "failed")
        },
    }
