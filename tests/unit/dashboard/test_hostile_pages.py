"""Texts of strangers on every page: names, labels, messages and reasons that are scripts, marks that
reverse reading, and what is far too long.
"""

import hashlib
import json
import re
from base64 import b64encode
from html.parser import HTMLParser
from typing import Any

import pytest

from federator.dashboard import listing, render, rows
from federator.dashboard.listing import Query
from federator.dashboard.rows import DecisionRow
from federator.dashboard.views import clusters, overview, quota, workload, workloads
from federator.kinds import registry
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
        "overview.html.j2": overview.view([row], [cluster], [account], 0.0),
        "workloads.html.j2": workloads.view(
            listing.select(Query("/workloads", {}, text), spec, []), lambda uid: shares, 0.0
        )
        | {"rows": [workloads.line(row, shares, 0.0)], "filters": listed.filters()},
        "workload.html.j2": workload.summary(kind, obj, [decision], [event], 0.0),
        "why.html.j2": {**workload.why(kind, text, text, facts), "trouble": "", "decisions": None},
        "objects.html.j2": {**workload.objects(kind, text, text, tree), "trouble": text},
        "clusters.html.j2": clusters.view(
            listing.select(Query("/clusters"), clusters.SPEC, [cluster]), 0.0
        ),
        "cluster.html.j2": clusters.single(cluster, obj, [(row, shares)], 0.0),
        "quota.html.j2": quota.view([account], lacking),
        "account.html.j2": single,
        "failure.html.j2": {"status": 404, "title": text, "message": text},
        "signin.html.j2": {
            **dict.fromkeys(("csrf", "next", "trouble", "issuer"), text),
            **{"begin": "/", "left": True, "end": "/"},
        },
        "signedin.html.j2": {"next": "/"},
    }


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


@pytest.mark.parametrize("text", CORPUS, ids=range(len(CORPUS)))
def test_texts_of_strangers_are_text(text: str) -> None:
    harmless = HARMLESS
    for template, view in pages(text).items():
        frame = {**FRAME, "title": text, "reader": text, "warnings": [text], "notes": [text]}
        seen, usual = Seen(), Seen()
        page = render.html(template, frame, view).decode()
        seen.feed(page)
        plain = {**FRAME, "warnings": ["harmless"], "notes": ["harmless"]}
        usual.feed(render.html(template, plain, harmless[template]).decode())
        assert seen.tags == usual.tags, template
        assert not [name for name, _ in seen.attributes if name.startswith("on")], template
        assert [n for n, _ in seen.attributes] == [n for n, _ in usual.attributes], template
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
