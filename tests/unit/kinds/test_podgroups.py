"""When the pods of a training job belong to a PodGroup, and what it says."""

from typing import Any

import pytest

from federator.kinds import registry
from federator.kinds.natives import POD_GROUP
from federator.kinds.training import podgroups
from federator.kinds.verbs import LiveJob
from federator.model.decision import Share
from tests.unit.kinds.test_natives import (
    CUSTOM,
    TENSORFLOW,
    TRAINING,
    expand,
    slice_of,
    with_target,
)

SHARE = Share("east", 1, 1, 9, ((0, 0),))


def grouped(
    obj: dict[str, Any], live: dict[str, LiveJob] | None = None, *, there: bool = False
) -> tuple[dict[str, Any], ...]:
    return podgroups.grouped(obj, expand(obj, None), live or {}, there)


def members(natives: tuple[dict[str, Any], ...]) -> set[str]:
    """Names of the Jobs whose pods name a group."""
    return {
        native["metadata"]["name"]
        for native in natives
        if native["kind"] == "Job" and "schedulingGroup" in native["spec"]["template"]["spec"]
    }


def least(natives: tuple[dict[str, Any], ...]) -> int | None:
    """How many pods the group waits for; None without one."""
    found = [native for native in natives if native["kind"] == POD_GROUP]
    return found[0]["spec"]["schedulingPolicy"]["gang"]["minCount"] if found else None


def jobs(obj: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {n["metadata"]["name"]: n for n in expand(obj, None) if n["kind"] == "Job"}


def test_the_group_stands_before_the_jobs_and_waits_for_all_pods_of_all_components() -> None:
    for text in (TRAINING, TENSORFLOW):
        obj = slice_of(text, SHARE)
        made = grouped(obj)
        kinds = [native["kind"] for native in made]
        assert kinds.index(POD_GROUP) < kinds.index("Job")
        wanted = sum(job["spec"]["completions"] for job in jobs(obj).values())
        assert least(made) == wanted
        assert members(made) == set(jobs(obj))
        assert tuple(
            native for native in made if native["kind"] not in (POD_GROUP, "Job")
        ) == tuple(native for native in expand(obj, None) if native["kind"] != "Job")


def test_an_elastic_job_waits_for_the_pods_that_it_was_given() -> None:
    obj = slice_of(TRAINING, Share("east", 1, 1, 9, ((0, 0),), pods=(1, 2)))
    assert least(grouped(obj)) == 3


def test_completed_pods_are_left_out_and_one_is_always_waited_for() -> None:
    obj = slice_of(TRAINING, SHARE)
    names = list(jobs(obj))
    group = obj["metadata"]["name"]
    wanted = sum(job["spec"]["completions"] for job in jobs(obj).values())
    live = {name: LiveJob(group, 0) for name in names}
    assert least(grouped(obj, live | {names[0]: LiveJob(group, 1)}, there=True)) == wanted - 1
    done = {name: LiveJob(group, job["spec"]["completions"]) for name, job in jobs(obj).items()}
    assert least(grouped(obj, done, there=True)) == 1


def test_jobs_keep_what_they_were_made_with() -> None:
    obj = slice_of(TRAINING, SHARE)
    names, group = list(jobs(obj)), obj["metadata"]["name"]
    without = {name: LiveJob("", 0) for name in names}
    assert grouped(obj, without) == expand(obj, None)

    mixed = without | {names[0]: LiveJob(group, 0)}
    made = grouped(obj, mixed, there=True)
    assert members(made) == {names[0]}
    assert least(made) == jobs(obj)[names[0]]["spec"]["completions"]
    # Once there it stays: nothing of it is deleted while its slice is there.
    assert least(grouped(obj, without, there=True)) == 1


def test_its_pods_and_its_group_have_one_priority() -> None:
    obj = slice_of(TRAINING, SHARE)
    (group,) = (native for native in grouped(obj) if native["kind"] == POD_GROUP)
    for job in jobs(obj).values():
        pod = job["spec"]["template"]["spec"]
        assert pod["priorityClassName"] == group["spec"]["priorityClassName"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"target": "JobSet"}, "its Jobs are made by a JobSet"),
        ({"target": "TrainJob"}, "its Jobs are made by a TrainJob"),
        (
            {"schedulingGroup": {"podGroupName": "own"}},
            "its pod template names a schedulingGroup of its own",
        ),
        ({"schedulerName": "theirs"}, ""),
        ({}, ""),
    ],
)
def test_why_there_is_no_group(change: dict[str, Any], why: str) -> None:
    target = change.pop("target", "")
    obj = slice_of(with_target(CUSTOM, target) if target else CUSTOM, SHARE)
    for holder in (obj["spec"], *obj["spec"]["components"]):
        if "template" in holder:
            holder["template"]["spec"] |= change
    assert podgroups.ungrouped(obj) == why
    gang = registry.verbs_of("PinterestTrainingJob").gang
    assert gang is not None
    assert bool(why) == (gang.grouped(obj, expand(obj, None), {}, False) == expand(obj, None))


def test_components_with_schedulers_of_their_own_have_no_group() -> None:
    obj = slice_of(TRAINING, SHARE)
    template = obj["spec"]["template"]
    other = {**template, "spec": {**template["spec"], "schedulerName": "theirs"}}
    obj["spec"]["components"][1]["template"] = other
    assert podgroups.ungrouped(obj) == (
        "its components name several schedulers (default-scheduler, theirs)"
    )
    assert least(grouped(obj)) is None
