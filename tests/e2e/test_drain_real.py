"""A drain of a thousand copies on real servers: three members with controllers, schedulers and
stand-in kubelets, hub and member processes as deploy/ ships them, and of every service as many
copies ready as it promises, at every moment that watches of our own at the members tell of.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e import federations, grounds, workloads
from tests.e2e.federations import until
from tests.e2e.grounds import MEMBERS, Ground

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.soak,
    pytest.mark.xdist_group("a drain on real servers"),
    pytest.mark.timeout(1500),
]

FULL = "c"
SERVICES, COPIES, SPACE = 50, 20, "feed"
MACHINES = 10
"""Nodes of 110 pods in each member: one holds them all."""
A_MINUTE = 600
STARTS_S, LEAVES_S, GONE_S = 420.0, 600.0, 120.0
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **federations.SETTINGS,
    "hub": {
        **federations.SETTINGS["hub"],
        "evacuated_copies_a_minute": A_MINUTE,
        # The lease has its own tests; servers that are short of processor must not end this one.
        "lease_duration_s": 120.0,
        "lease_renew_deadline_s": 90.0,
    },
}


@pytest.fixture
def ground(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Ground]:
    home = tmp_path_factory.mktemp("many")
    with grounds.standing(request, home, SETTINGS, machines=MACHINES) as found:
        yield found


def _begun(ground: Ground, names: list[str]) -> None:
    """All copies run in one cluster, which nothing but what they have keeps them in."""
    fleet = ground.fleet
    fleet.host("create", "ns", SPACE)
    there = {"clusters": {"names": [FULL]}}
    made = [workloads.service(name, SPACE, COPIES, placement=there) for name in names]
    fleet.host("apply", "-f", fleet.manifest(*made))

    def ready() -> bool:
        ground.deployed.programs.check()
        found = fleet.host.items("psvc", "-n", SPACE)
        done = [obj for obj in found if int((obj.get("status") or {}).get("ready") or 0) == COPIES]
        return len(done) == len(names)

    until(ready, lambda: fleet.host("get", "psvc", "-n", SPACE), STARTS_S)
    free = [workloads.service(name, SPACE, COPIES) for name in names]
    fleet.host("apply", "-f", fleet.manifest(*free))


def test_a_thousand_copies_leave_on_real_servers_and_none_lacks_what_it_promises(
    ground: Ground,
) -> None:
    fleet = ground.fleet
    names = [f"web-{number:02}" for number in range(SERVICES)]
    _begun(ground, names)
    promised = dict.fromkeys(names, COPIES - COPIES // 4)  # maxUnavailable is 25 %
    with ground.watched(SPACE, promised) as seen:
        assert sum(seen.ready[FULL].values()) == SERVICES * COPIES == 1000
        begun_s = time.monotonic()
        fleet.federator("cluster", "drain", FULL, "--no-wait")
        # whoever closes the shell loses nothing
        told = fleet.federator.run("cluster", "drain", FULL, "--timeout", "75s")
        while told.code != 0 and time.monotonic() - begun_s < LEAVES_S:
            ground.deployed.programs.check()
            told = fleet.federator.run("cluster", "drain", FULL, "--timeout", "75s")
        took_s = time.monotonic() - begun_s
        assert f"{FULL}: Emptied: Nothing of 1000 copies is left" in told.out, told.out + told.err
        # the slices are gone; the garbage collector of the cluster takes the rest some time later
        everywhere = dict.fromkeys(names, COPIES)
        until(
            lambda: (
                not sum(seen.ready[FULL].values())
                and {name: seen.total(name) for name in names} == everywhere
            ),
            lambda: (
                f"ready by member: { {name: sum(all_.values()) for name, all_ in seen.ready.items()} }"
            ),
            GONE_S,
        )
    assert not seen.broken
    assert not fleet.members[FULL].items("psvc,deployments", "-n", SPACE)
    assert seen.changes >= SERVICES * len(MEMBERS)
    figures = {
        "seconds": round(took_s),
        "fewest ready of a service": min(seen.lowest.values()),
        "promised": COPIES - COPIES // 4,
        "changes seen": seen.changes,
    }
    print(figures)
