"""From a kubeconfig on disk to answers: certificates, tokens, credential plugins, and nothing left
behind.
"""

import asyncio
import base64
import json
import os
import ssl
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.login import connect, kubeconfigs
from federator.kube.login.kubeconfig import NotConfigured
from federator.kube.wire.http import HttpTransport
from federator.model.steps import ObjectRef
from tests.controlplane import certs
from tests.e2e.rawserver import Asked, RawServer, answer, replying, serving

pytestmark = pytest.mark.e2e

REF = ObjectRef("v1", "configmaps", "ns", "web", "ConfigMap")
OBJECT = json.dumps({"kind": "ConfigMap", "metadata": {"name": "web", "uid": "1"}}).encode()


@pytest.fixture
def files(tmp_path: Path) -> certs.Files:
    return certs.write(tmp_path)


def server_tls(files: certs.Files) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.ca))
    context.load_cert_chain(files.certificate, files.key)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def config(
    server: RawServer, cluster: Mapping[str, Any], user: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": server.url, **cluster}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "two", "context": {"cluster": "c", "user": "nobody"}},
        ],
        "users": [{"name": "u", "user": dict(user)}, {"name": "nobody", "user": {}}],
    }


async def ask(path: Path, context: str = "") -> None:
    client = Client(await connect.from_kubeconfig(str(path), context))
    try:
        await client.get(REF)
    finally:
        await client.close()


async def test_inline_and_named_certificates_do_the_same(
    files: certs.Files, tmp_path: Path
) -> None:
    async with serving(replying(answer(OBJECT)), server_tls(files)) as server:
        for cluster, user in (
            (
                {"certificate-authority-data": inline(files.ca)},
                {
                    "client-certificate-data": inline(files.certificate),
                    "client-key-data": inline(files.key),
                    "token": "t1",
                },
            ),
            (
                {"certificate-authority": files.ca.name},
                {
                    "client-certificate": files.certificate.name,
                    "client-key": files.key.name,
                    "token": "t1",
                },
            ),
        ):
            path = tmp_path / "config"
            path.write_text(json.dumps(config(server, cluster, user)))
            await ask(path)
        assert [asked.headers["authorization"] for asked in server.requests] == ["Bearer t1"] * 2
        await ask(path, "two")
        assert "authorization" not in server.requests[-1].headers
        assert connect.contexts(str(path)) == ("one", "two")


async def test_of_several_files_the_first_that_names_a_context_decides_as_with_kubectl(
    files: certs.Files, tmp_path: Path
) -> None:
    async with serving(replying(answer(OBJECT)), server_tls(files)) as server:
        authority = {"certificate-authority-data": inline(files.ca)}
        paths = []
        for name in ("none", "first", "second"):
            found = config(server, authority, {"token": name})
            found["current-context"] = "" if name == "none" else name
            found["contexts"] = [{"name": name, "context": {"cluster": "c", "user": name}}]
            found["users"][0]["name"] = name
            paths.append(tmp_path / name)
            paths[-1].write_text(json.dumps(found))
        several = ":".join(map(str, paths))
        client = Client(await connect.from_kubeconfig(several))
        await client.get(REF)
        await client.close()
        assert server.requests[-1].headers["authorization"] == "Bearer first"


