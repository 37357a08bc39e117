"""One that fails among several that are named: the exit code is 1, it is named, and the others are
done. Where a command does all or nothing, that is said here.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from federator.cli.main import cli
from federator.gateway import audit
from federator.model.names import PROBE_ANNOTATION, REBALANCE_ANNOTATION
from tests.unit.cli.files import items, member, pjs, psvc, quota, run, write
from tests.unit.cli.hosts import Host

SEVERAL = {
    "get": "test_get_shows_what_exists_and_names_what_does_not",
    "wait": "test_wait_goes_on_with_the_others_and_fails",
    "cluster drain": "test_a_drain_that_the_host_or_the_hub_refuses_fails_and_the_others_go_on",
    "cluster undrain": "test_undrain_ends_the_other_drains_and_fails",
    "cluster grant": "test_grant_lets_the_hub_use_the_other_secrets_and_fails",
    "quota": "test_quota_shows_the_accounts_that_exist_and_fails",
    "validate": "test_validate_checks_the_other_files_and_fails",
    "convert": "test_all_or_nothing_commands_print_nothing_and_name_the_bad_file",
    "place": "test_all_or_nothing_commands_print_nothing_and_name_the_bad_file",
    "plan": "test_all_or_nothing_commands_print_nothing_and_name_the_bad_file",
    "diff": "test_all_or_nothing_commands_print_nothing_and_name_the_bad_file",
    "headroom": "test_all_or_nothing_commands_print_nothing_and_name_the_bad_file",
    "queue": "test_all_or_nothing_commands_print_nothing_and_name_the_bad_file",
    "drill": "test_all_or_nothing_commands_print_nothing_and_name_the_bad_file",
    "rebalance": "test_rebalance_asks_for_the_other_workloads_and_fails",
    "audit verify": "test_audit_verify_checks_the_other_files_and_fails",
    "probe run": "test_probe_run_asks_for_the_other_clusters_and_fails",
    "probe status": "test_probe_status_shows_the_other_clusters_and_fails",
}
"""Command that takes several -> its test."""
ONE = {
    "exec": "several words of one command",
    "port-forward": "several ports of one pod",
    "rollout history": "KIND NAME or KIND/NAME of one workload",
    "rollout restart": "KIND NAME or KIND/NAME of one workload",
    "rollout status": "KIND NAME or KIND/NAME of one workload",
    "rollout undo": "KIND NAME or KIND/NAME of one workload",
    "simulate": "several changes of one scenario, all of which it needs",
    "size": "several changes of one scenario, all of which it needs",
    "submit": "several parameters of one submission",
    "workflow validate": "several parameters of one workflow file",
    "workflow check": "several parameters of one workflow file",
    "cluster add": "several labels of one cluster",
    "signer": "several DNS names of one server",
    "doctor": "several members of one installation; one that does not answer is a finding",
    "support-bundle": "several members of one installation; one that does not answer is a finding",
}
"""Command with an argument or option that may be repeated, for one thing -> what is repeated."""


def commands() -> Iterator[tuple[str, click.Command]]:
    def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                below = command.get_command(click.Context(command), name)
                assert below is not None
                yield from walk(below, (*path, name))
        else:
            yield " ".join(path), command

    return walk(cli, ())


def test_every_command_that_takes_several_has_a_test_of_one_that_fails() -> None:
    several = {
        name
        for name, command in commands()
        if any(each.nargs == -1 or getattr(each, "multiple", False) for each in command.params)
    }
    assert several == SEVERAL.keys() | ONE.keys()
    assert {test for test in SEVERAL.values() if test not in globals()} == set()


def ready(obj: dict[str, Any]) -> dict[str, Any]:
    """A service as settled as `wait --for=ready` wants it."""
    count = obj["spec"]["replicas"]
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    status = {"observedGeneration": 1, "desired": count, "ready": count, "placed": count}
    return {**obj, "status": {**status, "conditions": [condition]}}


def test_get_shows_what_exists_and_names_what_does_not(host: Host) -> None:
    host.make(psvc("web"), psvc("api"), pjs("batch"))

    for words in (("psvc", "web", "gone", "api"), ("psvc/web", "pjs/gone", "psvc/api")):
        done = run("get", *words, "-n", "feed", "-o", "name")
        assert done.exit_code == 1
        assert done.stdout.split() == [
            "pinterestservice.pinterest.com/web",
            "pinterestservice.pinterest.com/api",
        ]
        assert '"gone" not found' in done.stderr
    assert run("get", "psvc", "web", "api", "-n", "feed").exit_code == 0


def test_wait_goes_on_with_the_others_and_fails(host: Host) -> None:
    host.make(ready(psvc("web")), ready(psvc("api")), psvc("slow"))

    done = run(
        "wait", "psvc/web", "psvc/gone", "psvc/api", "--for=ready", "--timeout=0", "-n", "feed"
    )
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "pinterestservice.pinterest.com/web ready condition met",
        "pinterestservice.pinterest.com/api ready condition met",
    ]
    assert '"gone" not found' in done.stderr

    done = run("wait", "psvc/slow", "psvc/api", "--for=ready", "--timeout=0", "-n", "feed")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == ["pinterestservice.pinterest.com/api ready condition met"]
    assert "timed out waiting for pinterestservice.pinterest.com/slow" in done.stderr
    well = run("wait", "psvc/web", "psvc/api", "--for=ready", "--timeout=0", "-n", "feed")
    assert well.exit_code == 0


def drained(name: str, reason: str, status: str = "True", **spec: Any) -> dict[str, Any]:
    """A member of which the hub says already how its drain ended."""
    obj = member(name, **spec)
    condition = {
        "type": "Draining",
        "status": status,
        "reason": reason,
        "message": f"{reason} it is.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 9,
    }
    return {**obj, "status": {**obj["status"], "conditions": [condition]}}


def is_wished(host: Host, *names: str) -> list[bool]:
    """Whether the drain of each is asked for."""
    return [host.find("MemberCluster", name)["spec"].get("drain") is not None for name in names]


def test_a_drain_that_the_host_or_the_hub_refuses_fails_and_the_others_go_on(host: Host) -> None:
    host.make(
        drained("a", "Emptied"),
        drained("b", "NoOtherPlace", "False"),
        drained("c", "Emptied"),
        drained("d", "Emptied"),
    )

    done = run("cluster", "drain", "a", "b", "c", "--timeout=5s")
    assert done.exit_code == 1
    assert {line.partition(":")[0] for line in done.stdout.splitlines()} == {"a", "b", "c"}
    assert "b: NoOtherPlace: NoOtherPlace it is." in done.stdout
    assert is_wished(host, *"abc") == [True, False, True]

    host.refuse("/memberclusters/b")
    for more in (["--no-wait"], ["--timeout=5s"]):
        done = run("cluster", "drain", "b", "d", *more)
        assert done.exit_code == 1
        assert "error: b: " in done.stderr
        assert is_wished(host, "d") == [True]
        assert "d" in done.stdout
    assert run("cluster", "drain", "a", "d", "--no-wait").exit_code == 0


def test_no_cluster_is_drained_when_one_of_the_names_is_wrong(host: Host) -> None:
    host.make(drained("a", "Emptied"))

    done = run("cluster", "drain", "a", "gone", "--no-wait")

    assert (done.exit_code, is_wished(host, "a")) == (1, [False])
    assert "there is no member gone; the members are a" in done.stderr


def test_probe_run_asks_for_the_other_clusters_and_fails(host: Host) -> None:
    host.make(*(member(name) for name in "abc"))
    host.refuse("/memberclusters/b")

    done = run("probe", "run", "a", "b", "c")

    assert done.exit_code == 1
    assert "error: b: " in done.stderr
    asked = [PROBE_ANNOTATION in str(host.find("MemberCluster", name)) for name in "abc"]
    assert asked == [True, False, True]


def test_probe_status_shows_the_other_clusters_and_fails(host: Host) -> None:
    host.make(member("a"), {**member("b"), "status": {"probe": {"result": "Failed"}}}, member("c"))

    done = run("probe", "status", "a", "b", "c")

    assert done.exit_code == 1
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["a", "b", "c"]
    assert run("probe", "status", "a", "c").exit_code == 0


def test_undrain_ends_the_other_drains_and_fails(host: Host) -> None:
    host.make(*(member(name, drain={}) for name in "abcd"))
    host.refuse("/memberclusters/b")

    done = run("cluster", "undrain", "a", "gone", "b", "c")

    assert done.exit_code == 1
    assert is_wished(host, *"abcd") == [False, True, False, True]
    assert "there is no member gone" in done.stderr
    assert "error: b: " in done.stderr
    assert run("cluster", "undrain", "a", "c", "d").exit_code == 0


def test_grant_lets_the_hub_use_the_other_secrets_and_fails(host: Host) -> None:
    def joined(name: str) -> dict[str, Any]:
        return member(name, credentials={"secretRef": {"name": name}})

    host.make(*map(joined, "abc"))
    host.refuse("/roles/federator-hub-b")

    done = run("cluster", "grant", "a", "gone", "b", "c")

    granted = {
        line.split()[0].removeprefix("secret/")
        for line in done.stdout.splitlines()
        if line.startswith("secret/")
    }
    assert done.exit_code == 1
    assert granted == {"a", "c"}
    assert "there is no member gone" in done.stderr
    assert "error: b: " in done.stderr
    assert run("cluster", "grant", "a", "c").exit_code == 0
    assert run("cluster", "grant", "--all").exit_code == 1


def test_quota_shows_the_accounts_that_exist_and_fails(tmp_path: Path) -> None:
    fleet = write(tmp_path, "fleet.yaml", member("a"), quota("feed"), quota("ads"), quota("web"))

    done = run("quota", "feed", "gone", "ads", "-f", fleet, "-o", "json")

    assert done.exit_code == 1
    assert [one["name"] for one in json.loads(done.stdout)["accounts"]] == ["ads", "feed"]
    assert "no FederatedQuota gone; ads, feed, web" in done.stderr
    alone = run("quota", "gone", "-f", fleet)
    assert (alone.exit_code, alone.stdout) == (1, "")
    assert run("quota", "feed", "ads", "-f", fleet).exit_code == 0


def test_rebalance_asks_for_the_other_workloads_and_fails(host: Host, tmp_path: Path) -> None:
    names = ("api", "bad", "web")
    host.make(member("a", 4), *map(psvc, names))
    services = [host.find("PinterestService", name, "feed") for name in names]
    placed = run("place", "-f", write(tmp_path, "f.yaml", member("a", 4), *services), "-o", "json")
    decisions = {obj["spec"]["workload"]["name"]: obj for obj in items(placed.stdout)}
    host.add(*decisions.values())
    host.refuse(f"/placementdecisions/{decisions['bad']['metadata']['name']}")

    done = run("rebalance", "-A")

    assert done.exit_code == 1
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        "PinterestService/feed/api",
        "PinterestService/feed/web",
    ]
    assert "error: PinterestService/feed/bad: " in done.stderr
    asked = [
        REBALANCE_ANNOTATION
        in host.find("PlacementDecision", decisions[name]["metadata"]["name"], "feed")[
            "metadata"
        ].get("annotations", {})
        for name in names
    ]
    assert asked == [True, False, True]


BROKEN: dict[str, str | None] = {
    "invalid": "spec.replicas",
    "torn": "torn.yaml",
    "gone": "gone.yaml",
}


@pytest.mark.parametrize("bad", BROKEN)
@pytest.mark.parametrize("in_folder", [False, True])
def test_validate_checks_the_other_files_and_fails(
    tmp_path: Path, bad: str, in_folder: bool
) -> None:
    files = [write(tmp_path, "a.yaml", psvc("web")), _bad(tmp_path, bad)]
    files.append(write(tmp_path, "z.yaml", pjs("batch")))
    if in_folder and bad == "gone":
        return
    named = [str(tmp_path)] if in_folder else files

    done = run("validate", *(part for name in named for part in ("-f", name)))

    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "PinterestService/web is valid",
        "PinterestJobSet/batch is valid",
    ]
    assert f"error: {files[1]}" in done.stderr
    assert "1 problem in " in done.stderr


def _bad(folder: Path, how: str) -> str:
    if how == "invalid":
        return write(folder, "invalid.yaml", psvc("bad", replicas=-1))
    path = folder / f"{how}.yaml"
    if how == "torn":
        path.write_text("spec: {", encoding="utf-8")
    return str(path)


FLEET = Path(__file__).parents[3] / "config" / "examples" / "place" / "fleet.yaml"
ALL_OR_NOTHING: dict[str, list[str]] = {
    "convert": ["convert"],
    "place": ["place"],
    "plan": ["plan", "--dump", str(FLEET)],
    "diff": ["diff", "--dump", str(FLEET)],
    "queue": ["queue"],
    "drill": ["drill"],
    "headroom": ["headroom", "--shape", "cpu=1"],
    "rebalance": ["rebalance", "psvc/web", "-n", "feed", "--dry-run"],
    "quota": ["quota"],
}
"""What they say is of all files together: of some of them it would be wrong."""


@pytest.mark.parametrize("command", ALL_OR_NOTHING)
@pytest.mark.parametrize("bad", BROKEN)
def test_all_or_nothing_commands_print_nothing_and_name_the_bad_file(
    tmp_path: Path, command: str, bad: str
) -> None:
    good = write(tmp_path, "good.yaml", member("a"), psvc("web"))
    wrong = _bad(tmp_path, bad)
    files = [good, wrong, write(tmp_path, "more.yaml", member("b"))]
    if (command, bad) == ("convert", "invalid"):
        return  # it passes on objects of these kinds as they are
    named = files if command == "convert" else [part for one in files for part in ("-f", one)]

    done = run(*ALL_OR_NOTHING[command], *named)

    assert (done.exit_code, done.stdout) == (1, "")
    assert wrong in done.stderr


def test_audit_verify_checks_the_other_files_and_fails(tmp_path: Path) -> None:
    for name, more in (("a", b""), ("bad", b"{}\n"), ("z", b"")):
        text, _ = audit.line({"what": "start", "process": name, "file": 1}, audit.ZERO)
        (tmp_path / name).write_bytes(text + more)

    done = run("audit", "verify", *(str(tmp_path / name) for name in ("a", "bad", "gone", "z")))

    assert done.exit_code == 1
    assert [row.partition(":")[0] for row in done.stdout.splitlines()] == [
        "process a",
        "process z",
    ]
    assert "bad: line 2: is no line of an audit" in done.stderr
    assert "gone" in done.stderr
