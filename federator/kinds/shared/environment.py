"""The standard environment: variables that give every container of a workload its project, owner
and cluster, and the labels by which people find the objects of a project.

They come with the pods that are made by rules 2 (`verbs.EXPANDER`), and change only when the pods
are made anew. A variable of the same name in the template or in the RuntimeProfile stands.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.verbs import Environment, SliceMark
from federator.model import interning
from federator.model.kubernetes import selectors

PREFIX: Final = "PINTEREST_"
PROJECT_LABEL: Final = "pinterest.com/project"
OWNER_LABEL: Final = "pinterest.com/owner"
_TOPOLOGY: Final = "topology.kubernetes.io/"

VARIABLES: Final[Mapping[str, str]] = {
    "PROJECT": "Quota account: `spec.project`, or the namespace where that is left out.",
    "OWNER": "Team of the FederatedQuota of the project (`spec.owner.team`), or of one above it.",
    "TIER": "Reserved, OnDemand or Preemptible.",
    "WORKLOAD_KIND": "Kind of the workload, such as PinterestService.",
    "WORKLOAD_NAME": "Its name.",
    "WORKLOAD_UID": "Uid of its object on the host: the same in all clusters.",
    "CLUSTER": "Name of the MemberCluster.",
    "REGION": "Its label `region`, or `topology.kubernetes.io/region`.",
    "ZONE": "Its label `zone`, or `topology.kubernetes.io/zone`.",
    "DEADLINE_SECONDS": "`spec.activeDeadlineSeconds`: so long after its start the work ends.",
    "CPU_REQUEST_MILLI": "CPU that this container requests, in thousandths of a core.",
    "MEMORY_REQUEST_BYTES": "Memory that this container requests, in bytes.",
}
"""Name without the prefix -> meaning. One without a value is left out."""
_REQUESTS: Final = (
    ("CPU_REQUEST_MILLI", "requests.cpu", "1m"),
    ("MEMORY_REQUEST_BYTES", "requests.memory", "1"),
)


def of_cluster(project: str, owner: str, labels: Mapping[str, str]) -> Environment:
    """What pods of this project are told in the cluster with these labels."""
    region, zone = (
        labels.get(name) or labels.get(_TOPOLOGY + name, "") for name in ("region", "zone")
    )
    return interning.value(Environment(project, owner, region, zone))


def applies(mark: SliceMark | None) -> bool:
    """Whether the pods of a slice have the environment."""
    return mark is not None and mark.rules.expander != verbs.BARE


def labels(mark: SliceMark | None) -> dict[str, str]:
    """The labels of project and owner, as far as they can be labels."""
    if mark is None or not applies(mark):
        return {}
    facts = mark.rules.environment
    texts = {PROJECT_LABEL: facts.project, OWNER_LABEL: facts.owner}
    return {
        name: text
        for name, text in texts.items()
        if text and selectors.check_label_value(text) is None
    }


def with_variables(obj: Obj, mark: SliceMark | None, pod: Obj) -> dict[str, Any]:
    """The pod with the variables in every container, in front: others may refer to them."""
    if mark is None or not applies(mark):
        return dict(pod)
    given = list(_variables(obj, mark))
    out = dict(pod)
    for field in ("initContainers", "containers"):
        if field in out:
            out[field] = [_given(container, given) for container in raw.objects(pod, field)]
    return out


def _given(container: Obj, variables: list[dict[str, Any]]) -> dict[str, Any]:
    own = raw.objects(container, "env")
    taken = {entry.get("name") for entry in own}
    ours = [entry for entry in variables if entry["name"] not in taken]
    return {**container, "env": [*ours, *own]}


def _variables(obj: Obj, mark: SliceMark) -> Iterator[dict[str, Any]]:
    where, deadline_s = mark.rules.environment, raw.integer(obj, "spec", "activeDeadlineSeconds")
    texts = {
        "PROJECT": where.project,
        "OWNER": where.owner,
        "TIER": str(raw.tier(obj, "spec", "tier")),
        "WORKLOAD_KIND": raw.text(obj, "kind"),
        "WORKLOAD_NAME": raw.text(obj, "metadata", "name"),
        "WORKLOAD_UID": mark.workload_uid,
        "CLUSTER": mark.cluster,
        "REGION": where.region,
        "ZONE": where.zone,
        "DEADLINE_SECONDS": str(deadline_s) if deadline_s > 0 else "",
    }
    for name, text in texts.items():
        if text:
            yield {"name": PREFIX + name, "value": text}
    for name, resource, divisor in _REQUESTS:
        source = {"resourceFieldRef": {"resource": resource, "divisor": divisor}}
        yield {"name": PREFIX + name, "valueFrom": source}