async def test_nothing_is_left_behind_on_disk_or_open(
    files: certs.Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    async with serving(replying(answer(OBJECT)), server_tls(files)) as server:
        user = {
            "client-certificate-data": inline(files.certificate),
            "client-key-data": inline(files.key),
        }
        path = tmp_path / "config"
        path.write_text(
            json.dumps(config(server, {"certificate-authority-data": inline(files.ca)}, user))
        )
        await ask(path)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            await ask(path)
        async with asyncio.timeout(60):
            while len(os.listdir("/proc/self/fd")) > before + 2:  # noqa: ASYNC110 - closed by and by
                await asyncio.sleep(0.05)
    assert list(scratch.iterdir()) == []


def credential_plugin(room: Path, first: str = ":") -> tuple[dict[str, Any], Path]:
    """A user whose plugin does `first` and says token-N in its Nth run; and the file that has a
    line for each run.
    """
    runs, plugin = room / "runs", room / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        f'echo x >> "{runs}"; number="$(wc -l < "{runs}" | tr -d \' \')"\n'
        f"{first}\n"
        'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"token-%s"}}\' "$number"\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    version = "client.authentication.k8s.io/v1"
    fields = {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}
    return {"exec": fields}, runs


async def takes_the_second_token(asked: Asked, writer: asyncio.StreamWriter) -> None:
    good = asked.headers.get("authorization") == "Bearer token-2"
    writer.write(answer(OBJECT) if good else answer(b"{}", "401 Unauthorized"))


async def test_a_credential_plugin_of_ones_own_kubeconfig_runs_and_runs_again_after_401(
    files: certs.Files, tmp_path: Path
) -> None:
    user, _ = credential_plugin(tmp_path)
    async with serving(takes_the_second_token, server_tls(files)) as server:
        path = tmp_path / "config"
        path.write_text(
            json.dumps(config(server, {"certificate-authority-data": inline(files.ca)}, user))
        )
        await ask(path)
        assert [asked.headers["authorization"] for asked in server.requests] == [
            "Bearer token-1",
            "Bearer token-2",
        ]


async def test_a_slow_credential_plugin_serves_all_who_wait_and_ends_although_one_has_no_time_left(
    files: certs.Files, tmp_path: Path
) -> None:
    """The transport that renews the lease gives a try less time than many a plugin takes; it shares
    the endpoint.
    """
    go = tmp_path / "go"
    user, runs = credential_plugin(
        tmp_path, f'[ "$number" -eq 1 ] || while [ ! -e "{go}" ]; do sleep 0.05; done'
    )
    async with serving(takes_the_second_token, server_tls(files)) as server, asyncio.timeout(60):
        path = tmp_path / "config"
        path.write_text(
            json.dumps(config(server, {"certificate-authority-data": inline(files.ca)}, user))
        )
        transport = await connect.from_kubeconfig(str(path))
        client, renewing = Client(transport), Client(HttpTransport(transport.endpoint))
        hasty = asyncio.create_task(renewing.get(REF))
        while len(runs.read_text().split()) < 2:  # noqa: ASYNC110 - a process of its own writes it
            await asyncio.sleep(0.01)
        patient = asyncio.create_task(client.get(REF))
        while len(server.requests) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        hasty.cancel()
        await asyncio.wait([hasty])
        go.touch()
        assert (await patient)["kind"] == "ConfigMap"
        assert (await renewing.get(REF))["kind"] == "ConfigMap"
        assert len(runs.read_text().split()) == 2
        await renewing.close()
        await client.close()


async def test_a_client_certificate_that_is_replaced_on_disk_is_shown_on_the_next_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "REREAD_S", 0.0)
    (tmp_path / "new").mkdir()
    files, renewed = certs.write(tmp_path), certs.write(tmp_path / "new")
    context = server_tls(files)
    context.load_verify_locations(renewed.ca)
    shown: list[str] = []

    async def handler(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        shown.append(writer.get_extra_info("peercert")["serialNumber"])
        writer.write(answer(OBJECT, "200 OK", "Connection: close"))
        writer.close()

    async with serving(handler, context) as server:
        user = {"client-certificate": files.certificate.name, "client-key": files.key.name}
        path = tmp_path / "config"
        path.write_text(json.dumps(config(server, {"certificate-authority": files.ca.name}, user)))
        client = Client(await connect.from_kubeconfig(str(path)))
        await client.get(REF)
        await client.get(REF)
        for old, new in ((files.certificate, renewed.certificate), (files.key, renewed.key)):
            os.utime(new, (1, 1))
            os.replace(new, old)
        await client.get(REF)
        await client.close()
    assert shown[0] == shown[1] != shown[2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "a: b",
        "{",
        "contexts: 7",
        json.dumps({"current-context": "x", "contexts": [], "clusters": []}),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_one_kind_of_error(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(NotConfigured):
        await connect.from_kubeconfig(str(path))


async def test_no_kubeconfig_at_all_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="nowhere"):
        await connect.from_kubeconfig(str(tmp_path / "nowhere"))


async def test_outside_of_a_cluster_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NotConfigured):
        await connect.in_cluster()


async def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    token = connect.TokenFile(str(path))
    assert await token.authorization() == "Bearer one"
    path.write_text("two\n")
    assert await token.authorization() == "Bearer one"
    assert await token.refresh()
    assert await token.authorization() == "Bearer two"
    assert not await token.refresh()


async def test_a_member_is_reached_through_its_secret_and_no_command_ever_runs(
    files: certs.Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("a command was run")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", never)
    async with serving(replying(answer(OBJECT)), server_tls(files)) as server:
        authority = {"certificate-authority-data": inline(files.ca)}
        data = json.dumps(config(server, authority, {"token": "t1"}) | {"preferences": {}}).encode()
        access = kubeconfigs.member_access(data, allow_loopback=True)
        client = Client(connect.for_member(access, allow_loopback=True))
        await client.get(REF)
        await client.close()
        client = Client(connect.for_member(access))
        with pytest.raises(errors.Unreachable):
            await client.create(REF, {})
        await client.close()
        assert len(server.requests) == 1
