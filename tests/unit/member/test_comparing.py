"""What one slice's natives need next: applies, removals, conflicts, fights. Nothing is sent."""

from collections.abc import Iterable
from typing import Any

import pytest

from federator.kinds import labels
from federator.kinds.labels import AUTOSCALED_ANNOTATION, MADE_OF_ANNOTATION
from federator.member.cache import rows
from federator.member.cache.rows import NativeRow
from federator.member.expansion import comparing
from federator.member.expansion.comparing import Plan, Scene, Verdicts
from federator.member.options import FIELD_MANAGER, MemberOptions
from federator.model import names
from federator.model.steps import Apply, Create, Delete, Patch

OWNER = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "PinterestService",
    "name": "web",
    "uid": "slice-1",
}
OPTIONS = MemberOptions()


def native(
    kind: str, name: str, spec: dict[str, Any], *, owner: str | None = "slice-1", **meta: Any
) -> dict[str, Any]:
    api_version = {"Deployment": "apps/v1", "Job": "batch/v1"}.get(kind, "v1")
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "feed",
        "labels": {"app.kubernetes.io/managed-by": "federator"},
        **meta,
    }
    if owner is not None:
        metadata["ownerReferences"] = [
            {**OWNER, "uid": owner, "controller": True, "blockOwnerDeletion": True}
        ]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def live(body: dict[str, Any], version: str = "7", **more: Any) -> NativeRow:
    """The row of an object as a server would hold it: with a uid, defaults and a status."""
    stored = {**body, "spec": {"defaulted": True, **body["spec"]}, **more}
    stored["metadata"] = {
        **body["metadata"],
        "uid": f"uid-{body['metadata']['name']}",
        "resourceVersion": version,
    }
    return rows.native_row(body["kind"], stored)


def planned(
    wanted: list[dict[str, Any]],
    there: Iterable[NativeRow],
    *,
    verdicts: Verdicts | None = None,
    now_s: float = 0.0,
    removable: bool = True,
) -> Plan:
    known = {row.key: row for row in there}
    owned = [row for row in known.values() if row.owner_uid == "slice-1"]
    scene = Scene(
        "slice-1",
        known.get,
        verdicts or Verdicts(OPTIONS),
        now_s,
        lambda uid: uid == "another-slice",
        lambda _: removable,
    )
    return comparing.plan(wanted, owned, scene)


def test_what_is_missing_is_created() -> None:
    body = native("Deployment", "web", {"replicas": 3})
    step = planned([body], []).work[0].step
    assert isinstance(step, Create)
    assert step.body["spec"] == body["spec"]
    assert step.body["metadata"]["annotations"] == {MADE_OF_ANNOTATION: rows.digest(body)}


def test_what_depends_on_its_own_state_is_applied_from_the_start_without_force() -> None:
    scaled = native("Deployment", "web", {"replicas": 3})
    scaled["metadata"]["annotations"] = {AUTOSCALED_ANNOTATION: "3-30"}
    for body in (scaled, native("CronJob", "nightly", {"suspend": True})):
        step = planned([body], []).work[0].step
        assert isinstance(step, Apply)
        assert not step.force


@pytest.mark.parametrize(
    ("part", "items", "repeated"),
    [
        ("env", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], True),
        ("env", [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}], False),
        ("ports", [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}], True),
        ("ports", [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}], False),
    ],
)
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_what_names_a_list_item_twice_is_applied_so_that_the_server_refuses_it(
    kind: str, containers: str, part: str, items: list[dict[str, Any]], repeated: bool
) -> None:
    pod = {containers: [{"name": "app", part: items}]}
    body = native(kind, "web", {"template": {"spec": pod}})
    step = planned([body], []).work[0].step
    assert isinstance(step, Apply if repeated else Create)


@pytest.mark.parametrize(
    ("part", "items"),
    [
        ("imagePullSecrets", [{"name": "registry"}] * 2),
        ("hostAliases", [{"ip": "10.0.0.1", "hostnames": [name]} for name in "ab"]),
    ],
)
def test_what_names_an_item_of_its_pods_twice_is_applied(
    part: str, items: list[dict[str, Any]]
) -> None:
    body = native("Deployment", "web", {"template": {"spec": {part: items}}})
    assert isinstance(planned([body], []).work[0].step, Apply)


