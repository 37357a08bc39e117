"""The resources every embedded cluster serves, from trimmed Kubernetes API data
(`data/k8s-openapi.json.gz`).

The data are the published API description of Kubernetes 1.37 (Apache-2.0), made by
`tests/controlplane/trim_openapi.py`. Read once per process and shared by all embedded clusters.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from federator.embedded.schema import facts
from federator.embedded.storage.resources import ResourceInfo, ScalePaths, Subresource
from federator.embedded.storage.schema import JSON, LazyNode, Node

_SCALABLE = {
    ("apps", "deployments"): ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector"),
    ("apps", "replicasets"): ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector"),
    ("apps", "statefulsets"): ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector"),
}

STATUS_RESETS: Mapping[tuple[str, str], Sequence[str]] = facts.by_resource("statusResets")
"""Fields of metadata that a write to the status sub-resource leaves as they are; it may set all
others of a builtin."""

_SELECTABLE: Mapping[tuple[str, str], Sequence[str]] = facts.by_resource("selectableFields")


@functools.cache
def _data() -> Mapping[str, Any]:
    document: Mapping[str, Any] = facts.read("k8s-openapi.json.gz")
    return document


def definitions() -> Mapping[str, JSON]:
    """All builtin schemas by name (`io.k8s.api.apps.v1.Deployment`), as published, with `$ref`s."""
    schemas: Mapping[str, JSON] = _data()["schemas"]
    return schemas


def kubernetes_version() -> str:
    """The version the data describe, such as `v1.37.2`: what `/version` answers."""
    return str(_data()["kubernetes"])


def definition_as_published(name: str) -> JSON:
    """One builtin schema by name, for OpenAPI documents. Raises KeyError."""
    return definitions()[name]


@functools.cache
def definition(name: str) -> JSON:
    """One builtin schema by name, with `x-omit` and `x-null` (see `Node.omit`) added. Raises
    KeyError."""
    zero = _data()["zero"].get(name)
    schema = definitions()[name]
    if zero is None:
        return schema
    # An empty list of managed fields is a request (forget all owners) and must survive decoding.
    # Empty lists that must be there are null on the wire: they are left out on reading, too.
    omit = [
        field
        for field in (*zero.get("omit", ()), *zero.get("null", ()))
        if field != "managedFields"
    ]
    return {**schema, "x-omit": omit, "x-null": zero.get("null", ())}


@functools.cache
def node(name: str) -> Node:
    """The parsed root of one builtin schema, shared by everyone."""
    return Node(definition(name), definition, name.rpartition(".")[2])


@functools.cache
def schema_names() -> Mapping[tuple[str, str, str], str]:
    """(group, version, kind) of each builtin resource -> the name of its schema."""
    return {(r["group"], r["version"], r["kind"]): r["schema"] for r in _data()["resources"]}


def _info(entry: Mapping[str, Any]) -> ResourceInfo:
    key = (entry["group"], entry["plural"])
    return ResourceInfo(
        group=entry["group"],
        version=entry["version"],
        kind=entry["kind"],
        list_kind=entry["kind"] + "List",
        plural=entry["plural"],
        singular=entry["singular"],
        namespaced=entry["namespaced"],
        verbs=tuple(entry["verbs"]),
        schema=LazyNode(functools.partial(node, entry["schema"])),
        short_names=tuple(entry["shortNames"]),
        categories=tuple(entry["categories"]),
        subresources={
            name: Subresource(sub["group"], sub["version"], sub["kind"], tuple(sub["verbs"]))
            for name, sub in entry["subresources"].items()
        },
        selectable_fields=tuple(_SELECTABLE.get(key, ())),
        scale=_SCALABLE.get(key),
        is_builtin=True,
    )


@functools.cache
def resource_infos() -> tuple[ResourceInfo, ...]:
    """Every builtin resource, in the order of the data: core first."""
    return tuple(_info(entry) for entry in _data()["resources"])


_GROUP_ORDER: Sequence[str] = facts.of("groupOrder")
"""In which order a real server lists its groups (`kubectl get all` follows it); custom groups come
last, by name."""


def group_rank(group: str) -> tuple[int, str]:
    """Sort key of a group in discovery."""
    return (_GROUP_ORDER.index(group) if group in _GROUP_ORDER else len(_GROUP_ORDER)), group


@functools.cache
def _by_key() -> Mapping[tuple[str, str], ResourceInfo]:
    return {info.key: info for info in resource_infos()}


def info(group: str, plural: str) -> ResourceInfo:
    """One builtin resource, such as `info("apps", "deployments")`. Raises KeyError."""
    return _by_key()[(group, plural)]
