"""`federator probe` by the objects of a host: what is asked for, what is shown, and exit codes."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from federator.kube.login import connect
from federator.model import names
from federator.runtime import reaching
from tests.unit.cli.files import run
from tests.unit.cli.hosts import Host

API = "federation.pinterest.com/v1alpha1"


def cluster(name: str, ready: str = "True", **probe: Any) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T10:00:00Z",
    }
    status: dict[str, Any] = {"conditions": [condition], **({"probe": probe} if probe else {})}
    spec = {"credentials": {"secretRef": {"name": name}}}
    meta = {"name": name}
    return {
        "apiVersion": API,
        "kind": "MemberCluster",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    monkeypatch.setattr(connect, "from_kubeconfig", made.connected)
    made.make(
        cluster("a", result="Passed", finishedAt="2026-01-01T11:00:00Z"),
        cluster(
            "b",
            result="Failed",
            stage="Ready",
            message="OnDemand: ImagePullBackOff",
            finishedAt="2026-01-01T11:00:00Z",
            gateSince="2026-01-01T09:00:00Z",
        ),
        cluster("c"),
    )
    return made


def test_the_last_probes_are_shown_with_the_gate(host: Host) -> None:
    done = run("probe", "status")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["CLUSTER", "RESULT", "STAGE", "FINISHED", "GATE", "MESSAGE"]
    assert [row[:3] for row in rows[1:]] == [
        ["a", "Passed", "-"],
        ["b", "Failed", "Ready"],
        ["c", "-", "-"],
    ]
    assert rows[2][-3:] == ["Closed", "OnDemand:", "ImagePullBackOff"]
    assert done.exit_code == 1, "the probe of b failed"
    done = run("probe", "status", "a", "c", "-o", "json")
    assert [(row["cluster"], row.get("result")) for row in json.loads(done.stdout)] == [
        ("a", "Passed"),
        ("c", None),
    ]
    assert done.exit_code == 0


def test_a_request_is_another_text_each_time(host: Host) -> None:
    asked = set()
    for _ in range(2):
        done = run("probe", "run", "a")
        assert done.stdout == "membercluster.federation.pinterest.com/a is to be probed\n"
        asked.add(
            host.find("MemberCluster", "a")["metadata"]["annotations"][names.PROBE_ANNOTATION]
        )
    assert len(asked) == 2
    assert names.PROBE_ANNOTATION not in str(host.find("MemberCluster", "b"))


def test_an_unknown_cluster_is_named_and_nothing_is_asked(host: Host) -> None:
    done = run("probe", "run", "a", "nowhere")
    assert done.exit_code == 1
    assert "there is no cluster nowhere; the federation has a, b, c" in done.stderr
    assert names.PROBE_ANNOTATION not in str(host.find("MemberCluster", "a"))


def test_a_wait_without_a_result_fails_with_the_names(host: Host) -> None:
    done = run("probe", "run", "--wait", "--timeout", "10ms")
    assert done.exit_code == 1
    assert "no result within 0.01 s: a, b, c" in done.stderr


@pytest.fixture
def address() -> Iterator[str]:
    server = reaching.server("127.0.0.1", 0, "probe-a")
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    serving.join()


def test_a_server_is_reached_by_the_text_it_answers_with(address: str) -> None:
    assert reaching.reach(address, "probe-a", 0.0) == ""
    assert "answered, and not as this probe" in reaching.reach(address, "probe-b", 0.0)
    assert run("runtime", "reach", address, "--text", "probe-a", "--within", "0").exit_code == 0
    done = run("runtime", "reach", address, "--text", "other", "--within", "0")
    assert done.exit_code == 1
    assert "answered, and not as this probe: 'probe-a'" in done.stderr


def test_a_client_tries_until_its_deadline() -> None:
    now_s, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now_s[0] += seconds

    trouble = reaching.reach("http://127.0.0.1:1", "x", 3.0, lambda: now_s[0], sleep)
    assert "http://127.0.0.1:1 was not reached" in trouble
    assert len(slept) == 3
