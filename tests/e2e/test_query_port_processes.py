"""Pods and logs over a federation of processes: two hubs of which one leads, contexts of one's own,
and kubectl for what goes into a pod.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane import build
from tests.e2e import federations, workloads
from tests.e2e.federations import FEDERATOR, Fleet, Shell, until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("federation commands")]

SPACE = ("-n", "looks")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    with federations.sandbox(tmp_path_factory.mktemp("looks"), separate=True) as found:
        found.host("create", "ns", "looks")
        found.host("apply", "-f", found.manifest(workloads.service("web", "looks", 9)))
        found.ready("looks", "psvc/web")
        yield found


def both(fleet: Fleet) -> str:
    """KUBECONFIG with the host first and every member, as the sandbox has laid them down."""
    return ":".join(str(shell.kubeconfig) for shell in (fleet.host, *fleet.members.values()))


def test_pods_are_the_same_through_the_leader_and_with_one_s_own_contexts(fleet: Fleet) -> None:
    by_leader = fleet.federator("pods", "psvc/web", *SPACE, "-o", "name").split()
    own = fleet.federator(
        "pods", "psvc/web", *SPACE, "-o", "name", "--own-contexts", KUBECONFIG=both(fleet)
    ).split()
    assert by_leader == own
    assert len(own) == 9
    logs = ("logs", "psvc/web", *SPACE, "--tail", "1")
    assert fleet.federator(*logs) == fleet.federator(
        *logs, "--own-contexts", KUBECONFIG=both(fleet)
    )


def test_the_log_of_a_pod_that_is_not_there_is_a_failure(fleet: Fleet) -> None:
    ran = fleet.federator.run("logs", "psvc/web", *SPACE, "--pod", "nobody")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "No pods called nobody of pinterestservice looks/web found.\n"


def test_a_cluster_without_a_context_is_a_line_and_exit_1(fleet: Fleet) -> None:
    ran = fleet.federator.run(
        "pods", "psvc/web", *SPACE, "--own-contexts", KUBECONFIG=_without_last(fleet)
    )
    last = max(fleet.members)
    assert ran.code == 1
    assert ran.err == f"{last}: not shown, it has no context of yours\n"
    assert {row[0] for row in ran.rows[1:]} == set(fleet.members) - {last}


def _without_last(fleet: Fleet) -> str:
    kept = [shell for name, shell in sorted(fleet.members.items()) if name != max(fleet.members)]
    return ":".join(str(shell.kubeconfig) for shell in (fleet.host, *kept))


def test_a_context_that_leads_to_another_cluster_is_not_asked_nor_entered(
    fleet: Fleet, tmp_path: Path
) -> None:
    first, *_, last = sorted(fleet.members)
    swapped = yaml.safe_load(fleet.members[first].kubeconfig.read_text())
    swapped["contexts"][0]["name"] = last
    path = tmp_path / "swapped.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(swapped))
    where = f"{fleet.host.kubeconfig}:{path}"
    ran = fleet.federator.run(
        "pods", "psvc/web", *SPACE, "-C", last, "--own-contexts", KUBECONFIG=where
    )
    told = "is another cluster than the one that your context of this name leads to\n"
    assert (ran.code, ran.err.splitlines()[-1]) == (1, f"{last}: not shown, it {told}".rstrip())
    entered = fleet.federator.run("exec", f"{last}/web-x", *SPACE, "--", "env", KUBECONFIG=where)
    assert (entered.code, entered.err) == (1, f"error: {last} {told}")


def test_exec_and_port_forward_become_kubectl_with_the_member_s_context(
    fleet: Fleet, tmp_path: Path
) -> None:
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\nfor word in "$@"; do printf "<%s>" "$word"; done\n')
    program.chmod(0o700)
    names = fleet.federator("pods", "psvc/web", *SPACE, "-o", "name").split()
    cluster, _, pod = names[0].partition("/")
    where = {"KUBECONFIG": both(fleet), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    shown = fleet.federator(
        "exec", names[0], *SPACE, "-it", "-c", "app", "--", "sh", "-c", "echo hi", **where
    )
    words = [
        f"--context={cluster}",
        "--namespace=looks",
        "exec",
        pod,
        "-c",
        "app",
        "-i",
        "-t",
        "--",
        "sh",
        "-c",
        "echo hi",
    ]
    assert shown == "".join(f"<{word}>" for word in words)
    chosen = fleet.federator("exec", "psvc/web", "-C", cluster, *SPACE, "--", "env", **where)
    assert chosen == f"<--context={cluster}><--namespace=looks><exec><{pod}><--><env>"
    forwarded = fleet.federator("port-forward", names[0], *SPACE, "8080:80", **where)
    assert forwarded == f"<--context={cluster}><--namespace=looks><port-forward><{pod}><8080:80>"
    without = fleet.federator.run(
        "exec", names[0], *SPACE, "--", "env", KUBECONFIG=both(fleet), PATH=str(tmp_path / "no")
    )
    assert (without.code, without.err.partition(" on your PATH")[0]) == (
        1,
        "error: exec needs kubectl",
    )


def test_a_user_with_rights_in_one_namespace_sees_it_and_no_other(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.host("create", "sa", "dev", *SPACE)
    rights = ("--verb=get,list", "--resource=pinterestservices.pinterest.com,pods")
    fleet.host("create", "role", "dev", *rights, *SPACE)
    fleet.host("create", "rolebinding", "dev", "--role=dev", "--serviceaccount=looks:dev", *SPACE)
    config = yaml.safe_load(fleet.host.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": fleet.host("create", "token", "dev", *SPACE).strip()}
    path = tmp_path / "dev.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    dev = Shell(FEDERATOR, tmp_path, path)
    assert len(dev("pods", "psvc/web", *SPACE, "-o", "name").split()) == 9
    user = 'error: user "system:serviceaccount:looks:dev" cannot'
    assert (
        dev.run("logs", "psvc/web", *SPACE).err
        == f'{user} get pods/log in the namespace "looks" of the host\n'
    )
    assert dev.run("pods", "psvc/web", "-n", "default").err.startswith(
        f"{user} get pinterestservices.pinterest.com and"
    )


def test_the_leader_is_found_again_when_another_hub_takes_over(fleet: Fleet) -> None:
    assert fleet.programs is not None
    first = next(child for child in fleet.programs.children if child.name == "hub")
    before = _holder(fleet.host)
    where = [
        "--kubeconfig",
        str(fleet.host.kubeconfig),
        "--config",
        str(fleet.home / "settings.yaml"),
    ]
    fleet.programs.start("hub-2", [*FEDERATOR, "hub", "--allow-loopback", *where])
    standby = ("get", "lease", "federator-hub-standby-0", "-n", "federator-system")
    until(lambda: fleet.host.run(*standby).code == 0, lambda: "no hub stands by")
    assert len(fleet.federator("pods", "psvc/web", *SPACE, "-o", "name").split()) == 9
    fleet.programs.drop(first)
    until(lambda: _holder(fleet.host) not in ("", before), lambda: "nobody has taken the lease")

    def answered() -> bool:
        with contextlib.suppress(AssertionError):
            return len(fleet.federator("pods", "psvc/web", *SPACE, "-o", "name").split()) == 9
        return False

    until(answered, lambda: fleet.federator.run("pods", "psvc/web", *SPACE).err)


def _holder(host: Shell) -> str:
    return host(
        "get",
        "lease",
        "federator-hub",
        "-n",
        "federator-system",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    )
