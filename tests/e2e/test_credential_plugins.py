"""What a person's kubeconfig brings to a real connection: all that a credential plugin may be given
and may answer, acting as another user, and proxies."""

import asyncio
import contextlib
import json
import os
import stat
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.login import connect, execplugin
from federator.kube.login.kubeconfig import NotConfigured
from tests.controlplane import certs
from tests.e2e.rawserver import answer, replying, serving
from tests.e2e.test_connect import OBJECT, REF, ask, config, inline, server_tls

pytestmark = pytest.mark.e2e
VERSION = "client.authentication.k8s.io/v1"


@pytest.fixture
def files(tmp_path: Path) -> certs.Files:
    return certs.write(tmp_path)


def plugin(room: Path, answered: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A user whose plugin writes its arguments, environment and a line of each run into `room`."""
    program = room / "plugin"
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> "{room}/runs"; env > "{room}/env"; cat > "{room}/stdin"\n'
        f"cat <<'EOF'\n{json.dumps(answered)}\nEOF\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    given = {"apiVersion": VERSION, "command": "./plugin", "interactiveMode": "IfAvailable"}
    return {"exec": given | fields}


def credential(**status: Any) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}


def environment(room: Path) -> dict[str, str]:
    return dict(
        line.split("=", 1) for line in (room / "env").read_text().splitlines() if "=" in line
    )


async def test_a_plugin_is_given_everything_that_the_kubeconfig_says(
    files: certs.Files, tmp_path: Path
) -> None:
    user = plugin(
        tmp_path,
        credential(token="t1"),
        args=["--for", "me"],
        env=[{"name": "MODE", "value": "quick"}, {"name": "KUBERNETES_EXEC_INFO", "value": "no"}],
        provideClusterInfo=True,
    )
    cluster = {
        "certificate-authority": files.ca.name,
        "tls-server-name": "127.0.0.1",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": [1]}}],
    }
    async with serving(replying(answer(OBJECT)), server_tls(files)) as server:
        path = tmp_path / "config"
        path.write_text(json.dumps(config(server, cluster, user)))
        await ask(path)
        assert server.requests[-1].headers["authorization"] == "Bearer t1"
        given = environment(tmp_path)
        assert (given["MODE"], given["PATH"]) == ("quick", os.environ["PATH"])
        assert json.loads(given["KUBERNETES_EXEC_INFO"]) == {
            "kind": "ExecCredential",
            "apiVersion": VERSION,
            "spec": {
                "interactive": False,
                "cluster": {
                    "server": server.url,
                    "tls-server-name": "127.0.0.1",
                    "certificate-authority-data": inline(files.ca),
                    "config": {"a": [1]},
                },
            },
        }
    assert (tmp_path / "runs").read_text() == "--for me\n"
    assert (tmp_path / "stdin").read_text() == ""


async def test_a_plugin_may_answer_with_a_certificate(files: certs.Files, tmp_path: Path) -> None:
    user = plugin(
        tmp_path,
        credential(
            clientCertificateData=files.certificate.read_text(),
            clientKeyData=files.key.read_text(),
        ),
    )
    shown: list[object] = []

    async def handler(_asked: object, writer: asyncio.StreamWriter) -> None:
        shown.append(writer.get_extra_info("peercert"))
        writer.write(answer(OBJECT))

    async with serving(handler, server_tls(files)) as server:
        path = tmp_path / "config"
        authority = {"certificate-authority-data": inline(files.ca)}
        path.write_text(json.dumps(config(server, authority, user)))
        await ask(path)
        assert shown[0]
        assert "authorization" not in server.requests[0].headers


async def test_a_certificate_that_a_plugin_renews_is_shown_although_connections_are_kept(
    files: certs.Files, tmp_path: Path
) -> None:
    """An API server refuses a certificate that expires on a connection which it was shown on."""
    (tmp_path / "new").mkdir()
    renewed = certs.write(tmp_path / "new")
    user = plugin(tmp_path, {})
    for name, pair in (("first", files), ("second", renewed)):
        status = {
            "clientCertificateData": pair.certificate.read_text(),
            "clientKeyData": pair.key.read_text(),
        }
        (tmp_path / name).write_text(json.dumps(credential(**status)))
    (tmp_path / "plugin").write_text(
        f'#!/bin/sh\ncat "{tmp_path}/first"; mv -f "{tmp_path}/second" "{tmp_path}/first" || true\n'
    )
    context = server_tls(files)
    context.load_verify_locations(renewed.ca)
    good = ""

    async def handler(_asked: object, writer: asyncio.StreamWriter) -> None:
        nonlocal good
        serial = writer.get_extra_info("peercert")["serialNumber"]
        good = good or serial
        expired = serial == good and len(server.requests) > 1
        writer.write(answer(b"{}", "401 Unauthorized") if expired else answer(OBJECT))

    async with serving(handler, context) as server:
        path = tmp_path / "config"
        authority = {"certificate-authority-data": inline(files.ca)}
        path.write_text(json.dumps(config(server, authority, user)))
        client = Client(await connect.from_kubeconfig(str(path)))
        await client.get(REF)
        await client.get(REF)
        assert (len(server.requests), server.connections) == (3, 2)
        await client.close()


async def test_an_expired_credential_is_asked_for_again(files: certs.Files, tmp_path: Path) -> None:
    stamp = datetime.fromtimestamp(time.time() - 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    user = plugin(tmp_path, credential(token="t1", expirationTimestamp=stamp))
    async with serving(replying(answer(OBJECT)), server_tls(files)) as server:
        path = tmp_path / "config"
        authority = {"certificate-authority-data": inline(files.ca)}
        path.write_text(json.dumps(config(server, authority, user)))
        await ask(path)
    assert len((tmp_path / "runs").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("fields", "answered", "message"),
    [
        (
            {"command": "no-such-plugin", "installHint": "brew install it\x1b[1m"},
            {},
            r'the program "no-such-plugin" is not installed.\n\nbrew install it\\u001b\[1m$',
        ),
        ({"command": "/dev/null"}, {}, "cannot be run: Permission denied"),
        ({"command": "false"}, {}, '"false" failed with exit code 1'),
        ({"command": "echo"}, {}, "did not answer with JSON"),
        ({"interactiveMode": "Always"}, {}, "standard input is no terminal"),
        ({}, {"kind": "Status"}, "did not answer with an ExecCredential"),
        ({}, credential() | {"apiVersion": VERSION + "beta1"}, "answered with another version"),
        ({}, credential(), "neither a token nor a certificate"),
        ({}, credential(clientKeyData="k"), "only one of certificate and key"),
        ({}, credential(token=7), "a credential that is no text"),
        ({}, credential(token="t", expirationTimestamp="soon"), "that is no time"),
    ],
)
async def test_a_plugin_that_fails_is_named_with_the_reason(
    fields: dict[str, Any], answered: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    user = plugin(tmp_path, answered, **fields)
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "one", "context": {"cluster": "c", "user": "u"}}
    path.write_text(
        json.dumps(
            {
                "current-context": "one",
                "clusters": [cluster],
                "contexts": [context],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    with pytest.raises(NotConfigured, match=message):
        await connect.from_kubeconfig(str(path))


async def test_a_plugin_that_does_not_end_is_ended(
    files: certs.Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execplugin, "RUN_S", 0.3)
    user = plugin(tmp_path, {}, command="sleep", args=["60"])
    async with serving(replying(b""), server_tls(files)) as server:
        path = tmp_path / "config"
        path.write_text(json.dumps(config(server, {}, user)))
        with pytest.raises(NotConfigured, match="has not ended in time"):
            await connect.from_kubeconfig(str(path))


async def test_requests_of_a_user_who_acts_as_another_one_say_so(
    files: certs.Files, tmp_path: Path
) -> None:
    user = {
        "token": "admin",
        "as": "nobody-x",
        "as-groups": ["a", "b"],
        "as-uid": "7",
        "as-user-extra": {"k": ["1", "2"]},
    }
    async with serving(replying(answer(OBJECT)), server_tls(files)) as server:
        path = tmp_path / "config"
        authority = {"certificate-authority-data": inline(files.ca)}
        path.write_text(json.dumps(config(server, authority, user)))
        await ask(path)
        headers = server.requests[-1].headers
        sent = {name: value for name, value in headers.items() if name.startswith("impersonate")}
        assert sent == {
            "impersonate-user": "nobody-x",
            "impersonate-uid": "7",
            "impersonate-group": "a, b",
            "impersonate-extra-k": "1, 2",
        }


@contextlib.asynccontextmanager
async def proxy(port: int, status: str = "200 OK") -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that answers CONNECT with a way to a loopback port; its URL, and what it was asked
    for."""
    asked: list[str] = []

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode())
        writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())
        if not status.startswith("200"):
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pour(reader, back), pour(there, writer))

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", asked
    finally:
        listening.close()


