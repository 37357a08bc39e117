"""PinterestDaemon: a pod on every node of every cluster that matches, with its ConfigMap."""

from typing import Final

from federator.kinds.daemon import ask, natives, schema, status
from federator.kinds.kind import Column, workload
from federator.kinds.pods import lookup
from federator.kinds.shared import workloads
from federator.kinds.verbs import PodLookup
from federator.model.ask import Unit

VERBS: Final = workloads.verbs_of(
    unit=Unit.REPLICAS,
    count=ask.count,
    slots=ask.count,
    pod_template=ask.pod_template,
    max_unavailable=ask.max_unavailable,
    render_slice=ask.render_slice,
    amount="",
    observe=status.observe,
    slice_status=status.slice_status,
    host_status=status.host_status,
    lookup=PodLookup(lookup.by_label(schema.SELECTOR_LABEL), lookup.of_daemon_set),
    every_node=True,
    startup_taint=ask.startup_taint,
    expand=natives.expand,
)

KIND: Final = workload(
    "pinterestdaemons",
    "pdm",
    schema.PinterestDaemon,
    VERBS,
    (
        Column("Nodes", ".status.desired", "integer", description="Nodes that are to have it."),
        Column(
            "Ready", ".status.ready", "integer", description="Nodes on which it is certainly ready."
        ),
        Column(
            "Updated",
            ".status.updated",
            "integer",
            description="Nodes that have the current template.",
        ),
        Column(
            "Clusters", ".status.clusters", "integer", description="Clusters that are given it."
        ),
    ),
)
