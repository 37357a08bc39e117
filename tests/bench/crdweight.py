"""K1, K1c: what our definitions cost an API server: its growth in memory and processor time from
before they are installed until they have been served for a while, on real servers.

A server grows by itself in its first minute, so one without definitions is measured beside, and its
growth is left out. When a server collects its garbage is chance, so each reading is the median of
three servers that start together. The floor of these rows is no floor: it is the definitions of a host, which
members had before they got light ones.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from federator.kinds import crds
from tests.bench.harness import Result
from tests.bench.proc import processor_s, resident_mb
from tests.controlplane import build
from tests.controlplane.plane import ControlPlane

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BEFORE_S = 15.0
"""Until a server that has just started is at rest."""
AFTER_S = 25.0
"""Until it has built what it serves of new definitions."""
SERVERS = 3
"""Of each kind."""


class Weight(NamedTuple):
    """Growth of one server."""

    memory_mb: float
    cpu_s: float


def measure(wanted: frozenset[str], _scale: float) -> Iterator[Result]:
    binaries = build.find()
    if binaries is None:
        raise build.Unavailable("There is no real control plane on this machine: run `make kube`.")
    with ControlPlane(binaries) as plane:
        none = _weighed(plane, "none", ())
        light = _weighed(plane, "light", crds.member_crds())
        full = _weighed(plane, "full", crds.all_crds())
    rows = (
        ("K1", light.memory_mb - none.memory_mb, full.memory_mb - none.memory_mb),
        ("K1c", light.cpu_s - none.cpu_s, full.cpu_s - none.cpu_s),
    )
    notes = {"without_definitions": none._asdict()}
    for row, ours, others in rows:
        if row in wanted:
            yield Result(row, ours=max(ours, 0.0), floor=others, notes=notes)


def _weighed(plane: ControlPlane, name: str, bodies: Sequence[dict[str, Any]]) -> Weight:
    names = [f"{name}{number}" for number in range(SERVERS)]
    clusters = [plane.cluster(each) for each in names]
    pids = [
        child.process.pid
        for each in names
        for child in plane.family.children
        if child.name == f"{each}-apiserver"
    ]
    time.sleep(BEFORE_S)
    before = [Weight(resident_mb(pid), processor_s(pid)) for pid in pids]
    for cluster in clusters:
        for body in bodies:
            code, answer = cluster.ask(DEFINITIONS, "POST", body)
            if code != 201:
                raise RuntimeError(f"{body['metadata']['name']} was not taken: {code} {answer}")
    time.sleep(AFTER_S)
    after = [Weight(resident_mb(pid), processor_s(pid)) for pid in pids]
    for each in names:
        plane.end(each)
    grown = list(zip(after, before, strict=True))
    return Weight(
        statistics.median(now.memory_mb - then.memory_mb for now, then in grown),
        statistics.median(now.cpu_s - then.cpu_s for now, then in grown),
    )
