"""Objects that placing reads, from manifests: checked against their schemas, with the file, the
document and the line of what is wrong."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from federator.api import raw
from federator.hub.placing import offline
from federator.kinds import read, registry
from federator.model.manifests import Manifest, Unreadable


def checked(
    given: Iterable[Manifest],
    namespace: str,
    ignored: Callable[[Manifest, str], None],
) -> list[dict[str, Any]]:
    """The objects that placing reads. A namespaced object without a namespace gets `namespace`.
    `ignored` is called for each other object, with the reason. Raises `Unreadable`."""
    objs: list[dict[str, Any]] = []
    seen: dict[tuple[str, str, str], str] = {}
    for manifest in given:
        obj, where = manifest.obj, manifest.where
        try:
            if _is_namespace(obj):
                objs.append(obj)
                continue
            if not _is_read(obj):
                ignored(manifest, _unread(obj))
                continue
            settle(obj, namespace)
            read.check(obj)
        except read.InvalidObject as bad:
            raise Unreadable(
                *(f"{manifest.where_of(problem.path)}: {problem}" for problem in bad.errors)
            ) from None
        key = (
            str(obj["kind"]),
            raw.text(obj, "metadata", "namespace"),
            raw.text(obj, "metadata", "name"),
        )
        if not key[2]:
            raise Unreadable(
                f"{where}: metadata.name: is required, because no server generates names here"
            )
        if key in seen:
            raise Unreadable(
                f"{where}: metadata.name: {title(obj)} was already given in {seen[key]}"
            )
        seen[key] = where
        objs.append(obj)
    return objs


def title(obj: Mapping[str, Any]) -> str:
    if not obj.get("kind"):
        return "an object without kind"
    return f"{obj['kind']}/{raw.text(obj, 'metadata', 'name')}"


def _unread(obj: Mapping[str, Any]) -> str:
    """Why placement does not read an object, with what to give instead."""
    if not obj.get("kind") and isinstance(obj.get("members"), list):
        return (
            "it looks like a fleet file of federator sandbox; placing reads MemberClusters"
            " (kubectl get mc -o yaml)"
        )
    return "placing does not read this kind" if obj.get("kind") else "it has no kind"


def settle(obj: dict[str, Any], namespace: str) -> None:
    """Gives a namespaced object without a namespace this one."""
    kind, meta = registry.kind_of(obj), obj.get("metadata")
    if (
        kind is not None
        and kind.namespaced
        and isinstance(meta, dict)
        and not meta.get("namespace")
    ):
        meta["namespace"] = namespace


def _is_namespace(obj: Mapping[str, Any]) -> bool:
    """Whether it is a Namespace. Its labels set the Pod Security level of its workloads."""
    return (obj.get("apiVersion"), obj.get("kind")) == offline.NAMESPACE and bool(
        raw.text(obj, "metadata", "name")
    )


def _is_read(obj: Mapping[str, Any]) -> bool:
    """Whether its kind is known. Our kinds count under a wrong apiVersion too, so that the check
    refuses them."""
    kind = registry.KINDS.get(str(obj.get("kind")))
    return registry.kind_of(obj) is not None or (kind is not None and kind.model is not None)
