"""Pod Security in the whole federation: what a tenant may not run never reaches a member, and what
runs stays.
"""

import asyncio
from typing import Any

import pytest

from federator.kinds import registry
from federator.kube import errors
from federator.model import names
from federator.model.kubernetes import accountlists, pod_security
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, jobset, play, service

PSVC = "PinterestService"
HOSTILE = {"hostPID": True}
NAMESPACE = "Namespace"


async def label(world: World, level: str | None) -> None:
    await world.namespace("feed")
    labels = {pod_security.ENFORCE: level}
    await world.host.patch(
        ObjectRef("v1", "namespaces", "", "feed"), {"metadata": {"labels": labels}}
    )


async def labels(world: World, cluster: str) -> dict[str, str]:
    found = await world.member(cluster).get(ObjectRef("v1", "namespaces", "", "feed"))
    return dict(found["metadata"].get("labels") or {})


def hostile(copies: int, **fields: Any) -> dict[str, Any]:
    made = service(copies)
    made["template"]["spec"] |= fields or HOSTILE
    return made


async def ready(world: World) -> int:
    found = await world.get(PSVC, "feed", "web")
    assert found is not None
    return int(found["status"]["ready"])


async def slices(world: World, cluster: str) -> list[dict[str, Any]]:
    """The specs of the slices in one member."""
    kind = registry.KINDS[PSVC]
    return [
        one["spec"]
        for one in (await world.member(cluster).list(kind.api_version, kind.plural)).items
    ]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (HOSTILE, "spec.template.spec.hostPID: is true"),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            "spec.template.spec.volumes[0].hostPath: is set",
        ),
        ({"nodeName": "a-0"}, "spec.template.spec.nodeName: is a-0"),
        (
            {"priorityClassName": "system-node-critical"},
            "spec.template.spec.priorityClassName: is system-node-critical",
        ),
    ],
)
def test_a_hostile_template_reaches_no_member_and_its_owner_is_told_the_field(
    fields: dict[str, Any], path: str
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", hostile(4, **fields))
        await asyncio.sleep(30)
        await world.settle()
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "PodSecurityViolation")
        assert placed["message"].startswith(path)
        stalled = await world.condition(PSVC, "feed", "web", "Stalled")
        assert stalled["status"] == "True"
        for cluster in world.federation.members:
            assert await slices(world, cluster) == []

    play(scenario)


def test_a_namespace_in_a_member_has_the_level_of_the_hosts_and_follows_it() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(4))
        await world.settle()
        clusters = sorted(world.federation.members)
        for cluster in clusters:
            found = await labels(world, cluster)
            assert found[pod_security.ENFORCE] == "baseline"
            assert found[pod_security.ENFORCE_VERSION] == pod_security.VERSION
        await label(world, "privileged")
        await asyncio.sleep(10)
        assert [(await labels(world, one))[pod_security.ENFORCE] for one in clusters] == [
            "privileged"
        ] * len(clusters)
        await world.patch(PSVC, "feed", "web", {"spec": {"template": {"spec": HOSTILE}}})
        await world.settle()
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert placed["status"] == "True"

    play(scenario)


def test_an_edit_that_may_not_run_takes_nothing_down_and_changes_nothing_until_it_may() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(4))
        await world.settle()
        before = {name: await slices(world, name) for name in world.federation.members}
        world.writes.clear()
        await world.patch(
            PSVC, "feed", "web", {"spec": {"replicas": 9, "template": {"spec": HOSTILE}}}
        )
        await asyncio.sleep(60)
        await world.settle()
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "PodSecurityViolation")
        assert {name: await slices(world, name) for name in world.federation.members} == before
        assert not [
            one
            for one in world.writes
            if one[0] == "hub" and one[3] == "pinterestservices" and one[1] != "host"
        ]
        await world.patch(PSVC, "feed", "web", {"spec": {"template": {"spec": {"hostPID": None}}}})
        await world.settle()
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"
        assert await ready(world) == 9

    play(scenario)


