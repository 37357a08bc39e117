"""Job sets that queue for a tight quota: in some seeds, three under an account in which only one
has a place at a time; at its beginning and end, their user takes clusters from all of them, and
gives them back, while one runs.

Drawn from a generator of its own: the worlds and scripts of the other seeds are the same with and
without.
"""

import random
from collections.abc import Iterator
from typing import Any

from tests.simulation.drawing import Parameters, generator

PROJECT, NAMESPACE = "batch", "ads"
NAMES = ("batch-1", "batch-2", "batch-3")
LIMIT_CPU = 4
"""Of the account, in cpus; a pod asks for half of one, and a job set for five to eight pods at
once.
"""
EARLY, LATE = 3, 5
"""So many moves at the beginning of the script, and at its end."""
MOVE_S = (2.0, 7.0)
"""Pause before each, in seconds: a job set runs for half a minute at most once it is admitted."""
Body = dict[str, Any]


class Backlog:
    """What the user of such a seed does with job sets."""

    def __init__(self, parameters: Parameters, clusters: str) -> None:
        self.any = parameters.backlog
        self._rng: random.Random = generator(parameters.seed, "backlog script")
        self._clusters = clusters

    def account(self) -> Body:
        """The FederatedQuota: of resources, or of workloads at a time."""
        limits = {"cpu": str(LIMIT_CPU), "memory": "64Gi"}
        spec: Body = {"projects": [PROJECT], "tiers": {"OnDemand": {"max": limits}}}
        if self._rng.random() < 0.3:
            spec = {
                **spec,
                "tiers": {"OnDemand": {"max": {"cpu": "64"}}},
                "maxConcurrentWorkloads": 1,
            }
        return {"spec": spec}

    def made(self) -> Body:
        """A job set of the queue."""
        requests = {"cpu": "500m", "memory": "64Mi"}
        template = {
            "metadata": {
                "annotations": {"embedded.federator/run-seconds": str(self._rng.randint(4, 8))}
            },
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "app", "image": "app:1", "resources": {"requests": requests}}
                ],
            },
        }
        shards, slots = self._rng.randint(10, 20), self._rng.randint(5, 8)
        spec: Body = {
            "project": PROJECT,
            "shards": shards,
            "parallelism": slots,
            "template": template,
        }
        if self._rng.random() < 0.7:
            spec["placement"] = {"division": {"strategy": "Spread"}}
        return {"spec": spec}

    def moves(self, count: int) -> Iterator[tuple[float, str, Body]]:
        """(pause in seconds, name, merge patch): so often, a cluster for all of them, whichever may
        be running.
        """
        for _ in range(count if self.any else 0):
            gone = (
                {"exclude": [self._rng.choice(self._clusters)]}
                if self._rng.random() < 0.75
                else None
            )
            pause_s = round(self._rng.uniform(*MOVE_S), 3)
            for name in NAMES:
                yield pause_s, name, {"spec": {"placement": {"clusters": gone}}}
                pause_s = 0.0
