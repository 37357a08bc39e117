"""The garbage collector and the namespace life cycle."""

from typing import Any

import pytest

from tests.unit.embedded.controllers.clusters import (
    RESOURCES,
    Cluster,
    Obj,
    deployment,
    job,
    play,
    template,
)


def owned(name: str, *owners: Obj, block: bool = True) -> Obj:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": number == 0,
            "blockOwnerDeletion": block,
        }
        for number, owner in enumerate(owners)
    ]
    return {"metadata": {"name": name, "ownerReferences": references}, "data": {}}


def test_background_deletion_takes_dependents_after_their_owner() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment())
        await cluster.pass_s(5)
        cluster.delete("Deployment", "web")
        assert cluster.find("Deployment", "web") is None
        await cluster.pass_s(5)
        assert cluster.all("ReplicaSet") == []
        assert cluster.pods() == []

    play(story)


def test_foreground_deletion_keeps_the_owner_until_the_last_pod_is_gone() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(pod=template(annotations={"stop-seconds": "10"})))
        await cluster.pass_s(5)
        cluster.delete("Deployment", "web", finalizers=["foregroundDeletion"])
        await cluster.pass_s(5)
        assert cluster.get("Deployment", "web")["metadata"]["deletionTimestamp"]
        assert len(cluster.all("ReplicaSet")) == 1
        assert len(cluster.pods()) == 3
        order: list[str] = []
        for kind in ("Deployment", "ReplicaSet", "Pod"):
            cluster.store.subscribe(
                RESOURCES[kind],
                lambda event: (
                    order.append(event.resource.kind) if event.type == "DELETED" else None
                ),
            )
        await cluster.pass_s(20)
        assert order == ["Pod", "Pod", "Pod", "ReplicaSet", "Deployment"]

    play(story)


def test_orphaning_leaves_dependents_without_the_owner() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment())
        await cluster.pass_s(5)
        cluster.delete("Deployment", "web", finalizers=["orphan"])
        await cluster.pass_s(5)
        assert cluster.find("Deployment", "web") is None
        (left,) = cluster.all("ReplicaSet")
        assert "ownerReferences" not in left["metadata"]
        assert len(cluster.pods("Running")) == 3
        cluster.create("Deployment", deployment())
        await cluster.pass_s(5)
        (adopted,) = cluster.all("ReplicaSet")
        assert adopted["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
        assert len(cluster.pods("Running")) == 3

    play(story)


def test_an_object_with_one_living_owner_stays_and_forgets_the_dead_one() -> None:
    async def story(cluster: Cluster) -> None:
        first = cluster.create("ConfigMap", {"metadata": {"name": "first"}})
        second = cluster.create("ConfigMap", {"metadata": {"name": "second"}})
        cluster.create("ConfigMap", owned("child", first, second))
        await cluster.pass_s(1)
        cluster.delete("ConfigMap", "first")
        await cluster.pass_s(1)
        (reference,) = cluster.get("ConfigMap", "child")["metadata"]["ownerReferences"]
        assert reference["name"] == "second"
        cluster.delete("ConfigMap", "second")
        await cluster.pass_s(1)
        assert cluster.find("ConfigMap", "child") is None

    play(story, workloads=False)


def test_an_object_whose_owner_never_was_is_deleted_unless_the_kind_is_unknown() -> None:
    async def story(cluster: Cluster) -> None:
        ghost: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "ghost", "uid": "0"},
        }
        cluster.create("ConfigMap", owned("of-a-ghost", ghost))
        cluster.create(
            "ConfigMap",
            owned("of-a-stranger", {**ghost, "apiVersion": "example.com/v1", "kind": "Thing"}),
        )
        await cluster.pass_s(1)
        assert cluster.find("ConfigMap", "of-a-ghost") is None
        assert cluster.find("ConfigMap", "of-a-stranger") is not None

    play(story, workloads=False)


def test_an_owner_of_another_namespace_does_not_count() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Namespace", {"metadata": {"name": "other"}, "spec": {"finalizers": ["kubernetes"]}}
        )
        owner = cluster.create("ConfigMap", {"metadata": {"name": "owner"}}, "other")
        cluster.create("ConfigMap", owned("child", owner))
        await cluster.pass_s(1)
        assert cluster.find("ConfigMap", "child") is None

    play(story, workloads=False)


def test_foreground_deletion_does_not_wait_for_dependents_that_do_not_block() -> None:
    async def story(cluster: Cluster) -> None:
        owner = cluster.create("ConfigMap", {"metadata": {"name": "owner"}})
        child = owned("child", owner, block=False)
        child["metadata"]["finalizers"] = ["example.com/hold"]
        cluster.create("ConfigMap", child)
        await cluster.pass_s(1)
        cluster.delete("ConfigMap", "owner", finalizers=["foregroundDeletion"])
        await cluster.pass_s(1)
        assert cluster.find("ConfigMap", "owner") is None

    play(story, workloads=False)