def test_what_a_refused_edit_asks_for_frees_no_quota() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(4))
        await world.settle()
        commitments = world.federation.hub.state.commitments
        workload = next(iter(world.federation.hub.state.workloads.values()))
        held = commitments.commitment(workload.uid)
        small = service(1)["template"]
        small["spec"] |= HOSTILE
        small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
        await world.patch(PSVC, "feed", "web", {"spec": {"template": small}})
        await asyncio.sleep(5)
        await world.settle()
        assert held is not None
        assert commitments.commitment(workload.uid) == held

    play(scenario)


def test_a_level_that_is_tightened_refuses_and_one_that_is_loosened_admits() -> None:
    async def scenario(world: World) -> None:
        await label(world, "restricted")
        await asyncio.sleep(1)
        await world.create(PSVC, "feed", "web", service(2))
        await asyncio.sleep(10)
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert "has the Pod Security level restricted" in placed["message"]
        await label(world, None)
        await world.settle()
        await asyncio.sleep(10)
        await world.settle()
        assert (await world.condition(PSVC, "feed", "web", "Placed"))["status"] == "True"

    play(scenario)


def test_a_namespace_that_is_not_ours_is_never_changed() -> None:
    async def scenario(world: World) -> None:
        ref = ObjectRef("v1", "namespaces", "", "feed", NAMESPACE)
        for cluster in world.federation.members:
            body = {"apiVersion": "v1", "kind": NAMESPACE, "metadata": {"name": "feed"}}
            await world.member(cluster).create(ref, body)
        await world.create(PSVC, "feed", "web", service(4))
        await world.settle()
        await label(world, "restricted")
        await asyncio.sleep(10)
        for cluster in world.federation.members:
            found = await labels(world, cluster)
            assert not {pod_security.ENFORCE, names.FLEET_LABEL} & found.keys()

    play(scenario)


def test_namespaces_in_members_list_the_service_accounts_of_their_projects() -> None:
    """Decision 0166."""

    async def said(world: World, cluster: str) -> dict[str, str]:
        found = await world.member(cluster).get(ObjectRef("v1", "namespaces", "", "feed"))
        return accountlists.ours(found["metadata"].get("annotations") or {})

    async def scenario(world: World) -> None:
        await world.namespace("feed")
        account = {"projects": ["feed"], "namespaces": ["feed"], "serviceAccounts": ["runner"]}
        await world.create("FederatedQuota", "", "feed", account)
        await world.create(PSVC, "feed", "web", hostile(4, serviceAccountName="runner"))
        await world.settle()
        cluster = next(iter(await world.shares("feed", "web")))
        key = f"{accountlists.PREFIX}feed"
        assert await said(world, cluster) == {key: "runner"}

        more = {"spec": {"serviceAccounts": ["runner", "batch-*"]}}
        await world.patch("FederatedQuota", "", "feed", more)
        await asyncio.sleep(10)
        assert await said(world, cluster) == {key: "runner,batch-*"}

        ref = ObjectRef("v1", "namespaces", "", "feed", NAMESPACE)
        opened = {key: "*", f"{accountlists.PREFIX}other": "*"}
        await world.member(cluster).patch(ref, {"metadata": {"annotations": opened}})
        await asyncio.sleep(310)
        assert await said(world, cluster) == {key: "runner,batch-*"}
        version = (await world.member(cluster).get(ref))["metadata"]["resourceVersion"]
        await asyncio.sleep(700)
        settled = (await world.member(cluster).get(ref))["metadata"]["resourceVersion"]
        assert settled == version, "nothing is written while nothing changes"

    play(scenario)


def test_a_namespace_older_than_levels_gets_the_default_unless_its_pods_need_more() -> None:
    async def scenario(world: World) -> None:
        await label(world, "privileged")
        await world.create(PSVC, "feed", "web", hostile(4))
        await world.settle()
        cluster = next(iter(await world.shares("feed", "web")))
        bare = {
            "metadata": {"labels": {pod_security.ENFORCE: None, pod_security.ENFORCE_VERSION: None}}
        }
        ref = ObjectRef("v1", "namespaces", "", "feed", NAMESPACE)
        await world.member(cluster).patch(ref, bare)
        await label(world, None)
        await asyncio.sleep(10)
        assert pod_security.ENFORCE not in await labels(world, cluster)
        await world.patch(PSVC, "feed", "web", {"spec": {"template": {"spec": {"hostPID": None}}}})
        await world.settle()
        await asyncio.sleep(400)
        assert (await labels(world, cluster))[pod_security.ENFORCE] == "baseline"

    play(scenario)


