"""How job sets end, by objects alone: by the rules that their owner gave and by no others, once,
and gone in time; and how often a shard is tried.

What each reason needs is reckoned here from the object as it is written (`REASONS`). Times are
those of the hubs' clock, which is the world's while no fault moves clocks: `jumped` says whether
one did.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from federator.api import raw
from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.model import names, shards
from federator.model.shards import Ranges
from tests.simulation.invariants import Obj, Step, all_of, finished
from tests.simulation.lives import JOBSET, NAMESPACE
from tests.simulation.world import World
from tests.worlds import EPOCH_S

BY_RULES = "1 a job set ends by its rules"
FINAL = "1 an end is final"
STAYS = "1 nothing goes before its time to live"
TRIES = "1 a shard is tried as often as it may"
DUE = "1 what has to end has ended"
AFTER = "1 nothing runs after the end"
GONE = "1 what has ended goes in time"
JUMPS = ("host-clock-jump", "hub-clock-jump")
LATE_S = 45.0
"""What happens by itself has happened so long after its time, in a world at rest."""
SECOND_S = 1.0
"""Times are written in whole seconds."""
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
POLICY = "PodFailurePolicy"


@dataclass(frozen=True, slots=True)
class Facts:
    """A job set as it is written, with what its status says of its shards."""

    spec: Obj
    completed: Ranges
    failed: Ranges
    ran_s: float
    """Since its first shard began; 0 where nothing is said of that."""
    by_policy: bool
    """A member's Job has failed by its pod failure policy."""

    @property
    def every(self) -> Ranges:
        return ((0, int(self.spec["shards"]) - 1),)

    @property
    def counted(self) -> Ranges:
        """The shards that a success policy counts."""
        named = raw.text(self.spec, "successPolicy", "succeededShards")
        return shards.parse(named) if named else self.every

    @property
    def need(self) -> int:
        if raw.text(self.spec, "completion") == "Any":
            return 1
        most = shards.size(self.counted)
        return raw.integer(self.spec, "successPolicy", "succeededCount", default=most)

    @property
    def succeeded(self) -> int:
        return shards.size(shards.intersect(self.completed, self.counted))

    @property
    def left(self) -> int:
        """Of the counted shards, those that have not failed for good."""
        return shards.size(shards.minus(self.counted, self.failed))


def _chosen(facts: Facts) -> bool:
    return raw.text(facts.spec, "completion") in ("Any", "SuccessPolicy")


def _all_ended(facts: Facts) -> bool:
    return not shards.minus(facts.every, shards.union(facts.completed, facts.failed))


REASONS: Mapping[str, Callable[[Facts], bool]] = {
    "AllShardsCompleted": lambda facts: not shards.minus(facts.every, facts.completed),
    "AnyShardCompleted": lambda facts: (
        raw.text(facts.spec, "completion") == "Any" and bool(facts.completed)
    ),
    "SuccessPolicyMet": lambda facts: (
        raw.text(facts.spec, "completion") == "SuccessPolicy" and facts.succeeded >= facts.need
    ),
    "ShardsFailed": lambda facts: bool(facts.failed) and _all_ended(facts),
    "SuccessPolicyUnreachable": lambda facts: _chosen(facts) and facts.left < facts.need,
    "MaxFailedShardsExceeded": lambda facts: (
        "maxFailedShards" in raw.mapping(facts.spec, "failurePolicy")
        and shards.size(facts.failed) > facts.spec["failurePolicy"]["maxFailedShards"]
    ),
    POLICY: lambda facts: facts.by_policy,
    "DeadlineExceeded": lambda facts: (
        "activeDeadlineSeconds" in facts.spec
        and facts.ran_s >= facts.spec["activeDeadlineSeconds"] - SECOND_S
    ),
}
"""Reason of an end -> whether it is one."""


def ended(job_set: Obj) -> tuple[str, str, float] | None:
    """(Complete or Failed, the reason, when) by the host's status; None while it has not."""
    for kind in ("Complete", "Failed"):
        shown = raw.condition(job_set, kind)
        if shown.get("status") == "True":
            when = raw.epoch_s(raw.text(shown, "lastTransitionTime"))
            return kind, raw.text(shown, "reason"), when
    return None


def over(kind: str, obj: Obj) -> Ranges:
    """Shards that need no run any more: the finished ones, and all of a job set that has ended."""
    if ended(obj) is None:
        return finished(obj)
    return ((0, registry.verbs_of(kind).count(obj) - 1),)


