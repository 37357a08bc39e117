"""Job and single-template JobSet -> a drafted PinterestJobSet, CronJob -> a PinterestCronJob. Pure;
rows of `convert.DRAFTERS`.

Shards run in several clusters, each as an index of the Job there. What relies on a single Job (pods
that find each other by name, one retry count for all) is left, or gets a note. The program of an
Indexed Job must see its shard, not the index within the cluster: shell scripts get a first line
that sets it.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.convert import deployments, templates
from federator.convert.drafts import Draft, Drafts, Item, LeftAlone, listed, only_fields
from federator.kinds.cronjob import schema as cron
from federator.kinds.jobset import schema
from federator.kinds.shared import workloads

INDEX: Final = "JOB_COMPLETION_INDEX"
SHARD_LINE: Final = f"export {INDEX}=$((SHARD_BASE + {INDEX}))\n"
MAX_BACKOFF: Final = 1000
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_SCRIPT_FLAG: Final = re.compile(r"-[a-z]*c")
_INDEX_FIELD: Final = "batch.kubernetes.io/job-completion-index"

_JOB_FIELDS: Final = frozenset(
    {
        "completions",
        "parallelism",
        "completionMode",
        "backoffLimit",
        "backoffLimitPerIndex",
        "ttlSecondsAfterFinished",
        "activeDeadlineSeconds",
        "podFailurePolicy",
        "successPolicy",
        "maxFailedIndexes",
        "suspend",
        "template",
    }
)
_JOB_REASONS: Final[Mapping[str, str]] = {
    "podReplacementPolicy": "a job set replaces pods as soon as they fail or end",
    "selector": "a selector of its own would count pods that are not its own",
    "manualSelector": "a selector of its own would count pods that are not its own",
    "managedBy": "another controller runs it",
    "scheduling": "shards are not scheduled as a gang",
}
_SET_FIELDS: Final = frozenset(
    {
        "replicatedJobs",
        "suspend",
        "ttlSecondsAfterFinished",
        "network",
        "successPolicy",
        "startupPolicy",
    }
)
_SET_REASONS: Final[Mapping[str, str]] = {
    "failurePolicy": (
        "shards are tried again one by one; it restarts all of them, or none, together"
    ),
    "coordinator": "a pod that others find by its name lives in one cluster only",
    "volumeClaimPolicies": "volumes that shards share live in one cluster only",
    "managedBy": "another controller runs it",
    "gangPolicy": "shards are not scheduled as a gang",
}
_ACTIONS: Final = {"FailJob": "FailJobSet", "FailIndex": "FailShard"}
"""Actions of a podFailurePolicy that a job set calls otherwise."""
_SERVER_DEFAULTS: Final[Mapping[str, Any]] = {
    "podReplacementPolicy": "TerminatingOrFailed",
    "manualSelector": False,
    "managedBy": "kubernetes.io/job-controller",
}


class Together(LeftAlone):
    """Its pods belong together in one cluster: no shards, but a gang."""


def draft_job(item: Item, drafts: Drafts) -> Draft:
    """The draft. Raises LeftAlone with the reason, BadInput for fields of the wrong type."""
    spec = raw.mapping(item.obj, "spec")
    return _draft(
        item, drafts, spec, "spec", copies=1, suspend=raw.flag(spec, "suspend"), indexed=False
    )


_SAID: Final = (
    "schedule",
    "timeZone",
    "concurrencyPolicy",
    "startingDeadlineSeconds",
    "suspend",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
)
"""Fields of a CronJob that mean the same in a PinterestCronJob."""
_CRON_FIELDS: Final = frozenset({*_SAID, "jobTemplate"})


def draft_cronjob(item: Item, drafts: Drafts) -> Draft:
    """A PinterestCronJob; the template of its runs is what its job template becomes. Raises as
    `draft_job`."""
    spec = raw.mapping(item.obj, "spec")
    only_fields(spec, _CRON_FIELDS, {}, "spec")
    # The owner of a run is a label of its Job: the labels of the template are those of each run.
    meta = raw.mapping(spec, "jobTemplate", "metadata")
    of_run = {**meta, "name": item.name, "namespace": item.namespace}
    run, path = replace(item, obj={**item.obj, "metadata": of_run}), "spec.jobTemplate.spec"
    inner = raw.mapping(spec, "jobTemplate", "spec")
    made = _draft(run, drafts, inner, path, copies=1, suspend=False, indexed=False)
    kept = {
        name: made.obj["metadata"][name]
        for name in ("labels", "annotations")
        if name in made.obj["metadata"]
    }
    template = {**raw.present({"metadata": kept}), "spec": made.obj["spec"]}
    made.item, made.obj = (
        item,
        {
            "apiVersion": workloads.API_VERSION,
            "kind": cron.KIND,
            "metadata": deployments.metadata(item),
            "spec": {name: spec[name] for name in _SAID if name in spec}
            | {"jobTemplate": template},
        },
    )
    return made


def draft_jobset(item: Item, drafts: Drafts) -> Draft:
    """The draft. Raises LeftAlone with the reason, BadInput for fields of the wrong type."""
    spec = raw.mapping(item.obj, "spec")
    jobs = raw.objects(spec, "replicatedJobs")
    if not jobs:
        raise item.bad("spec.replicatedJobs", "is required")
    if len(jobs) > 1:
        named = listed([raw.text(job, "name") for job in jobs])
        raise Together(
            f"spec.replicatedJobs: it has {len(jobs)} templates ({named}), a PinterestJobSet has"
            " one"
        )
    given = {
        k: v
        for k, v in spec.items()
        if not (k == "managedBy" and v == "jobset.sigs.k8s.io/jobset-controller")
    }
    only_fields(given, _SET_FIELDS, _SET_REASONS, "spec")
    _only_plain_sets(item, spec, jobs[0])
    path = "spec.replicatedJobs[0].template.spec"
    copies = _count(item, jobs[0], "replicas", "spec.replicatedJobs[0]", default=1)
    inner = raw.mapping(jobs[0], "template", "spec")
    if copies > 1 and _count(item, inner, "completions", path, default=1) > 1:
        raise Together(
            f"spec.replicatedJobs[0].replicas: {copies} Jobs of several pods each number their"
            " pods alike, shards are "
            "numbered once"
        )
    made = _draft(
        item, drafts, inner, path, copies=copies, suspend=raw.flag(spec, "suspend"), indexed=True
    )
    if "ttlSecondsAfterFinished" in spec:
        made.obj["spec"]["ttlSecondsAfterFinished"] = _count(
            item, spec, "ttlSecondsAfterFinished", "spec", default=0
        )
    return made


def _only_plain_sets(item: Item, spec: Obj, job: Obj) -> None:
    """Raises LeftAlone for fields that tie the pods of a JobSet together."""
    network = raw.mapping(spec, "network")
    if raw.flag(network, "enableDNSHostnames") or (
        "enableDNSHostnames" not in network and raw.text(network, "subdomain")
    ):
        raise Together(
            "spec.network: its pods find each other by host names, which end at the border of a"
            " cluster"
        )
    if (
        raw.text(spec, "successPolicy", "operator") == "Any"
        and raw.integer(job, "replicas", default=1) > 1
    ):
        raise LeftAlone("spec.successPolicy: a job set is complete when every shard is, not any")
    for name in sorted(raw.mapping(item.obj, "metadata", "annotations")):
        if name.startswith("alpha.jobset.sigs.k8s.io/"):
            raise LeftAlone(
                f"metadata.annotations[{name}]: Jobs that exclude each other by topology are not"
                " offered"
            )
    allowed = frozenset({"name", "replicas", "template", "groupName"})
    only_fields(
        job, allowed, {"dependsOn": "there is nothing it could wait for"}, "spec.replicatedJobs[0]"
    )
    hosts = re.compile(
        rf"(?<![-\w]){re.escape(item.name)}-{re.escape(raw.text(job, 'name'))}-\d+-\d+(?![-\w])"
    )
    for text in templates.texts(raw.mapping(job, "template", "spec", "template")):
        if item.name and (match := hosts.search(text)):
            raise Together(
                f"its pods find each other by host name ({match.group()}), which ends at the"
                " border of a cluster"
            )


def _draft(
    item: Item, drafts: Drafts, spec: Obj, path: str, *, copies: int, suspend: bool, indexed: bool
) -> Draft:
    live = {
        "selector",
        *(name for name, value in _SERVER_DEFAULTS.items() if spec.get(name) == value),
    }
    given = {
        k: v
        for k, v in spec.items()
        if not (item.live and k in live) and _SERVER_DEFAULTS.get(k) != v
    }
    only_fields(given, _JOB_FIELDS, _JOB_REASONS, path)
    shards, slots = _size(item, spec, path, copies)
    mode = raw.text(spec, "completionMode", default="Indexed" if indexed else "NonIndexed")
    notes: list[str] = []
    template, _ = templates.tidy(
        raw.mapping(spec, "template"), f"{path}.template", notes.append, live=item.live
    )
    pod = template.get("spec") or {}
    if pod.get("subdomain") and shards > 1:
        raise LeftAlone(
            f"{path}.template.spec.subdomain: pods that find each other by name live in one"
            " cluster only"
        )
    if mode == "Indexed" and shards > 1 and copies == 1:
        _number(pod, f"{path}.template.spec", notes)
    if raw.text(pod, "restartPolicy") == "OnFailure":
        notes.append(
            f"{path}.template.spec.restartPolicy was OnFailure: a failed shard is tried again in a"
            " new pod"
        )
    if pod:
        pod["restartPolicy"] = "Never"
    out: dict[str, Any] = deployments.federation_fields(item)
    if suspend:
        out["suspend"] = True
    out["shards"] = shards
    if slots != shards:
        out["parallelism"] = slots
    out["backoffLimitPerShard"] = _backoff(item, spec, path, shards, notes)
    out |= _endings(item, spec, path, shards, copies)
    out["template"] = template
    meta = deployments.metadata(item)
    if least := _least(meta, slots):
        out["minParallelism"] = least
    queue = raw.text(meta, "labels", "kueue.x-k8s.io/queue-name")
    if queue:
        notes.append(
            f"label kueue.x-k8s.io/queue-name={queue} is carried; the federation's queue is its"
            " FederatedQuota"
        )
    obj = {"apiVersion": workloads.API_VERSION, "kind": schema.KIND, "metadata": meta, "spec": out}
    made = Draft(item, obj, f"{path}.template")
    for text in notes:
        drafts.note(made, text)
    deployments.note_annotations(made, drafts)
    return made


MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"


def _least(meta: dict[str, Any], slots: int) -> int:
    """Takes Kueue's annotation on partial admission; 0 where it says nothing, or nothing less."""
    text = raw.text(meta, "annotations", MIN_PARALLELISM)
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) < slots):
        return 0
    kept = {key: value for key, value in meta["annotations"].items() if key != MIN_PARALLELISM}
    meta.pop("annotations")
    meta |= {"annotations": kept} if kept else {}
    return int(text[:9])


