"""RuntimeProfile: the support that pods of Pinterest workloads are given. Schema, content hash;
injecting is `kinds`'s."""

import json
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from federator.api import raw
from federator.api.common import (
    Amount,
    AnyObject,
    Conditions,
    DnsLabel,
    Labels,
    Metadata,
    Model,
    ObjectName,
    Port,
    ShortText,
    list_map,
    many,
    named,
)
from federator.api.raw import Obj
from federator.model import names

KIND: Final = "RuntimeProfile"
ADMITTED: Final = "Admitted"
"""Condition: whether all workloads that use the profile get its present version."""
VERSIONS_MAX: Final = 64
Container = Annotated[
    dict[str, Any],
    Field(json_schema_extra={"x-federator-embed": "Container", "x-federator-omit": ["name"]}),
]
ContainerName = Annotated[
    str, Field(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]


class Parameter(Model):
    """A value that workloads may set under spec.sidecars; the container sees it as a variable."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern="^[a-zA-Z][a-zA-Z0-9]*$")]
    """Its key under spec.sidecars.CONTAINER."""
    env: Annotated[str, Field(min_length=1, max_length=128, pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
    """The variable; lists are joined by commas, objects are written as JSON."""
    default: Annotated[str, Field(max_length=1024)] | None = None
    """The variable's value where the workload sets none; without it the variable is then left
    out."""
    required: bool | None = None
    """True refuses workloads that do not set it."""


class Injected(Model):
    """A container that is added to each pod."""

    name: ContainerName
    """Name of the container, and its key under spec.sidecars."""
    inject: Literal["Always", "OnRequest"] | None = None
    """Always (the default), or OnRequest: only for workloads that name it under spec.sidecars."""
    parameters: list[Parameter] = many(32, list_map("name"))
    """What workloads may set."""
    container: Container
    """The container, without its name."""


class Drain(Model):
    """Where a sidecar takes the pod out of the registry of its service."""

    port: Port
    """The port of the sidecar."""
    path: Annotated[str, Field(min_length=1, max_length=256, pattern="^/")] | None = None
    """The path that answers GET when clients are sent elsewhere; /drain when left out."""


class Sidecar(Injected):
    """A container that runs beside the workload's own."""

    native: bool | None = None
    """True runs it as an init container with restartPolicy Always: it starts before the workload
    and ends after it. Pods of job sets get all sidecars in this way, since a shard could not finish
    otherwise."""
    drain: Drain | None = None
    """The sidecar registers the pod while its readiness probes pass. The workload's containers get
    a preStop hook that calls this address, so that they get SIGTERM after the pod has left the
    registry. The sidecar is native, and gets the readiness probes in the variable
    FEDERATOR_APPLICATION."""


class Guard(Model):
    """The sidecar that guards pods of Exclusive job sets with `guard`."""

    image: Annotated[str, Field(min_length=1, max_length=512)]
    """An image of federator. Its entry point is the program."""


class GatewayName(Model):
    """The Gateway of the Gateway API that requests come through, by the same name in each
    cluster."""

    name: ObjectName
    """Its name."""
    namespace: DnsLabel | None = None
    """Its namespace; that of the workload when left out. The Gateway has to allow routes from
    there."""
    section_name: ObjectName | None = None
    """The listener of it that is meant; all of them when left out."""


class Spec(Model):
    """What is added to each pod."""

    version: ShortText = ""
    """Version of this profile, for people."""
    init_containers: list[Injected] = many(16, list_map("name"))
    """Containers that run, one after the other, before the workload's own init containers."""
    sidecars: list[Sidecar] = many(16, list_map("name"))
    """Containers that run beside the workload's own."""
    env: list[
        Annotated[dict[str, Any], Field(json_schema_extra={"x-federator-embed": "EnvVar"})]
    ] = many(128, list_map("name"))
    """Variables of every container of the workload that does not set them itself."""
    volumes: list[
        Annotated[dict[str, Any], Field(json_schema_extra={"x-federator-embed": "Volume"})]
    ] = many(64, list_map("name"))
    """Volumes of the pod, for the containers above."""
    volume_mounts: list[
        Annotated[dict[str, Any], Field(json_schema_extra={"x-federator-embed": "VolumeMount"})]
    ] = many(64, list_map("mountPath"))
    """Mounts of these volumes in every container of the workload."""
    pod_labels: Labels = Field(default_factory=dict)
    """Labels of the pods that the workload does not set itself."""
    pod_annotations: dict[str, Annotated[str, Field(max_length=4096)]] = named(64)
    """Annotations of the pods that the workload does not set itself."""
    guard: Guard | None = None
    """Where the guard of Exclusive job sets is taken from; when left out, federator:VERSION, with
    the version of the member process."""
    ingress_class_name: ObjectName | None = None
    """Class of the Ingress that services with load balancers get; the cluster's default when left
    out."""
    gateway: GatewayName | None = None
    """Where a cluster serves HTTPRoutes, services with load balancers get these for this Gateway,
    and no Ingress."""


class Version(Model):
    """A version of the profile that pods may have."""

    hash: ShortText
    """Hash of its spec."""
    spec: AnyObject
    """The spec of that version."""


class Status(Model):
    """Where the profile is in force, written by the hub."""

    conditions: Conditions = Field(default_factory=list)
    """Admitted: False with QuotaExceeded while workloads keep a former version, because the present
    one asks for more than their quota or their clusters have."""
    held_back: Amount | None = None
    """Workloads that keep a former version."""
    versions: Annotated[list[Version], Field(max_length=VERSIONS_MAX)] = Field(default_factory=list)
    """The versions that pods may have, the newest first. Pods of workloads that are held back are
    made from one of these."""


class RuntimeProfile(Model):
    """What pods of Pinterest workloads are given: sidecars, init containers, variables, volumes."""

    api_version: Literal["pinterest.com/v1beta1"]
    """pinterest.com/v1beta1."""
    kind: Literal["RuntimeProfile"]
    """RuntimeProfile."""
    metadata: Metadata
    """Standard metadata."""
    spec: Spec
    """What is added to each pod."""
    status: Status | None = None
    """Where the profile is in force."""


def content_hash(obj: Obj) -> str:
    """Of the spec alone, whatever the order of its keys; 12 hexadecimal digits."""
    spec = raw.mapping(obj, "spec")
    return names.short_hash(json.dumps(spec, sort_keys=True, separators=(",", ":")), length=12)


def version_name(obj: Obj) -> str:
    """What people call this version; "" if it has no name."""
    return raw.text(obj, "spec", "version")


def versions(obj: Obj) -> dict[str, dict[str, Any]]:
    """Hash -> profile object of the versions that the status keeps, the newest first. An entry with
    a spec that does not match its hash is left out."""
    kept: dict[str, dict[str, Any]] = {}
    for entry in raw.objects(obj, "status", "versions"):
        version = with_spec(obj, raw.mapping(entry, "spec"))
        if (content := content_hash(version)) == raw.text(entry, "hash"):
            kept[content] = version
    return kept


def shaping(obj: Obj) -> str:
    """The part of a version that the shape of a pod depends on, as text: versions of which it is
    equal request the same for each workload."""
    containers = [
        [
            field,
            *(entry.get(name) for name in ("name", "inject", "native", "drain", "parameters")),
            *(raw.at(entry, "container", name) for name in ("resources", "ports", "restartPolicy")),
        ]
        for field in ("initContainers", "sidecars")
        for entry in raw.objects(obj, "spec", field)
    ]
    return json.dumps([containers, raw.at(obj, "spec", "podLabels")], sort_keys=True)


def with_spec(obj: Obj, spec: Obj) -> dict[str, Any]:
    """The profile with another spec, without its status."""
    whole = {name: value for name, value in obj.items() if name != "status"}
    return {**whole, "spec": dict(spec)}


def member_name(name: str, content: str) -> str:
    """Name of the copy of one version in a member: versions live side by side while slices pin
    them."""
    return f"{name}-{content}"


def member_copy(obj: Obj, fleet: str) -> dict[str, Any]:
    """The copy of the profile as it is now for a member, marked as this fleet's."""
    name = raw.text(obj, "metadata", "name")
    metadata = {"name": member_name(name, content_hash(obj)), "labels": {names.FLEET_LABEL: fleet}}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": KIND,
        "metadata": metadata,
        "spec": dict(raw.mapping(obj, "spec")),
    }
