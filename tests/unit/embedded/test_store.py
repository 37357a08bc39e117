"""What the store promises: versions, identity, generations, deletion in two steps, and a history
that ends.
"""

import asyncio

import pytest

from federator.embedded.storage.refusals import Refusal
from federator.embedded.storage.revisions import ADDED, DELETED, MODIFIED, Event
from tests.unit.embedded.inprocess import (
    CONFIGMAPS,
    DEPLOYMENTS,
    PODS,
    configmap,
    on_virtual_time,
    store,
)


def deployment(wanted: int, **status: int) -> dict[str, object]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": wanted},
        "status": status,
    }


@on_virtual_time
async def test_every_write_gets_the_next_version_of_one_counter() -> None:
    shelf = store()
    first = shelf.create(CONFIGMAPS, configmap("a"))
    second = shelf.create(DEPLOYMENTS, deployment(1))
    third = shelf.update(CONFIGMAPS, configmap("a", data={"k": "v"}))
    assert [r.number for r in (first, second, third)] == [
        first.number,
        first.number + 1,
        first.number + 2,
    ]
    assert third.obj["metadata"]["resourceVersion"] == str(third.number)


@on_virtual_time
async def test_identity_survives_updates_that_lie_about_it() -> None:
    shelf = store()
    made = shelf.create(CONFIGMAPS, configmap("a")).obj["metadata"]
    await asyncio.sleep(10)
    lie = configmap(
        "a", metadata={"uid": "x", "creationTimestamp": "2000-01-01T00:00:00Z"}, data={"k": "v"}
    )
    after = shelf.update(CONFIGMAPS, lie).obj["metadata"]
    assert (after["uid"], after["creationTimestamp"]) == (made["uid"], made["creationTimestamp"])


@on_virtual_time
async def test_an_equal_object_writes_nothing() -> None:
    shelf = store()
    made = shelf.create(CONFIGMAPS, configmap("a", data={"k": "v"}))
    assert shelf.update(CONFIGMAPS, configmap("a", data={"k": "v"})) is made
    assert shelf.revision == made.number


@on_virtual_time
async def test_a_stored_object_never_changes() -> None:
    shelf = store()
    made = shelf.create(CONFIGMAPS, configmap("a", data={"k": "1"}))
    before = made.encoded()
    shelf.update(CONFIGMAPS, configmap("a", data={"k": "2"}))
    shelf.delete(CONFIGMAPS, "default", "a")
    assert made.obj["data"] == {"k": "1"}
    assert made.encoded() is before


@on_virtual_time
async def test_generation_counts_what_people_ask_for_and_not_status() -> None:
    shelf = store()
    shelf.create(DEPLOYMENTS, deployment(1))
    assert shelf.update(DEPLOYMENTS, deployment(1, replicas=1)).obj["metadata"]["generation"] == 1
    assert shelf.update(DEPLOYMENTS, deployment(2, replicas=1)).obj["metadata"]["generation"] == 2
    assert "generation" not in shelf.create(CONFIGMAPS, configmap("a")).obj["metadata"]


@on_virtual_time
async def test_a_stale_version_is_a_conflict() -> None:
    shelf = store()
    old = shelf.create(CONFIGMAPS, configmap("a")).obj["metadata"]["resourceVersion"]
    shelf.update(CONFIGMAPS, configmap("a", data={"k": "v"}), expect=old)
    with pytest.raises(Refusal, match="the object has been modified") as refused:
        shelf.update(CONFIGMAPS, configmap("a", data={"k": "w"}), expect=old)
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")


@on_virtual_time
async def test_a_finalizer_holds_a_deleted_object_until_it_is_removed() -> None:
    shelf = store()
    shelf.create(CONFIGMAPS, configmap("a", metadata={"finalizers": ["x.example/hold"]}))
    seen: list[Event] = []
    shelf.subscribe(CONFIGMAPS, seen.append)
    marked, gone = shelf.delete(CONFIGMAPS, "default", "a")
    assert (gone, marked.obj["metadata"]["deletionGracePeriodSeconds"]) == (False, 0)
    again, gone = shelf.delete(CONFIGMAPS, "default", "a")
    assert (again.number, gone) == (marked.number, False)
    answered = shelf.update(CONFIGMAPS, configmap("a"))
    assert "finalizers" not in answered.obj["metadata"]
    assert shelf.get(CONFIGMAPS, "default", "a") is None
    assert [event.type for event in seen] == [MODIFIED, DELETED]
    assert seen[-1].current.obj["metadata"]["finalizers"] == ["x.example/hold"]
    assert seen[-1].number > marked.number


@on_virtual_time
async def test_a_grace_period_marks_first_and_only_gets_shorter() -> None:
    shelf = store()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {},
    }
    shelf.create(PODS, pod)
    marked, gone = shelf.delete(PODS, "default", "p", grace_s=30)
    assert (gone, marked.obj["metadata"]["deletionTimestamp"]) == (False, "2023-11-14T22:13:50Z")
    longer, _ = shelf.delete(PODS, "default", "p", grace_s=60)
    assert longer is marked or longer.number == marked.number
    _, gone = shelf.delete(PODS, "default", "p", grace_s=0)
    assert gone


