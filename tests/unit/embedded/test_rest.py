"""REST behaviour the contract suite does not reach: permission, counting, chunks over time,
definitions going away.
"""

import asyncio
import re

import pytest

from federator.embedded.controllers import NodePool
from tests.contract.bodies import deployment
from tests.contract.crds import install_widgets
from tests.contract.speaking import TABLE
from tests.unit.embedded.inprocess import (
    CONFIGMAPS,
    PODS,
    cluster,
    configmap,
    on_virtual_time,
    speaker,
)


@on_virtual_time
async def test_chunks_show_one_version_while_the_world_moves_on() -> None:
    made = cluster()
    api = speaker(made)
    for number in range(5):
        made.store.create(CONFIGMAPS, configmap(f"c{number}"))
    first = (await api.get(api.url("configmaps"), limit=2)).object()
    assert first["metadata"]["remainingItemCount"] == 3
    made.store.delete(CONFIGMAPS, "default", "c3")
    made.store.create(CONFIGMAPS, configmap("c2x"))
    rest = (
        await api.get(api.url("configmaps"), limit=9, **{"continue": first["metadata"]["continue"]})
    ).object()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c2", "c3", "c4"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    made.store.compact()
    late = await api.get(
        api.url("configmaps"), limit=2, **{"continue": first["metadata"]["continue"]}
    )
    assert (late.status, late.json["reason"]) == (410, "Expired")


@on_virtual_time
async def test_items_of_builtin_lists_leave_out_their_kind() -> None:
    made = cluster()
    made.store.create(CONFIGMAPS, configmap("a"))
    api = speaker(made)
    listed = (await api.get(api.url("configmaps"))).object()
    assert list(listed["items"][0]) == ["metadata"]
    assert (await api.get(api.url("configmaps", "a"))).object()["kind"] == "ConfigMap"


@on_virtual_time
async def test_a_pod_that_may_run_is_given_its_grace_and_others_go_at_once() -> None:
    made = cluster()
    api = speaker(made)
    for name, node, phase in (
        ("idle", "", "Pending"),
        ("busy", "n1", "Running"),
        ("done", "n1", "Succeeded"),
    ):
        spec = {"nodeName": node, "terminationGracePeriodSeconds": 30} if node else {}
        metadata = {"name": name, "namespace": "default"}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": phase},
        }
        made.store.create(PODS, body)
    for name in ("idle", "busy", "done"):
        assert (await api.delete(api.url("pods", name))).object()["kind"] == "Pod"
    (left,) = made.store.items(PODS)
    assert (left.key[1], left.obj["metadata"]["deletionGracePeriodSeconds"]) == ("busy", 30)
    await api.delete(api.url("pods", "busy"), {"gracePeriodSeconds": 0})
    assert made.store.count(PODS) == 0


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [
        ("Orphan", ["x.example/hold", "orphan"]),
        ("Foreground", ["x.example/hold", "foregroundDeletion"]),
    ],
)
@on_virtual_time
async def test_propagation_becomes_a_finalizer(policy: str, finalizers: list[str]) -> None:
    made = cluster()
    made.store.create(CONFIGMAPS, configmap("a", metadata={"finalizers": ["x.example/hold"]}))
    api = speaker(made)
    marked = (await api.delete(api.url("configmaps", "a"), {"propagationPolicy": policy})).object()
    assert marked["metadata"]["finalizers"] == finalizers
    again = (
        await api.delete(api.url("configmaps", "a"), {"propagationPolicy": "Background"})
    ).object()
    assert again["metadata"]["finalizers"] == ["x.example/hold"]


@on_virtual_time
async def test_requests_are_counted_by_verb_and_resource() -> None:
    made = cluster()
    api = speaker(made)
    await api.configmap("a")
    await api.patch(api.url("configmaps", "a"), {"data": {"k": "v"}})
    await api.get("/version")
    await api.patch(api.url("configmaps", "a"), {"data": {"k": "w"}}, dryRun="All")
    assert made.api.requests[("dry-run patch", "configmaps")] == 1
    assert made.api.requests[("create", "configmaps")] == 1
    assert made.api.requests[("patch", "configmaps")] == 1
    assert made.api.requests[("get", "other")] == 1


