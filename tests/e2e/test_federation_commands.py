"""`federator` as an operator types it, against a federation of separate processes: members,
switches, bad input.
"""

import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.kube import tokens
from federator.kube.login import kubeconfigs
from tests.controlplane import build
from tests.e2e import federations, workloads
from tests.e2e.federations import Fleet, until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("federation commands")]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    with federations.sandbox(tmp_path_factory.mktemp("commands"), separate=True) as found:
        yield found


def test_members_are_listed_and_checked(fleet: Fleet) -> None:
    first = min(fleet.members)
    rows = fleet.federator.run("cluster", "list").rows
    assert [row[:2] for row in rows[1:]] == [[name, "Ready"] for name in sorted(fleet.members)]
    until(
        lambda: _members(fleet, "cluster", "list") == _members(fleet, "get", "clusters"),
        lambda: "two tables differ",
    )
    assert re.search(r"Ready\s+True\s+Ready", fleet.federator("cluster", "check", first))
    found = fleet.federator("cluster", "check", first, "-C", first, KUBECONFIG=_both(fleet, first))
    assert re.search(r"ok\s+connectivity\s+answers /readyz", found)
    assert "FAILED" not in found


def test_doctor_finds_nothing_that_has_failed_and_the_bundle_holds_no_token(
    fleet: Fleet, tmp_path: Path
) -> None:
    first = min(fleet.members)
    both = _both(fleet, first)
    found = json.loads(fleet.federator("doctor", "-C", first, "-o", "json", KUBECONFIG=both))
    assert [row for row in found if row["result"] == "FAILED"] == []
    passed = {(row["where"], row["check"]) for row in found if row["result"] == "ok"}
    assert {("host", "leader"), (first, "cluster"), (first, "member process")} <= passed
    assert {("host", "version of the hub"), (first, "version of the member process")} <= passed

    path = tmp_path / "bundle.tar.gz"
    fleet.federator("support-bundle", "-f", str(path), "-C", first, KUBECONFIG=both)
    configs = [yaml.safe_load(Path(name).read_text()) for name in both.split(":")]
    users = [user["user"] for config in configs for user in config["users"]]
    words = [word for user in users for word in user.values() if isinstance(word, str)]
    assert words
    with tarfile.open(path) as archive:
        entries = {entry.name: archive.extractfile(entry) for entry in archive.getmembers()}
        held = {name: opened.read().decode() for name, opened in entries.items() if opened}
    assert f"federator-support/members/{first}/clustercapacities.json" in held
    assert not [(name, word) for name, text in held.items() for word in words if word in text]


def test_headroom_is_what_the_federation_then_places(fleet: Fleet) -> None:
    fleet.host("create", "ns", "rooms")
    spec = {"replicas": 1, "template": {"spec": {"containers": [_container("100m", "64Mi")]}}}
    probe = {**workloads.service("all", "rooms", 1), "spec": spec}
    found: dict[str, int] = {}

    def within_a_percent() -> bool:
        """The leader has the figures; the host has a copy of them that leaves out changes below a
        percent and follows others within half a minute."""
        answer = fleet.federator.json("headroom", "--shape", "100mcpu,64Mi", "-n", "rooms")
        found.update({row["cluster"]: row["now"] for row in answer["clusters"]})
        asked = spec["replicas"] = 2 * answer["now"]
        done = fleet.federator.run("place", "--live", "-f", fleet.manifest(probe), "-o", "json")
        placed = asked - json.loads(done.out)["items"][0]["spec"]["shortfall"]
        return done.code == 3 and abs(placed - answer["now"]) <= answer["now"] // 100

    until(within_a_percent, lambda: f"headroom says {found}, and place another number")
    assert set(found) == set(fleet.members)
    assert min(found.values()) > 0