def _count(item: Item, spec: Obj, name: str, path: str, *, default: int) -> int:
    value = spec.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise item.bad(f"{path}.{name}", "must be an integer, and not below 0")
    return value


def _size(item: Item, spec: Obj, path: str, copies: int) -> tuple[int, int]:
    """(shards, how many at once)."""
    at_once = _count(item, spec, "parallelism", path, default=1)
    if "completions" not in spec and at_once > 1:
        raise LeftAlone(
            f"{path}.completions: without it the {at_once} pods share a queue of work and end"
            " together; shards are "
            "counted"
        )
    completions = _count(item, spec, "completions", path, default=1)
    if completions == 0:
        raise LeftAlone(f"{path}.completions: 0 asks for nothing, a job set has at least one shard")
    if completions > schema.MAX_SHARDS:
        raise LeftAlone(
            f"{path}.completions: {completions} is more than {schema.MAX_SHARDS} shards"
        )
    return completions * copies, min(at_once, completions) * copies


def _backoff(item: Item, spec: Obj, path: str, shards: int, notes: list[str]) -> int:
    """A Job counts failures over all pods, a job set per shard."""
    if "backoffLimitPerIndex" in spec:
        name = "backoffLimitPerIndex"
        if spec.get("backoffLimit") not in (None, 2**31 - 1):
            notes.append(f"{path}.backoffLimit {spec['backoffLimit']} over all shards is left out")
    else:
        name = "backoffLimit"
    limit = _count(item, spec, name, path, default=6)
    if name == "backoffLimit" and shards > 1:
        notes.append(
            f"{path}.backoffLimit {limit} counted failures of all {shards} pods; now each shard"
            " has so many"
        )
    if limit > MAX_BACKOFF:
        notes.append(f"{path}.{name} {limit} becomes {MAX_BACKOFF}, the most that is allowed")
    return min(limit, MAX_BACKOFF)


