"""`federator test`: files that cannot be used, each with its file, its field and what is accepted."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.files import psvc, run, write
from tests.unit.cli.policysuites import FLEET, HALVES, error, placed, suite


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (
            {"placement": [HALVES]},
            "tests[0].placement: unknown field; is it 'placements'?",
        ),
        (
            {"placements": [{"workload": "psvc/web", "cluster": {"a": 2}}]},
            "tests[0].placements[0].cluster: unknown field; is it 'clusters'?",
        ),
        (
            {"placements": [{"workload": "psvc/wbe", "short": 0}]},
            "tests[0].placements[0].workload: PinterestService/feed/wbe is in no fixture"
            " (is it 'PinterestService/feed/web'?)",
        ),
        (
            {"placements": [{"workload": "web", "short": 0}]},
            "tests[0].placements[0].workload: 'web' is not KIND/NAME or KIND/NAMESPACE/NAME, as"
            " psvc/feed/web",
        ),
        (
            {"placements": [{"workload": "pscv/web", "short": 0}]},
            "tests[0].placements[0].workload: there is no kind 'pscv' (is it 'psvc'?)",
        ),
        (
            {"placements": [{"workload": "cpp/web", "short": 0}]},
            "tests[0].placements[0].workload: a ClusterPlacementPolicy is no workload",
        ),
        (
            {"placements": [{"workload": "cpp/feed/web", "short": 0}]},
            "tests[0].placements[0].workload: a ClusterPlacementPolicy has no namespace; write"
            " cpp/web",
        ),
        (
            {"placements": [{"workload": "psvc/web"}]},
            "tests[0].placements[0]: names nothing to check; add clusters, domains, short or"
            " reason",
        ),
        (
            {"placements": [{"workload": "psvc/web", "clusters": {"c": 1}}]},
            "tests[0].placements[0].clusters.c: the fixtures have no cluster c; there are a, b",
        ),
        (
            {"placements": [{"workload": "psvc/web", "domains": {"zoen": {"a": 1}}}]},
            "tests[0].placements[0].domains.zoen: no cluster of the fixtures has this label (is it"
            " 'zone'?)",
        ),
        (
            {"placements": [{"workload": "psvc/web", "domains": {"zone": {"x": 1}}}]},
            "tests[0].placements[0].domains.zone.x: no cluster has this value; there are a, b",
        ),
        (
            {"placements": [{"workload": "psvc/web", "clusters": {"a": "many"}}]},
            "tests[0].placements[0].clusters.a: 'many' is no number of copies: 3, 2-4 and 2+ are",
        ),
        (
            {"placements": [{"workload": "psvc/web", "clusters": {"a": "4-2"}}]},
            "tests[0].placements[0].clusters.a: '4-2' ends below its beginning; write 2-4",
        ),
        (
            {"placements": [{"workload": "psvc/web", "reason": "QuotaExceded"}]},
            "tests[0].placements[0].reason: 'QuotaExceded' is no reason (is it 'QuotaExceeded'?)",
        ),
        ({}, "tests[0]: expects nothing; add placements, refusals or plan"),
        (
            {"plan": {"expect": {"exit": 0}}},
            "tests[0].plan: names no edit; add apply, delete, lose or scale",
        ),
        (
            {"plan": {"lose": ["a"], "expect": {}}},
            "tests[0].plan.expect: names nothing to check; add exit, moves or workloads",
        ),
        (
            {"plan": {"lose": ["a"], "expect": {"exit": 12}}},
            "tests[0].plan.expect.exit: Input should be 0, 10 or 11",
        ),
        (
            {"plan": {"lose": ["a"], "expect": {"uncovered": ["x"]}}},
            "tests[0].plan.expect.uncovered[0]: the fixtures have no cluster x; there are a, b",
        ),
        (
            {"plan": {"apply": ["none.yaml"], "expect": {"exit": 0}}},
            "tests[0].plan.apply[0]: none.yaml: there is no such file or directory",
        ),
        (
            {"refusals": [{"object": [psvc(), psvc()]}]},
            "is neither a path (from the folder of this file) nor an object",
        ),
        ({"refusals": [{"object": {"kind": "PinterestService"}}]}, "no metadata.name"),
        (
            {"refusals": [{"object": {**psvc(), "kind": "PinterestServise"}}]},
            "tests[0].refusals[0].object.kind: 'PinterestServise' is no kind that is tested (is it"
            " 'PinterestService'?)",
        ),
    ],
)
def test_a_field_that_cannot_be_used_is_named(
    tmp_path: Path, test: dict[str, Any], message: str
) -> None:
    said = error(suite(tmp_path, test))

    assert said.startswith("web.yaml: tests[0]")
    assert message in said


@pytest.mark.parametrize(
    ("fixtures", "message"),
    [
        (["flet.yaml"], "web.yaml: fixtures[0]: flet.yaml: there is no such file or directory"),
        ([psvc(replicas=-1)], "web.yaml: fixtures[0]: spec.replicas: "),
        (
            [*FLEET, psvc(), psvc()],
            "web.yaml: fixtures[3]: metadata.name: PinterestService/web was already given in"
            " fixtures[2]",
        ),
        (
            [{"kind": "Secret", "metadata": {"name": "x"}}],
            "web.yaml: fixtures: fixtures[0]: placing does not read this kind",
        ),
        ([7], "web.yaml: fixtures[0]: '7' is neither a path"),
        (["-"], "web.yaml: fixtures[0]: '-' is neither a path"),
        ([psvc()], "web.yaml: tests[0].fixtures: there is no MemberCluster, so nothing can be"),
    ],
)
def test_a_fixture_that_cannot_be_used_is_named(
    tmp_path: Path, fixtures: list[Any], message: str
) -> None:
    said = error(placed(tmp_path, HALVES, fixtures=fixtures))

    assert message.replace("fixtures: fixtures", "fixtures") in said


def test_a_fixture_file_is_named_with_the_document_and_the_field(tmp_path: Path) -> None:
    write(tmp_path, "fleet.yaml", *FLEET, psvc(replicas=-1))

    said = error(placed(tmp_path, HALVES, fixtures=["fleet.yaml"]))

    assert said.startswith("web.yaml: fixtures: fleet.yaml, document 3: spec.replicas: ")


def test_all_problems_of_a_file_are_reported_and_other_files_run(tmp_path: Path) -> None:
    placed(tmp_path, HALVES, name="good.yaml")
    suite(
        tmp_path,
        {"placements": [{"workload": "psvc/x", "short": 0}]},
        {"placements": [{"workload": "psvc/y", "short": 0}]},
        {"name": "test 1", "placements": [HALVES]},
        name="bad.yaml",
    )

    done = run("test", str(tmp_path))

    assert done.exit_code == 1
    assert [line.split(": ")[2] for line in done.stderr.splitlines()] == [
        "tests[0].placements[0].workload",
        "tests[1].placements[0].workload",
        "tests[2].name",
    ]
    assert "  ok     test 1" in done.stdout
    assert done.stdout.endswith("1 test in 1 file: 1 passed, 0 failed; 1 file cannot be read\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests: [", "not YAML"),
        ("test: []", "is neither a test, which has the field tests, nor an object, which has a"
         " kind; it has test (is it 'tests'?)"),
        ("values: 1", "it has values"),
        ("test: [{fixtures: [{kind: MemberCluster}]}]", "it has test (is it 'tests'?)"),
        ("tests: []\n---\ntests: []", "has 2 documents; a test file has one"),
        ("tests: []", "tests: List should have at least 1 item"),
        ("tests: 3", "tests: must be a list"),
        ("tests: [{}]", "tests[0].name: is required"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_test_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "web.yaml").write_text(text, encoding="utf-8")

    said = error(str(tmp_path))

    assert said.startswith("web.yaml: ")
    assert message in said


@pytest.mark.parametrize("name", ["", "fixture.yaml", "notes.txt"])
def test_a_directory_without_tests_is_an_error(tmp_path: Path, name: str) -> None:
    if name:
        write(tmp_path, name, psvc())

    done = run("test", str(tmp_path))

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: {tmp_path}: contains no test; a test file has the field tests\n"
    )


def test_a_directory_that_is_not_there_is_an_error() -> None:
    done = run("test", "nowhere")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "error: nowhere: there is no such file or directory\n"


@pytest.mark.parametrize("args", [(), ("a", "b"), ("a", "--unknown")])
def test_a_wrong_call_has_exit_code_2(args: tuple[str, ...]) -> None:
    assert run("test", *args).exit_code == 2