@pytest.mark.parametrize("freed", ["disowned", "not blocking"])
def test_a_foreground_deletion_ends_when_what_it_waits_for_is_let_go(freed: str) -> None:
    async def story(cluster: Cluster) -> None:
        owner = cluster.create("ConfigMap", {"metadata": {"name": "owner"}, "data": {}})
        child = owned("child", owner)
        child["metadata"]["finalizers"] = ["example.com/hold"]
        cluster.create("ConfigMap", child)
        cluster.delete("ConfigMap", "owner", finalizers=["foregroundDeletion"])
        await cluster.pass_s(5)
        assert cluster.find("ConfigMap", "owner") is not None
        references = (
            []
            if freed == "disowned"
            else owned("child", owner, block=False)["metadata"]["ownerReferences"]
        )
        cluster.own("ConfigMap", "child", references)
        await cluster.pass_s(5)
        assert cluster.find("ConfigMap", "owner") is None

    play(story)


def test_every_namespace_has_its_account_and_once_served_root_certificates() -> None:
    def shown(cluster: Cluster) -> list[str | None]:
        found = [
            cluster.find("ConfigMap", "kube-root-ca.crt", name) for name in ("default", "team")
        ]
        return [None if obj is None else obj["data"]["ca.crt"] for obj in found]

    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Namespace", {"metadata": {"name": "team"}, "spec": {"finalizers": ["kubernetes"]}}
        )
        await cluster.pass_s(1)
        for name in ("default", "team"):
            assert cluster.find("ServiceAccount", "default", name) is not None
        assert shown(cluster) == [None, None]
        cluster.delete("ServiceAccount", "default", "team")
        await cluster.pass_s(1)
        assert cluster.find("ServiceAccount", "default", "team") is not None
        assert cluster.controllers is not None
        for pem in ("one", "another"):
            cluster.controllers.trust(pem)
            await cluster.pass_s(1)
            assert shown(cluster) == [pem, pem]
        cluster.delete("ConfigMap", "kube-root-ca.crt", "team")
        await cluster.pass_s(1)
        assert shown(cluster) == ["another", "another"]

    play(story, workloads=False)


@pytest.mark.parametrize("workloads", [True, False])
def test_a_deleted_namespace_is_emptied_and_then_goes(workloads: bool) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Namespace", {"metadata": {"name": "team"}, "spec": {"finalizers": ["kubernetes"]}}
        )
        cluster.create("Deployment", deployment(), "team")
        cluster.create("Job", job(), "team")
        cluster.create("ConfigMap", {"metadata": {"name": "settings"}}, "team")
        await cluster.pass_s(5)
        assert len(cluster.all("Pod", "team")) == (4 if workloads else 0)
        cluster.delete("Namespace", "team")
        assert cluster.get("Namespace", "team")["status"]["phase"] == "Terminating"
        await cluster.pass_s(5)
        assert cluster.find("Namespace", "team") is None
        for kind in RESOURCES:
            assert cluster.all(kind, "team") == []
        assert cluster.find("ServiceAccount", "default") is not None

    play(story, workloads=workloads)


def test_a_namespace_waits_for_finalizers_and_says_for_which() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Namespace", {"metadata": {"name": "team"}, "spec": {"finalizers": ["kubernetes"]}}
        )
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        cluster.create("ConfigMap", held, "team")
        await cluster.pass_s(1)
        cluster.delete("Namespace", "team")
        await cluster.pass_s(60)
        rows = {
            entry["type"]: entry
            for entry in cluster.get("Namespace", "team")["status"]["conditions"]
        }
        assert rows["NamespaceContentRemaining"]["message"] == (
            "Some resources are remaining: configmaps. has 1 resource instances"
        )
        assert rows["NamespaceFinalizersRemaining"]["message"] == (
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 "
            "resource instances"
        )
        obj = cluster.get("ConfigMap", "held", "team")
        metadata = {name: value for name, value in obj["metadata"].items() if name != "finalizers"}
        cluster.store.update(RESOURCES["ConfigMap"], {**obj, "metadata": metadata})
        await cluster.pass_s(1)
        assert cluster.find("Namespace", "team") is None

    play(story, workloads=False)


def test_without_workloads_nothing_runs() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment())
        cluster.create("Job", job())
        await cluster.pass_s(60)
        assert cluster.all("Node") == []
        assert cluster.all("ReplicaSet") == []
        assert "status" not in cluster.get("Deployment", "web")

    play(story, workloads=False)
