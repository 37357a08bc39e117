"""The rows of the benchmark. Gates come from the budgets: ratios to a floor that is measured in the
same run wherever there is one, absolute figures otherwise."""

from dataclasses import dataclass
from enum import StrEnum


class Against(StrEnum):
    """What a gate bounds."""

    FLOOR = "floor"
    """ours / floor is at most the gate."""
    MOST = "most"
    """ours is at most the gate."""
    LEAST = "least"
    """ours is at least the gate, scaled by the calibration score: a rate."""
    OFFERED = "offered"
    """ours is at least the gate: a part of a rate that is offered, on any machine."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what is measured and what it must reach."""

    id: str
    group: str
    """The file that measures it; rows of one group share a process and what was set up in it."""
    what: str
    against: Against
    gate: float
    unit: str
    preview: bool = False
    """Shown, but never a reason for failure: its part of the program is still to come."""


ROWS: tuple[Row, ...] = (
    Row(
        "S4",
        "writes",
        "writes per workload until settled, embedded; floor P + 2",
        Against.FLOOR,
        1.0,
        "writes",
    ),
    Row(
        "S4m",
        "writes",
        "writes of the members per service, embedded; floor: 4 natives and 1.3 statuses each",
        Against.FLOOR,
        1.0,
        "writes",
    ),
    Row(
        "S4r", "real", "the same on real servers, from their metrics", Against.FLOOR, 1.0, "writes"
    ),
    Row(
        "S5",
        "rest",
        "10,000 workloads at rest for 10 virtual minutes, embedded",
        Against.MOST,
        0,
        "writes",
    ),
    Row(
        "S5r", "real", "1,000 workloads at rest for 60 s on real servers", Against.MOST, 0, "writes"
    ),
    Row(
        "S6",
        "fanout",
        "one placement on 100 embedded members; floor: the POSTs alone",
        Against.MOST,
        2.0,
        "s",
    ),
    Row(
        "S3",
        "real",
        "idle: created to member object, p50, the median of three; floor: three writes in a row",
        Against.FLOOR,
        2.0,
        "ms",
    ),
    Row(
        "S1",
        "real",
        "1,000 Deployments x 3 real members; floor: the same requests",
        Against.FLOOR,
        1.4,
        "s",
    ),
    Row("S1f", "real", "the same; floor: the shortest bodies", Against.FLOOR, 1.6, "s"),
    Row(
        "S1p",
        "real",
        "1,000 PinterestServices x 3 until every Deployment exists",
        Against.FLOOR,
        1.3,
        "s",
    ),
    Row(
        "MP",
        "expanding",
        "processor time of a member process per slice of a service: 4 natives, 1 status",
        Against.MOST,
        3.7,
        "ms",
    ),
    Row("MPd", "expanding", "the same per plain Deployment", Against.MOST, 0.5, "ms"),
    Row("MPs", "expanding", "the same until it has started", Against.MOST, 1, "s"),
    Row("MPm", "expanding", "memory of a member process at rest", Against.MOST, 90, "MB"),
    Row(
        "K1",
        "crdweight",
        "growth of a member's API server by its CRDs; floor: by those of a host",
        Against.MOST,
        60,
        "MB",
    ),
    Row("K1c", "crdweight", "the same: its processor time", Against.MOST, 1, "s"),
    Row(
        "T1",
        "truth",
        "decided copies that the real schedulers did not bind within 60 s",
        Against.MOST,
        0.5,
        "%",
    ),
    Row(
        "T1r",
        "truth",
        "asks refused although the real schedulers bind more",
        Against.MOST,
        2.0,
        "%",
    ),
    Row(
        "T2",
        "backlog",
        "p99 of a user's change behind 10,000 others; floor: idle p99",
        Against.FLOOR,
        1.5,
        "ms",
    ),
    Row(
        "T3",
        "storm",
        "1,000 roll-outs x 20 members: status writes per workload",
        Against.MOST,
        1.0,
        "1/s",
    ),
    Row(
        "T3lag",
        "storm",
        "the same: lag of the hub's loop, p99, the median of three",
        Against.MOST,
        20.0,
        "ms",
    ),
    Row(
        "I1",
        "ingest",
        "watch events into the store; floor: decoding them",
        Against.FLOOR,
        3.0,
        "us",
    ),
    Row(
        "R1",
        "restart",
        "restart with 100,000 placed workloads; floor: listing them",
        Against.FLOOR,
        1.0,
        "s",
    ),
    Row(
        "R1w",
        "restart",
        "writes of that restart until everything was compared",
        Against.MOST,
        0,
        "writes",
    ),
    Row(
        "M1",
        "restart",
        "memory of a hub with 100,000 workloads x 2 members",
        Against.MOST,
        200.0,
        "MB",
    ),
    Row(
        "H1",
        "restart",
        "hub at rest with 100,000 workloads x 2 members: share of a core",
        Against.MOST,
        2.0,
        "%",
        preview=True,
    ),
    Row(
        "R2",
        "lost",
        "a member gone with 1,000 workloads: applied elsewhere; floor: the writes",
        Against.FLOOR,
        2.0,
        "s",
    ),
    Row(
        "R2d",
        "lost",
        "the same: until it is held to be lost, with a grace of 10 s",
        Against.MOST,
        21.1,
        "s",
    ),
    Row(
        "N1",
        "buffered",
        "openb at 1.3x, each cluster lost: Reserved copies without a place",
        Against.MOST,
        0,
        "copies",
    ),
    Row(
        "N1r",
        "buffered",
        "the largest cluster lost in the simulator: copies without a place that fit",
        Against.MOST,
        0,
        "copies",
    ),
    Row("M3", "wide", "memory of a hub with 1,000 members", Against.MOST, 300.0, "MB"),
    Row("L1a", "commands", "`get psvc -A` with 10,000 services", Against.MOST, 1.5, "s"),
    Row("L1n", "commands", "`get psvc NAME` of them", Against.MOST, 0.6, "s"),
    Row("L1x", "commands", "`explain psvc/NAME` of them", Against.MOST, 1.0, "s"),
    Row("L1e", "commands", "`get psvc` in an empty namespace", Against.MOST, 0.35, "s"),
    Row("L1m", "commands", "memory of `get psvc -A -o json`", Against.MOST, 200.0, "MB"),
    Row("D1", "dashboard", "the slowest page of 10,000 workloads", Against.MOST, 0.3, "s"),
    Row("D1x", "dashboard", "the slowest page of 100,000 workloads", Against.MOST, 1.0, "s"),
    Row("D1m", "dashboard", "memory of the dashboard with them", Against.MOST, 300.0, "MB"),
    Row(
        "E0",
        "spread",
        "decisions of 1,000,000 copies, hard and soft spread rules",
        Against.LEAST,
        20,
        "1/s",
    ),
    Row(
        "ORD",
        "ordering",
        "gap of a batch to its bound, load 0.95; floor: without places",
        Against.FLOOR,
        0.7,
        "%",
    ),
    Row(
        "E9",
        "drilled",
        "N-1 sweep of 100,000 on 100 clusters (in 20 s)",
        Against.LEAST,
        5_000,
        "1/s",
    ),
    Row(
        "P1",
        "planned",
        "plan of a policy for 1 of 25 namespaces, 10,000 workloads, 100 clusters",
        Against.MOST,
        2.0,
        "s",
    ),
    Row(
        "P1a",
        "planned",
        "the same policy for all namespaces: two of three workloads move",
        Against.MOST,
        2.0,
        "s",
        preview=True,
    ),
    Row(
        "WI",
        "whatif",
        "what if on one of 1,000 workloads, 100 clusters: slowest of five edits",
        Against.MOST,
        0.3,
        "s",
    ),
    Row(
        "WIa",
        "whatif",
        "the same on one of 10,000 workloads, without a lost cluster",
        Against.MOST,
        0.3,
        "s",
    ),
    Row(
        "WIb",
        "whatif",
        "what if a cluster is lost, 10,000 workloads: 635 move",
        Against.MOST,
        0.3,
        "s",
        preview=True,
    ),
    Row(
        "V1",
        "judged",
        "verdict on a submission, a quarter queued, 10,000 workloads, 100 clusters, p99",
        Against.MOST,
        50.0,
        "ms",
    ),
    Row("V1c", "judged", "the same: worker's processor time", Against.MOST, 15.0, "ms"),
    Row("G1", "submitted", "submissions taken of 120 1/s, paused", Against.OFFERED, 118.0, "1/s"),
    Row("G1p", "submitted", "the same: due to acknowledged, p99", Against.MOST, 1000.0, "ms"),
    Row("G2", "submitted", "submissions, highest steady rate", Against.LEAST, 20.0, "1/s"),
    Row("G2p", "submitted", "the same: sent to acknowledged, p99", Against.MOST, 2000.0, "ms"),
    Row("G2c", "submitted", "the same: gateway's processor time", Against.MOST, 8.0, "ms"),
    Row(
        "P1lag",
        "planned",
        "turns of the hub's loop while plans run, p99; floor: at rest",
        Against.FLOOR,
        1.2,
        "ms",
    ),
    Row(
        "P1m",
        "planned",
        "memory of the snapshot worker with 100,000 workloads x 2 clusters",
        Against.MOST,
        500.0,
        "MB",
    ),
    Row(
        "P1f",
        "planned",
        "one change with a snapshot worker; floor: without one, and its pickle",
        Against.FLOOR,
        2.0,
        "us",
    ),
    Row("RES", "reserving", "cycles with 64 reservations, 100 clusters", Against.LEAST, 5, "1/s"),
    Row("E1", "engine", "online decisions, 10 clusters", Against.LEAST, 5_500, "1/s"),
    Row("E2", "engine", "online decisions, 100 clusters", Against.LEAST, 4_000, "1/s"),
    Row(
        "E3",
        "engine",
        "online decisions, 1,000 clusters",
        Against.LEAST,
        3_000,
        "1/s",
    ),
    Row(
        "W1",
        "wave",
        "a decision with 10,000 in flight, 100 clusters; floor: with none",
        Against.FLOOR,
        1.25,
        "us",
    ),
    Row(
        "C1",
        "simulate",
        "82,229 real jobs simulated (gate: in 15 s)",
        Against.LEAST,
        5_482,
        "1/s",
        preview=True,
    ),
    Row(
        "C2",
        "simulate",
        "188,041 jobs on 170 clusters (in 60 s)",
        Against.LEAST,
        3_134,
        "1/s",
        preview=True,
    ),
    Row(
        "C3l",
        "simulate",
        "time a job, of 1,000,000; floor: of 250,000",
        Against.FLOOR,
        1.2,
        "us",
        preview=True,
    ),
    Row(
        "C3m",
        "simulate",
        "memory of the simulator with 1,000,000 jobs",
        Against.MOST,
        2_000,
        "MB",
        preview=True,
    ),
    Row(
        "X1",
        "expected",
        "starts outside the interval that was expected (Philly, half of its capacity)",
        Against.MOST,
        15.0,
        "%",
    ),
    Row("X1w", "expected", "width of that interval by the wait, median", Against.MOST, 2.0, "x"),
    Row(
        "X1h",
        "expected",
        "as X1 where no job says how long it runs",
        Against.MOST,
        15.0,
        "%",
        preview=True,
    ),
    Row("RT1", "runtimes", "memory of a pod's sidecar with all roles", Against.MOST, 40, "MB"),
    Row("RT1k", "runtimes", "most memory of the child with the key", Against.MOST, 40, "MB"),
    Row("RT2", "runtimes", "10,000 certificates with OpenBao, 2 cores", Against.MOST, 60, "s"),
)
