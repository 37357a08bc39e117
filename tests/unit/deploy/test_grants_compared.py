"""What the RBAC test on real servers judges by: the audit log as requests, and requests against
grants.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import audit
from tests.e2e import deployed

HUB = deployed.user(deployed.HUB)


def event(verb: str, resource: str, *, code: int = 200, message: str = "", **ref: str) -> str:
    body: dict[str, Any] = {
        "user": {"username": HUB},
        "verb": verb,
        "objectRef": {"resource": resource, **ref},
        "responseStatus": {"code": code, **({"message": message} if message else {})},
    }
    return json.dumps(body)


@pytest.fixture
def rows(tmp_path: Path) -> set[audit.Asked]:
    log = tmp_path / "audit.log"
    lines = [
        event("patch", "deployments", apiGroup="apps", namespace="feed", name="web", code=201),
        event(
            "patch",
            "deployments",
            apiGroup="apps",
            namespace="feed",
            name="web",
            subresource="status",
        ),
        event(
            "get",
            "leases",
            apiGroup="coordination.k8s.io",
            namespace="federator-system",
            name="federator-hub",
        ),
        event("list", "configmaps", namespace="federator-system", name="federator"),
        event(
            "delete", "secrets", namespace="federator-clusters", name="a", code=403, message="no"
        ),
        '{"half": "a li',
    ]
    log.write_text("\n".join(lines))
    return audit.read(log)


def test_the_log_is_read_with_what_was_refused_and_without_the_line_still_being_written(
    rows: set[audit.Asked],
) -> None:
    assert len(rows) == 5
    assert [row.refused for row in rows if row.verb == "delete"] == ["no"]
    assert {row.user for row in rows} == {HUB}


@pytest.mark.parametrize(
    ("grant", "needed"),
    [
        (("", "apps", "deployments", "patch", ""), True),
        (("", "apps", "deployments", "create", ""), True),
        (("", "apps", "deployments/status", "patch", ""), True),
        (("", "apps", "deployments/status", "create", ""), False),
        (("", "apps", "deployments", "delete", ""), False),
        (("", "batch", "deployments", "patch", ""), False),
        (("federator-system", "coordination.k8s.io", "leases", "get", "federator-hub"), True),
        (("federator-system", "coordination.k8s.io", "leases", "get", "other"), False),
        (("federator-clusters", "coordination.k8s.io", "leases", "get", "federator-hub"), False),
        (("federator-system", "", "configmaps", "list", "federator"), True),
    ],
    ids=str,
)
def test_a_grant_is_used_by_requests_of_its_verb_kind_place_and_name(
    rows: set[audit.Asked], grant: tuple[str, str, str, str, str], needed: bool
) -> None:
    assert deployed.used(rows, grant) is needed
