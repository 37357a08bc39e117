"""Submissions through the gateway: the list, and those of one workload. Pure."""

from typing import Any, Final

from federator.api import submissions
from federator.api.raw import Obj
from federator.dashboard import listing, text
from federator.dashboard.listing import Page, Query, Spec
from federator.dashboard.sources import rows
from federator.dashboard.sources.rows import SubmissionRow, WorkloadRow

Submitted = tuple[WorkloadRow, SubmissionRow]
TONES: Final = {
    "Failed": "bad",
    "Queued": "warn",
    "Pending": "busy",
    "Placed": "busy",
    "Running": "good",
    "Succeeded": "good",
    "Superseded": "idle",
}
SPEC: Final[Spec[Submitted]] = Spec(
    facets={
        "namespace": lambda pair: (pair[0].namespace,),
        "state": lambda pair: (pair[1].state,),
        "workflow": lambda pair: (pair[1].workflow,),
        "branch": lambda pair: (pair[1].branch,) if pair[1].branch else (),
        "user": lambda pair: (pair[1].by,),
    },
    sorts={
        "submitted": lambda pair: pair[1].at,
        "namespace": lambda pair: pair[0].namespace,
        "workflow": lambda pair: pair[1].workflow,
        "state": lambda pair: pair[1].state,
        "user": lambda pair: pair[1].by,
        "workload": lambda pair: (pair[0].name, pair[0].namespace, pair[0].kind),
    },
    text=lambda pair: " ".join(
        (
            pair[0].namespace,
            pair[0].name,
            pair[1].id,
            pair[1].artifact,
            pair[1].version,
            pair[1].digest,
            pair[1].commit,
            pair[1].by,
        )
    ).lower(),
    sort="-submitted",
)
COLUMNS: Final = (
    ("Submission", ""),
    ("Workload", "workload"),
    ("Namespace", "namespace"),
    ("Workflow", "workflow"),
    ("Version", ""),
    ("Built from", ""),
    ("User", "user"),
    ("Verdict", ""),
    ("State", "state"),
    ("Submitted", "submitted"),
)


def _line(row: SubmissionRow, now_s: float) -> dict[str, Any]:
    return {
        "id": row.id,
        "workflow": row.workflow,
        "artifact": row.artifact,
        "version": row.version,
        "digest": row.digest,
        "commit": row.commit,
        "branch": row.branch,
        "verdict": row.verdict,
        "state": row.state,
        "tone": TONES.get(row.state, "idle"),
        "user": row.by,
        "at": row.at,
        "age": text.age(row.at, now_s),
    }


def view(page: Page[Submitted], now_s: float) -> dict[str, Any]:
    """The list: each workload with its last submission."""
    return {
        "headers": listing.headers(page.query, SPEC, COLUMNS),
        "rows": [
            {
                **_line(row, now_s),
                "kind": workload.kind,
                "namespace": workload.namespace,
                "name": workload.name,
                "href": text.address("workloads", workload.kind, workload.namespace, workload.name),
            }
            for workload, row in page.rows
        ],
        "filters": page.filters(),
        "paging": page.paging(),
        "query": page.query.text,
        "sort": page.query.sort,
        "path": page.query.path,
    }


def of_workload(obj: Obj, now_s: float) -> list[dict[str, Any]]:
    """All submissions that an object lists, the newest first, with the list of the last one."""
    state = submissions.state_of(obj)[0]
    return [
        {
            **_line(rows.submitted(record, "Superseded" if at else state), now_s),
            "href": Query("/submissions", text=record.id).address(),
        }
        for at, record in enumerate(submissions.read(obj))
    ]