def test_headroom_of_a_project_is_what_its_quota_admits(fleet: Fleet) -> None:
    fleet.host("create", "ns", "ads-rooms")
    limit = {"apiVersion": "federation.pinterest.com/v1alpha1", "kind": "FederatedQuota"}
    fleet.host(
        "apply",
        "-f",
        fleet.manifest(
            {
                **limit,
                "metadata": {"name": "ads-rooms"},
                "spec": {
                    "projects": ["ads-rooms"],
                    "namespaces": ["ads-rooms"],
                    "unknownProjects": "Allow",
                    "tiers": {"OnDemand": {"max": {"cpu": "1"}}},
                },
            }
        ),
    )
    try:
        asked = ("headroom", "--project", "ads-rooms", "--shape")
        answer = fleet.federator.json(*asked, "300mcpu,64Mi")
        more = fleet.federator.json(*asked, "2cpu,64Mi")
        reserved = fleet.federator.json(*asked, "300mcpu,64Mi", "--tier", "Reserved")

        assert 0 < answer["now"] <= 3, "what the default profile adds to a pod counts"
        assert (answer["binds"], more["now"], more["binds"]) == ("quota", 0, "quota")
        assert answer["because"].startswith("FederatedQuota ads-rooms allows 1 cpu")
        assert reserved["now"] > answer["now"], "the quota limits one tier"
        template = {"spec": {"containers": [_container("300m", "64Mi")]}}
        spec = {"replicas": answer["now"], "project": "ads-rooms", "template": template}
        probe = {**workloads.service("all", "ads-rooms", 1), "spec": spec}
        done = fleet.federator.run("place", "--live", "-f", fleet.manifest(probe), "-o", "json")
        assert done.code == 0, json.loads(done.out)["items"][0]["spec"]
    finally:
        fleet.host("delete", "federatedquota", "ads-rooms")


def _container(cpu: str, memory: str) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}


def _members(fleet: Fleet, *command: str) -> list[list[str]]:
    """The table a command prints, without the ages."""
    rows = fleet.federator.run(*command).rows
    return [row[: len(rows[0]) - 1] for row in rows]


def test_a_cordon_keeps_new_work_away_until_it_is_lifted(fleet: Fleet) -> None:
    first, *others = sorted(fleet.members)
    told = fleet.federator("cluster", "cordon", first)
    assert told == f"membercluster.federation.pinterest.com/{first} cordoned\n"
    fleet.host("create", "ns", "cordons")
    fleet.host("apply", "-f", fleet.manifest(workloads.service("new", "cordons", 9)))
    fleet.ready("cordons", "psvc/new")
    assert sorted(fleet.spread("psvc", "cordons", "new")) == others
    explained = fleet.federator("explain", "psvc/new", "-n", "cordons")
    assert re.search(rf"{first}.*cordon", explained)
    assert fleet.federator("cluster", "uncordon", first).endswith(" uncordoned\n")
    fleet.host("scale", "psvc/new", "-n", "cordons", "--replicas=90")
    until(
        lambda: first in fleet.spread("psvc", "cordons", "new"),
        lambda: "the cluster gets nothing after its cordon",
    )
    fleet.host("delete", "psvc", "new", "-n", "cordons")


