"""Job sets that end by rules of their own, a service whose copies an autoscaler chooses, and
workloads with claims: what some of the worlds have besides, each drawn from a generator of its own.

All of it is in a namespace of its own. The rules are in `endings`, `scaled` and `claimed`.
"""

import random
from collections.abc import Iterator
from typing import Any

from tests.simulation.drawing import generator

Body = dict[str, Any]
Move = tuple[float, str, str, str, str, Body]
"""Pause in seconds, and what is done to which kind, namespace and name."""
JOBSET, SERVICE, STATEFUL = "PinterestJobSet", "PinterestService", "PinterestStatefulSet"
NAMESPACE = "life"
SERVED, STORED = "wide", "db"
"""The service that is scaled, and the stateful set."""
ENDINGS_PER_MILLE, SCALED_PER_MILLE, CLAIMED_PER_MILLE = 200, 150, 150
"""Of all worlds, so many have each."""
PREFIX = "embedded.federator/"
MOVE_S = (1.0, 8.0)
"""Pause before each move, in seconds."""
BROKEN_CODE, LOST_CODE = 42, 43
"""Exit codes by which a failure policy ends a job set, and gives up a shard."""


class Lives:
    """What the user of one world does with such workloads."""

    def __init__(self, seed: int) -> None:
        self._ends = generator(seed, "endings")
        self._scales = generator(seed, "scaled")
        self._claims = generator(seed, "claimed")
        self.ending = self._ends.randrange(1000) < ENDINGS_PER_MILLE
        self.scaled = self._scales.randrange(1000) < SCALED_PER_MILLE
        self.claimed = self._claims.randrange(1000) < CLAIMED_PER_MILLE

    def begin(self) -> Iterator[Move]:
        """What is made first of all."""
        if self.scaled:
            yield 0.0, "create", SERVICE, NAMESPACE, SERVED, _autoscaled(self._scales)
        if self.claimed:
            keeps = self._claims.choice(("Retain", "Delete"))
            yield 0.0, "create", STATEFUL, NAMESPACE, STORED, _stored(self._claims, keeps)

    def moves(self) -> list[Move]:
        """What is done while everything else happens."""
        return [*self._ending(), *self._scaling(), *self._claiming()]

    def end(self) -> Iterator[Move]:
        """What is put away. The others stay, so that they can be looked at when all is at rest."""
        if self.claimed:
            yield 0.0, "delete", STATEFUL, NAMESPACE, STORED, {}

    def _ending(self) -> Iterator[Move]:
        if not self.ending:
            return
        for number in range(self._ends.randint(1, 3)):
            what = self._ends.choice(sorted(_ENDS))
            spec = _ENDS[what](self._ends)
            if self._ends.random() < 0.5:
                spec["ttlSecondsAfterFinished"] = self._ends.randint(3, 20)
            yield _pause(self._ends), "create", JOBSET, NAMESPACE, f"ends-{number}", {"spec": spec}

    def _scaling(self) -> Iterator[Move]:
        for _ in range(4 if self.scaled else 0):
            bounds = _bounds(self._scales)
            body = {"spec": {"autoscaling": bounds}}
            yield _pause(self._scales), "patch", SERVICE, NAMESPACE, SERVED, body

    def _claiming(self) -> Iterator[Move]:
        if not self.claimed:
            return
        rng = self._claims
        for name in ("keeps", "drops"):
            body = {"spec": _with_data(rng, retains=name == "keeps")}
            yield _pause(rng), "create", JOBSET, NAMESPACE, name, body
        for _ in range(4):
            body = {"spec": {"replicas": rng.randint(0, 6)}}
            yield _pause(rng), "patch", STATEFUL, NAMESPACE, STORED, body
        for name in ("keeps", "drops"):
            body = {"spec": _with_data(rng, retains=name == "keeps")}
            yield _pause(rng), "re-create", JOBSET, NAMESPACE, name, body


def _pause(rng: random.Random) -> float:
    return round(rng.uniform(*MOVE_S), 3)


