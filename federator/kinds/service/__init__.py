"""PinterestService: a service of interchangeable replicas, with its Service, Ingress and
ConfigMap.
"""

from typing import Final

from federator.kinds.kind import Column, workload
from federator.kinds.pods import lookup
from federator.kinds.service import ask, natives, schema, status
from federator.kinds.shared import workloads
from federator.kinds.verbs import PodLookup
from federator.model.ask import Unit

VERBS: Final = workloads.verbs_of(
    unit=Unit.REPLICAS,
    count=ask.count,
    slots=ask.count,
    pod_template=workloads.pod_template,
    max_unavailable=ask.max_unavailable,
    by_number=ask.by_number,
    disruptions=ask.disruptions,
    render_slice=ask.render_slice,
    amount="replicas",
    observe=status.observe,
    slice_status=status.slice_status,
    host_status=status.host_status,
    lookup=PodLookup(lookup.by_label(schema.SELECTOR_LABEL), lookup.of_replica_set),
    overlaps=True,
    bounds=ask.bounds,
    expand=natives.expand,
)

KIND: Final = workload(
    "pinterestservices",
    "psvc",
    schema.PinterestService,
    VERBS,
    (
        Column(
            "Desired",
            ".status.desired",
            "integer",
            description="Copies asked for, by the service or by its autoscalers.",
        ),
        Column("Ready", ".status.ready", "integer", description="Copies that are certainly ready."),
        Column("Clusters", ".status.clusters", "integer", description="Clusters with a share."),
        Column(
            "Placed", ".status.placed", "integer", description="Copies that clusters are given."
        ),
    ),
    scale=True,
)
