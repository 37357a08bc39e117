"""Texts of strangers on every page: names, labels, messages and reasons that are scripts, marks that
reverse reading, and what is far too long.
"""

import functools
import hashlib
import json
import re
from base64 import b64encode
from html.parser import HTMLParser
from typing import Any

import pytest

from federator.dashboard import listing, render
from federator.dashboard.actions import Action, Field
from federator.dashboard.listing import Query
from federator.dashboard.sources import prometheus, rows
from federator.dashboard.sources.rows import DecisionRow
from federator.dashboard.views import (
    action,
    alerts,
    changes,
    clusters,
    logs,
    overview,
    quota,
    timeline,
    workload,
    workloads,
)
from federator.kinds import registry
from federator.kinds.pods.revisions import Revision
from tests.unit.dashboard import hostile_plans
from tests.unit.dashboard.corpus import CORPUS


class Seen(HTMLParser):
    """What a browser would see of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


FRAME: dict[str, Any] = {
    "title": "t",
    "reader": "r",
    "csrf": "c",
    "navigation": [],
    "warnings": [],
    "notes": [],
    "refreshes": True,
    "live": True,
    "refresh": "every 10s",
    "live_from": "/live?of=%2F",
    "here": "/",
    "toggle": "/",
    "json": "/?format=json",
}


def pages(text: str) -> dict[str, dict[str, Any]]:
    """Template -> a view model with this text wherever a stranger may put one."""
    obj = {
        "metadata": {
            "name": text,
            "namespace": text,
            "uid": "u",
            "labels": {text: text},
            "creationTimestamp": text,
        },
        "spec": {"project": text, "taints": [{"key": text, "value": text, "effect": text}]},
        "status": {
            "summary": text,
            "message": text,
            "policy": text,
            "conditions": [
                {"type": kind, "status": "False", "reason": text, "message": text}
                for kind in ("Placed", text)
            ],
            "clusterStatuses": [{"cluster": text, "reason": text, "message": text, "ready": 1}],
        },
    }
    kind = registry.WORKLOADS["PinterestService"]
    row = rows.workload(kind, obj)
    assert row is not None
    decision = {
        "metadata": {"name": text},
        "spec": {
            "workload": {"uid": "u"},
            "message": text,
            "reason": text,
            "causes": [text, {text: text}],
            "violations": [text],
            "shares": [{"cluster": text, "replicas": 2}],
            "policy": {"name": text, "namespace": text, "origin": text},
        },
    }
    event = {"type": text, "reason": text, "message": text, "reportingComponent": text}
    cluster = rows.cluster(
        {
            "metadata": {"name": text, "labels": {text: text, "region": text, "zone": text}},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": text, "message": text}
                ]
            },
        }
    )
    account = rows.account(
        {
            "metadata": {"name": text},
            "spec": {"projects": [text], "tiers": {"OnDemand": {"max": {text: text}}}},
            "status": {"conditions": [{"type": "Valid", "status": "False", "message": text}]},
        }
    )
    shares = DecisionRow("u", 2, 1, ((text, 2),))
    spec = workloads.spec(lambda uid: shares)
    listed = listing.select(Query("/workloads", {"account": text}), spec, [row])
    facts = _facts(text)
    tree = {
        "natives": [{"cluster": text, "kind": text, "name": text, "health": text, "reason": text}],
        "clusters": [{"cluster": text, "answered": False, "reason": text}],
    }
    lacking = workloads.waiting([row], lambda uid: shares, 0.0, 10)
    single = quota.single([account], text)
    assert single is not None
    return {
        "overview.html.j2": {
            **overview.view([row], [cluster], [account], 0.0),
            "trend": overview.trend([(0.0, (1, 1, 0)), (60.0, (2, 1, 1))]),
            "drill": overview.drill({"clusters": [{"cluster": text, "missing": {text: 2}}]}),
            "actions": BUTTON,
        },
        "workloads.html.j2": workloads.view(
            listing.select(Query("/workloads", {}, text), spec, []), lambda uid: shares, 0.0
        )
        | {"rows": [workloads.line(row, shares, 0.0)], "filters": listed.filters()},
        "workload.html.j2": workload.summary(kind, obj, [decision], [event], 0.0)
        | {"actions": BUTTON, "submissions": hostile_plans.submissions_of_workload(text)},
        "submissions.html.j2": hostile_plans.submissions_of(text),
        "why.html.j2": {
            **workload.why(kind, text, text, facts),
            "trouble": "",
            "decisions": None,
            "whatIf": hostile_plans.what_if(text),
        },
        "objects.html.j2": {**workload.objects(kind, text, text, tree), "trouble": text},
        "runtime.html.j2": workload.runtime(kind, text, text, text, _runtimes(text))
        | {"trouble": text},
        "clusters.html.j2": clusters.view(
            listing.select(Query("/clusters"), clusters.SPEC, [cluster]), 0.0
        ),
        "cluster.html.j2": hostile_plans.cluster(text, cluster, row, shares) | {"actions": BUTTON},
        "quota.html.j2": quota.view([account], lacking),
        "account.html.j2": single,
        "action.html.j2": _action(text),
        "timeline.html.j2": _timeline(kind, obj, event, text),
        "changes.html.j2": _changes(text),
        "alerts.html.j2": {
            "source": "Prometheus",
            "rows": alerts.of_prometheus(_alerts(text), 0.0),
            "most": 9,
        },
        "logs.html.j2": {
            **logs.form(kind, text, text, {"cluster": text, "pod": text, "container": text}),
            **logs.shown(
                {
                    "logs": [{"cluster": text, "pod": text, "container": text, "text": text}],
                    "clusters": [{"cluster": text, "answered": False, "reason": text}],
                }
            ),
            "trouble": text,
        },
        "failure.html.j2": {"status": 404, "title": text, "message": text},
        "signin.html.j2": {
            **dict.fromkeys(("csrf", "next", "trouble", "issuer"), text),
            **{"begin": "/", "left": True, "end": "/"},
        },
        "signedin.html.j2": {"next": "/"},
        **hostile_plans.planned(text),
        **hostile_plans.jobs_of(text, row),
        **hostile_plans.simulations_of(text),
    }


HISTORY = ("Decision", "Condition", "Cluster", "Gap", "Leader")


def _history(text: str) -> dict[str, Any]:
    key = f"PinterestService/{text.replace('/', '|')}/x"
    rows: list[dict[str, Any]] = [
        {"kind": each, "key": key, "cause": text, "evidence": text} for each in HISTORY
    ]
    rows[0] |= {"from": {text: 1}, "to": {text: 2}}
    rows[1] |= {"from": text, "to": text}
    return {"entries": rows, "begins": 0.0}


def _timeline(kind: Any, obj: Any, event: Any, text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"f:spec": {f"f:{text}": {}}}
    writer = {"manager": text, "operation": text, "time": "x", "fieldsV1": fields}
    written = {**obj, "metadata": {**obj["metadata"], "managedFields": [writer]}}
    kept = [
        Revision("r", "u", number, {"template": {text: number}}, (text, text), text)
        for number in (1, 2)
    ]
    return timeline.view(kind, written, timeline.Known(_history(text), [event], kept), 0.0)


def _changes(text: str) -> dict[str, Any]:
    spec = changes.spec(0.0)
    page = listing.select(Query("/changes"), spec, changes.of_history(_history(text)))
    return changes.view(page, 0.0) | {"filters": []}


def _alerts(text: str) -> list[Any]:
    labels = (("cluster", text), (text, text))
    return [prometheus.Alert(text, text, False, text, 1.0, labels, text, text)]


BUTTON = [{"title": "t", "href": "/act/t"}]


def _runtimes(text: str) -> dict[str, Any]:
    parts = dict.fromkeys(("identity", "secrets", "config", "registry"), text)
    return {
        "facts": {"identity": text, "secrets": [text], "config": [text], "registry": text},
        "clusters": [
            {"cluster": text, "answered": False, "reason": text},
            {"cluster": text, "answered": True, "pods": 1, "identity": 1, "more": True},
        ],
        "pods": [{"cluster": text, "name": text, **parts, "reason": text}],
        "leftOut": 3,
    }


def _action(text: str) -> dict[str, Any]:
    made = Action(text, text, "workload", text, _fits, _edit, "", Field(text, text, False, str))
    kind = registry.WORKLOADS["PinterestService"]
    obj = {"metadata": {"name": text, "namespace": text}}
    page = action.form(made, kind, obj, ("workloads", text))
    shown = action.outcome(made, kind, obj, {}, None)
    page |= {"problem": text, "warning": text, "given": text, "mark": "m", **shown}
    return {
        **page,
        "command": text,
        "plan": {"tone": "warn", "head": [text], "warnings": [text], "parts": []},
    }


def _fits(_: Any, __: Any) -> bool:
    return True


def _edit(*_: Any) -> dict[str, Any]:
    return {}


def _facts(text: str) -> dict[str, Any]:
    return {
        "workload": {
            "kind": text,
            "namespace": text,
            "name": text,
            "project": text,
            "tier": text,
            "priority": 1,
        },
        "verdict": {
            "desired": 1,
            "placed": 0,
            "Placed": {"status": text, "reason": text, "message": text},
        },
        "state": [text],
        "missing": 1,
        "waits": {"position": 1, "from": text, "to": text},
        "reason": text,
        "message": text,
        "fix": text,
        "policy": {
            "name": text,
            "namespace": text,
            "origin": text,
            "strategy": text,
            "required": [{"title": text}],
        },
        "request": {text: text},
        "unlimitedQuota": True,
        "clusters": [
            {
                "cluster": text,
                "verdict": text,
                "message": text,
                "fit": 1,
                "got": 1,
                "score": 1,
                "terms": {text: 1},
                "placed": 1,
                "ready": None,
                "lacks": text,
                "fix": text,
                "trouble": {"reason": text, "message": text},
            }
        ],
        "arithmetic": [text],
        "violations": [text],
        "warnings": [text],
        "remedies": [
            {"change": text, "gains": 1, "missing": 1, "commands": [text], "byOperator": True}
        ],
        "decision": {"name": text, "seq": 1, "asOf": text, "moves": [text]},
        "sources": {text: text},
    }


HARMLESS = pages("harmless")


@functools.cache
def usual(template: str) -> Seen:
    """The page with nothing but harmless texts."""
    seen = Seen()
    plain = {**FRAME, "warnings": ["harmless"], "notes": ["harmless"]}
    seen.feed(render.html(template, plain, HARMLESS[template]).decode())
    return seen


@pytest.mark.parametrize("text", CORPUS, ids=range(len(CORPUS)))
def test_texts_of_strangers_are_text(text: str) -> None:
    for template, view in pages(text).items():
        frame = {**FRAME, "title": text, "reader": text, "warnings": [text], "notes": [text]}
        seen, plain = Seen(), usual(template)
        page = render.html(template, frame, view).decode()
        seen.feed(page)
        assert seen.tags == plain.tags, template
        assert not [name for name, _ in seen.attributes if name.startswith("on")], template
        assert [n for n, _ in seen.attributes] == [n for n, _ in plain.attributes], template
        targets = [value for name, value in seen.attributes if name in ("href", "src", "action")]
        assert all(value.startswith(("/", "#")) and not value.startswith("//") for value in targets)
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", page
        )
        assert json.loads(render.data(view)) is not None


def test_the_corpus_has_a_hundred_different_texts() -> None:
    assert len(set(CORPUS)) == len(CORPUS) > 100


def test_every_template_of_a_page_is_in_this_test() -> None:
    from federator.dashboard import pages as table

    reviewed = {*pages("x"), "runbook.html.j2"}
    assert {route.template for route in table.ROUTES} <= reviewed


def test_a_script_that_was_changed_is_not_run() -> None:
    digest = hashlib.sha384(render.static(render.SCRIPT)).digest()
    assert f"sha384-{b64encode(digest).decode()}" == render.SCRIPT_INTEGRITY
    licence = render.static("htmx.LICENSE.txt").decode()
    assert "Zero-Clause BSD" in licence


def test_templates_have_no_script_or_style_of_their_own() -> None:
    loader = render.environment().loader
    assert loader is not None
    for name in loader.list_templates():
        source, _, _ = loader.get_source(render.environment(), name)
        assert not re.search(
            r"<style|\sstyle=|\son[a-z]+=|javascript:|\|\s*safe|autoescape", source
        ), name
        assert re.findall(r"<script[^>]*>", source) in (
            [],
            re.findall(r"<script src=[^>]*integrity[^>]*>", source),
        )
