"""Every field of the kubeconfig v1 API works as in kubectl or is refused in words.

The fields are those of `client-go@v0.37.2/tools/clientcmd/api/v1/types.go`. What credential plugins
are given, and what arrives over a socket, is in tests/e2e.
"""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.kube import kubeyaml
from federator.kube.login import connect, kubeconfig, tls
from federator.kube.login.kubeconfig import NotConfigured
from federator.kube.wire.http import Endpoint

API: Mapping[str, set[str]] = {
    "Config": {
        "kind",
        "apiVersion",
        "preferences",
        "clusters",
        "users",
        "contexts",
        "current-context",
        "extensions",
    },
    "Cluster": {
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority",
        "certificate-authority-data",
        "proxy-url",
        "disable-compression",
        "extensions",
    },
    "AuthInfo": {
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "token",
        "tokenFile",
        "as",
        "as-uid",
        "as-groups",
        "as-user-extra",
        "username",
        "password",
        "auth-provider",
        "exec",
        "extensions",
    },
    "Context": {"cluster", "user", "namespace", "extensions"},
    "ExecConfig": {
        "command",
        "args",
        "env",
        "apiVersion",
        "installHint",
        "provideClusterInfo",
        "interactiveMode",
    },
}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class World:
    """Writes kubeconfigs, and notes what TLS contexts are made of."""

    def __init__(self, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = room
        self.tls: dict[str, Any] = {}
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setattr(tls, "client_context", lambda **given: self.tls.update(given))
        for name in ("ca", "cert", "key"):
            (room / name).write_text(f"{name} in a file")
        (room / "token").write_text("from-file\n")

    def file(
        self,
        name: str = "config",
        *,
        cluster: Mapping[str, Any] | None = None,
        user: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "one",
            "clusters": [
                {"name": "c", "cluster": {"server": "https://example.com:6443", **(cluster or {})}}
            ],
            "users": [{"name": "u", "user": dict(user or {})}],
            "contexts": [
                {"name": "one", "context": {"cluster": "c", "user": "u", **(context or {})}}
            ],
            **(config or {}),
        }
        path = self.room / name
        path.write_text(yaml.dump(document, Dumper=kubeyaml.Dumper))
        return str(path)

    async def endpoint(self, **parts: Any) -> tuple[Endpoint, str]:
        transport = await connect.from_kubeconfig(self.file(**parts))
        endpoint = transport.endpoint
        return endpoint, await endpoint.credentials.authorization()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


Check = Callable[[Endpoint, str, Mapping[str, Any]], bool]

WORKS: list[tuple[str, str, dict[str, Any], Check]] = [
    ("Config", "kind", {"config": {"kind": None}}, lambda e, h, t: True),
    ("Config", "apiVersion", {"config": {"apiVersion": None}}, lambda e, h, t: True),
    ("Config", "preferences", {"config": {"preferences": {"colors": True}}}, lambda e, h, t: True),
    ("Config", "extensions", {"config": {"extensions": [{"name": "x"}]}}, lambda e, h, t: True),
    (
        "Cluster",
        "server",
        {"cluster": {"server": "https://h/path/"}},
        lambda e, h, t: e.server == "https://h/path",
    ),
    (
        "Cluster",
        "tls-server-name",
        {"cluster": {"tls-server-name": "inner"}},
        lambda e, h, t: e.tls_server_name == "inner",
    ),
    (
        "Cluster",
        "insecure-skip-tls-verify",
        {"cluster": {"insecure-skip-tls-verify": True}},
        lambda e, h, t: t["verify"] is False,
    ),
    (
        "Cluster",
        "certificate-authority",
        {"cluster": {"certificate-authority": "ca"}},
        lambda e, h, t: t["ca_pem"] == b"ca in a file" and t["verify"],
    ),
    (
        "Cluster",
        "certificate-authority-data",
        {"cluster": {"certificate-authority-data": encoded("ca")}},
        lambda e, h, t: t["ca_pem"] == b"ca",
    ),
    (
        "Cluster",
        "proxy-url",
        {"cluster": {"proxy-url": "http://me:pass@proxy:3128"}},
        lambda e, h, t: e.proxy == "http://me:pass@proxy:3128",
    ),
    (
        "Cluster",
        "disable-compression",
        {"cluster": {"disable-compression": True}},
        lambda e, h, t: True,  # answers are never compressed
    ),
    ("Cluster", "extensions", {"cluster": {"extensions": [{"name": "x"}]}}, lambda e, h, t: True),
    (
        "AuthInfo",
        "client-certificate",
        {"user": {"client-certificate": "cert", "client-key": "key"}},
        lambda e, h, t: (t["cert_pem"], t["key_pem"]) == (b"cert in a file", b"key in a file"),
    ),
    (
        "AuthInfo",
        "client-key",
        {"user": {"client-certificate-data": encoded("c"), "client-key": "key"}},
        lambda e, h, t: (t["cert_pem"], t["key_pem"]) == (b"c", b"key in a file"),
    ),
    (
        "AuthInfo",
        "client-certificate-data",
        {"user": {"client-certificate-data": encoded("c"), "client-key-data": encoded("k")}},
        lambda e, h, t: (t["cert_pem"], t["key_pem"]) == (b"c", b"k"),
    ),
    (
        "AuthInfo",
        "client-key-data",
        {"user": {"client-certificate": "cert", "client-key-data": encoded("k")}},
        lambda e, h, t: (t["cert_pem"], t["key_pem"]) == (b"cert in a file", b"k"),
    ),
    ("AuthInfo", "token", {"user": {"token": "t1"}}, lambda e, h, t: h == "Bearer t1"),
    (
        "AuthInfo",
        "tokenFile",
        {"user": {"tokenFile": "token", "token": "t1"}},
        lambda e, h, t: h == "Bearer from-file",
    ),
    (
        "AuthInfo",
        "as",
        {"user": {"token": "t1", "as": "nobody"}},
        lambda e, h, t: e.impersonation == (("Impersonate-User", "nobody"),) and h == "Bearer t1",
    ),
    (
        "AuthInfo",
        "as-uid",
        {"user": {"as": "nobody", "as-uid": "7"}},
        lambda e, h, t: ("Impersonate-Uid", "7") in e.impersonation,
    ),
    (
        "AuthInfo",
        "as-groups",
        {"user": {"as": "nobody", "as-groups": ["a", "b"]}},
        lambda e, h, t: (
            e.impersonation[1:] == (("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
        ),
    ),
    (
        "AuthInfo",
        "as-user-extra",
        {"user": {"as": "nobody", "as-user-extra": {"acme.com/team%": ["x", "y"]}}},
        lambda e, h, t: (
            e.impersonation[1:]
            == tuple(("Impersonate-Extra-acme.com%2Fteam%25", value) for value in "xy")
        ),
    ),
    (
        "AuthInfo",
        "username",
        {"user": {"username": "me", "password": "p:w"}},
        lambda e, h, t: h == f"Basic {encoded('me:p:w')}",
    ),
    (
        "AuthInfo",
        "password",
        {"user": {"password": "p"}},
        lambda e, h, t: h == f"Basic {encoded(':p')}",
    ),
    (
        "AuthInfo",
        "exec",  # not run where there is a token, as in kubectl
        {"user": {"token": "t1", "exec": {"command": "no-such-plugin"}}},
        lambda e, h, t: h == "Bearer t1",
    ),
    ("AuthInfo", "extensions", {"user": {"extensions": [{"name": "x"}]}}, lambda e, h, t: True),
    ("Context", "user", {"context": {"user": None}}, lambda e, h, t: h == ""),
    ("Context", "extensions", {"context": {"extensions": [{"name": "x"}]}}, lambda e, h, t: True),
]
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("Config", "kind", {"config": {"kind": "Pod"}}, "config is no kubeconfig"),
    ("Config", "apiVersion", {"config": {"apiVersion": "v2"}}, "config is no kubeconfig"),
    ("Config", "clusters", {"config": {"clusters": []}}, 'names the cluster "c", which does not'),
    ("Config", "clusters", {"config": {"clusters": {}}}, "clusters must be a list"),
    (
        "Config",
        "clusters",
        {"config": {"clusters": [{"name": "c", "cluster": {}}] * 2}},
        'clusters has the name "c" twice',
    ),
    ("Config", "users", {"config": {"users": []}}, 'names the user "u", which does not exist'),
    ("Config", "users", {"config": {"users": [{"name": "u"}] * 2}}, 'users has the name "u" twice'),
    ("Config", "contexts", {"config": {"contexts": []}}, "holds no context"),
    (
        "Config",
        "current-context",
        {"config": {"current-context": ""}},
        r"no current context: name one with --context \(there are: \"one\"\)",
    ),
    (
        "Config",
        "current-context",
        {"config": {"current-context": "x"}},
        r'holds no context "x" \(there are: "one"\)',
    ),
    ("Context", "cluster", {"context": {"cluster": None}}, "names no cluster"),
    ("Cluster", "server", {"cluster": {"server": ""}}, "has no server"),
    (
        "Cluster",
        "server",
        {"cluster": {"server": 7}},
        r"clusters\[0\].cluster.server must be a text",
    ),
    (
        "Cluster",
        "proxy-url",
        {"cluster": {"proxy-url": "socks5://proxy:1080"}},
        "proxy-url of the kubeconfig: socks5 is not offered",
    ),
    ("Cluster", "proxy-url", {"cluster": {"proxy-url": "proxy"}}, "no address of a proxy"),
    (
        "Cluster",
        "certificate-authority",
        {"cluster": {"certificate-authority": "nowhere"}},
        "certificate-authority cannot be read: No such file",
    ),
    (
        "Cluster",
        "certificate-authority",
        {"cluster": {"certificate-authority": "ca", "certificate-authority-data": encoded("ca")}},
        "only one of them",
    ),
    (
        "Cluster",
        "certificate-authority-data",
        {"cluster": {"certificate-authority-data": "%"}},
        "certificate-authority-data must be base64",
    ),
    (
        "Cluster",
        "insecure-skip-tls-verify",
        {"cluster": {"insecure-skip-tls-verify": True, "certificate-authority": "ca"}},
        "only one of them",
    ),
    (
        "Cluster",
        "insecure-skip-tls-verify",
        {"cluster": {"insecure-skip-tls-verify": "true"}},
        "insecure-skip-tls-verify must be true or false",
    ),
    ("AuthInfo", "token", {"user": {"token": 12}}, r"users\[0\].user.token must be a text"),
    ("AuthInfo", "token", {"user": {"token": "t", "password": "p"}}, "only one of them"),
    ("AuthInfo", "tokenFile", {"user": {"tokenFile": "nowhere"}}, "tokenFile cannot be read"),
    (
        "AuthInfo",
        "client-certificate",
        {"user": {"client-certificate": "cert"}},
        "a client certificate and no client-key",
    ),
    (
        "AuthInfo",
        "client-key",
        {"user": {"client-certificate": "cert", "client-key": "nowhere"}},
        "client-key cannot be read",
    ),
    ("AuthInfo", "as", {"user": {"as": "a\nb"}}, "Impersonate-User has control characters"),
    ("AuthInfo", "as-uid", {"user": {"as-uid": "7"}}, "as-uid, and does not act as another user"),
    ("AuthInfo", "as-groups", {"user": {"as-groups": "g"}}, "as-groups must be a list of texts"),
    ("AuthInfo", "as-groups", {"user": {"as-groups": ["g"]}}, "does not act as another user"),
    (
        "AuthInfo",
        "as-user-extra",
        {"user": {"as": "n", "as-user-extra": {"k": "v"}}},
        "as-user-extra must be a mapping of names to lists of texts",
    ),
    (
        "AuthInfo",
        "auth-provider",
        {"user": {"auth-provider": {"name": "azure"}}},
        'auth-provider "azure", which is not offered. Use a credential plugin',
    ),
    ("AuthInfo", "exec", {"user": {"exec": 1}}, "exec must be a mapping"),
    ("ExecConfig", "command", {"user": {"exec": {}}}, "has no command"),
    (
        "ExecConfig",
        "apiVersion",
        {"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
        "v1alpha1.*accepted are client.authentication.k8s.io/v1 and",
    ),
    (
        "ExecConfig",
        "interactiveMode",
        {"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}},
        "needs an interactiveMode: Never, IfAvailable, Always",
    ),
    ("ExecConfig", "args", {"user": {"exec": {"args": [1]}}}, "exec.args must be a list of texts"),
    ("ExecConfig", "env", {"user": {"exec": {"env": [{"value": "v"}]}}}, "exec.env must be a list"),
    (
        "ExecConfig",
        "provideClusterInfo",
        {"user": {"exec": {"provideClusterInfo": "yes"}}},
        "provideClusterInfo must be true or false",
    ),
]
ELSEWHERE = {
    ("ExecConfig", "installHint"),  # tests/e2e/test_credential_plugins.py
    ("Context", "namespace"),  # below
}


@pytest.mark.parametrize(("type_", "field", "parts", "check"), WORKS)
async def test_a_field_works_as_in_kubectl(
    type_: str, field: str, parts: dict[str, Any], check: Check, world: World
) -> None:
    endpoint, header = await world.endpoint(**parts)
    assert check(endpoint, header, world.tls), (type_, field, endpoint, header)


@pytest.mark.parametrize(("type_", "field", "parts", "message"), REFUSED)
async def test_a_field_that_is_not_offered_or_wrong_is_refused_in_words(
    type_: str, field: str, parts: dict[str, Any], message: str, world: World
) -> None:
    with pytest.raises(NotConfigured, match=message):
        await world.endpoint(**parts)


def test_the_table_has_every_field_of_the_api() -> None:
    tried = {row[:2] for row in WORKS} | {row[:2] for row in REFUSED} | ELSEWHERE
    assert tried == {(type_, field) for type_, fields in API.items() for field in fields}
    for type_, table in (
        ("Cluster", kubeconfig.CLUSTER),
        ("AuthInfo", kubeconfig.USER),
        ("Context", kubeconfig.CONTEXT),
        ("ExecConfig", kubeconfig.EXEC),
    ):
        assert set(table) == API[type_]


def test_the_namespace_is_that_of_the_context(world: World) -> None:
    config = kubeconfig.read(world.file(context={"namespace": "team7"}))
    assert config.context("")[1]["namespace"] == "team7"


async def test_credentials_are_sent_over_tls_only(world: World) -> None:
    """As in kubectl, which acts as another user all the same."""
    user = {"token": "secret", "as": "nobody"}
    endpoint, header = await world.endpoint(cluster={"server": "http://example.com"}, user=user)
    assert (header, endpoint.tls) == ("", None)
    assert endpoint.impersonation == (("Impersonate-User", "nobody"),)


@pytest.mark.parametrize("text", ["", "# nothing here\n", "---\n"])
async def test_an_empty_file_of_a_list_says_nothing(text: str, world: World) -> None:
    empty = world.room / "empty"
    empty.write_text(text)
    transport = await connect.from_kubeconfig(f"{empty}:{world.file(user={'token': 't'})}")
    assert await transport.endpoint.credentials.authorization() == "Bearer t"
    with pytest.raises(NotConfigured, match="empty holds no context"):
        kubeconfig.choose(kubeconfig.read(str(empty)))


async def test_of_several_files_the_first_counts_for_each_name(world: World) -> None:
    first = world.file("first", user={"token": "first"}, config={"current-context": ""})
    second = world.file("second", user={"username": "second"})
    transport = await connect.from_kubeconfig(f"{world.room / 'nowhere'}:{first}:{second}")
    assert await transport.endpoint.credentials.authorization() == "Bearer first"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "bad is no kubeconfig: it must be a mapping"),
        ("a: [", r"bad is no YAML that can be read \(line 2\)"),
        ("clusters: [7]", r"bad: clusters\[0\] must be a mapping with a name"),
        ("users: [{name: u, user: 7}]", r"bad: users\[0\].user must be a mapping"),
        ("current-context: 7", "bad: current-context must be a text"),
    ],
)
async def test_a_broken_file_of_a_list_is_named(text: str, message: str, world: World) -> None:
    bad = world.room / "bad"
    bad.write_text(text)
    with pytest.raises(NotConfigured, match=message):
        await connect.from_kubeconfig(f"{world.file()}:{bad}")


async def test_a_user_who_acts_as_another_one_does_not_ask_the_query_port(world: World) -> None:
    door = connect.Door("https://127.0.0.1:8444", b"", "leader")
    with pytest.raises(NotConfigured, match="query port of the leader does not offer"):
        await connect.to_door(door, world.file(user={"token": "t", "as": "nobody"}))


def test_a_pod_finds_its_service_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connect, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("ca")
    told = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert connect.service_account(told) == (
        "https://10.0.0.1:443",
        tmp_path / "token",
        tmp_path / "ca.crt",
    )
    told["KUBERNETES_SERVICE_HOST"] = "fd00::1"
    assert connect.service_account(told)[0] == "https://[fd00::1]:443"
    with pytest.raises(ValueError, match="KUBERNETES_SERVICE_HOST"):
        connect.service_account({})
    (tmp_path / "token").write_text("")
    with pytest.raises(ValueError, match="token is empty"):
        connect.service_account(told)
