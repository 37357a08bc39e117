"""ClusterStandard: what every cluster of the fleet, or every one with some labels, must hold before
it takes work. Schema and conversion."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from federator.api import raw
from federator.api.clusterchoice import Selector
from federator.api.common import Metadata, Model, ShortText, list_map, rules
from federator.api.raw import Obj
from federator.model.kubernetes import selectors

KIND: Final = "ClusterStandard"
MANIFESTS_MAX: Final = 64

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
    probes: Annotated[list[Probe], Field(max_length=32, json_schema_extra=list_map("name"))] = (
        Field(default_factory=list)
    )
    """Paths that must answer."""


class ClusterStandard(Model):
    """What every cluster of the fleet must hold: `federator cluster check -C` compares, and
    `federator cluster conform` and `add` apply it."""

    api_version: Literal["federation.pinterest.com/v1alpha1"]
    """federation.pinterest.com/v1alpha1."""
    kind: Literal["ClusterStandard"]
    """ClusterStandard."""
    metadata: Metadata
    """Standard metadata."""
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
    """What it asks for."""
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
