"""What the runtime of each pod has: identity, secrets, configuration and registration, as spec and
status of the pod say. Pure; total on what a member may answer.

The init run prepares the parts in order and leaves the first reason as its termination message. The
sidecar is ready while all of its parts are: a pod with an entry in the registry is one with a
sidecar that is ready. More is known in the pod alone (`federator runtime check`).
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from federator.kinds.pods import registration
from federator.model import plaintext
from federator.runtime import arguments, roles
from federator.runtime.files import wanted
from federator.runtime.traffic import members

ROWS_MAX: Final = 100
"""Pods that are named in an answer: those with a reason first."""
TEXT_MAX: Final = 253
"""Characters of a text that a member says of a pod."""
WORDS_MAX: Final = 600
PREPARED: Final = ("identity", "secrets", "config")
PARTS: Final = (*PREPARED, "registry")
YES, NO, LEFT, NONE = "yes", "no", "left", "-"
"""What is said of a part of one pod. `left`: the pod ends, and is in the registry no more."""


class _Variable(msgspec.Struct):
    name: str = ""
    value: str = ""


class _Container(msgspec.Struct):
    name: str = ""
    args: list[str] | None = None
    env: list[_Variable] | None = None

    def roles(self) -> frozenset[str]:
        return frozenset(arguments.roles(self.args or ()))

    def prepares(self) -> bool:
        return arguments.prepares(self.args or ())

    def value(self, name: str) -> str:
        return next((each.value for each in self.env or () if each.name == name), "")


class _Ended(msgspec.Struct):
    exitCode: int = 0
    message: str = ""


class _Waits(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct):
    terminated: _Ended | None = None
    waiting: _Waits | None = None


class _Status(msgspec.Struct):
    name: str = ""
    ready: bool = False
    state: _State | None = None
    lastState: _State | None = None


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    deletionTimestamp: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[dict[str, Any]] | None = None


class _Spec(msgspec.Struct):
    initContainers: list[_Container] | None = None
    containers: list[_Container] | None = None
    serviceAccountName: str = ""


class _PodStatus(msgspec.Struct):
    initContainerStatuses: list[_Status] | None = None
    containerStatuses: list[_Status] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class Pods(msgspec.Struct):
    """As much of a PodList as is read."""

    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Named(msgspec.Struct):
    """Of a pod that cannot be read whole."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)


_decoder = msgspec.json.Decoder(Pods)
_pod_decoder = msgspec.json.Decoder(_Pod)
_named_decoder = msgspec.json.Decoder(_Named)
UNREADABLE: Final = "what its cluster says of it cannot be read"


def pods(body: bytes) -> Pods:
    """Decodes a member's answer. Raises ValueError for what is no list of pods."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError:
        raise ValueError("the answer is no list of pods") from None


def rows(
    listed: Pods, belongs: Callable[[Mapping[str, Any], Mapping[str, str]], bool]
) -> Iterator[dict[str, Any]]:
    """A row for each pod of the workload: its name, what is said of each of `PARTS`, and the first
    reason. `facts`: what its runtime is told. `belongs`: whether a pod with this owner and these
    labels is one of the workload's."""
    for item in listed.items or ():
        pod = _read(item)
        meta = pod.metadata
        owner = next(
            (each for each in meta.ownerReferences or () if each.get("controller") is True), {}
        )
        if meta.name and belongs(owner, meta.labels or {}):
            yield _row(pod) if isinstance(pod, _Pod) else _bare(meta.name, UNREADABLE)


def _read(item: msgspec.Raw) -> _Pod | _Named:
    """One odd pod costs the others nothing. One without metadata that can be read has no name."""
    for decoder in (_pod_decoder, _named_decoder):
        with contextlib.suppress(msgspec.MsgspecError):
            return decoder.decode(item)
    return _Named()


def _bare(name: str, reason: str) -> dict[str, Any]:
    return {"name": _text(name), **dict.fromkeys(PARTS, NONE), "reason": reason, "facts": {}}