@pytest.mark.parametrize("where", ["environment", "kubeconfig"])
async def test_a_server_is_reached_through_the_proxy_of_the_environment_or_the_file(
    where: str, files: certs.Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serving(replying(answer(OBJECT)), server_tls(files)) as server,
        proxy(server.port) as (url, asked),
    ):
        cluster = {
            "server": f"https://api.invalid:{server.port}",
            "tls-server-name": "127.0.0.1",
            "certificate-authority-data": inline(files.ca),
        }
        if where == "environment":
            monkeypatch.setenv("HTTPS_PROXY", url)
        else:
            cluster["proxy-url"] = url
        path = tmp_path / "config"
        path.write_text(json.dumps(config(server, cluster, {"token": "t"})))
        await ask(path)
        assert asked == [f"CONNECT api.invalid:{server.port} HTTP/1.1"]
        assert server.requests[-1].headers["authorization"] == "Bearer t"


async def test_a_proxy_that_refuses_is_named(files: certs.Files, tmp_path: Path) -> None:
    async with proxy(0, "407 Proxy Authentication Required") as (url, _):
        path = tmp_path / "config"
        cluster = {"server": "https://api.invalid", "proxy-url": url}
        document = {
            "current-context": "one",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "one", "context": {"cluster": "c"}}],
        }
        path.write_text(json.dumps(document))
        client = Client(await connect.from_kubeconfig(str(path)))
        with pytest.raises(errors.Unreachable, match="its proxy answers with status 407"):
            await client.create(REF, {})
        await client.close()
