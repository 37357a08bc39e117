"""Makes `federator/embedded/data/k8s-openapi.json.gz` from a checkout of Kubernetes (its `api/`
folder).

Run as `python tests/controlplane/trim_openapi.py MODULE_CACHE VERSION`, for example `~/go/pkg/mod
v1.37.2`, where the modules `k8s.io/kubernetes`, and `api`, `apimachinery` and
`apiextensions-apiserver` of the same release, have been downloaded. Only the groups the embedded
API serves are kept; descriptions stay, for `kubectl explain`. The data are the published API
description of Kubernetes (Apache-2.0) and which fields its JSON leaves out when they are zero (the
`omitempty` of the API types, which OpenAPI does not tell); nothing of its code is taken. The result
is the same for the same input.
"""

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[2] / "federator" / "embedded" / "data" / "k8s-openapi.json.gz"

SERVED = {
    ("", "v1"): (
        "bindings configmaps endpoints events limitranges namespaces nodes "
        "persistentvolumeclaims persistentvolumes "
        "pods podtemplates resourcequotas secrets serviceaccounts services"
    ),
    ("apps", "v1"): "controllerrevisions daemonsets deployments replicasets statefulsets",
    ("batch", "v1"): "cronjobs jobs",
    ("autoscaling", "v2"): "horizontalpodautoscalers",
    ("networking.k8s.io", "v1"): "ingressclasses ingresses networkpolicies",
    ("policy", "v1"): "poddisruptionbudgets",
    ("coordination.k8s.io", "v1"): "leases",
    ("discovery.k8s.io", "v1"): "endpointslices",
    ("scheduling.k8s.io", "v1"): "priorityclasses",
    ("storage.k8s.io", "v1"): "storageclasses",
    ("rbac.authorization.k8s.io", "v1"): "clusterrolebindings clusterroles rolebindings roles",
    ("events.k8s.io", "v1"): "events",
    ("apiextensions.k8s.io", "v1"): "customresourcedefinitions",
    ("admissionregistration.k8s.io", "v1"): (
        "mutatingwebhookconfigurations validatingadmissionpolicies "
        "validatingadmissionpolicybindings "
        "validatingwebhookconfigurations"
    ),
    ("authentication.k8s.io", "v1"): "selfsubjectreviews tokenreviews",
    ("authorization.k8s.io", "v1"): (
        "localsubjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews "
        "subjectaccessreviews"
    ),
}

EXTRA_ROOTS = (
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
)


def _spec_file(api: Path, group: str, version: str) -> Path:
    prefix = f"apis__{group}__{version}" if group else f"api__{version}"
    return api / "openapi-spec" / "v3" / f"{prefix}_openapi.json"


def _discovered(api: Path, group: str, version: str) -> list[dict[str, Any]]:
    """Resources of one group version from the discovery files; sub-resources are folded into their
    parent.
    """
    prefix = f"apis__{group}__{version}" if group else f"api__{version}"
    listed = json.loads((api / "discovery" / f"{prefix}.json").read_text())["resources"]
    wanted = SERVED[(group, version)].split()
    resources = []
    for entry in listed:
        if entry["name"] not in wanted:
            continue
        subresources = {
            sub["name"].partition("/")[2]: {
                "group": sub.get("group", group),
                "version": sub.get("version", version),
                "kind": sub["kind"],
                "verbs": sub["verbs"],
            }
            for sub in listed
            if sub["name"].startswith(entry["name"] + "/")
        }
        resources.append(
            {
                "group": group,
                "version": version,
                "kind": entry["kind"],
                "plural": entry["name"],
                "singular": entry["singularName"],
                "shortNames": entry.get("shortNames", []),
                "categories": entry.get("categories", []),
                "namespaced": entry["namespaced"],
                "verbs": entry["verbs"],
                "subresources": subresources,
            }
        )
    missing = set(wanted) - {r["plural"] for r in resources}
    if missing:
        raise SystemExit(f"{prefix}: not found in discovery: {sorted(missing)}")
    return resources


