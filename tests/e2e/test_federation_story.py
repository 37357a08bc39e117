"""What people do with a real kubectl on a whole federation of processes: embedded in one process,
embedded with separate hub and member processes, and on real API servers as deploy/ ships it, where
none of its requests is refused. The same story everywhere, judged by what came of it.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from federator.kinds.labels import SHARDS_ANNOTATION
from tests.controlplane import build
from tests.e2e import deployed, federations, lives, lives_of_kinds, workloads
from tests.e2e.federations import Fleet, until

pytestmark = pytest.mark.e2e

QUIET_S = 3.0
LIFE_S = 180.0
"""The longest stage of a life: the first run of a cron job comes with the next full minute."""
IMAGE = "jsonpath={.spec.template.spec.containers[0].image}"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            "sandbox",
            marks=[pytest.mark.soak, pytest.mark.xdist_group("federation in one process")],
        ),
        pytest.param(
            "processes",
            marks=[pytest.mark.long, pytest.mark.xdist_group("federation of processes")],
        ),
        pytest.param(
            "real", marks=[pytest.mark.real, pytest.mark.xdist_group("federation of real servers")]
        ),
    ],
)
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    home: Path = tmp_path_factory.mktemp(f"fleet-{request.param}")
    if request.param == "real":
        with deployed.running(home, request.getfixturevalue("control_plane")) as found:
            yield found.fleet
            assert found.refused() == []
    else:
        with federations.sandbox(home, separate=request.param == "processes") as made:
            yield made


def test_a_service_from_apply_to_delete(fleet: Fleet) -> None:
    kubectl, space = fleet.host, ("-n", "feed")
    assert kubectl("create", "ns", "feed") == "namespace/feed created\n"
    file = fleet.manifest(workloads.service("web", "feed", 12))
    assert kubectl("apply", "-f", file) == "pinterestservice.pinterest.com/web created\n"
    fleet.ready("feed", "psvc/web")
    assert kubectl("apply", "-f", file) == "pinterestservice.pinterest.com/web unchanged\n"
    assert fleet.replicas("psvc", "feed", "web") == 12
    assert fleet.replicas("deploy", "feed", "web") == 12
    clusters = len(fleet.spread("psvc", "feed", "web"))
    header, row = kubectl.run("get", "psvc", "web", *space, "-o", "wide").rows
    assert header[:5] == ["NAME", "DESIRED", "READY", "CLUSTERS", "PLACED"]
    assert row[:5] == ["web", "12", "12", str(clusters), "12"]
    assert "All 12 replicas have a place" in kubectl("describe", "psvc", "web", *space)

    changed = fleet.manifest(workloads.service("web", "feed", 24))
    for flags in ([], ["--server-side", "--force-conflicts"]):
        shown = kubectl.run("diff", "-f", changed, *flags)
        assert shown.code == 1, shown.err
        assert "+  replicas: 24" in shown.out
    assert kubectl.json("get", "psvc", "web", *space)["spec"]["replicas"] == 12

    kubectl("scale", "psvc/web", f"--replicas={fleet.many}", *space)
    kubectl(
        "wait",
        f"--for=jsonpath={{.status.ready}}={fleet.many}",
        "psvc/web",
        *space,
        "--timeout=90s",
    )
    fleet.ready("feed", "psvc/web")
    assert fleet.replicas("deploy", "feed", "web") == fleet.many
    assert (
        sum(obj["status"]["ready"] for obj in fleet.spread("psvc", "feed", "web").values())
        == fleet.many
    )

    assert kubectl("delete", "psvc", "web", *space).startswith(
        'pinterestservice.pinterest.com "web" deleted'
    )
    kubectl("wait", "--for=delete", "pd", "--all", *space, "--timeout=60s")
    for member in fleet.members.values():
        assert member.items("psvc", *space) == []
        member(
            "wait",
            "--for=delete",
            "deploy/web",
            "svc/web",
            "cm/web-config",
            *space,
            "--timeout=60s",
        )
        # kubectl waits for one pod after another
        until(
            lambda: member("get", "pods", *space, "-o", "name") == "",  # noqa: B023
            lambda: "pods are left in a member",
        )


def test_changes_of_every_kind_reach_the_members(fleet: Fleet) -> None:
    kubectl, space = fleet.host, ("-n", "changes")
    kubectl("create", "ns", "changes")
    file = fleet.manifest(workloads.service("api", "changes", 6))
    applied = kubectl("apply", "--server-side", "-f", file)
    assert applied == "pinterestservice.pinterest.com/api serverside-applied\n"
    fleet.ready("changes", "psvc/api")

    def image() -> set[str]:
        found = fleet.spread("deploy", "changes", "api").values()
        return {obj["spec"]["template"]["spec"]["containers"][0]["image"] for obj in found}

    kubectl("patch", "psvc", "api", *space, "--type=merge", "-p", '{"spec":{"replicas":9}}')
    until(
        lambda: fleet.replicas("deploy", "changes", "api") == 9,
        lambda: "the merge patch has not arrived",
    )
    path = "/spec/template/spec/containers/0/image"
    operation = json.dumps([{"op": "replace", "path": path, "value": "registry.example/app:2"}])
    kubectl("patch", "psvc", "api", *space, "--type=json", "-p", operation)
    until(
        lambda: image() == {"registry.example/app:2"},
        lambda: f"JSON patch: the members run {image()}",
    )

    editor = fleet.home / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i s,app:2,app:3, "$1"\n')
    editor.chmod(0o700)
    edited = kubectl("edit", "psvc", "api", *space, EDITOR=str(editor))
    assert edited == "pinterestservice.pinterest.com/api edited\n"
    until(lambda: image() == {"registry.example/app:3"}, lambda: f"edit: the members run {image()}")

    clash = kubectl.run("apply", "--server-side", "-f", file, "--field-manager=somebody-else")
    assert clash.code == 1
    assert ".spec.replicas" in clash.err

    kubectl("label", "psvc", "api", *space, "team=feed")
    kubectl("annotate", "psvc", "api", *space, "example.com/note=hello")

    def marked() -> bool:
        metas = [obj["metadata"] for obj in fleet.spread("psvc", "changes", "api").values()]
        return all(
            meta.get("labels", {}).get("team") == "feed"
            and meta.get("annotations", {}).get("example.com/note")
            for meta in metas
        )

    until(marked, lambda: str(fleet.spread("psvc", "changes", "api")))
    kubectl("wait", "--for=condition=Reconciling=False", "psvc/api", *space, "--timeout=60s")
    fleet.ready("changes", "psvc/api")
    refused = kubectl.run(
        "patch", "psvc", "api", *space, "--type=merge", "-p", '{"spec":{"replicas":-1}}'
    )
    assert refused.code == 1
    assert "spec.replicas" in refused.err
    kubectl("delete", "psvc", "api", *space)


def test_a_job_set_completes_all_its_shards(fleet: Fleet) -> None:
    kubectl, space = fleet.host, ("-n", "ads")
    kubectl("create", "ns", "ads")
    kubectl("apply", "-f", fleet.manifest(workloads.jobset("crunch", "ads", 40, 20)))
    kubectl("wait", "--for=jsonpath={.status.done}=40", "pjs/crunch", *space, "--timeout=90s")
    status = kubectl.json("get", "pjs", "crunch", *space)["status"]
    assert (status["completedIndexes"], status["running"], status["failed"]) == ("0-39", 0, 0)
    assert status["observedGeneration"] == 1
    bounds = []
    for member in fleet.members.values():
        for job in member.items("jobs", *space):
            assert job["status"]["succeeded"] == job["spec"]["completions"]
            low, _, high = job["metadata"]["annotations"][SHARDS_ANNOTATION].partition("-")
            bounds.append((int(low), int(high or low)))
    assert sorted(index for low, high in bounds for index in range(low, high + 1)) == list(
        range(40)
    )
    kubectl("delete", "pjs", "crunch", *space)
    kubectl("wait", "--for=delete", "pd", "--all", *space, "--timeout=60s")
    for member in fleet.members.values():
        member("wait", "--for=delete", "jobs", "--all", *space, "--timeout=60s")


def test_a_plain_deployment_is_carried_and_natives_in_members_are_like_any(fleet: Fleet) -> None:
    kubectl, space = fleet.host, ("-n", "growth")
    kubectl("create", "ns", "growth")
    kubectl("apply", "-f", fleet.manifest(workloads.deployment("page", "growth", 5)))
    assert "successfully rolled out" in kubectl(
        "rollout", "status", "deploy/page", *space, "--timeout=60s"
    )
    row = kubectl.run("get", "deploy", "page", *space, "--no-headers").rows[0]
    assert row[:4] == ["page", "5/5", "5", "5"]
    kubectl("scale", "deploy/page", "--replicas=8", *space)
    kubectl(
        "wait", "--for=jsonpath={.status.readyReplicas}=8", "deploy/page", *space, "--timeout=60s"
    )
    found = fleet.spread("deploy", "growth", "page")
    assert sum(obj["spec"]["replicas"] for obj in found.values()) == 8

    name, shell = next((name, fleet.members[name]) for name in sorted(found))
    share = found[name]["spec"]["replicas"]
    pods = shell.run("get", "pods", *space, "-l", "app=page", "-o", "wide", "--no-headers").rows
    assert [row[1:3] for row in pods] == [["1/1", "Running"]] * share
    assert f"{share} desired | {share} updated" in shell("describe", "deploy", "page", *space)
    none = ("patch", "deploy/page", *space, "--type=merge", "-p", '{"spec":{"replicas":0}}')
    if shell.run(*none).code:  # drift, which the hub repairs; only its own account may make it
        shell(*none, f"--as={deployed.user(deployed.HUB)}")
    shell(
        "wait", f"--for=jsonpath={{.spec.replicas}}={share}", "deploy/page", *space, "--timeout=30s"
    )
    with shell.following("get", "deploy", "page", *space, "-w") as wait:
        listed = len(
            wait(lambda text: len(text.splitlines()) > 1).splitlines()
        )  # it watches from there on
        kubectl("label", "deploy", "page", *space, "team=growth")
        wait(lambda text: len(text.splitlines()) > listed)
    kubectl("delete", "deploy", "page", *space)
    for shell in fleet.members.values():
        shell("wait", "--for=delete", "deploy/page", *space, "--timeout=60s")


def test_the_apis_tell_what_they_serve(fleet: Fleet) -> None:
    assert "FIELD: placement <Object>" in fleet.host("explain", "psvc.spec.placement")
    for cluster, of_ours in (
        (fleet.host, "memberclusters"),
        (next(iter(fleet.members.values())), "runtimeprofiles"),
    ):
        rows = {row[0]: row for row in cluster.run("api-resources").rows}
        assert rows["pinterestservices"][1:] == [
            "psvc",
            "pinterest.com/v1beta1",
            "true",
            "PinterestService",
        ]
        assert {"deployments", "jobs", "pods", of_ours, "clustercapacities"} <= rows.keys()
        assert re.search(r"Server Version: v1\.\d+", cluster("version"))
        assert cluster("auth", "can-i", "create", "psvc") == "yes\n"
        paths = json.loads(cluster("get", "--raw", "/openapi/v3"))["paths"]
        assert {
            "apis/pinterest.com/v1beta1",
            "apis/federation.pinterest.com/v1alpha1",
            "apis/apps/v1",
        } <= paths.keys()


def test_a_watch_shows_a_workload_becoming_ready(fleet: Fleet) -> None:
    kubectl, space = fleet.host, ("-n", "watched")
    kubectl("create", "ns", "watched")
    with kubectl.following("get", "psvc", *space, "-w") as wait:
        kubectl("apply", "-f", fleet.manifest(workloads.service("seen", "watched", 3)))
        text = wait(lambda text: "3/3 ready" in text)
        assert text.splitlines()[0].split()[:3] == ["NAME", "DESIRED", "READY"]
        kubectl("delete", "psvc", "seen", *space)
    with fleet.federator.following("get", "psvc", *space, "-w") as wait:
        kubectl("apply", "-f", fleet.manifest(workloads.service("seen", "watched", 4)))
        wait(lambda text: "4/4 ready" in text)
    kubectl("delete", "psvc", "seen", *space)


def test_policies_and_labels_move_a_service(fleet: Fleet) -> None:
    kubectl, space = fleet.host, ("-n", "policies")
    first, *others = sorted(fleet.members)
    kubectl("create", "ns", "policies")
    kubectl("apply", "-f", fleet.manifest(workloads.service("moved", "policies", 6)))
    fleet.ready("policies", "psvc/moved")
    assert first in fleet.spread("psvc", "policies", "moved")

    def where() -> list[str]:
        return sorted(fleet.spread("deploy", "policies", "moved"))

    rule = workloads.policy("elsewhere", "policies", "moved", clusters={"exclude": [first]})
    kubectl("apply", "-f", fleet.manifest(rule))
    until(lambda: first not in where(), lambda: f"the policy: it runs in {where()}")
    until(
        lambda: fleet.replicas("deploy", "policies", "moved") == 6,
        lambda: "the rest has not taken over",
    )
    kubectl("label", "psvc", "moved", *space, "app=other", "--overwrite")
    until(
        lambda: kubectl.json("get", "psvc", "moved", *space)["status"]["policy"] == "default",
        lambda: "the label",
    )
    kubectl("scale", "psvc/moved", "--replicas=60", *space)
    until(lambda: where() == [first, *others], lambda: f"without a policy it runs in {where()}")
    kubectl("wait", "--for=jsonpath={.status.ready}=60", "psvc/moved", *space, "--timeout=60s")
    kubectl("delete", "psvc/moved", "pp/elsewhere", *space)


def test_a_borrowed_quota_is_reclaimed(fleet: Fleet) -> None:
    kubectl = fleet.host
    half = {"OnDemand": {"guaranteed": {"cpu": "200m"}}}
    for name, spec in (
        (
            "studio",
            {"unknownProjects": "Allow", "tiers": {"OnDemand": {"guaranteed": {"cpu": "400m"}}}},
        ),
        ("clips", {"parent": "studio", "projects": ["clips"], "tiers": half}),
        (
            "search",
            {"parent": "studio", "projects": ["search"], "tiers": half}
            | {"preemption": {"reclaim": "Any"}},
        ),
    ):
        kubectl("apply", "-f", fleet.manifest(workloads.account(name, iamRoles=["role-*"], **spec)))
    for name in ("clips", "search"):
        kubectl("create", "ns", name)
    kubectl("apply", "-f", fleet.manifest(workloads.service("web", "clips", 20, project="clips")))
    fleet.ready("clips", "psvc/web")
    assert fleet.replicas("deploy", "clips", "web") == 20

    kubectl("apply", "-f", fleet.manifest(workloads.service("api", "search", 8, project="search")))
    fleet.ready("search", "psvc/api")
    assert fleet.replicas("deploy", "search", "api") == 8
    until(
        lambda: fleet.replicas("deploy", "clips", "web") == 12,
        lambda: f"{fleet.replicas('deploy', 'clips', 'web')} copies of the borrower are there",
    )

    def placed() -> dict[str, Any]:
        found = kubectl.json("get", "psvc", "web", "-n", "clips")["status"]["conditions"]
        return next(row for row in found if row["type"] == "Placed")

    until(lambda: placed()["reason"] == "Preempted", lambda: f"it is told {placed()}")
    assert "8 copies left for PinterestService/search/api of project search" in placed()["message"]
    told = re.compile(r"Warning\s+Preempted")
    until(
        lambda: told.search(kubectl("describe", "psvc", "web", "-n", "clips")) is not None,
        lambda: "no Event",
        10,
    )
    kubectl("delete", "psvc", "api", "-n", "search")
    until(
        lambda: fleet.replicas("deploy", "clips", "web") == 20,
        lambda: "what it lent does not come back",
    )
    kubectl("delete", "psvc", "web", "-n", "clips")
    kubectl("delete", "fq", "clips", "search", "studio")


def test_a_settled_federation_writes_nothing_also_after_a_restart(fleet: Fleet) -> None:
    kubectl = fleet.host
    kubectl("create", "ns", "calm")
    kubectl(
        "apply",
        "-f",
        fleet.manifest(workloads.service("a", "calm", 7), workloads.jobset("b", "calm", 6, 3)),
    )
    kubectl("apply", "-f", fleet.manifest(workloads.deployment("c", "calm", 3)))
    fleet.ready("calm", "psvc/a")
    kubectl("wait", "--for=jsonpath={.status.done}=6", "pjs/b", "-n", "calm", "--timeout=60s")
    until_quiet(fleet)
    before = fleet.versions()
    if fleet.kind == "sandbox":
        return
    for name in ("hub", f"member-{min(fleet.members)}"):
        fleet.restart(name)
    kubectl("scale", "psvc/a", "--replicas=8", "-n", "calm")
    kubectl("wait", "--for=jsonpath={.status.ready}=8", "psvc/a", "-n", "calm", "--timeout=60s")
    kubectl("scale", "psvc/a", "--replicas=7", "-n", "calm")
    kubectl("wait", "--for=jsonpath={.status.ready}=7", "psvc/a", "-n", "calm", "--timeout=60s")
    until_quiet(fleet)
    about_a = {key for key in before if key[3] in ("a", "a-config") or key[3].startswith("psvc-a-")}
    reports = {key for key in before if key[1] in ("MemberCluster", "ClusterCapacity")}
    touched = {key for key in differences(before, fleet.versions()) if key not in about_a | reports}
    assert touched == set()


def test_workloads_of_all_kinds_live_from_their_creation_to_their_end(fleet: Fleet) -> None:
    fleet.host("create", "ns", lives.SPACE)
    if fleet.kind == "real":
        for shell in fleet.members.values():
            shell("apply", "-f", fleet.manifest(*workloads.volumes(9)))
    print(lives.live(fleet, lives_of_kinds.kinds(fleet), LIFE_S))
    lives.nothing_is_left(fleet)


def until_quiet(fleet: Fleet) -> None:
    """Until nothing was written for longer than any part of it waits before it writes (figures: two
    seconds).
    """
    seen = [fleet.versions()]

    def quiet() -> bool:
        time.sleep(QUIET_S)
        seen.append(fleet.versions())
        return seen[-1] == seen[-2]

    until(quiet, lambda: f"still written: {differences(seen[-2], seen[-1])}")


def differences(
    before: dict[tuple[str, str, str, str], str], after: dict[tuple[str, str, str, str], str]
) -> list[tuple[str, str, str, str]]:
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
