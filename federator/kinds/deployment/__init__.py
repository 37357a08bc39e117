"""A plain apps/v1 Deployment, carried as it is: no schema of ours, and no native objects beside it.

On the host people may annotate `federation.pinterest.com/{policy,project,tier,priority,suspend}`;
in members the hub writes the slice annotation, and the member may add what the native status cannot
say in `federation.pinterest.com/member-status`.
"""

from typing import Final

from federator.kinds import verbs
from federator.kinds.deployment import ask, status
from federator.kinds.kind import Column, Kind
from federator.kinds.pods import lookup, podparts
from federator.kinds.verbs import PodLookup, WorkloadVerbs
from federator.model.ask import Unit

VERBS: Final = WorkloadVerbs(
    unit=Unit.REPLICAS,
    count=ask.count,
    slots=ask.count,
    pod_template=ask.pod_template,
    pods=podparts.of_native,
    project=ask.project,
    tier=ask.tier,
    priority=ask.priority,
    placement=ask.placement,
    fields=ask.FIELDS,
    suspended=ask.suspended,
    profile=ask.no_profile,
    sidecars=ask.no_parameters,
    max_unavailable=ask.max_unavailable,
    by_number=ask.by_number,
    halted=ask.paused,
    render_slice=ask.render_slice,
    amount="replicas",
    read_mark=verbs.mark_of_annotation,
    observe=status.observe,
    slice_status=status.slice_status,
    host_status=status.host_status,
    lookup=PodLookup(lookup.by_spec_selector, lookup.of_replica_set),
    overlaps=True,
)

KIND: Final = Kind(
    "Deployment",
    "apps",
    "v1",
    "deployments",
    "deployment",
    ("deploy",),
    namespaced=True,
    columns=(
        Column("Desired", ".spec.replicas", "integer"),
        Column("Ready", ".status.readyReplicas", "integer"),
        Column("Up-to-date", ".status.updatedReplicas", "integer"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    verbs=VERBS,
    categories=(),
)
