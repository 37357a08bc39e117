"""Schema of PinterestService: the models that its CRD is generated from and files are checked
by.
"""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api.common import (
    ATOMIC,
    SEQ_RULE,
    Amount,
    Count,
    DnsLabel,
    IntOrPercent,
    Labels,
    Model,
    Port,
    Quantity,
    list_map,
    many,
    named,
    rules,
)
from federator.api.runtimeprofile import GatewayName
from federator.kinds.shared import ports
from federator.kinds.shared.workloadfields import (
    NAME_RULE,
    ClusterRow,
    PinterestKind,
    WorkloadSpec,
    WorkloadStatus,
    rows_of,
)

KIND: Final = "PinterestService"
SELECTOR_LABEL: Final = "pinterest.com/service"
"""Label of its pods, with the workload's name as value: selector of Deployment and Service, never
changed.
"""


class ServicePort(ports.ServicePort):
    """A port of the service."""

    node_port: Port | None = None
    """Port on every node, for the types NodePort and LoadBalancer; each cluster draws one when left
    out.
    """


HEADLESS_RULE = (
    "!has(self.headless) || !self.headless || !has(self.type) || self.type == 'ClusterIP'",
    "a headless service has type ClusterIP",
)
NODE_PORT_RULE = (
    "(has(self.type) && self.type != 'ClusterIP') || self.ports.all(p, !has(p.nodePort))",
    "a nodePort needs type NodePort or LoadBalancer",
)


class ServiceFields(Model):
    """The Service in front of the pods, the same in every cluster."""

    model_config = ConfigDict(json_schema_extra=rules(HEADLESS_RULE, NODE_PORT_RULE))

    annotations: dict[str, Annotated[str, Field(max_length=8192)]] = named(64)
    """Annotations of the Service that each cluster gets."""
    ports: Annotated[
        list[ServicePort],
        Field(min_length=1, max_length=64, json_schema_extra=list_map("port", "protocol")),
    ]
    """Its ports."""
    headless: bool | None = None
    """True for a Service without an address of its own: names resolve to pods."""
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    """ClusterIP when left out. With NodePort and LoadBalancer each cluster opens it to the outside
    in its own way.
    """
    session_affinity: Literal["None", "ClientIP"] | None = None
    """ClientIP keeps a client on one pod of the cluster that it reaches."""
    publish_not_ready_addresses: bool | None = None
    """True when pods are found by name before they are ready."""
    export: bool | None = None
    """True makes a ServiceExport of the same name in each cluster that serves that kind
    (multicluster.x-k8s.io/v1alpha1), by which other clusters find the Service.
    """

    @model_validator(mode="after")
    def _kept(self) -> "ServiceFields":
        outside = self.type in ("NodePort", "LoadBalancer")
        if self.headless and outside:
            raise PydanticCustomError("headless", HEADLESS_RULE[1])
        if not outside and any(port.node_port is not None for port in self.ports):
            raise PydanticCustomError("nodePort", NODE_PORT_RULE[1])
        return self


