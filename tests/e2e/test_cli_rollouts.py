"""`federator rollout` and `federator wait` as processes, and a real kubectl beside them, on an
embedded federation.

One federation serves all tests of this file; each has a workload of its own.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from federator.kinds import registry
from federator.kube import errors
from federator.kube.clock import RealClock
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from tests.controlplane import build
from tests.e2e import shells
from tests.e2e.shells import DEADLINE_S, Shell, psvc

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]
BROKEN = {"embedded.federator/image-pull-error": "true"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    federation = Federation(fleet=fleetfile.generated(3), clock=RealClock(), rng=random.Random(3))
    async with shells.running(federation, tmp_path_factory.mktemp("rollouts")) as made:
        yield made


async def kubectl(shell: Shell, *args: str) -> tuple[int, str, str]:
    """Runs a real kubectl on the host; the test skips where there is none."""
    found = build.kubectl()
    if found is None:
        pytest.skip("there is no kubectl")
    process = await asyncio.create_subprocess_exec(
        found,
        "--kubeconfig",
        str(shell.kubeconfig),
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    return process.returncode or 0, out.decode(), err.decode()


async def service(shell: Shell, name: str, deadline_s: int = 5) -> None:
    obj = psvc(name, 6)
    obj["spec"]["updateStrategy"] = {"progressDeadlineSeconds": deadline_s}
    await shell.create(obj)
    await shell.run("wait", f"psvc/{name}", "--for=rolled-out", "--timeout", "50s")


async def patch(shell: Shell, kind: str, name: str, body: dict[str, Any]) -> None:
    namespace = "default" if registry.KINDS[kind].namespaced else ""
    await shell.federation.client("host").patch(registry.KINDS[kind].ref(namespace, name), body)


async def annotate(shell: Shell, kind: str, name: str, cause: str, **notes: str) -> None:
    why = {"metadata": {"annotations": {"kubernetes.io/change-cause": cause}}}
    annotations = {
        f"embedded.federator/{note.replace('_', '-')}": value for note, value in notes.items()
    }
    await patch(
        shell, kind, name, {**why, "spec": {"template": {"metadata": {"annotations": annotations}}}}
    )


async def test_a_broken_roll_out_fails_its_watchers_and_undo_heals_it(shell: Shell) -> None:
    await service(shell, "web")
    assert (await kubectl(shell, "wait", "--for=condition=Ready", "psvc/web", "--timeout=60s"))[
        0
    ] == 0

    await annotate(shell, "PinterestService", "web", "a bad day", image_pull_error="true")
    code, _, err = await kubectl(shell, "wait", "--for=condition=Ready", "psvc/web", "--timeout=4s")
    assert (code, "timed out" in err) == (1, True)
    out, err = await shell.run("rollout", "status", "psvc/web", code=1)
    assert any(
        line.startswith("  ") and "updated, " in line and "(ImagePullFailed" in line
        for line in out.splitlines()
    )
    assert 'error: psvc "web" is stalled: ImagePullFailed: ' in err
    assert (
        "is stalled: ImagePullFailed"
        in (await shell.run("wait", "psvc/web", "--for=ready", code=1))[1]
    )
    assert "available condition met" in (await shell.run("wait", "psvc/web", "--for=available"))[0]

    out, _ = await shell.run("rollout", "history", "psvc/web")
    rows = [line.split(maxsplit=1) for line in out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["1", "2"]
    assert "image-pull-error: none -> true" in rows[1][1]
    assert rows[1][1].endswith("a bad day")
    out, _ = await shell.run("rollout", "undo", "psvc/web")
    assert out == "pinterestservice.pinterest.com/web rolled back to revision 1\n"
    out, _ = await shell.run("rollout", "status", "psvc/web", "--timeout", "60s")
    assert out.endswith('psvc "web" successfully rolled out\n')
    out, _ = await shell.run("rollout", "history", "psvc/web")
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["2", "3"]
    out, _ = await shell.run("rollout", "history", "psvc/web", "--revision", "3")
    assert "Changed since revision 2:" in out


async def test_a_plain_deployment_is_followed_by_kubectl_itself(shell: Shell) -> None:
    labels = {"app": "page"}
    spec = {
        **psvc("page", 6)["spec"],
        "selector": {"matchLabels": labels},
        "progressDeadlineSeconds": 5,
    }
    spec["template"]["metadata"] = {"labels": labels}
    meta = {"name": "page", "namespace": "default"}
    await shell.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    )
    await shell.run("wait", "deploy/page", "--for=rolled-out", "--timeout", "50s")
    await shell.run("rollout", "restart", "deploy/page")
    code, out, _ = await kubectl(shell, "rollout", "status", "deployment/page", "--timeout=50s")
    assert (code, out.splitlines()[-1]) == (0, 'deployment "page" successfully rolled out')

    await annotate(shell, "Deployment", "page", "", image_pull_error="true")
    code, _, err = await kubectl(shell, "rollout", "status", "deployment/page", "--timeout=50s")
    assert (code, err.strip()) == (1, 'error: deployment "page" exceeded its progress deadline')
    assert (
        'deployment "page" is stalled: ImagePullFailed'
        in (await shell.run("rollout", "status", "deploy/page", code=1))[1]
    )
    await shell.run("rollout", "undo", "deploy/page")
    await shell.run("wait", "deploy/page", "--for=rolled-out", "--timeout", "50s")
    await shell.run("wait", "deploy/page", "--for=ready", "--timeout", "50s")


async def test_several_are_waited_for_and_those_that_are_not_as_asked_are_named(
    shell: Shell,
) -> None:
    await service(shell, "one")
    await service(shell, "two")
    out, _ = await shell.run("wait", "psvc", "one", "two", "--for=placed")
    assert [line.split("/")[1] for line in out.splitlines()] == [
        "one placed condition met",
        "two placed condition met",
    ]
    out, err = await shell.run("wait", "psvc/one", "psvc/gone", "--for=ready", code=1)
    assert out == "pinterestservice.pinterest.com/one ready condition met\n"
    assert err == 'error: pinterestservices "gone" not found in namespace default\n'
    _, err = await shell.run("wait", "psvc/one", "--for=deleted", "--timeout", "0", code=1)
    assert "timed out waiting for pinterestservice.pinterest.com/one: it exists" in err
    deleting = asyncio.create_task(shell.run("wait", "psvc/two", "--for=deleted"))
    ref = registry.KINDS["PinterestService"].ref("default", "two")
    host = shell.federation.client("host")
    await host.delete(ref, uid=(await host.get(ref))["metadata"]["uid"])
    assert (await deleting)[0] == "pinterestservice.pinterest.com/two deleted\n"


async def test_an_undo_over_somebody_elses_change_is_refused(shell: Shell) -> None:
    await service(shell, "raced")
    await annotate(shell, "PinterestService", "raced", "", start_delay_seconds="0")
    await shell.run("wait", "psvc/raced", "--for=rolled-out", "--timeout", "50s")
    stop = asyncio.Event()

    async def restless() -> None:
        for number in range(10_000):
            if stop.is_set():
                return
            await patch(
                shell,
                "PinterestService",
                "raced",
                {"metadata": {"annotations": {"n": str(number)}}},
            )
            await asyncio.sleep(0)

    busy = asyncio.create_task(restless())
    try:
        _, err = await shell.run("rollout", "undo", "psvc/raced", code=1)
    finally:
        stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await busy
    assert "was changed meanwhile, so it was not written" in err


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (
            ("rollout", "status", "psvc/nope"),
            1,
            'pinterestservices "nope" not found in namespace default',
        ),
        (("rollout", "status", "pjs/index"), 1, "a PinterestJobSet has no rollout"),
        (("rollout", "undo", "psvc/still"), 1, "no rollout history found"),
        (("rollout", "undo", "psvc/still", "--to-revision", "9"), 1, "unable to find revision 9"),
        (("rollout", "undo", "psvc/still", "psvc/web"), 1, "name one workload"),
        (("rollout", "history", "psvc/still", "--revision", "7"), 1, "there are 1"),
        (("rollout", "restart", "mc/a"), 1, "a MemberCluster is not a workload"),
        (("rollout", "restart", "frob/a"), 1, "there is no kind 'frob'"),
        (("wait", "psvc/still", "--for=complete"), 1, "never completes: it is a service"),
        (
            ("wait", "psvc/still", "--for=ready", "--timeout", "soon"),
            2,
            "'soon' is not a duration such as 30s",
        ),
        (("wait", "psvc/still/x", "--for=ready"), 1, "is not KIND/NAME"),
        (("wait", "psvc", "--for=ready"), 1, "name a workload, such as psvc/web"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
async def test_what_cannot_be_done_is_said(
    shell: Shell, command: tuple[str, ...], code: int, says: str
) -> None:
    with contextlib.suppress(errors.AlreadyExists):
        await service(shell, "still")
    assert says in (await shell.run(*command, code=code))[1]


async def test_a_pause_is_told(shell: Shell) -> None:
    await service(shell, "slow")
    await shell.run("pause")
    try:
        _, err = await shell.run("wait", "psvc/slow", "--for=deleted", "--timeout", "2s", code=1)
    finally:
        await shell.run("resume")
    assert err.count("The federation is paused") == 1


async def test_a_lease_that_is_not_renewed_is_told(tmp_path: Path) -> None:
    federation = Federation(
        fleet=fleetfile.generated(1), clock=RealClock(), rng=random.Random(3), hubs=2
    )
    async with shells.running(federation, tmp_path) as shell:
        await service(shell, "web")
        for hub in ("hub-0", "hub-1"):
            await federation.kill(hub)
        _, err = await shell.run("wait", "psvc/web", "--for=deleted", "--timeout", "25s", code=1)
    assert err.count("No hub leads since") == 1


async def test_while_an_edit_is_held_back_every_command_says_so_and_the_old_generation_serves(
    shell: Shell,
) -> None:
    await service(shell, "held", 600)
    account = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "FederatedQuota",
        "metadata": {"name": "all"},
    }
    limit = {"tiers": {"OnDemand": {"max": {"cpu": "100"}}}}
    await shell.create({**account, "spec": {"projects": ["default"], **limit}})
    try:
        larger = psvc("held", 6, cpu="20")["spec"]["template"]
        await patch(shell, "PinterestService", "held", {"spec": {"template": larger}})
        await shell.settle()
        why = (
            "the edit of generation 2 asks for 120 cpu of project default in tier OnDemand (6 "
            "running copies of 20)"
        )
        stays = (
            "FederatedQuota all allows 100 (spec.tiers.OnDemand.max.cpu); the template of generation 1 stays in "
            "force"
        )
        for command, begins in (
            (
                ("rollout", "status", "psvc/held", "--timeout", "2s"),
                "timed out waiting for the rollout of",
            ),
            (("wait", "psvc/held", "--for=rolled-out", "--timeout", "2s"), "timed out waiting for"),
            (("wait", "psvc/held", "--for=ready", "--timeout", "2s"), "timed out waiting for"),
        ):
            _, err = await shell.run(*command, code=1)
            assert err.startswith(f"error: {begins} pinterestservice.pinterest.com/held: "), command
            assert why in err, command
            assert stays in err, command
        assert (
            "available condition met"
            in (await shell.run("wait", "psvc/held", "--for=available"))[0]
        )
        assert "6/6 ready, 6 of an earlier template" in (await shell.run("get", "psvc", "held"))[0]
        found = await shell.json("get", "psvc", "held")
        assert (found["status"]["observedGeneration"], found["status"]["updatedReplicas"]) == (2, 0)
        explained, _ = await shell.run("explain", "psvc/held")
        head = "PinterestService/held  desired 6  placed 6  ready 6  Placed=False (QuotaExceeded)"
        assert explained.splitlines()[0] == head
        assert why in explained.splitlines()[1]

        await patch(
            shell,
            "FederatedQuota",
            "all",
            {"spec": {"tiers": {"OnDemand": {"max": {"cpu": "1000"}}}}},
        )
        out, _ = await shell.run("rollout", "status", "psvc/held", "--timeout", "50s")
        assert out.endswith('psvc "held" successfully rolled out\n')
    finally:
        host = shell.federation.client("host")
        ref = registry.KINDS["FederatedQuota"].ref("", "all")
        await host.delete(ref, uid=(await host.get(ref))["metadata"]["uid"])
