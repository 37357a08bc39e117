"""`federator get` and `federator explain` as processes, against an embedded federation over HTTPS.

One federation serves all tests of this file: each looks at `web`, or at workloads of its own name.
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

from federator.api import raw
from federator.kube.clock import RealClock
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from federator.status.given import Contradiction
from tests.controlplane import build
from tests.e2e import shells
from tests.e2e.shells import DEADLINE_S, Shell, psvc

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    federation = Federation(fleet=fleetfile.generated(3), clock=RealClock(), rng=random.Random(3))
    async with shells.running(federation, tmp_path_factory.mktemp("shell")) as made:
        await made.create(psvc("web", 30, labels={"team": "feed"}))
        await made.settle()
        yield made


async def test_tables_have_the_printer_columns(shell: Shell) -> None:
    out, _ = await shell.run("get", "psvc")

    header, *rows = out.splitlines()
    (row,) = (row for row in rows if row.startswith("web "))
    assert header.split() == ["NAME", "DESIRED", "READY", "CLUSTERS", "PLACED", "STATUS", "AGE"]
    assert row.split()[:5] == ["web", "30", "30", "3", "30"]


async def test_wide_tables_have_more_and_headers_can_be_left_out(shell: Shell) -> None:
    wide, _ = await shell.run("get", "psvc", "-o", "wide")
    bare, _ = await shell.run("get", "psvc", "web", "--no-headers")

    assert "POLICY" in wide.splitlines()[0]
    assert len(bare.splitlines()) == 1


async def test_one_object_is_itself_and_several_are_a_list(shell: Shell) -> None:
    one = await shell.json("get", "psvc", "web")
    same = await shell.json("get", "psvc/web")
    several = await shell.json("get", "clusters")

    assert (one["kind"], one["status"]["ready"]) == ("PinterestService", 30)
    assert same == one
    assert (several["kind"], len(several["items"])) == ("List", 3)


async def test_names_are_printed_as_kubectl_prints_them(shell: Shell) -> None:
    out, _ = await shell.run("get", "clusters", "-o", "name")

    assert out.splitlines()[0] == "membercluster.federation.pinterest.com/eu-west-1a"


async def test_labels_and_namespaces_select(shell: Shell) -> None:
    assert "web" in (await shell.run("get", "psvc", "-l", "team=feed"))[0]
    assert "No resources found" in (await shell.run("get", "psvc", "-l", "team=ads"))[1]
    assert "No resources found" in (await shell.run("get", "psvc", "-n", "kube-system"))[1]
    assert (await shell.run("get", "psvc", "-A"))[0].split()[0] == "NAMESPACE"


async def test_decisions_show_where_things_are(shell: Shell) -> None:
    found = await shell.json("get", "decisions")

    (decision,) = (one for one in found["items"] if one["spec"]["workload"]["name"] == "web")
    assert sum(share["replicas"] for share in decision["spec"]["shares"]) == 30


async def test_what_is_missing_is_told_with_exit_code_1(shell: Shell) -> None:
    out, err = await shell.run("get", "psvc", "web", "nosuch", code=1)

    assert "web" in out
    assert 'pinterestservices "nosuch" not found' in err


async def test_an_unknown_kind_is_told(shell: Shell) -> None:
    assert "there is no kind 'pods'" in (await shell.run("get", "pods", code=1))[1]


async def test_a_host_that_does_not_answer_is_a_sentence(shell: Shell, tmp_path: Path) -> None:
    text = shell.kubeconfig.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "server:" in line)
    dead = tmp_path / "dead.kubeconfig"
    dead.write_text(
        text.replace(line.split("server:")[1].strip(), "https://127.0.0.1:1"), encoding="utf-8"
    )
    _, err = await Shell(shell.federation, dead).run("get", "psvc", code=1)

    assert err.startswith("error: ")
    assert "Traceback" not in err


async def test_several_kinds_are_tables_of_their_own_or_one_list(shell: Shell) -> None:
    out, _ = await shell.run("get", "psvc,clusters", "-A")
    listed = await shell.json("get", "psvc/web", "clusters/eu-west-1a")
    _, err = await shell.run("get", "psvc/web", "eu-west-1a", code=1)

    first, second = out.strip().split("\n\n")
    assert "pinterestservice.pinterest.com/web " in first
    assert second.splitlines()[1].startswith("membercluster.federation.pinterest.com/eu-west-1a ")
    assert [obj["kind"] for obj in listed["items"]] == ["PinterestService", "MemberCluster"]
    assert "not both" in err


@pytest.mark.parametrize(
    "template",
    [
        "{.metadata.name}{'\\n'}",
        '{.status.conditions[?(@.type=="Ready")].status}',
        "{range .status.clusterStatuses[*]}{.cluster}={.replicas} {end}",
        "{.metadata.labels}",
        "{.status.conditions[*].type}",
        "{..cluster}",
        "{.nothing.here}",
        "{.status.conditions[0:2].type}|{.status.clusterStatuses[-1:].ready}",
        "{.status.clusterStatuses[?(@.replicas>0)].cluster}",
    ],
)
async def test_jsonpath_prints_what_kubectl_prints(shell: Shell, template: str) -> None:
    binary = build.kubectl()
    if binary is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    wanted = await asyncio.create_subprocess_exec(
        binary,
        "get",
        "psvc",
        "web",
        "-o",
        f"jsonpath={template}",
        "--kubeconfig",
        str(shell.kubeconfig),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await asyncio.wait_for(wanted.communicate(), DEADLINE_S)

    assert (await shell.run("get", "psvc", "web", "-o", f"jsonpath={template}"))[
        0
    ] == printed.decode()


async def test_a_bad_output_format_is_told(shell: Shell) -> None:
    assert "jsonpath=TEMPLATE" in (await shell.run("get", "psvc", "-o", "table", code=2))[1]
    assert "-o jsonpath: " in (await shell.run("get", "psvc", "-o", "jsonpath={.a", code=1))[1]


async def test_rows_that_are_watched_stand_under_their_headers(shell: Shell) -> None:
    await shell.create(psvc("a-rather-long-name", 1, labels={"team": "aligned"}))
    await shell.settle()
    process = await shell.start("get", "psvc", "-w", "-l", "team=aligned")
    assert process.stdout is not None
    try:
        header = (await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)).decode()
        await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
        await shell.create(psvc("b", 1, labels={"team": "aligned"}))
        row = ""
        async with asyncio.timeout(DEADLINE_S):
            while "1/1 ready" not in row:  # before, its figures are not known
                row = (await process.stdout.readline()).decode()
                assert row.startswith("b ")
        assert row.index("1") == header.index("DESIRED")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


async def test_watching_prints_changes_until_it_is_stopped(shell: Shell) -> None:
    await shell.create(psvc("first", 1, labels={"team": "watched"}))
    process = await shell.start("get", "psvc", "-w", "-o", "name", "-l", "team=watched")
    assert process.stdout is not None
    try:
        assert (
            (await asyncio.wait_for(process.stdout.readline(), DEADLINE_S))
            .decode()
            .strip()
            .endswith("/first")
        )
        await shell.settle()
        await shell.create(psvc("second", 1, labels={"team": "watched"}))
        line = ""
        while not line.endswith("/second"):
            line = (await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)).decode().strip()
            assert line in (
                "pinterestservice.pinterest.com/first",
                "pinterestservice.pinterest.com/second",
            )
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


async def test_explain_agrees_with_the_decision_of_the_hub(shell: Shell) -> None:
    found = await shell.json("explain", "psvc/web")
    decisions = (await shell.json("get", "decisions"))["items"]
    (decision,) = (one for one in decisions if one["spec"]["workload"]["name"] == "web")

    assert {name: found["verdict"][name] for name in ("desired", "placed", "ready")} == {
        "desired": 30,
        "placed": 30,
        "ready": 30,
    }
    assert found["verdict"]["Placed"]["status"] == "True"
    shares = {share["cluster"]: share["replicas"] for share in decision["spec"]["shares"]}
    for name in ("placed", "got", "ready"):
        assert {row["cluster"]: row[name] for row in found["clusters"] if row[name]} == shares


async def test_explain_tells_a_shortfall_and_what_would_lift_it(shell: Shell) -> None:
    await shell.create(psvc("huge", 4, cpu="64"))
    await shell.settle()
    out, _ = await shell.run("explain", "psvc/huge")

    assert out.splitlines()[0] == (
        "PinterestService/huge  desired 4  placed 0  ready 0  Placed=False (InsufficientCapacity)"
    )
    assert "has no node with room for one copy (cpu 64" in out
    assert "short by 4 (InsufficientCapacity)" in out
    assert "cpu request of container main 64 -> " in out


async def test_a_member_is_trusted_again_by_an_operators_word(shell: Shell) -> None:
    async def untrustworthy() -> dict[str, Any]:
        found = await shell.json("get", "mc", "us-west-2a")
        return dict(raw.condition(found, "Untrustworthy"))

    async def until(status: str) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found = await untrustworthy()
                if found.get("status", "False") == status:
                    return found
                await asyncio.sleep(0.2)

    state, now_s = shell.federation.hub.state, shell.federation.clock.monotonic()
    lie = Contradiction("ShardsNotGiven", "it tells of 40 shards that it was never given (20-59)")
    state.hold_against(state.members["us-west-2a"], "a lie that is over", lie, now_s)
    since = (await until("True"))["lastTransitionTime"]
    out, _ = await shell.run("cluster", "trust", "us-west-2a")
    assert out == "membercluster.federation.pinterest.com/us-west-2a is trusted again\n"
    await until("False")
    found = await shell.json("get", "mc", "us-west-2a")
    assert found["metadata"]["annotations"]["federation.pinterest.com/trust-again"] == since
    assert (await shell.run("cluster", "trust", "us-west-2a"))[
        0
    ] == "us-west-2a is not Untrustworthy.\n"
    assert '"none" not found' in (await shell.run("cluster", "trust", "none", code=1))[1]


async def test_explain_names_the_fix_of_a_cordon(shell: Shell) -> None:
    await shell.run("cluster", "cordon", "eu-west-1a")
    await shell.create(psvc("late", 3))
    await shell.settle()
    out, _ = await shell.run("explain", "psvc/late", "--cluster", "eu-west-1a")
    await shell.run("cluster", "uncordon", "eu-west-1a")

    assert "is cordoned (spec.cordoned)" in out
    assert "fix: uncordon eu-west-1a: kubectl patch membercluster eu-west-1a " in out
    assert "us-east-1a  " not in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("psvc/nosuch",), 'pinterestservices "nosuch" not found in namespace default'),
        (("fq/feed",), "a FederatedQuota is not placed"),
        (("psvc",), "name a workload"),
        (
            ("psvc/web", "--cluster", "nosuch"),
            "there is no cluster 'nosuch'; the fleet has eu-west-1a",
        ),
    ],
)
async def test_explain_refuses_with_a_sentence(
    shell: Shell, args: tuple[str, ...], message: str
) -> None:
    assert message in (await shell.run("explain", *args, code=1))[1]


async def test_several_names_are_a_list_even_when_one_is_missing(shell: Shell) -> None:
    out, _ = await shell.run("get", "psvc", "web", "nosuch", "-o", "json", code=1)

    assert [one["metadata"]["name"] for one in json.loads(out)["items"]] == ["web"]


async def test_watched_yaml_is_a_stream_of_documents(shell: Shell) -> None:
    await shell.create(psvc("streamed", 1, labels={"team": "stream"}))
    process = await shell.start("get", "psvc", "-w", "-o", "yaml", "-l", "team=stream")
    assert process.stdout is not None
    try:
        while (
            await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
        ).decode().strip() != "kind: List":
            continue
        await shell.create(psvc("later", 1, labels={"team": "stream"}))
        while (
            line := (await asyncio.wait_for(process.stdout.readline(), DEADLINE_S))
            .decode()
            .rstrip()
        ) != "---":
            assert not line.startswith("apiVersion"), "a second document began without its mark"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()
