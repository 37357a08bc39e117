"""What happened to a workload, in one order: decisions with their causes, conditions, Events,
revisions, and edits of the object. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import text
from federator.dashboard.sources import rows
from federator.dashboard.views import workload
from federator.kinds import edits
from federator.kinds.kind import Kind
from federator.kinds.pods import progress, revisions
from federator.kinds.pods.revisions import Revision
from federator.kube import clock
from federator.model import plaintext

ENTRIES_MAX: Final = 200
TONES: Final[Mapping[str, str]] = {
    "Decision": "busy",
    "Revision": "busy",
    "Edit": "idle",
    "Gap": "warn",
    "Lost": "warn",
}
GOOD: Final = frozenset({"Ready", "Placed", "Complete", "Available", "Healthy", "Applied"})
"""Conditions that are well when they are True."""
BAD: Final = frozenset({"Stalled", "Failed", "DeletionBlocked"})
"""Conditions that are well when they are False. All others are neither."""


@dataclass(frozen=True, slots=True)
class TimelineLine:
    at: float
    """Epoch seconds."""
    what: str
    tone: str
    title: str
    detail: str = ""
    by: str = ""
    """The program or the person, as far as anything says so."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a time line is made from, beside the object. None for a part that the reader may not
    see, or that nobody answered."""

    history: Mapping[str, Any] | None
    """The leader's answer."""
    events: Sequence[Obj] | None
    revisions: Sequence[Revision] | None


def view(kind: Kind, obj: Obj, known: Known, now_s: float) -> dict[str, Any]:
    """The page."""
    history, kept = known.history, known.revisions
    entries = [*_edits(obj)]
    entries += _entries(history) if history is not None else [*_conditions(obj)]
    entries += [_event(each) for each in workload.newest(known.events or (), uid_of(obj))]
    entries += _revisions(kept or ())
    entries.sort(key=lambda entry: entry.at, reverse=True)
    meta = raw.mapping(obj, "metadata")
    namespace, name = raw.text(meta, "namespace"), raw.text(meta, "name")
    short = f"{kind.short_names[0]}/{name} -n {namespace}"
    rolls = edits.rolls_out(kind)
    return {
        **workload.head(kind, namespace, name, "timeline"),
        "entries": [shown(entry, now_s) for entry in entries[:ENTRIES_MAX]],
        "left": max(len(entries) - ENTRIES_MAX, 0),
        "begins": clock.stamp(history["begins"])
        if history and isinstance(history.get("begins"), int | float)
        else "",
        "rollout": _rollout(kind, obj) if rolls else None,
        "revisions": None if kept is None or not rolls else _numbered(kept, now_s),
        "commands": [
            f"federator history {short}",
            *((f"federator rollout status {short}", f"federator rollout history {short}")) * rolls,
        ],
    }


def uid_of(obj: Obj) -> str:
    return raw.text(obj, "metadata", "uid")


def shown(entry: TimelineLine, now_s: float) -> dict[str, Any]:
    stamp = clock.stamp(entry.at) if entry.at > 0 else ""
    return {
        "at": stamp,
        "age": text.age(stamp, now_s),
        "what": entry.what,
        "tone": entry.tone,
        "title": plaintext.clipped(entry.title, 300),
        "detail": plaintext.clipped(entry.detail, 600),
        "by": plaintext.clipped(entry.by, 100),
    }


def _entries(history: Mapping[str, Any]) -> Iterator[TimelineLine]:
    """The entries of the leader's history."""
    for each in raw.objects(history, "entries"):
        yield of_history(each)


def of_history(each: Obj) -> TimelineLine:
    """An entry of the leader's history."""
    kind, at = raw.text(each, "kind"), raw.at(each, "at")
    stamp = float(at) if isinstance(at, int | float) and not isinstance(at, bool) else 0.0
    cause, evidence = raw.text(each, "cause"), raw.text(each, "evidence")
    match kind:
        case "Decision":
            title = f"{cause}: {shares(raw.at(each, 'from'))} → {shares(raw.at(each, 'to'))}"
            tone = TONES[kind]
        case "Condition":
            title = raw.text(each, "to")
            tone = _tone_of(*title.partition(" ")[0].partition("=")[::2])
        case "Gap":
            title, tone = f"Nothing is recorded: {cause}", TONES[kind]
            evidence = evidence or "another hub led, or none"
        case _:
            turn = " → ".join(
                filter(None, (str(raw.at(each, "from") or ""), str(raw.at(each, "to") or "")))
            )
            title, tone = ": ".join(filter(None, (cause, turn))), TONES.get(kind, "idle")
    return TimelineLine(stamp, kind or "Entry", tone, title, evidence, "hub")