def _references(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        found = (
            {schema["$ref"].rpartition("/")[2]} if isinstance(schema.get("$ref"), str) else set()
        )
        return found.union(*(_references(value) for value in schema.values()))
    if isinstance(schema, list):
        return set().union(*(_references(value) for value in schema))
    return set()


def _schema_name(schemas: dict[str, Any], group: str, version: str, kind: str) -> str:
    for name, schema in sorted(schemas.items()):
        for gvk in schema.get("x-kubernetes-group-version-kind", []):
            if (gvk["group"], gvk["version"], gvk["kind"]) == (
                group,
                version,
                kind,
            ) and not name.endswith("List"):
                return name
    raise SystemExit(f"no schema for {group}/{version} {kind}")


_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`json:"([^"]*)"', re.MULTILINE)
_PACKAGES = {
    "io.k8s.api.": ("api", ""),
    "io.k8s.apimachinery.pkg.": ("apimachinery", "pkg"),
    "io.k8s.apiextensions-apiserver.pkg.": ("apiextensions-apiserver", "pkg"),
}


def _struct_fields(folder: Path) -> dict[str, dict[str, tuple[str, bool]]]:
    """struct -> JSON name -> (Go type, whether `omitempty`), with inlined structs of the same
    package folded in.
    """
    text = "\n".join(
        path.read_text()
        for path in sorted(folder.glob("*.go"))
        if not path.name.endswith("_test.go")
    )
    structs: dict[str, dict[str, tuple[str, bool]]] = {}
    inlined: dict[str, list[str]] = {}
    for name, body in _STRUCT.findall(text):
        fields = structs.setdefault(name, {})
        for _, go_type, tag in _FIELD.findall(body):
            json_name, _, options = tag.partition(",")
            if not json_name:  # embedded: `json:",inline"`, since 1.37 `json:""`
                inlined.setdefault(name, []).append(go_type.lstrip("*"))
            else:
                fields[json_name] = (go_type, "omitempty" in options)
    for name, fields in structs.items():
        todo = list(inlined.get(name, ()))
        while todo:
            inner = todo.pop()
            for json_name, field in structs.get(inner, {}).items():
                fields.setdefault(json_name, field)
            todo.extend(inlined.get(inner, ()))
    return structs


def _zero_rules(
    modules: Path, version: str, schemas: dict[str, Any]
) -> dict[str, dict[str, list[str]]]:
    """schema -> {"omit": fields left out when zero, "null": fields written as null when absent}."""
    parsed: dict[Path, dict[str, dict[str, tuple[str, bool]]]] = {}
    rules: dict[str, dict[str, list[str]]] = {}
    for name, schema in sorted(schemas.items()):
        prefix = next(prefix for prefix in _PACKAGES if name.startswith(prefix))
        module, below = _PACKAGES[prefix]
        *parts, struct = name.removeprefix(prefix).split(".")
        folder = (
            modules
            / "k8s.io"
            / f"{module}@{version.replace('v1.', 'v0.')}"
            / below
            / "/".join(parts)
        )
        fields = (
            parsed.setdefault(folder, _struct_fields(folder)).get(struct, {})
            if folder.is_dir()
            else {}
        )
        omit, null = [], []
        for json_name, prop in sorted(schema.get("properties", {}).items()):
            go_type, omitempty = fields.get(json_name, ("*", False))
            is_time = go_type in ("metav1.Time", "metav1.MicroTime", "Time", "MicroTime")
            is_list = go_type.startswith(("[]", "map["))
            if (is_time and json_name != "creationTimestamp") or (is_list and not omitempty):
                null.append(json_name)
            elif (
                omitempty
                and not go_type.startswith("*")
                and ("type" in prop or go_type.startswith("map["))
            ):
                omit.append(json_name)
        if omit or null:
            rules[name] = {key: value for key, value in (("omit", omit), ("null", null)) if value}
    return rules


def trim(modules: Path, version: str) -> bytes:
    """The compressed data, byte for byte the same for the same modules."""
    api = modules / "k8s.io" / f"kubernetes@{version}" / "api"
    schemas: dict[str, Any] = {}
    resources: list[dict[str, Any]] = []
    for group, group_version in SERVED:
        spec = json.loads(_spec_file(api, group, group_version).read_text())
        for name, schema in spec["components"]["schemas"].items():
            schemas.setdefault(name, schema)
        resources.extend(_discovered(api, group, group_version))
    for resource in resources:
        resource["schema"] = _schema_name(
            schemas, resource["group"], resource["version"], resource["kind"]
        )
    keep: set[str] = set()
    todo = {resource["schema"] for resource in resources} | set(EXTRA_ROOTS)
    while todo:
        name = min(todo)
        todo.discard(name)
        if name not in keep:
            keep.add(name)
            todo |= _references(schemas[name]) - keep
    document = {
        "kubernetes": version,
        "licence": (
            "Apache-2.0, The Kubernetes Authors; trimmed from api/openapi-spec/v3 and api/discovery"
        ),
        "resources": resources,
        "schemas": {name: schemas[name] for name in sorted(keep)},
        "zero": _zero_rules(modules, version, {name: schemas[name] for name in keep}),
    }
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 9, mtime=0)


if __name__ == "__main__":
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_bytes(trim(Path(sys.argv[1]), sys.argv[2]))
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")