class NamedService(ServiceFields):
    """A further Service over the same pods, under a name of its own."""

    name: Annotated[str, Field(max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    """Its name in every cluster; not that of the workload."""


HOST_PATTERN: Final = r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
HostName = Annotated[str, Field(max_length=253, pattern=HOST_PATTERN)]


class LoadBalancer(Model):
    """A door from outside: one rule of the Ingress, or of an HTTPRoute."""

    port: Port
    """Port of the service that requests go to."""
    protocol: Literal["http"] = "http"
    """Protocol; only http is offered."""
    host: HostName | None = None
    """Host name of the requests; every host when left out."""
    path: Annotated[str, Field(max_length=512, pattern=r"^/")] = "/"
    """Prefix of the requests' path."""


class UpdateStrategy(Model):
    """How pods are replaced within one cluster."""

    max_surge: IntOrPercent | None = None
    """Pods above the wanted number while replacing; 25% when left out."""
    max_unavailable: IntOrPercent | None = None
    """Pods that may be missing while replacing or moving; 25% when left out."""
    min_ready_seconds: Count | None = None
    """A pod counts as available after it was ready for so long."""
    progress_deadline_seconds: Count | None = None
    """Without progress for so long, the roll-out counts as failed; 600 when left out."""


class DisruptionBudget(Model):
    """A PodDisruptionBudget in each cluster, so that drains of its nodes are orderly; and a bound
    on what leaves at once when others take back a quota."""

    max_unavailable: IntOrPercent | None = None
    """Pods of one cluster's share that may be missing at once while nodes are drained, and that
    leave in one minute for a quota which others take back: that of updateStrategy when left out,
    and 25% where that says nothing. With 0 no drain of a node ends by itself, and one copy a minute
    leaves for a quota.
    """


METRIC_RULES = (
    (
        "(has(self.resource) ? 1 : 0) + (has(self.pods) ? 1 : 0)"
        " + (has(self.external) ? 1 : 0) == 1",
        "a metric names one of resource, pods and external",
    ),
    (
        "has(self.averageUtilization) != has(self.averageValue)",
        "a metric has one of averageUtilization and averageValue",
    ),
    (
        "!has(self.averageUtilization) || has(self.resource)",
        "averageUtilization is of a resource that containers request",
    ),
    ("!has(self.container) || has(self.resource)", "a container is named for a resource only"),
    (
        "!has(self.matchLabels) || !has(self.resource)",
        "a resource has no labels; matchLabels select among metrics of pods and external ones",
    ),
)
SCALING_RULES = (
    ("self.min <= self.max", "min is not above max"),
    (
        "!has(self.owner) || self.owner != 'Member'"
        " || (!has(self.metrics) && !has(self.scaleDownStabilizationSeconds))",
        "with owner Member, metrics and stabilization are said by the cluster's own autoscaler",
    ),
)


class Metric(Model):
    """What the autoscaler of each cluster keeps near a target, averaged over the pods there."""

    model_config = ConfigDict(json_schema_extra=rules(*METRIC_RULES))

    resource: Literal["cpu", "memory"] | None = None
    """Use of a resource, by the pods or by one container of each."""
    container: DnsLabel | None = None
    """The container that is measured; all of them when left out."""
    pods: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name of a metric that each pod has, of the custom metrics API."""
    external: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name of a metric of the external metrics API."""
    match_labels: Labels | None = None
    """Labels of the metric."""
    average_utilization: (
        Annotated[int, Field(ge=1, le=1000, json_schema_extra={"format": "int32"})] | None
    ) = None
    """Percent of what the containers request."""
    average_value: Quantity | None = None
    """Amount for each pod, such as 100 or 500m."""

    @model_validator(mode="after")
    def _one_of_each(self) -> "Metric":
        named = [self.resource, self.pods, self.external]
        met = (
            sum(name is not None for name in named) == 1,
            (self.average_utilization is None) != (self.average_value is None),
            self.average_utilization is None or self.resource is not None,
            self.container is None or self.resource is not None,
            self.match_labels is None or self.resource is None,
        )
        for holds, (_, message) in zip(met, METRIC_RULES, strict=True):
            if not holds:
                raise PydanticCustomError("metric", "{problem}", {"problem": message})
        return self


class Autoscaling(Model):
    """How many copies run is decided by an autoscaler in each cluster, between bounds."""

    model_config = ConfigDict(json_schema_extra=rules(*SCALING_RULES))

    min: Annotated[int, Field(ge=1, le=1_000_000, json_schema_extra={"format": "int32"})]
    """At least so many copies over all clusters, and one in each that has a share."""
    max: Annotated[int, Field(ge=1, le=1_000_000, json_schema_extra={"format": "int32"})]
    """At most so many copies over all clusters."""
    owner: Literal["Federation", "Member"] | None = None
    """Federation (when left out): each cluster gets a HorizontalPodAutoscaler with its part of min
    and max, which follow the shares. Member: an autoscaler that is already there (such as KEDA)
    owns the copies; the federation makes none, and places and charges the service.
    """
    metrics: (
        Annotated[list[Metric], Field(min_length=1, max_length=16, json_schema_extra=ATOMIC)] | None
    ) = None
    """What is kept near its target; 80% of the requested cpu when left out."""
    charge_percent: (
        Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})] | None
    ) = None
    """How far from min to max quota and room are taken: 100 (max) when left out. With less, copies
    above that find room only where the clusters have some left.
    """
    scale_down_stabilization_seconds: (
        Annotated[int, Field(ge=0, le=3600, json_schema_extra={"format": "int32"})] | None
    ) = None
    """Copies go only when so few were enough for so long; 300 when left out."""

    @model_validator(mode="after")
    def _bounded(self) -> "Autoscaling":
        says = self.metrics is not None or self.scale_down_stabilization_seconds is not None
        if self.min > self.max:
            raise PydanticCustomError("bounds", SCALING_RULES[0][1])
        if self.owner == "Member" and says:
            raise PydanticCustomError("owner", SCALING_RULES[1][1])
        return self


