"""Discovery: which groups, versions and resources there are, in both the classic and the aggregated
form, and the version.

Documents are made once per edition of the registry and kept as bytes; a controller's start-up asks
for them all.
"""

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from federator.embedded.catalogue.registry import Groups, Registry
from federator.embedded.rest.subresources import subresources
from federator.embedded.rest.views import media_ranges
from federator.embedded.schema import builtins, openapi
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import Answer, ApiRequest, json_answer, text_answer
from federator.embedded.storage.resources import ResourceInfo, Subresource
from federator.embedded.storage.revisions import JsonObject

_encode = msgspec.json.Encoder().encode
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Discovery:
    """The discovery documents of one server."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._edition = -1
        self._made: dict[str, bytes] = {}

    def answer(self, request: ApiRequest) -> Answer:
        """GET of anything that is no resource. Raises `Refusal` 404 for what is not served."""
        path = request.path.rstrip("/") or "/"
        if path in {"/healthz", "/livez", "/readyz"}:
            verbose = "[+]ping ok\n[+]log ok\n" + f"{path[1:]} check passed\n"
            return text_answer(verbose if "verbose" in request.query else "ok")
        if path == "/version":
            return json_answer(version())
        if path in {"/api", "/apis"} and _wants_aggregated(request):
            key = f"{path}#aggregated"
            aggregated = self._cached(key, lambda: self._aggregated(path == "/api"))
            return Answer(
                body=aggregated, content_type=_AGGREGATED, extra_headers={"vary": "Accept"}
            )
        parts = path.strip("/").split("/")
        body = self._document(path, parts)
        if body is None:
            raise NoSuchPage()
        extra = (
            {"etag": f'"{hashlib.sha256(body).hexdigest().upper()}"'}
            if path.startswith("/openapi")
            else {}
        )
        return Answer(body=body, extra_headers=extra)

    def _document(self, path: str, parts: list[str]) -> bytes | None:
        if path == "/":
            return self._cached(path, self._paths)
        if path == "/api":
            return self._cached(path, _legacy_versions)
        if path == "/apis":
            return self._cached(path, self._group_list)
        if path == "/openapi/v3":
            return self._cached(path, lambda: openapi.index(list(self._registry.all())))
        groups = self._registry.groups()
        if parts[:2] == ["openapi", "v3"]:
            return self._openapi(path, parts[2:], groups)
        group, version = _group_version(parts)
        if group is None or group not in groups or (version and version not in groups[group]):
            return None
        if version:
            infos = groups[group][version]
            return self._cached(path, lambda: _resource_list(group, version, infos))
        return self._cached(
            path,
            lambda: {"kind": "APIGroup", "apiVersion": "v1", **_group(group, list(groups[group]))},
        )

    def _openapi(self, path: str, parts: list[str], groups: Groups) -> bytes | None:
        group, version = _group_version(parts)
        if group is None or not version or version not in groups.get(group, {}):
            return None
        infos = groups[group][version]
        return self._cached(path, lambda: openapi.document(infos))

    def _cached(self, key: str, make: Any) -> bytes:
        if self._edition != self._registry.edition:
            self._made.clear()
            self._edition = self._registry.edition
        if key not in self._made:
            made = make()
            self._made[key] = made if isinstance(made, bytes) else _encode(made)
        return self._made[key]

    def _paths(self) -> JsonObject:
        paths = [
            "/api",
            "/api/v1",
            "/apis",
            "/healthz",
            "/livez",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        for group, versions in self._registry.groups().items():
            if group:
                paths.append(f"/apis/{group}")
                paths += [f"/apis/{group}/{version}" for version in versions]
        return {"paths": sorted(paths)}

    def _group_list(self) -> JsonObject:
        groups = [
            _group(name, list(versions))
            for name, versions in self._registry.groups().items()
            if name
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _aggregated(self, legacy: bool) -> JsonObject:
        items = []
        for name, versions in self._registry.groups().items():
            if (name == "") is not legacy:
                continue
            shown = [
                {
                    "version": version,
                    "resources": [_aggregated_resource(info) for info in infos],
                    "freshness": "Current",
                }
                for version, infos in versions.items()
            ]
            items.append({"metadata": {"name": name} if name else {}, "versions": shown})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }


class NoSuchPage(refusals.Refusal):
    """404 for a path outside the API: a real server answers plain text."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def version() -> JsonObject:
    """What `/version` answers."""
    git = builtins.kubernetes_version()
    major, minor, _ = git.removeprefix("v").split(".", 2)
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git,
        "gitCommit": f"kubernetes-{git.removeprefix('v')}",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go1.26",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def served_subresources(info: ResourceInfo) -> dict[str, Subresource]:
    """The sub-resources of a kind that this server answers, by name."""
    return {
        name: info.subresources[name]
        for name in sorted(info.subresources)
        if name in subresources.HANDLERS
    }


