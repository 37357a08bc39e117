"""`federator pods` and `logs` as processes, through the query port of a hub that is found by its
Lease: rights on the host, members that are away, and what does not belong on a terminal.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from federator.cli.running import sandbox
from federator.embedded import http
from federator.embedded.storage.messages import Caller
from federator.hub.options import HubOptions
from federator.kube.clock import RealClock
from federator.model.steps import ObjectRef
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from tests.e2e import shells
from tests.e2e.shells import DEADLINE_S, Shell, psvc
from tests.faults.links import Cut, Links, LinkTransport

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

LINKS = Links()
RBAC = "rbac.authorization.k8s.io/v1"
NOISY = {
    "embedded.federator/log-every-seconds": "1",
    "embedded.federator/log-text": "red \x1b[31m alert",
}
RULES = [
    {"apiGroups": ["pinterest.com"], "resources": ["pinterestservices"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    federation = Federation(
        fleet=fleetfile.generated(3),
        clock=RealClock(),
        rng=random.Random(5),
        hub_options=HubOptions(probe_interval_s=0.5, probe_timeout_s=10.0),
        wrap=lambda process, cluster, inner: LinkTransport(inner, LINKS, process, cluster),
        election=True,
    )
    port = await sandbox.query_port(federation)
    try:
        async with shells.running(federation, tmp_path_factory.mktemp("query")) as made:
            web = psvc("web", 6)
            web["spec"]["template"]["metadata"] = {"annotations": NOISY}
            await made.create(web)
            await made.settle()
            yield made
    finally:
        await port.close()


async def test_pods_of_all_clusters_are_shown(shell: Shell) -> None:
    out, err = await shell.run("pods", "psvc/web")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["CLUSTER", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert len(rows) == 7
    assert {row[3] for row in rows[1:]} == {"Running"}
    assert {row[0] for row in rows[1:]} == set(shell.federation.members)
    assert err == ""
    names, _ = await shell.run("pods", "psvc", "web", "-o", "name")
    assert names.split() == [f"{row[0]}/{row[1]}" for row in rows[1:]]
    wide, _ = await shell.run("pods", "psvc/web", "-o", "wide", "-C", rows[1][0], "--no-headers")
    assert all(line.split()[-1].startswith(rows[1][0]) for line in wide.splitlines())


async def test_control_characters_of_a_log_are_shown_unless_they_are_asked_for(
    shell: Shell,
) -> None:
    one = (await shell.run("pods", "psvc/web", "-o", "name"))[0].split()[0]
    cluster, _, pod = one.partition("/")
    where = ("logs", "psvc/web", "-C", cluster, "--pod", pod, "--tail", "1")
    clean, _ = await shell.run(*where)
    assert "red \\u001b[31m alert" in clean
    raw, _ = await shell.run(*where, "--raw")
    assert "red \x1b[31m alert" in raw
    prefixed, _ = await shell.run(*where, "--prefix", "--timestamps")
    assert prefixed.startswith(f"[{cluster}/{pod}/main] 20")


async def test_a_log_is_followed_line_by_line_and_no_line_comes_twice(shell: Shell) -> None:
    process = await shell.start("logs", "psvc/web", "-f", "--tail", "1")
    assert process.stdout is not None
    lines: list[str] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DEADLINE_S):
            while len(lines) < 40:
                lines.append((await process.stdout.readline()).decode())
    process.terminate()
    await process.wait()
    assert len(lines) == 40
    assert len(set(lines)) == 40
    by_pod: dict[str, list[int]] = {}
    for line in lines:
        prefix, _, text = line.partition("] ")
        if text.split()[0].isdecimal():
            by_pod.setdefault(prefix, []).append(int(text.split()[0]))
    assert len(by_pod) == 6
    assert all(numbers == list(range(numbers[0], numbers[-1] + 1)) for numbers in by_pod.values())


async def test_the_owner_of_a_namespace_has_it_explained_and_tries_a_manifest(
    shell: Shell, tmp_path: Path
) -> None:
    await shell.create(psvc("wide", 2, cpu="200"))
    await shell.settle()
    await _grant(
        shell,
        "owner",
        [{"apiGroups": ["pinterest.com"], "resources": ["*"], "verbs": ["get", "create"]}],
    )
    owner = Shell(shell.federation, _as(shell, tmp_path, "owner"))
    out = await _until(owner, "short by 2 (InsufficientCapacity)", "explain", "psvc/wide")
    assert out.startswith("PinterestService/wide  desired 2  placed 0")
    assert "cpu request of container main 200 -> " in out
    assert "kubectl patch pinterestservice wide -n default" in out
    whole = await _until(shell, "short by 2 (InsufficientCapacity)", "explain", "psvc/wide")
    assert whole.splitlines()[5:9] == out.splitlines()[5:9]
    _, refused = await owner.run("explain", "psvc/web", "-n", "kube-system", code=1)
    assert "pinterestservices.pinterest.com" in refused

    path = tmp_path / "try.yaml"
    path.write_text(yaml.safe_dump(psvc("tried", 3)))
    table = await _until(owner, "us-east-1a", "place", "--live", "-f", str(path))
    assert {line.split()[1] for line in table.splitlines()[1:]} == {"PinterestService/tried"}
    assert sum(int(line.split()[3]) for line in table.splitlines()[1:]) == 3
    path.write_text(yaml.safe_dump(psvc("tried", 3, cpu="10000")))
    short = await _until(owner, "InsufficientCapacity", "place", "--live", "-f", str(path), code=3)
    assert "short 3" in short
    path.write_text(yaml.safe_dump({**psvc("tried", 3), "kind": "PinterestJobSet"}))
    assert "spec" in (await owner.run("place", "--live", "-f", str(path), code=1))[1]
    await _grant(shell, "viewer")
    viewer = Shell(shell.federation, _as(shell, tmp_path, "viewer"))
    path.write_text(yaml.safe_dump(psvc("tried", 3)))
    told = (
        'error: user "viewer" cannot create pinterestservices.pinterest.com in the namespace '
        '"default" of the host\n'
    )
    assert (await viewer.run("place", "--live", "-f", str(path), code=1))[1] == told


async def test_a_plan_is_computed_by_the_leader_with_the_caller_s_rights(
    shell: Shell, tmp_path: Path
) -> None:
    lost = min(shell.federation.members)
    table, _ = await shell.run("plan", "--lose", lost, "--no-losses", code=10)
    assert "PinterestService/default/web" in table
    assert f"{lost}: " in table
    shown, _ = await shell.run("plan", "--scale", "psvc/web=1", "-o", "json", code=10)
    (row,) = json.loads(shown)["workloads"]
    assert sum(row["after"].values()) == 1
    _, err = await shell.run("plan", "--lose", "nowhere", code=1)
    assert "there is no cluster nowhere to lose" in err
    await _grant(shell, "planner")
    planner = Shell(shell.federation, _as(shell, tmp_path, "planner"))
    _, refused = await planner.run("plan", "--lose", lost, code=1)
    assert "you cannot update memberclusters.federation.pinterest.com" in refused


async def test_a_member_that_is_away_gives_a_part_a_line_and_exit_1(shell: Shell) -> None:
    away = max(shell.federation.members)
    await LINKS.sever("hub", away, Cut.SILENT)
    try:
        out, err = await shell.run("pods", "psvc/web", "--no-headers", code=1)
    finally:
        LINKS.heal("hub", away, Cut.SILENT)
    assert {line.split()[0] for line in out.splitlines()} == set(shell.federation.members) - {away}
    assert err.startswith(f"{away}: not shown, it ")


async def test_the_caller_s_own_rights_on_the_host_decide(shell: Shell, tmp_path: Path) -> None:
    await _grant(shell, "reader")
    kubeconfig = _as(shell, tmp_path, "reader")
    shown, _ = await Shell(shell.federation, kubeconfig).run("pods", "psvc/web")
    assert len(shown.splitlines()) == 7
    _, refused = await Shell(shell.federation, kubeconfig).run("logs", "psvc/web", code=1)
    assert (
        refused
        == 'error: user "reader" cannot get pods/log in the namespace "default" of the host\n'
    )
    _, elsewhere = await Shell(shell.federation, kubeconfig).run(
        "pods", "psvc/web", "-n", "kube-system", code=1
    )
    assert "cannot get pinterestservices.pinterest.com and list pods" in elsewhere


async def test_a_certificate_that_the_lease_does_not_vouch_for_is_not_spoken_to(
    shell: Shell,
) -> None:
    other = await http.serve(shell.federation.members[min(shell.federation.members)])
    try:
        address = other.url.removeprefix("https://")
        _, err = await shell.run("pods", "psvc/web", "--leader-address", address, code=1)
        assert "is not the leading hub" in err
    finally:
        await other.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("pods", "psvc/none"), '"none" not found in namespace default'),
        (("pods", "pp/x"), "has no pods"),
        (("pods", "psvc"), "name a workload"),
        (("pods", "psvc/web", "-C", "nowhere"), "nowhere has no part of"),
        (("place", "--live", "-f", "-"), "the files contain no workload"),
        (
            ("pods", "psvc/web", "--leader-address", "127.0.0.1:1"),
            "kubectl port-forward -n federator-system pod/hub",
        ),
        (("logs", "psvc/web", "--since", "soon"), "--since soon: give it as"),
        (("logs", "psvc/web", "-c", "none"), "container none is not valid for pod"),
        (("exec", "somewhere/pod", "true"), "you have no context 'somewhere'"),
        (("exec", "psvc/web", "true"), "name the cluster with -C"),
        (("exec", "pod", "true"), "name the cluster, as CLUSTER/POD"),
        (("port-forward", "somewhere/pod", "80"), "you have no context 'somewhere'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_what_cannot_be_done_is_one_sentence(
    shell: Shell, arguments: tuple[str, ...], told: str
) -> None:
    _, err = await shell.run(*arguments, code=1)
    assert told in err
    assert "Traceback" not in err


async def _until(shell: Shell, wanted: str, *arguments: str, code: int = 0) -> str:
    """What a command prints, once it says so: a workload is decided a moment after it was
    created.
    """
    async with asyncio.timeout(DEADLINE_S):
        while True:
            process = await shell.start(*arguments)
            out = (await process.communicate())[0].decode()
            if wanted in out and process.returncode == code:
                return out
            await asyncio.sleep(0.3)


async def _grant(shell: Shell, user: str, mine: list[dict[str, Any]] = RULES) -> None:
    shell.federation.host.add_token(f"token-{user}", Caller(user))
    client = shell.federation.client("host")
    for namespace, rules in (
        ("default", mine),
        (
            "federator-system",
            [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}],
        ),
    ):
        meta = {"name": user, "namespace": namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user}
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
        role = {"apiVersion": RBAC, "kind": "Role", "metadata": meta, "rules": rules}
        bound = {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": reference,
            "subjects": subjects,
        }
        await client.create(ObjectRef(RBAC, "roles", namespace, user, "Role"), role)
        await client.create(ObjectRef(RBAC, "rolebindings", namespace, user, "RoleBinding"), bound)


def _as(shell: Shell, home: Path, user: str) -> Path:
    config = yaml.safe_load(shell.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": f"token-{user}"}
    path = home / f"{user}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path
