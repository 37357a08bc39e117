"""What commands show and say while the federation is paused, or no hub leads."""

import asyncio
from typing import Any

import pytest

from federator.cli.main import cli
from federator.model.steps import ObjectRef
from tests.unit.cli.files import member, pjs, psvc, run
from tests.unit.cli.hosts import Host

SYSTEM = "federator-system"
LONG_AGO = "2026-01-01T00:00:00.000000Z"


def halt(host: Host, how: str) -> None:
    """Pauses the federation, or leaves a Lease that nobody renews."""

    async def work() -> None:
        client = host.client()
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
        await client.create(ObjectRef("v1", "namespaces", "", SYSTEM), space)
        meta: dict[str, Any] = {"namespace": SYSTEM}
        if how == "paused":
            ref = ObjectRef("v1", "configmaps", SYSTEM, "federator", "ConfigMap")
            body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"paused": "true"}}
            meta["name"] = "federator"
        else:
            ref = ObjectRef("coordination.k8s.io/v1", "leases", SYSTEM, "federator-hub", "Lease")
            spec = {"holderIdentity": "hub-0", "renewTime": LONG_AGO, "leaseDurationSeconds": 15}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
            meta["name"] = "federator-hub"
        await client.create(ref, {**body, "metadata": meta})

    asyncio.run(work())


def row(text: str, name: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name} "))
    return [cell for cell in line.split("   ") if cell.strip()]


@pytest.mark.parametrize("how", ["paused", "no hub leads"])
def test_a_table_shows_the_count_of_the_spec_and_that_nothing_acts_on_it(
    host: Host, how: str
) -> None:
    reported = {"desired": 4, "summary": "4/4 ready in 2 clusters"}
    host.make({**psvc("web", 9), "status": reported}, psvc("new", 3), pjs("batch"))
    assert row(run("get", "psvc", "-n", "feed").stdout, "web")[1].strip() == "4"

    halt(host, how)
    shown = run("get", "psvc", "-n", "feed").stdout

    web, new = row(shown, "web"), row(shown, "new")
    assert web[1].strip() == "9"
    assert f"{how}; 4/4 ready in 2 clusters" in [cell.strip() for cell in web]
    assert (new[1].strip(), how in [cell.strip() for cell in new]) == ("3", True)
    assert run("get", "psvc/web", "-n", "feed").stdout.count(how) == 1
    assert how in run("get", "pjs", "-n", "feed").stdout


@pytest.mark.parametrize("how", ["paused", "no hub leads"])
def test_a_removal_that_no_hub_carries_out_says_so_and_ends_by_its_timeout(
    host: Host, how: str
) -> None:
    host.make(member("a"))
    halt(host, how)

    done = run("cluster", "remove", "a", "--timeout", "1s")

    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert f"the removal of a waits: {how}" in lines
    cancel = "federator cluster remove a --cancel"
    assert f"the removal of a waits: {how}; to end it: {cancel}" in lines


def test_resume_says_when_there_was_no_pause(host: Host) -> None:
    host.make()
    halt(host, "paused")

    assert run("resume").stdout == "resumed\n"
    assert run("resume").stdout == "The federation is not paused: nothing to resume.\n"


def test_the_shell_completes_commands_without_importing_them() -> None:
    import click

    completed = cli.shell_complete(click.Context(cli), "de")

    assert [item.value for item in completed] == ["demo", "describe"]
    assert all(item.help for item in completed)
