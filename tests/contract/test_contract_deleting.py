"""Finalizers, graceful deletion and namespaces that end."""

from tests.contract.speaking import Speaker

FINALIZER = "contract.example/hold"


async def test_a_finalizer_holds_a_deleted_object(api: Speaker) -> None:
    await api.configmap("a", finalizers=[FINALIZER], data={"k": "1"})
    held = (await api.delete(api.url("configmaps", "a"))).object()
    assert held["kind"] == "ConfigMap"
    assert held["metadata"]["deletionTimestamp"].endswith("Z")
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    again = (await api.delete(api.url("configmaps", "a"))).object()
    assert again["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]
    last = (
        await api.patch(api.url("configmaps", "a"), {"metadata": {"finalizers": None}})
    ).object()
    assert last["data"] == {"k": "1"}
    assert (await api.get(api.url("configmaps", "a"))).status == 404


async def test_an_object_that_is_being_deleted_gets_no_new_finalizers(api: Speaker) -> None:
    await api.configmap("a", finalizers=[FINALIZER])
    await api.delete(api.url("configmaps", "a"))
    answer = await api.patch(
        api.url("configmaps", "a"), {"metadata": {"finalizers": [FINALIZER, "contract.example/b"]}}
    )
    answer.refused(
        422,
        "Invalid",
        'ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be '
        "added if the object is "
        'being deleted, found new finalizers []string{"contract.example/b"}',
    )
    changed = (await api.patch(api.url("configmaps", "a"), {"data": {"k": "2"}})).object()
    assert changed["data"] == {"k": "2"}
    await api.patch(api.url("configmaps", "a"), {"metadata": {"finalizers": []}})


async def test_deletion_marks_of_a_client_are_ignored(api: Speaker) -> None:
    body = {
        "metadata": {
            "name": "a",
            "deletionTimestamp": "2020-01-01T00:00:00Z",
            "finalizers": [FINALIZER],
        }
    }
    made = (await api.post(api.url("configmaps"), body)).object(201)
    assert "deletionTimestamp" not in made["metadata"]
    await api.patch(api.url("configmaps", "a"), {"metadata": {"finalizers": None}})


async def test_a_finalizer_must_be_qualified(api: Speaker) -> None:
    answer = await api.post(
        api.url("configmaps"), {"metadata": {"name": "a", "finalizers": ["plain"]}}
    )
    answer.refused(
        422,
        "Invalid",
        'ConfigMap "a" is invalid: metadata.finalizers[0]: Invalid value: "plain": name is '
        "neither a standard "
        "finalizer name nor is it fully qualified",
    )


async def test_foreground_deletion_waits_with_a_finalizer(api: Speaker) -> None:
    await api.configmap("a")
    held = (
        await api.delete(api.url("configmaps", "a"), {"propagationPolicy": "Foreground"})
    ).object()
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in held["metadata"]


async def test_orphaning_deletion_waits_with_a_finalizer(api: Speaker) -> None:
    await api.configmap("a")
    held = (await api.delete(api.url("configmaps", "a"), {"propagationPolicy": "Orphan"})).object()
    assert held["metadata"]["finalizers"] == ["orphan"]


async def test_an_unknown_propagation_is_refused(api: Speaker) -> None:
    await api.configmap("a")
    answer = await api.delete(api.url("configmaps", "a"), {"propagationPolicy": "Nope"})
    answer.refused(
        422,
        "Invalid",
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Nope": '
        'supported values: "Foreground", "Background", "Orphan", "nil"',
    )


async def test_a_bound_pod_goes_gracefully_and_can_be_forced(api: Speaker) -> None:
    spec = {"nodeName": "nowhere", "containers": [{"name": "app", "image": "busybox"}]}
    (await api.post(api.url("pods"), {"metadata": {"name": "p"}, "spec": spec})).object(201)
    going = (await api.delete(api.url("pods", "p"))).object()
    assert going["kind"] == "Pod"
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await api.get(api.url("pods", "p"))).status == 200
    (await api.delete(api.url("pods", "p"), {"gracePeriodSeconds": 0})).object()
    assert (await api.get(api.url("pods", "p"))).status == 404


