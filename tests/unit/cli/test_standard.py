"""ClusterStandards: what a cluster lacks of them, and how it is brought up to them; on embedded
clusters."""

import asyncio
from typing import Any

import pytest

from federator.cli.clusters import standard
from federator.kinds import registry
from federator.kube import errors
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, play

MIRROR = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "registry-mirror", "namespace": "platform"},
    "data": {"endpoint": "mirror.example"},
}
PLATFORM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "platform"}}
POD = {"containers": [{"name": "agent", "image": "agent:1"}]}
AGENT = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "log-agent", "namespace": "platform"},
    "spec": {
        "selector": {"matchLabels": {"app": "log-agent"}},
        "template": {"metadata": {"labels": {"app": "log-agent"}}, "spec": POD},
    },
}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "first"}}
CONFIG = ObjectRef("v1", "configmaps", "platform", "registry-mirror", "ConfigMap")


async def ask(world: World, name: str = "all", **spec: Any) -> None:
    row = registry.KINDS["ClusterStandard"]
    body = {"apiVersion": row.api_version, "kind": row.kind, "metadata": {"name": name}}
    await world.host.create(row.ref("", name), {**body, "spec": spec})


async def compared(world: World, member: str = "a", **labels: str) -> dict[str, tuple[bool, str]]:
    standards = await standard.of_cluster(world.host, labels)
    findings = await standard.compare(world.member(member), standards)
    return {finding.subject: (finding.ok, finding.message) for finding in findings}


async def conform(world: World, member: str = "a", **labels: str) -> list[str]:
    standards = await standard.of_cluster(world.host, labels)
    return [title async for title in standard.conform(world.member(member), standards)]


def test_what_lacks_is_named_applied_once_and_then_as_the_standard_says() -> None:
    async def scenario(world: World) -> None:
        await ask(
            world,
            manifests=[PLATFORM, MIRROR, AGENT],
            daemons=[{"namespace": "platform", "name": "log-agent"}],
            served=[
                {"apiVersion": "apps/v1", "kind": "DaemonSet"},
                {"apiVersion": "example.com/v1", "kind": "Gadget"},
            ],
            probes=[{"name": "ready", "path": "/readyz"}, {"name": "beyond", "path": "/beyond"}],
        )
        before = await compared(world)
        assert before["all: ConfigMap platform/registry-mirror"] == (False, "missing")
        assert before["all: DaemonSet platform/log-agent"] == (False, "missing")

        titles = ["Namespace platform", "ConfigMap platform/registry-mirror"]
        assert await conform(world) == [*titles, "DaemonSet platform/log-agent"]
        await asyncio.sleep(60)  # its pods start
        after = await compared(world)
        assert after["all: ConfigMap platform/registry-mirror"] == (True, "as the standard says")
        assert after["all: DaemonSet platform/log-agent"] == (True, "ready on 4 of 4 nodes")
        assert after["all: apps/v1 DaemonSet"] == (True, "served")
        assert after["all: example.com/v1 Gadget"] == (False, "not served")
        assert after["all: ready"][0]
        assert not after["all: beyond"][0]

        version = (await world.member("a").get(CONFIG))["metadata"]["resourceVersion"]
        assert await conform(world) == []
        assert (await world.member("a").get(CONFIG))["metadata"]["resourceVersion"] == version
        assert not (await compared(world, "b"))["all: ConfigMap platform/registry-mirror"][0]

    play(scenario)


