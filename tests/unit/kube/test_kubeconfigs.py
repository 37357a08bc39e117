"""What may be in a member's kubeconfig, by a table of what may not; and the addresses that no
member has.
"""

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from federator.kube.login import kubeconfigs
from federator.kube.wire import addresses

CA = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").decode()
KEY = base64.b64encode(
    b"-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\n"
).decode()
CANARY = "s3cr3t-canary-token"

GOOD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "m1",
    "clusters": [
        {
            "name": "c",
            "cluster": {"server": "https://10.1.2.3:6443", "certificate-authority-data": CA},
        }
    ],
    "contexts": [{"name": "m1", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {"token": CANARY}}],
}


def changed(change: Callable[[dict[str, Any]], Any]) -> bytes:
    config = copy.deepcopy(GOOD)
    change(config)
    return json.dumps(config).encode()


def in_user(**fields: Any) -> bytes:
    return changed(lambda config: config["users"][0]["user"].update(fields))


def in_cluster(**fields: Any) -> bytes:
    return changed(lambda config: config["clusters"][0]["cluster"].update(fields))


def test_a_good_kubeconfig_is_taken_as_yaml_and_as_json() -> None:
    for data in (json.dumps(GOOD).encode(), yaml.safe_dump(GOOD).encode()):
        access = kubeconfigs.member_access(data)
        assert (access.server, access.token) == ("https://10.1.2.3:6443", CANARY)
        assert access.ca_pem.startswith(b"-----BEGIN CERTIFICATE-----")


def test_client_certificates_are_taken_and_the_server_name_too() -> None:
    config = copy.deepcopy(GOOD)
    config["users"][0]["user"] = {"client-certificate-data": CA, "client-key-data": KEY}
    config["clusters"][0]["cluster"]["tls-server-name"] = "kubernetes.default"
    access = kubeconfigs.member_access(json.dumps(config).encode())
    assert access.token == ""
    assert b"PRIVATE KEY" in access.key_pem
    assert access.tls_server_name == "kubernetes.default"


def test_secrets_do_not_show_in_the_repr() -> None:
    access = kubeconfigs.member_access(json.dumps(GOOD).encode())
    assert CANARY not in repr(access)
    assert "BEGIN" not in repr(access)


REFUSED: dict[str, bytes] = {
    "exec": in_user(exec={"command": "touch", "args": ["/tmp/marker"]}),
    "auth-provider": in_user(**{"auth-provider": {"name": "oidc"}}),
    "tokenFile": in_user(tokenFile="/etc/passwd"),
    "client-certificate": in_user(**{"client-certificate": "/etc/passwd"}),
    "client-key": in_user(**{"client-key": "/etc/passwd"}),
    "basic": in_user(username="a", password="b"),
    "as": in_user(**{"as": "admin"}),
    "as-uid": in_user(**{"as-uid": "1"}),
    "as-groups": in_user(**{"as-groups": ["system:masters"]}),
    "unknown user field": in_user(tokens="x"),
    "token and certificate": in_user(**{"client-certificate-data": CA, "client-key-data": KEY}),
    "certificate without key": changed(
        lambda c: c["users"][0].update(user={"client-certificate-data": CA})
    ),
    "no credentials": changed(lambda c: c["users"][0].update(user={})),
    "token with line break": in_user(token="a\r\nX-Evil: 1"),
    "token with blank": in_user(token="a b"),
    "token with umlaut": in_user(token="tökén"),
    "token empty": in_user(token=""),
    "token null": in_user(token=None),
    "token long": in_user(token="a" * 20000),
    "token is a list": in_user(token=["a"]),
    "insecure": in_cluster(**{"insecure-skip-tls-verify": True}),
    "proxy": in_cluster(**{"proxy-url": "http://evil:8080"}),
    "ca file": in_cluster(**{"certificate-authority": "/etc/passwd"}),
    "ca no base64": in_cluster(**{"certificate-authority-data": "!!!"}),
    "ca no pem": in_cluster(**{"certificate-authority-data": base64.b64encode(b"hello").decode()}),
    "ca is a key": in_cluster(**{"certificate-authority-data": KEY}),
    "ca missing": changed(lambda c: c["clusters"][0]["cluster"].pop("certificate-authority-data")),
    "server missing": changed(lambda c: c["clusters"][0]["cluster"].pop("server")),
    "unknown cluster field": in_cluster(disableCompression=True),
    "server name": in_cluster(**{"tls-server-name": "a b"}),
    "server name empty": in_cluster(**{"tls-server-name": ""}),
    "no context": changed(lambda c: c.update(contexts=[])),
    "no current context": changed(lambda c: c.pop("current-context")),
    "two contexts of a name": changed(lambda c: c["contexts"].append(c["contexts"][0])),
    "two clusters of a name": changed(lambda c: c["clusters"].append(c["clusters"][0])),
    "two users of a name": changed(lambda c: c["users"].append(c["users"][0])),
    "another user runs a command": changed(
        lambda c: c["users"].append({"name": "x", "user": {}, "exec": {}})
    ),
    "context with extensions": changed(lambda c: c["contexts"][0]["context"].update(extensions=[])),
    "preferences": changed(lambda c: c.update(preferences={"colors": True})),
    "unknown top field": changed(lambda c: c.update(extensions=[])),
    "other kind": changed(lambda c: c.update(kind="Secret")),
    "clusters is a map": changed(lambda c: c.update(clusters={})),
    "cluster entry is a text": changed(lambda c: c.update(clusters=["c"])),
    "empty": b"",
    "list": b"[]",
    "scalar": b"hello",
    "no utf-8": b"\xff\xfe\x00",
    "no yaml": b"a: [",
    "tab": b"a:\n\t- b",
    "two documents": json.dumps(GOOD).encode() + b"\n---\n{}",
    "python tag": b"a: !!python/object/apply:os.system ['touch /tmp/marker']",
    "tag": b"kind: !!str Config",
    "anchor": b"kind: &a Config",
    "aliases": b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]",
    "merge key": b"a: &a {x: y}\nb: {<<: *a}",
    "deep": b"[" * 100_000,
    "deep maps": b"{a: " * 50 + b"b" + b"}" * 50,
    "many parts": b"[" + b"a," * 5000 + b"]",
    "large": b"a" * 300_000,
    "double key": json.dumps(GOOD).encode()[:-1] + b',"kind":"Config"}',
    "double token": json.dumps(GOOD).encode().replace(b'"token": ', b'"token": "x", "token": '),
    "complex key": b"? [a]\n: b",
    "nul": b"kind: \x00",
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_everything_else_is_refused_without_quoting_a_secret(name: str) -> None:
    with pytest.raises(kubeconfigs.KubeconfigRefused) as caught:
        kubeconfigs.member_access(REFUSED[name])
    assert CANARY not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_refusals_name_the_field() -> None:
    with pytest.raises(kubeconfigs.KubeconfigRefused) as caught:
        kubeconfigs.member_access(REFUSED["exec"])
    assert caught.value.path == "users[0].user.exec"
    assert "may not run commands" in caught.value.message