async def test_the_time_of_a_deletion_under_way_can_only_be_shortened(api: Speaker) -> None:
    spec = {"nodeName": "nowhere", "containers": [{"name": "app", "image": "busybox"}]}
    (await api.post(api.url("pods"), {"metadata": {"name": "p"}, "spec": spec})).object(201)
    path = api.url("pods", "p")
    going = (await api.delete(path)).object()["metadata"]
    longer = (
        await api.delete(path, {"gracePeriodSeconds": 60, "propagationPolicy": "Orphan"})
    ).object()["metadata"]
    assert longer == going
    shorter = (await api.delete(path, {"gracePeriodSeconds": 5})).object()["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["deletionTimestamp"] < going["deletionTimestamp"]
    gone = (await api.delete(path, {"gracePeriodSeconds": 0})).object()["metadata"]
    assert gone["deletionGracePeriodSeconds"] == 0
    assert (await api.get(path)).status == 404


async def test_a_forced_deletion_is_seen_in_two_steps(api: Speaker) -> None:
    spec = {"nodeName": "nowhere", "containers": [{"name": "app", "image": "busybox"}]}
    made = (await api.post(api.url("pods"), {"metadata": {"name": "p"}, "spec": spec})).object(201)
    version = made["metadata"]["resourceVersion"]
    await api.delete(api.url("pods", "p"))
    await api.delete(api.url("pods", "p"), {"gracePeriodSeconds": 0})
    async with api.watching(api.url("pods"), resourceVersion=version) as watch:
        seen = [await watch.next() for _ in range(3)]
    assert [
        (each["type"], each["object"]["metadata"]["deletionGracePeriodSeconds"])
        for each in seen
        if each
    ] == [
        ("MODIFIED", 30),
        ("MODIFIED", 0),
        ("DELETED", 0),
    ]


async def test_a_namespace_that_ends_takes_no_further_wishes(api: Speaker) -> None:
    path = "/api/v1/namespaces/" + api.namespace
    first = (await api.delete(path)).object()["metadata"]
    again = (await api.delete(path, {"propagationPolicy": "Orphan"})).object()["metadata"]
    assert "finalizers" not in first
    assert again == first


async def test_a_pod_that_was_never_bound_goes_at_once(api: Speaker) -> None:
    spec = {"schedulerName": "nobody", "containers": [{"name": "app", "image": "busybox"}]}
    (await api.post(api.url("pods"), {"metadata": {"name": "p"}, "spec": spec})).object(201)
    (await api.delete(api.url("pods", "p"))).object()
    assert (await api.get(api.url("pods", "p"))).status == 404


async def test_a_terminating_namespace_takes_no_new_objects(api: Speaker) -> None:
    await api.configmap("holds", finalizers=[FINALIZER])
    path = f"/api/v1/namespaces/{api.namespace}"
    active = (await api.get(path)).object()
    assert (active["status"], active["spec"]) == (
        {"phase": "Active"},
        {"finalizers": ["kubernetes"]},
    )
    assert active["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}
    ending = (await api.delete(path)).object()
    assert ending["status"]["phase"] == "Terminating"
    answer = await api.post(api.url("configmaps"), {"metadata": {"name": "late"}})
    answer.refused(
        403,
        "Forbidden",
        'configmaps "late" is forbidden: unable to create new content in namespace '
        f"{api.namespace} because it is being terminated",
    )
    assert answer.causes() == [
        (
            "NamespaceTerminating",
            "metadata.namespace",
            f"namespace {api.namespace} is being terminated",
        )
    ]
    await api.patch(api.url("configmaps", "holds"), {"metadata": {"finalizers": None}})


async def test_the_default_namespace_stays(api: Speaker) -> None:
    answer = await api.delete("/api/v1/namespaces/default")
    answer.refused(
        403, "Forbidden", 'namespaces "default" is forbidden: this namespace may not be deleted'
    )


async def test_a_namespace_is_named_like_a_label(api: Speaker) -> None:
    answer = await api.post("/api/v1/namespaces", {"metadata": {"name": "Bad"}})
    assert answer.json["message"].startswith(
        'Namespace "Bad" is invalid: metadata.name: Invalid value: "Bad": a lowercase RFC '
        "1123 label must consist of"
    )
