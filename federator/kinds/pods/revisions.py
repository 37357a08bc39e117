"""What a workload's pods were made from before: one apps/v1 ControllerRevision per roll-out, on the
host.

The hub writes them (`hub.host.revisions`), the command line reads them and undoes to one. A
revision is named after its content, so that the same content is never kept twice; `revision` rises
with every roll-out, as a Deployment's does. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.pods import podparts
from federator.kinds.verbs import Profile
from federator.model import names

API_VERSION: Final = "apps/v1"
KIND: Final = "ControllerRevision"
PLURAL: Final = "controllerrevisions"
CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
"""Annotation in which people say why; copied from the workload, as kubectl expects it."""
KEPT: Final = 10


@dataclass(frozen=True, slots=True)
class Revision:
    """One ControllerRevision of a workload."""

    name: str
    uid: str
    number: int
    parts: Mapping[str, Any]
    """Fields of spec that the pods are made from."""
    profile: Profile
    cause: str = ""
    created: str = ""


def read(obj: Obj) -> Revision:
    """Total, like all readings."""
    meta = raw.mapping(obj, "metadata")
    return Revision(
        name=raw.text(meta, "name"),
        uid=raw.text(meta, "uid"),
        number=raw.integer(obj, "revision"),
        parts=raw.mapping(obj, "data", "spec"),
        profile=(
            raw.text(obj, "data", "profile", "name"),
            raw.text(obj, "data", "profile", "hash"),
        ),
        cause=raw.text(meta, "annotations", CHANGE_CAUSE),
        created=raw.text(meta, "creationTimestamp"),
    )


def history(objs: Sequence[Obj], workload_uid: str) -> list[Revision]:
    """Those of one workload, the newest last."""
    own = [
        obj
        for obj in objs
        if any(
            o.get("uid") == workload_uid for o in raw.objects(obj, "metadata", "ownerReferences")
        )
    ]
    return sorted(map(read, own), key=lambda revision: (revision.number, revision.name))


def name_of(workload: Obj, parts: Mapping[str, Any], profile: Profile) -> str:
    """Of the revision with this content. A workload made anew under the same name has others."""
    digest = podparts.digest_of(parts, *profile, raw.text(workload, "metadata", "uid"))
    return f"{raw.text(workload, 'metadata', 'name')[:200]}-{digest[1:]}"


def body(
    workload: Obj,
    kind: str,
    api_version: str,
    parts: Mapping[str, Any],
    profile: Profile,
    *,
    number: int,
    fleet: str,
) -> dict[str, Any]:
    """A ControllerRevision to be made. `workload` is the host's object; it owns the revision and
    takes it along.
    """
    meta = raw.mapping(workload, "metadata")
    owner = {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    metadata: dict[str, Any] = {
        "name": name_of(workload, parts, profile),
        "namespace": meta["namespace"],
        "labels": {names.FLEET_LABEL: fleet, names.WORKLOAD_UID_LABEL: meta["uid"]},
        "ownerReferences": [owner],
    }
    data: dict[str, Any] = {"spec": dict(parts)}
    if profile[0]:
        data["profile"] = {"name": profile[0], "hash": profile[1]}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "revision": number,
        "data": data,
    }


def cause_of(workload: Obj) -> str:
    return raw.text(workload, "metadata", "annotations", CHANGE_CAUSE)


def changes(before: Revision | None, after: Revision) -> list[str]:
    """What is different, one line each: `container app: image app:1 -> app:2`."""
    if before is None:
        return []
    lines = list(_differences("", before.parts, after.parts))
    if before.profile != after.profile:
        was, now = (
            " ".join(filter(None, profile)) or "none" for profile in (before.profile, after.profile)
        )
        lines.append(f"RuntimeProfile: {was} -> {now}")
    return lines


def _differences(path: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, Mapping | None) and isinstance(new, Mapping | None) and (old or new):
        was, now = old or {}, new or {}
        for name in sorted(was.keys() | now.keys()):
            yield from _differences(
                f"{path}.{name}" if path else name, was.get(name), now.get(name)
            )
    elif _named(old) and _named(new):
        was, now = ({entry["name"]: entry for entry in entries} for entries in (old, new))
        for name in sorted(was.keys() | now.keys()):
            yield from _differences(f"{path}[{name}]", was.get(name), now.get(name))
    else:
        yield f"{path}: {_short(old)} -> {_short(new)}"


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, Mapping) and "name" in entry for entry in value
    )


def _short(value: Any) -> str:
    text = "none" if value is None else value if isinstance(value, str) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
