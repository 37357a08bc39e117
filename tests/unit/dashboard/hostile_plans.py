"""View models of pages about plans, clusters and jobs with a given text wherever a stranger may put
one. Used by the tests beside it."""

import json
from typing import Any

from federator.advice import recurrences
from federator.api.submissions import RECORDS
from federator.dashboard import listing
from federator.dashboard.listing import Query
from federator.dashboard.sources import rows
from federator.dashboard.sources.reports import Report
from federator.dashboard.sources.rows import ClusterRow, DecisionRow, WorkloadRow
from federator.dashboard.views import clusters, jobs, plan, simulations, submissions
from federator.kinds import registry

COUNTS = {
    "workloads": 1,
    "moves": 1,
    "restarted": 1,
    "started": 1,
    "ended": 1,
    "preempted": 1,
    "waiting": 1,
    "shorter": 1,
    "short": 1,
}


def document(text: str) -> dict[str, Any]:
    """A plan."""
    row = {
        "workload": text,
        "before": {text: 1},
        "after": {text: 2},
        "leaves": {text: 1},
        "enters": {text: 1},
        "moves": 1,
        "restarted": 1,
        "short": 1,
        "shortBefore": 0,
        "waiting": 1,
        "reason": text,
        "message": text,
        "preempted": {"by": text, "copies": 1},
    }
    amounts = {"used": "1"}
    return {
        "looked": {"workloads": 1, "clusters": 1, "undecided": 0},
        "summary": COUNTS,
        "others": COUNTS,
        "seconds": 60.0,
        "workloads": [row] * 30,
        "byPolicy": [{"policy": text, "workloads": 1, "copies": 1}],
        "byClusters": [{"from": text, "to": text, "workloads": 1, "copies": 1}],
        "accounts": [
            {"account": text, "tier": text, "resource": text, "before": amounts, "after": amounts}
        ],
        "budgets": [{"budget": text, "copies": 1, "aMinute": 1, "seconds": 1.0}],
        "uncovered": [
            {
                "cluster": text,
                "copiesWithoutPlaceNow": 0,
                "copiesWithoutPlaceThen": 1,
                "workloads": [{"workload": text, "copies": 1, "why": text}],
            }
        ],
        "invariants": [
            {
                "invariant": text,
                "enforcement": text,
                "worse": True,
                "workloads": 1,
                "copiesBeyondNow": 0,
                "copiesBeyondThen": 1,
                "breaches": [{"message": text}],
            }
        ],
        "refused": [text],
        "warnings": [text],
        "settled": False,
        "verdict": 11,
    }


def what_if(text: str) -> dict[str, Any]:
    """The part of the page "Why here"."""
    kind = registry.WORKLOADS["PinterestService"]
    given = dict.fromkeys(("replicas", "cpu", "memory", "lose", "quota", "policy"), text)
    answer = {"problems": [text], "plan": plan.outcome(document(text), [text])}
    return plan.what_if(kind, given, text, answer)


def planned(text: str) -> dict[str, dict[str, Any]]:
    """Template -> view model."""
    fields = {**dict.fromkeys(plan.FIELDS, text), "file": text, "losses": text}
    outcome = plan.outcome(document(text), [text])
    return {
        "plan.html.j2": {**plan.form(fields), "problems": [text], "plan": outcome},
        "drain.html.j2": {**clusters.head(text, "drain"), "trouble": "", "plan": outcome},
    }


