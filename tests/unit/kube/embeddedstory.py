"""One story told to an API server through this floor; it must read the same on every transport."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.kube.control.lanes import Lane
from federator.kube.store import Store
from federator.kube.watch.reflector import Reflector
from federator.model.steps import Apply, Create, Delete, EmitEvent, ObjectRef, Patch

REF = ObjectRef("v1", "configmaps", "default", "web", "ConfigMap")


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": data}


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about within 60 s")


async def tell(client: Client, clock: Clock) -> None:
    """Create, apply, patch, refuse, delete; a reflector sees it all."""
    store: Store[dict[str, str]] = Store()
    reflector: Reflector[dict[str, str]] = Reflector(
        client,
        "v1",
        "configmaps",
        store,
        project=lambda obj: obj.get("data"),
        clock=clock,
        rng=random.Random(2),
    )
    key = ("default", "web")
    watching = asyncio.create_task(reflector.run())
    await asyncio.wait_for(store.wait_synced(), 60)
    applier = Applier(client, Lane("m1", clock=clock, rng=random.Random(3)), clock=clock)

    created = await applier.apply(Create(REF, config_map(a="1")))
    assert created.ok, created.error
    assert created.obj is not None
    uid = created.obj["metadata"]["uid"]
    assert isinstance((await applier.apply(Create(REF, config_map()))).error, errors.AlreadyExists)
    await until(lambda: store.get(key) == {"a": "1"})

    applied = await applier.apply(Apply(REF, config_map(a="2", b="3")))
    assert applied.ok, applied.error
    assert applied.obj is not None
    stale = created.obj["metadata"]["resourceVersion"]
    for step in (
        Patch(REF, {"data": {"a": "9"}}, resource_version=stale),
        Patch(REF, {"data": {"a": "9"}}, uid="another"),
        Delete(REF, "another"),
    ):
        assert isinstance((await applier.apply(step)).error, errors.Conflict), step
    assert (await applier.apply(Patch(REF, {"data": {"c": "4"}}, uid=uid))).ok
    await until(lambda: store.get(key) == {"a": "2", "b": "3", "c": "4"})
    assert isinstance((await applier.apply(Patch(REF, {"data": 7}))).error, errors.Invalid)

    told = [await applier.apply(EmitEvent(REF, uid, "Placed", "6 of 6")) for _ in range(2)]
    assert [outcome.error for outcome in told] == [None, None]
    events = (await client.list("events.k8s.io/v1", "events", "default")).items
    # A real server writes Events of its own there.
    (event,) = (one for one in events if one["regarding"]["uid"] == uid)
    assert (event["note"], event["series"]["count"]) == ("6 of 6", 2)

    assert (await applier.apply(Delete(REF, uid))).ok
    assert (await applier.apply(Delete(REF, uid))).ok
    await until(lambda: key not in store)
    with pytest.raises(errors.NotFound):
        await client.get(REF)
    assert not reflector.watch_failing
    assert not reflector.troubles
    watching.cancel()
    await asyncio.wait([watching])


async def ask(client: Client) -> None:
    """What is asked of a cluster when it joins, and lists in pages."""
    await client.ready()
    assert (await client.version())["gitVersion"].startswith("v1.")
    assert len(await client.kube_system_uid()) == 36
    found = {(one.api_version, one.plural): one for one in await client.discover()}
    assert found["apps/v1", "deployments"].namespaced
    assert not found["v1", "nodes"].namespaced
    with pytest.raises(errors.NotFound):
        await client.list("no.such.group/v1", "things")
    for number in range(7):
        await client.create(
            ObjectRef("v1", "configmaps", "default", f"page-{number}", "ConfigMap"),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"page-{number}", "labels": {"page": "yes"}},
            },
        )
    listed = await client.list("v1", "configmaps", "default", label_selector="page=yes", limit=3)
    assert [item["metadata"]["name"] for item in listed.items] == [
        f"page-{number}" for number in range(7)
    ]
    assert listed.items[0]["kind"] == "ConfigMap"
