"""A changed object as the patch that produces it, and as the kubectl command to copy. Pure."""

import copy
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import registry

_GONE: Final = object()


@dataclass(frozen=True, slots=True)
class Patch:
    """The patch from one version of an object to another."""

    kind: str
    namespace: str
    name: str
    type: str
    """`merge` or `json`, as kubectl's --type; `create` for an object that does not exist."""
    body: Any

    @property
    def command(self) -> str:
        where = f" -n {self.namespace}" if self.namespace else ""
        text = json.dumps(self.body, separators=(",", ":"))
        if self.type == "create":
            return f"echo {shlex.quote(text)} | kubectl create -f -"
        singular = registry.KINDS[self.kind].singular
        return (
            f"kubectl patch {singular} {self.name}{where} --type {self.type} -p {shlex.quote(text)}"
        )


def between(before: Obj, after: Obj) -> Patch:
    """A merge patch, or a JSON patch where entries inside a list change (a merge patch would
    replace the list)."""
    meta = before["metadata"]
    steps = _steps(before, after, "")
    inside_lists = any(step.inside_list for step in steps)
    body = [step.operation for step in steps] if inside_lists else _merge(before, after)
    namespace, (kind, name) = str(meta.get("namespace") or ""), _written_in(before)
    if kind != before["kind"]:
        body = _in_template(body)
    return Patch(kind, namespace, name, "json" if inside_lists else "merge", body)


def creating(obj: Obj) -> Patch:
    """The creation of an object that does not exist."""
    meta = obj["metadata"]
    return Patch(
        str(obj["kind"]), str(meta.get("namespace") or ""), str(meta["name"]), "create", obj
    )


def _written_in(obj: Obj) -> tuple[str, str]:
    """(kind, name) of the object in which people change this one: its own, or the recurring one
    that the hub makes it from.
    """
    for owner in raw.objects(obj, "metadata", "ownerReferences"):
        recurring = registry.RECURRING.get(raw.text(owner, "kind"))
        made = recurring.recurring if recurring is not None else None
        if made is not None and made.native_kind == obj["kind"]:
            return raw.text(owner, "kind"), raw.text(owner, "name")
    return str(obj["kind"]), str(obj["metadata"]["name"])


def _in_template(body: Any) -> Any:
    """The same patch for the template of a recurring object."""
    if isinstance(body, list):
        return [
            step | {"path": step["path"].replace("/spec", "/spec/jobTemplate/spec", 1)}
            for step in body
        ]
    return {"spec": {"jobTemplate": body}}


def edited(obj: Obj, path: Sequence[str | int], value: Any) -> dict[str, Any]:
    """A copy with one value set; None removes it. Missing objects on the path are created."""
    made: dict[str, Any] = copy.deepcopy(dict(obj))
    here: Any = made
    for part in path[:-1]:
        if isinstance(here, dict) and not isinstance(here.get(str(part)), dict | list):
            here[str(part)] = {}
        here = here[part]
    if value is None:
        here.pop(path[-1], None)
    else:
        here[path[-1]] = value
    return made


@dataclass(frozen=True, slots=True)
class _Step:
    operation: dict[str, Any]
    inside_list: bool


def _steps(before: Any, after: Any, path: str, *, inside: bool = False) -> list[_Step]:
    if before == after:
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        steps: list[_Step] = []
        for name in sorted({*before, *after}):
            here = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in after:
                steps.append(_Step({"op": "remove", "path": here}, inside))
            elif name not in before:
                steps.append(_Step({"op": "add", "path": here, "value": after[name]}, inside))
            else:
                steps += _steps(before[name], after[name], here, inside=inside)
        return steps
    if (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
        and all(isinstance(entry, Mapping) for entry in before)
    ):
        return [
            step
            for index, (old, new) in enumerate(zip(before, after, strict=True))
            for step in _steps(old, new, f"{path}/{index}", inside=True)
        ]
    return [_Step({"op": "replace", "path": path, "value": after}, inside)]


def _merge(before: Obj, after: Obj) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name in sorted({*before, *after}):
        old, new = before.get(name, _GONE), after.get(name, _GONE)
        if new is _GONE:
            body[name] = None
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            if old != new:
                body[name] = _merge(old, new)
        elif old is _GONE or old != new:
            body[name] = new
    return body
