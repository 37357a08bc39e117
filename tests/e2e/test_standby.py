"""Two hubs as processes of their own, and a member that only one of them reaches: nothing leaves it
while the other one hears it, and all does when none of them can.
"""

import base64
import contextlib
import functools
import json
import os
import selectors
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane import build
from tests.e2e import federations, workloads
from tests.e2e.federations import FEDERATOR, Fleet, until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("standby as a witness")]

SPACE = ("-n", "seen")
COPIES = 6
HOLDS_S = 25.0
UNREADY_S = 5.0


def owner_has(pid: int, port: int, to: int) -> bool:
    """Whether a process has a connection from one of these ports of 127.0.0.1 to the other. Beside
    it there may be others from the same port to elsewhere, also such as nobody has any more.
    """
    ends = [f"0100007F:{end:04X}" for end in (port, to)]
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    wanted = {f"socket:[{row[9]}]" for row in rows if row[1:3] == ends}
    return not wanted.isdisjoint(_open_files(pid))


def _open_files(pid: int) -> Iterator[str]:
    """What a process has open, as far as it does not close it meanwhile."""
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                yield os.readlink(link)


@dataclass(slots=True)
class Gate:
    """Stands before an API server and lets everybody through but the processes in `shut`."""

    to: int
    shut: set[int] = field(default_factory=set)
    port: int = 0
    _through: list[tuple[int, socket.socket, socket.socket]] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def close_to(self, pid: int) -> None:
        """Nothing of this process gets through any more, nor what it has open."""
        self.shut.add(pid)
        for port, *ends in list(self._through):
            if owner_has(pid, port, self.port):
                for end in ends:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Nothing gets through any more, and nothing is left open."""
        for _, client, server in self._through:
            for end in (client, server):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def serve(self, listening: socket.socket) -> None:
        while True:
            try:
                client, (_, port) = listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                client.close()
                continue
            # Noted before it is judged: `close_to` may run meanwhile, and finds it then.
            self._through.append((port, client, server))
            if any(owner_has(pid, port, self.port) for pid in self.shut):
                client.close()
                server.close()
                continue
            self._threads.append(threading.Thread(target=_pass_on, args=(client, server)))
            self._threads[-1].start()


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    others = {client: server, server: client}
    with client, server, selectors.DefaultSelector() as ready, contextlib.suppress(OSError):
        for end in others:
            ready.register(end, selectors.EVENT_READ, end)
        while True:
            for key, _ in ready.select():
                end = key.data
                if not (data := end.recv(65536)):
                    return
                others[end].sendall(data)


@contextlib.contextmanager
def gate(to: int) -> Iterator[Gate]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = Gate(to, port=listening.getsockname()[1])
        threading.Thread(target=found.serve, args=(listening,), daemon=True).start()
        try:
            yield found
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            found.end()


def _through_the_gate(fleet: Fleet, name: str, port: int) -> None:
    """Hubs reach this member by another port from now on."""
    secret = fleet.host.json("get", "secret", name, "-n", "federator-clusters")
    config = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    (cluster,) = config["clusters"]
    cluster["cluster"]["server"] = f"https://127.0.0.1:{port}"
    data = base64.b64encode(yaml.safe_dump(config).encode()).decode()
    patch = json.dumps({"data": {"kubeconfig": data}})
    fleet.host("patch", "secret", name, "-n", "federator-clusters", "--type=merge", "-p", patch)


def _server_port(fleet: Fleet, name: str) -> int:
    config = yaml.safe_load(fleet.members[name].kubeconfig.read_text())
    return int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])


def _keep_history(fleet: Fleet) -> None:
    """Hubs that are started from now on keep one."""
    path = fleet.home / "settings.yaml"
    settings = yaml.safe_load(path.read_text())
    settings["history"] = {"directory": str(fleet.home / "history")}
    path.write_text(yaml.safe_dump(settings))


def _start_hub(fleet: Fleet, name: str) -> int:
    """Starts a hub and returns its process id."""
    settings = yaml.safe_load((fleet.home / "settings.yaml").read_text())
    settings["hub"]["identity"] = name
    settings["history"] = {"directory": str(fleet.home / f"history-{name}")}
    path = fleet.home / f"{name}.yaml"
    path.write_text(yaml.safe_dump(settings))
    assert fleet.programs is not None
    where = ["--kubeconfig", str(fleet.host.kubeconfig), "--config", str(path)]
    return fleet.programs.start(name, [*FEDERATOR, "hub", "--allow-loopback", *where]).process.pid


def test_the_gate_knows_who_has_a_connection_although_its_port_leads_elsewhere_too() -> None:
    """On a busy machine ports are used for several destinations at once, and some of these
    connections are nobody's any more.
    """
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [server.getsockname()[1] for server in servers]
        first = stack.enter_context(socket.socket())
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        port = first.getsockname()[1]
        first.connect(("127.0.0.1", ports[0]))
        for to in ports[1:]:
            beside = stack.enter_context(socket.socket())
            beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            beside.bind(("127.0.0.1", port))
            beside.connect(("127.0.0.1", to))
        for server in servers:
            stack.enter_context(server.accept()[0])
        first.close()
        assert [owner_has(os.getpid(), port, to) for to in ports] == [False, True, True]
        assert not owner_has(os.getppid(), port, ports[1])


def _lease(fleet: Fleet, name: str) -> dict[str, Any]:
    for lease in fleet.host.items("leases", "-n", "federator-system"):
        if lease["metadata"]["name"] == name:
            return lease
    return {}


def _leader(fleet: Fleet) -> str:
    return str(_lease(fleet, "federator-hub").get("spec", {}).get("holderIdentity", ""))


def _account(fleet: Fleet) -> dict[str, Any]:
    """What hub-2 hears; a hub that has just begun to lead has stood by, too."""
    lease = _lease(fleet, "federator-hub-standby-0")
    if not str(lease.get("spec", {}).get("holderIdentity", "")).startswith("hub-2_"):
        return {}
    notes = lease.get("metadata", {}).get("annotations", {})
    return dict(json.loads(notes.get("federation.pinterest.com/sees", "{}")))


def _ready(fleet: Fleet, name: str) -> dict[str, Any]:
    member = fleet.host.json("get", "mc", name)
    return next(one for one in member["status"]["conditions"] if one["type"] == "Ready")


def _shares(fleet: Fleet) -> dict[str, int]:
    (decision,) = fleet.host.items("pd", *SPACE)
    return {one["cluster"]: one["replicas"] for one in decision["spec"]["shares"]}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    options: dict[str, Any] = {
        "unready_after_s": UNREADY_S,
        "probe_timeout_s": 2.0,
        "identity": "hub-1",
        # The standby of this story may not become the leader because the machine is busy.
        "lease_duration_s": 60.0,
        "lease_renew_deadline_s": 50.0,
    }
    with federations.sandbox(tmp_path, separate=True, **options) as found:
        yield found


# 18 CPU-s; tests/unit/hub/test_standby.py and tests/simulation/test_standbys.py test the decision.
@pytest.mark.long
def test_what_only_the_leader_cannot_reach_keeps_its_work_until_the_standby_cannot_either(
    fleet: Fleet,
) -> None:
    assert fleet.programs is not None
    name = min(fleet.members)
    with gate(_server_port(fleet, name)) as between:
        _through_the_gate(fleet, name, between.port)
        _keep_history(fleet)
        former = _leader(fleet)
        fleet.restart("hub")  # one that is well does not read the Secret again
        leader = next(one for one in fleet.programs.children if one.name == "hub").process.pid
        until(lambda: _leader(fleet) not in ("", former), lambda: _leader(fleet))
        standby = _start_hub(fleet, "hub-2")
        fleet.host("create", "ns", "seen")
        division = {"strategy": "Spread"}
        soon = {"afterSeconds": 2, "cooldownSeconds": 5, "failback": "Manual"}
        asked = workloads.service(
            "web", "seen", COPIES, placement={"failover": soon, "division": division}
        )
        fleet.host("apply", "-f", fleet.manifest(asked))
        fleet.ready("seen", "psvc/web")
        before = _shares(fleet)
        assert before[name]
        until(lambda: _account(fleet).get("clusters") == 3, lambda: str(_account(fleet)))
        until(lambda: "silent" not in _account(fleet), lambda: str(_account(fleet)))

        between.close_to(leader)
        hears = "the standby hub hub-2 hears it"
        until(
            lambda: hears in _ready(fleet, name).get("message", ""),
            lambda: str(_ready(fleet, name)),
        )
        with contextlib.suppress(AssertionError):
            until(lambda: _shares(fleet) != before, lambda: "", within_s=HOLDS_S)
        assert _shares(fleet) == before, "its work left it although the standby hears it"
        assert _ready(fleet, name)["status"] == "Unknown"
        told = fleet.host("get", "events", "-n", "default", "-o", "json")
        assert "HeardByStandby" in told

        between.close_to(standby)
        until(lambda: _account(fleet).get("silent") == [name], lambda: str(_account(fleet)))
        until(lambda: name not in _shares(fleet), lambda: str(_shares(fleet)))
        assert sum(_shares(fleet).values()) == COPIES
        (decision,) = fleet.host.items("pd", *SPACE)
        cause = decision["spec"]["causes"][-1]
        assert cause.startswith(f"failover from {name}, not heard since 20")
        assert cause.endswith("(nor by the standby hub hub-2)")
        # The history is written after the decision, in batches.
        shown = functools.partial(fleet.federator, "history", "psvc/web", *SPACE)
        until(lambda: "(nor by the standby hub hub-2)" in shown(), shown)
