"""ClusterStandard: what every cluster of the fleet, or every one with some labels, must hold before
it takes work. Schema and conversion."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from federator.api import raw
from federator.api.clusterchoice import Selector
from federator.api.common import (
    LIST_SET,
    FederationObject,
    Model,
    ShortText,
    TierName,
    list_map,
    many,
    rules,
)
from federator.api.raw import Obj
from federator.model.ask import Tier
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from federator.model.kubernetes.selectors import LabelSelector

KIND: Final = "ClusterStandard"
MANIFESTS_MAX: Final = 64
PROBE_EVERY_MIN_S: Final = 60

Manifest = Annotated[
    dict[str, Any],
    Field(
        json_schema_extra={
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-embedded-resource": True,
        }
    ),
]


class ServedKind(Model):
    """A kind that the API server must serve."""

    api_version: ShortText
    """Such as snapshot.storage.k8s.io/v1."""
    kind: ShortText
    """Such as VolumeSnapshot."""


class NodeDaemon(Model):
    """A DaemonSet that must be ready on every node it is meant for."""

    namespace: ShortText
    """Its namespace."""
    name: ShortText
    """Its name."""


class Probe(Model):
    """A path of the API server that must answer 200, such as the one of an aggregated API."""

    model_config = ConfigDict(
        json_schema_extra=rules(("self.path.startsWith('/')", "path begins with /"))
    )

    name: ShortText
    """What is said when it does not answer."""
    path: Annotated[str, Field(min_length=1, max_length=512)]
    """Such as /apis/metrics.k8s.io/v1beta1/nodes?limit=1."""


class WorkloadProbe(Model):
    """Probe workloads that the hub runs in these clusters: a small service and a job set."""

    gate: bool | None = None
    """True: a cluster that joins, or becomes ready again, takes work only after it has passed a
    probe. A cluster that is ready when the gate is set is not affected until it is not ready."""
    every_seconds: Annotated[int, Field(ge=PROBE_EVERY_MIN_S, le=604_800)] | None = None
    """How often a cluster is probed; as hub.workload_probe_interval_s says when left out."""
    tiers: list[TierName] = many(3, LIST_SET)
    """Tiers that are probed; all that the cluster takes when empty."""


class Clusters(Model):
    """Which clusters it is for."""

    selector: Selector | None = None
    """Labels of MemberClusters; all clusters when left out."""


class Spec(Model):
    """What these clusters must hold."""

    clusters: Clusters | None = None
    """Which clusters; all when left out."""
    manifests: Annotated[list[Manifest], Field(max_length=MANIFESTS_MAX)] = Field(
        default_factory=list
    )
    """Objects, as they would be applied: definitions of kinds, profiles, DaemonSets, roles. They
    are applied in this order; a definition is served before what comes after it is applied."""
    served: Annotated[list[ServedKind], Field(max_length=128)] = Field(default_factory=list)
    """Kinds that must be served, wherever they come from."""
    daemons: Annotated[list[NodeDaemon], Field(max_length=64)] = Field(default_factory=list)
    """DaemonSets that must be ready on every node."""
    probes: list[Probe] = many(32, list_map("name"))
    """Paths that must answer."""
    workload_probe: WorkloadProbe | None = None
    """Probe workloads that the hub runs there, on a schedule or before the cluster takes work."""


class ClusterStandard(FederationObject):
    """What every cluster of the fleet must hold: `federator cluster check -C` compares, and
    `federator cluster conform` and `add` apply it."""

    kind: Literal["ClusterStandard"]
    """ClusterStandard."""
    spec: Spec
    """What these clusters must hold."""


@dataclass(frozen=True, slots=True)
class Standard:
    """One ClusterStandard as it is compared."""

    name: str
    manifests: tuple[Obj, ...]
    served: tuple[tuple[str, str], ...]
    """(API version, kind)."""
    daemons: tuple[tuple[str, str], ...]
    """(namespace, name)."""
    probes: tuple[tuple[str, str], ...]
    """(name, path)."""


def covers(obj: Obj, labels: Mapping[str, str]) -> bool:
    """Whether the standard is for a cluster with these labels. Raises FieldError for a selector
    that cannot be read."""
    selector = raw.at(obj, "spec", "clusters", "selector")
    if selector is None:
        return True
    return selectors.from_dict(selector, "spec.clusters.selector").matches(labels)


def to_standard(obj: Obj) -> Standard:
    return Standard(
        name=raw.text(obj, "metadata", "name"),
        manifests=tuple(raw.objects(obj, "spec", "manifests")),
        served=tuple(
            (raw.text(entry, "apiVersion"), raw.text(entry, "kind"))
            for entry in raw.objects(obj, "spec", "served")
        ),
        daemons=tuple(
            (raw.text(entry, "namespace"), raw.text(entry, "name"))
            for entry in raw.objects(obj, "spec", "daemons")
        ),
        probes=tuple(
            (raw.text(entry, "name"), raw.text(entry, "path"))
            for entry in raw.objects(obj, "spec", "probes")
        ),
    )


@dataclass(frozen=True, slots=True)
class ProbeRule:
    """What one ClusterStandard says of workload probes."""

    selector: LabelSelector | None
    """None: for every cluster."""
    gate: bool
    every_s: float
    """Seconds; 0 when it says nothing."""
    tiers: frozenset[Tier]


@dataclass(frozen=True, slots=True)
class ProbeWish:
    """What all standards together say of the workload probes of one cluster."""

    gate: bool = False
    every_s: float = 0.0
    """Seconds; 0 when none says anything."""
    tiers: frozenset[Tier] = frozenset()
    """Empty: all that the cluster takes."""


def to_probe_rule(obj: Obj) -> ProbeRule | None:
    """What it says of workload probes. None when it says nothing, or its selector cannot be read:
    then it is for no cluster."""
    if not isinstance(raw.at(obj, "spec", "workloadProbe"), dict):
        return None
    fields = raw.mapping(obj, "spec", "workloadProbe")
    asked = raw.at(obj, "spec", "clusters", "selector")
    try:
        path = "spec.clusters.selector"
        selector = None if asked is None else selectors.from_dict(asked, path)
    except FieldError:
        return None
    return ProbeRule(
        selector,
        raw.flag(fields, "gate"),
        float(max(raw.integer(fields, "everySeconds"), 0)),
        frozenset(tier for tier in Tier if tier in raw.texts(fields, "tiers")),
    )


def probe_wish(rules_: Iterable[ProbeRule], labels: Mapping[str, str]) -> ProbeWish:
    """What the rules say of a cluster with these labels: a gate when one asks for it, the shortest
    interval, and the tiers of all of them."""
    ours = [rule for rule in rules_ if rule.selector is None or rule.selector.matches(labels)]
    tiers = frozenset[Tier]().union(*(rule.tiers for rule in ours))
    return ProbeWish(
        gate=any(rule.gate for rule in ours),
        every_s=min((rule.every_s for rule in ours if rule.every_s), default=0.0),
        tiers=tiers if all(rule.tiers for rule in ours) else frozenset(),
    )
