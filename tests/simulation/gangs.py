"""Training jobs, by objects alone: a gang is given to one cluster, and none of its Jobs may begin
there before all of them are.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from federator.api import raw
from tests.simulation.invariants import Obj, Step, is_decision

KIND, NAMESPACE, NAME = "PinterestTrainingJob", "ads", "gang"
LABEL, COMPONENT = "pinterest.com/trainingjob", "pinterest.com/component"
APART = "1 a gang is in one cluster"
ALONE = "1 a gang begins together"
PER_MILLE = 100
"""Of all worlds, so many have a training job."""


def workers(rng: random.Random) -> int:
    """Workers of a world's training job; 0 for a world without one."""
    return rng.randint(1, 3) if rng.randrange(1000) < PER_MILLE else 0


def made(workers: int) -> dict[str, Any]:
    """The body of the training job, to be created: small, so that quotas of most worlds admit it."""
    requests = {"cpu": "50m", "memory": "32Mi"}
    container = {"name": "app", "image": "train:1", "resources": {"requests": requests}}
    template = {
        "metadata": {"annotations": {"embedded.federator/run-seconds": "20"}},
        "spec": {"containers": [container]},
    }
    components = [{"name": "master"}, {"name": "worker", "replicas": workers}]
    return {"spec": {"components": components, "gangTimeoutSeconds": 30, "template": template}}


class Gangs:
    """Rules without a memory."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if is_decision(step) and raw.text(step.obj, "spec", "workload", "kind") == KIND:
            return list(self._decided(step))
        if step.kind == "Job" and step.new is not None and step.writer.startswith("member"):
            return list(self._begun(step, step.new))
        return []

    def _decided(self, step: Step) -> Iterator[str]:
        self.judged[APART] += 1
        clusters = [raw.text(share, "cluster") for share in raw.objects(step.obj, "spec", "shares")]
        if len(clusters) > 1:
            yield f"{APART}: {step.name} is given to {', '.join(clusters)}"

    def _begun(self, step: Step, job: Obj) -> Iterator[str]:
        """A Job that is not suspended has all others beside it."""
        owner = next(iter(raw.objects(job, "metadata", "ownerReferences")), raw.NO_FIELDS)
        name = raw.text(job, "metadata", "labels", LABEL)
        if not name or raw.flag(job, "spec", "suspend") or owner.get("kind") != KIND:
            return
        space, uid = raw.text(job, "metadata", "namespace"), raw.text(owner, "uid")
        own = next(
            (obj for obj in step.all_of(KIND, step.cluster) if obj["metadata"].get("uid") == uid),
            None,
        )
        if own is None:
            return
        there: Counter[str] = Counter()
        cluster = step.clusters[step.cluster]
        for entry in cluster.store.items(cluster.registry.get("batch", "jobs")):
            other = entry.obj
            owners = raw.objects(other, "metadata", "ownerReferences")
            if any(raw.text(owner, "uid") == uid for owner in owners):
                role = raw.text(other, "metadata", "labels", COMPONENT)
                there[role] += raw.integer(other, "spec", "completions")
        self.judged[ALONE] += 1
        for component in raw.objects(own, "spec", "components"):
            role, wanted = component["name"], raw.integer(component, "replicas", default=1)
            if there[role] < wanted:
                yield f"{ALONE}: {space}/{step.name}: {there[role]} of {wanted} pods of {role}"
