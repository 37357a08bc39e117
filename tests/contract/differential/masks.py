"""Takes out of a transcript what must differ between two servers: uids, times, versions and drawn
names.

Versions become their rank among all versions of objects heard so far, so that their order is
compared; the version of a list only says whether it is as new as everything heard before.
"""

import bisect
import re
from collections.abc import Sequence
from typing import Any

from tests.contract.differential.kinds import Object
from tests.contract.differential.sides import Said

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"^(\d+[smh])+( \(x\d+.*)?$|^<invalid>$")
_VERSIONS = re.compile(
    r"(resource ?version\w*[^0-9\"]{1,24}|resourceVersion[\\\": ]{3,8}|object meta: |current: "
    r"|too old resource version: \d* ?\(?)\d+",
    re.I,
)
_GENERATED = re.compile(r"(?<=gen-|Bad_)[a-z0-9]{5}\b")
_ETCD_KEY = re.compile(r"Key: /[^,]+,")
_ADDRESS = re.compile(r"\b10\.(0|96|97|98|99|1[01]\d)\.\d+\.\d+\b")
_NODE_PORT = re.compile(r"\b3[0-2]\d{3}\b")
_LISTS = ("items", "rows")


class Masker:
    """Masks the transcript of one side."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._names: dict[str, dict[str, str]] = {}
        self._versions: list[int] = []
        self._newest = 0
        self._may_be_stale = False

    def transcript(self, said: Sequence[Said]) -> list[Object]:
        """Status, headers and body of each answer, masked."""
        return [self._one(each) for each in said]

    def _one(self, said: Said) -> Object:
        heard: set[int] = set()
        if ("dryRun", "All") not in said.step.query:
            _collect(said.body, heard)
        self._versions = sorted(heard.union(self._versions))
        self._may_be_stale = any(name == "resourceVersion" for name, _ in said.step.query)
        found = {
            "status": said.status,
            "headers": self._tree(said.headers),
            "body": self._tree(said.body),
        }
        self._newest = self._versions[-1] if self._versions else 0
        return found

    def _tree(self, value: Any, name: str = "") -> Any:
        if isinstance(value, list):
            return [self._tree(item, name) for item in value]
        if isinstance(value, str):
            return self._text(value, name)
        if (
            name in {"nodePort", "healthCheckNodePort"}
            and isinstance(value, int)
            and value >= 30000
        ):
            return "port"
        if not isinstance(value, dict):
            return value
        if value.get("type") == "BOOKMARK":
            value = _settled_bookmark(value)
        if value.get("kind") == "Status" and "causes" in (value.get("details") or {}):
            value = _sorted_causes(value)
        is_list = any(key in value for key in _LISTS)
        found: Object = {}
        for key in sorted(value):
            child = value[key]
            if key == "metadata" and is_list and isinstance(child, dict):
                found[key] = self._list_metadata(child)
            elif key == "resourceVersion" and isinstance(child, str) and child.isdigit():
                found[key] = f"version-{bisect.bisect_left(self._versions, int(child)) + 1}"
            elif key == "managedFields" and isinstance(child, list):
                # Their order depends on which second each was written in.
                found[key] = sorted((self._tree(item) for item in child), key=repr)
            elif key == "metadata" and isinstance(child, dict) and _is_namespace(value):
                # Those that deletions add to namespaces come in the order of a map.
                held = (
                    {"finalizers": sorted(child["finalizers"])}
                    if isinstance(child.get("finalizers"), list)
                    else {}
                )
                found[key] = self._tree({**child, **held})
            else:
                found[self._text(key, "")] = self._tree(child, key)
        return found

    def _list_metadata(self, metadata: Object) -> Object:
        found = {
            key: self._tree(value, key)
            for key, value in metadata.items()
            if key != "resourceVersion"
        }
        if found.get("continue"):
            found["continue"] = "TOKEN"
        version = str(metadata.get("resourceVersion", ""))
        if version.isdigit():
            is_fresh = int(version) >= self._newest or self._may_be_stale
            found["resourceVersion"] = "fresh" if is_fresh else "stale"
        return found

    def _text(self, text: str, name: str) -> str:
        text = text.replace(self._namespace, "NS")
        if "): errors:\n" in text:
            # The complaints about an applied document come in the order of a map.
            head, _, rest = text.partition("errors:\n")
            text = head + "errors:\n" + "\n".join(sorted(rest.split("\n")))
        if name == "cells" and _AGE.match(text):
            return "AGE"
        # Only one of two messages may quote a uid, so that there they have no numbers.
        text = _UID.sub(
            "UID" if name == "message" else (lambda match: self._named("uid", match[0])), text
        )
        text = _TIME.sub(lambda match: "MICROTIME" if match[1] else "TIME", text)
        text = _GENERATED.sub(lambda match: self._named("drawn", match[0]), text)
        text = _ADDRESS.sub("address", text)
        text = _VERSIONS.sub(lambda match: f"{match[1]}N", text)
        text = _ETCD_KEY.sub("Key: KEY,", text)
        return _NODE_PORT.sub("port", text)

    def _named(self, sort: str, value: str) -> str:
        known = self._names.setdefault(sort, {})
        return known.setdefault(value, f"{sort}-{len(known) + 1}")


def _is_namespace(value: Object) -> bool:
    return isinstance(value.get("spec"), dict) and "finalizers" in value["spec"]


def _settled_bookmark(event: Object) -> Object:
    """A bookmark without its version, which is that of the server and not of an object."""
    shown = {**event["object"], "metadata": dict(event["object"].get("metadata") or {})}
    shown["metadata"].pop("resourceVersion", None)
    for row in shown.get("rows") or ():
        row["object"]["metadata"].pop("resourceVersion", None)
    return {**event, "object": shown}


def _sorted_causes(status: Object) -> Object:
    """A Status with its causes in order and once each: a real server walks maps in no order, and
    checks some twice.
    """
    causes: list[Object] = []
    for cause in sorted(status["details"]["causes"], key=repr):
        if cause not in causes:
            causes.append(cause)
    listed = sorted({f"{cause.get('field')}: {cause.get('message')}" for cause in causes})
    message = str(status["message"])
    if all(each in message for each in listed):
        message = message.partition(" is invalid: ")[0] + " is invalid: " + ", ".join(listed)
    return {**status, "message": message, "details": {**status["details"], "causes": causes}}


def _collect(value: Any, into: set[int]) -> None:
    """All versions of objects below `value`; those of lists are left out."""
    if isinstance(value, list):
        for item in value:
            _collect(item, into)
    elif isinstance(value, dict) and value.get("type") != "BOOKMARK":
        is_list = any(key in value for key in _LISTS)
        for key, child in value.items():
            if key == "resourceVersion" and isinstance(child, str) and child.isdigit():
                into.add(int(child))
            elif not (key == "metadata" and is_list):
                _collect(child, into)