def facts_of(job_set: Obj, now_s: float, *, by_policy: bool) -> Facts:
    """`now_s` is epoch seconds."""
    status = raw.mapping(job_set, "status")
    began = raw.text(status, "startTime")
    completed, failed = (
        shards.normal(shards.parse(raw.text(status, f"{which}Indexes")))
        for which in ("completed", "failed")
    )
    ran_s = now_s - raw.epoch_s(began) if began else 0.0
    return Facts(raw.mapping(job_set, "spec"), completed, failed, ran_s, by_policy)


class Endings:
    """Remembers what failed in members. `now`: virtual monotonic seconds."""

    def __init__(self, now: Callable[[], float], jumped: Callable[[], bool]) -> None:
        self.judged: Counter[str] = Counter()
        self._now = now
        self._jumped = jumped
        self._host: EmbeddedCluster | None = None
        self._by_policy: set[str] = set()
        """uids of job sets of which a Job failed by its policy."""
        self._failures: Counter[tuple[str, str]] = Counter()
        """(uid of a Job, index) -> pods that failed, and count."""
        self._lost: set[tuple[str, str]] = set()
        """(uid of a Job, index) of shards that may not be tried again."""

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if step.cluster == "host":
            return list(self._stated(step)) if step.kind == JOBSET else []
        if step.kind == "Job" and step.new is not None:
            self._noted(step.new)
        return list(self._tried(step)) if step.kind == "Pod" and step.new is not None else []

    def _noted(self, job: Obj) -> None:
        for kind in ("FailureTarget", "Failed"):
            shown = raw.condition(job, kind)
            if (shown.get("status"), shown.get("reason")) == ("True", POLICY):
                self._by_policy.add(raw.text(job, "metadata", "labels", names.WORKLOAD_UID_LABEL))

    def _stated(self, step: Step) -> Iterator[str]:
        self._host = self._host or step.clusters["host"]
        if step.clusters["host"] is not self._host or not step.writer:
            return
        if step.new is None or "deletionTimestamp" in step.new["metadata"]:
            yield from self._gone(step)
            return
        now = ended(step.new)
        was = ended(step.old) if step.old is not None and step.same else None
        if was is not None:
            self.judged[FINAL] += 1
            if now is None or now[:2] != was[:2]:
                yield f"{FINAL}: {step.name}: it was {was[:2]}, and is {now and now[:2]}"
        elif now is not None:
            _, reason, when_s = now
            self.judged[BY_RULES] += 1
            uid = step.new["metadata"]["uid"]
            facts = facts_of(step.new, when_s, by_policy=uid in self._by_policy)
            if reason == "DeadlineExceeded" and self._jumped():
                return
            if not REASONS[reason](facts):
                yield (
                    f"{BY_RULES}: {step.name}: {reason}, and {shards.text(facts.completed)} are "
                    f"completed, {shards.text(facts.failed)} failed after {facts.ran_s:.0f} s"
                )

    def _gone(self, step: Step) -> Iterator[str]:
        """A hub deletes it: after its time to live. Runs of a cron job go by other rules."""
        last = step.old if step.old is not None else step.obj
        if raw.objects(last, "metadata", "ownerReferences") or self._jumped():
            return
        self.judged[STAYS] += 1
        end, ttl_s = ended(last), raw.at(last, "spec", "ttlSecondsAfterFinished")
        stayed_s = EPOCH_S + self._now() - end[2] if end is not None else 0.0
        if end is None or not isinstance(ttl_s, int) or stayed_s < ttl_s:
            yield f"{STAYS}: {step.name}: it goes {stayed_s:.0f} s after its end, to stay {ttl_s}"

    def _tried(self, step: Step) -> Iterator[str]:
        """A pod of a shard comes, or has failed."""
        pod = step.obj
        if raw.text(pod, "metadata", "namespace") != NAMESPACE:
            return
        owner = next(iter(raw.objects(pod, "metadata", "ownerReferences")), raw.NO_FIELDS)
        index = raw.text_map(pod, "metadata", "labels").get(INDEX_LABEL)
        spec = _spec_of(step, pod)
        if index is None or spec is None:
            return
        shard = raw.text(owner, "uid"), index
        if step.old is None:
            self.judged[TRIES] += 1
            limit = raw.integer(spec, "backoffLimitPerShard", default=3)
            if shard in self._lost or self._failures[shard] > limit:
                yield (
                    f"{TRIES}: {step.name}: it failed {self._failures[shard]} times, "
                    f"{limit} more than one are allowed, "
                    f"{'none' if shard in self._lost else 'any'} after such a failure"
                )
        elif _failed(pod) and not _failed(step.old):
            action = _action(spec, pod)
            if action == "FailShard":
                self._lost.add(shard)
            self._failures[shard] += action != "Ignore"


