"""Admission on a real member: the hub writes slices, nobody else does, not even an administrator;
and neither of the federation's accounts touches what is not marked as its own.
"""

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from federator.kinds.labels import AUTOSCALED_ANNOTATION
from federator.model import names
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, federations, looking, workloads
from tests.e2e.deployed import HUB, MEMBER
from tests.e2e.federations import Ran, Shell
from tests.e2e.trying import Tries

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]

SPACE = "guarded"
BLOCK = {
    "fleet": "federator",
    "workloadUID": "u-1",
    "originGeneration": 1,
    "cluster": "a",
    "seq": 5,
    "expander": "1",
}
MARKED = {names.FLEET_LABEL: "federator", names.WORKLOAD_UID_LABEL: "u-1"}
AS_HUB, AS_MEMBER = f"--as={deployed.user(HUB)}", f"--as={deployed.user(MEMBER)}"
REPLICAS = {"spec": {"replicas": 3}}


@dataclass(slots=True)
class Guarded:
    """A member with the policies in force and slices that the hub made in it."""

    cluster: Cluster
    shell: Shell
    tries: Tries


def refused(ran: Ran, why: str) -> None:
    assert ran.code == 1, ran.out
    assert "denied request: " in ran.err, ran.err
    assert why in ran.err


def service(name: str, *, marked: bool) -> dict[str, Any]:
    obj = workloads.service(name, SPACE, 1)
    if marked:
        obj["metadata"]["labels"] |= MARKED
        obj["spec"]["slice"] = dict(BLOCK)
    return obj


def plain(name: str, *, marked: bool) -> dict[str, Any]:
    obj = copy.deepcopy(workloads.deployment(name, SPACE, 1))
    if marked:
        obj["metadata"]["labels"] |= MARKED
        obj["metadata"]["annotations"] = {names.SLICE_ANNOTATION: '{"fleet":"federator","seq":5}'}
    return obj