def test_what_was_created_from_another_wish_is_handed_over_and_applied() -> None:
    before = native("Deployment", "web", {"replicas": 3, "paused": True})
    body = native("Deployment", "web", {"replicas": 3})
    entry = {"manager": FIELD_MANAGER, "operation": "Update", "fieldsV1": {"f:spec": {}}}
    for made_of, wished, works in ((body, body, 0), (before, body, 1)):
        stored = {
            **wished,
            "metadata": {
                **wished["metadata"],
                "annotations": {MADE_OF_ANNOTATION: rows.digest(made_of)},
                "managedFields": [entry],
            },
        }
        row = live(stored)
        plan = planned([wished], [row])
        assert [(work.hands_over, type(work.step)) for work in plan.work] == [(True, Apply)] * works
        uids = [work.step.uid for work in plan.work if isinstance(work.step, Apply)]
        assert uids == [row.uid] * works


def test_an_object_with_our_values_and_others_defaults_is_left_alone() -> None:
    body = native("Deployment", "web", {"replicas": 3})
    plan = planned([body], [live(body)])
    assert (plan.work, plan.conflicts) == ([], [])


def test_drift_is_repaired_with_force() -> None:
    body = native("Deployment", "web", {"replicas": 3})
    drifted = live(native("Deployment", "web", {"replicas": 5}))
    step = planned([body], [drifted]).work[0].step
    assert isinstance(step, Apply)
    assert step.force