def shares(counts: Any) -> str:
    """`us-east-1a 30, us-east-1b 20`."""
    if not isinstance(counts, Mapping):
        return "nothing"
    given = sorted(counts.items())
    named = ", ".join(f"{cluster} {count}" for cluster, count in given[:6])
    more = f" and {len(given) - 6} more" if len(given) > 6 else ""
    return f"{named}{more}" if named else "nowhere"


def _tone_of(condition: str, status: str) -> str:
    if condition not in GOOD | BAD:
        return "idle"
    if status not in ("True", "False"):
        return "warn"
    return "good" if (status == "True") == (condition in GOOD) else "bad"


def _conditions(obj: Obj) -> Iterator[TimelineLine]:
    """Of the object itself, where there is no history: the last turn of each."""
    for each in raw.objects(obj, "status", "conditions"):
        kind, status = raw.text(each, "type"), raw.text(each, "status")
        at = raw.epoch_s(raw.text(each, "lastTransitionTime"))
        title = f"{kind}={status} {raw.text(each, 'reason')}"
        yield TimelineLine(
            at, "Condition", _tone_of(kind, status), title, raw.text(each, "message"), "hub"
        )


def _event(obj: Obj) -> TimelineLine:
    tone = "warn" if raw.text(obj, "type") == "Warning" else "idle"
    by = raw.text(obj, "reportingComponent") or raw.text(obj, "source", "component")
    return TimelineLine(
        raw.epoch_s(workload.time_of(obj)),
        "Event",
        tone,
        raw.text(obj, "reason"),
        raw.text(obj, "message"),
        by,
    )


def _revisions(kept: Sequence[Revision]) -> Iterator[TimelineLine]:
    for before, each in zip([None, *kept], kept, strict=False):
        changed = "; ".join(revisions.changes(before, each)[:5])
        yield TimelineLine(
            raw.epoch_s(each.created),
            "Revision",
            TONES["Revision"],
            f"Revision {each.number} begins to roll out",
            ". ".join(filter(None, (each.cause, changed))),
        )


def _edits(obj: Obj) -> Iterator[TimelineLine]:
    """The last edit of each writer, as its managed fields say."""
    created = raw.text(obj, "metadata", "creationTimestamp")
    yield TimelineLine(raw.epoch_s(created), "Edit", TONES["Edit"], "Created")
    for each in raw.objects(obj, "metadata", "managedFields"):
        manager, at = raw.text(each, "manager"), raw.text(each, "time")
        if raw.text(each, "subresource") == "status" or manager in rows.OURS or at == created:
            continue
        fields = [
            f"{part}.{name.removeprefix('f:')}"
            for part in ("spec", "metadata")
            for name in sorted(raw.mapping(each, "fieldsV1", f"f:{part}"))
            if name.startswith("f:")
        ]
        named = ", ".join(fields[:8]) + (f" and {len(fields) - 8} more" if len(fields) > 8 else "")
        title = f"{raw.text(each, 'operation') or 'Update'} of {named or 'its fields'}"
        yield TimelineLine(raw.epoch_s(at), "Edit", TONES["Edit"], title, "", manager)


def _rollout(kind: Kind, obj: Obj) -> dict[str, Any]:
    now = progress.rolled_out(kind, obj)
    return {
        "done": now.done,
        "tone": "good" if now.done else "bad" if now.failed else "busy",
        "word": "Rolled out" if now.done else "Stopped" if now.failed else "Rolling out",
        "sentence": now.failed or now.waits,
        "clusters": [
            {"cluster": name, "href": text.address("clusters", name), "text": state}
            for name, state in progress.clusters(obj).items()
        ],
    }


def _numbered(kept: Sequence[Revision], now_s: float) -> list[dict[str, Any]]:
    return [
        {
            "number": each.number,
            "created": each.created,
            "age": text.age(each.created, now_s),
            "cause": each.cause,
            "changes": revisions.changes(before, each)[:10],
        }
        for before, each in zip([None, *kept], kept, strict=False)
    ][::-1]
