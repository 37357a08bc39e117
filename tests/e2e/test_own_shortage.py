"""A hub process that really runs out of file descriptors: it says so, judges nobody by it, and
recovers by itself.
"""

import os
import re
import resource
import signal
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.controlplane import build
from tests.controlplane.processes import Child
from tests.e2e import federations
from tests.e2e.federations import FEDERATOR, Shell, until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,  # 15 CPU-s; tests/unit/hub/test_own_shortage.py tests what the hub decides
    pytest.mark.xdist_group("own shortage"),
]

MEMBERS = 16
TIGHT = 96
"""Descriptors: enough for a hub and some of its members."""
SETTINGS = {
    "hub": {"probe_interval_s": 1.0, "probe_timeout_s": 2.0, "unready_after_s": 5.0},
    "query": {"enabled": False},
}


@dataclass(slots=True)
class Tight:
    """A hub with few descriptors, its host as kubectl and `federator` see it, and where its probes
    are.
    """

    host: Shell
    federator: Shell
    hub: Child

    def readyz(self) -> str:
        """Body of /readyz, whatever its status."""
        found = re.search(r"serving .* on ([0-9.]+:[0-9]+)", self.hub.log.read_text())
        assert found is not None
        try:
            with urllib.request.urlopen(f"http://{found[1]}/readyz", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refused:
            return refused.read().decode()

    def banner(self) -> str:
        """What every table of `federator` is preceded by."""
        return self.federator.run("get", "clusters").err

    def reasons(self) -> Counter[str]:
        """Reasons of Ready of all members."""
        found: Counter[str] = Counter()
        for obj in self.host.items("mc"):
            conditions = (obj.get("status") or {}).get("conditions") or ()
            found.update(one["reason"] for one in conditions if one["type"] == "Ready")
        return found


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[Tight]:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    directory = tmp_path / "sandbox"
    with federations.family(tmp_path) as programs:
        command = [
            *FEDERATOR,
            "sandbox",
            "--clusters",
            str(MEMBERS),
            "--dir",
            str(directory),
            "--api-only",
        ]
        programs.start("sandbox", command)
        programs.wait_until((directory / "ready").exists, "The sandbox", federations.START_S)
        servers = programs.children[0].process.pid
        settings = tmp_path / "settings.yaml"
        settings.write_text(yaml.safe_dump(SETTINGS))
        host = directory / "host.kubeconfig"
        # Nobody answers the hub before its limit is low: it raises its own at the start as far as
        # it may.
        os.kill(servers, signal.SIGSTOP)
        try:
            where = ["--kubeconfig", str(host), "--config", str(settings)]
            hub = programs.start("hub", [*FEDERATOR, "hub", "--allow-loopback", *where])
            until(lambda: "serving /metrics" in hub.log.read_text(), hub.log.read_text)
            _, most = resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE, (TIGHT, most))
        finally:
            os.kill(servers, signal.SIGCONT)
        yield Tight(federations.kubectl(tmp_path, host), Shell(FEDERATOR, tmp_path, host), hub)


def test_a_hub_short_of_descriptors_says_so_calls_nobody_unreachable_and_recovers(
    tight: Tight,
) -> None:
    until(
        lambda: tight.reasons()["NotAsked"] > 0,
        lambda: f"{tight.reasons()} {tight.hub.log.read_text()[-2000:]}",
    )
    until(lambda: tight.reasons().total() == MEMBERS, lambda: f"{tight.reasons()}")
    # Descriptors that were busy at the start come free: then some members can be asked, and not
    # all.
    until(lambda: 0 < tight.reasons()["NotAsked"] < MEMBERS, lambda: f"{tight.reasons()}")
    found = tight.reasons()
    assert found["Unreachable"] == 0, found
    assert f"short of file descriptors (limit {TIGHT})" in tight.readyz()
    assert "docs/operating/descriptors.md" in tight.hub.log.read_text()
    assert tight.hub.process.poll() is None
    # The shortage is noted in the Lease, with its next renewal.
    until(lambda: "which says nothing about them" in tight.banner(), tight.banner)
    assert "No hub leads" not in tight.banner(), "the Lease is renewed all the time"

    _, most = resource.prlimit(tight.hub.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(tight.hub.process.pid, resource.RLIMIT_NOFILE, (most, most))
    until(
        lambda: tight.reasons()["NotAsked"] == 0,
        lambda: f"{tight.reasons()} {tight.hub.log.read_text()[-2000:]}",
    )
    assert tight.reasons()["Unreachable"] == 0
    assert tight.hub.process.poll() is None