OTHER_NAMES_RULE = (
    (
        "!has(self.spec.additionalServices) || self.spec.additionalServices.all(s, s.name != "
        "self.metadata.name)"
    ),
    "an additional service has another name than the workload",
)
RESTART_RULE = (
    "!has(self.template.spec) || !has(self.template.spec.restartPolicy)"
    " || self.template.spec.restartPolicy == 'Always'",
    "the pods of a service have restartPolicy Always",
)
PORTS_RULE = (
    "!has(self.loadBalancers) || self.loadBalancers.all(l, has(self.service)"
    " && self.service.ports.exists(p, p.port == l.port))",
    "each load balancer's port must be one of service.ports",
)


class Spec(WorkloadSpec):
    """What a PinterestService asks for."""

    model_config = ConfigDict(json_schema_extra=rules(SEQ_RULE, PORTS_RULE, RESTART_RULE))

    replicas: Count = 1
    """Copies over all clusters; on a slice, those of this cluster. With autoscaling it says nothing
    on the host, and on a slice how many of the charged copies are this cluster's.
    """
    autoscaling: Autoscaling | None = None
    """Leaves the number of copies to autoscalers in the clusters."""
    service: ServiceFields | None = None
    """The Service in front of the pods, under the workload's name; none when left out."""
    additional_services: list[NamedService] = many(8, list_map("name"))
    """Further Services over the same pods: other names or ports that clients know them by."""
    load_balancers: list[LoadBalancer] = many(16)
    """Doors from outside: an HTTPRoute for each host in clusters that serve this kind, where a
    Gateway is named, and an Ingress in the others.
    """
    gateway: GatewayName | None = None
    """The Gateway of the HTTPRoutes; that of the RuntimeProfile when left out."""
    update_strategy: UpdateStrategy | None = None
    """How pods are replaced within one cluster."""
    disruption_budget: DisruptionBudget | None = None
    """Makes a PodDisruptionBudget in each cluster; none when left out."""

    @model_validator(mode="after")
    def _doors_lead_somewhere(self) -> "Spec":
        ports = {port.port for port in self.service.ports} if self.service else set()
        if any(door.port not in ports for door in self.load_balancers):
            raise PydanticCustomError("ports", PORTS_RULE[1])
        return self


class Row(ClusterRow):
    """One cluster's part of a service."""

    replicas: Amount = 0
    """Copies it is given."""
    ready: Amount = 0
    """Copies that are ready."""
    updated: Amount = 0
    """Copies of the current template."""
    actual: Amount = 0
    """Copies that exist."""


class Status(WorkloadStatus):
    """What is reported of a PinterestService."""

    desired: Amount = 0
    """Copies asked for."""
    replicas: Amount = 0
    """Copies that exist, ready or not."""
    updated_replicas: Amount = 0
    """Copies of the current template."""
    unknown_replicas: Amount = 0
    """Copies in unreachable clusters: neither ready nor gone."""
    selector: Annotated[str, Field(max_length=1024)] = ""
    """Selects the pods, for autoscalers."""
    cluster_statuses: rows_of(Row) = Field(default_factory=list)  # type: ignore[valid-type]
    """Per cluster."""


class PinterestService(PinterestKind):
    """A service of interchangeable replicas, with its Service, Ingress or HTTPRoutes, and
    ConfigMap."""

    model_config = ConfigDict(json_schema_extra=rules(NAME_RULE, OTHER_NAMES_RULE))

    kind: Literal["PinterestService"]
    """PinterestService."""
    spec: Spec
    """What is asked for."""
    status: Status | None = None
    """What is reported."""

    @model_validator(mode="after")
    def _other_names(self) -> "PinterestService":
        if any(service.name == self.metadata.name for service in self.spec.additional_services):
            raise PydanticCustomError("name", OTHER_NAMES_RULE[1])
        return self
