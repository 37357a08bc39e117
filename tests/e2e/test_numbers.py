"""Numbers of decisions: the bound that the schemas set, and numbers that somebody raises in a member
or on the host while hub and member processes run.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from federator.model import seq as seqs
from tests.controlplane import build
from tests.e2e import federations, workloads
from tests.e2e.federations import Fleet, until

pytestmark = pytest.mark.e2e

SPACE = "numbers"
SETTLE_S = 60.0


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("processes", marks=pytest.mark.xdist_group("numbers")),
        pytest.param(
            "real",
            marks=[
                pytest.mark.real,
                pytest.mark.long,
                pytest.mark.xdist_group("federation of real servers"),
            ],
        ),
    ],
)
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    home = tmp_path_factory.mktemp("numbers")
    if request.param == "real":
        running = federations.on_real_servers(home, request.getfixturevalue("control_plane"))
    else:
        running = federations.sandbox(home, clusters=2, separate=True)
    with running as found:
        found.host("create", "ns", SPACE)
        found.host("create", "-f", "-", input=yaml.safe_dump(workloads.service("web", SPACE, 6)))
        found.ready(SPACE, "psvc/web")
        yield found


def decisions(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """By name of the workload."""
    return {obj["spec"]["workload"]["name"]: obj for obj in fleet.host.items("pd", "-n", SPACE)}


def holder(fleet: Fleet) -> str:
    """A member that holds a slice of the service."""
    return min(fleet.spread("psvc", SPACE, "web"))


def raised(fleet: Fleet, member: str, by: int, **spec: int) -> bool:
    """Raises the number of the slice there; False once it holds none any more."""
    seen = fleet.spread("psvc", SPACE, "web").get(member)
    if seen is None:
        return False
    patch = {"spec": {"slice": {"seq": seen["spec"]["slice"]["seq"] + by}, **spec}}
    shell = fleet.members[member]
    return (
        shell.run("patch", "psvc", "web", "-n", SPACE, "--type=merge", "-p", json.dumps(patch)).code
        == 0
    )


def others_are_decided(fleet: Fleet, name: str) -> None:
    fleet.host("create", "-f", "-", input=yaml.safe_dump(workloads.service(name, SPACE, 4)))
    fleet.ready(SPACE, f"psvc/{name}")
    assert seqs.term(decisions(fleet)[name]["spec"]["seq"]) <= 3


def test_numbers_beyond_the_bound_are_refused_by_the_api_server(fleet: Fleet) -> None:
    name = decisions(fleet)["web"]["metadata"]["name"]
    for shell, what, path in (
        (fleet.host, ("pd", name), "spec.seq"),
        (fleet.members[holder(fleet)], ("psvc", "web"), "spec.slice.seq"),
    ):
        for seq in (seqs.MAX + 1000, 2**63 - 1):
            field = f'{{"seq": {seq}}}' if path == "spec.seq" else f'{{"slice": {{"seq": {seq}}}}}'
            ran = shell.run(
                "patch", *what, "-n", SPACE, "--type=merge", "-p", f'{{"spec": {field}}}'
            )
            assert ran.code == 1
            assert f"{path}: Invalid value" in ran.err
            assert f"should be less than or equal to {seqs.MAX}" in ran.err


def test_a_raised_number_in_a_member_stays_in_that_member(fleet: Fleet) -> None:
    before, member = decisions(fleet)["web"]["spec"]["seq"], holder(fleet)
    done = [raised(fleet, member, step << 54) for step in range(1, 13)]
    assert all(done)
    others_are_decided(fleet, "beside")
    assert seqs.term(decisions(fleet)["web"]["spec"]["seq"]) == seqs.term(before)
    done = [raised(fleet, member, 1 << 40, replicas=20 + step) for step in range(12)]
    assert done[0]
    fleet.restart("hub")
    others_are_decided(fleet, "after-a-restart")

    fleet.host("scale", "psvc", "web", "-n", SPACE, "--replicas=2")
    fleet.host("scale", "psvc", "web", "-n", SPACE, "--replicas=8")
    until(
        lambda: fleet.replicas("psvc", SPACE, "web") == 8,
        lambda: str(fleet.spread("psvc", SPACE, "web")),
        SETTLE_S,
    )
    assert seqs.term(decisions(fleet)["web"]["spec"]["seq"]) <= 3


def test_a_decision_that_was_never_issued_is_written_anew(fleet: Fleet) -> None:
    others_are_decided(fleet, "forged")
    found = decisions(fleet)["forged"]
    patch = f'{{"spec": {{"seq": {seqs.MAX}, "shares": []}}}}'
    fleet.host("patch", "pd", found["metadata"]["name"], "-n", SPACE, "--type=merge", "-p", patch)

    def anew() -> bool:
        now = decisions(fleet).get("forged", found)
        return bool(now["metadata"]["uid"] != found["metadata"]["uid"])

    until(anew, lambda: str(decisions(fleet).get("forged")), SETTLE_S)
    spec = decisions(fleet)["forged"]["spec"]
    shares = [{**share, "seq": 0} for share in spec["shares"]]
    assert shares == [{**share, "seq": 0} for share in found["spec"]["shares"]]
    assert seqs.term(spec["seq"]) <= 3
    events = fleet.host.items("events", "-n", SPACE)
    assert any(one.get("reason") == "ForeignDecision" for one in events)
    others_are_decided(fleet, "after-a-forgery")
