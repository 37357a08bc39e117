"""PinterestStatefulSet: numbered pods with storage of their own, in blocks over clusters."""

from typing import Final

from federator.kinds.kind import Column, workload
from federator.kinds.pods import lookup
from federator.kinds.shared import workloads
from federator.kinds.statefulset import ask, natives, schema, status
from federator.kinds.verbs import OrdinalVerbs, PodLookup
from federator.model.ask import Unit

VERBS: Final = workloads.verbs_of(
    unit=Unit.REPLICAS,
    count=ask.count,
    slots=ask.count,
    pod_template=workloads.pod_template,
    max_unavailable=ask.max_unavailable,
    render_slice=ask.render_slice,
    amount="replicas",
    observe=status.observe,
    slice_status=status.slice_status,
    host_status=status.host_status,
    lookup=PodLookup(lookup.by_label(schema.SELECTOR_LABEL), lookup.of_stateful_set),
    ordinals=OrdinalVerbs(ask.ordinals, natives.sets),
    expand=natives.expand,
)

KIND: Final = workload(
    "pintereststatefulsets",
    "psts",
    schema.PinterestStatefulSet,
    VERBS,
    (
        Column("Desired", ".status.desired", "integer", description="Ordinals asked for."),
        Column("Ready", ".status.ready", "integer", description="Ordinals certainly ready."),
        Column("Placed", ".status.placed", "integer", description="Ordinals given to clusters."),
        Column("Clusters", ".status.clusters", "integer", description="Clusters with a block."),
    ),
    scale=True,
)