def _failed(pod: Obj) -> bool:
    return raw.text(pod, "status", "phase") == "Failed"


def _action(spec: Obj, pod: Obj) -> str:
    """What the failure policy makes of a failed pod; "" where no rule speaks of its exit code."""
    ends = raw.objects(pod, "status", "containerStatuses")
    codes = {raw.integer(one, "state", "terminated", "exitCode") for one in ends}
    for rule in raw.objects(spec, "failurePolicy", "rules"):
        if codes & set(raw.items(rule, "onExitCodes", "values")):
            return raw.text(rule, "action")
    return ""


def _spec_of(step: Step, pod: Obj) -> Obj | None:
    """The spec of the slice that a pod's shard is of."""
    uid = uid_of(step.clusters[step.cluster], pod)
    for obj in step.all_of(JOBSET, step.cluster):
        mark = registry.verbs_of(JOBSET).read_mark(obj)
        if uid and mark is not None and mark.workload_uid == uid:
            return raw.mapping(obj, "spec")
    return None


def uid_of(cluster: EmbeddedCluster, pod: Obj) -> str:
    """The uid on the host of the job set that a pod is of, as its Job says; "" where there is
    none.
    """
    owner = next(iter(raw.objects(pod, "metadata", "ownerReferences")), raw.NO_FIELDS)
    space, name = raw.text(pod, "metadata", "namespace"), raw.text(owner, "name")
    job = cluster.store.get(cluster.registry.get("batch", "jobs"), space, name)
    if job is None or job.obj["metadata"]["uid"] != owner.get("uid"):
        return ""
    return raw.text(job.obj, "metadata", "labels", names.WORKLOAD_UID_LABEL)


def job_sets(world: World) -> dict[str, Obj]:
    """uid -> job set, of those on the host that end by rules of their own."""
    found = all_of(world.federation.host, JOBSET)
    return {
        obj["metadata"]["uid"]: obj for obj in found if obj["metadata"]["namespace"] == NAMESPACE
    }


def ended_when_due(world: World) -> Iterator[str]:
    """What the rules of a job set say of its shards has been said by its status."""
    now_s = EPOCH_S + world.federation.clock.monotonic()
    for obj in job_sets(world).values():
        facts = facts_of(obj, now_s - LATE_S, by_policy=False)
        late = [reason for reason, is_one in REASONS.items() if is_one(facts)]
        late = [one for one in late if one != "DeadlineExceeded" or not _moved(world)]
        if late and ended(obj) is None:
            yield f"{obj['metadata']['name']} has not ended, by {', '.join(late)}"


def nothing_runs_after(world: World) -> Iterator[str]:
    """No pod of a job set that has ended runs, or waits to."""
    over = {uid: obj for uid, obj in job_sets(world).items() if ended(obj) is not None}
    for name, member in world.federation.members.items():
        running: dict[str, list[str]] = defaultdict(list)
        for entry in member.store.items(member.registry.get("", "pods"), NAMESPACE):
            pod = entry.obj
            uid = uid_of(member, pod)
            if uid in over and raw.text(pod, "status", "phase") in ("Pending", "Running"):
                running[uid].append(pod["metadata"]["name"])
        for uid, pods in running.items():
            yield f"{over[uid]['metadata']['name']} has ended, and {name} has {', '.join(pods)}"


def gone_in_time(world: World) -> Iterator[str]:
    """What has ended is deleted when its time to live is over."""
    now_s = EPOCH_S + world.federation.clock.monotonic()
    for obj in job_sets(world).values() if not _moved(world) else ():
        end, ttl_s = ended(obj), raw.at(obj, "spec", "ttlSecondsAfterFinished")
        if end is not None and isinstance(ttl_s, int) and now_s > end[2] + ttl_s + LATE_S:
            yield f"{obj['metadata']['name']} ended {now_s - end[2]:.0f} s ago, to stay {ttl_s}"


def _moved(world: World) -> bool:
    """Whether a fault has moved the clocks by which hubs reckon."""
    return any(world.fired[name] for name in JUMPS)
