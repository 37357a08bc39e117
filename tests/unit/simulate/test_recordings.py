"""What `federator record` writes of a federation's objects and history, and how it is read
again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federator.kinds import read, registry
from federator.model.names import WorkloadKey
from federator.model.resources import CPU
from federator.simulate import recorder
from federator.simulate.engine import run
from federator.simulate.inputs import Inputs
from federator.simulate.outcome import End
from federator.simulate.recorder import History, NothingToRecord
from federator.simulate.report import figures
from federator.simulate.report.measures import measure
from federator.simulate.scenario import loading
from federator.simulate.scenario.loading import InvalidScenario
from tests.unit.simulate import conservation

PROFILE = Path(__file__).parents[3] / "config" / "runtimeprofile.yaml"
T0 = 1_700_000_000
FEDERATION = "federation.pinterest.com/v1alpha1"


def at(second: int) -> str:
    assert 0 <= second < 60
    return f"2023-11-14T22:{13 + (20 + second) // 60}:{(20 + second) % 60:02}Z"


def member(
    name: str, cpu: int = 16, free: int | None = None, nodes: int = 1, **status: Any
) -> dict[str, Any]:
    size = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    row = {
        "count": nodes,
        "allocatable": size,
        "free": {**size, "cpu": str(cpu if free is None else free)},
    }
    meta = {"name": name, "managedFields": [{"manager": "hub"}]}
    status = {"capacity": {"nodes": [row]}, **status}
    return {
        "apiVersion": FEDERATION,
        "kind": "MemberCluster",
        "metadata": meta,
        "spec": {},
        "status": status,
    }


def workload(
    name: str, second: int, count: int = 2, kind: str = "PinterestService", **spec: Any
) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry/app:1",
        "env": [{"name": "TOKEN", "value": "hidden"}],
        "resources": {"requests": {"cpu": "1"}},
    }
    meta = {"name": name, "namespace": "ns", "uid": f"u-{name}", "creationTimestamp": at(second)}
    pods = {"template": {"spec": {"containers": [container], **spec.pop("pod", {})}}}
    amount = {"replicas": count} if kind == "PinterestService" else {"shards": count}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": kind,
        "metadata": meta,
        "spec": {**amount, **pods, **spec},
        "status": {"ready": count},
    }


def decided(
    obj: dict[str, Any], seq: int, second: float, to: dict[str, int], **fields: Any
) -> dict[str, Any]:
    key = str(recorder.key_of(obj["kind"], obj))
    fields = {"wanted": sum(to.values()), "from": None} | fields
    return {"kind": "Decision", "key": key, "at": T0 + second, "seq": seq, "to": to, **fields}


def placed(obj: dict[str, Any], shares: dict[str, int]) -> dict[str, Any]:
    """The PlacementDecision of a workload."""
    named = {"kind": obj["kind"], "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
    given = [{"cluster": name, "replicas": count, "seq": 1} for name, count in shares.items()]
    kind = registry.KINDS["PlacementDecision"]
    meta = {"name": f"d-{obj['metadata']['name']}", "namespace": "ns"}
    spec = {"workload": named, "seq": 1, "shares": given}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def document(
    objs: list[dict[str, Any]], *entries: dict[str, Any], now: float = 60
) -> dict[str, Any]:
    by_key: dict[WorkloadKey, History] = {}
    for obj in objs:
        if obj["kind"] in registry.WORKLOADS:
            key = recorder.key_of(obj["kind"], obj)
            by_key[key] = History(
                [one for one in entries if one["key"] == str(key)], begins=float(T0)
            )
    return recorder.document(objs, by_key, T0 + now)


def replayed(found: dict[str, Any]) -> tuple[Inputs, figures.Replay]:
    inputs = loading.inputs(found, Path("recorded.yaml"), {})
    outcome = run.run(inputs)
    assert conservation.broken(inputs, outcome) == []
    replay = figures.replay(outcome)
    assert replay is not None
    assert replay.sentence in figures.verdict(measure(outcome))
    return inputs, replay


def test_works_of_one_second_are_decided_on_in_the_order_of_the_federation() -> None:
    """Room for three copies: who is first gets two of them. By name it would be the other."""
    late, soon = workload("a", 5), workload("b", 5)
    objs = [member("one", 3), late, soon]
    entries = [decided(soon, 1, 5.1, {"one": 2}), decided(late, 2, 5.4, {"one": 1}, wanted=2)]

    found = document(objs, *entries)
    inputs, replay = replayed(found)

    assert [work.id for work in inputs.works] == ["PinterestService/ns/b", "PinterestService/ns/a"]
    assert (replay.recorded, replay.whole) == (2, True)
    swapped = [decided(late, 1, 5.1, {"one": 1}), decided(soon, 2, 5.4, {"one": 2})]
    _, other = replayed(document(objs, *swapped))
    assert (other.same, other.whole) == (0, False)
    assert (
        "then the federation decided PinterestService/ns/a: one 1, and the simulation"
        in other.sentence
    )


def test_a_work_that_was_created_sooner_and_decided_on_later_is_submitted_later() -> None:
    first, second = workload("first", 1), workload("second", 3)
    entries = [decided(second, 1, 3.2, {"one": 2}), decided(first, 2, 3.3, {"one": 1}, wanted=2)]

    found = document([member("one", 3), first, second], *entries)

    works = found["demand"]["recording"]["works"]
    assert [(one["workload"]["metadata"]["name"], one["submit"]) for one in works] == [
        ("second", 2),
        ("first", 2),
    ]
    assert replayed(found)[1].whole


def test_a_job_that_completed_gives_its_room_to_the_next() -> None:
    job, service = workload("job", 0, 3, "PinterestJobSet", parallelism=3), workload("later", 10, 3)
    over = {
        "kind": "Condition",
        "key": "PinterestJobSet/ns/job",
        "at": T0 + 20.4,
        "to": "Complete=True AllDone",
    }
    entries = [
        decided(job, 1, 0.3, {"one": 3}),
        over,
        decided(job, 3, 20.5, {}, **{"from": {"one": 3}}),
        decided(service, 2, 10.2, {}, wanted=3),
        decided(service, 4, 21.9, {"one": 3}, **{"from": {}}),
    ]

    found = document([member("one", 3), job, service], *entries)
    _, replay = replayed(found)

    assert found["demand"]["recording"]["works"][0]["runtime"] == 21
    assert (replay.recorded, replay.whole) == (2, True)


def test_of_the_second_in_which_a_job_ends_who_was_decided_on_later_gets_its_room() -> None:
    job = workload("job", 0, 3, "PinterestJobSet", parallelism=3)
    sooner, later = workload("sooner", 5, 2), workload("later", 5, 3)
    over = {
        "kind": "Condition",
        "key": "PinterestJobSet/ns/job",
        "at": T0 + 5.4,
        "to": "Complete=True AllDone",
    }
    entries = [
        decided(job, 1, 0.3, {"one": 3}),
        decided(sooner, 2, 5.2, {"one": 1}, wanted=2),
        over,
        decided(sooner, 3, 5.6, {"one": 2}, **{"from": {"one": 1}}),
        decided(later, 4, 5.9, {"one": 2}, wanted=3),
    ]

    found = document([member("one", 4), job, sooner, later], *entries)
    _, replay = replayed(found)

    works = found["demand"]["recording"]["works"]
    assert [(one["workload"]["metadata"]["name"], one["submit"]) for one in works] == [
        ("job", 0),
        ("sooner", 5),
        ("later", 6),
    ]
    assert (replay.recorded, replay.whole) == (4, True), replay.sentence


def test_what_others_hold_stays_occupied_and_what_is_ours_does_not() -> None:
    """Eight nodes of 16 cores, of which 60 are in use; 20 by the recorded service."""
    web = workload("web", 0, 20)
    objs = [
        member("one", 16, nodes=4),
        member("two", 16, 1, nodes=4),
        web,
        placed(web, {"two": 20}),
    ]

    found = document(objs, decided(web, 1, 0.1, {"two": 20}))
    inputs = loading.inputs(found, Path("recorded.yaml"), {})

    free = {
        name: sum(row.count * row.free[CPU] for row in view.capacity.rows)
        for name, view in inputs.clusters.items()
        if view.capacity is not None
    }
    assert free == {"one": 64_000, "two": 24_000}
    assert any(
        "two: others than the recorded workloads hold cpu 40" in one for one in inputs.assumptions
    )
    outcome = run.run(inputs)
    at_first = outcome.samples[0]
    assert at_first.used["two"][0] >= 40_000


def test_what_the_recording_lacks_is_said() -> None:
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": at(9)}
    web, old = workload("web", 0, 5), workload("old", 1, 1, pod={"nodeSelector": {"disk": "ssd"}})
    entries = [
        decided(web, 1, 0.1, {"one": 3}),
        decided(web, 7, 9.1, {"one": 5}, **{"from": {"one": 3}}),
        decided(old, 9, 12, {"one": 1}, **{"from": {"two": 1}}),
    ]

    notes = " ".join(
        replayed(document([member("one", conditions=[ready]), member("two"), web, old], *entries))[
            0
        ].assumptions
    )

    assert "no first decision of 1 of 2 workloads" in notes
    assert "one was not ready when it was recorded" in notes
    assert "once asked for" not in notes
    assert "1 of 2 recorded workloads select nodes by labels" in notes


def scaled(
    seq: int, second: float, wanted: int, to: dict[str, int], **fields: Any
) -> Callable[..., dict[str, Any]]:
    return lambda obj: decided(
        obj, seq, second, to, wanted=wanted, **({"asOf": T0 + second - 0.1} | fields)
    )


def test_edits_of_replicas_are_replayed_when_they_were_made() -> None:
    """Six cores: what web gives back when it is scaled down the other one has asked for before."""
    web, other = workload("web", 0, 4), workload("other", 5, 3)
    entries = [
        scaled(1, 0.2, 5, {"one": 5})(web),
        scaled(2, 5.3, 3, {"one": 1})(other),
        scaled(3, 20.4, 2, {"one": 2}, **{"from": {"one": 5}})(web),
        scaled(4, 20.9, 3, {"one": 3}, **{"from": {"one": 1}})(other),
        scaled(5, 30.1, 4, {"one": 3}, **{"from": {"one": 2}})(web),
    ]

    found = document([member("one", 6), web, other], *entries)
    inputs, replay = replayed(found)

    work = found["demand"]["recording"]["works"][0]
    assert work["replicas"] == 5
    assert [(one["at"], one["replicas"]) for one in work["scalings"]] == [(20, 2), (30, 4)]
    assert "scalings" not in found["demand"]["recording"]["works"][1]
    assert (inputs.works[0].shards, [one.copies for one in inputs.works[0].curve]) == (5, [2, 4])
    assert (replay.recorded, replay.whole) == (5, True), replay.sentence


@pytest.mark.parametrize("first", ["web", "other"])
def test_a_scaling_and_a_submission_of_one_second_are_decided_on_in_the_order_of_the_federation(
    first: str,
) -> None:
    web, other = workload("web", 0, 4), workload("other", 20, 3)
    if first == "web":
        later = [
            scaled(2, 20.3, 4, {"one": 4}, **{"from": {"one": 1}})(web),
            scaled(3, 20.6, 3, {"one": 1})(other),
        ]
    else:
        later = [
            scaled(2, 20.3, 3, {"one": 3})(other), scaled(3, 20.6, 4, {"one": 2}, **{"from": {"one": 1}})(web)
        ]  # fmt: skip

    _, replay = replayed(
        document([member("one", 5), web, other], scaled(1, 0.2, 1, {"one": 1})(web), *later)
    )

    assert (replay.recorded, replay.whole) == (3, True), replay.sentence


def test_a_scaling_that_found_no_room_is_no_older_than_what_took_it() -> None:
    """Its decision keeps the number of the one before: what was decided on meanwhile comes first
    all the same.
    """
    web, other = workload("web", 0, 4), workload("other", 5, 3)
    entries = [
        scaled(1, 0.2, 1, {"one": 1})(web),
        scaled(2, 5.3, 3, {"one": 3})(other),
        scaled(1, 20.4, 4, {"one": 1}, **{"from": {"one": 1}})(web),
    ]

    found = document([member("one", 4), web, other], *entries)
    _, replay = replayed(found)

    assert [one["submit"] for one in found["demand"]["recording"]["works"]] == [0, 5]
    assert (replay.recorded, replay.whole) == (2, True), replay.sentence


def test_what_duplicate_wants_and_edits_of_jobs_are_no_scalings() -> None:
    """A Duplicate service wants its replicas in each cluster; a third one came."""
    twice, job = workload("twice", 0, 2), workload("job", 1, 4, "PinterestJobSet")
    entries = [
        scaled(1, 0.2, 4, {"one": 2, "two": 2})(twice),
        scaled(2, 1.2, 2, {"one": 2})(job),
        scaled(3, 9.2, 6, {"one": 2, "two": 2, "three": 2}, **{"from": {"one": 2, "two": 2}})(
            twice
        ),
        scaled(4, 9.5, 4, {"one": 4}, **{"from": {"one": 2}})(job),
    ]

    found = document([member(name) for name in ("one", "two", "three")] + [twice, job], *entries)

    assert not any(
        "scalings" in one or "replicas" in one for one in found["demand"]["recording"]["works"]
    )
    notes = loading.inputs(found, Path("recorded.yaml"), {}).assumptions
    assert any(
        "PinterestJobSet/ns/job once asked for 2: it is replayed with 4 from the beginning." in one
        for one in notes
    )


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            {"scalings": [{"at": 5, "replicas": 3}, {"at": 4, "replicas": 2}]},
            "works[0].scalings: are not in the order",
        ),
        ({"scalings": [{"at": 5, "replicas": -3}]}, "works[0].scalings[0].replicas: "),
        ({"scalings": [{"at": 5, "count": 3}]}, "works[0].scalings[0].count: unknown field"),
        (
            {"workload": workload("web", 0, 2, "PinterestJobSet"), "replicas": 2},
            "scalings: PinterestJobSet does not",
        ),
    ],
)
def test_scalings_that_cannot_be_replayed_are_errors_with_the_field(
    edit: dict[str, Any], said: str
) -> None:
    web = workload("web", 0)
    found = document([member("one"), web], decided(web, 1, 0.1, {"one": 2}))
    found["demand"]["recording"]["works"][0].update(edit)

    with pytest.raises(InvalidScenario) as bad:
        loading.inputs(found, Path("recorded.yaml"), {})

    assert f"demand.recording.{said}" in str(bad.value) or said in str(bad.value)


def test_a_job_that_failed_ends_as_failed_when_it_did() -> None:
    job = workload("job", 0, 3, "PinterestJobSet", parallelism=3)
    over = {
        "kind": "Condition",
        "key": "PinterestJobSet/ns/job",
        "at": T0 + 20.4,
        "to": "Failed=True BackoffLimit",
    }

    found = document([member("one", 3), job], decided(job, 1, 0.3, {"one": 3}), over)
    inputs, _ = replayed(found)

    (life,) = run.run(inputs).lives
    assert (life.end, life.end_s, life.failures) == (End.FAILED, 21, 1)


def test_decisions_about_a_former_object_of_the_name_are_not_its_own() -> None:
    web = workload("web", 30)
    found = document(
        [member("one"), web], decided(web, 1, 3, {"one": 9}), decided(web, 2, 30.5, {"one": 2})
    )

    (work,) = found["demand"]["recording"]["works"]
    assert [one["seq"] for one in work["decisions"]] == [2]
    assert replayed(found)[1].whole


def test_secrets_and_status_are_left_out() -> None:
    text = str(document([member("one"), workload("web", 0, config={"a": "hidden"})]))

    assert "hidden" not in text
    assert "managedFields" not in text
    assert "'ready'" not in text


def test_a_service_that_registers_and_reads_secrets_is_replayed_without_its_variables() -> None:
    """Its sidecar says in variables and arguments how, and those are left out."""
    (profile,) = read.load_yaml(PROFILE.read_text(encoding="utf-8"))
    runtime = {"secrets": [{"name": "ads/hidden", "path": "db"}]}
    web = workload("web", 0, sidecars={"runtime": {"register": True}}, runtime=runtime)
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
    found = document([member("one"), profile, web], decided(web, 1, 1, {"one": 2}))

    assert "hidden" not in str(found)
    assert replayed(found)[1].whole


@pytest.mark.parametrize(
    ("objs", "said"),
    [
        ([workload("web", 0)], "has no member"),
        ([member("one")], "has no workload"),
        (
            [{**member("one"), "status": {}}, workload("web", 0)],
            "one has not reported its capacity yet",
        ),
    ],
)
def test_a_federation_without_a_fleet_or_demand_is_no_recording(
    objs: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(NothingToRecord, match=said):
        document(objs)


def test_more_of_the_recorded_demand_is_more_replicas_of_its_services() -> None:
    web = workload("web", 0)
    found = document([member("one"), web], decided(web, 1, 0.1, {"one": 2}))

    inputs = loading.inputs(loading.demanding(found, "2"), Path("recorded.yaml"), {})
    outcome = run.run(inputs)

    (life,) = outcome.lives
    assert (life.work.id, life.work.shards) == ("PinterestService/ns/web", 4)
    assert sum(stay.copies for stay in life.stays if stay.end_s is None) == 4
    assert conservation.broken(inputs, outcome) == []


def gpus(name: str, model: str) -> dict[str, Any]:
    """A member of two nodes with four GPUs each."""
    obj = member(name, nodes=2)
    row = obj["status"]["capacity"]["nodes"][0]
    row["model"] = model
    for amounts in (row["allocatable"], row["free"]):
        amounts["nvidia.com/gpu"] = "4"
    return obj


def training(name: str, second: int, **spec: Any) -> dict[str, Any]:
    requests = {"cpu": "1", "nvidia.com/gpu": "2"}
    container = {"name": "main", "image": "registry/app:1", "resources": {"requests": requests}}
    meta = {"name": name, "namespace": "ns", "uid": f"u-{name}", "creationTimestamp": at(second)}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestTrainingJob",
        "metadata": meta,
        "spec": {
            "framework": "PyTorch",
            "components": [
                {"name": "master"},
                {"name": "worker", "gpuModels": ["A100"], **spec},
            ],
            "template": {"spec": {"containers": [container]}},
        },
    }


def test_a_training_job_gets_the_nodes_of_all_its_pods_where_the_models_are() -> None:
    """Master and three workers fill both nodes of the cluster that has A100s; the next one waits
    for the first one's end."""
    first, second = training("first", 0, replicas=3), training("second", 5, replicas=3)
    over = {
        "kind": "Condition",
        "key": "PinterestTrainingJob/ns/first",
        "at": T0 + 20.4,
        "to": "Complete=True AllDone",
    }
    entries = [
        decided(first, 1, 0.3, {"new": 1}),
        over,
        decided(first, 3, 20.5, {}, **{"from": {"new": 1}}),
        decided(second, 2, 5.2, {}, wanted=1),
        decided(second, 4, 21.9, {"new": 1}, **{"from": {}}),
    ]

    found = document([gpus("new", "A100"), gpus("old", "T4"), first, second], *entries)
    inputs, replay = replayed(found)

    assert (replay.recorded, replay.whole) == (2, True), replay.sentence
    assert {work.gpu_models for work in inputs.works} == {("A100",)}
    lives = {life.work.id.rpartition("/")[2]: life for life in run.run(inputs).lives}
    assert (lives["first"].end, lives["first"].end_s) == (End.COMPLETED, 21)
    assert (lives["second"].end, lives["second"].start_s) == (End.RUNNING, 21)
    assert not any("select nodes by labels" in one for one in inputs.assumptions)


