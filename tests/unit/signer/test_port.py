"""What the signer answers to a pod: a certificate of its own service account, or the reason why
not. The member is the embedded one, with RBAC on."""

import asyncio
import json
import logging
from typing import Any

import pytest

from federator.kube.tlsserver import Outgoing
from federator.model.steps import ObjectRef
from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away
from federator.runtime.identity.spiffe import SpiffeId
from federator.signer.authorities import CertificateContent
from federator.signer.cluster import REVIEWS_MAX, REVIEWS_WAITING
from federator.signer.options import SignerOptions
from tests.unit.embedded.inprocess import EPOCH_S, cluster, on_virtual_time
from tests.unit.signer import cas, members
from tests.unit.signer.members import Member

WEB = SpiffeId("test.example", "ads", "web")


async def member(**changed: Any) -> Member:
    options = SignerOptions(**{"trust_domain": "test.example", "cluster": "us-east-1a", **changed})
    made = Member(cluster(), options)
    await made.furnish()
    return made


def said(answer: Outgoing) -> tuple[int, str, str]:
    found = json.loads(answer.body)
    return answer.status, found["reason"], found["detail"]


@on_virtual_time
async def test_a_pod_gets_a_certificate_of_its_own_account() -> None:
    world = await member()
    key, csr = cas.request(str(WEB))
    answer = await world.ask(await world.token(), members.pem(csr))
    found = json.loads(answer.body)
    chain, bundle = found["chain"].encode(), found["bundle"].encode()
    facts = certificates.checked(chain, bundle, WEB, key.public_key(), EPOCH_S)

    assert answer.status == 200
    assert facts.claims == ("cluster=us-east-1a", "project=homefeed")
    assert facts.end_s - facts.begin_s == 14_400
    assert world.count("Issued") == 1


@on_virtual_time
async def test_metrics_count_answers_and_time_by_way_and_outcome() -> None:
    world = await member()
    await world.ask(await world.token(), members.pem(cas.request(str(WEB))[1]))
    foreign = "spiffe://test.example/ns/ads/sa/other"
    await world.ask(await world.token(), members.pem(cas.request(foreign)[1]))

    lines = world.metrics.render().decode().splitlines()

    counted = 'federator_signer_certificates_total{outcome="%s",way="token"} 1.0'
    assert counted % "Issued" in lines
    assert counted % "ForeignName" in lines
    assert 'federator_signer_seconds_count{way="token"} 2.0' in lines


@pytest.mark.parametrize(
    "uri",
    [
        "spiffe://test.example/ns/ads/sa/other",
        "spiffe://test.example/ns/kube-system/sa/web",
        "spiffe://else.example/ns/ads/sa/web",
        "https://test.example/ns/ads/sa/web",
    ],
)
@on_virtual_time
async def test_a_request_for_a_foreign_name_is_refused_with_both_names(uri: str) -> None:
    world = await member()
    status, reason, detail = said(
        await world.ask(await world.token(), members.pem(cas.request(uri)[1]))
    )

    assert (status, reason) == (403, "ForeignName")
    assert detail == f"the request asks for SAN URI:{uri}, and its token is that of {WEB}"
    assert world.count("ForeignName") == 1


@on_virtual_time
async def test_dns_names_are_not_for_pods() -> None:
    world = await member()
    csr = members.pem(cas.request(str(WEB), "bank.example")[1])

    assert "SAN DNS:bank.example" in said(await world.ask(await world.token(), csr))[2]


@on_virtual_time
async def test_tokens_that_prove_no_pod_are_refused_each_with_its_reason() -> None:
    world = await member()
    csr = members.pem(cas.request(str(WEB))[1])
    tokens = {
        "": "a service account token of a pod is needed, as a bearer token",
        "eyJ.eyJ.x": "the API server does not accept the token",
        await world.token("https://kubernetes.default.svc"): (
            "the API server does not accept the token"
        ),
        await world.token(pod=""): "the token is not bound to a pod; a projected token is",
        world.cluster.token: "the API server does not accept the token",
    }
    for token, why in tokens.items():
        assert said(await world.ask(token, csr)) == (401, "Unauthorized", why)


@on_virtual_time
async def test_a_token_ends_with_its_pod() -> None:
    world = await member()
    token, csr = await world.token(), members.pem(cas.request(str(WEB))[1])
    assert (await world.ask(token, csr)).status == 200
    pods = await world.admin.list("v1", "pods", "ads")
    ref = ObjectRef("v1", "pods", "ads", "web-0")
    await world.admin.delete(ref, uid=pods.items[0]["metadata"]["uid"])

    assert (await world.ask(token, csr)).status == 401


