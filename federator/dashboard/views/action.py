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


def form(action: Action, kind: Kind | None, obj: Obj, where: Sequence[str]) -> dict[str, Any]:
    """The page before anything is known about what it comes to."""
    meta = raw.mapping(obj, "metadata")
    names = filter(None, (raw.text(meta, "namespace"), raw.text(meta, "name")))
    field = action.field
    return {
        "action": action.name,
        "title": action.title,
        "subject": "the federation"
        if kind is None or action.of == FEDERATION
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


def asked(
    page: Mapping[str, Any],
    given: str,
    mark: str,
    command: str,
    document: Mapping[str, Any] | None,
    warning: str,
) -> dict[str, Any]:
    """The page with what it comes to, and what the confirmation sends. `warning`: why there is no
    plan."""
    field = page["field"] and {**page["field"], "value": given}
    return {
        **page,
        "field": field,
        "given": given,
        "mark": mark,
        "command": command,
        "plan": None if document is None else plan_views.outcome(document),
        "warning": warning,
    }


def command(action: Action, kind: Kind | None, obj: Obj, patch: Patch, given: str) -> str:
    """The same on the command line."""
    meta = raw.mapping(obj, "metadata")
    return action.command.format(
        resource=f"{kind.plural}.{kind.group}" if kind is not None else "",
        short=kind.short_names[0] if kind is not None else "",
        name=raw.text(meta, "name"),
        namespace=raw.text(meta, "namespace"),
        given=given.strip(),
        patch=json.dumps(patch),
    )