def _group_version(parts: list[str]) -> tuple[str | None, str]:
    if parts[0] == "api" and len(parts) <= 2:
        return "", parts[1] if len(parts) == 2 else ""
    if parts[0] == "apis" and 2 <= len(parts) <= 3:
        return parts[1], parts[2] if len(parts) == 3 else ""
    return None, ""


def _wants_aggregated(request: ApiRequest) -> bool:
    ranges = media_ranges(request.headers.get("accept", ""))
    return any(
        parameters.get("as") == "APIGroupDiscoveryList" and parameters.get("v") == "v2"
        for _, parameters in ranges
    )


def _legacy_versions() -> JsonObject:
    address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address}


def _group(name: str, versions: list[str]) -> JsonObject:
    shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def _resource_list(group: str, version: str, infos: Sequence[ResourceInfo]) -> JsonObject:
    resources: list[JsonObject] = []
    for info in infos:
        resources.append(_resource(info))
        for name, sub in served_subresources(info).items():
            shown: JsonObject = {
                "name": f"{info.plural}/{name}",
                "singularName": "",
                "namespaced": info.namespaced,
                "kind": sub.kind,
                "verbs": list(sub.verbs),
            }
            if sub.group and (sub.group, sub.version) != (info.group, info.version):
                shown |= {"group": sub.group, "version": sub.version}
            resources.append(shown)
    group_version = f"{group}/{version}" if group else version
    head = (
        {"kind": "APIResourceList"}
        if not group
        else {"kind": "APIResourceList", "apiVersion": "v1"}
    )
    return {**head, "groupVersion": group_version, "resources": resources}


def _resource(info: ResourceInfo) -> JsonObject:
    shown: JsonObject = {
        "name": info.plural,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.kind,
        "verbs": list(info.verbs),
    }
    shown |= _extras(info)
    if info.is_stored:
        shown["storageVersionHash"] = _storage_hash(info)
    return shown


def _storage_hash(info: ResourceInfo) -> str:
    """Clients use it to see that two versions share one storage."""
    digest = hashlib.sha256(f"{info.group}/{info.version}/{info.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _extras(info: ResourceInfo) -> JsonObject:
    extras: JsonObject = {}
    if info.short_names:
        extras["shortNames"] = list(info.short_names)
    if info.categories:
        extras["categories"] = list(info.categories)
    return extras


def _response_kind(info: ResourceInfo, shown: Subresource) -> JsonObject:
    """Builtins leave out the group and version of their own."""
    if info.is_builtin and (shown.group, shown.version) == (info.group, info.version):
        return {"group": "", "version": "", "kind": shown.kind}
    return {"group": shown.group, "version": shown.version, "kind": shown.kind}


def _aggregated_resource(info: ResourceInfo) -> JsonObject:
    shown: JsonObject = {
        "resource": info.plural,
        "responseKind": _response_kind(info, Subresource(info.group, info.version, info.kind, ())),
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": list(info.verbs),
    }
    shown |= _extras(info)
    parts = served_subresources(info)
    if parts:
        shown["subresources"] = [
            {
                "subresource": name,
                "responseKind": _response_kind(info, sub),
                "verbs": list(sub.verbs),
            }
            for name, sub in parts.items()
        ]
    return shown
