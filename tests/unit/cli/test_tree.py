"""`federator tree` draws what the objects of a workload are made of, whatever a member says of it."""

from typing import Any

from federator.cli.leader import tree

CLUSTERS = [{"cluster": "a"}]


def row(title: str, **more: str) -> dict[str, Any]:
    kind, _, name = title.partition("/")
    return {"cluster": "a", "kind": kind, "name": name, "health": "Healthy", **more}


def test_what_a_controller_made_stands_below_what_it_made_it_of() -> None:
    rows = [
        row("Job/r-worker-0", owner="JobSet/r", health="Degraded", reason="BackoffLimitExceeded"),
        row("Job/r-master-0", owner="JobSet/r"),
        row("JobSet/r", owner="TrainJob/r"),
        row("TrainJob/r"),
        row("TrainingRuntime/r"),
    ]

    assert tree.drawn("training job ads/r", rows, [*CLUSTERS, {"cluster": "b"}]) == [
        "training job ads/r",
        "├── a",
        "│   ├── TrainJob/r  Healthy",
        "│   │   └── JobSet/r  Healthy",
        "│   │       ├── Job/r-worker-0  Degraded (BackoffLimitExceeded)",
        "│   │       └── Job/r-master-0  Healthy",
        "│   └── TrainingRuntime/r  Healthy",
        "└── b",
    ]


def test_owners_in_a_circle_and_namesakes_are_drawn_once_each() -> None:
    circle = [row("Job/one", owner="Job/other"), row("Job/other", owner="Job/one")]
    own = [row("Job/own", owner="Job/own") for _ in range(64)]

    assert len(tree.drawn("x", circle, CLUSTERS)) == 2 + len(circle)
    assert len(tree.drawn("x", own, CLUSTERS)) == 2 + len(own)


def test_what_names_an_owner_that_is_not_listed_is_drawn_all_the_same() -> None:
    assert tree.drawn("x", [row("Job/left", owner="JobSet/gone")], CLUSTERS)[-1] == (
        "    └── Job/left  Healthy"
    )
