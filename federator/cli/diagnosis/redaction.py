"""What of an object may leave the installation: `federator support-bundle`. Pure.

Names, numbers, states and messages stay. Values that owners write into pods and config go, and so
do annotations, because they may hold anything. Secrets and the data of ConfigMaps are never read.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from federator.process import logs

_KNOWN: Final = re.compile(r"^([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|pinterest\.com)/")
"""Keys of annotations that people do not choose."""
TEXT_MAX: Final = 2000
"""Characters of one text."""
CUT: Final = "[redacted]"
_METADATA: Final = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "generation",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "finalizers",
        "labels",
        "ownerReferences",
    }
)
_SAFE: Final = frozenset(
    {
        "apiVersion",
        "kind",
        "name",
        "namespace",
        "image",
        "imagePullPolicy",
        "containerPort",
        "port",
        "targetPort",
        "protocol",
        "cpu",
        "memory",
        "pods",
        "ephemeral-storage",
        "storage",
        "project",
        "tier",
        "priority",
        "replicas",
        "shards",
        "parallelism",
        "policyRef",
        "strategy",
        "mode",
        "partial",
        "topologyKey",
        "whenUnsatisfiable",
        "operator",
        "effect",
        "completion",
        "execution",
        "restartPolicy",
        "runtimeProfile",
        "schedule",
        "timeZone",
        "concurrencyPolicy",
        "serviceAccountName",
        "priorityClassName",
        "maxUnavailable",
        "maxSurge",
        "accessModes",
        "storageClassName",
        "mountPath",
        "type",
        "fieldPath",
    }
)
"""Fields of a spec with texts that are no owner's values."""
_BEYOND: Final = (
    re.compile(r"(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|$)"),
    re.compile(r"(?i)(?<=://)[^/@\s\"']+(?=@)"),
    re.compile(r"(?i)(?<=[?&])(?:[a-z_-]*(?:token|key|secret|password|signature|sig)=)[^&\s\"']+"),
    re.compile(r"(?:LS0tLS1CRUdJTi)[A-Za-z0-9+/=]+"),
    re.compile(
        r"(?i)\b(?:[a-z0-9_-]*(?:secret|passw(?:or)?d|token|api[_-]?key|credential)[a-z0-9_-]*)"
        r"[\"']?\s*[:=]\s*[\"']?[^\s\"',}]{3,}"
    ),
)
"""Beyond what logs cut: PEM blocks (also in base64), user names and keys in addresses, and values
behind a name that says what they are."""


def text(value: str) -> str:
    """A text without what looks like a token, key or password, at most `TEXT_MAX` long."""
    value = logs.redacted(value)
    for pattern in _BEYOND:
        value = pattern.sub(CUT, value)
    return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]} ({len(value)} characters)"


def redacted(obj: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    """The object as it may leave. `strict`: owners write its spec, so that of its texts only those
    of fields that hold no values of theirs stay."""
    kind = obj.get("kind", "")
    left: dict[str, Any] = {"apiVersion": obj.get("apiVersion"), "kind": kind}
    metadata = obj.get("metadata")
    if isinstance(metadata, Mapping):
        left["metadata"] = _clean({k: v for k, v in metadata.items() if k in _METADATA})
        annotations = metadata.get("annotations")
        if isinstance(annotations, Mapping):
            known = (str(key) for key in annotations if _KNOWN.search(str(key)))
            left["metadata"]["annotations"] = dict.fromkeys(known, CUT)
    for name, value in obj.items():
        if name == "spec" and isinstance(value, Mapping):
            left[name] = {
                key: _strict(inner, key) if strict or key == "overrides" else _clean(inner)
                for key, inner in value.items()
            }
        elif name not in left and name not in ("data", "stringData", "binaryData"):
            left[name] = _clean(value)
    return left


def _strict(value: Any, name: str) -> Any:
    """Numbers, flags, and texts of fields that hold no values of owners."""
    if isinstance(value, Mapping):
        return {
            str(key): CUT if key in ("value", "command", "args") else _strict(inner, str(key))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_strict(inner, name) for inner in value]
    if isinstance(value, str):
        return text(value) if name in _SAFE else CUT
    return value


def _clean(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {text(str(key)): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return text(value) if isinstance(value, str) else value
