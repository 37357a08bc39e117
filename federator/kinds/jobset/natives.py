"""PinterestJobSet -> ServiceAccount, ConfigMap, claims, and for each range of shards a ConfigMap of
their files and an Indexed Job.

A container finds its shard as SHARD_BASE + JOB_COMPLETION_INDEX, and the total in SHARD_COUNT. If
its shard may not run twice, it has FENCE_EPOCH, the seq of the slice that its Job was made for. A
later start of the shard, in any cluster, has a larger one.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import natives, verbs
from federator.kinds.jobset import ask, failures, guards, shardparts
from federator.kinds.jobset.schema import SELECTOR_LABEL
from federator.kinds.labels import SHARDS_ANNOTATION
from federator.kinds.shared import parts, workloads
from federator.model import names, shards
from federator.model.shards import Range, Ranges

COMPONENT: Final = "jobset"
EPOCH: Final = "FENCE_EPOCH"
LONGEST_POD_NAME: Final = 63
"""The name of a Job, a dash and its highest index form a host name."""


def expand(obj: Obj, profile: Obj | None) -> tuple[dict[str, Any], ...]:
    """The native objects of one slice, those that others need first. Raises FieldError as injection
    does.
    """
    mark = workloads.read_mark(obj)
    allowed = parallelism(obj)
    made_from = template(obj, profile, {SELECTOR_LABEL: parts.name_of(obj)})
    if (problem := shardparts.refusal(obj) or guards.refusal(obj)) is not None:
        raise problem
    shardparts.check_size(obj, pieces(obj), ask.count(obj))
    return (
        *parts.service_account(obj, mark, COMPONENT),
        *parts.config_map(obj, mark, COMPONENT),
        *shardparts.claims(obj, mark, COMPONENT),
        *(
            native
            for piece in pieces(obj)
            for native in (
                *_files(obj, mark, piece),
                _job(obj, mark, piece, made_from, allowed[piece]),
            )
        ),
    )


def _files(obj: Obj, mark: verbs.SliceMark | None, piece: Range) -> list[dict[str, Any]]:
    job = job_name(parts.name_of(obj), piece)
    return shardparts.files(obj, mark, COMPONENT, job, piece, ask.count(obj))


def pieces(obj: Obj) -> Ranges:
    """The ranges with a Job each: those of the slice, or all shards in a cluster without a
    federation.
    """
    mark = workloads.read_mark(obj)
    if mark is not None:
        return mark.ranges
    count = ask.count(obj)
    return ((0, count - 1),) if count else ()


def done(obj: Obj) -> Ranges:
    """Shards that the slice's status records as completed or failed for good."""
    status = raw.mapping(obj, "status")
    return shards.union(
        workloads.indexes(status, "completedIndexes"), workloads.indexes(status, "failedIndexes")
    )


def parallelism(obj: Obj) -> dict[Range, int]:
    """How many shards each piece may run at once: earlier pieces first, later ones get what those
    can no longer use.

    The bound of a piece does not fall while it runs dry (the Job controller counts that itself), so
    that a finished shard costs at most one write.
    """
    left = ask.slots(obj)
    finished = done(obj)
    allowed: dict[Range, int] = {}
    for piece in pieces(obj):
        size = shards.size((piece,))
        allowed[piece] = min(size, left)
        left -= min(left, shards.size(shards.minus((piece,), finished)))
    return allowed


def job_name(name: str, piece: Range) -> str:
    """`NAME-LOW-HIGH`, or a shortened name with a hash where the pods' names would be too long."""
    low, high = piece
    room = LONGEST_POD_NAME - 1 - len(str(high - low))
    plain = f"{name}-{low}-{high}"
    if len(plain) <= room:
        return plain
    digest = names.short_hash(name, str(low), str(high))
    return f"{name[: room - 1 - len(digest)].rstrip('-')}-{digest}"


