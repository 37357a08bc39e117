"""What a body says it is, against what the path of its request says: apiVersion, kind, name and
namespace.

Called by everything that reads an object from a request, with a real server's words. Nothing is
decoded here.
"""

from federator.embedded.schema import builtins
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import Target
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import JsonObject

_QUOTED_MAX = 30


def check_kind(
    given: JsonObject, info: ResourceInfo, raw: bytes, field_validation: str = "Warn"
) -> None:
    """apiVersion and kind. Builtins may leave both out; custom resources must name them. Raises
    `Refusal`.

    `raw` is the body as sent, which messages quote.
    """
    if str(given.get("apiVersion")).count("/") > 1:
        text = raw.decode(errors="replace")
        why = f"unexpected GroupVersion string: {given['apiVersion']} ({_head(text)})"
        raise refusals.bad_request(
            f"the object provided is unrecognized (must be of type {info.kind}): {why}"
        )
    if info.is_builtin:
        api_version, kind = (
            given.get("apiVersion") or info.api_version,
            given.get("kind") or info.kind,
        )
        if kind != info.kind or api_version != info.api_version:
            raise refusals.bad_request(_wrong_kind(info, api_version, kind))
        return
    api_version, kind = given.get("apiVersion"), given.get("kind")
    for field, value in (("Kind", kind), ("apiVersion", api_version)):
        if not value:
            text = raw.decode(errors="replace")
            if field_validation == "Ignore":
                head = f'{info.kind} in version "{info.version}" cannot be handled as a {info.kind}'
                raise refusals.bad_request(f"{head}: Object '{field}' is missing in '{text}'")
            why = f"Object '{field}' is missing in '{text}' ({_head(text)})"
            raise refusals.bad_request(
                f"the object provided is unrecognized (must be of type {info.kind}): {why}"
            )
    if api_version != info.api_version:
        why = (
            f"the API version in the data ({api_version}) does not match the expected API version"
            f" ({info.api_version})"
        )
        raise refusals.bad_request(why)


def check_names(given: JsonObject, target: Target) -> None:
    """Name and namespace of a body against what the path names. Raises `Refusal` 400."""
    metadata = given.get("metadata")
    if metadata is None:
        metadata = given["metadata"] = {}
    if not isinstance(metadata, dict):
        return
    if target.namespace is None:
        # A namespace that a cluster-wide object names is forgotten.
        metadata.pop("namespace", None)
    elif (metadata.get("namespace") or target.namespace) != target.namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not target.name:
        return
    name = metadata.get("name")
    if not name:
        raise unnamed(target)
    if name != target.name:
        raise refusals.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    if target.namespace is not None:
        metadata["namespace"] = target.namespace


def unnamed(target: Target) -> refusals.Refusal:
    """400: an object must say the name that the path says."""
    why = (
        f"the name of the object ({target.name} based on URL) was undeterminable: name must be"
        " provided"
    )
    return refusals.bad_request(why)


def _head(text: str) -> str:
    return text if len(text) <= _QUOTED_MAX else f"{text[:_QUOTED_MAX]} ..."


def _wrong_kind(info: ResourceInfo, api_version: str, kind: str) -> str:
    version = api_version.rpartition("/")[2]
    head = f'{kind} in version "{version}" cannot be handled as a {info.kind}: '
    if any(
        other.kind == kind and other.api_version == api_version
        for other in builtins.resource_infos()
    ):
        package = info.group.partition(".")[0] or "core"
        return (
            head + f"converting ({version}.{kind}) to ({package}.{info.kind}): unknown conversion"
        )
    return (
        head
        + f'no kind "{kind}" is registered for version "{api_version}"'
        + ' in scheme "pkg/runtime/scheme.go:111"'
    )
