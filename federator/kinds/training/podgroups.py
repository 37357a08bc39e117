"""The PodGroup of a training job (`scheduling.k8s.io/v1beta1`, Kubernetes 1.37): with it the
cluster's scheduler binds the pods of all components at once, or none.

One group for all components: a group for each would let the master hold its node while no worker
finds one. The scheduler forgets pods that have completed, so the group waits for those that are
left: or a pod that is tried again would wait for ever.
"""

from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import natives
from federator.kinds.natives import POD_GROUP
from federator.kinds.shared import parts, workloads
from federator.kinds.training import ask
from federator.kinds.training.natives import COMPONENT
from federator.kinds.training.schema import SELECTOR_LABEL
from federator.kinds.verbs import LiveJob, Natives

_FIELD: Final = "schedulingGroup"


def ungrouped(obj: Obj) -> str:
    """Why its pods belong to no PodGroup of ours wherever it runs, in words; "" where they do."""
    if kind := ask.carrier(obj):
        return f"its Jobs are made by a {kind}"
    specs = [raw.mapping(role.template, "spec") for role in ask.roles(obj)]
    if any(_FIELD in spec for spec in specs):
        return f"its pod template names a {_FIELD} of its own"
    schedulers = {raw.text(spec, "schedulerName", default="default-scheduler") for spec in specs}
    if len(schedulers) > 1:
        return f"its components name several schedulers ({', '.join(sorted(schedulers))})"
    return ""


def grouped(obj: Obj, natives: Natives, live: Mapping[str, LiveJob], there: bool) -> Natives:
    """The natives for a cluster that serves PodGroups: before the Jobs the group, which the pods of
    Jobs name.

    Jobs keep the template that they were made with. One that was made when the cluster had no
    PodGroups stays without, and the group waits for the pods of the others; once it is there it
    goes with its slice.
    """
    name = parts.name_of(obj)
    new = LiveJob("" if ungrouped(obj) else name, 0)
    members = {
        job["metadata"]["name"]: job
        for job in natives
        if job["kind"] == "Job" and live.get(job["metadata"]["name"], new).group == name
    }
    if not members and not there:
        return natives
    left = sum(
        raw.integer(job, "spec", "completions") - live.get(made, new).succeeded
        for made, job in members.items()
    )
    made: list[dict[str, Any]] = []
    for native in natives:
        if native["kind"] == "Job" and not any(body["kind"] == POD_GROUP for body in made):
            made.append(_group(obj, native, max(left, 1)))
        inside = native["kind"] == "Job" and native["metadata"]["name"] in members
        made.append(_naming(native, name) if inside else native)
    return tuple(made)


def _group(obj: Obj, job: Obj, left: int) -> dict[str, Any]:
    meta = parts.metadata(obj, workloads.read_mark(obj), parts.name_of(obj), COMPONENT)
    meta["labels"] |= {SELECTOR_LABEL: parts.name_of(obj)}
    # A pod that is evicted alone would leave the others on their nodes, waiting for it.
    spec: dict[str, Any] = {
        "schedulingPolicy": {"gang": {"minCount": left}},
        "disruptionMode": {"all": {}},
    }
    # The scheduler takes a group only if its priority is that of its pods.
    if priority := raw.text(job, "spec", "template", "spec", "priorityClassName"):
        spec["priorityClassName"] = priority
    return natives.made(POD_GROUP, meta, spec)


def _naming(job: dict[str, Any], group: str) -> dict[str, Any]:
    template = job["spec"]["template"]
    pod = {**template["spec"], _FIELD: {"podGroupName": group}}
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": pod}}}