HOSTILE = [
    "http://10.0.0.1",
    "ftp://10.0.0.1",
    "file:///etc/passwd",
    "//10.0.0.1",
    "10.0.0.1:6443",
    "https://",
    "https://user:pw@10.0.0.1",
    "https://10.0.0.1?x=y",
    "https://10.0.0.1#x",
    "https://10.0.0.1/../x",
    "https://10.0.0.1/%2e%2e/x",
    "https://10.0.0.1/a//b",
    "https://10.0.0.1:0",
    "https://10.0.0.1:99999",
    "https://10.0.0.1:x",
    "https://10.0.0.1\\@evil",
    "https://10.0.0.1 .evil",
    "https://10.0.0.1\n.evil",
    "https://evil\t",
    "https://exämple.org",
    "https://-a",
    "https://a_b/",
    "https://127.0.0.1",
    "https://127.1.2.3:6443",
    "https://localhost",
    "https://LOCALHOST.",
    "https://a.localhost",
    "https://0.0.0.0",
    "https://0",
    "https://169.254.169.254/latest",
    "https://[::1]",
    "https://[::]",
    "https://[::ffff:127.0.0.1]",
    "https://[::ffff:169.254.169.254]",
    "https://[::ffff:7f00:1]",
    "https://[::127.0.0.1]",
    "https://[64:ff9b::7f00:1]",
    "https://[64:ff9b::a9fe:a9fe]",
    "https://[2002:7f00:0001::]",
    "https://[fe80::1]",
    "https://[fe80::1%25eth0]",
    "https://[fd00:ec2::254]",
    "https://[ff02::1]",
    "https://224.0.0.1",
    "https://240.0.0.1",
    "https://255.255.255.255",
    "https://100.100.100.200",
    "https://168.63.129.16",
    "https://192.0.0.192",
    "https://0x7f.1",
    "https://0x7f000001",
    "https://2130706433",
    "https://017700000001",
    "https://127.1",
    "https://0177.0.0.1",
    "https://10.0.0.1.",
    "https://1.2.3.4.5",
    "https://[10.0.0.1]",
    "https://[::1",
    "https://" + "a" * 300,
]


@pytest.mark.parametrize("server", HOSTILE)
def test_hostile_servers_are_refused(server: str) -> None:
    with pytest.raises(kubeconfigs.KubeconfigRefused):
        kubeconfigs.member_access(in_cluster(server=server))


@pytest.mark.parametrize(
    "server",
    [
        "https://10.0.0.1",
        "https://10.0.0.1:6443/",
        "https://api.east-1.example.org:443",
        "https://ABC123.gr7.us-east-1.eks.amazonaws.com",
        "https://rancher.example/k8s/clusters/c-m-abc",
        "https://[2001:db9::1]:6443",
        "https://0xdeadbeef.example",
    ],
)
def test_ordinary_servers_are_taken(server: str) -> None:
    assert kubeconfigs.member_access(in_cluster(server=server)).server == server.rstrip("/")


def test_loopback_is_for_the_sandbox_only_and_metadata_for_nobody() -> None:
    assert kubeconfigs.member_access(in_cluster(server="https://127.0.0.1:1"), allow_loopback=True)
    with pytest.raises(kubeconfigs.KubeconfigRefused):
        kubeconfigs.member_access(in_cluster(server="https://169.254.169.254"), allow_loopback=True)


def test_a_guard_refuses_metadata_addresses_in_any_spelling() -> None:
    guard = addresses.member_guard()
    assert guard("169.254.169.254")
    assert guard("::ffff:169.254.169.254")
    assert guard("nonsense")
    assert not guard("10.1.0.1")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_taken_and_nothing_else_happens(data: bytes) -> None:
    with pytest.raises(kubeconfigs.KubeconfigRefused):
        kubeconfigs.member_access(data)


@given(st.data())
def test_a_good_kubeconfig_with_bytes_changed_never_raises_anything_else(
    data: st.DataObject,
) -> None:
    text = bytearray(json.dumps(GOOD).encode())
    for _ in range(data.draw(st.integers(1, 5))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    try:
        kubeconfigs.member_access(bytes(text))
    except kubeconfigs.KubeconfigRefused:
        return
