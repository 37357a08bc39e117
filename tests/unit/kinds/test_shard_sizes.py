"""How large the objects of a job set become: the host's object, the decision on it, the slices."""

import dataclasses
import json
from typing import Any, Final

from federator.api.placement import placementdecision
from federator.kinds import registry
from federator.kinds.verbs import SliceMark
from federator.model import shards
from federator.model.decision import Decision
from federator.model.observation import SliceObservation
from federator.model.shards import Ranges
from federator.status.facts import DecisionInput, Desired
from federator.status.fold import Fold, fold
from tests.unit.placement.fleets import cluster, decide, fleet, holdings, jobs

LIMIT: Final = 64 * 1024
COUNT: Final = 10_000
NAMES: Final = [f"us-east-1-zone-{number:02}" for number in range(20)]
LOST: Final = 10
VERBS: Final = registry.verbs_of("PinterestJobSet")
CONTAINER: Final = {
    "name": "app",
    "image": "registry.example/ads/training-data:2026.11.26",
    "resources": {"requests": {"cpu": "1", "memory": "4Gi"}},
}
JOB_SET: Final[dict[str, Any]] = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "PinterestJobSet",
    "metadata": {"name": "batch", "namespace": "feed", "uid": "uid-batch", "generation": 1},
    "spec": {
        "shards": COUNT,
        "parallelism": 400,
        "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
    },
}


def size(obj: Any) -> int:
    return len(json.dumps(obj, separators=(",", ":")).encode())


def every_second(ranges: Ranges) -> Ranges:
    numbers = [shard for low, high in ranges for shard in range(low, high + 1)]
    return shards.normal((shard, shard) for shard in numbers[::2])


def folded(decision: Decision, completed: Ranges, failed: Ranges) -> Fold:
    seen = [
        SliceObservation(
            share.cluster,
            known=True,
            exists=True,
            desired=share.count,
            completed=shards.intersect(completed, share.ranges),
            failed=shards.intersect(failed, share.ranges),
        )
        for share in decision.shares
    ]
    wanted = Desired(
        1, jobs(1, 1).unit, COUNT, previous_completed=completed, previous_failed=failed
    )
    placing = DecisionInput(
        decision.shares, decision.shortfall, decision.reason, decision.message, current=True
    )
    return fold(wanted, placing, seen)


def test_ten_thousand_shards_over_twenty_clusters_are_less_than_64_kib_an_object() -> None:
    """Half of the clusters are lost, one after the other, when every second of their shards is
    done: what they leave is scattered over all others."""
    decision = decide(jobs(COUNT, 400), fleet(*(cluster(name, 100) for name in NAMES)))
    done: Ranges = ()
    largest = {"decision": 0, "slice": 0}
    for lost in range(1, LOST + 1):
        former = decision.shares
        gone = next(share for share in former if share.cluster == NAMES[lost - 1])
        done = shards.union(done, every_second(shards.minus(gone.ranges, done)))
        left = fleet(*(cluster(name, 100) for name in NAMES[lost:]))
        held = holdings(share for share in former if share is not gone)
        decision = decide(jobs(COUNT, 400), left, held, seq=100 + lost, finished=done)
        assert not decision.shortfall
        spec = placementdecision.to_spec(decision, ("a cluster was lost",) * 10, given=former)
        largest["decision"] = max(largest["decision"], size(spec))
        for share in decision.shares:
            mark = SliceMark("fleet-1", "uid-batch", 1, share.cluster, share.seq, share.ranges)
            status = {"completedIndexes": shards.text(shards.intersect(done, share.ranges))}
            rendered = {**VERBS.render_slice(JOB_SET, share, mark), "status": status}
            largest["slice"] = max(largest["slice"], size(rendered))
    pieces = sum(len(share.ranges) for share in decision.shares)

    assert pieces > 1000, "they are scattered"
    assert {name: bytes_ for name, bytes_ in largest.items() if bytes_ >= LIMIT} == {}


def test_the_host_s_object_is_less_than_64_kib_in_the_worst_case() -> None:
    """Every other shard is completed and the rest have failed: no two neighbours can be written as
    one range."""
    decision = decide(jobs(COUNT, 400), fleet(*(cluster(name, 100) for name in NAMES)))
    even: Ranges = tuple((shard, shard) for shard in range(0, COUNT, 2))
    odd = shards.minus(((0, COUNT - 1),), even)
    result = folded(decision, even, odd)
    conditions = [dataclasses.asdict(one) for one in result.conditions]
    status = VERBS.host_status(JOB_SET, result, conditions, policy="default")

    assert (status["done"], status["failed"], len(status["clusterStatuses"])) == (5000, 5000, 20)
    assert size({**JOB_SET, "status": status}) < LIMIT