@on_virtual_time
async def test_an_authority_that_is_away_is_no_refusal() -> None:
    world = await member()
    world.authority.fails = Away("OpenBao does not answer")
    answer = await world.ask(await world.token(), members.pem(cas.request(str(WEB))[1]))

    assert said(answer) == (503, "AuthorityAway", "OpenBao does not answer")
    assert answer.headers["Retry-After"] == "10"


@on_virtual_time
async def test_a_certificate_of_another_name_does_not_leave_the_signer() -> None:
    """Whatever the authority signs: it may be misconfigured, or lie."""
    world = await member()
    other = SpiffeId("test.example", "ads", "admin")
    _, csr = cas.request(str(WEB))
    world.authority.says = await world.authority.sign(csr, CertificateContent(other, 3600))
    status, reason, detail = said(await world.ask(await world.token(), members.pem(csr)))

    assert (status, reason) == (403, "ForeignName")
    assert detail == f"the certificate is that of {other}, not of {WEB}"


@on_virtual_time
async def test_one_account_cannot_take_the_certificates_of_all() -> None:
    world = await member(requests_a_second=1.0, burst=2)
    token, csr = await world.token(), members.pem(cas.request(str(WEB))[1])
    answers = [await world.ask(token, csr) for _ in range(3)]

    assert [each.status for each in answers] == [200, 200, 429]
    assert said(answers[2])[2] == "service account web may have 1 certificates a second"
    assert world.count("TooManyRequests") == 1


@pytest.mark.parametrize("csr", ["", "soon", "-----BEGIN CERTIFICATE REQUEST-----\nAA\n-----END"])
@on_virtual_time
async def test_what_is_no_request_is_refused(csr: str) -> None:
    world = await member()

    assert said(await world.ask(await world.token(), csr))[1] == "NotReadable"


@on_virtual_time
async def test_the_roots_are_public_and_nothing_else_is() -> None:
    world = await member()
    assert json.loads((await world.ask("", "", "/v1/bundle")).body) == {
        "bundle": world.authority.root.pem.decode()
    }
    assert (await world.ask("", "", "/v1/certificates")).status == 401
    assert (await world.ask("", "", "/v1/keys")).status == 404


@on_virtual_time
async def test_one_line_of_audit_tells_each_certificate_and_no_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await member()
    token = await world.token()
    with caplog.at_level(logging.DEBUG):
        await world.ask(token, members.pem(cas.request(str(WEB))[1]))
        await world.ask(token, members.pem(cas.request("spiffe://test.example/ns/a/sa/b")[1]))
    lines = [each for each in caplog.records if each.name == "federator.signer.audit"]

    assert [each.getMessage().partition(":")[0] for each in lines] == ["issued", "refused"]
    shown = vars(lines[0])
    assert (shown["id"], shown["pod"], shown["namespace"]) == (str(WEB), "web-0", "ads")
    assert len(shown["chain_sha256"]) == 64
    everything = "\n".join(str(vars(each)) for each in caplog.records)
    assert token not in everything
    assert token.rpartition(".")[2] not in everything


@on_virtual_time
async def test_strangers_cannot_make_the_api_server_review_without_end() -> None:
    world = await member()
    world.watched.takes_s = 1.0
    csr = members.pem(cas.request(str(WEB))[1])
    asking = [
        asyncio.create_task(world.ask("eyJ.eyJ.x", csr))
        for _ in range(REVIEWS_MAX + REVIEWS_WAITING + 3)
    ]
    await asyncio.sleep(0.5)
    assert len(world.used()) == REVIEWS_MAX

    answers = await asyncio.gather(*asking)
    refused = [each for each in answers if each.status == 503]
    assert len(refused) == 3
    assert said(refused[0])[1] == "Overloaded"
    assert refused[0].headers["Retry-After"] == "2"
    assert len(world.used()) == REVIEWS_MAX + REVIEWS_WAITING


@on_virtual_time
async def test_a_cancelled_request_does_not_count_as_issued() -> None:
    world = await member()
    token, csr = await world.token(), members.pem(cas.request(str(WEB))[1])
    world.authority.takes_s = 10.0
    asking = asyncio.create_task(world.ask(token, csr))
    await asyncio.sleep(1)
    asking.cancel()
    await asyncio.wait([asking])

    assert (world.count("Issued"), world.count("Failed")) == (0, 1)
