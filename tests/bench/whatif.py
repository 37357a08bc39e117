"""WI: the answer to "what if" on the page of a workload: the plan of one edit, as the snapshot worker
computes it, on 100 clusters with 1,000 placed workloads.

Five edits: copies, requests, a lost cluster, an account with a limit, a policy for this workload.
The figure is processor time from the body of the question to that of the answer, the median of the
slowest edit: what the worker prepares, and all of the process that it forks. The worker has answered
before, so that it has prepared most (`first_s` is what the first question pays in addition). WIa is
the same with 10,000, without the lost cluster. WIb is the lost cluster there: 635 workloads are
decided again.
"""

import gc
import json
import os
import statistics
import time
from collections.abc import Iterator
from typing import Any

from federator.advice.plans import asked as asking
from federator.advice.trials import never
from federator.hub.query import planning
from federator.hub.snapshot.world import StateCopy
from federator.kinds import registry
from federator.kube.clock import RealClock
from federator.process import malloc
from tests.bench import planned
from tests.bench.harness import Result
from tests.bench.planned import Obj

SIZES = {"WI": 1_000, "WIa": 10_000, "WIb": 10_000}
LOSE = "lose"
QUESTIONS = 3
AT = 3
"""Which workload is asked about."""


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    malloc.collect_rarely()  # as the worker does when it starts
    for row, size in SIZES.items():
        if row in wanted:
            yield _asked(row, max(planned.NAMESPACES, round(size * scale)))


def _asked(row: str, count: int) -> Result:
    world = StateCopy.of(planned.state_of(planned.placed(count)), RealClock())
    obj = planned.workload_of(AT)
    which = ("PinterestService", obj["metadata"]["namespace"], obj["metadata"]["name"])
    begun = time.process_time()
    world.prepared.update(world)
    first_s = time.process_time() - begun
    took: dict[str, float] = {}
    for name, edit in edits(obj, which).items():
        if row != "WI" and (name == LOSE) != (row == "WIb"):
            continue
        empty: Obj = {"applied": [], "deleted": [], "lost": [], "scaled": []}
        body = json.dumps({**empty, "losses": False, **edit}).encode()
        task = planning.Task(body, {which: obj}, frozenset(), None, asking.answer)
        took[name] = statistics.median(_once(world, task) for _ in range(QUESTIONS))
    notes = {name: round(seconds, 3) for name, seconds in took.items()}
    notes["first_s"] = round(first_s, 3)
    return Result(row, ours=max(took.values()), notes={"workloads": count, **notes})


def _once(world: StateCopy, task: planning.Task) -> float:
    """Seconds of the worker and of the process of one answer."""
    begun = time.process_time()
    world.prepared.update(world)
    pid = os.fork()
    if pid == 0:
        try:
            gc.freeze()  # as in the process of an answer
            document = json.loads(planning.document(world, task, never))
            os._exit(document["kind"] != "Plan")
        finally:
            os._exit(1)
    prepared_s = time.process_time() - begun
    _, status, used = os.wait4(pid, 0)
    assert status == 0
    return prepared_s + used.ru_utime + used.ru_stime


def edits(obj: Obj, which: tuple[str, str, str]) -> dict[str, dict[str, Any]]:
    """The edits of one workload that the page takes."""
    kind, namespace, name = which
    larger = json.loads(json.dumps(obj))
    container = larger["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"] = {"cpu": "3", "memory": "8Gi"}
    account = _object(
        "FederatedQuota",
        {"name": "account"},
        {"projects": [namespace], "tiers": {"OnDemand": {"max": {"cpu": "10000"}}}},
    )
    policy = _object(
        "PlacementPolicy",
        {"name": "elsewhere", "namespace": namespace},
        {
            "workloads": {"matchLabels": obj["metadata"]["labels"]},
            "clusters": {"names": ["c001", "c002", "c003"]},
        },
    )
    return {
        "replicas": {"scaled": [{"kind": kind, "namespace": namespace, "name": name, "count": 40}]},
        "requests": {"applied": [larger]},
        LOSE: {"lost": ["c003"]},
        "quota": {"applied": [account]},
        "policy": {"applied": [policy]},
    }


def _object(kind: str, meta: Obj, spec: Obj) -> Obj:
    version = registry.KINDS[kind].api_version
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
