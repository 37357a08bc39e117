"""A drain of a thousand copies, watched from outside: hub and member processes of their own, the
members' APIs in another, and of every service as many copies ready as it promises at every moment.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane import build
from tests.e2e import federations, readiness, workloads
from tests.e2e.federations import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(900)]

SERVICES, COPIES, SPACE = 10, 300, "feed"
MEMBERS = ("a", "b", "c")
POOL = {"count": 20, "cpu": "64", "memory": "256Gi", "pods": 110}
A_MINUTE = 1200


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    path = tmp_path / "fleet.yaml"
    path.write_text(
        yaml.safe_dump({"members": [{"name": name, "nodes": [POOL]} for name in MEMBERS]})
    )
    with federations.sandbox(
        tmp_path, fleet=str(path), separate=True, evacuated_copies_a_minute=A_MINUTE
    ) as found:
        yield found


def test_a_thousand_copies_leave_and_no_service_ever_lacks_what_it_promises(fleet: Fleet) -> None:
    names = [f"web-{number:02}" for number in range(SERVICES)]
    fleet.host("create", "ns", SPACE)
    spread = {"division": {"strategy": "Spread"}}
    made = [workloads.service(name, SPACE, COPIES, placement=spread) for name in names]
    fleet.host("apply", "-f", fleet.manifest(*made))
    for name in names:
        fleet.ready(SPACE, f"psvc/{name}", within_s=85)
    kubeconfigs = {name: shell.kubeconfig for name, shell in fleet.members.items()}
    promised = dict.fromkeys(names, COPIES - COPIES // 4)  # maxUnavailable is 25 %
    with readiness.watching(kubeconfigs, SPACE, promised) as seen:
        assert sum(seen.ready["a"].values()) == SERVICES * COPIES // len(MEMBERS) == 1000
        first = fleet.federator("cluster", "drain", "a", "--timeout", "75s", "--no-wait")
        for _ in range(4):  # whoever closes the shell loses nothing
            told = fleet.federator.run("cluster", "drain", "a", "--timeout", "75s")
            if told.code == 0:
                break
        assert re.search(r"a: Emptied: Nothing of 1000 copies is left", told.out), first + told.out
    assert not seen.broken
    assert sum(seen.ready["a"].values()) == 0
    assert seen.changes >= SERVICES * len(MEMBERS)
    print({"fewest ready": min(seen.lowest.values()), "changes seen": seen.changes})
