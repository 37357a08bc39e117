"""Stand-ins for the controllers of JobSet and Kubeflow Trainer, where a fleet file asks for them
(`operators` of a member): clients of one embedded cluster, which also define their kinds there.

They do what training jobs need of the real ones, and name conditions as they do: Jobs of all
replicated jobs at once, suspended with their JobSet; success policy All; a JobSet fails with its
first failed Job. Restarts, start-up order and volume claim policies they have not.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.kinds.natives import NATIVES
from federator.kinds.shared import parts
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.supervisor import Supervisor
from federator.kube.control.work_queue import WorkQueue
from federator.kube.store import Key, Store
from federator.kube.watch.reflector import Reflector
from federator.model.kubernetes import diffs
from federator.model.steps import ObjectRef, RequeueAfter
from federator.status import conditions
from federator.status.conditions import Condition

JOB_SET: Final = "JobSet"
TRAIN_JOB: Final = "TrainJob"
_DEFINED: Final[Mapping[str, Sequence[str]]] = {
    JOB_SET: (JOB_SET,),
    TRAIN_JOB: (JOB_SET, TRAIN_JOB, "TrainingRuntime"),
}
"""Kinds that come with each operator."""
_PREFIX: Final = "jobset.sigs.k8s.io/"
_RETRY_S: Final = 5.0


def definitions(operator: str) -> list[dict[str, Any]]:
    """The definitions of an operator's kinds."""
    return [definition(kind) for kind in _DEFINED[operator]]


