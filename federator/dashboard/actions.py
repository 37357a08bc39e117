"""What a person can do with a button: a table of actions, with the edit that each of them makes.
Pure.

The next action is a row of `ACTIONS`. Its edit is one that a command makes too (`kinds.edits`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import edits
from federator.kinds.edits import Patch
from federator.kinds.kind import Kind
from federator.kinds.pods.revisions import Revision
from federator.kube import clock
from federator.model.errors import FieldError
from federator.model.kubernetes import diffs

WORKLOAD, CLUSTER, FEDERATION = "workload", "cluster", "federation"
COUNT_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Field:
    """What a person has to say."""

    name: str
    title: str
    number: bool
    now: Callable[[Obj], str]
    """The value that the field begins with."""
    required: bool = True


@dataclass(frozen=True, slots=True)
class Made:
    """What an edit is made from, beside the object."""

    given: str
    """The field, as it was given."""
    now_s: float
    by: str
    """The person."""
    kept: Sequence[Revision] = ()
    """Earlier revisions, the newest last."""


@dataclass(frozen=True, slots=True)
class Action:
    """One row."""

    name: str
    """The last part of its address."""
    title: str
    of: str
    """What it changes: a workload, a cluster or the federation."""
    says: str
    """What it comes to, in a sentence."""
    fits: Callable[[Kind, Obj], bool]
    """Whether there is a button for the object as it is."""
    edit: Callable[[Kind, Obj, Made], Patch]
    """Raises FieldError."""
    command: str
    """The same on the command line."""
    field: Field | None = None
    revisions: bool = False
    """Whether the edit needs the earlier revisions."""


def _runs(kind: Kind, obj: Obj) -> bool:
    return kind.verbs is not None and not kind.verbs.suspended(obj)


def _wish(obj: Obj) -> Any:
    return raw.at(obj, "spec", "drain")


def _count(made: Made) -> int:
    text = made.given.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and int(text) <= COUNT_MAX):
        raise FieldError("replicas", f"must be a whole number from 0 to {COUNT_MAX}")
    return int(text)


def _reason(made: Made) -> str:
    words = " ".join(made.given.split())
    if len(words) > edits.REASON_MAX or not words.isprintable():
        raise FieldError("reason", f"must be at most {edits.REASON_MAX} printable characters")
    return words


def _undone(kind: Kind, obj: Obj, made: Made) -> Patch:
    assert kind.verbs is not None
    parts = kind.verbs.pods(obj)
    return edits.undone(kind, obj, edits.earlier(made.kept, parts))


ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        "scale",
        "Scale",
        WORKLOAD,
        "The number of copies changes. The hub places the new number with the policy in force.",
        lambda kind, obj: edits.scales(kind),
        lambda kind, obj, made: edits.scaled(kind, _count(made)),
        "kubectl scale {resource}/{name} -n {namespace} --replicas={given}",
        Field("replicas", "Copies", True, lambda obj: str(raw.figure(obj, "spec", "replicas"))),
    ),
    Action(
        "suspend",
        "Suspend",
        WORKLOAD,
        "It stays as it is until it is resumed: running copies keep running, and the hub places and"
        " dispatches nothing of it.",
        _runs,
        lambda kind, obj, made: edits.suspended(kind, True),
        "kubectl patch {resource}/{name} -n {namespace} --type=merge -p '{patch}'",
    ),
    Action(
        "resume",
        "Resume",
        WORKLOAD,
        "The hub places and dispatches it again, with the changes that were made meanwhile.",
        lambda kind, obj: kind.verbs is not None and kind.verbs.suspended(obj),
        lambda kind, obj, made: edits.suspended(kind, False),
        "kubectl patch {resource}/{name} -n {namespace} --type=merge -p '{patch}'",
    ),
    Action(
        "restart",
        "Restart",
        WORKLOAD,
        "Every pod is replaced, in the cluster order of the policy and within maxUnavailable.",
        lambda kind, obj: edits.rolls_out(kind) and _runs(kind, obj),
        lambda kind, obj, made: edits.restarted(obj, clock.stamp(made.now_s)),
        "federator rollout restart {short}/{name} -n {namespace}",
    ),
    Action(
        "undo",
        "Undo the last roll-out",
        WORKLOAD,
        "The pods of the revision before are written back. They roll out like any other change.",
        # One that nobody has edited has no revision before.
        lambda kind, obj: edits.rolls_out(kind) and raw.integer(obj, "metadata", "generation") > 1,
        _undone,
        "federator rollout undo {short}/{name} -n {namespace}",
        revisions=True,
    ),
    Action(
        "cordon",
        "Cordon",
        CLUSTER,
        "No new copies are placed there. Running copies stay.",
        lambda kind, obj: not raw.flag(obj, "spec", "cordoned"),
        lambda kind, obj, made: edits.cordoned(True),
        "federator cluster cordon {name}",
    ),
    Action(
        "uncordon",
        "Uncordon",
        CLUSTER,
        "New copies may be placed there again.",
        lambda kind, obj: raw.flag(obj, "spec", "cordoned"),
        lambda kind, obj, made: edits.cordoned(False),
        "federator cluster uncordon {name}",
    ),
    Action(
        "drain",
        "Drain",
        CLUSTER,
        "Everything moves to other clusters, at the pace of moves and with replacements ready"
        " first. The hub refuses a drain that would leave copies without a place.",
        lambda kind, obj: _wish(obj) is None,
        lambda kind, obj, made: edits.drained({}),
        "federator cluster drain {name}",
    ),
    Action(
        "undrain",
        "End the drain",
        CLUSTER,
        "Nothing more leaves, and new copies may be placed there again. What has left stays away.",
        lambda kind, obj: _wish(obj) is not None,
        lambda kind, obj, made: edits.drained(None),
        "federator cluster undrain {name}",
    ),
    Action(
        "pause",
        "Pause",
        FEDERATION,
        "Nothing is placed or dispatched in any cluster until somebody resumes. Workloads keep"
        " running. A pause has no forecast.",
        lambda kind, obj: raw.text(obj, "data", "paused") != "true",
        lambda kind, obj, made: edits.paused(made.by, clock.stamp(made.now_s), _reason(made)),
        "federator pause",
        Field("reason", "Why", False, lambda obj: "", required=False),
    ),
    Action(
        "resume",
        "Resume",
        FEDERATION,
        "The hub places and dispatches again, beginning with what has waited.",
        lambda kind, obj: raw.text(obj, "data", "paused") == "true",
        lambda kind, obj, made: dict(edits.RESUMED),
        "federator resume",
    ),
)


def of(what: str) -> list[Action]:
    """The actions on a workload, a cluster or the federation."""
    return [action for action in ACTIONS if action.of == what]


def named(what: str, name: str) -> Action | None:
    """The action of this address."""
    return next((action for action in of(what) if action.name == name), None)


def asked(action: Action, kind: Kind, obj: Obj, patch: Patch) -> dict[str, Any] | None:
    """The edit as the leader plans it (`advice.plans.asked`); None for one that has no plan."""
    if action.of == FEDERATION:
        return None
    meta = raw.mapping(obj, "metadata")
    none: dict[str, Any] = {"applied": [], "deleted": [], "lost": [], "scaled": [], "losses": False}
    if action.name == "scale":
        which = kind.kind, raw.text(meta, "namespace"), raw.text(meta, "name")
        return {**none, "scaled": [(which, patch["spec"]["replicas"])]}
    whole = {name: value for name, value in obj.items() if name != "status"}
    written = {**whole, "apiVersion": kind.api_version, "kind": kind.kind}
    kept = ("name", "namespace", "labels", "annotations")
    written["metadata"] = {name: meta[name] for name in kept if name in meta}
    return {**none, "applied": [diffs.patched(written, patch)]}
