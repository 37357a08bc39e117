"""`federator runtime registered`: the entries of a service, for people."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from federator.cli.running.runtime import runtime
from federator.runtime.traffic import members
from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry
from tests.running.ports import free_port
from tests.traffic import zookeeper
from tests.traffic.registries import member, until


def test_the_weight_of_a_cluster_is_the_sum_of_its_entries() -> None:
    given = ((1, 1, "b"), (2, 1, "a"), (3, 2, "b"))
    entries = [replace(member(n, weight=w), metadata={"cluster": c}) for n, w, c in given]
    assert members.by_cluster([*entries, replace(member(4), metadata={})]) == {
        "": (1, 1),
        "a": (1, 1),
        "b": (2, 3),
    }


@pytest.mark.e2e
def test_the_command_reads_zookeeper_and_reports_what_it_cannot_read(tmp_path: Path) -> None:
    def run(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(runtime, ["registered", *options])
        return done.exit_code, done.output

    async def main() -> None:
        async with zookeeper.serving(tmp_path) as server:
            registry = ZooKeeperRegistry(Server(server.hosts))
            registry.watch(lambda _lost: None)
            await until(lambda: registry.up)
            await registry.join(member(1))
            odd = {"cluster": "b", "pod": "\x1b[31mred"}
            await registry.join(replace(member(2, weight=3), metadata=odd))
            status, text = await asyncio.to_thread(run, "search", "--zookeeper", server.hosts)
            assert status == 0, text
            assert text.splitlines() == [
                "ADDRESS         WEIGHT   CLUSTER   POD",
                "10.0.0.2:8080   1        a         -",
                "10.0.0.3:8080   3        b         \\u001b[31mred",
                "",
                "CLUSTER   ENTRIES   WEIGHT   SHARE",
                "a         1         1        25.0 %",
                "b         1         3        75.0 %",
            ]
            status, text = await asyncio.to_thread(run, "other", "--zookeeper", server.hosts)
            assert (status, text) == (1, "Error: there is no entry in /discovery/other/prod\n")
            await registry.close()

    asyncio.run(main())
    nowhere = f"127.0.0.1:{free_port()}"
    assert run("search", "--zookeeper", nowhere, "--within", "1") == (
        1,
        "Error: the registry has not answered within 1 s\n",
    )
    assert "cannot be the name of a service" in run("a/b", "--zookeeper", nowhere)[1]
    assert "Missing option '--zookeeper'" in run("search")[1]
