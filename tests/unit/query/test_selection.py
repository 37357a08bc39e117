"""Which rows of a member's table are a workload's, and what of them reaches a terminal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.hub.query import selection
from federator.hub.query.selection import Selection
from federator.model.errors import FieldError

WEB = Selection("PinterestService", "feed", "web", "u", "pinterest.com/service=web", "app")
CRUNCH = Selection("PinterestJobSet", "feed", "crunch", "u", "pinterest.com/jobset=crunch", "shard")
COLUMNS = [
    {"name": name} for name in ("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Other")
]


def table(*rows: dict[str, Any]) -> selection.Table:
    return selection.table(
        json.dumps({"kind": "Table", "columnDefinitions": COLUMNS, "rows": rows}).encode()
    )


def row(
    name: str, owner: str, kind: str = "ReplicaSet", *, controller: bool = True, **meta: Any
) -> dict[str, Any]:
    owners = [{"kind": kind, "name": owner, "controller": controller}]
    labels = {"pod-template-hash": "5d8f"}
    given = {"name": name, "labels": labels, "ownerReferences": owners, **meta}
    return {
        "cells": [name, "1/1", "Running", "0", "5m", "10.0.0.7", "n1", None],
        "object": {"metadata": given},
    }


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (row("web-5d8f-x", "web-5d8f"), True),
        (row("web-5d8f-x", "web-5d8f", controller=False), False),
        (row("web-5d8f-x", "web-other"), False),
        (row("web-5d8f-x", "web-api-5d8f"), False),
        (row("web-5d8f-x", "web-5d8f", kind="StatefulSet"), False),
        (row("web-5d8f-x", "web-5d8f", labels={}), False),
        (row("guest", "", ownerReferences=[]), False),
        ({"cells": [], "object": None}, False),
    ],
)
def test_a_pod_of_a_service_was_made_by_a_replica_set_of_its_deployment(
    made: dict[str, Any], shown: bool
) -> None:
    assert bool(selection.rows(table(made), WEB, ())) is shown


@pytest.mark.parametrize(
    ("job", "pieces", "shard"),
    [
        ("crunch-100-199", ((100, 199),), 107),
        ("crunch-100-199", (), 107),
        ("crunch-other", (), None),
        ("crunchy-100-199", (), None),
        ("x-crunch-100-199", (), None),
    ],
)
def test_a_shard_is_counted_from_the_first_of_its_job(
    job: str, pieces: Any, shard: int | None
) -> None:
    made = row("p", job, "Job", annotations={"batch.kubernetes.io/job-completion-index": "7"})
    assert selection.rows(table(made), CRUNCH, pieces)[0]["shard"] == shard


ANSWERS = st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists, max_leaves=5).map(
    json.dumps
).map(str.encode)


@given(ANSWERS)
def test_what_is_no_table_of_a_member_s_is_one_error(answer: bytes) -> None:
    with pytest.raises(ValueError, match="no table of pods"):
        selection.table(answer)


def test_a_deployment_s_pods_are_those_that_it_selects_itself() -> None:
    meta = {"name": "page", "namespace": "feed", "uid": "u"}
    template = {"spec": {"containers": [{"name": "main"}, {"name": "side"}]}}
    chosen = selection.of_workload(
        "Deployment",
        {
            "metadata": meta,
            "spec": {"selector": {"matchLabels": {"app": "page"}}, "template": template},
        },
    )
    assert (chosen.labels, chosen.container) == ("app=page", "main")
    with pytest.raises(FieldError, match="selects no pods"):
        selection.of_workload("Deployment", {"metadata": meta, "spec": {"selector": {}}})
