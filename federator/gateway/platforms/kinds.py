"""Kinds of objects that workflow files may hold, as the gateway sees them; and those of this
federation. Pure: commands read workflow files with them, without a gateway.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw, submissions
from federator.kinds import read, registry
from federator.kinds.kind import Kind
from federator.model import plaintext
from federator.model.ask import Unit
from federator.model.errors import FieldError

Obj = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """What became of an object. The fields are those of `models.Member`."""

    state: str
    """One of `views.STATES`."""
    message: str = ""
    desired: int = 0
    placed: int = 0
    ready: int = 0
    clusters: str = ""


@dataclass(frozen=True, slots=True)
class SubmittedKind:
    """A kind that one platform runs. Its objects have metadata with labels and annotations, in
    which the gateway keeps submissions, and a spec."""

    kind: str
    api_version: str
    ends: bool
    """Whether objects run to an end, so that each submission makes one of its own. Objects of any
    other kind keep their name, and later submissions change them."""
    has_logs: bool
    problems: Callable[[dict[str, Any]], Iterable[FieldError]]
    """What is wrong with an object after its parameters are filled in."""
    project: Callable[[Obj], str]
    """The project of an object in its namespace. It must not depend on parameters."""
    progress: Callable[[Obj], Progress]


def _of_registry(row: Kind) -> SubmittedKind:
    return SubmittedKind(
        row.kind, row.api_version, _ends(row), row.verbs is not None, _problems, _project, _progress
    )


def _ends(row: Kind) -> bool:
    if row.verbs is None:
        return False
    return row.verbs.unit is Unit.SHARDS or row.verbs.gang is not None


def _problems(obj: dict[str, Any]) -> list[FieldError]:
    problems: tuple[FieldError, ...] = ()
    try:
        read.check(obj)
    except read.InvalidObject as bad:
        problems = bad.errors
    return [*problems, *read.host_problems(obj)]


def _project(obj: Obj) -> str:
    row = registry.KINDS[raw.text(obj, "kind")]
    if row.verbs is not None:
        return row.verbs.project(obj)
    named = raw.text(obj, "spec", "jobTemplate", "spec", "project")
    return named or raw.text(obj, "metadata", "namespace")


def _progress(obj: Obj) -> Progress:
    status = raw.mapping(obj, "status")
    state, message = submissions.state_of(obj)
    return Progress(
        state,
        plaintext.clipped(message),
        desired=raw.integer(status, "desired"),
        placed=raw.integer(status, "placed"),
        ready=max(raw.integer(status, each) for each in ("ready", "readyReplicas", "done")),
        clusters=str(raw.integer(status, "clusters") or ""),
    )


_OF_THE_HUB: Final = {
    row.recurring.native_kind for row in registry.RECURRING.values() if row.recurring is not None
}
OF_THE_FEDERATION: Final = tuple(
    _of_registry(row)
    for row in (*registry.WORKLOADS.values(), *registry.RECURRING.values())
    if row.kind not in _OF_THE_HUB
)
"""What people write; native cron jobs are the hub's."""