def shards_of_pods(name: str, ranges: Ranges) -> Callable[[str, str], int | None]:
    """(name of a Job, completion index of its pod) -> the shard that the pod runs; None where
    neither the ranges of the slice nor the Job's name tell.
    """
    bases = {job_name(name, piece): piece[0] for piece in ranges}
    plain = re.compile(rf"{re.escape(name)}-(\d{{1,9}})-\d{{1,9}}", re.ASCII)

    def shard(job: str, index: str) -> int | None:
        base = bases.get(job)
        if base is None and (match := plain.fullmatch(job)):
            base = int(match[1])
        numbered = index.isascii() and index.isdecimal() and len(index) < 10
        return base + int(index) if base is not None and numbered else None

    return shard


def template(obj: Obj, profile: Obj | None, selector: Mapping[str, str]) -> dict[str, Any]:
    """What all pods of a job set's slice are made from, but for what tells their Job and shard."""
    made = parts.pod_template(obj, profile, selector, batch=True, config_hash=False)
    pod = made["spec"]
    pod["restartPolicy"] = "Never"
    if claims := shardparts.volumes(obj):
        taken = {claim["name"] for claim in claims}
        own = [volume for volume in raw.objects(pod, "volumes") if volume.get("name") not in taken]
        pod["volumes"] = [*own, *claims]
    # Without a federation nobody renews a lease, and nothing moves.
    if ask.guarded(obj) and workloads.read_mark(obj) is not None:
        made["spec"] = guards.guarded(pod, parts.own_containers(obj), profile)
    return made


def _job(
    obj: Obj, mark: verbs.SliceMark | None, piece: Range, made_from: Obj, running: int
) -> dict[str, Any]:
    name = parts.name_of(obj)
    meta = parts.metadata(obj, mark, job_name(name, piece), COMPONENT)
    meta["labels"][SELECTOR_LABEL] = name
    meta["annotations"] = {SHARDS_ANNOTATION: shards.text((piece,))}
    spec = job_spec(obj, made_from, piece, running, files=meta["name"])
    return natives.made("Job", meta, spec)


def job_spec(obj: Obj, made_from: Obj, piece: Range, running: int, *, files: str) -> dict[str, Any]:
    """`.spec` of the Job that runs these shards, so many at once. `files`: the name of its files'
    ConfigMap is made from this.
    """
    low, high = piece
    variables = {"SHARD_BASE": str(low), "SHARD_COUNT": str(ask.count(obj))}
    if ask.exclusive(obj) and (mark := workloads.read_mark(obj)) is not None:
        # A Job keeps the template that it was made with, so its pods keep their epoch.
        variables[EPOCH] = str(mark.seq)
    own = parts.own_containers(obj)
    pod = dict(made_from["spec"])
    for field in ("initContainers", "containers"):
        if field in pod:
            pod[field] = [
                shardparts.with_own_paths(obj, _numbered(c, variables))
                if c.get("name") in own
                else c
                for c in pod[field]
            ]
    if volume := shardparts.files_volume(obj, files):
        pod["volumes"] = [*raw.objects(pod, "volumes"), *volume]
    spec = {
        "completionMode": "Indexed",
        "completions": high - low + 1,
        "parallelism": running,
        # Said although it is the default: a Job that was stopped runs on when its shards come back
        # to the slice.
        "suspend": False,
        "backoffLimitPerIndex": max(raw.integer(obj, "spec", "backoffLimitPerShard", default=3), 0),
        "template": {**made_from, "spec": pod},
    }
    if (deadline_s := ask.bound(obj, "activeDeadlineSeconds")) is not None:
        spec["activeDeadlineSeconds"] = deadline_s
    if ask.exclusive(obj):
        # A pod that still terminates is not replaced before it has ended.
        spec["podReplacementPolicy"] = "Failed"
    if rules := failures.rules(obj):
        spec["podFailurePolicy"] = {"rules": rules}
    return spec


def _numbered(container: Obj, variables: dict[str, str]) -> dict[str, Any]:
    """With our variables, which no variable of the same name in the template may hide."""
    own = [entry for entry in raw.objects(container, "env") if entry.get("name") not in variables]
    ours = [{"name": name, "value": value} for name, value in variables.items()]
    return {**container, "env": [*ours, *own]}