def test_what_was_applied_is_waited_for_and_what_never_comes_for_so_long_only() -> None:
    async def scenario(world: World) -> None:
        agent = {"namespace": "platform", "name": "log-agent"}
        await ask(world, manifests=[PLATFORM, AGENT], daemons=[agent])
        await conform(world)
        assert not (await compared(world))["all: DaemonSet platform/log-agent"][0]
        said: list[str] = []
        began_s = asyncio.get_running_loop().time()
        standards = await standard.of_cluster(world.host, {})
        await standard.until_at_work(world.member("a"), standards, 120.0, said.append)
        took_s = asyncio.get_running_loop().time() - began_s
        assert 0 < took_s < 60
        assert said == [
            "waiting at most 120 s for all: DaemonSet platform/log-agent (ready on 0 of 4 nodes)"
        ]
        assert (await compared(world))["all: DaemonSet platform/log-agent"][0]

        await ask(world, "more", probes=[{"name": "beyond", "path": "/beyond"}])
        standards = await standard.of_cluster(world.host, {})
        began_s = asyncio.get_running_loop().time()
        await standard.until_at_work(world.member("a"), standards, 30.0, said.append)
        assert 30 <= asyncio.get_running_loop().time() - began_s < 33
        assert said[1].startswith("waiting at most 30 s for more: beyond (/beyond: ")

    play(scenario)


def test_a_field_that_somebody_changed_is_named_and_put_back() -> None:
    async def scenario(world: World) -> None:
        await ask(world, manifests=[PLATFORM, MIRROR])
        await conform(world)
        more = {"data": {"endpoint": "elsewhere", "note": "mine"}}
        await world.member("a").patch(CONFIG, more)

        different = (await compared(world))["all: ConfigMap platform/registry-mirror"]
        assert different == (False, "differs in data.endpoint")
        assert await conform(world) == ["ConfigMap platform/registry-mirror"]
        assert (await world.member("a").get(CONFIG))["data"] == {
            "endpoint": "mirror.example",
            "note": "mine",  # the standard does not speak of it
        }

    play(scenario)


def test_a_definition_is_served_before_the_objects_of_its_kind_are_applied() -> None:
    async def scenario(world: World) -> None:
        await ask(world, manifests=[WIDGETS, WIDGET])
        assert (await compared(world))["all: Widget first"] == (False, "its kind is not served")

        assert await conform(world) == [
            "CustomResourceDefinition widgets.example.com",
            "Widget first",
        ]
        assert all(ok for ok, _ in (await compared(world)).values())

    play(scenario)


def test_a_standard_is_for_the_clusters_with_its_labels() -> None:
    async def scenario(world: World) -> None:
        await ask(
            world,
            "gpus",
            clusters={"selector": {"matchLabels": {"pool": "gpu"}}},
            manifests=[PLATFORM],
        )
        assert await compared(world, zone="z-a") == {}
        assert await conform(world, zone="z-a") == []
        assert list(await compared(world, pool="gpu")) == ["gpus: Namespace platform"]

    play(scenario)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        pytest.param(
            {**MIRROR, "metadata": {"name": "x"}}, "its kind needs a namespace", id="no namespace"
        ),
        pytest.param(
            {**PLATFORM, "metadata": {"name": "x", "namespace": "y"}},
            "its kind has no namespace",
            id="namespace too many",
        ),
        pytest.param(
            {**MIRROR, "metadata": {"name": "x", "namespace": "default"}, "data": ["x"]},
            "data",
            id="refused by the API server",
        ),
        pytest.param({**WIDGET, "kind": "Gadget"}, "its kind is not served", id="unknown kind"),
    ],
)
def test_an_object_that_cannot_be_applied_is_named_and_ends_it(
    manifest: dict[str, Any], said: str
) -> None:
    async def scenario(world: World) -> None:
        await ask(world, manifests=[PLATFORM, manifest, AGENT])
        found = [message for _, message in (await compared(world)).values()]
        assert any(said in message for message in found), found

        with pytest.raises((errors.ApiError, FieldError)) as trouble:
            await conform(world)
        assert said in str(trouble.value)
        there = {
            known["metadata"]["name"]
            for known in (await world.member("a").list("v1", "namespaces")).items
        }
        assert "platform" in there  # what came before it stays

    play(scenario)


def test_a_host_that_does_not_know_the_kind_has_no_standards() -> None:
    async def scenario(world: World) -> None:
        # a member serves neither MemberClusters nor standards
        assert await standard.of_cluster(world.member("a"), {}) == []

    play(scenario)
