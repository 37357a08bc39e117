"""When an issuer is asked for its keys: rotation, invented keys, and an issuer that is away."""

import asyncio
import logging

import pytest

from federator.kube.clock import Clock
from federator.model.errors import FieldError
from federator.process.oidc.issuer import FRESH_S, PAUSE_S, STALE_S, Issuer, Issuers, Unavailable
from federator.process.oidc.tokens import Rejected, Trust
from tests.unit.kube.scripted import on_virtual_time
from tests.unit.oidc import issuing
from tests.unit.oidc.issuing import AUDIENCE, NOW_S, URL, Served, rsa, signed, token

LONG = 100_000
"""Seconds that a token of these tests is valid for."""


def of_key(kid: str, number: int = 0) -> str:
    payload = issuing.claims(exp=NOW_S + LONG)
    return signed({"alg": "RS256", "kid": kid}, payload, rsa(number))


@on_virtual_time
async def test_keys_are_read_once_for_many_tokens() -> None:
    served = Served()
    issuer = served.issuer()
    found = await asyncio.gather(*(issuer.verified(token()) for _ in range(50)))

    assert {each.user for each in found} == {f"{URL}#builder"}
    assert served.asked == ["/realms/ci/.well-known/openid-configuration", "/jwks?realm=ci"]
    assert served.servers == ["https://issuer.example", "https://keys.example"]


@on_virtual_time
async def test_a_rotated_key_is_found_and_the_former_one_ends() -> None:
    served = Served()
    issuer = served.issuer()
    await issuer.verified(of_key("first"))
    await asyncio.sleep(PAUSE_S)
    served.keys = [issuing.public(rsa(2), "second")]

    assert (await issuer.verified(of_key("second", 2))).user == f"{URL}#builder"
    with pytest.raises(Rejected):
        await issuer.verified(of_key("first"))


@on_virtual_time
async def test_invented_keys_do_not_make_the_issuer_be_asked_for_each() -> None:
    served = Served()
    issuer = served.issuer()
    await issuer.verified(of_key("first"))
    for at in range(600):  # for 60 s
        with pytest.raises(Rejected):
            await issuer.verified(of_key(f"invented-{at}", 2))
        await asyncio.sleep(0.1)

    assert len(served.asked) <= 2 * (60 / PAUSE_S + 1)
    # One invented name again and again costs nothing more.
    before = len(served.asked)
    for _ in range(5):
        with pytest.raises(Rejected):
            await issuer.verified(of_key("invented-599", 2))
        await asyncio.sleep(PAUSE_S)
    assert len(served.asked) == before


@on_virtual_time
async def test_a_wrong_issuer_or_algorithm_asks_nobody() -> None:
    served = Served()
    issuer = served.issuer()
    for wrong in (token(iss="https://evil.example"), token("RS512"), "x.y.z"):
        with pytest.raises(Rejected):
            await issuer.verified(wrong)

    assert served.asked == []


@on_virtual_time
async def test_keys_count_for_a_while_when_the_issuer_is_away() -> None:
    served = Served()
    issuer = served.issuer()
    await issuer.verified(of_key("first"))
    served.away = True
    await asyncio.sleep(FRESH_S + 1)
    assert (await issuer.verified(of_key("first"))).user
    await asyncio.sleep(STALE_S)
    with pytest.raises(Unavailable):
        await issuer.verified(of_key("first"))
    served.away = False
    await asyncio.sleep(PAUSE_S)
    assert (await issuer.verified(of_key("first"))).user


@on_virtual_time
async def test_an_issuer_that_never_answered_is_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    served = Served(away=True)
    issuer = served.issuer()
    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable):
        await issuer.verified(token())
    with pytest.raises(Unavailable):
        await issuer.document()

    assert "does not answer" in caplog.text
    assert token().split(".")[1] not in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "https://evil.example"},
        {"jwks_uri": "http://keys.example/jwks"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "https://user:pass@keys.example/jwks"},
        {"jwks_uri": None},
    ],
)
@on_virtual_time
async def test_a_document_that_leads_elsewhere_is_not_used(wrong: dict[str, str]) -> None:
    served = Served()
    served.document |= wrong
    with pytest.raises(Unavailable):
        await served.issuer().verified(token())

    assert served.asked == ["/realms/ci/.well-known/openid-configuration"]


@on_virtual_time
async def test_the_document_names_endpoints_with_tls() -> None:
    served = Served()
    served.document["authorization_endpoint"] = "http://issuer.example/auth"
    issuer = served.issuer()
    document = await issuer.document()

    assert issuer.endpoint(document, "token_endpoint") == f"{URL}/token"
    for name in ("authorization_endpoint", "end_session_endpoint"):
        with pytest.raises(FieldError):
            issuer.endpoint(document, name)


@on_virtual_time
async def test_a_token_chooses_its_issuer_among_the_trusted_ones() -> None:
    served = Served()
    issuer = served.issuer()
    known = Issuers([issuer])

    assert known.claims_to_be_of(token()) is issuer
    assert known.claims_to_be_of(token(iss="https://kubernetes.default.svc")) is None
    assert known.claims_to_be_of("opaque") is None
    await known.close()


@pytest.mark.parametrize(
    "url", ["http://issuer.example", "issuer.example", "https://", "https://a#b"]
)
def test_an_issuer_without_tls_is_refused(url: str) -> None:
    with pytest.raises(FieldError):
        Issuer(Trust(url, frozenset({AUDIENCE})), Served().connect, clock=Clock(NOW_S))
