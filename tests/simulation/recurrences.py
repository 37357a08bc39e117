"""The runs of cron jobs, by objects alone: each scheduled time has one run, or is counted as
missed.

Cron jobs of these worlds are due every minute, so that the rule counts minutes and asks no schedule
of ours.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from federator.api import raw
from tests.simulation.invariants import Obj, Step

CRON, RUN, NAMESPACE, NAME = "PinterestCronJob", "PinterestJobSet", "ads", "tick"
TWICE = "1 no run is made twice"
LOST = "1 each time has a run or is missed"
PER_MILLE = 100
"""Of all worlds, so many have a cron job."""
UNCOUNTED = 101
"""So many missed times at once, or more, are not counted one by one."""


def policy(rng: random.Random) -> str:
    """The concurrency policy of a world's cron job; "" for a world without one."""
    return rng.choice(("Allow", "Forbid", "Replace")) if rng.randrange(1000) < PER_MILLE else ""


def made(job_set: Obj, policy: str) -> dict[str, Any]:
    """The body of the cron job, to be created."""
    return {
        "spec": {
            "schedule": "* * * * *",
            "concurrencyPolicy": policy,
            "jobTemplate": {"spec": dict(job_set)},
        }
    }


class Recurrences:
    """Remembers every run that the first host has ever had. One that is restored from a backup has
    forgotten some.
    """

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()
        self._host: object = None
        self._runs: dict[str, Counter[str]] = defaultdict(Counter)
        """uid of a cron job -> how often each run was made."""

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if step.cluster != "host" or step.kind not in (CRON, RUN):
            return []
        self._host = self._host or step.clusters["host"]
        if step.clusters["host"] is not self._host:
            return []
        if step.kind == CRON:
            # Of one that its clusters run too, not all runs are seen here (`nativeruns`).
            return list(self._stated(step)) if step.obj["metadata"]["name"] == NAME else []
        return list(self._made(step))

    def _made(self, step: Step) -> Iterator[str]:
        owners = raw.objects(step.obj, "metadata", "ownerReferences")
        if step.old is not None or not owners or owners[0].get("kind") != CRON:
            return
        runs = self._runs[owners[0]["uid"]]
        runs[step.obj["metadata"]["name"]] += 1
        self.judged[TWICE] += 1
        if runs[step.obj["metadata"]["name"]] > 1:
            yield f"{TWICE}: {step.name}"

    def _stated(self, step: Step) -> Iterator[str]:
        """Up to the newest time that the status records, in minutes."""
        if step.new is None or not step.writer:
            return
        meta, status = step.new["metadata"], step.new.get("status") or {}
        recorded = max(_minute(status, "lastScheduleTime"), _minute(status, "lastMissedTime"))
        missed = int(status.get("missedRuns", 0))
        if not recorded or missed >= UNCOUNTED:
            return
        begun = _minute(meta, "creationTimestamp")
        runs = sum(1 for name in self._runs[meta["uid"]] if _due(name) <= recorded)
        self.judged[LOST] += 1
        if runs + missed != recorded - begun:
            yield f"{LOST}: {step.name}: {recorded - begun} minutes, {runs} runs, {missed} missed"


def _minute(obj: Obj, field: str) -> int:
    return int(raw.epoch_s(raw.text(obj, field))) // 60


def _due(run: str) -> int:
    """The minute in a run's name."""
    stamp = run.rpartition("-")[2]
    day = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}"
    return int(raw.epoch_s(f"{day}T{stamp[8:10]}:{stamp[10:12]}:00Z")) // 60