def definition(kind: str) -> dict[str, Any]:
    """The definition of a native kind, with any content."""
    row = NATIVES[kind]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": row.api_version.rpartition("/")[2],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    named = {"plural": row.plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{row.plural}.{row.group}",
            # groups of Kubernetes itself are protected
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in"},
        },
        "spec": {
            "group": row.group,
            "names": {"kind": kind, **named},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


async def define(client: Client, crds: Sequence[Mapping[str, Any]]) -> None:
    """Defines kinds in a cluster."""
    for crd in crds:
        name = crd["metadata"]["name"]
        ref = ObjectRef(crd["apiVersion"], "customresourcedefinitions", "", name)
        try:
            await client.create(ref, crd)
        except errors.AlreadyExists:
            continue


class Operators:
    """The stand-ins of one cluster. `run` until cancelled."""

    def __init__(self, client: Client, *, clock: Clock, rng: random.Random, operator: str) -> None:
        self._client, self._clock, self._rng = client, clock, rng
        self._operator = operator
        self._stores: dict[str, Store[dict[str, Any]]] = {
            kind: Store(kind) for kind in (*_DEFINED[operator], "Job")
        }
        self._stores["Job"].add_index("owner", _owners)
        self._job_sets: WorkQueue[Key] = WorkQueue("job sets", rng=rng)
        self._train_jobs: WorkQueue[Key] = WorkQueue("train jobs", rng=rng)

    async def run(self) -> None:
        await define(self._client, definitions(self._operator))
        async with Supervisor("operators", rng=self._rng) as supervisor:
            for kind in self._stores:
                supervisor.start(f"reflector {kind}", self._reflector(kind).run)
            supervisor.start("job sets", self._job_sets.run, self._job_set, 1)
            supervisor.start("train jobs", self._train_jobs.run, self._train_job, 1)
            await asyncio.Event().wait()

    def _reflector(self, kind: str) -> Reflector[dict[str, Any]]:
        row = NATIVES[kind]
        return Reflector(
            self._client,
            row.api_version,
            row.plural,
            self._stores[kind],
            project=lambda obj: obj,
            on_change=self._on_change(kind),
            clock=self._clock,
            rng=self._rng,
        )

    def _on_change(self, kind: str) -> Any:
        def changed(key: Key, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            if kind == "Job":
                for owner in raw.objects(new or old, "metadata", "ownerReferences"):
                    self._job_sets.add((key[0], raw.text(owner, "name")))
                return
            if kind == JOB_SET:
                self._job_sets.add(key)
            self._train_jobs.add(key)  # its runtime and its JobSet have its name

        return changed

    # -- JobSet ---------------------------------------------------------------

    async def _job_set(self, key: Key) -> RequeueAfter | None:
        obj = self._stores[JOB_SET].get(key)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return None
        if not self._stores["Job"].synced:
            return RequeueAfter(key, _RETRY_S, "Jobs are not listed yet")
        own = [job for _, job in self._stores["Job"].by_index("owner", obj["metadata"]["uid"])]
        ended = _is(obj, "Completed") or _is(obj, "Failed")
        verdict = None if ended else _verdict(obj, own)
        if ended or verdict is not None:
            for job in own:
                if not _is(job, "Complete") and not _is(job, "Failed"):
                    await self._delete(job)
        else:
            await self._make(obj, {job["metadata"]["name"]: job for job in own})
        await self._tell(JOB_SET, obj, _job_set_status(obj, own), verdict)
        return None

    async def _make(self, obj: dict[str, Any], own: Mapping[str, dict[str, Any]]) -> None:
        """The Service and the Jobs that are missing; the others run or stop with the JobSet."""
        suspend, total = raw.flag(obj, "spec", "suspend"), 0
        await self._create(_service(obj))
        for replicated in raw.objects(obj, "spec", "replicatedJobs"):
            for index in range(raw.integer(replicated, "replicas", default=1)):
                job = _job(obj, replicated, index, total)
                total += 1
                live = own.get(job["metadata"]["name"])
                if live is None:
                    await self._create(job)
                elif raw.flag(live, "spec", "suspend") != suspend and not _is(live, "Complete"):
                    ref = _ref("batch/v1", "jobs", live)
                    await self._client.patch(ref, {"spec": {"suspend": suspend}})

    # -- TrainJob -------------------------------------------------------------

    async def _train_job(self, key: Key) -> RequeueAfter | None:
        if self._operator != TRAIN_JOB:
            return None
        obj = self._stores[TRAIN_JOB].get(key)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return None
        name = raw.text(obj, "spec", "runtimeRef", "name")
        runtime = self._stores["TrainingRuntime"].get((key[0], name))
        if runtime is None:
            return RequeueAfter(key, _RETRY_S, "its runtime is not there yet")
        suspend = {"suspend": raw.flag(obj, "spec", "suspend")}
        live = self._stores[JOB_SET].get(key)
        if live is None:
            spec = {**raw.mapping(runtime, "spec", "template", "spec"), **suspend}
            await self._create(_owned(obj, NATIVES[JOB_SET].api_version, JOB_SET, key[1], spec))
            return None
        if raw.flag(live, "spec", "suspend") != suspend["suspend"]:
            ref = _ref(NATIVES[JOB_SET].api_version, NATIVES[JOB_SET].plural, live)
            await self._client.patch(ref, {"spec": suspend})
        verdict = None
        for theirs, type_ in (("Completed", "Complete"), ("Failed", "Failed")):
            ended = conditions.find(raw.items(live, "status", "conditions"), theirs)
            if ended is not None:
                text = raw.text(ended, "reason"), raw.text(ended, "message")
                verdict = Condition(type_, conditions.TRUE, *text)
        await self._tell(TRAIN_JOB, obj, {}, verdict)
        return None

    # -- writing --------------------------------------------------------------

    async def _tell(
        self, kind: str, obj: dict[str, Any], status: dict[str, Any], verdict: Condition | None
    ) -> None:
        live = raw.mapping(obj, "status")
        merged = conditions.merge(
            live.get("conditions"), [verdict] if verdict else [], self._clock.rfc3339()
        )
        wanted = {**live, **status} | raw.present({"conditions": merged})
        if patch := diffs.replacement_patch(live, wanted):
            ref = _ref(NATIVES[kind].api_version, NATIVES[kind].plural, obj)
            await self._client.patch(ref, {"status": patch}, subresource="status")

    async def _create(self, obj: dict[str, Any]) -> None:
        plurals = {"Service": "services", "Job": "jobs", JOB_SET: "jobsets"}
        try:
            await self._client.create(_ref(obj["apiVersion"], plurals[obj["kind"]], obj), obj)
        except errors.AlreadyExists:
            return

    async def _delete(self, job: dict[str, Any]) -> None:
        try:
            await self._client.delete(_ref("batch/v1", "jobs", job), uid=job["metadata"]["uid"])
        except errors.NotFound:
            return


def _ref(api_version: str, plural: str, obj: Mapping[str, Any]) -> ObjectRef:
    meta = obj["metadata"]
    return ObjectRef(api_version, plural, meta["namespace"], meta["name"])


def _owners(obj: dict[str, Any]) -> tuple[str, ...]:
    owners = raw.objects(obj, "metadata", "ownerReferences")
    return tuple(raw.text(owner, "uid") for owner in owners)


def _is(obj: Mapping[str, Any], type_: str) -> bool:
    return conditions.is_true(raw.items(obj, "status", "conditions"), type_)


def _verdict(obj: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> Condition | None:
    if any(_is(job, "Failed") for job in own):
        message = "jobset failed due to one or more job failures"
        return Condition("Failed", conditions.TRUE, "FailedJobs", message)
    targets = raw.texts(obj, "spec", "successPolicy", "targetReplicatedJobs")
    counted = [
        replicated
        for replicated in raw.objects(obj, "spec", "replicatedJobs")
        if not targets or raw.text(replicated, "name") in targets
    ]
    wanted = sum(raw.integer(replicated, "replicas", default=1) for replicated in counted)
    names = {raw.text(replicated, "name") for replicated in counted}
    done = sum(_is(job, "Complete") and _replicated(job) in names for job in own)
    if done < wanted:
        return None
    message = "jobset completed successfully"
    return Condition("Completed", conditions.TRUE, "AllJobsCompleted", message)


def _replicated(job: Mapping[str, Any]) -> str:
    return raw.text(job, "metadata", "labels", f"{_PREFIX}replicatedjob-name")


def _job_set_status(obj: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = []
    for replicated in raw.objects(obj, "spec", "replicatedJobs"):
        name = raw.text(replicated, "name")
        jobs = [job for job in own if _replicated(job) == name]
        succeeded = sum(_is(job, "Complete") for job in jobs)
        failed = sum(_is(job, "Failed") for job in jobs)
        rows.append(
            {
                "name": name,
                "active": sum(raw.integer(job, "status", "active") > 0 for job in jobs),
                "suspended": sum(raw.flag(job, "spec", "suspend") for job in jobs),
                "succeeded": succeeded,
                "failed": failed,
            }
        )
    return {"replicatedJobsStatus": rows, "restarts": 0}


def _owned(
    owner: Mapping[str, Any], api_version: str, kind: str, name: str, spec: Mapping[str, Any]
) -> dict[str, Any]:
    space = owner["metadata"]["namespace"]
    meta = {"name": name, "namespace": space, "ownerReferences": [parts.owner(owner)]}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": dict(spec)}


def _subdomain(obj: Mapping[str, Any]) -> str:
    return raw.text(obj, "spec", "network", "subdomain") or str(obj["metadata"]["name"])


def _service(obj: Mapping[str, Any]) -> dict[str, Any]:
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {f"{_PREFIX}jobset-name": obj["metadata"]["name"]},
    }
    return _owned(obj, "v1", "Service", _subdomain(obj), spec)


def _job(
    obj: Mapping[str, Any], replicated: Mapping[str, Any], index: int, number: int
) -> dict[str, Any]:
    """One Job of a replicated job, numbered `index` there and `number` in the JobSet."""
    role = raw.text(replicated, "name")
    template = raw.mapping(replicated, "template")
    marks = {
        f"{_PREFIX}jobset-name": obj["metadata"]["name"],
        f"{_PREFIX}replicatedjob-name": role,
        f"{_PREFIX}job-index": str(index),
        f"{_PREFIX}job-global-index": str(number),
    }
    spec = dict(raw.mapping(template, "spec"))
    pods = raw.mapping(spec, "template")
    spec["template"] = {
        "metadata": _marked(raw.mapping(pods, "metadata"), marks),
        "spec": {**raw.mapping(pods, "spec"), "subdomain": _subdomain(obj)},
    }
    spec["suspend"] = raw.flag(obj, "spec", "suspend")
    job = _owned(obj, "batch/v1", "Job", f"{obj['metadata']['name']}-{role}-{index}", spec)
    job["metadata"] |= _marked(raw.mapping(template, "metadata"), marks)
    return job


def _marked(meta: Mapping[str, Any], marks: Mapping[str, str]) -> dict[str, Any]:
    return {name: {**raw.text_map(meta, name), **marks} for name in ("labels", "annotations")}
