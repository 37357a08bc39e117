"""Logins that are read without a library: the library reads the same from them, and what is not
plain is left to it.

What the library itself makes of plugins and tokens is not tested here.
"""

import copy
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

from federator.kube.login import kubeconfig_users


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    files = {}
    for name in ("certificate-authority", "client-certificate", "client-key"):
        file = tmp_path / name
        file.write_text(name)
        files[name] = str(file)
    return {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "n"}},
            {"name": "two", "context": {"cluster": "c"}},
        ],
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://example.com:6443/",
                    "certificate-authority": files["certificate-authority"],
                    "tls-server-name": "inner",
                    "proxy-url": "http://proxy:3128",
                },
            }
        ],
        "users": [
            {
                "name": "u",
                "user": {
                    "token": "t",
                    "client-certificate": files["client-certificate"],
                    "client-key": files["client-key"],
                },
            }
        ],
    }


@pytest.mark.parametrize("careless", [None, False, True])
@pytest.mark.parametrize(
    ("server", "context"),
    [
        ("https://example.com:6443/", ""),
        ("https://example.com", "one"),
        ("http://example.com", "two"),
    ],
)
async def test_a_plain_login_is_what_the_library_reads(
    config: dict[str, Any], context: str, careless: bool | None, server: str
) -> None:
    cluster = config["clusters"][0]["cluster"]
    cluster["server"] = server
    if careless is not None:
        cluster["insecure-skip-tls-verify"] = careless
    before = copy.deepcopy(config)
    found = kubeconfig_users.login(config, context)
    assert config == before
    theirs = Configuration()
    await KubeConfigLoader(config_dict=config, active_context=context or None).load_and_set(theirs)
    assert found == kubeconfig_users.Login(
        theirs.host,
        header=theirs.api_key.get("BearerToken") or "",
        ca_file=theirs.ssl_ca_cert or "",
        cert_file=theirs.cert_file or "",
        key_file=theirs.key_file or "",
        verify=theirs.verify_ssl,
        tls_server_name=theirs.tls_server_name,
        proxy=theirs.proxy,
    )


@pytest.mark.parametrize(
    ("plural", "singular", "field", "value"),
    [
        ("users", "user", "exec", {"command": "get-token"}),
        ("users", "user", "auth-provider", {"name": "oidc"}),
        ("users", "user", "tokenFile", "/somewhere"),
        ("users", "user", "username", "me"),
        ("users", "user", "token", None),
        ("users", "user", "client-key", "/nowhere/key"),
        ("clusters", "cluster", "server", ""),
        ("clusters", "cluster", "insecure-skip-tls-verify", "true"),
        ("clusters", "cluster", "certificate-authority", "/nowhere/ca"),
        ("contexts", "context", "cluster", "missing"),
        ("contexts", "context", "user", "missing"),
    ],
)
def test_what_is_not_plain_is_left_to_the_library(
    config: dict[str, Any], plural: str, singular: str, field: str, value: Any
) -> None:
    config[plural][0][singular][field] = value
    assert kubeconfig_users.login(config, "") is None


def test_nobody_in_particular_is_a_plain_login_over_tls_too(config: dict[str, Any]) -> None:
    """The library breaks on it."""
    found = kubeconfig_users.login(config, "two")
    assert found is not None
    assert (found.host, found.header, found.cert_file) == ("https://example.com:6443", "", "")


def test_no_context_of_that_name_is_left_to_the_library(config: dict[str, Any]) -> None:
    assert kubeconfig_users.login(config, "three") is None


def test_a_pod_finds_its_service_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kubeconfig_users, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("ca")
    told = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert kubeconfig_users.service_account(told) == (
        "https://10.0.0.1:443",
        tmp_path / "token",
        tmp_path / "ca.crt",
    )
    told["KUBERNETES_SERVICE_HOST"] = "fd00::1"
    assert kubeconfig_users.service_account(told)[0] == "https://[fd00::1]:443"
    with pytest.raises(ValueError, match="KUBERNETES_SERVICE_HOST"):
        kubeconfig_users.service_account({})
    (tmp_path / "token").write_text("")
    with pytest.raises(ValueError, match="token is empty"):
        kubeconfig_users.service_account(told)