@pytest.fixture(scope="module")
def member(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    cluster = deployed.member_alone(control_plane)
    shell = federations.kubectl(tmp_path_factory.mktemp("guarded"), cluster.kubeconfig())
    shell("create", "ns", SPACE)
    found = [service("slice", marked=True), plain("slice", marked=True)]
    shell("create", "-f", "-", AS_HUB, input=yaml.safe_dump_all(found))
    shell(
        "create",
        "-f",
        "-",
        input=yaml.safe_dump_all([service("own", marked=False), plain("own", marked=False)]),
    )
    return Guarded(cluster, shell, Tries(looking.server(shell.kubeconfig), SPACE))


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_an_administrator_neither_makes_changes_nor_deletes_slices(
    member: Guarded, kind: str
) -> None:
    made = service("new", marked=True) if kind == "psvc" else plain("new", marked=True)
    refused(member.tries.create(made), "Only the hub creates slices")
    # No change of the count: of a Deployment's two policies refuse it, and either may answer first.
    change: dict[str, Any] = {"spec": {"template": {"metadata": {"labels": {"by": "hand"}}}}}
    refused(
        member.tries.patch(f"{kind}/slice", change),
        "Only the hub changes the spec and the marks of a slice",
    )
    refused(member.tries.delete(f"{kind}/slice"), "This is a slice of a federated workload")
    for label in MARKED:
        change = {"metadata": {"labels": {label: "other"}}}
        refused(member.tries.patch(f"{kind}/slice", change), "the marks of a slice")


def test_an_administrator_does_not_scale_a_slice(member: Guarded) -> None:
    ran = member.shell.run("scale", "psvc/slice", "--replicas=2", "-n", SPACE)
    assert ran.code != 0
    assert "Only the hub scales a slice" in ran.err
    path = f"/apis/pinterest.com/v1beta1/namespaces/{SPACE}/pinterestservices/slice/scale"
    assert member.cluster.ask(path)[1]["spec"]["replicas"] == 1


def test_nobody_else_scales_what_the_federation_runs(member: Guarded) -> None:
    """A Scale carries no mark: the marked Deployments of the namespace are the policy's
    parameters."""
    why = "This is part of a federated workload; change replicas of the workload on the host"
    autoscaled = plain("autoscaled", marked=True)
    autoscaled["metadata"]["annotations"] = {AUTOSCALED_ANNOTATION: "1-4"}
    member.shell("create", "-f", "-", AS_MEMBER, input=yaml.safe_dump(autoscaled))

    def scaled(name: str, replicas: int) -> Ran:
        once = ("scale", name, f"--replicas={replicas}", "-n", SPACE)
        return member.shell.run(*once, "--dry-run=server")

    def known() -> bool:
        return scaled("deploy/slice", 2).code != 0

    federations.until(known, lambda: "the API server reads parameters from a watch")
    for name, replicas, held in (
        ("deploy/slice", 2, True),
        ("deploy/own", 2, False),
        ("deploy/autoscaled", 4, False),
        ("deploy/autoscaled", 5, True),
    ):
        ran = scaled(name, replicas)
        assert (ran.code != 0) is held, (name, ran.err)
        assert not held or why in ran.err
    assert member.tries.patch("deploy/slice", REPLICAS, AS_HUB).code == 0
    refused(member.tries.patch("deploy/autoscaled", {"spec": {"replicas": 9}}), why)


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_a_mark_is_neither_given_nor_taken_away(member: Guarded, kind: str) -> None:
    block: Any
    newer: Any
    without: Any
    if kind == "psvc":
        block, newer, without = ({"spec": {"slice": made}} for made in (BLOCK, {"seq": 9}, None))
    else:
        key = names.SLICE_ANNOTATION
        block, newer, without = (
            {"metadata": {"annotations": {key: value}}} for value in ("{}", '{"seq":9}', None)
        )
    refused(member.tries.patch(f"{kind}/own", block), "the marks of a slice")
    refused(member.tries.patch(f"{kind}/slice", newer), "the marks of a slice")
    refused(member.tries.patch(f"{kind}/slice", without), "the marks of a slice")


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_what_is_not_marked_and_what_is_no_mark_stays_everybodys(
    member: Guarded, kind: str
) -> None:
    note = {"metadata": {"annotations": {"example.com/note": "hello"}, "labels": {"team": "feed"}}}
    for ran in (
        member.tries.patch(f"{kind}/own", REPLICAS),
        member.tries.delete(f"{kind}/own"),
        member.tries.create(
            service("new", marked=False) if kind == "psvc" else plain("new", marked=False)
        ),
        member.tries.patch(f"{kind}/slice", note),
    ):
        assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_the_hub_makes_changes_and_deletes_slices(member: Guarded, kind: str) -> None:
    made = service("new", marked=True) if kind == "psvc" else plain("new", marked=True)
    for ran in (
        member.tries.create(made, AS_HUB),
        member.tries.patch(f"{kind}/slice", REPLICAS, AS_HUB),
        member.tries.delete(f"{kind}/slice", AS_HUB),
    ):
        assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_the_hub_releases_a_slice_whole_and_unchanged(member: Guarded, kind: str) -> None:
    """Orphan deletion takes all marks in one write and nothing of what runs (decision 0182)."""
    labels = {"metadata": {"labels": dict.fromkeys(MARKED)}}
    released: dict[str, Any] = copy.deepcopy(labels)
    if kind == "psvc":
        released["spec"] = {"slice": None}
    else:
        released["metadata"]["annotations"] = {names.SLICE_ANNOTATION: None}
    assert member.tries.patch(f"{kind}/slice", released, AS_HUB).code == 0
    why = "The federation writes only what carries its label"
    refused(member.tries.patch(f"{kind}/slice", labels, AS_HUB), why)
    without_fleet = copy.deepcopy(released)
    without_fleet["metadata"]["labels"] = {names.FLEET_LABEL: None}
    refused(member.tries.patch(f"{kind}/slice", without_fleet, AS_HUB), why)
    changed = copy.deepcopy(released)
    template = {"metadata": {"annotations": {"restarted": "yes"}}}
    changed["spec"] = {**changed.get("spec", {}), "template": template}
    refused(member.tries.patch(f"{kind}/slice", changed, AS_HUB), why)
    for who in ((), (AS_MEMBER,)) if kind == "deploy" else ((),):
        assert member.tries.patch(f"{kind}/slice", released, *who).code == 1


def test_the_member_process_notes_but_changes_no_slice(member: Guarded) -> None:
    note = {"metadata": {"annotations": {"federation.pinterest.com/member-status": "{}"}}}
    assert member.tries.patch("deploy/slice", note, AS_MEMBER).code == 0
    refused(member.tries.patch("deploy/slice", REPLICAS, AS_MEMBER), "Only the hub changes")
    forbidden = member.tries.patch("psvc/slice", REPLICAS, AS_MEMBER)
    assert "cannot patch resource" in forbidden.err


@pytest.mark.parametrize("account", [AS_HUB, AS_MEMBER])
def test_our_accounts_touch_only_what_carries_the_fleets_label(
    member: Guarded, account: str
) -> None:
    refused(
        member.tries.patch("deploy/own", REPLICAS, account),
        "The federation changes and deletes only what carries its label",
    )
    refused(
        member.tries.create(plain("new", marked=False), account),
        "The federation writes only what carries its label",
    )
    label = {"metadata": {"labels": {names.FLEET_LABEL: "federator"}}}
    refused(
        member.tries.patch("deploy/own", label, account),
        "changes and deletes only what carries its label",
    )


def test_the_members_own_controllers_go_on_with_slices(member: Guarded) -> None:
    """The Deployment controller keeps its revision on the slice; a namespace that goes takes its
    slices along.
    """
    revision = "jsonpath={.metadata.annotations.deployment\\.kubernetes\\.io/revision}"
    federations.until(
        lambda: member.shell("get", "deploy/slice", "-n", SPACE, "-o", revision) == "1",
        lambda: "no revision",
        30,
    )
    member.shell("create", "ns", "doomed")
    for obj in (service("slice", marked=True), plain("slice", marked=True)):
        obj["metadata"]["namespace"] = "doomed"
        member.shell("create", "-f", "-", AS_HUB, input=yaml.safe_dump(obj))
    member.shell("delete", "ns", "doomed", "--timeout=60s")


def test_an_owner_is_collected_in_the_foreground_when_the_hub_says_so(member: Guarded) -> None:
    """The garbage collector takes its finalizer from the slice, which is no change of spec or
    marks.
    """
    obj = service("gone", marked=True)
    member.shell("create", "-f", "-", AS_HUB, input=yaml.safe_dump(obj))
    member.shell(
        "delete", "psvc/gone", "-n", SPACE, "--cascade=foreground", "--timeout=60s", AS_HUB
    )


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_nobody_has_a_slice_deleted_with_another_object_or_kept_by_a_finalizer(
    member: Guarded, kind: str
) -> None:
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "mine",
        "uid": "00000000-0000-0000-0000-000000000000",
    }
    for meta in ({"ownerReferences": [owner]}, {"finalizers": ["example.com/mine"]}):
        change = {"metadata": meta}
        for flags in ((), (AS_MEMBER,)) if kind == "deploy" else ((),):
            refused(
                member.tries.patch(f"{kind}/slice", change, *flags),
                "Nobody adds owners or finalizers to a slice",
            )
        assert member.tries.patch(f"{kind}/own", change).code == 0
        assert member.tries.patch(f"{kind}/slice", change, AS_HUB).code == 0


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_the_garbage_collector_takes_no_slice_along(member: Guarded, kind: str) -> None:
    """A slice that got an owner before the policies were there, and beside it an object that may
    go.
    """
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "gone",
        "uid": "00000000-0000-0000-0000-000000000000",
    }
    make = service if kind == "psvc" else plain
    for name, marked, flags in (("owned", True, (AS_HUB,)), ("control", False, ())):
        obj = make(name, marked=marked)
        obj["metadata"]["ownerReferences"] = [owner]
        member.shell("create", "-f", "-", *flags, input=yaml.safe_dump(obj))
    federations.until(
        lambda: member.shell.run("get", f"{kind}/control", "-n", SPACE).code != 0,
        lambda: "the garbage collector does nothing",
        30,
    )
    assert member.shell("get", f"{kind}/owned", "-n", SPACE, "-o", "jsonpath={.metadata.uid}")


def test_what_a_slice_says_is_the_member_processs_word(member: Guarded) -> None:
    lie = {"status": {"summary": "fine"}}
    refused(
        member.tries.patch("psvc/slice", lie, "--subresource=status"),
        "Only the member process says how slices are",
    )
    assert member.tries.patch("psvc/own", lie, "--subresource=status").code == 0
    assert member.tries.patch("psvc/slice", lie, "--subresource=status", AS_MEMBER).code == 0
