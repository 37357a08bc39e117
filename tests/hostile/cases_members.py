"""What a lying member answers (F21, F44, F56 and the status lies): each row changes the objects of
one resource on their way to the hub.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
HUGE = 2**62
DIGITS = int("9" * 400)


@dataclass(frozen=True)
class Lie:
    """`change` edits an object in place, or returns the bytes that stand for it."""

    name: str
    row: str
    plural: str
    change: Callable[[Obj], bytes | None]
    moves: bool = False
    """Says that copies do not fit there, which is a reason to give them to others."""


def put(*path: str, value: Any) -> Callable[[Obj], None]:
    def change(obj: Obj) -> None:
        here = obj
        for name in path[:-1]:
            here = here.setdefault(name, {})
        here[path[-1]] = value

    return change


def capacity(**fields: Any) -> Callable[[Obj], None]:
    def change(obj: Obj) -> None:
        obj.setdefault("status", {}).update(fields)

    return change


def rows(**fields: Any) -> Callable[[Obj], None]:
    def change(obj: Obj) -> None:
        for row in (obj.get("status") or {}).get("nodes", ()):
            row.update(fields)

    return change


def literally(*path: str, text: str) -> Callable[[Obj], bytes]:
    """A number that JSON libraries do not write."""

    def change(obj: Obj) -> bytes:
        put(*path, value="@@")(obj)
        return json.dumps(obj).replace('"@@"', text).encode()

    return change


def said(**fields: Any) -> Callable[[Obj], None]:
    return lambda obj: obj.setdefault("status", {}).update(fields)


def marked(**fields: Any) -> Callable[[Obj], None]:
    return lambda obj: obj["spec"].setdefault("slice", {}).update(fields)


def many_rows(obj: Obj) -> None:
    row = {"count": 1, "allocatable": {"cpu": "8"}, "free": {"cpu": "8"}}
    obj.setdefault("status", {})["nodes"] = [row | {"family": f"f{i}"} for i in range(5000)]


def many_resources(obj: Obj) -> None:
    amounts = {f"example.com/r{i}": "1" for i in range(500)}
    obj.setdefault("status", {})["nodes"] = [{"count": 1, "allocatable": amounts, "free": amounts}]


def many_copies(obj: Obj) -> None:
    obj.setdefault("status", {})["copies"] = {f"{i}" * 40: i for i in range(5000)}


def long_resources(obj: Obj) -> None:
    """Within every bound of its schema, and larger than an API server takes."""
    amounts = {f"{i}-{'r' * 250}.example.com/{'x' * 60}": "1" for i in range(30)}
    row = {"count": 1, "allocatable": amounts, "free": amounts}
    obj.setdefault("status", {})["nodes"] = [row | {"family": f"f{i}"} for i in range(250)]


def many_natives(obj: Obj) -> None:
    rows = [
        {"kind": "Deployment", "name": f"n{i}", "health": "Bad", "reason": "Sad"}
        for i in range(100_000)
    ]
    obj.setdefault("status", {})["natives"] = rows


def much_lease(obj: Obj) -> None:
    obj["spec"] |= {
        "holderIdentity": "h" * 900_000,
        "leaseDurationSeconds": DIGITS,
        "leaseTransitions": DIGITS,
    }


def many_namespaces(obj: Obj) -> None:
    quotas = [{"name": f"q{at}", "requests": {"services": "1"}} for at in range(9)]
    every = [{"name": f"n{at}", "quotas": quotas} for at in range(10_000)]
    obj.setdefault("status", {})["namespaces"] = every


CAPACITY = "clustercapacities"
SERVICE = "pinterestservices"
NAMESPACE = "namespaces"
LEASE = "leases"

LIES: tuple[Lie, ...] = (
    Lie("capacity NaN", "F56", CAPACITY, literally("status", "includesSeq", text="NaN")),
    Lie("capacity 1e400", "F56", CAPACITY, literally("status", "includesSeq", text="1e400")),
    Lie(
        "capacity of ten thousand digits",
        "F56",
        CAPACITY,
        literally("status", "includesSeq", text="9" * 10_000),
    ),
    Lie("capacity beyond 64 bits", "F56", CAPACITY, capacity(includesSeq=DIGITS)),
    Lie("capacity as a text", "F56", CAPACITY, put("status", value="plenty")),
    Lie("capacity without nodes", "F56", CAPACITY, capacity(nodes=None, copies=None)),
    Lie("nodes as a text", "F56", CAPACITY, capacity(nodes="many")),
    Lie("negative nodes", "F56", CAPACITY, rows(count=-5)),
    Lie("nodes without number", "F56", CAPACITY, rows(count=HUGE)),
    Lie("nodes of 400 digits", "F56", CAPACITY, rows(count=DIGITS)),
    Lie("negative room", "F56", CAPACITY, rows(free={"cpu": "-8", "memory": "-1Gi", "pods": "-1"})),
    Lie(
        "room above all that is there",
        "F56",
        CAPACITY,
        rows(free={"cpu": "1E", "memory": "1Ei", "pods": "1M"}),
    ),
    Lie(
        "room that is no quantity",
        "F57",
        CAPACITY,
        rows(free={"cpu": "NaN", "memory": "1e400", "pods": "١"}),
    ),
    Lie("room of other types", "F58", CAPACITY, rows(free=[1], allocatable="x", taints=7, model=7)),
    Lie("five thousand rows", "F60", CAPACITY, many_rows),
    Lie("five hundred resources", "F60", CAPACITY, many_resources),
    Lie("five thousand answers", "F60", CAPACITY, many_copies),
    Lie(
        "copies beyond 64 bits", "F56", CAPACITY, capacity(copies={"x": DIGITS, "y": -1, "z": True})
    ),
    Lie(
        "namespaces that are none",
        "F58",
        CAPACITY,
        capacity(namespaces=["x", 7, None, {"name": 7}, {"name": "feed", "quotas": "none"}]),
    ),
    Lie(
        "limits beyond all bounds",
        "F56",
        CAPACITY,
        capacity(
            namespaces=[
                {
                    "name": "feed",
                    "quotas": [{"name": "q{0}\x1b[2J", "requests": {"cpu": DIGITS, "pods": "1E"}}],
                    "limitRanges": [
                        {
                            "name": "{}",
                            "type": "Container",
                            "min": {"memory": "-5", "{}": "1"},
                            "max": {"cpu": DIGITS},
                            "maxLimitRequestRatio": {"cpu": "NaN"},
                        }
                    ],
                }
            ]
        ),
    ),
    Lie("ten thousand namespaces", "F60", CAPACITY, many_namespaces),
    Lie(
        "a model of a megabyte",
        "F60",
        CAPACITY,
        rows(model="m" * 1_000_000, family="f" * 1_000_000),
    ),
    Lie("shapes that are none", "F58", CAPACITY, put("spec", value={"shapes": ["x", 7, None]})),
    Lie(
        "nodes of a million million million cpus",
        "F56",
        CAPACITY,
        rows(allocatable={"cpu": 10**18}, free={"cpu": 10**18}),
    ),
    Lie(
        "nodes of two million cpus",
        "F56",
        CAPACITY,
        rows(allocatable={"cpu": "2M"}, free={"cpu": "2M"}),
    ),
    Lie("resources with long names", "F60", CAPACITY, long_resources),
    Lie(
        "a resource with a name of a megabyte",
        "F60",
        CAPACITY,
        rows(allocatable={"r" * 1_000_000: "1", "cpu": "8"}),
    ),
    Lie(
        "a taint with a key of a megabyte",
        "F60",
        CAPACITY,
        rows(taints=[{"key": "k" * 1_000_000, "effect": "NoExecute"}]),
    ),
    Lie(
        "a hundred thousand shapes",
        "F60",
        CAPACITY,
        put("spec", value={"shapes": [{"id": "s" * 500}] * 100_000}),
    ),
    Lie(
        "a capacity of a megabyte that nobody asked for",
        "F60",
        CAPACITY,
        capacity(more="x" * 1_000_000),
    ),
    Lie(
        "a host of a megabyte",
        "F60",
        CAPACITY,
        put(
            "metadata",
            "annotations",
            value={"host.federation.pinterest.com/federator": "u" * 1_000_000},
        ),
    ),
    Lie("a hundred thousand natives", "F60", SERVICE, many_natives),
    Lie(
        "natives with names of a megabyte",
        "F60",
        SERVICE,
        said(natives=[{"kind": "K" * 1_000_000, "name": "n" * 1_000_000}]),
    ),
    Lie("a uid of a megabyte", "F60", SERVICE, put("metadata", "uid", value="u" * 1_000_000)),
    Lie(
        "a version of a megabyte",
        "F60",
        SERVICE,
        put("metadata", "resourceVersion", value="1" * 1_000_000),
    ),
    Lie(
        "a thousand labels of a kilobyte",
        "F60",
        SERVICE,
        put("metadata", "labels", value={f"l{i}": "x" * 1000 for i in range(1000)}),
    ),
    Lie("an object of ten megabytes", "F60", SERVICE, said(message="x" * 10_000_000)),
    Lie("capacity spec as a text", "F58", CAPACITY, put("spec", value="x")),
    Lie("ready above all copies", "F56", SERVICE, said(ready=1_000_000)),
    Lie(
        "everything beyond 64 bits",
        "F56",
        SERVICE,
        said(ready=DIGITS, replicas=DIGITS, updatedReplicas=DIGITS),
    ),
    Lie("everything negative", "F56", SERVICE, said(ready=-7, replicas=-7, updatedReplicas=-7)),
    Lie(
        "everything true", "F58", SERVICE, said(ready=True, replicas=True, observedGeneration=True)
    ),
    Lie(
        "everything a text",
        "F58",
        SERVICE,
        said(ready="3", replicas=[], healthy="yes", unschedulable="no"),
    ),
    Lie("a status that is a list", "F58", SERVICE, put("status", value=[1])),
    Lie("a reason of a megabyte", "F63", SERVICE, said(healthy=False, reason="R" * 1_000_000)),
    Lie(
        "a reason that is no word",
        "F61",
        SERVICE,
        said(healthy=False, reason="no reason\n\u202e", message="m\x00\x1b[31m"),
    ),
    Lie(
        "a message of a megabyte",
        "F63",
        SERVICE,
        said(healthy=False, reason="Sad", message="x" * 1_000_000),
    ),
    Lie(
        "unschedulable since the year one",
        "F56",
        SERVICE,
        said(unschedulable={"count": 1, "since": "0001-01-01T00:00:00+23:59"}),
        moves=True,
    ),
    Lie(
        "unschedulable without number",
        "F56",
        SERVICE,
        said(unschedulable={"count": HUGE, "since": "2026-01-01T00:00:00Z"}),
        moves=True,
    ),
    Lie("generation from the future", "F17", SERVICE, said(observedGeneration=HUGE)),
    Lie("a slice of another workload", "F44", SERVICE, marked(workloadUID="someone-else")),
    # What is not ours blocks the share there, which goes to other clusters after a minute.
    Lie("a slice of another fleet", "F44", SERVICE, marked(fleet="someone-else"), moves=True),
    Lie("a slice without its mark", "F44", SERVICE, put("spec", "slice", value=None), moves=True),
    Lie("a mark of other types", "F58", SERVICE, put("spec", "slice", value=[1]), moves=True),
    Lie("a seq from the future", "F44", SERVICE, marked(seq=HUGE)),
    Lie("labels that are a list", "F58", SERVICE, put("metadata", "labels", value=[1])),
    Lie("annotations that are a text", "F58", SERVICE, put("metadata", "annotations", value="x")),
    Lie("a spec that is a text", "F58", SERVICE, put("spec", value="x"), moves=True),
    Lie("a name that is a number", "F21", SERVICE, put("metadata", "name", value=7)),
    Lie("a name that climbs", "F61", SERVICE, put("metadata", "name", value="../../secrets/x")),
    Lie("metadata that is a list", "F21", SERVICE, put("metadata", value=[])),
    Lie(
        "a version that is no number",
        "F17",
        SERVICE,
        put("metadata", "resourceVersion", value="newest"),
    ),
    Lie("another identity", "F35", NAMESPACE, put("metadata", "uid", value="another-cluster")),
    Lie(
        "an identity of a megabyte", "F35", NAMESPACE, put("metadata", "uid", value="u" * 1_000_000)
    ),
    Lie("an identity that is a number", "F35", NAMESPACE, put("metadata", "uid", value=7)),
    Lie("no identity", "F35", NAMESPACE, put("metadata", "uid", value=None)),
    Lie("a lease that is a text", "F58", LEASE, put("spec", value="x")),
    Lie("a lease from a list", "F58", LEASE, put("spec", value=[1])),
    Lie("a heartbeat that is a number", "F58", LEASE, put("spec", "renewTime", value=7)),
    Lie(
        "a heartbeat of the year 9999",
        "F56",
        LEASE,
        put("spec", "renewTime", value="9999-12-31T23:59:59.999999Z"),
    ),
    Lie(
        "a heartbeat of the year 10000",
        "F56",
        LEASE,
        put("spec", "renewTime", value="10000-01-01T00:00:00Z"),
    ),
    Lie("a heartbeat of a megabyte", "F60", LEASE, put("spec", "renewTime", value="2" * 900_000)),
    Lie("a lease with figures beyond 64 bits", "F56", LEASE, much_lease),
    Lie(
        "a lease of ten megabytes",
        "F60",
        LEASE,
        put("metadata", "annotations", value={"x": "x" * 10_000_000}),
    ),
)