@on_virtual_time
async def test_deleting_a_definition_deletes_its_objects_first() -> None:
    made = cluster()
    api = speaker(made)
    await install_widgets(api)
    metadata = {"name": "held", "finalizers": ["x.example/hold"]}
    body = {
        "apiVersion": "contract.example/v1",
        "kind": "Widget",
        "metadata": metadata,
        "spec": {"color": "red"},
    }
    (await api.post(api.url("widgets"), body)).object(201)
    crd = next(item.key[1] for item in made.store.items(made.registry.crd))
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}"
    await api.delete(path)
    await asyncio.sleep(1)
    held = (await api.get(api.url("widgets", "held"))).object()
    assert "deletionTimestamp" in held["metadata"]
    assert (await api.get(path)).status == 200
    await api.patch(api.url("widgets", "held"), {"metadata": {"finalizers": None}})
    await asyncio.sleep(1)
    assert (await api.get(path)).status == 404
    gone = await api.get(api.url("widgets"))
    assert (gone.status, gone.body) == (404, b"404 page not found\n")


@on_virtual_time
async def test_services_get_addresses_in_order_and_give_them_back() -> None:
    api = speaker()
    addresses = []
    for name in ("a", "b"):
        spec = {"type": "NodePort", "ports": [{"port": 80}]}
        made = (
            await api.post(api.url("services"), {"metadata": {"name": name}, "spec": spec})
        ).object(201)
        addresses.append((made["spec"]["clusterIP"], made["spec"]["ports"][0]["nodePort"]))
    assert addresses == [("10.96.0.10", 30000), ("10.96.0.11", 30001)]
    taken = await api.post(
        api.url("services"),
        {"metadata": {"name": "c"}, "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 80}]}},
    )
    assert (taken.status, taken.json["details"]["causes"][0]["field"]) == (422, "spec.clusterIPs")
    await api.delete(api.url("services", "a"))
    again = {
        "metadata": {"name": "c"},
        "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 80}]},
    }
    (await api.post(api.url("services"), again)).object(201)


@on_virtual_time
async def test_wide_columns_and_whole_objects_come_with_a_table() -> None:
    made = cluster()
    made.store.create(CONFIGMAPS, configmap("a", data={"k": "v", "l": "w"}))
    api = speaker(made)
    table = (await api.get(api.url("configmaps"), accept=TABLE, includeObject="Object")).object()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["rows"][0]["cells"] == ["a", 2, "0s"]
    assert table["rows"][0]["object"]["data"] == {"k": "v", "l": "w"}
    bare = (await api.get(api.url("configmaps"), accept=TABLE, includeObject="None")).object()
    assert bare["rows"][0]["object"] is None


@on_virtual_time
async def test_yaml_is_read_and_its_bombs_are_not() -> None:
    api = speaker()
    plain = b"metadata: {name: a}\ndata: {k: '2001-01-01', on: 'yes', 7: x}\n"
    made = (await api.post(api.url("configmaps"), plain, content_type="application/yaml")).object(
        201
    )
    assert made["data"] == {"k": "2001-01-01", "true": "yes", "7": "x"}
    layers = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12))
    bomb = f"l0: &l0 [x]\n{layers}\n".encode()
    refused = await api.post(api.url("configmaps"), bomb, content_type="application/yaml")
    assert (refused.status, "excessive aliasing" in refused.json["message"]) == (400, True)


@on_virtual_time
async def test_nesting_without_end_is_a_bad_request() -> None:
    api = speaker()
    deep = b'{"metadata":{"name":"a"},"data":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}"
    assert (await api.post(api.url("configmaps"), deep)).status == 400


@on_virtual_time
async def test_equal_seeds_make_equal_histories() -> None:
    async def history() -> list[tuple[str, bytes]]:
        made = cluster(controllers=True, nodes=[NodePool(count=2)])
        seen: list[tuple[str, bytes]] = []
        made.store.subscribe_all(lambda event: seen.append((event.type, event.current.encoded())))
        assert made.controllers is not None
        running = asyncio.create_task(made.controllers.run())
        api = speaker(made)
        (await api.post(api.url("deployments"), deployment())).object(201)
        await asyncio.sleep(60)
        await api.delete(api.url("deployments", "web"), {"propagationPolicy": "Foreground"})
        await asyncio.sleep(60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return seen

    first = await history()
    assert len(first) > 20

    def without_times(events: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        # The second world begins two minutes later on the same clock.
        return [
            (type_, re.sub(rb"\d{4}-\d\d-\d\dT[\d:.]+Z", b"TIME", body)) for type_, body in events
        ]

    assert without_times(await history()) == without_times(first)
