"""`federator place`: what operators run in CI to test policies. Exit codes, formats, errors with
their fields.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.kinds import read
from tests.unit.cli.files import items, member, pjs, policy, psvc, quota, run, write


def shares(found: dict[str, Any]) -> dict[str, Any]:
    return {
        share["cluster"]: share.get("replicas", share.get("ranges"))
        for share in found["spec"]["shares"]
    }


def test_what_fits_is_placed_and_the_exit_code_is_0(tmp_path: Path) -> None:
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), member("b"), psvc()))

    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].split() == [
        "NAMESPACE",
        "WORKLOAD",
        "CLUSTER",
        "SHARE",
        "REASON",
    ]
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["feed", "PinterestService/web", "a", "2"],
        ["feed", "PinterestService/web", "b", "2"],
    ]


def test_a_shortfall_has_exit_code_3_and_its_reason(tmp_path: Path) -> None:
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), psvc(replicas=20)))

    assert done.exit_code == 3
    assert "short 12" in done.stdout
    assert "InsufficientCapacity: 8 of 20 copies are placed, 12 are missing" in done.stdout


def test_the_optimality_gap_is_shown_where_something_is_short(tmp_path: Path) -> None:
    # Each node of 8 cores holds one copy of 5 or two of 4: the first are placed first.
    first = psvc("first", 4, cpu="5", tier="Reserved")
    second = psvc("second", 8, cpu="4")
    fleet = member("a", 4, cpu="8")
    file = write(tmp_path, "all.yaml", fleet, first, second)

    table = run("place", "-f", file).stdout
    listed = json.loads(run("place", "-f", file, "-o", "json").stdout)
    fits = run("place", "-f", write(tmp_path, "one.yaml", fleet, first))

    assert listed["optimality"] == {"placedWork": 62.5, "boundWork": 100.0, "gapPercent": 37.5}
    assert table.splitlines()[-1] == (
        "Optimality gap: at most 37.5 % (placed work 62.5; no placement exceeds 100.0)"
    )
    assert "Optimality" not in fits.stdout


def test_workloads_are_placed_in_the_order_of_the_hub_fewest_places_first(tmp_path: Path) -> None:
    wide, narrow = psvc("any", 12), psvc("only-a", 4, placement={"clusters": {"names": ["a"]}})
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), member("b"), wide, narrow))

    assert done.exit_code == 0, done.stdout


def test_files_are_taken_together_and_stdin_is_one(tmp_path: Path) -> None:
    fleet = write(tmp_path, "fleet.yaml", member("a"), member("b"))
    rules = write(tmp_path, "rules.yaml", policy(clusters={"names": ["b"]}))
    done = run(
        "place", "-f", fleet, "-f", rules, "-f", "-", "-o", "json", stdin=yaml.safe_dump(psvc())
    )

    (decision,) = items(done.stdout)
    assert shares(decision) == {"b": 4}
    assert decision["spec"]["policy"]["name"] == "rules"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_decisions_are_objects_that_our_own_reader_takes(tmp_path: Path, output: str) -> None:
    done = run(
        "place", "-f", write(tmp_path, "all.yaml", member("a"), psvc(), pjs(shards=3)), "-o", output
    )

    found = read.load_yaml(done.stdout)
    assert [obj["kind"] for obj in found] == ["PlacementDecision", "PlacementDecision"]
    for obj in found:
        read.load(obj)


def test_shards_are_printed_as_ranges(tmp_path: Path) -> None:
    done = run(
        "place",
        "-f",
        write(tmp_path, "all.yaml", member("a"), member("b"), pjs(shards=6)),
        "-o",
        "json",
    )

    assert sorted(shares(items(done.stdout)[0]).values()) == ["0-2", "3-5"]


def test_decisions_given_are_the_present_state_and_nothing_moves_without_need(
    tmp_path: Path,
) -> None:
    fleet = [member("a"), member("b")]
    first = run("place", "-f", write(tmp_path, "1.yaml", *fleet, psvc()), "-o", "json")
    (decision,) = items(first.stdout)
    decision["spec"]["shares"] = [{"cluster": "b", "replicas": 4, "seq": decision["spec"]["seq"]}]
    second = run("place", "-f", write(tmp_path, "2.yaml", *fleet, psvc(), decision), "-o", "json")

    assert shares(items(second.stdout)[0]) == {"b": 4}


def test_lowered_requests_free_no_quota_before_members_have_replaced_the_copies(
    tmp_path: Path,
) -> None:
    limit = quota(OnDemand={"max": {"cpu": "4"}})
    start = [member("a"), limit, psvc()]
    first = run("place", "-f", write(tmp_path, "1.yaml", *start), "-o", "json")
    lowered = psvc(cpu="100m")
    lowered["metadata"]["generation"] = 2
    edited = [member("a"), limit, lowered, psvc("next"), *items(first.stdout)]
    second = run("place", "-f", write(tmp_path, "2.yaml", *edited))

    assert second.exit_code == 3
    assert "QuotaExceeded: 0 of 4 copies are placed, 4 are missing" in second.stdout


def test_decisions_of_other_workloads_take_their_room(tmp_path: Path) -> None:
    fleet = [member("a"), member("b")]
    first = run("place", "-f", write(tmp_path, "1.yaml", *fleet, psvc("other", 14)), "-o", "json")
    second = run("place", "-f", write(tmp_path, "2.yaml", *fleet, psvc(), *items(first.stdout)))

    assert second.exit_code == 3
    assert "2 of 4 copies are placed" in second.stdout


def test_quota_limits_and_is_named(tmp_path: Path) -> None:
    limit = quota(OnDemand={"guaranteed": {"cpu": "3"}})
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), limit, psvc()))

    assert done.exit_code == 3
    assert "FederatedQuota feed" in done.stdout


def test_a_parent_that_the_files_lack_is_an_error(tmp_path: Path) -> None:
    above, below = quota("company", OnDemand={"max": {"cpu": "3"}}), quota("feed")
    below["spec"]["parent"] = "compny"
    name = write(tmp_path, "all.yaml", member("a"), above, below, psvc())
    done = run("place", "-f", name)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.strip() == (
        "error: FederatedQuota/feed: spec.parent is compny, and there is no such FederatedQuota; did"
        " you mean company? (add it to the files, or correct spec.parent)"
    )
    below["spec"]["parent"] = "company"
    assert run("place", "-f", write(tmp_path, "all.yaml", member("a"), above, below, psvc())).stdout


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (psvc(replicas=-1), "spec.replicas"),
        (psvc(replicass=3), "spec.replicass"),
        (policy(division={"strategy": "Luck"}), "spec.division.strategy"),
        ({**member("a"), "spec": {"usable": "120%"}}, "spec.usable"),
    ],
)
def test_bad_input_has_exit_code_1_and_names_file_and_field(
    tmp_path: Path, bad: dict[str, Any], field: str
) -> None:
    name = write(tmp_path, "bad.yaml", member("m"), psvc("fine"), bad)
    done = run("place", "-f", name)

    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{name}, document 3: {field}" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "not YAML"), ("- 1", "an object is expected"), ("kind: A\nkind: B", "kind")],
)
def test_what_cannot_be_read_is_told_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    done = run("place", "-f", str(path))

    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {path}: ")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({**psvc(), "apiVersion": "pinterest.com/v1"}, "apiVersion: must be pinterest.com/v1beta1"),
        ({**psvc(), "metadata": {"generateName": "web-"}}, "metadata.name: is required, because"),
        (psvc("fine", replicas=9), "metadata.name: PinterestService/fine was already given in"),
        (
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {}},
            "spec.selector",
        ),
    ],
)
def test_objects_that_would_be_lost_in_silence_are_refused(
    tmp_path: Path, bad: dict[str, Any], message: str
) -> None:
    done = run("place", "-f", write(tmp_path, "bad.yaml", member("m"), psvc("fine"), bad))

    assert (done.exit_code, done.stdout) == (1, "")
    assert f"document 3: {message}" in done.stderr


def test_kinds_that_placing_does_not_read_are_named(tmp_path: Path) -> None:
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "feed"}}
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), psvc(), other))

    assert done.exit_code == 0
    assert "ignored Secret/feed" in done.stderr
    assert "document 3" in done.stderr


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        ({"metadata": {"name": "x"}}, "it has no kind"),
        (
            {"members": [{"name": "a", "nodes": []}]},
            (
                "it looks like a fleet file of federator sandbox; placing reads MemberClusters "
                "(kubectl get mc -o yaml)"
            ),
        ),
    ],
)
def test_an_object_without_kind_is_named_with_what_it_may_be(
    tmp_path: Path, obj: dict[str, Any], why: str
) -> None:
    path = write(tmp_path, "all.yaml", member("a"), psvc(), obj)
    done = run("place", "-f", path)
    assert done.exit_code == 0
    assert done.stderr == f"ignored an object without kind ({path}, document 3): {why}\n"


def test_every_problem_of_an_object_has_a_line_of_its_own(tmp_path: Path) -> None:
    bad = psvc()
    bad["spec"] |= {"replicas": -1, "tier": "Gold"}
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), bad))
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert [line.partition(": spec.")[2].split(":")[0] for line in lines] == ["replicas", "tier"]
    assert all(line.startswith("error: ") and "u000a" not in line for line in lines)


def test_what_the_level_of_a_namespace_forbids_is_told_with_its_field(tmp_path: Path) -> None:
    hostile = psvc()
    hostile["spec"]["template"]["spec"]["hostPID"] = True
    where = {"name": hostile["metadata"].get("namespace", "default")}
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), hostile))
    assert done.exit_code == 3
    assert "PodSecurityViolation: spec.template.spec.hostPID: is true" in done.stdout

    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    open_space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {**where, "labels": labels}}
    done = run("place", "-f", write(tmp_path, "more.yaml", member("a"), hostile, open_space))
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_file_that_is_not_there_is_told() -> None:
    done = run("place", "-f", "nowhere.yaml")

    assert done.exit_code == 1
    assert "nowhere.yaml" in done.stderr


@pytest.mark.parametrize(
    ("objs", "missing"), [([psvc()], "no MemberCluster"), ([member("a")], "no workload")]
)
def test_half_an_input_is_told(tmp_path: Path, objs: list[dict[str, Any]], missing: str) -> None:
    done = run("place", "-f", write(tmp_path, "half.yaml", *objs))

    assert (done.exit_code, done.stdout) == (1, "")
    assert missing in done.stderr


def test_the_same_input_gives_the_same_decision_every_time(tmp_path: Path) -> None:
    name = write(
        tmp_path,
        "all.yaml",
        *(member(f"m{index}", index + 1) for index in range(5)),
        psvc(replicas=17),
    )
    first, second = (items(run("place", "-f", name, "-o", "json").stdout) for _ in range(2))

    for one in (*first, *second):
        one["spec"].pop("asOf")
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.parametrize(
    ("options", "expected"), [((), {"b": 4}), (("-n", "ads"), {"a": 2, "b": 2})]
)
def test_objects_without_a_namespace_are_in_the_default_one_as_for_kubectl(
    tmp_path: Path, options: tuple[str, ...], expected: dict[str, int]
) -> None:
    service, rules = psvc(), policy(clusters={"names": ["b"]})
    del service["metadata"]["namespace"]
    rules["metadata"]["namespace"] = "default"
    path = write(tmp_path, "all.yaml", member("a"), member("b"), service, rules)
    (decision,) = items(run("place", "-f", path, *options, "-o", "json").stdout)

    assert shares(decision) == expected
    assert decision["metadata"]["namespace"] == (options[1] if options else "default")


def test_a_time_of_creation_that_is_none_hurts_nobody(tmp_path: Path) -> None:
    service = psvc()
    service["metadata"]["creationTimestamp"] = "bad"

    assert run("place", "-f", write(tmp_path, "all.yaml", member("a"), service)).exit_code == 0


def test_a_job_set_that_lacks_slots_is_short_although_every_shard_has_a_cluster(
    tmp_path: Path,
) -> None:
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a", 1, cpu="3"), pjs(shards=400)))

    assert done.exit_code == 3
    lines = [line.split(maxsplit=3) for line in done.stdout.splitlines()[1:]]
    assert lines[0] == ["feed", "PinterestJobSet/batch", "a", "0-399 (3 at once)"]
    assert " ".join(lines[1][3].split()).startswith(
        "short of slots InsufficientCapacity: 3 of 400 slots are placed, 397 are missing"
    )


@pytest.mark.parametrize("output", ["json", "yaml", "table"])
def test_the_same_files_print_the_same_whenever_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    silent = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    away = member("b")
    away["status"]["conditions"] = [silent]
    name = write(tmp_path, "all.yaml", member("a"), away, psvc())
    printed = []
    for now in (1_790_000_000.0, 1_799_999_999.0):
        monkeypatch.setattr("time.time", lambda now=now: now)
        printed.append(run("place", "-f", name, "-o", output).stdout)

    assert printed[0] == printed[1]
    if output == "json":
        assert items(printed[0])[0]["spec"]["asOf"] == "2026-01-01T00:00:00.000000Z"


def test_a_policy_in_force_for_nothing_is_warned_of(tmp_path: Path) -> None:
    rules = [
        policy("first", priority=2),
        policy("second"),
        policy("elsewhere", workloads={"projects": ["ads"]}),
    ]
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), psvc(), *rules))

    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "warning: PlacementPolicy feed/second is in force for nothing: it matches "
        "PinterestService/web, which follows "
        "its own placement, or a policy that goes first",
        "warning: PlacementPolicy feed/elsewhere is in force for nothing: it matches no workload",
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusters": {"names": ["us-east", "us-esat"]}}, "clusters.names"),
        ({"clusters": {"exclude": ["us-esat"]}}, "clusters.exclude"),
        (
            {
                "division": {
                    "strategy": "Weighted",
                    "weights": [{"weight": 1, "names": ["us-east", "us-esat"]}],
                }
            },
            "division.weights[0].names",
        ),
        (
            {
                "division": {
                    "groups": [
                        {"name": "g", "names": ["us-east"]},
                        {"name": "h", "names": ["us-esat"]},
                    ]
                }
            },
            "division.groups[1].names",
        ),
    ],
)
def test_names_that_no_cluster_has_are_warned_of(
    tmp_path: Path, spec: dict[str, Any], field: str
) -> None:
    shared = run(
        "place", "-f", write(tmp_path, "1.yaml", member("us-east"), psvc(), policy(**spec))
    )
    inline = run("place", "-f", write(tmp_path, "2.yaml", member("us-east"), psvc(placement=spec)))

    told = f"{field} names us-esat, which no cluster is called; us-east is"
    assert shared.stderr == f"warning: PlacementPolicy feed/rules: spec.{told}\n"
    assert inline.stderr == f"warning: PinterestService/web: spec.placement.{told}\n"


@pytest.mark.parametrize("overlapping", ["pay.example", "*.example"])
def test_a_host_name_of_another_namespace_is_refused(tmp_path: Path, overlapping: str) -> None:
    """The workload that was created first has it; without times the first of the files."""

    def door(namespace: str, host: str, created: str = "") -> dict[str, Any]:
        doors = [{"port": 80, "host": host}]
        obj = psvc(service={"ports": [{"port": 80}]}, loadBalancers=doors)
        obj["metadata"] |= {"namespace": namespace}
        if created:
            obj["metadata"]["creationTimestamp"] = created
        return obj

    first, second = door("pay", overlapping), door("evil", "pay.example")
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), first, second))
    assert done.exit_code == 3
    (row,) = [line for line in done.stdout.splitlines() if "IdentityNotAllowed" in line]
    assert row.split()[0] == "evil"
    assert "spec.loadBalancers[0].host: is pay.example" in row

    older = door("evil", "pay.example", "2026-01-01T00:00:00Z")
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), first, older))
    (row,) = [line for line in done.stdout.splitlines() if "IdentityNotAllowed" in line]
    assert row.split()[0] == "pay"


def test_a_runtime_profile_that_does_not_exist_is_an_error_with_its_field(tmp_path: Path) -> None:
    named = psvc(runtimeProfile="defualt")
    done = run("place", "-f", write(tmp_path, "all.yaml", member("a"), named))
    assert done.exit_code == 1
    assert "spec.runtimeProfile: there is no RuntimeProfile 'defualt'" in done.stderr