def test_a_template_that_cannot_be_read_reaches_no_member_either() -> None:
    """An amount that nobody can read would else carry the rest of the template past the check."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(4))
        await world.settle()
        bad = service(1)["template"]
        bad["spec"] |= HOSTILE
        bad["spec"]["tolerations"] = [{"key": "-bad-", "operator": "Exists"}]
        try:
            await world.patch(PSVC, "feed", "web", {"spec": {"template": bad}})
        except errors.Invalid:
            pytest.skip("the API server refuses such a template already")
        await asyncio.sleep(30)
        for name in world.federation.members:
            for found in await slices(world, name):
                assert "hostPID" not in found["template"]["spec"]

    play(scenario)


async def tighten(world: World, cluster: str, level: str | None) -> None:
    """A member's administrator gives the namespace a level of its own."""
    ref = ObjectRef("v1", "namespaces", "", "feed", NAMESPACE)
    await world.member(cluster).patch(ref, {"metadata": {"labels": {pod_security.ENFORCE: level}}})


@pytest.mark.parametrize(
    ("kind", "spec", "container"),
    [(PSVC, service(6), "app"), ("PinterestJobSet", jobset(60, 6), "shard")],
)
def test_an_owner_is_told_which_cluster_refuses_his_pods_and_why(
    kind: str, spec: dict[str, Any], container: str
) -> None:
    async def scenario(world: World) -> None:
        ref = ObjectRef("v1", "namespaces", "", "feed", NAMESPACE)
        await world.member("a").create(
            ref, {"apiVersion": "v1", "kind": NAMESPACE, "metadata": {"name": "feed"}}
        )
        await tighten(world, "a", "restricted")
        await world.create(kind, "feed", "web", spec)
        await asyncio.sleep(60)
        sentence = (
            'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
            f'(container "{container}" must set securityContext.allowPrivilegeEscalation=false)'
        )
        ready = await world.condition(kind, "feed", "web", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "FailedCreate")
        assert "; a: " in ready["message"]
        assert sentence in ready["message"]
        healthy = await world.condition(kind, "feed", "web", "Healthy")
        assert healthy["message"].startswith("a: ")
        found = await world.get(kind, "feed", "web")
        assert found is not None
        rows = {one["cluster"]: one for one in found["status"]["clusterStatuses"]}
        assert rows["a"]["reason"] == "FailedCreate"
        assert not {rows[cluster].get("reason") for cluster in ("b", "c")} - {None, ""}

        await tighten(world, "a", "baseline")
        await asyncio.sleep(180)
        await world.settle()
        assert (await world.condition(kind, "feed", "web", "Ready"))["status"] == "True"

    play(scenario)


def test_what_was_refused_once_is_not_told_of_pods_that_were_made() -> None:
    """The Event outlives the trouble by an hour."""

    async def scenario(world: World) -> None:
        ref = ObjectRef("v1", "namespaces", "", "feed", NAMESPACE)
        for cluster in world.federation.members:
            await world.member(cluster).create(
                ref, {"apiVersion": "v1", "kind": NAMESPACE, "metadata": {"name": "feed"}}
            )
            await tighten(world, cluster, "restricted")
        slow = jobset(60, 6, annotations={"embedded.federator/run-seconds": "300"})
        await world.create("PinterestJobSet", "feed", "web", slow)
        await asyncio.sleep(30)
        assert (await world.condition("PinterestJobSet", "feed", "web", "Ready"))[
            "reason"
        ] == "FailedCreate"
        for cluster in world.federation.members:
            await tighten(world, cluster, None)
        await asyncio.sleep(150)
        found = await world.get("PinterestJobSet", "feed", "web")
        assert found is not None
        assert found["status"]["running"] == 6
        assert not [
            one.get("reason") for one in found["status"]["clusterStatuses"] if one.get("reason")
        ]

    play(scenario)
