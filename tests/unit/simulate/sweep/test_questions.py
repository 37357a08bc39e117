"""Each kind of question is answered in one sentence, on fleets small enough to know the answer."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from federator.simulate.scenario.loading import InvalidScenario
from federator.simulate.sweep import questions
from federator.simulate.sweep.plan import Task
from federator.simulate.sweep.running import Result

HOUR = 3600
MEASURES = {"wait": {"figure": "wait_max_s", "most": "10m"}}


def here(tasks: Sequence[Task]) -> Iterator[Result]:
    return (questions.judged(task) for task in tasks)


def trace(folder: Path, *jobs: tuple[int, int], gpu: bool = False, project: str = "ads") -> str:
    """Jobs of one core (and one A100) each: (submission in hours, copies); each runs an hour."""
    header = "name,submit_s,runtime_s,shards,cpu_milli,tenant" + ",gpu,gpu_models" * gpu
    rows = [
        f"j{at},{hour * HOUR},{HOUR},{shards},1000,{project}" + ",1,A100" * gpu
        for at, (hour, shards) in enumerate(jobs)
    ]
    (folder / "jobs.csv").write_text("\n".join((header, *rows)) + "\n")
    return "jobs.csv"


def scenario(folder: Path, *jobs: tuple[int, int], **fields: Any) -> dict[str, Any]:
    """Two clusters of ten nodes of one core."""
    clusters = [
        {"name": name, "labels": {"zone": f"z-{name}"}, "nodes": [{"count": 10, "cpu": 1}]}
        for name in ("a", "b")
    ]
    return {
        "fleet": {"clusters": clusters},
        "demand": {"trace": {"path": trace(folder, *jobs)}},
        "measures": MEASURES,
        **fields,
    }


def answer(folder: Path, document: dict[str, Any], seeds: int = 1) -> questions.Answer:
    return questions.answer(document, folder / "s.yaml", here, seeds)


def test_how_much_smaller_a_fleet_may_be(tmp_path: Path) -> None:
    """Twelve copies at once need six nodes of each cluster."""
    found = answer(
        tmp_path,
        scenario(tmp_path, *[(1, 1)] * 12, question={"kind": "HowMuchSmaller"}),
    )

    assert found.sentence == (
        "The fleet can be 40 % smaller: 60 % of every cluster is the least that meets the measures"
        " (with 59 % of every cluster wait is 1 h, at most 10 min is wanted)."
    )
    assert {tried.title: tried.missed for tried in found.tried}["36 % of every cluster"] == (
        "wait is 1 h, at most 10 min is wanted"
    )


def test_a_fleet_that_is_too_small_is_told_by_how_much(tmp_path: Path) -> None:
    document = scenario(tmp_path, *[(1, 1)] * 30, question={"kind": "HowMuchSmaller"})
    assert answer(tmp_path, document).sentence.startswith(
        "The fleet is too small (wait is 1 h, at most 10 min is wanted); 150 % of every cluster is"
        " the least that meets the measures"
    )
    never = scenario(tmp_path, (1, 500), question={"kind": "HowMuchSmaller"})
    assert "nor does 800 % of it" in answer(tmp_path, never).sentence


def test_when_a_fleet_runs_out_and_what_carries_it(tmp_path: Path) -> None:
    """24 copies at once from the third day on, and 20 nodes."""
    jobs = [(1, 1)] * 5 + [(50, 1)] * 24 + [(75, 1)] * 24
    document = scenario(tmp_path, *jobs, question={"kind": "RunsOut", "cluster": "b"})

    assert answer(tmp_path, document).sentence == (
        "The fleet runs out of cpu on day 3: from then on the measures are missed (wait is 1 h, at"
        " most 10 min is wanted); 4 more nodes in b carry it to day 4."
    )
    bare = {**document, "question": {"kind": "RunsOut"}}
    assert answer(tmp_path, bare).sentence.endswith("at most 10 min is wanted).")
    enough = scenario(tmp_path, *[(1, 1)] * 5, question={"kind": "RunsOut"})
    assert answer(tmp_path, enough).sentence == "The fleet does not run out before day 1."


def test_gpus_that_run_out_are_named_by_their_model(tmp_path: Path) -> None:
    nodes = [{"count": 2, "cpu": 8, "gpus": {"count": 1, "model": "A100"}}]
    document = scenario(tmp_path, (1, 1), question={"kind": "RunsOut"})
    document["fleet"] = {"clusters": [{"name": "a", "nodes": nodes}]}
    trace(tmp_path, *[(1, 1)] * 3, gpu=True)

    assert answer(tmp_path, document).sentence.startswith(
        "The fleet runs out of A100 GPUs on day 1:"
    )


def test_dates_are_those_of_the_trace(tmp_path: Path) -> None:
    day = 1_709_251_200 // HOUR  # 2024-03-01
    jobs = [(day, 1)] + [(day + 30, 1)] * 24
    document = scenario(tmp_path, *jobs, question={"kind": "RunsOut"})
    assert "runs out of cpu on 2024-03-02" in answer(tmp_path, document).sentence


def shapes(*, priced: bool) -> dict[str, Any]:
    def fleet(count: int, price: int) -> list[dict[str, Any]]:
        cluster: dict[str, Any] = {"name": "a", "nodes": [{"count": count, "cpu": 1}]}
        return [{**cluster, "price": price} if priced else cluster]

    return {
        "kind": "WhichShape",
        "shapes": {
            "small": {"fleet.clusters": fleet(5, 1)},
            "dear": {"fleet.clusters": fleet(20, 9)},
            "cheap": {"fleet.clusters": fleet(12, 2)},
        },
    }


def test_which_shape_meets_the_measures_at_the_least_cost(tmp_path: Path) -> None:
    document = scenario(tmp_path, *[(1, 1)] * 12, until="10h", question=shapes(priced=True))
    sentence = answer(tmp_path, document).sentence
    assert sentence.startswith("cheap meets the measures with cost ")
    assert "dear: " in sentence
    assert "small: wait is 2 h, at most 10 min is wanted" in sentence

    document["question"] = shapes(priced=False)
    assert " meets the measures with least waiting (" in answer(tmp_path, document).sentence
    del document["question"]["shapes"]["dear"], document["question"]["shapes"]["cheap"]
    assert answer(tmp_path, document).sentence == (
        "No shape meets the measures; least is missing with small (wait is 2 h, at most 10 min is"
        " wanted)."
    )


def test_what_a_fleet_survives(tmp_path: Path) -> None:
    """Twelve copies run at the peak, six in each cluster; ten nodes are left after any loss."""
    jobs = [(1, 1)] * 10 + [(20, 1)] * 2
    document = scenario(tmp_path, *jobs, question={"kind": "Survives"})
    assert answer(tmp_path, document).sentence == (
        "The fleet survives the loss of each of them at the peak of use (2 losses tried)."
    )
    jobs = [(1, 1)] * 12 + [(2, 1)] * 12
    document = scenario(
        tmp_path, *jobs, question={"kind": "Survives", "lose": "zone=z-a", "at": "90m"}
    )
    assert answer(tmp_path, document).sentence.startswith(
        "The fleet does not survive the loss of zone=z-a after 1 h 30 min; worst is without zone=z-a"
        " (wait is "
    )
    document["question"]["lasting"] = "5m"
    assert "survives the loss of zone=z-a" in answer(tmp_path, document).sentence


def test_which_guarantee_is_enough(tmp_path: Path) -> None:
    """ads asks for six cores at once, beside search, which takes all that ads is not guaranteed."""

    def quota(name: str, **tier: Any) -> dict[str, Any]:
        spec: dict[str, Any] = {"tiers": {"OnDemand": tier}}
        if name != "all":
            spec |= {"parent": "all", "projects": [name]}
        return {
            "apiVersion": "federation.pinterest.com/v1alpha1",
            "kind": "FederatedQuota",
            "metadata": {"name": name},
            "spec": spec,
        }

    quotas = [
        quota("all", guaranteed={"cpu": "20"}),
        quota("ads", borrowingLimit={"cpu": "0"}),
    ]
    document = scenario(
        tmp_path,
        *[(1, 1)] * 6,
        quotas=quotas,
        question={"kind": "Quota", "account": "ads", "resource": "cpu", "most": 16},
    )
    assert answer(tmp_path, document).sentence == (
        "6 cpu guaranteed to ads are the least that meet the measures (with 5 cpu guaranteed to ads"
        " wait is 1 h, at most 10 min is wanted)."
    )
    document["question"]["account"] = "nobody"
    with pytest.raises(questions.Failed, match="write no FederatedQuota 'nobody'"):
        answer(tmp_path, document)


def test_a_fleet_that_starts_nothing_meets_no_measure(tmp_path: Path) -> None:
    """Waiting is of works that started."""
    document = scenario(tmp_path, (1, 8), question={"kind": "HowMuchSmaller"})
    assert answer(tmp_path, document).sentence == (
        "The fleet can be 20 % smaller: 80 % of every cluster is the least that meets the measures"
        " (with 79 % of every cluster number of works never started is 1, at most 0 is wanted)."
    )


def test_a_scenario_that_bounds_nothing_is_judged_by_stated_measures(tmp_path: Path) -> None:
    document = scenario(tmp_path, *[(1, 1)] * 30, measures={}, question={"kind": "RunsOut"})
    sentence = answer(tmp_path, document).sentence
    assert "waiting of 99 of 100 works is 1 h, at most 10 min is wanted" in sentence
    assert sentence.endswith(
        "The scenario bounds no measure; judged was that every work starts, and 99 of 100 within 10"
        " min."
    )


def test_with_several_seeds_the_measures_are_met_with_each(tmp_path: Path) -> None:
    document = scenario(tmp_path, (1, 1), question={"kind": "HowMuchSmaller"})
    shard = {"cpu": 1}
    stream = {"name": "job", "works": 40, "over": "10h", "tenants": {"ads": 1}, "shard": shard}
    document["demand"] = {"generate": [{**stream, "runtime": {"median": "1h", "sigma": 1}}]}

    one, many = answer(tmp_path, document), answer(tmp_path, document, seeds=4)

    assert one.sentence.endswith(
        "This is one seed; --seeds 8 tells whether the answer holds with others."
    )
    assert many.sentence.endswith("Met means met with each of 4 seeds.")

    def least(found: questions.Answer) -> int:
        return min(int(tried.title.split()[0]) for tried in found.tried if tried.met)

    assert least(many) >= least(one)


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"kind": "RunsOut", "account": "ads"}, "account is no field of a question RunsOut"),
        ({"kind": "WhichShape"}, "a question WhichShape needs shapes"),
        ({"kind": "Quota"}, "a question Quota needs account"),
        ({"kind": "Bigger"}, r"question\.kind"),
        ({"kind": "Survives", "at": "soon"}, r"question\.at"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_its_field(
    tmp_path: Path, question: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidScenario, match=why):
        answer(tmp_path, scenario(tmp_path, (1, 1), question=question))


def test_a_choice_that_cannot_be_simulated_is_named(tmp_path: Path) -> None:
    question = {"kind": "RunsOut", "cluster": "nowhere"}
    document = scenario(tmp_path, *[(1, 1)] * 30, question=question)
    with pytest.raises(questions.Failed, match=r"1 more node in nowhere: .*nowhere"):
        answer(tmp_path, document)