def jobs_of(text: str, row: WorkloadRow) -> dict[str, dict[str, Any]]:
    """Template -> view model."""
    kind = registry.WORKLOADS["PinterestJobSet"]
    component = {"name": text, "wanted": 1}
    obj = {
        "metadata": {"name": text, "namespace": text, "uid": "u"},
        "spec": {"shards": 9},
        "status": {
            "message": text,
            "completedIndexes": "0-2",
            "failedIndexes": "3",
            "components": [component],
            "clusterStatuses": [{"cluster": text, "reason": text, "message": text}],
        },
    }
    shares = [{"cluster": text, "ranges": "0-5"}]
    decision = {"spec": {"workload": {"uid": "u"}, "shares": shares}}
    phase = {"cluster": text, "href": "/clusters/x", "phase": text, "podGroup": text}
    listed = listing.select(Query("/jobs", {}, text), jobs.SPEC, [])
    row_of = jobs.view(listing.select(Query("/jobs"), jobs.SPEC, [row]), 0.0)["rows"]
    meta = {"name": text, "namespace": text}
    stalled = {"type": "Ready", "status": "False", "message": text, "reason": text}
    recurring = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestCronJob",
        "metadata": {**meta, "uid": "u"},
        "spec": {"schedule": text},
        "status": {"conditions": [stalled], "lastScheduleTime": text, "nextScheduleTime": text},
    }
    cron_kind = registry.KINDS["PinterestCronJob"]
    cron = rows.cron(cron_kind, recurring)
    crons = listing.select(Query("/cronjobs"), jobs.CRONS, [cron])
    run = {"name": text, "due": text, "state": text, "clusters": [text], "summary": text}
    native = {"cluster": text, "known": True, "active": 1, "lastRun": text, "lastSuccess": text}
    facts = {
        **recurrences.facts(cron_kind, recurring, [], 0.0),
        "now": text,
        "next": [text],
        "lastMissed": text,
        "runs": [{**run, "waits": text}],
        "native": {"after": text, "clusters": [{**native, "why": text}]},
    }
    return {
        "jobs.html.j2": {**jobs.view(listed, 0.0), "rows": row_of},
        "shards.html.j2": {**jobs.parts(kind, obj, [decision]), "phases": [phase]},
        "crons.html.j2": jobs.crons(crons, 0.0),
        "cron.html.j2": jobs.cron(facts),
    }


def submitted(text: str) -> dict[str, Any]:
    """A workload with this text in all that its submission says."""
    words = ("id", "body", "workflow", "artifact", "version", "digest", "by", "at", "commit")
    record = dict.fromkeys((*words, "branch", "verdict"), text)
    meta = {"name": text, "namespace": text, "uid": "u"}
    return {"metadata": {**meta, "annotations": {RECORDS: json.dumps([record])}}, "spec": {}}


def submissions_of(text: str) -> dict[str, Any]:
    """The list of submissions."""
    row = rows.workload(registry.WORKLOADS["PinterestService"], submitted(text))
    assert row is not None
    assert row.submission is not None
    spec = submissions.SPEC
    found = listing.select(Query("/submissions"), spec, [(row, row.submission)])
    return submissions.view(found, 0.0)


def submissions_of_workload(text: str) -> list[dict[str, Any]]:
    """The submissions on the page of a workload."""
    return submissions.of_workload(submitted(text), 0.0)


def simulations_of(text: str) -> dict[str, dict[str, Any]]:
    """Template -> view model."""
    each = dict.fromkeys(
        ("cluster", "resource", "reason", "meaning", "at", "kind", "subject", "choice", "missed"),
        text,
    )
    facts = {
        "name": text,
        "verdict": text,
        "figures": {text: 1, "wait_p99_s": 5e300},
        "use": [each],
        "shortfall": [each],
        "happened": [each],
        "assumptions": [text],
        "inputs": {"scenario": text, "settings": {text: text}},
    }
    report = Report(text, 0.0, facts, {"answer": text, "tried": [each]})
    return {
        "simulations.html.j2": simulations.view([report], [text], 0.0),
        "simulation.html.j2": simulations.single(report, 0.0),
    }


def cluster(text: str, row: ClusterRow, workload: WorkloadRow, shares: DecisionRow) -> Any:
    """The page of a cluster in which that workload runs."""
    probe = {"result": text, "stage": text, "message": text, "finishedAt": text}
    obj = {
        "metadata": {"name": text},
        "spec": {
            "taints": [{"key": text, "value": text, "effect": text}],
            "scaleUp": [{"name": text, "shape": {"cpu": "8"}, "max": 2, "pricePerHour": text}],
        },
        "status": {
            "conditions": [{"type": text, "status": text, "reason": text, "message": text}],
            "success": {"percent": 40, "avoided": True},
            "drain": {"copies": 2, "left": 1, "estimatedEnd": text},
            "probe": {
                **probe,
                "runningSince": text,
                "gateSince": text,
                "tiers": [{"tier": text, **probe}],
            },
        },
    }
    held = list(clusters.holders(text, [(workload, shares)]))
    assert held
    page = listing.select(Query("/clusters/x", {}, ""), clusters.HOLDERS, held)
    return clusters.single(row, obj, page, 2, 0.0)