def test_a_member_leaves_and_joins_again(fleet: Fleet) -> None:
    last = max(fleet.members)
    fleet.host("create", "ns", "leaving")
    fleet.host("apply", "-f", fleet.manifest(workloads.service("stays", "leaving", 9)))
    fleet.ready("leaving", "psvc/stays")
    assert last in fleet.spread("psvc", "leaving", "stays")
    for refused, told in (
        (
            ("nosuch",),
            f"there is no member nosuch; the members are {', '.join(sorted(fleet.members))}",
        ),
        ((last, "--lost"), f"{last} is reachable, so it is not lost"),
        ((last, "--lost", "--orphan"), "use either --orphan"),
    ):
        done = fleet.federator.run("cluster", "remove", *refused)
        assert (done.code, told in done.err) == (1, True), done.err
    done = fleet.federator.run("cluster", "remove", last)
    assert (done.code, done.out) == (
        0,
        f"membercluster.federation.pinterest.com/{last} removed\n",
    ), done.err
    assert "It was emptied." in done.err
    assert fleet.members[last].items("psvc", "-n", "leaving") == []
    assert last not in fleet.spread("psvc", "leaving", "stays")
    assert fleet.host.run("get", "secret", last, "-n", "federator-clusters").code == 1
    assert fleet.federator.run("get", "clusters", last).code == 1

    first = min(fleet.members)
    before = fleet.host("get", "secret", first, "-n", "federator-clusters", "-o", "yaml")
    taken = fleet.federator.run("cluster", "add", first, "-C", last, KUBECONFIG=_both(fleet, last))
    assert taken.code == 1
    assert f"another cluster has joined as {first}" in taken.err
    assert fleet.host("get", "secret", first, "-n", "federator-clusters", "-o", "yaml") == before

    added = fleet.federator(
        "cluster", "add", last, "--label", "region=x", KUBECONFIG=_both(fleet, last)
    )
    assert added.endswith(f"membercluster.federation.pinterest.com/{last} joined\n")
    again = fleet.federator.run(
        "cluster", "add", "other", "-C", last, KUBECONFIG=_both(fleet, last)
    )
    assert again.code == 1
    assert f"has joined already, as {last}" in again.err
    fleet.host("wait", "--for=condition=Ready", f"mc/{last}", "--timeout=90s")
    _the_hub_is_given_rights_and_tokens(fleet, last)
    _credentials_go_with_the_object(fleet, last)
    fleet.host("scale", "psvc/stays", "-n", "leaving", "--replicas=90")
    until(
        lambda: last in fleet.spread("psvc", "leaving", "stays"),
        lambda: "nothing goes to the new member",
    )
    fleet.ready("leaving", "psvc/stays")
    fleet.host("delete", "psvc/stays", "-n", "leaving")


def _credentials_go_with_the_object(fleet: Fleet, name: str) -> None:
    """Also by kubectl alone: its Secret and the hub's right to it are the MemberCluster's."""
    given = (f"secret/{name}", f"role/federator-hub-{name}", f"rolebinding/federator-hub-{name}")
    uid = fleet.host.json("get", "mc", name)["metadata"]["uid"]
    for one in given:
        (owner,) = fleet.host.json("get", one, "-n", "federator-clusters")["metadata"][
            "ownerReferences"
        ]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("MemberCluster", name, uid)
    fleet.host("delete", "mc", name, "--timeout=60s")
    for one in given:
        until(
            lambda one=one: fleet.host.run("get", one, "-n", "federator-clusters").code == 1,  # type: ignore[misc]
            lambda one=one: f"{one} stays",  # type: ignore[misc]
        )
    fleet.federator("cluster", "add", name, "--label", "region=x", KUBECONFIG=_both(fleet, name))
    fleet.host("wait", "--for=condition=Ready", f"mc/{name}", "--timeout=90s")


def _the_hub_is_given_rights_and_tokens(fleet: Fleet, name: str) -> None:
    """The right to one Secret, by joining and by `grant`; another token by `renew`, which the hub
    goes on with.
    """
    space = ("-n", "federator-clusters")
    assert fleet.host.json("get", "role", f"federator-hub-{name}", *space)["rules"][0][
        "resourceNames"
    ] == [name]
    fleet.host("delete", "role", f"federator-hub-{name}", *space)
    assert (
        fleet.federator("cluster", "grant", name)
        == f"secret/{name} may be read and renewed by the hub\n"
    )
    assert len(fleet.federator("cluster", "grant", "--all").splitlines()) == len(fleet.members)
    assert fleet.host.json("get", "role", f"federator-hub-{name}", *space)["rules"][0]["verbs"] == [
        "get",
        "patch",
    ]
    neither = fleet.federator.run("cluster", "grant")
    assert (neither.code, neither.err) == (1, "error: name the members, or use --all (not both)\n")

    before = fleet.host.json("get", "secret", name, *space)["data"]
    said = fleet.federator("cluster", "renew", name, KUBECONFIG=_both(fleet, name))
    assert said == f"membercluster.federation.pinterest.com/{name} has a new token of the hub\n"
    after = fleet.host.json("get", "secret", name, *space)["data"]
    old, new = (
        kubeconfigs.member_access(kubeconfigs.in_secret({"data": one}, ""), allow_loopback=True)
        for one in (before, after)
    )
    assert new.token != old.token
    assert replace(new, token="") == replace(old, token="")
    token = tokens.read(new.token)
    assert token is not None
    assert token.ends_s is not None
    wrong = fleet.federator.run(
        "cluster", "renew", min(fleet.members), "-C", name, KUBECONFIG=_both(fleet, name)
    )
    assert wrong.code == 1
    assert "this is another cluster" in wrong.err


