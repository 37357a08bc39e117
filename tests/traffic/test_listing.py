"""`federator runtime registered`: the entries of a service, for people."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from federator.cli.running.runtime import runtime
from federator.runtime.traffic import listing
from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry
from tests.controlplane.plane import free_port
from tests.traffic import zookeeper
from tests.traffic.registries import member, until


def test_the_weight_of_a_cluster_is_the_sum_of_its_entries() -> None:
    entries = [replace(member(n, weight=w), metadata={"cluster": c, "pod": f"p-{n}"}) for n, w, c in
               ((1, 1, "a"), (2, 1, "a"), (3, 2, "b"))]  # fmt: skip
    nameless = replace(member(4), metadata={"pod": "\x1b[31mred"})
    assert listing.table([*entries, nameless]) == [
        "ADDRESS         WEIGHT   CLUSTER   POD",
        "10.0.0.2:8080   1        a         p-1",
        "10.0.0.3:8080   1        a         p-2",
        "10.0.0.4:8080   2        b         p-3",
        "10.0.0.5:8080   1        -         ?[31mred",
        "",
        "CLUSTER   ENTRIES   WEIGHT   SHARE",
        "-         1         1        20.0 %",
        "a         2         2        40.0 %",
        "b         1         2        40.0 %",
    ]


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
            status, text = await asyncio.to_thread(run, "search", "--zookeeper", server.hosts)
            assert status == 0, text
            assert "10.0.0.2:8080   1        a" in text
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
