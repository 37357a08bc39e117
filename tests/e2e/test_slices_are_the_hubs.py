"""Admission on a real member: the hub writes slices, nobody else does, not even an administrator;
and neither of the federation's accounts touches what is not marked as its own.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from federator.model import names
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, federations, workloads
from tests.e2e.deployed import HUB, MEMBER
from tests.e2e.federations import Ran, Shell
from tests.unit.deploy import manifests

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
REPLICAS = '{"spec":{"replicas":3}}'


@dataclass(slots=True)
class Guarded:
    """A member with the policies in force and slices that the hub made in it."""

    cluster: Cluster
    shell: Shell

    def tries(self, *arguments: str, **given: str) -> Ran:
        """Whether the server would take it: nothing is changed by any of these."""
        return self.shell.run(*arguments, "-n", SPACE, "--dry-run=server", **given)

    def create(self, obj: dict[str, Any], *flags: str) -> Ran:
        return self.tries("create", "-f", "-", *flags, input=yaml.safe_dump(obj))

    def patch(self, what: str, body: str, *flags: str) -> Ran:
        return self.tries("patch", what, "--type=merge", "-p", body, *flags)


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
def member(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    cluster = control_plane.cluster("guarded", controllers=True)
    shell = federations.kubectl(tmp_path_factory.mktemp("guarded"), cluster.kubeconfig())
    for base in ("crd", "member"):
        shell("apply", "--server-side", "-k", str(manifests.DEPLOY / base))
    shell("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    deployed.enforced(cluster)
    # `kubectl patch` reads first, which the member process never does.
    read = "deployments.apps,pinterestservices.pinterest.com,pinterestservices.pinterest.com/status"
    shell("create", "clusterrole", "reader", "--verb=get", f"--resource={read}")
    account = f"--serviceaccount={deployed.SYSTEM}:{MEMBER}"
    shell("create", "clusterrolebinding", "reader", "--clusterrole=reader", account)
    shell("create", "ns", SPACE)
    found = [service("slice", marked=True), plain("slice", marked=True)]
    shell("create", "-f", "-", AS_HUB, input=yaml.safe_dump_all(found))
    shell(
        "create",
        "-f",
        "-",
        input=yaml.safe_dump_all([service("own", marked=False), plain("own", marked=False)]),
    )
    yield Guarded(cluster, shell)
    control_plane.end(cluster.name)


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_an_administrator_neither_makes_changes_nor_deletes_slices(
    member: Guarded, kind: str
) -> None:
    made = service("new", marked=True) if kind == "psvc" else plain("new", marked=True)
    refused(member.create(made), "Only the hub creates slices")
    refused(
        member.patch(f"{kind}/slice", REPLICAS),
        "Only the hub changes the spec and the marks of a slice",
    )
    refused(member.tries("delete", f"{kind}/slice"), "This is a slice of a federated workload")
    for label in MARKED:
        change = f'{{"metadata":{{"labels":{{"{label}":"other"}}}}}}'
        refused(member.patch(f"{kind}/slice", change), "the marks of a slice")


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_a_mark_is_neither_given_nor_taken_away(member: Guarded, kind: str) -> None:
    if kind == "psvc":
        block = json.dumps({"spec": {"slice": BLOCK}})
        newer, without = '{"spec":{"slice":{"seq":9}}}', '{"spec":{"slice":null}}'
    else:
        key = names.SLICE_ANNOTATION
        block, newer, without = (
            json.dumps({"metadata": {"annotations": {key: value}}})
            for value in ("{}", '{"seq":9}', None)
        )
    refused(member.patch(f"{kind}/own", block), "the marks of a slice")
    refused(member.patch(f"{kind}/slice", newer), "the marks of a slice")
    refused(member.patch(f"{kind}/slice", without), "the marks of a slice")


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_what_is_not_marked_and_what_is_no_mark_stays_everybodys(
    member: Guarded, kind: str
) -> None:
    note = '{"metadata":{"annotations":{"example.com/note":"hello"},"labels":{"team":"feed"}}}'
    for ran in (
        member.patch(f"{kind}/own", REPLICAS),
        member.tries("delete", f"{kind}/own"),
        member.create(
            service("new", marked=False) if kind == "psvc" else plain("new", marked=False)
        ),
        member.patch(f"{kind}/slice", note),
    ):
        assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("kind", ["psvc", "deploy"])
def test_the_hub_makes_changes_and_deletes_slices(member: Guarded, kind: str) -> None:
    made = service("new", marked=True) if kind == "psvc" else plain("new", marked=True)
    for ran in (
        member.create(made, AS_HUB),
        member.patch(f"{kind}/slice", REPLICAS, AS_HUB),
        member.tries("delete", f"{kind}/slice", AS_HUB),
    ):
        assert (ran.code, ran.err) == (0, "")


def test_the_member_process_notes_but_changes_no_slice(member: Guarded) -> None:
    note = '{"metadata":{"annotations":{"federation.pinterest.com/member-status":"{}"}}}'
    assert member.patch("deploy/slice", note, AS_MEMBER).code == 0
    refused(member.patch("deploy/slice", REPLICAS, AS_MEMBER), "Only the hub changes")
    forbidden = member.patch("psvc/slice", REPLICAS, AS_MEMBER)
    assert "cannot patch resource" in forbidden.err


@pytest.mark.parametrize("account", [AS_HUB, AS_MEMBER])
def test_our_accounts_touch_only_what_carries_the_fleets_label(
    member: Guarded, account: str
) -> None:
    refused(
        member.patch("deploy/own", REPLICAS, account),
        "The federation changes and deletes only what carries its label",
    )
    refused(
        member.create(plain("new", marked=False), account),
        "The federation writes only what carries its label",
    )
    label = f'{{"metadata":{{"labels":{{"{names.FLEET_LABEL}":"federator"}}}}}}'
    refused(
        member.patch("deploy/own", label, account),
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
        change = json.dumps({"metadata": meta})
        for flags in ((), (AS_MEMBER,)) if kind == "deploy" else ((),):
            refused(
                member.patch(f"{kind}/slice", change, *flags),
                "Nobody adds owners or finalizers to a slice",
            )
        assert member.patch(f"{kind}/own", change).code == 0
        assert member.patch(f"{kind}/slice", change, AS_HUB).code == 0


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
    lie = '{"status":{"summary":"fine"}}'
    refused(
        member.patch("psvc/slice", lie, "--subresource=status"),
        "Only the member process says how slices are",
    )
    assert member.patch("psvc/own", lie, "--subresource=status").code == 0
    assert member.patch("psvc/slice", lie, "--subresource=status", AS_MEMBER).code == 0