def test_a_pause_stops_placing_until_it_ends(fleet: Fleet) -> None:
    assert "is paused since" in fleet.federator("pause")
    fleet.host("create", "ns", "paused")
    try:
        fleet.host("apply", "-f", fleet.manifest(workloads.service("waits", "paused", 3)))
        waited = fleet.host.run(
            "wait", "-n", "paused", "--for=create", "pd", "--all", "--timeout=3s"
        )
        assert waited.code != 0 or fleet.host.items("pd", "-n", "paused") == []
        assert fleet.spread("psvc", "paused", "waits") == {}
    finally:
        assert fleet.federator("resume") == "resumed\n"
    fleet.ready("paused", "psvc/waits")
    fleet.host("delete", "psvc/waits", "-n", "paused")


def test_definitions_are_printed_and_installed_again(fleet: Fleet) -> None:
    printed = re.split("^---\n", fleet.federator("crd", "print").strip(), flags=re.MULTILINE)
    installed = fleet.federator("crd", "install").splitlines()
    assert len(installed) == len(printed)
    first = yaml.safe_load(printed[0])["metadata"]["name"]  # all of them take 5 s to read
    assert f"customresourcedefinition.apiextensions.k8s.io/{first}" in installed[0]


def test_a_host_does_not_get_the_light_definitions_of_a_member(fleet: Fleet) -> None:
    ran = fleet.federator.run("crd", "install", "--member")
    assert ran.code == 1
    assert "this cluster has MemberClusters" in ran.err
    assert "nothing was changed" in ran.err


def test_settings_in_force_are_shown(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("hub: {batch_size: 7}\n")
    shown = yaml.safe_load(
        fleet.federator("config", "show", "--config", str(file), FEDERATOR_LOG__LEVEL="debug")
    )
    assert (shown["hub"]["batch_size"], shown["log"]["level"]) == (7, "debug")
    file.write_text("hub: {batch_sizes: 7}\n")
    wrong = fleet.federator.run("config", "show", "--config", str(file))
    assert wrong.code == 1
    assert "hub.batch_sizes" in wrong.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["get", "nonsense"], "there is no kind 'nonsense'"),
        (["get", "psvc", "--kubeconfig", "/nonexistent/config"], "/nonexistent/config"),
        (["get", "psvc", "--context", "nowhere"], "nowhere"),
        (["get", "psvc/missing"], 'pinterestservices "missing" not found'),
        (["explain", "psvc/missing"], "missing"),
        (["cluster", "check", "missing"], "missing"),
        (["cluster", "cordon", "missing"], "missing"),
        (["cluster", "add", "missing"], "missing"),
        (["cluster", "add", "Not_A_Name"], "Not_A_Name"),
        (["hub", "--kubeconfig", "/nonexistent/config"], "/nonexistent/config"),
        (
            ["member", "--cluster", "x", "--kubeconfig", "/nonexistent/config"],
            "/nonexistent/config",
        ),
    ],
    ids=" ".join,
)
def test_what_cannot_be_done_is_one_sentence(fleet: Fleet, arguments: list[str], told: str) -> None:
    ran = fleet.federator.run(*arguments)
    assert ran.code == 1
    assert told in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_a_server_that_is_gone_is_one_sentence(fleet: Fleet, tmp_path: Path) -> None:
    config = yaml.safe_load(fleet.host.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    gone = tmp_path / "gone.kubeconfig"
    gone.touch(mode=0o600)
    gone.write_text(yaml.safe_dump(config))
    for command in (["get", "psvc"], ["crd", "install"], ["pause"], ["cluster", "list"]):
        ran = fleet.federator.run(*command, "--kubeconfig", str(gone))
        assert ran.code == 1
        assert "127.0.0.1" in ran.err
        assert "Traceback" not in ran.err


def _both(fleet: Fleet, member: str) -> str:
    """KUBECONFIG with the host first and a member, as a person who joins a cluster has it."""
    return f"{fleet.host.kubeconfig}:{fleet.members[member].kubeconfig}"
