"""What `kubectl get` shows: ages, rows of builtins, and the JSON paths of custom columns."""

from typing import Any

import pytest

from federator.embedded.tables import ages, columns, tables

NOW = 1_700_000_000.0
BORN = "2023-11-14T22:13:10Z"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (11000, "3h3m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (180000, "2d2h"),
        (691200, "8d"),
        (63072000, "2y"),
        (70000000, "2y80d"),
        (252288000, "8y"),
    ],
)
def test_ages_are_shown_in_two_units_at_most(seconds: int, shown: str) -> None:
    assert ages.human(seconds) == shown


def pod(status: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: Any) -> list[Any]:
    made = {
        "metadata": {"name": "p", "creationTimestamp": BORN, **metadata},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], **(spec or {})},
        "status": status,
    }
    return columns.LAYOUTS["", "pods"][1](made, NOW)[:5]


def waiting(reason: str, **more: Any) -> dict[str, Any]:
    return {"name": "a", "state": {"waiting": {"reason": reason}}, **more}


def ended(code: int, reason: str = "") -> dict[str, Any]:
    return {"name": "a", "state": {"terminated": {"exitCode": code, "reason": reason}}}


RUNNING = {"name": "b", "ready": True, "state": {"running": {"startedAt": BORN}}}


@pytest.mark.parametrize(
    ("status", "ready", "word"),
    [
        ({"phase": "Pending"}, "0/2", "Pending"),
        ({"phase": "Running", "containerStatuses": [RUNNING, RUNNING]}, "2/2", "Running"),
        (
            {"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff"), RUNNING]},
            "1/2",
            "CrashLoopBackOff",
        ),
        ({"phase": "Failed", "containerStatuses": [ended(3)]}, "0/2", "ExitCode:3"),
        ({"phase": "Failed", "reason": "Evicted"}, "0/2", "Evicted"),
        ({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}, "0/2", "Completed"),
        (
            {"phase": "Running", "containerStatuses": [ended(0, "Completed"), RUNNING]},
            "1/2",
            "NotReady",
        ),
        (
            {"phase": "Pending", "initContainerStatuses": [waiting("ImagePullBackOff")]},
            "0/2",
            "Init:ImagePullBackOff",
        ),
        ({"phase": "Pending", "initContainerStatuses": [ended(1, "Error")]}, "0/2", "Init:Error"),
    ],
)
def test_pods_say_what_ails_them(status: dict[str, Any], ready: str, word: str) -> None:
    assert pod(status) == ["p", ready, word, "0", "10s"]


def test_a_pod_being_deleted_is_terminating_unless_it_has_ended() -> None:
    assert pod({"phase": "Running"}, deletionTimestamp=BORN)[2] == "Terminating"
    assert pod({"phase": "Succeeded"}, deletionTimestamp=BORN)[2] == "Succeeded"


def test_restarts_show_when_the_last_one_was() -> None:
    last = {"terminated": {"finishedAt": "2023-11-14T22:13:15Z"}}
    crashed = waiting("CrashLoopBackOff", restartCount=4, lastState=last)
    assert pod({"phase": "Running", "containerStatuses": [crashed]})[3] == "4 (5s ago)"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", 3),
        ("spec.replicas", 3),
        (".spec.items[1].name", "two"),
        (".spec.items[-1].name", "two"),
        (".spec['replicas']", 3),
        (r".metadata.labels.example\.com/zone", "a"),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        (".status.conditions[?(@.type=='Gone')].status", None),
        (".spec.items[*].name", "one"),
        (".spec.nothing.here", None),
    ],
)
def test_json_paths_find_their_values(path: str, found: Any) -> None:
    obj = {
        "metadata": {"labels": {"example.com/zone": "a"}},
        "spec": {"replicas": 3, "items": [{"name": "one"}, {"name": "two"}]},
        "status": {
            "conditions": [
                {"type": "Placed", "status": "False"},
                {"type": "Ready", "status": "True"},
            ]
        },
    }
    assert tables.first(tables.path(path), obj) == found