def _row(pod: _Pod) -> dict[str, Any]:
    name = _text(pod.metadata.name)
    inits, others = pod.spec.initContainers or [], pod.spec.containers or []
    ours = [each for each in (*inits, *others) if each.roles()]
    init = next((each for each in ours if each.prepares()), None)
    sidecar = next((each for each in ours if not each.prepares()), None)
    if init is None and sidecar is None:
        return _bare(name, "no runtime of federator")
    both = [*(pod.status.initContainerStatuses or ()), *(pod.status.containerStatuses or ())]
    by_name = {each.name: each for each in both}
    beside = by_name.get(sidecar.name) if sidecar is not None else None
    ready = beside is not None and beside.ready
    prepared = init is None or _succeeded(by_name.get(init.name))
    # one that has succeeded since keeps its former end in lastState
    why = "" if init is None or prepared else _trouble(by_name.get(init.name))
    facts = _facts(pod, ours)
    named = {"identity": facts["identity"], "secrets": facts["secrets"], "config": facts["config"]}
    failed = why.partition(":")[0]
    at = PREPARED.index(failed) if failed in PREPARED else 0
    parts = {
        part: NONE if not named[part] else YES if prepared or PREPARED.index(part) < at else NO
        for part in PREPARED
    }
    ending = bool(pod.metadata.deletionTimestamp)
    parts["registry"] = NONE
    if facts["registry"]:
        parts["registry"] = YES if ready else LEFT if ending else NO
    if not why and prepared and sidecar is not None and not ready and not ending:
        why = _trouble(beside) or (
            f"{sidecar.name} is not ready; federator runtime check in the pod says why"
        )
    return {"name": name, **parts, "reason": _words(why), "facts": facts}


def _succeeded(status: _Status | None) -> bool:
    ended = status.state.terminated if status is not None and status.state is not None else None
    return ended is not None and ended.exitCode == 0


def _trouble(status: _Status | None) -> str:
    """The last words of a container that ended without success."""
    for state in (status.state, status.lastState) if status is not None else ():
        if state is not None and state.terminated is not None and state.terminated.exitCode:
            return state.terminated.message or f"ended with {state.terminated.exitCode}"
    return ""


def _text(said: str) -> str:
    """Fit for a terminal: short, and without control characters."""
    return plaintext.visible(said)[:TEXT_MAX]


def _words(said: str) -> str:
    return " ".join(_text(each) for each in said[:WORDS_MAX].split())


def _facts(pod: _Pod, ours: Sequence[_Container]) -> dict[str, Any]:
    """The name of its identity, the secrets and artifacts that it reads, and its folder in the
    registry; "" and [] for what it does not have."""
    named = frozenset().union(*(each.roles() for each in ours)) & frozenset(roles.PARTS)

    def value(name: str, default: str = "") -> str:
        return next(filter(None, (each.value(name) for each in ours)), default)

    identity = folder = ""
    domain = value("FEDERATOR_TRUST_DOMAIN")
    if "identity" in named and domain:
        account = pod.spec.serviceAccountName or "default"
        identity = f"spiffe://{domain}/ns/{pod.metadata.namespace}/sa/{account}"
    if "traffic" in named and registration.ANNOTATION in (pod.metadata.annotations or {}):
        service = value("FEDERATOR_TRAFFIC_SERVICE", value("PINTEREST_WORKLOAD_NAME"))
        folder = f"{members.ROOT}/{service}/{value('FEDERATOR_TRAFFIC_ENVIRONMENT', 'prod')}"
    return {
        "identity": _text(identity),
        "secrets": _named(value(wanted.SECRETS), "name") if "secrets" in named else [],
        "config": _named(value(wanted.CONFIG), "artifact") if "config" in named else [],
        "registry": _text(folder),
    }


def _named(variable: str, field: str) -> list[str]:
    """What the entries of a variable name."""
    try:
        entries = json.loads(variable) if variable else []
    except (ValueError, RecursionError):
        return []
    if not isinstance(entries, list):
        return []
    texts = (each.get(field) for each in entries if isinstance(each, dict))
    return [_text(each) for each in texts if isinstance(each, str)]


def counted(pods: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many of the pods have each part, how many have left the registry, and how many have a
    reason."""
    counts = {part: sum(row[part] == YES for row in pods) for part in PARTS}
    return {
        **counts,
        "left": sum(row["registry"] == LEFT for row in pods),
        "troubled": sum(bool(row["reason"]) for row in pods),
    }


def shown(pods: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows that are named, those with a reason first; each cluster has its turn."""
    turns: dict[tuple[str, bool], int] = {}
    placed = []
    for cluster, row in pods:
        key = cluster, bool(row["reason"])
        turns[key] = turns.get(key, 0) + 1
        fields = {name: value for name, value in row.items() if name != "facts"}
        placed.append((not row["reason"], turns[key], cluster, {"cluster": cluster, **fields}))
    chosen = sorted(placed, key=lambda each: each[:3])[:ROWS_MAX]
    return [fields for *_, fields in sorted(chosen, key=lambda each: (each[0], each[2], each[1]))]