def _endings(item: Item, spec: Obj, path: str, shards: int, copies: int) -> dict[str, Any]:
    """When it ends, and what failures mean. Raises LeftAlone for what a job set cannot say."""
    out: dict[str, Any] = {
        name: _count(item, spec, name, path, default=0)
        for name in ("activeDeadlineSeconds", "ttlSecondsAfterFinished")
        if name in spec
    }
    for name in ("successPolicy", "maxFailedIndexes"):
        if name in spec and copies > 1:
            raise LeftAlone(f"{path}.{name}: it is about each of {copies} Jobs by itself")
    failures: dict[str, Any] = {}
    if "maxFailedIndexes" in spec:
        failures["maxFailedShards"] = _count(item, spec, "maxFailedIndexes", path, default=0)
    if rules := raw.objects(spec, "podFailurePolicy", "rules"):
        failures["rules"] = [
            {**rule, "action": _ACTIONS.get(raw.text(rule, "action"), raw.text(rule, "action"))}
            for rule in rules
        ]
    if failures:
        out["failurePolicy"] = failures
    successes = raw.objects(spec, "successPolicy", "rules")
    if len(successes) > 1:
        raise LeftAlone(
            f"{path}.successPolicy.rules: it has {len(successes)} rules, a job set has one"
        )
    if "successPolicy" in spec and successes:
        count, named = successes[0].get("succeededCount"), successes[0].get("succeededIndexes")
        policy = raw.present({"succeededCount": count, "succeededShards": named})
        out |= {"completion": "SuccessPolicy", "successPolicy": policy}
        if count == 1 and not named and shards > 1:
            out |= {"completion": "Any"}
            del out["successPolicy"]
    return out


