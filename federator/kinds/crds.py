"""The CRDs of our kinds, generated from the models: for `config/crd`, `federator crd install` and
the embedded API. A member gets light ones, of the kinds that it needs.

The only module of this floor that opens files: the trimmed Kubernetes OpenAPI data beside it, and
the goldens when told to write.
"""

import functools
import gzip
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from federator.api import schema
from federator.api.common import SEQ_RULE
from federator.kinds.kind import Column, Kind
from federator.kinds.registry import KINDS


@functools.cache
def _document() -> Mapping[str, Any]:
    data = resources.files("federator.api").joinpath("data", "podtemplate.json.gz").read_bytes()
    document: Mapping[str, Any] = json.loads(gzip.decompress(data))
    return document


def kubernetes_version() -> str:
    """The Kubernetes version that the pod template's schema comes from."""
    return str(_document()["kubernetes"])


def definitions() -> Mapping[str, Any]:
    """The Kubernetes types that a pod template is made of, by their short names."""
    schemas: Mapping[str, Any] = _document()["schemas"]
    return schemas


@functools.cache
def embedded_schema(name: str) -> Mapping[str, Any]:
    """The structural schema of one of these types, such as PodTemplateSpec. Shared: do not change
    it.
    """
    return schema.of_openapi(name, definitions())


def all_crds() -> list[dict[str, Any]]:
    """One CRD per kind of ours, in the order of their names. Shared: do not change them."""
    return list(_all())


def member_crds() -> list[dict[str, Any]]:
    """The CRDs that a member needs, in the order of their names. Shared: do not change them.

    Their schemas keep all of spec and status and know only what the API server reads: the host has
    validated every slice, and only the member process writes statuses. They are a fiftieth of the
    size of the host's.
    """
    return list(_of_members())


@functools.cache
def encoded(*, member: bool = False) -> tuple[tuple[dict[str, Any], msgspec.Raw], ...]:
    """The same with the JSON of each, for programs that install them in many clusters."""
    bodies = _of_members() if member else _all()
    return tuple((body, msgspec.Raw(msgspec.json.encode(body))) for body in bodies)


@functools.cache
def _all() -> tuple[dict[str, Any], ...]:
    return tuple(crd(kind) for _, kind in sorted(KINDS.items()) if kind.model is not None)


@functools.cache
def _of_members() -> tuple[dict[str, Any], ...]:
    return tuple(
        _light(body)
        for body in _all()
        if (row := KINDS[body["spec"]["names"]["kind"]]).in_members and row.model is not None
    )


_KEPT: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema of an object of which nothing is pruned, and nothing checked."""
_READ_BY_SERVERS: Final = ("replicas", "slice")
"""Fields of a slice's spec that a member's API server reads: for the scale subresource, and for the
rule that no older decision overwrites a newer one."""
_READ_OF_SLICES: Final = ("seq", "workloadUID")
"""The fields that this rule compares."""


def _light(body: dict[str, Any]) -> dict[str, Any]:
    (version,) = body["spec"]["versions"]
    full = version["schema"]["openAPIV3Schema"]
    spec: dict[str, Any] = dict(_KEPT)
    known = full["properties"]["spec"]["properties"]
    if kept := {name: _undescribed(known[name]) for name in _READ_BY_SERVERS if name in known}:
        spec["properties"] = kept
    if "slice" in kept:
        compared = kept["slice"]["properties"]
        compared = {name: compared[name] for name in _READ_OF_SLICES}
        kept["slice"] = {**_KEPT, "required": list(compared), "properties": compared}
        rule, message = SEQ_RULE
        spec["x-kubernetes-validations"] = [{"rule": rule, "message": message}]
    # An API server copies its whole OpenAPI document for each definition that comes, so fields
    # that it does not read cost several times their size.
    light = {
        "type": "object",
        "description": full["description"],
        "properties": {**_plain(full["properties"]), "spec": spec},
    }
    changed = {**version, "schema": {"openAPIV3Schema": light}}
    return {**body, "spec": {**body["spec"], "versions": [changed]}}


def _plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of an object beside its spec."""
    return {
        name: _KEPT if name == "status" else _undescribed(node) for name, node in properties.items()
    }


def _undescribed(node: Any) -> Any:
    """The schema without descriptions of fields, which are half of its size."""
    if not isinstance(node, Mapping):
        return node
    out = {key: value for key, value in node.items() if key != "description"}
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = _undescribed(out[key])
    if "properties" in out:
        out["properties"] = {name: _undescribed(sub) for name, sub in out["properties"].items()}
    return out


def crd(kind: Kind) -> dict[str, Any]:
    """The CRD of one kind. ValueError for a kind without a schema of ours."""
    if kind.model is None:
        raise ValueError(f"{kind.kind} has no schema of ours")
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema.of_model(kind.model, definitions())},
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
    }
    subresources: dict[str, Any] = {"status": {}} if kind.has_status else {}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    if subresources:
        version["subresources"] = subresources
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            "labels": {"app.kubernetes.io/part-of": "federator"},
        },
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": list(kind.categories),
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def text(body: Mapping[str, Any]) -> str:
    """One CRD as YAML, the same for the same models."""
    return yaml.dump(body, Dumper=_PlainDumper, sort_keys=False, width=120, allow_unicode=True)


MEMBER: Final = "member"
"""Folder of the CRDs of members in `config/crd`."""


def files() -> dict[str, str]:
    """Path in `config/crd` -> content."""
    folders = (("", all_crds()), (f"{MEMBER}/", member_crds()))
    return {
        f"{folder}{body['metadata']['name']}.yaml": text(body)
        for folder, bodies in folders
        for body in bodies
    }


def write(folder: Path) -> list[Path]:
    """Writes one file per kind, and removes files of kinds that are no more. Returns what was
    written.
    """
    (folder / MEMBER).mkdir(parents=True, exist_ok=True)
    wanted = files()
    for old in folder.rglob("*.yaml"):
        if str(old.relative_to(folder)) not in wanted and old.name != "kustomization.yaml":
            old.unlink()
    written: list[Path] = []
    for name, content in sorted(wanted.items()):
        path = folder / name
        path.write_text(content, encoding="utf-8")
        written.append(path)
    return written


# The dumper in C writes the same, and is six times as fast.
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _PlainDumper(_Dumper):  # type: ignore[misc]  # a class that is chosen at run time
    """Without anchors: one schema often stands in several places."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _column(column: Column) -> dict[str, Any]:
    body: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.description:
        body["description"] = column.description
    if column.wide:
        body["priority"] = 1
    return body
