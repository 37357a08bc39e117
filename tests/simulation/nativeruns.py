"""The runs of a cron job that goes from the hub to its clusters and back, by objects alone: a time
that the hub ran is run by no cluster, and none of them runs one twice.

The cron job is due every minute. Clusters that were restored from a backup have forgotten what they
ran, and are not judged any more.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from federator.api import raw
from tests.simulation.invariants import Obj, Step
from tests.simulation.recurrences import CRON, NAMESPACE, RUN

NAME = "sweep"
ONE_DECIDER = "1 a time is run by the hub or by clusters, once"
PER_MILLE = 100
"""Of all worlds, so many have such a cron job."""


def some(rng: random.Random) -> bool:
    return rng.randrange(1000) < PER_MILLE


def made(job_set: Obj, clusters: str) -> dict[str, Any]:
    """The body of the cron job, to be created. Its clusters begin."""
    work = {**job_set, "placement": {"clusters": {"names": list(clusters)}}}
    return {
        "spec": {
            "runs": "Native",
            "schedule": "* * * * *",
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": work},
        }
    }


class NativeRuns:
    """Remembers every run that there ever was."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()
        self._first: dict[str, object] = {}
        """Each cluster as it was first seen."""
        self._by_hub: set[int] = set()
        """Minutes since 1970."""
        self._by_cluster: dict[str, set[int]] = defaultdict(set)

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if step.old is not None or step.new is None or step.kind not in (RUN, "Job"):
            return []
        now = step.clusters[step.cluster]
        if self._first.setdefault(step.cluster, now) is not now:
            return []
        return list(self._ran(step, step.new))

    def _ran(self, step: Step, obj: Obj) -> Iterator[str]:
        meta = raw.mapping(obj, "metadata")
        owners = raw.objects(meta, "ownerReferences")
        if not owners or owners[0].get("name") != NAME or meta["namespace"] != NAMESPACE:
            return
        if step.cluster == "host" and owners[0]["kind"] == CRON:
            minute, ran = _of_hub(meta["name"]), self._by_hub
            others = any(minute in minutes for minutes in self._by_cluster.values())
        elif step.cluster != "host" and owners[0]["kind"] == "CronJob":
            minute = int(meta["name"].rpartition("-")[2])
            ran, others = self._by_cluster[step.cluster], minute in self._by_hub
        else:
            return
        self.judged[ONE_DECIDER] += 1
        if others or minute in ran:
            yield f"{ONE_DECIDER}: {meta['name']} in {step.cluster}"
        ran.add(minute)


def _of_hub(run: str) -> int:
    """The minute in a run's name."""
    stamp = run.rpartition("-")[2]
    day = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}"
    return int(raw.epoch_s(f"{day}T{stamp[8:10]}:{stamp[10:12]}:00Z")) // 60


def without_end(of_hub: Callable[..., Any]) -> Callable[..., Any]:
    """A hub that goes on deciding what its clusters decide: the bug that the rule has to find."""

    def decided(recurrence: Any, runs: Any, now_s: float, *, until_s: int | None = None) -> Any:
        return of_hub(recurrence, runs, now_s)

    return decided
