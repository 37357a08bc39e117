"""A member whose API server hangs, or whose process has ended, with everything behind it: its
figures are unknown, it is given up as lost, nothing on the host speaks of it any more, and what it
still runs when it comes back goes as it joins again.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import build
from tests.controlplane.processes import Child
from tests.e2e import federations, printed, workloads
from tests.e2e.federations import FEDERATOR, START_S, Fleet, until

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.xdist_group("lost server")]

FAR = "far-1a"
COPIES = 12
UNREADY_S = 5.0


@pytest.fixture
def far(tmp_path: Path) -> Iterator[tuple[Fleet, Child]]:
    """A fleet of three, and the process that serves the API of one of them alone."""
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    with federations.family(tmp_path) as programs:
        servers: dict[str, Child] = {}
        for name, clusters in (("near", 2), ("far", 1)):
            where = ["--dir", str(tmp_path / name), "--seed", str(len(servers) + 1)]
            command = [*FEDERATOR, "sandbox", "--api-only", "--clusters", str(clusters), *where]
            servers[name] = programs.start(name, command)
        for name in servers:
            programs.wait_until((tmp_path / name / "ready").exists, f"The sandbox {name}", START_S)
        kubeconfigs = {one.stem: one for one in sorted((tmp_path / "near").glob("*.kubeconfig"))}
        [kubeconfigs[FAR]] = [
            one for one in (tmp_path / "far").glob("*.kubeconfig") if one.stem != "host"
        ]
        federations.controllers(
            programs, tmp_path, kubeconfigs, unready_after_s=UNREADY_S, probe_timeout_s=2.0
        )
        fleet = federations.fleet_of("processes", tmp_path, kubeconfigs, programs)
        federations.add(fleet, FAR, kubeconfigs[FAR])
        federations.until_joined(programs, fleet)
        try:
            yield fleet, servers["far"]
        finally:
            with contextlib.suppress(ProcessLookupError):  # it was killed
                os.killpg(servers["far"].process.pid, signal.SIGCONT)


def told(fleet: Fleet) -> str:
    """Every table of the federation, and what is said of both services."""
    federator = fleet.federator
    tables = [federator("get", what, "-A") for what in ("psvc", "decisions")]
    explained = [federator("explain", f"psvc/{name}", "-n", "feed") for name in ("web", "pinned")]
    return "\n".join(
        [*tables, federator("get", "clusters"), *explained, fleet.host("get", "psvc,mc,pd", "-A")]
    )


def running(fleet: Fleet) -> None:
    """One service in all clusters, and one in the cluster that will be lost alone."""
    host = fleet.host
    everywhere = {"division": {"strategy": "Weighted"}}
    pinned = {"clusters": {"names": [FAR]}}
    host(
        "apply",
        "-f",
        fleet.manifest(workloads.service("web", "feed", COPIES, placement=everywhere)),
    )
    host("apply", "-f", fleet.manifest(workloads.service("pinned", "feed", 5, placement=pinned)))
    fleet.ready("feed", "psvc/web")
    fleet.ready("feed", "psvc/pinned")
    assert FAR in fleet.spread("psvc", "feed", "web")


def given_up(fleet: Fleet) -> None:
    """The cluster is called lost and removed; then nothing on the host speaks of it, or of copies
    that are unknown.
    """
    host, space = fleet.host, ("-n", "feed")
    host("wait", "--for=condition=Ready=Unknown", f"mc/{FAR}", "--timeout=90s")
    until(lambda: "unknown" in fleet.federator("get", "psvc", "-A"), lambda: told(fleet))
    done = fleet.federator.run("cluster", "remove", FAR, "--lost")
    assert (done.code, done.out) == (
        0,
        f"membercluster.federation.pinterest.com/{FAR} removed\n",
    ), done.err
    fleet.ready("feed", "psvc/web")
    until(lambda: "unknown" not in told(fleet), lambda: told(fleet), 30)
    assert host.json("get", "psvc", "web", *space)["status"]["ready"] == COPIES
    for told_of_others in (("get", "decisions,clusters", "-A"), ("explain", "psvc/web", *space)):
        assert FAR not in fleet.federator(*told_of_others)
    placed = next(
        one
        for one in host.json("get", "psvc", "pinned", *space)["status"]["conditions"]
        if one["type"] == "Placed"
    )
    assert placed["status"] == "False"
    assert FAR in placed["message"]


def test_a_hung_server_is_given_up_and_cleaned_when_it_joins_again_and_a_dead_one_given_up(
    far: tuple[Fleet, Child],
) -> None:
    fleet, server = far
    fleet.host("create", "ns", "feed")
    running(fleet)
    _hangs_and_joins_again(fleet, server)
    fleet.host("delete", "psvc", "web", "pinned", "-n", "feed")
    fleet.host("wait", "--for=delete", "pd", "--all", "-n", "feed", "--timeout=90s")
    running(fleet)
    _has_ended(fleet, server)


def _hangs_and_joins_again(fleet: Fleet, server: Child) -> None:
    host = fleet.host
    os.killpg(server.process.pid, signal.SIGSTOP)
    given_up(fleet)

    os.killpg(server.process.pid, signal.SIGCONT)
    near = {name: shell for name, shell in fleet.members.items() if name != FAR}
    until(
        lambda: fleet.members[FAR].run("get", "ns").code == 0,
        lambda: "the server does not come back",
    )
    assert fleet.replicas("psvc", "feed", "pinned") == 5, "nobody asked for it to be removed"
    assert fleet.federator.run("get", "clusters", FAR).code == 1
    federations.add(fleet, FAR, fleet.members[FAR].kubeconfig)
    host("wait", "--for=condition=Ready", f"mc/{FAR}", "--timeout=90s")
    fleet.ready("feed", "psvc/pinned")
    until(
        lambda: fleet.replicas("psvc", "feed", "web") == COPIES,
        lambda: str(fleet.spread("psvc", "feed", "web")),
    )
    assert set(near) <= set(fleet.spread("psvc", "feed", "web"))
    fleet.ready("feed", "psvc/web")
    assert "unknown" not in told(fleet)


def _has_ended(fleet: Fleet, server: Child) -> None:
    """Its address refuses connections, which is another answer than none; the documents show what
    `federator pods` then prints.
    """
    os.killpg(server.process.pid, signal.SIGKILL)
    fleet.host("wait", "--for=condition=Ready=Unknown", f"mc/{FAR}", "--timeout=90s")
    ran = fleet.federator.run("pods", "psvc/web", "-n", "feed")
    shown = printed.under("docs/using/pods-and-logs.md", "federator pods psvc/web -n feed")
    assert (ran.code, printed.difference(shown, ran.out + ran.err)) == (1, "")
    given_up(fleet)
