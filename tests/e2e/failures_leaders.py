"""Two hubs: one dies or stands still while it leads. Each story returns figures; what must hold is
asserted in it.

Told by test_failures.py, and at length by `python -m tests.e2e.failures`.
"""

import random
import time
from datetime import datetime

from tests.e2e import failures_writes, workloads
from tests.e2e.failures_compare import Asked
from tests.e2e.failures_fleet import HUBS, FailureFleet
from tests.e2e.federations import until

TAKE_OVER_S = 17.0
"""The lease (15 s) and one retry (2 s), as shipped."""
LATE_S = 10.0
"""By which a loaded machine may delay it; in virtual time it is late by nothing: test_faults_leases.py."""


def leader_killed(
    ground: FailureFleet, asked: Asked, *, count: int, seed: int, rest_s: float
) -> dict[str, float]:
    """SIGKILL of the leader while workloads are being created; the other takes over within lease
    and retry.
    """
    rng, begun = random.Random(seed), time.time()
    leader = ground.leader()
    dies_at, killed_s = rng.randrange(count // 3, count), 0.0
    for index in range(count):
        asked.create(workloads.service(f"kill-{index}", asked.namespace, rng.randint(1, 3)))
        if index == dies_at:
            killed_s = ground.kill(leader)
    rival = next(name for name in HUBS if name != leader)
    until(
        lambda: ground.leader() == rival, lambda: f"the lease is {ground.lease()}", 2 * TAKE_OVER_S
    )
    taken_s = datetime.fromisoformat(ground.lease()["acquireTime"]).timestamp() - killed_s
    asked.comes_about()
    writes = failures_writes.since(failures_writes.read(ground.clusters), begun)
    first = next(
        w
        for w in writes
        if w.at_s > killed_s + 1 and w.account == "federator-hub" and w.cluster == "host"
    )
    assert taken_s <= TAKE_OVER_S + LATE_S, (
        f"{rival} led {taken_s:.1f} s after {leader} had been killed"
    )
    _nothing_twice(ground, asked, begun)
    failures_writes.at_rest(ground.clusters, rest_s)
    ground.start(leader)
    return {
        "taken over after s": taken_s,
        "first write after s": first.at_s - killed_s,
        "killed at": dies_at,
    }


def leader_stopped(
    ground: FailureFleet, asked: Asked, *, stopped_s: float, seed: int, rest_s: float
) -> dict[str, float]:
    """SIGSTOP of the leader in the middle of its work, SIGCONT when the other has long led: what it
    still sends does no harm, and it ends, because it lost its lease.
    """
    rng, begun = random.Random(seed), time.time()
    leader = ground.leader()
    rival = next(name for name in HUBS if name != leader)
    for index in range(12):
        asked.create(workloads.service(f"stop-{index}", asked.namespace, rng.randint(1, 3)))
    ground.stop(leader)
    stopped_at_s = time.time()
    for index in range(12):
        asked.scale("PinterestService", f"stop-{index}", rng.randint(1, 4))
    until(
        lambda: ground.leader() == rival, lambda: f"the lease is {ground.lease()}", 2 * TAKE_OVER_S
    )
    asked.comes_about()
    time.sleep(max(0.0, stopped_at_s + stopped_s - time.time()))
    resumed_s = ground.go_on(leader)
    for index in range(12):
        asked.scale("PinterestService", f"stop-{index}", rng.randint(1, 4))
    code = ground.has_ended(leader, 15.0)
    assert code not in (0, -9), f"{leader} ended with {code}"
    asked.comes_about()
    assert ground.leader() == rival
    late = [
        w
        for w in failures_writes.read(ground.clusters)
        if w.at_s > resumed_s and w.cluster == "host"
    ]
    # An Event that was on its way when the leader stood still tells of what it did while it led:
    # harmless.
    told = [w for w in late if w.account == "federator-hub" and w.taken and w.resource != "events"]
    own = {w.credential: w.row for w in told}
    assert len(own) == 1, f"the host took writes of both hubs after {leader} went on: {own}"
    _nothing_twice(ground, asked, begun)
    failures_writes.at_rest(ground.clusters, rest_s)
    ground.start(leader)
    return {"stood still for s": resumed_s - stopped_at_s, "ended with": code}


def _nothing_twice(ground: FailureFleet, asked: Asked, begun_s: float) -> None:
    """Everything was created once, and no seq fell."""
    writes = failures_writes.since(failures_writes.read(ground.clusters), begun_s)
    failures_writes.sound(writes, asked.namespace)
