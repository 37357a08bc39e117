"""A button's page: what it comes to, as the leader plans it, and the confirmation. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import text
from federator.dashboard.actions import FEDERATION, Action
from federator.dashboard.views import plan as plan_views
from federator.kinds.edits import Patch
from federator.kinds.kind import Kind


def buttons(actions: Iterable[Action], where: Sequence[str]) -> list[dict[str, str]]:
    """Of these actions on the page at the address `where`."""
    return [
        {"title": action.title, "href": text.address(*where, "act", action.name)}
        for action in actions
    ]


def form(action: Action, kind: Kind, obj: Obj, where: Sequence[str]) -> dict[str, Any]:
    """The page before anything is known about what it comes to."""
    meta = raw.mapping(obj, "metadata")
    names = filter(None, (raw.text(meta, "namespace"), raw.text(meta, "name")))
    field = action.field
    return {
        "action": action.name,
        "title": action.title,
        "subject": "the federation"
        if action.of == FEDERATION
        else f"{kind.kind} {'/'.join(names)}",
        "back": text.address(*where) if where else "/",
        "path": text.address(*where, "act", action.name),
        "says": action.says,
        "field": None
        if field is None
        else {
            "name": field.name,
            "title": field.title,
            "number": field.number,
            "value": field.now(obj),
        },
        "problem": "",
        "warning": "",
        "plan": None,
        "mark": "",
        "given": "",
        "command": "",
    }


def outcome(
    action: Action, kind: Kind, obj: Obj, patch: Patch, document: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What it comes to, and the same on the command line. None for an action without a plan."""
    meta = raw.mapping(obj, "metadata")
    command = action.command.format(
        resource=f"{kind.plural}.{kind.group}",
        short=kind.short_names[0],
        name=raw.text(meta, "name"),
        namespace=raw.text(meta, "namespace"),
        given=raw.figure(patch, "spec", "replicas"),
        patch=json.dumps(patch),
    )
    return {
        "plan": None if document is None else plan_views.outcome(document),
        "command": command,
    }
