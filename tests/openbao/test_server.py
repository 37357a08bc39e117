"""The real OpenBao that tests start can do what tests of the runtime need of it."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.openbao import pods, server
from tests.openbao.server import Answered, OpenBao

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("openbao")]


@pytest.fixture(scope="module")
def openbao() -> Iterator[OpenBao]:
    with server.serving() as running:
        yield running


def test_a_secret_has_versions(openbao: OpenBao) -> None:
    assert openbao.put("ads/db", {"password": "one"}) == 1
    assert openbao.put("ads/db", {"password": "two"}) == 2

    read = openbao.call("GET", "secret/data/ads/db")["data"]

    assert read["data"] == {"password": "two"}
    assert read["metadata"]["version"] == 2


def test_a_pod_logs_in_with_its_certificate_and_reads_only_what_its_policy_allows(
    openbao: OpenBao, tmp_path: Path
) -> None:
    openbao.allow("search", "secret/data/search/*")
    openbao.put("search/db", {"password": "s3arch"})
    openbao.put("other/db", {"password": "0ther"})
    root = pods.authority(openbao)
    openbao.knows_pods(
        "search", root, spiffe=["spiffe://example.org/ns/search/sa/*"], policies=["search"]
    )

    token = _login(openbao, pods.pod(openbao, tmp_path / "in", "search", "web").folder)

    read = openbao.call("GET", "secret/data/search/db", token=token)
    assert read["data"]["data"] == {"password": "s3arch"}
    with pytest.raises(Answered, match=r"403: 1 error occurred:\s+\* permission denied"):
        openbao.call("GET", "secret/data/other/db", token=token)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        _login(openbao, pods.pod(openbao, tmp_path / "out", "ads", "web").folder)


def test_a_token_of_a_service_account_logs_in(openbao: OpenBao) -> None:
    key = ECKey.generate_key("P-256")
    public = key.as_pem(private=False).decode()
    openbao.knows_tokens("signer", [public], audience="openbao", policies=["default"])
    now_s = int(time.time())
    claims = {"sub": "system:serviceaccount:ads:web", "aud": "openbao", "exp": now_s + 60}
    token = jwt.encode({"alg": "ES256"}, claims, key)

    answer = openbao.call("POST", "auth/jwt/login", {"role": "signer", "jwt": token})

    assert "default" in answer["auth"]["policies"]


def test_a_request_for_a_foreign_name_is_refused(openbao: OpenBao, tmp_path: Path) -> None:
    pods.authority(openbao)
    pod = pods.pod(openbao, tmp_path, "ads", "web")
    held = serialization.load_pem_private_key((pod.folder / "tls.key").read_bytes(), None)

    assert pod.spiffe == "spiffe://example.org/ns/ads/sa/web"
    assert held is not None
    options = {
        "allow_any_name": True,
        "allowed_uri_sans": ["spiffe://else.example/*"],
        "cn_validations": ["disabled"],
    }
    openbao.issues(pods.ROLE, {**options, "key_type": "ec", "key_bits": 256})
    with pytest.raises(Answered, match=r"400: .*URI Subject Alternative Name"):
        pods.pod(openbao, tmp_path, "ads", "web")


def _login(openbao: OpenBao, folder: Path) -> str:
    context = ssl.create_default_context(cafile=str(openbao.ca_file))
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    address = f"{openbao.address}/v1/auth/cert/login"
    with opener.open(urllib.request.Request(address, method="POST", data=b"{}"), timeout=60) as got:
        return str(json.load(got)["auth"]["client_token"])
