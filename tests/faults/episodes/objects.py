"""Episodes of people and programs that act on what members hold: rivals, hands, namesakes,
policies, templates."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

from federator.kube import errors
from federator.model import names
from federator.model.steps import ObjectRef
from tests.faults.episodes import guests
from tests.faults.episodes.guests import Obj
from tests.faults.rows import Episode, Stage

RIVAL = "rival.example.com/turn"
"""Annotation that a rival controller writes into each of our objects."""
HOLD = "example.com/hold"
"""A finalizer of another client."""
_WRITTEN = (
    ("pinterest.com/v1beta1", "pinterestservices", "PinterestService"),
    ("pinterest.com/v1beta1", "pinterestjobsets", "PinterestJobSet"),
    ("apps/v1", "deployments", "Deployment"),
    ("batch/v1", "jobs", "Job"),
    ("v1", "services", "Service"),
)
"""Kinds of objects in members that are of our making."""


def ours(stage: Stage, cluster: str) -> Iterator[tuple[ObjectRef, Obj]]:
    """Everything in a member that carries our label."""
    member = stage.federation.members[cluster]
    for api_version, plural, kind in _WRITTEN:
        group = api_version.rpartition("/")[0]
        for stored in member.store.items(member.registry.get(group, plural)):
            meta = stored.obj["metadata"]
            if names.FLEET_LABEL in (meta.get("labels") or {}):
                yield (
                    ObjectRef(api_version, plural, meta["namespace"], meta["name"], kind),
                    stored.obj,
                )


@contextlib.asynccontextmanager
async def going_on(stage: Stage, name: str, turns: Any) -> AsyncIterator[None]:
    """Something done over and over beside everything else, by a task that ends with this."""
    task = asyncio.create_task(turns, name=name)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def rival_controller(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Another client writes an annotation of its own into each of our objects in one member, every
    second."""
    cluster = rng.choice(list(stage.members))
    async with going_on(stage, "rival", _annotate(stage, cluster)):
        yield
    for ref, obj in list(ours(stage, cluster)):
        if RIVAL in (obj["metadata"].get("annotations") or {}):
            with contextlib.suppress(errors.NotFound):
                await stage.user(cluster).patch(ref, {"metadata": {"annotations": {RIVAL: None}}})


async def _annotate(stage: Stage, cluster: str) -> None:
    client = stage.user(cluster)
    for turn in itertools.count():
        for ref, _ in list(ours(stage, cluster)):
            with contextlib.suppress(errors.NotFound):
                await client.patch(ref, {"metadata": {"annotations": {RIVAL: str(turn)}}})
                stage.happened("rival-writes")
        await asyncio.sleep(1.0)


def _one_of_ours(stage: Stage, rng: random.Random) -> tuple[str, ObjectRef, Obj] | None:
    """(cluster, its name there, it as it is) of one object that is not being deleted; None where a
    drawn cluster has none."""
    cluster = rng.choice(list(stage.members))
    choices = [
        (ref, obj)
        for ref, obj in ours(stage, cluster)
        if "deletionTimestamp" not in obj["metadata"]
    ]
    return (cluster, *rng.choice(choices)) if choices else None