@on_virtual_time
async def test_deletes_check_their_preconditions() -> None:
    shelf = store()
    made = shelf.create(CONFIGMAPS, configmap("a")).obj["metadata"]
    with pytest.raises(Refusal, match=r"the UID in the precondition \(other\) does not match"):
        shelf.delete(CONFIGMAPS, "default", "a", uid="other")
    with pytest.raises(
        Refusal, match=r"the ResourceVersion in the precondition \(1\) does not match"
    ):
        shelf.delete(CONFIGMAPS, "default", "a", expect="1")
    assert shelf.delete(
        CONFIGMAPS, "default", "a", uid=made["uid"], expect=made["resourceVersion"]
    )[1]


@on_virtual_time
async def test_subscribers_resume_from_a_version_without_loss_or_repetition() -> None:
    shelf = store()
    start = shelf.revision
    for name in ("a", "b"):
        shelf.create(CONFIGMAPS, configmap(name))
    seen: list[tuple[str, str]] = []
    shelf.subscribe(
        CONFIGMAPS, lambda event: seen.append((event.type, event.key[1])), after=start + 1
    )
    shelf.delete(CONFIGMAPS, "default", "a")
    assert seen == [(ADDED, "b"), (DELETED, "a")]


@on_virtual_time
async def test_a_closed_subscription_hears_nothing_more() -> None:
    shelf = store()
    seen: list[Event] = []
    first, second = shelf.subscribe(CONFIGMAPS, seen.append), shelf.subscribe_all(seen.append)
    first.close()
    first.close()
    shelf.create(CONFIGMAPS, configmap("a"))
    assert len(seen) == 1
    second.close()
    shelf.create(CONFIGMAPS, configmap("b"))
    assert len(seen) == 1


@on_virtual_time
async def test_history_is_bounded_and_what_is_older_has_expired() -> None:
    shelf = store(history=10)
    start = shelf.revision
    for number in range(50):
        shelf.create(CONFIGMAPS, configmap(f"c{number:02}"))
    with pytest.raises(Refusal, match="too old resource version") as refused:
        shelf.subscribe(CONFIGMAPS, lambda _: None, after=start)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    seen: list[Event] = []
    shelf.subscribe(CONFIGMAPS, seen.append, after=shelf.revision - 10)
    assert len(seen) == 10


@on_virtual_time
async def test_compaction_forgets_everything_before_now() -> None:
    shelf = store()
    before = shelf.revision
    shelf.create(CONFIGMAPS, configmap("a"))
    shelf.compact()
    with pytest.raises(Refusal, match="too old"):
        shelf.subscribe(CONFIGMAPS, lambda _: None, after=before)
    shelf.subscribe(CONFIGMAPS, lambda _: None, after=shelf.revision)


@on_virtual_time
async def test_the_past_can_be_listed_as_it_was() -> None:
    shelf = store()
    for name in ("a", "b", "c"):
        shelf.create(CONFIGMAPS, configmap(name, data={"v": "1"}))
    then = shelf.revision
    shelf.update(CONFIGMAPS, configmap("b", data={"v": "2"}))
    shelf.delete(CONFIGMAPS, "default", "a")
    shelf.create(CONFIGMAPS, configmap("d", "other"))
    past = shelf.items_at(CONFIGMAPS, None, then)
    assert [(item.key[1], item.obj["data"]["v"]) for item in past] == [
        ("a", "1"),
        ("b", "1"),
        ("c", "1"),
    ]
    assert [item.key[1] for item in shelf.items(CONFIGMAPS)] == ["b", "c", "d"]


@on_virtual_time
async def test_dry_runs_leave_no_trace() -> None:
    shelf = store()
    shelf.create(CONFIGMAPS, configmap("a"))
    before = shelf.revision
    assert (
        "resourceVersion"
        not in shelf.create(CONFIGMAPS, configmap("b"), dry_run=True).obj["metadata"]
    )
    assert shelf.update(CONFIGMAPS, configmap("a", data={"k": "v"}), dry_run=True).obj["data"] == {
        "k": "v"
    }
    assert shelf.delete(CONFIGMAPS, "default", "a", dry_run=True)[1]
    assert shelf.revision == before
    assert [item.key[1] for item in shelf.items(CONFIGMAPS)] == ["a"]


@on_virtual_time
async def test_equal_seeds_make_equal_worlds() -> None:
    first, second = store(), store()
    for shelf in (first, second):
        shelf.create(CONFIGMAPS, configmap("a"))
        shelf.create(CONFIGMAPS, configmap("b"))
    assert [item.encoded() for item in first.items(CONFIGMAPS)] == [
        item.encoded() for item in second.items(CONFIGMAPS)
    ]