def test_a_work_whose_pods_no_member_had_counted_comes_when_one_had() -> None:
    """Its first decision gives nothing, and is no decision about the room that there was."""
    job, web = training("job", 1, replicas=2), workload("web", 2, 3)
    waits = "0 of 1 placed under policy default; 1 cluster has not yet answered how many copies of"
    entries = [
        decided(job, 1, 1.2, {}, wanted=1, evidence=f"{waits} this pod fit; 1 could hold 0"),
        decided(web, 2, 2.4, {"new": 3}),
        decided(job, 3, 11.3, {"new": 1}, **{"from": {}}),
    ]

    found = document([gpus("new", "A100"), job, web], *entries)
    _, replay = replayed(found)

    works = found["demand"]["recording"]["works"]
    assert [(one["workload"]["metadata"]["name"], one["submit"]) for one in works] == [
        ("web", 0),
        ("job", 9),
    ]
    assert (replay.recorded, replay.whole) == (2, True), replay.sentence
    alone = [{**entry, "to": {}} for entry in entries if entry["key"].endswith("/job")][:1]
    waiting = document([gpus("new", "A100"), job, web], *alone, entries[1])
    assert waiting["demand"]["recording"]["works"][0]["workload"]["metadata"]["name"] == "job"


def test_an_elastic_training_job_holds_as_many_pods_as_it_was_given() -> None:
    """Of five workers one has room beside the master and the service, which is on both nodes."""
    web = workload("web", 0, 2, pod={"nodeSelector": {"nvidia.com/gpu.product": "A100"}})
    web["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {
        "nvidia.com/gpu": "1"
    }
    job = training("job", 5, replicas=5, minReplicas=1)
    entries = [decided(web, 1, 0.1, {"new": 2}), decided(job, 2, 5.2, {"new": 1})]

    inputs, replay = replayed(document([gpus("new", "A100"), web, job], *entries))

    assert (replay.recorded, replay.whole) == (2, True), replay.sentence
    last = run.run(inputs).samples[-1]
    at_gpu = run.run(inputs).resources.index("gpu")
    assert last.used["new"][at_gpu] == 6


@pytest.mark.parametrize(
    ("terms", "models", "others"),
    [
        ([("nvidia.com/gpu.product", "In", ["A100", "T4"])], ("A100", "T4"), False),
        ([("nvidia.com/gpu.product", "NotIn", ["A100"])], (), True),
        ([("nvidia.com/gpu.product", "In", ["A100"]), ("disk", "In", ["ssd"])], ("A100",), True),
        ([("disk", "Exists", [])], (), True),
    ],
)
def test_of_node_affinity_the_gpu_models_count(
    terms: list[tuple[str, str, list[str]]], models: tuple[str, ...], others: bool
) -> None:
    asked = [{"key": key, "operator": how, "values": values} for key, how, values in terms]
    required = {"nodeSelectorTerms": [{"matchExpressions": asked}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    web = workload("web", 0, 1, pod={"affinity": affinity})

    found = document([gpus("new", "A100"), web])
    inputs = loading.inputs(found, Path("recorded.yaml"), {})

    assert inputs.works[0].gpu_models == models
    assert any("select nodes by labels" in one for one in inputs.assumptions) is others
