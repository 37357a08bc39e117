"""Accounts that lend, borrow and take back, priorities that preempt, and gangs, in some worlds: what
is there, and what its user does.

Three accounts in one tree, in all three tiers, with workloads of their own in a namespace of their
own. Drawn from generators of their own: the worlds and scripts of the other seeds are what they are
without, and what else is in these worlds is what it would be.
"""

import random
from collections.abc import Iterator
from typing import Any, Final

from tests.simulation.drawing import Parameters, generator
from tests.simulation.halfdone import GANG, NAMESPACE, POD_CPU

PROJECTS: Final = ("north", "south")
CPUS: Final = 6
"""Of the tree in each tier; each of the two accounts below is guaranteed half of it."""
MOVES: Final = 8
SERVICES: Final = (
    ("web", "north", "OnDemand", 0),
    ("urgent", "north", "OnDemand", 100),
    ("page", "south", "OnDemand", 0),
    ("core", "south", "Reserved", 0),
    ("idle", "north", "Preemptible", 0),
    ("spare", "south", "Preemptible", 50),
)
"""Name, project, tier and priority."""
SERVICE, JOBSET = "PinterestService", "PinterestJobSet"
TIMEOUT_S: Final = 30
"""Of the gang."""
Body = dict[str, Any]
Move = tuple[str, str, str, Body]
"""What is done, to which kind and name, with which body."""


class Contest:
    """What the user of such a world does."""

    def __init__(self, parameters: Parameters) -> None:
        self.any = parameters.contest
        self._rng: random.Random = generator(parameters.seed, "contest script")
        self._gangs = 0

    def accounts(self) -> Iterator[tuple[str, Body]]:
        """(name, body) of FederatedQuotas, those above first."""
        if not self.any:
            return
        rng = self._rng
        whole = {
            tier: {"guaranteed": {"cpu": str(CPUS)}}
            for tier in ("Reserved", "OnDemand", "Preemptible")
        }
        ordering = rng.choice(({}, {"ordering": "Priority"}, {"ordering": "FairShare"}))
        yield NAMESPACE, {"spec": {"tiers": whole, "unknownProjects": "Allow", **ordering}}
        for project in PROJECTS:
            half: Body = {"guaranteed": {"cpu": str(CPUS // 2)}}
            tiers = {tier: dict(half) for tier in whole}
            if rng.random() < 0.3:
                tiers["OnDemand"]["lendingLimit"] = {"cpu": "2"}
            if rng.random() < 0.3:
                tiers["OnDemand"]["borrowingLimit"] = {"cpu": "2"}
            rules = {
                "reclaim": "Any",
                "withinProject": rng.choice(("Never", "LowerPriority", "LowerPriority")),
                "room": rng.choice(("Never", "Preemptible", "Borrowed")),
            }
            spec: Body = {"parent": NAMESPACE, "projects": [project], "tiers": tiers}
            spec |= {"preemption": rules, "reclaimNoticeSeconds": rng.choice((0, 0, 10))}
            if rng.random() < 0.3:
                spec["maxConcurrentWorkloads"] = rng.randint(2, 4)
            yield project, {"spec": spec}

    def begin(self) -> Iterator[Move]:
        for name, project, tier, priority in SERVICES if self.any else ():
            spec = {"project": project, "tier": tier, "priority": priority}
            spec |= {"replicas": self._rng.randint(0, 6), "template": _template(self._stops())}
            yield "create", SERVICE, name, {"spec": spec}
        if self.any:
            yield "create", JOBSET, "batch", self._batch()
            yield "create", GANG, "squad", self._squad()

    def moves(self) -> list[Move]:
        return [self._move() for _ in range(MOVES if self.any else 0)]

    def end(self) -> Iterator[Move]:
        """Both sides ask for all there is; what runs to its end goes."""
        if not self.any:
            return
        yield "delete", GANG, "squad", {}
        yield "delete", JOBSET, "batch", {}
        for name in ("web", "page"):
            yield "patch", SERVICE, name, {"spec": {"replicas": 2 * CPUS}}

    def _move(self) -> Move:
        rng, number = self._rng, self._rng.randrange(10)
        if number < 7:
            name = rng.choice(SERVICES)[0]
            count = rng.choice((0, 2, CPUS, 2 * CPUS))
            return "patch", SERVICE, name, {"spec": {"replicas": count}}
        if number == 7:
            return "re-create", JOBSET, "batch", self._batch()
        return "re-create", GANG, "squad", self._squad()

    def _stops(self) -> Body:
        """How long its pods take to end."""
        seconds = self._rng.choice(("0", "0", "3-10"))
        return {"embedded.federator/stop-seconds": seconds}

    def _batch(self) -> Body:
        """It begins with all its slots or not at all."""
        rng = self._rng
        run_s = {"embedded.federator/run-seconds": str(rng.randint(3, 20))}
        template = _template(run_s, restartPolicy="Never")
        spec: Body = {"project": "north", "shards": rng.randint(4, 10), "template": template}
        spec |= {"parallelism": rng.randint(2, 4), "priority": rng.choice((0, 10))}
        return {"spec": spec}

    def _squad(self) -> Body:
        rng = self._rng
        run_s = {"embedded.federator/run-seconds": str(rng.choice((20, 60, 600)))}
        components = [{"name": "master"}, {"name": "worker", "replicas": rng.randint(1, 4)}]
        spec: Body = {"project": "south", "components": components, "template": _template(run_s)}
        return {"spec": {**spec, "gangTimeoutSeconds": TIMEOUT_S, "priority": 10}}


def _template(annotations: Body, **more: Any) -> Body:
    requests = {"cpu": POD_CPU, "memory": "32Mi"}
    container = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container], **more}}