@pytest.mark.parametrize(("ours", "version"), [(True, "7"), (False, "")])
def test_a_count_that_an_autoscaler_may_have_changed_is_written_by_version(
    ours: bool, version: str
) -> None:
    """Until we hear that it chose one, the count is our own, and is written with the rest."""
    bounds: dict[str, Any] = {"annotations": {labels.AUTOSCALED_ANNOTATION: "2-9"}}
    fields: dict[str, Any] = {"f:spec": {"f:replicas": {}} if ours else {"f:selector": {}}}
    entry = {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    there = native("Deployment", "web", {"replicas": 4}, **bounds, managedFields=[entry])
    body = native("Deployment", "web", {"replicas": 2, "minReadySeconds": 5}, **bounds)

    step = planned([body], [live(there)]).work[0].step

    assert isinstance(step, Apply)
    assert step.body["spec"].get("replicas") == (4 if ours else None)
    assert step.resource_version == version


def test_a_count_that_an_autoscaler_chooses_is_not_written_anew_before_the_first_is_heard_of() -> (
    None
):
    """The slice has changed between our first write and the event of it."""
    bounds: dict[str, Any] = {"annotations": {labels.AUTOSCALED_ANNOTATION: "1-9"}}
    first = native("Deployment", "web", {"replicas": 2}, **bounds)
    second = native("Deployment", "web", {"replicas": 1}, **bounds)
    verdicts, key = Verdicts(OPTIONS), ("Deployment", "feed", "web")
    work = planned([first], [], verdicts=verdicts).work[0]
    made = {**first, "metadata": {**first["metadata"], "uid": "uid-web", "resourceVersion": "7"}}
    verdicts.answered(work, made, 10.0)

    early = planned([second], [], verdicts=verdicts, now_s=11.0)
    assert (early.work, early.unseen) == ([], [key])
    late = planned([second], [], verdicts=verdicts, now_s=10.0 + comparing.SHOWN_WITHIN_S)

    assert [each.body["spec"]["replicas"] for each in late.work] == [1]


def test_once_compared_an_unchanged_object_needs_no_bytes_and_no_second_look() -> None:
    body = native("Deployment", "web", {"replicas": 3})
    verdicts, row = Verdicts(OPTIONS), live(body)
    planned([body], [row], verdicts=verdicts)
    assert row.document is None
    assert planned([body], [row], verdicts=verdicts).work == []
    changed = native("Deployment", "web", {"replicas": 4})
    assert len(planned([changed], [row], verdicts=verdicts).work) == 1


def test_a_foreign_object_of_our_name_is_a_conflict_and_not_touched() -> None:
    body = native("Service", "web", {"type": "ClusterIP"})
    for owner in (None, "another-slice"):
        plan = planned([body], [live(native("Service", "web", {"type": "NodePort"}, owner=owner))])
        assert (plan.work, plan.conflicts) == ([], [("Service", "feed", "web")])


def test_what_we_made_for_this_workload_and_lost_its_owner_is_ours_again() -> None:
    meta: dict[str, Any] = {
        "labels": {
            "app.kubernetes.io/managed-by": "federator",
            names.WORKLOAD_UID_LABEL: "workload-1",
        }
    }
    for kind, spec in (("Deployment", {"replicas": 3}), ("Job", {"parallelism": 3})):
        body = native(kind, "web", spec, **meta)
        plan = planned([body], [live(native(kind, "web", spec, owner=None, **meta))])
        assert (len(plan.work), plan.conflicts) == (1, [])
        step = plan.work[0].step
        written = step.body if isinstance(step, Apply | Patch) else {}
        assert written["metadata"]["ownerReferences"] == body["metadata"]["ownerReferences"]


def test_what_we_made_for_another_workload_of_the_name_is_not_taken_over() -> None:
    meta: dict[str, Any] = {
        "labels": {
            "app.kubernetes.io/managed-by": "federator",
            names.WORKLOAD_UID_LABEL: "workload-1",
        }
    }
    other: dict[str, Any] = {"labels": {**meta["labels"], names.WORKLOAD_UID_LABEL: "workload-0"}}
    body = native("Service", "web", {"type": "ClusterIP"}, **meta)
    plan = planned(
        [body], [live(native("Service", "web", {"type": "ClusterIP"}, owner=None, **other))]
    )
    assert (plan.work, plan.conflicts) == ([], [("Service", "feed", "web")])


def test_what_an_earlier_slice_of_the_name_left_is_waited_for() -> None:
    body = native("Service", "web", {"type": "ClusterIP"})
    plan = planned([body], [live(native("Service", "web", {}, owner="gone"))])
    assert (plan.conflicts, plan.ending) == ([], [("Service", "feed", "web")])


def test_a_shared_service_account_is_made_once_and_then_left_alone() -> None:
    body = native("ServiceAccount", "robot", {}, owner=None)
    assert len(planned([body], []).work) == 1
    plan = planned([body], [live(native("ServiceAccount", "robot", {"other": 1}, owner=None))])
    assert (plan.work, plan.conflicts) == ([], [])


def test_what_is_not_wanted_any_more_is_removed_by_its_uid() -> None:
    plan = planned([], [live(native("Ingress", "web", {}))])
    step = plan.work[0].step
    assert isinstance(step, Delete)
    assert step.uid == "uid-web"


def test_what_somebody_else_hung_under_the_slice_is_not_removed() -> None:
    assert planned([], [live(native("ConfigMap", "notes", {}, labels={}))]).work == []


def test_a_job_that_has_to_go_is_stopped_first() -> None:
    step = planned([], [live(native("Job", "crunch-0-9", {}))]).work[0].step
    assert isinstance(step, Patch)
    assert step.body == {"spec": {"suspend": True}}


def test_a_stopped_job_is_removed_in_the_state_that_was_looked_at() -> None:
    step = planned([], [live(native("Job", "crunch-0-9", {"suspend": True}))]).work[0].step
    assert isinstance(step, Delete)
    assert (step.uid, step.resource_version) == ("uid-crunch-0-9", "7")


def test_a_job_whose_shards_are_not_recorded_stays() -> None:
    plan = planned([], [live(native("Job", "crunch-0-9", {"suspend": True}))], removable=False)
    assert (plan.work, plan.unrecorded) == ([], [("Job", "feed", "crunch-0-9")])
    assert not plan.quiet


def test_an_object_that_is_being_deleted_is_waited_for() -> None:
    body = native("Deployment", "web", {"replicas": 3})
    plan = planned(
        [body], [live({**body, "metadata": {**body["metadata"], "deletionTimestamp": "t"}})]
    )
    assert (plan.work, plan.ending) == ([], [("Deployment", "feed", "web")])


def test_a_job_keeps_its_template_and_gets_a_new_parallelism() -> None:
    old = native("Job", "crunch-0-9", {"parallelism": 3, "template": {"spec": {"a": 1}}})
    new = native("Job", "crunch-0-9", {"parallelism": 5, "template": {"spec": {"a": 2}}})
    step = planned([new], [live(old)]).work[0].step
    assert isinstance(step, Patch)
    assert step.body == {"spec": {"parallelism": 5}}
    assert step.uid == "uid-crunch-0-9"


def test_an_object_that_does_not_keep_what_is_written_is_left_alone_for_a_while() -> None:
    body = native("Deployment", "web", {"replicas": 3})
    rival = live(native("Deployment", "web", {"replicas": 5}))
    verdicts, writes = Verdicts(OPTIONS), 0
    for second in range(200):
        plan = planned([body], [rival], verdicts=verdicts, now_s=float(second))
        for work in plan.work:
            verdicts.written(work.key, work.want, float(second))
            writes += 1
    assert writes == OPTIONS.futile_writes
    assert plan.stubborn == [("Deployment", "feed", "web")]
    assert planned([body], [rival], verdicts=verdicts, now_s=1000.0).work


def test_drift_now_and_then_is_no_fight() -> None:
    verdicts = Verdicts(OPTIONS)
    for hour in range(10):
        verdicts.written(("Deployment", "feed", "web"), "w", hour * 3600.0)
    assert not verdicts.paused_until_s(("Deployment", "feed", "web"), "w", 9 * 3600.0)


def test_what_the_server_made_something_else_of_is_written_again_after_a_while_only() -> None:
    body = native("Deployment", "web", {"replicas": 3})
    verdicts = Verdicts(OPTIONS)
    changed = native("Deployment", "web", {"replicas": 3, "image": "mirror/app"})
    asked = native("Deployment", "web", {"replicas": 3, "image": "app"})
    answer = {**changed, "metadata": {**body["metadata"], "uid": "uid-web", "resourceVersion": "7"}}
    work = planned([asked], []).work[0]
    verdicts.answered(work, answer, 100.0)
    row = rows.native_row("Deployment", answer)
    pause_s = OPTIONS.futile_pause_s
    assert planned([asked], [row], verdicts=verdicts, now_s=100.0 + pause_s - 1).work == []
    again = planned([asked], [row], verdicts=verdicts, now_s=100.0 + pause_s).work
    assert [one.key for one in again] == [("Deployment", "feed", "web")]


def answer_to(verdicts: Verdicts, body: dict[str, Any], version: str) -> None:
    """The server has taken the wish, and said so; no watch has shown it yet."""
    meta = {
        **body["metadata"],
        "uid": f"uid-{body['metadata']['name']}",
        "resourceVersion": version,
    }
    answer = {**body, "metadata": meta, "spec": {"defaulted": True, **body["spec"]}}
    verdicts.answered(planned([body], []).work[0], answer, 0.0)


@pytest.mark.parametrize("compared", [True, False], ids=["compared before", "heard of just now"])
@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_until_the_watch_shows_what_was_written_the_old_state_is_neither_good_nor_written_again(
    kind: str, compared: bool
) -> None:
    old, new = native(kind, "web", {"parallelism": 3}), native(kind, "web", {"parallelism": 4})
    verdicts, row = Verdicts(OPTIONS), live(old)
    if compared:
        planned([old], [row], verdicts=verdicts)
    assert (row.document is None) is compared
    answer_to(verdicts, new, "8")
    plan = planned([new], [row], verdicts=verdicts)
    assert (plan.work, plan.unseen, plan.quiet) == ([], [(kind, "feed", "web")], False)
    shown = live(new, version="8")
    plan = planned([new], [shown], verdicts=verdicts)
    assert (plan.work, plan.unseen, plan.quiet) == ([], [], True)


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_a_wish_that_goes_back_is_written_although_the_watch_still_shows_that_very_state(
    kind: str,
) -> None:
    old, new = native(kind, "web", {"parallelism": 3}), native(kind, "web", {"parallelism": 4})
    verdicts, row = Verdicts(OPTIONS), live(old)
    planned([old], [row], verdicts=verdicts)
    answer_to(verdicts, new, "8")
    step = planned([old], [row], verdicts=verdicts).work[0].step
    assert isinstance(step, Apply | Patch)
    assert step.body["spec"] == {"parallelism": 3}


def test_what_was_removed_and_is_wanted_again_is_waited_for_while_a_watch_shows_it() -> None:
    body = native("ConfigMap", "web", {})
    verdicts, row = Verdicts(OPTIONS), live(body)
    planned([body], [row], verdicts=verdicts)
    verdicts.forget(row.key)
    plan = planned([body], [row], verdicts=verdicts)
    assert (plan.work, plan.unseen, plan.quiet) == ([], [("ConfigMap", "feed", "web")], False)


def test_a_job_that_was_told_to_stop_is_not_told_again_while_the_watch_is_behind() -> None:
    running = live(native("Job", "crunch-0-9", {"suspend": False}))
    verdicts = Verdicts(OPTIONS)
    work = planned([], [running], verdicts=verdicts).work[0]
    answer = native(
        "Job", "crunch-0-9", {"suspend": True}, uid="uid-crunch-0-9", resourceVersion="8"
    )
    verdicts.answered(work, answer, 0.0)
    plan = planned([], [running], verdicts=verdicts)
    assert (plan.work, plan.quiet) == ([], False)
    wanted = native("Job", "crunch-0-9", {"suspend": False})
    step = planned([wanted], [running], verdicts=verdicts).work[0].step
    assert isinstance(step, Patch)
    assert step.body["spec"] == {"suspend": False}


def test_what_the_caches_have_not_shown_yet_was_not_deleted_and_what_they_showed_was() -> None:
    verdicts, body = Verdicts(OPTIONS), native("Service", "web", {"type": "ClusterIP"})
    answer_to(verdicts, body, "8")
    early = planned([body], [], verdicts=verdicts)
    assert (early.work, early.unseen) == ([], [("Service", "feed", "web")])
    assert planned([body], [live(body, "8")], verdicts=verdicts).work == []
    assert planned([body], [], verdicts=verdicts).drifted == {
        ("Service", "feed", "web"): "was deleted"
    }


def test_what_came_and_went_before_a_turn_was_deleted() -> None:
    verdicts, body = Verdicts(OPTIONS), native("Service", "web", {"type": "ClusterIP"})
    answer_to(verdicts, body, "8")
    verdicts.stir(("Service", "feed", "web"))
    plan = planned([body], [], verdicts=verdicts)
    assert ([work.key for work in plan.work], plan.unseen) == ([("Service", "feed", "web")], [])


def test_what_the_caches_never_show_is_made_again_after_a_while() -> None:
    verdicts, body = Verdicts(OPTIONS), native("Service", "web", {"type": "ClusterIP"})
    answer_to(verdicts, body, "8")
    late = planned([body], [], verdicts=verdicts, now_s=comparing.SHOWN_WITHIN_S)
    assert len(late.work) == 1


def test_a_change_of_ours_is_drift_under_the_wish_that_was_in_place_and_under_no_other() -> None:
    verdicts, body = (
        Verdicts(OPTIONS),
        native("Deployment", "web", {"replicas": 3, "paused": False}),
    )
    planned([body], [live(body)], verdicts=verdicts)
    other = live(native("Deployment", "web", {"replicas": 5, "paused": False}), "9")
    assert planned([body], [other], verdicts=verdicts).drifted == {
        ("Deployment", "feed", "web"): "was changed (spec.replicas)"
    }
    wished = native("Deployment", "web", {"replicas": 4, "paused": False})
    assert planned([wished], [other], verdicts=verdicts).drifted == {}


def test_what_a_webhook_added_in_our_name_is_taken_away_and_is_no_drift() -> None:
    verdicts, body = Verdicts(OPTIONS), native("Deployment", "web", {"replicas": 3})
    planned([body], [live(body)], verdicts=verdicts)
    injected = native("Deployment", "web", {"replicas": 3}, annotations={"mesh": "injected"})
    managed = {
        "manager": "federator-member",
        "operation": "Apply",
        "fieldsV1": {"f:metadata": {"f:annotations": {"f:mesh": {}}}},
    }
    injected["metadata"]["managedFields"] = [managed]
    plan = planned([body], [live(injected, "9")], verdicts=verdicts)
    assert (len(plan.work), plan.drifted) == (1, {})