def _template(*, batch: bool, **annotations: str) -> Body:
    requests = {"cpu": "50m", "memory": "32Mi"}
    container: Body = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    pod: Body = {"containers": [container]}
    if batch:
        pod["restartPolicy"] = "Never"
    named = {PREFIX + name.replace("_", "-"): text for name, text in annotations.items()}
    return {"metadata": {"annotations": named}, "spec": pod}


def _job_set(rng: random.Random, run_s: str, **annotations: str) -> Body:
    shards = rng.randint(3, 8)
    return {
        "shards": shards,
        "parallelism": rng.randint(2, shards),
        "template": _template(
            batch=True, run_seconds=run_s, index_base_env="SHARD_BASE", **annotations
        ),
    }


def _all(rng: random.Random) -> Body:
    """Every shard; one fails for good after as many tries as are allowed."""
    spec = _job_set(rng, "2-6", fail_indexes="1")
    return {**spec, "backoffLimitPerShard": rng.randint(0, 1)}


def _any(rng: random.Random) -> Body:
    return {**_job_set(rng, "3-90"), "completion": "Any"}


def _enough(rng: random.Random) -> Body:
    """Some of the first shards suffice; in half of them a failure may put that out of reach."""
    spec = _job_set(rng, "3-60", **({"fail_indexes": "0"} if rng.random() < 0.5 else {}))
    policy: Body = {"succeededShards": "0-2"}
    if rng.random() < 0.5:
        policy["succeededCount"] = 2
    more = {"completion": "SuccessPolicy", "successPolicy": policy, "backoffLimitPerShard": 0}
    return {**spec, **more}


def _bounded(rng: random.Random) -> Body:
    spec = _job_set(rng, "3-60", fail_indexes="0,2")
    most = rng.randint(0, 1)
    return {**spec, "backoffLimitPerShard": 0, "failurePolicy": {"maxFailedShards": most}}


def _by_code(action: str, code: int) -> Body:
    return {
        "rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [code, code + 9]}}]
    }


def _broken(rng: random.Random) -> Body:
    spec = _job_set(rng, "3-60", fail_indexes="1", exit_code=str(BROKEN_CODE))
    return {**spec, "failurePolicy": _by_code("FailJobSet", BROKEN_CODE)}


def _given_up(rng: random.Random) -> Body:
    spec = _job_set(rng, "2-6", fail_indexes="0", exit_code=str(LOST_CODE))
    return {**spec, "failurePolicy": _by_code("FailShard", LOST_CODE)}


def _overdue(rng: random.Random) -> Body:
    return {**_job_set(rng, "400"), "activeDeadlineSeconds": rng.randint(8, 25)}


_ENDS = {
    "all": _all,
    "any": _any,
    "bounded": _bounded,
    "broken": _broken,
    "enough": _enough,
    "given up": _given_up,
    "overdue": _overdue,
}
"""How a job set ends -> one that does."""


def _with_data(rng: random.Random, *, retains: bool) -> Body:
    """A job set whose shards are tried again, and find what they wrote."""
    spec = _job_set(rng, "3-9", fail_indexes="0-2", fail_attempts="1")
    claim: Body = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        "lifetime": "Shard",
    }
    if retains:
        claim["retention"] = "Retain"
    mounts = [{"name": "data", "mountPath": "/data"}]
    spec["template"]["spec"]["containers"][0]["volumeMounts"] = mounts
    return {**spec, "volumeClaimTemplates": [claim]}


def _stored(rng: random.Random, keeps: str) -> Body:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    spec = {
        "replicas": rng.randint(1, 5),
        "claimRetention": keeps,
        "volumeClaimTemplates": [claim],
        "template": _template(batch=False),
    }
    return {"spec": spec}


def _bounds(rng: random.Random) -> Body:
    least = rng.randint(1, 4)
    return {"min": least, "max": least + rng.randint(0, 8)}


def _autoscaled(rng: random.Random) -> Body:
    scaling: Body = _bounds(rng)
    if rng.random() < 0.3:
        scaling["owner"] = "Member"
    if rng.random() < 0.3:
        scaling["chargePercent"] = 50
    return {"spec": {"autoscaling": scaling, "template": _template(batch=False)}}
