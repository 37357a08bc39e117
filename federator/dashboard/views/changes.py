"""Changes with their causes and times: decisions, turns of clusters and edits. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import listing, text
from federator.dashboard.listing import Page, Spec
from federator.dashboard.sources.rows import ClusterRow, DecisionRow, WorkloadRow
from federator.dashboard.views import timeline
from federator.kube import clock
from federator.model import plaintext

SINCE: Final[Mapping[str, float]] = {"15m": 900.0, "1h": 3600.0, "1d": 86400.0, "7d": 604800.0}
LONGEST_S: Final = max(SINCE.values())
COLUMNS: Final = (
    ("When", "time"),
    ("What", "what"),
    ("Of", "object"),
    ("Change", ""),
    ("Cause", "cause"),
    ("By", ""),
)


@dataclass(frozen=True, slots=True)
class ChangeRow:
    at: float
    """Epoch seconds."""
    what: str
    tone: str
    subject: tuple[str, ...]
    """Kind, namespace and name, without the namespace of what has none; () for what is about
    everything."""
    clusters: tuple[str, ...]
    cause: str
    """In a word or a few."""
    title: str
    detail: str = ""
    by: str = ""


def spec(now_s: float) -> Spec[ChangeRow]:
    """What the list can be asked."""

    def since(row: ChangeRow) -> tuple[str, ...]:
        return tuple(name for name, seconds in SINCE.items() if row.at >= now_s - seconds)

    return Spec(
        facets={
            "since": since,
            "what": lambda row: (row.what,),
            "cluster": lambda row: row.clusters,
            "cause": lambda row: (row.cause,) if row.cause else (),
            "namespace": lambda row: row.subject[1:2] if len(row.subject) == 3 else (),
        },
        sorts={
            "time": lambda row: row.at,
            "what": lambda row: row.what,
            "cause": lambda row: row.cause,
            "object": lambda row: row.subject,
        },
        text=lambda row: f"{'/'.join(row.subject)} {row.title} {row.by}".lower(),
        sort="-time",
    )


def of_history(answer: Mapping[str, Any]) -> Iterator[ChangeRow]:
    """The entries of the leader's history."""
    for each in raw.objects(answer, "entries"):
        entry, key = timeline.of_history(each), raw.text(each, "key")
        subject = tuple(key.split("/")) if key else ()
        clusters = subject[1:] if subject[:1] == ("MemberCluster",) else tuple(_moved(each))
        cause = plaintext.clipped(raw.text(each, "cause"), 80)
        yield ChangeRow(
            entry.at, entry.what, entry.tone, subject, clusters, cause, entry.title, entry.detail,
            entry.by,
        )  # fmt: skip


def _moved(each: Obj) -> list[str]:
    """The clusters with another number of copies by a decision."""
    if raw.text(each, "kind") != "Decision":
        return []
    before, after = (raw.mapping(each, end) for end in ("from", "to"))
    return sorted(n for n in {*before, *after} if before.get(n) != after.get(n))


Decided = Callable[[str], DecisionRow | None]


def newest(
    workloads: Iterable[WorkloadRow], decided: Decided, since_s: float
) -> Iterator[ChangeRow]:
    """The newest decision about each workload: what is known without the leader's history."""
    begin = clock.stamp(since_s)
    for row in workloads:
        decision = decided(row.uid)
        if decision is None or decision.at < begin:
            continue
        copies = timeline.shares(dict(decision.shares))
        title = f"{decision.cause}: {copies}" if decision.cause else copies
        yield ChangeRow(
            raw.epoch_s(decision.at),
            "Decision",
            timeline.TONES["Decision"],
            (row.kind, row.namespace, row.name),
            tuple(cluster for cluster, _ in decision.shares),
            decision.cause,
            title,
            by="hub",
        )


def edits(workloads: Iterable[WorkloadRow], since_s: float) -> Iterator[ChangeRow]:
    """The newest edit of each workload, and those that are new."""
    begin = clock.stamp(since_s)
    for row in workloads:
        at = row.edited or row.created
        if at < begin:
            continue
        yield ChangeRow(
            raw.epoch_s(at),
            "Edit",
            timeline.TONES["Edit"],
            (row.kind, row.namespace, row.name),
            (),
            "Edited" if row.edited else "Created",
            "Edited" if row.edited else "Created",
            by=row.edited_by,
        )


def turns(clusters: Iterable[ClusterRow], since_s: float) -> Iterator[ChangeRow]:
    """The last turn of each cluster, where the leader's history does not have it."""
    for row in clusters:
        at = raw.epoch_s(row.since)
        if at < since_s:
            continue
        tone = "good" if row.state == "Ready" else "bad"
        subject = ("MemberCluster", row.name)
        yield ChangeRow(
            at, "Cluster", tone, subject, (row.name,), row.state, row.state, row.message, "hub"
        )


def line(row: ChangeRow, now_s: float) -> dict[str, Any]:
    subject = row.subject
    href = ""
    if subject[:1] == ("MemberCluster",):
        href = text.address("clusters", *subject[1:])
    elif len(subject) == 3:
        href = text.address("workloads", *subject, "timeline")
    shown = timeline.TimelineLine(row.at, row.what, row.tone, row.title, row.detail, row.by)
    return {
        **timeline.shown(shown, now_s),
        "subject": "/".join(subject) or "everything",
        "name": subject[-1] if subject else "everything",
        "of": " in ".join(subject[:-1]),
        "href": href,
        "cause": row.cause,
    }


def view(page: Page[ChangeRow], now_s: float) -> dict[str, Any]:
    """The list."""
    return {
        "headers": listing.headers(page.query, spec(now_s), COLUMNS),
        "rows": [line(row, now_s) for row in page.rows],
        "filters": page.filters(),
        "paging": page.paging(),
        "query": page.query.text,
        "sort": page.query.sort,
        "path": page.query.path,
    }
