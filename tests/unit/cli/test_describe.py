"""The page of `federator describe`."""

from typing import Any

from federator.cli.leader import describe
from federator.cli.leader.asking import WorkloadQuery
from federator.cli.leader.describe import Described
from federator.kinds import registry
from tests.unit.cli.files import psvc, run
from tests.unit.cli.hosts import Host

QUERY = WorkloadQuery(
    kind=registry.KINDS["PinterestService"],
    name="web",
    namespace="feed",
    cluster="",
    kubeconfig="",
    context="",
    own_contexts=False,
    leader_address="",
)


def event(name: str, reason: str, note: str, kind: str = "Pod") -> dict[str, Any]:
    regarding = {"kind": kind, "name": name}
    seen = "2026-01-01T00:00:00Z"
    return {
        "type": "Warning",
        "regarding": regarding,
        "reason": reason,
        "note": note,
        "deprecatedLastTimestamp": seen,
    }


def page(**given: Any) -> list[str]:
    status = {
        "summary": "3/4 ready in 2 clusters",
        "conditions": [{"type": "Ready", "status": "False", "reason": "Progressing"}],
        "clusterStatuses": [{"cluster": "b", "ready": 1, "reason": "ImagePullFailed"}],
    }
    meta = {**psvc()["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}
    shares = [{"cluster": "a", "replicas": 2}, {"cluster": "b", "replicas": 2}]
    spec = {"wanted": 4, "placed": 4, "reason": "Chosen", "shares": shares}
    fields: dict[str, Any] = {
        "obj": {**psvc(), "metadata": meta, "status": status},
        "decision": {"spec": spec},
        "pods": {},
        "events": (),
        "silent": {},
    }
    return list(describe.text(QUERY, Described(**fields | given)))


def test_status_conditions_shares_and_spec_stand_on_one_page() -> None:
    text = "\n".join(page())

    assert "  status: 3/4 ready in 2 clusters" in text
    assert "  Ready   False    Progressing" in text
    assert "  b         2       1       ImagePullFailed" in text
    assert "Placement: 4 of 4, Chosen, policy default" in text
    assert "  replicas: 4" in text


def test_events_of_one_reason_are_one_line_and_a_silent_cluster_is_named() -> None:
    pulls = [("b", event(f"web-{at}", "Failed", f"no image for web-{at}")) for at in range(3)]
    lines = page(
        events=[*pulls, ("host", event("web", "Ready", "it is", "PinterestService"))],
        silent={"a": "you may not list its Events"},
    )

    (pulled,) = (line for line in lines if "no image" in line)
    assert "Pod/web-0 and 2 more" in pulled
    assert "  a: its Events are not shown: you may not list its Events" in lines


def test_pods_that_do_not_run_are_shown_first_and_the_number_of_all() -> None:
    pods = [{"cluster": "a", "name": f"web-{at:02}", "status": "Running"} for at in range(30)]
    pods.append({"cluster": "b", "name": "late", "status": "Pending"})
    lines = page(pods={"pods": pods})

    at = next(at for at, line in enumerate(lines) if line.startswith("Pods: 31"))
    assert "late" in lines[at + 2]
    assert len([line for line in lines if "web-" in line]) == describe.LINES_MAX - 1


def test_a_workload_without_a_decision_needs_no_leader(host: Host) -> None:
    host.make(psvc("web"))

    done = run("describe", "psvc/web", "-n", "feed")

    assert (done.exit_code, "no decision yet" in done.stdout) == (0, True)
    gone = run("describe", "psvc/gone", "-n", "feed")
    assert gone.exit_code == 1
    assert '"gone" not found' in gone.stderr