@contextlib.asynccontextmanager
async def deleted_by_hand(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A person deletes a few of our objects in members."""
    for _ in range(3):
        if (chosen := _one_of_ours(stage, rng)) is not None:
            cluster, ref, obj = chosen
            propagation = rng.choice(("Background", "Foreground"))
            stage.say(
                f"somebody deletes {ref.kind} {ref.namespace}/{ref.name} in {cluster}:"
                f" {propagation}"
            )
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                await stage.user(cluster).delete(
                    ref, uid=obj["metadata"]["uid"], propagation=propagation
                )
                stage.happened("deleted-by-hand")
        await asyncio.sleep(rng.uniform(0.5, 4.0))
    yield


_EDITS: dict[str, tuple[Obj, ...]] = {
    "Deployment": (
        {"spec": {"replicas": 0}},
        {"spec": {"minReadySeconds": 7}},
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}},
        {"metadata": {"labels": {names.WORKLOAD_UID_LABEL: None}}},
    ),
    "Job": (
        {"spec": {"parallelism": 1}},
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}},
    ),
    "Service": (
        {"spec": {"sessionAffinity": "ClientIP"}},
        {"metadata": {"labels": {names.FLEET_LABEL: None}}},
    ),
    "PinterestService": (
        {"spec": {"replicas": 0}},
        {"spec": {"slice": {"originGeneration": 1}}},
        {"metadata": {"labels": {names.WORKLOAD_UID_LABEL: None}}},
        {"metadata": {"labels": {names.FLEET_LABEL: None}}},
    ),
    "PinterestJobSet": (
        {"spec": {"parallelism": 1}},
        {"metadata": {"labels": {names.WORKLOAD_UID_LABEL: None}}},
    ),
}
"""What is changed by hand, by kind: fields that are ours, as merge patches."""


@contextlib.asynccontextmanager
async def edited_by_hand(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A person changes fields of ours in a few of our objects in members."""
    for _ in range(3):
        if (chosen := _one_of_ours(stage, rng)) is not None:
            cluster, ref, obj = chosen
            patch = rng.choice(_EDITS[ref.kind])
            stage.say(f"somebody edits {ref.kind} {ref.namespace}/{ref.name} in {cluster}: {patch}")
            with contextlib.suppress(errors.NotFound):
                live = await stage.user(cluster).patch(ref, patch)
                if live["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                    stage.happened("edited-by-hand")
        await asyncio.sleep(rng.uniform(0.5, 4.0))
    yield


@contextlib.asynccontextmanager
async def finalizer_by_hand(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A person puts a finalizer on a slice or a Deployment; the workload is deleted, and the object
    has to stay until the finalizer is taken off again."""
    async with guests.guest(stage, "finalizer-by-hand") as own:
        await guests.until(own.expanded, guests.PLACED_S)
        held: list[tuple[str, ObjectRef]] = []
        for cluster in own.expanded():
            ref = rng.choice((own.ref, own.deployment))
            with contextlib.suppress(errors.NotFound):
                await stage.user(cluster).patch(ref, {"metadata": {"finalizers": [HOLD]}})
                held.append((cluster, ref))
                stage.happened("finalizer-by-hand")
        if rng.random() < 0.5:
            await own.remove()
            await asyncio.sleep(0.5)
            if rng.random() < 0.5:
                await own.create(2)
        try:
            yield
        finally:
            for cluster, ref in held:
                with contextlib.suppress(errors.NotFound):
                    await stage.user(cluster).patch(ref, {"metadata": {"finalizers": None}})


@contextlib.asynccontextmanager
async def namesake_appears(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """An object of others stands where a slice, or a Deployment of ours, has to come; later it
    goes."""
    cluster, plural = (
        rng.choice(list(stage.members)),
        rng.choice(("pinterestservices", "deployments")),
    )
    async with guests.guest(stage, "namesake-appears", made=False) as own:
        await guests.make_namespace(stage, cluster, own.ref.namespace)
        ref = own.ref if plural == "pinterestservices" else own.deployment
        made = await stage.user(cluster).create(ref, _somebodys(ref))
        await own.create(4, placement={"clusters": {"names": [cluster]}})
        try:
            await guests.until(
                lambda: plural != "deployments" or own.slice_in(cluster), guests.PLACED_S
            )
            stage.happened("namesake-appears")
            yield
        finally:
            live = guests.stored(stage.federation.members[cluster], ref)
            if (
                live is None
                or live["metadata"]["uid"] != made["metadata"]["uid"]
                or live["spec"] != made["spec"]
            ):
                raise AssertionError(
                    f"5 ownership: {ref.kind} of somebody else in {cluster} was touched: {live}"
                )
            await guests.drop(stage, cluster, ref)


def _somebodys(ref: ObjectRef) -> dict[str, Any]:
    labels = {"app": "theirs"}
    spec: dict[str, Any] = {
        "replicas": 0,
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "theirs:1"}]},
        },
    }
    if ref.kind == "Deployment":
        spec["selector"] = {"matchLabels": labels}
    else:
        del spec["template"]["metadata"]
    meta = {"name": ref.name, "namespace": ref.namespace}
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": meta, "spec": spec}


@contextlib.asynccontextmanager
async def private_fields(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """The user's object has an owner, a finalizer and a status of its own, and its template too."""
    async with guests.guest(stage, "private-fields", made=False) as own:
        host = stage.user("host")
        owner = ObjectRef("v1", "configmaps", own.ref.namespace, "owner", "ConfigMap")
        with contextlib.suppress(errors.AlreadyExists):
            meta = {"name": "owner", "namespace": own.ref.namespace}
            await host.create(owner, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        uid = (await host.get(owner))["metadata"]["uid"]
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": uid,
            "controller": True,
        }
        private = {"ownerReferences": [reference], "finalizers": [HOLD]}
        template = {
            "metadata": {"labels": {"tier": "guest"}},
            "spec": {"containers": [guests.container()]},
        }
        await own.create(3, private, template=template)
        try:
            await guests.until(own.expanded, guests.PLACED_S)
            if own.holders():
                stage.happened("private-fields")
            yield
        finally:
            with contextlib.suppress(errors.NotFound):
                await own.patch({"metadata": {"finalizers": None}})
            await own.remove()
            await guests.drop(stage, "host", owner)


@contextlib.asynccontextmanager
async def policy_to_and_fro(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A policy goes from A to B and back to A within a second, and the number of copies up and down
    with it."""
    clusters = list(stage.members)
    first, second = {"names": clusters[:1]}, {"names": clusters[1:2]}
    async with guests.guest(stage, "policy-to-and-fro", 3, placement={"clusters": first}) as own:
        await guests.until(own.expanded, guests.PLACED_S)
        for _ in range(rng.randint(1, 4)):
            await own.patch(
                {"spec": {"placement": {"clusters": second}, "replicas": rng.randint(0, 9)}}
            )
            await asyncio.sleep(rng.uniform(0.0, 0.5))
            await own.patch(
                {"spec": {"placement": {"clusters": first}, "replicas": rng.randint(0, 9)}}
            )
            await asyncio.sleep(rng.uniform(0.0, 0.5))
            stage.happened("policy-to-and-fro")
        await own.scale(3)
        yield


ROWS = (
    Episode(
        "rival-writes",
        "F39",
        "our objects in one member",
        "the rival stops after 5 to 40 s",
        rival_controller,
        (5.0, 40.0),
    ),
    Episode(
        "deleted-by-hand",
        "F45",
        "three of our objects in members",
        "nothing is to be healed",
        deleted_by_hand,
        (1.0, 5.0),
    ),
    Episode(
        "edited-by-hand",
        "F45",
        "three of our objects in members",
        "nothing is to be healed",
        edited_by_hand,
        (1.0, 5.0),
    ),
    Episode(
        "finalizer-by-hand",
        "F45",
        "slices or Deployments of a service of its own",
        "the finalizers are taken off after 3 to 30 s",
        finalizer_by_hand,
        (3.0, 30.0),
    ),
    Episode(
        "namesake-appears",
        "F46",
        "a slice or a Deployment to come, in one member",
        "somebody's object goes after 5 to 40 s",
        namesake_appears,
        (5.0, 40.0),
    ),
    Episode(
        "private-fields",
        "F52",
        "a service of its own with an owner, finalizers and a status",
        "it is deleted after 2 to 20 s",
        private_fields,
        (2.0, 20.0),
    ),
    Episode(
        "policy-to-and-fro",
        "F54",
        "a service of its own",
        "ends where it began, after 1 to 15 s",
        policy_to_and_fro,
        (1.0, 15.0),
    ),
)