def _number(pod: dict[str, Any], path: str, notes: list[str]) -> None:
    """Makes the programs of an Indexed Job see their shard as the index. Raises LeftAlone where
    that is impossible."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(raw.items(pod, field)):
            if not isinstance(container, dict):
                continue
            here = f"{path}.{field}[{index}]"
            if any(_INDEX_FIELD in text for text in templates.texts(raw.items(container, "env"))):
                raise LeftAlone(
                    f"{here}.env: it reads the completion index of the Job, which in a job set"
                    " counts within one "
                    f"cluster; use SHARD_BASE + {INDEX}"
                )
            if _prefix_script(container):
                notes.append(
                    f"{here}: its script begins with a line that makes {INDEX} the number of the"
                    " shard"
                )
            elif any(INDEX in text for text in templates.texts(container)):
                raise LeftAlone(
                    f"{here}: it reads {INDEX}, which in a job set counts within one cluster; use"
                    f" SHARD_BASE + {INDEX}"
                )
            else:
                notes.append(
                    f"{here}: if its program reads {INDEX}, it must add SHARD_BASE, which is set"
                    " beside it"
                )


def _prefix_script(container: dict[str, Any]) -> bool:
    """Prepends the line to the script of `sh -c SCRIPT`, wherever command and args contain it.
    Returns whether it did."""
    words = [
        (name, index)
        for name in ("command", "args")
        for index in range(len(raw.items(container, name)))
    ]
    if "command" not in container or len(words) < 3:
        return False
    texts = [container[name][index] for name, index in words]
    if (
        not all(isinstance(word, str) for word in texts)
        or texts[0].rpartition("/")[2] not in _SHELLS
    ):
        return False
    for position in range(1, len(words) - 1):
        if _SCRIPT_FLAG.fullmatch(texts[position]):
            name, index = words[position + 1]
            container[name] = list(container[name])
            container[name][index] = SHARD_LINE + texts[position + 1]
            return True
        if not texts[position].startswith("-"):
            return False
    return False
