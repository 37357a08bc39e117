"""A federation of three members on real servers, as deploy/ ships it, watched from outside: the API
server of one is killed and comes back, and another time it is drained.

What is written comes from the servers' audit logs, what is ready from watches at the members.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e import failures_writes, federations, grounds, workloads
from tests.e2e.federations import until
from tests.e2e.grounds import DEPLOYMENTS, GONE, Ground
from tests.e2e.readiness import Watched

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.soak,
    pytest.mark.xdist_group("failover on real servers"),
    pytest.mark.timeout(600),
]

COPIES, MOVING = 6, ("moves-0", "moves-1")
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **federations.SETTINGS,
    "hub": {
        **federations.SETTINGS["hub"],
        "probe_timeout_s": 2.0,
        "unready_after_s": 6.0,
        "evacuated_copies_a_minute": 600,
    },
}
SOON = {"afterSeconds": 2, "cooldownSeconds": 5, "failback": "Manual"}
NEVER = {"when": "Never"}
SPREAD = {"strategy": "Spread"}
HOLDS_S = 5.0
SLICES = "/apis/pinterest.com/v1beta1/namespaces/{}/pinterestservices/{}"


@pytest.fixture(scope="module")
def ground(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Ground]:
    with grounds.standing(
        request, tmp_path_factory.mktemp("away"), SETTINGS, audited=True
    ) as found:
        yield found


def _service(name: str, space: str, copies: int, **placement: Any) -> dict[str, Any]:
    return workloads.service(name, space, copies, placement=placement)


def _begun(ground: Ground, space: str) -> None:
    """Two services over all three members, one that fails over when it is told to and promises
    every copy, and one that may be in c alone.
    """
    host = ground.fleet.host
    host("create", "ns", space)
    some = [_service(name, space, COPIES, failover=SOON, division=SPREAD) for name in MOVING]
    late = _service("late", space, COPIES, failover=NEVER, division=SPREAD)
    late["spec"]["updateStrategy"] = {"maxUnavailable": 0}
    stays = _service("stays", space, 2, failover=SOON, clusters={"names": [GONE]})
    host("apply", "-f", ground.fleet.manifest(*some, late, stays))
    for name in (*MOVING, "late", "stays"):
        ground.fleet.ready(space, f"psvc/{name}")
        assert ground.shares(space, name).get(GONE, 0) == 2, name


def _moved(ground: Ground, space: str, names: tuple[str, ...]) -> None:
    def told() -> str:
        return f"{ {name: ground.shares(space, name) for name in names} }"

    until(lambda: all(GONE not in ground.shares(space, name) for name in names), told)
    until(lambda: all(sum(ground.shares(space, name).values()) == COPIES for name in names), told)


def test_what_a_killed_api_server_held_runs_elsewhere_and_comes_to_no_harm_when_it_is_back(
    ground: Ground,
) -> None:
    space = "lost"
    _begun(ground, space)
    kept = ground.held(GONE, space, "stays")
    assert sum(kind == "pods" for kind, _ in kept) == 2
    killed_s = ground.kill()

    _moved(ground, space, MOVING)
    until(
        lambda: all(
            sum(ground.ready(member, space, name) for member in "ab") == COPIES for name in MOVING
        ),
        lambda: "what has moved is not ready",
    )
    moved_s = time.time() - killed_s
    assert ground.shares(space, "stays") == {GONE: 2}, "nobody leaves for nowhere"
    out = ground.fleet.federator("explain", "psvc/stays", "-n", space)
    assert f"2 are still in {GONE} (FailingOver): " in out

    for member in "ab":
        ground.full(member, space)
    late = {"spec": {"placement": {"failover": {**SOON, "afterSeconds": 0, "when": "Unreachable"}}}}
    host = ground.fleet.host
    host("patch", "psvc", "late", "-n", space, "--type=merge", "-p", json.dumps(late))
    _moved(ground, space, ("late",))
    back_s = time.time()
    ground.outage.start("apiserver")
    ground.deployed.ready(GONE)
    until(
        lambda: all(ground.at(GONE, SLICES, space, name) is None for name in MOVING),
        lambda: "stale copies of what is ready elsewhere stay",
    )
    time.sleep(HOLDS_S)
    stale = ground.at(GONE, DEPLOYMENTS, space, "late")
    assert stale is not None, "copies were removed before their replacements were ready"
    assert stale["spec"]["replicas"] == 2
    assert sum(ground.ready(member, space, "late") for member in "ab") == COPIES - 2

    with ground.watched(space, {"late": COPIES}) as seen:
        for member in "ab":
            ground.roomy(member, space, "late")
        until(
            lambda: ground.at(GONE, SLICES, space, "late") is None,
            lambda: "stale copies stay although their replacements are ready",
        )
    assert not seen.broken
    ground.fleet.ready(space, "psvc/late")
    assert ground.held(GONE, space, "stays") == kept
    writes = failures_writes.since(
        failures_writes.read({GONE: ground.deployed.clusters[GONE]}), back_s
    )
    touched = [write.row for write in writes if _destroys(write, space, "stays")]
    failures_writes.none(touched, "deletions of what is decided there")
    causes = ground.fleet.federator("history", "psvc/late", "-n", space)
    assert f"failover from {GONE}, not heard since 20" in causes
    print({"elsewhere and ready after s": round(moved_s, 1)})


def _cleared(ground: Ground, space: str) -> None:
    """What a story leaves would have no place in the next one."""
    ground.fleet.host("delete", "psvc", "--all", "-n", space, "--ignore-not-found", "--timeout=60s")


def _destroys(write: failures_writes.Write, space: str, name: str) -> bool:
    mine = write.namespace == space and write.name.startswith(name)
    return mine and write.verb == "delete"


def test_a_drain_on_real_servers_never_has_fewer_ready_copies_than_promised(
    ground: Ground,
) -> None:
    space, services, copies = "drained", ("web-0", "web-1", "web-2"), 30
    host, federator = ground.fleet.host, ground.fleet.federator
    _cleared(ground, "lost")
    host("create", "ns", space)
    made = [_service(name, space, copies, division=SPREAD) for name in services]
    host("apply", "-f", ground.fleet.manifest(*made))
    for name in services:
        ground.fleet.ready(space, f"psvc/{name}")
        assert ground.shares(space, name)[GONE] == copies // 3
    seen: Watched
    with ground.watched(space, dict.fromkeys(services, copies - -(-copies // 4))) as seen:
        out = federator("cluster", "drain", GONE, "--timeout", "80s")
    assert f"{GONE}: Emptied: Nothing of {copies} copies is left" in out, out
    assert all(GONE not in ground.shares(space, name) for name in services)
    assert not seen.broken
    assert seen.changes > copies
    federator("cluster", "undrain", GONE)
