"""Tokens that must not count, one by one, against an issuer whose good tokens do."""

import functools
import hmac
import json
import logging
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from federator.model.errors import FieldError
from federator.process.oidc import keys, tokens
from federator.process.oidc.keys import KeySet
from federator.process.oidc.tokens import Rejected, Trust
from tests.unit.oidc import issuing
from tests.unit.oidc.issuing import AUDIENCE, NOW_S, URL, b64, claims, p256, rsa, signed, token

TRUST = Trust(URL, frozenset({AUDIENCE}))
HEAD = {"alg": "RS256", "kid": "first"}
STRANGER = functools.partial(rsa, 1)


@functools.cache
def _keys() -> KeySet:
    return keys.read(json.dumps({"keys": issuing.Served().keys}).encode())


def _rs(header: Any = None, **more: Any) -> str:
    return signed({**HEAD, **(header or {})}, claims(**more), rsa(), "RS256")


def _hmac_with_public_key(secret: bytes) -> str:
    """The public key, which everybody has, taken for a shared secret."""
    parts = ({**HEAD, "alg": "HS256"}, claims())
    message = ".".join(b64(json.dumps(part).encode()) for part in parts)
    return f"{message}.{b64(hmac.digest(secret, message.encode(), 'sha256'))}"


def _unsigned(algorithm: str) -> str:
    return f"{b64(json.dumps({'alg': algorithm}).encode())}.{b64(json.dumps(claims()).encode())}."


def _swapped() -> str:
    """The payload of another user under a good signature."""
    head, _, signature = token().split(".")
    return f"{head}.{b64(json.dumps(claims(sub='admin')).encode())}.{signature}"


def _respelled() -> str:
    """The last character of a signature has bits that nobody reads."""
    good = token()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return good[:-1] + alphabet[alphabet.index(good[-1]) ^ 1]


def _twice(name: str, first: Any, second: Any) -> str:
    text = json.dumps(claims(**{name: None}))
    both = f'{{"{name}": {json.dumps(first)}, "{name}": {json.dumps(second)}, {text[1:]}'
    return signed(HEAD, both, rsa())


def _embedded(name: str, value: Any) -> str:
    """Signed by a stranger, with the way to the stranger's key in the header."""
    return signed({"alg": "RS256", name: value}, claims(), STRANGER())


FORGED: Mapping[str, Callable[[], str]] = {
    "algorithm none": lambda: _unsigned("none"),
    "algorithm None": lambda: _unsigned("None"),
    "algorithm nOnE": lambda: _unsigned("nOnE"),
    "algorithm empty": lambda: _unsigned(""),
    "no algorithm": lambda: signed({"kid": "first"}, claims(), rsa(), "RS256"),
    "algorithm as a list": lambda: signed({**HEAD, "alg": ["RS256"]}, claims(), rsa(), "RS256"),
    "HMAC with the public key as PEM": lambda: _hmac_with_public_key(rsa().as_pem(private=False)),
    "HMAC with the public key as JSON": lambda: _hmac_with_public_key(
        json.dumps(issuing.public(rsa(), "first")).encode()
    ),
    "an algorithm that is not allowed": lambda: token("RS512"),
    "the algorithm of another key type": lambda: signed(
        {"alg": "ES256", "kid": "first"}, claims(), p256(), "ES256"
    ),
    "signed by another key of the same name": lambda: signed(HEAD, claims(), STRANGER()),
    "an unknown kid": lambda: signed({**HEAD, "kid": "other"}, claims(), STRANGER()),
    "kid as a path": lambda: signed({**HEAD, "kid": "../../../../dev/null"}, claims(), STRANGER()),
    "kid as a query": lambda: signed({**HEAD, "kid": "' UNION SELECT 'x"}, claims(), STRANGER()),
    "kid as an address": lambda: signed(
        {**HEAD, "kid": "https://evil.example/key"}, claims(), STRANGER()
    ),
    "kid as a number": lambda: signed({**HEAD, "kid": 1}, claims(), rsa()),
    "kid of a thousand characters": lambda: signed({**HEAD, "kid": "k" * 1000}, claims(), rsa()),
    "jku of a stranger": lambda: _embedded("jku", "https://evil.example/jwks"),
    "x5u of a stranger": lambda: _embedded("x5u", "https://evil.example/cert"),
    "jwk of a stranger": lambda: _embedded("jwk", issuing.public(STRANGER(), "mine")),
    "x5c of a stranger": lambda: _embedded("x5c", ["MIIB"]),
    "an extension that must be understood": lambda: _rs({"crit": ["exp"]}),
    "an unencoded payload": lambda: _rs({"b64": False}),
    "compressed": lambda: _rs({"zip": "DEF"}),
    "a token within a token": lambda: _rs({"cty": "JWT"}),
    "a logout token": lambda: _rs({"typ": "logout+jwt"}),
    "another payload under the signature": _swapped,
    "the signature spelt otherwise": _respelled,
    "no signature": lambda: token().rpartition(".")[0] + ".",
    "four parts": lambda: token() + ".x",
    "five parts, encrypted": lambda: "a.b.c.d.e",
    "padding": lambda: token() + "=",
    "another issuer": lambda: _rs(iss="https://evil.example"),
    "the issuer with a slash": lambda: _rs(iss=URL + "/"),
    "no issuer": lambda: _rs(iss=None),
    "issuers as a list": lambda: _rs(iss=[URL]),
    "another audience": lambda: _rs(aud="kubernetes"),
    "no audience": lambda: _rs(aud=None),
    "the audience within a text": lambda: _rs(aud=f"{AUDIENCE}-2"),
    "audiences that are no texts": lambda: _rs(aud=[AUDIENCE, 1]),
    "audiences as an object": lambda: _rs(aud={AUDIENCE: True}),
    "expired": lambda: _rs(exp=NOW_S - 31),
    "no expiry": lambda: _rs(exp=None),
    "expiry as a text": lambda: _rs(exp=str(NOW_S + 600)),
    "expiry true": lambda: _rs(exp=True),
    "expiry NaN": lambda: signed(HEAD, json.dumps(claims(exp=float("nan"))), rsa()),
    "expiry Infinity": lambda: signed(HEAD, json.dumps(claims(exp=float("inf"))), rsa()),
    "expiry of a thousand digits": lambda: signed(
        HEAD, json.dumps(claims(exp=0)).replace('"exp": 0', '"exp": ' + "9" * 1000), rsa()
    ),
    "not valid yet": lambda: _rs(nbf=NOW_S + 31),
    "nbf as a text": lambda: _rs(nbf="now"),
    "issued in the future": lambda: _rs(iat=NOW_S + 31),
    "no user": lambda: _rs(sub=None),
    "the user as a list": lambda: _rs(sub=["builder"]),
    "the user empty": lambda: _rs(sub=""),
    "the user with a line break": lambda: _rs(sub="builder\nadmin"),
    "a group of Kubernetes": lambda: _rs(groups=["system:masters"]),
    "groups as an object": lambda: _rs(groups={"admin": True}),
    "a group that is a number": lambda: _rs(groups=[1]),
    "a thousand groups": lambda: _rs(groups=[f"g{at}" for at in range(1000)]),
    "two users": lambda: _twice("sub", "builder", "admin"),
    "two expiries": lambda: _twice("exp", NOW_S - 100, NOW_S + 600),
    "two algorithms": lambda: signed(
        '{"alg":"none","alg":"RS256","kid":"first"}', claims(), rsa(), "RS256"
    ),
    "a payload that is no object": lambda: signed(HEAD, [claims()], rsa()),
    "a payload that is no JSON": lambda: signed(HEAD, "builder", rsa()),
    "a payload nested deeply": lambda: signed(HEAD, "[" * 5000 + "]" * 5000, rsa()),
    "a payload of 100 KB": lambda: _rs(note="x" * 100_000),
    "empty": lambda: "",
    "dots": lambda: "..",
    "other bytes": lambda: token().replace("e", "é", 1),
    "white space": lambda: " " + token(),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_token_is_rejected_without_showing_any_of_it(name: str) -> None:
    forged = FORGED[name]()
    with pytest.raises(Rejected) as rejected:
        tokens.verify(tokens.parse(forged), _keys(), TRUST, NOW_S)

    sentence = str(rejected.value)
    assert sentence.startswith(("the token", "a group", "a user"))
    assert not {part for part in forged.split(".") if len(part) > 3 and part in sentence}
    assert not re.search(r"evil|builder|admin|masters|kubernetes", sentence)


@pytest.mark.parametrize("algorithm", sorted(keys.DEFAULT_ALGORITHMS - {"ES384"}))
def test_a_good_token_counts_with_every_algorithm(algorithm: str) -> None:
    kid = {"E": "curve" if algorithm == "ES256" else "edwards"}.get(algorithm[0], "first")
    given = tokens.verify(tokens.parse(token(algorithm, kid=kid)), _keys(), TRUST, NOW_S)

    assert given.user == f"{URL}#builder"
    assert given.groups == ("ads-deploy",)
    assert given.expires_s == NOW_S + 600


GOOD: Mapping[str, Callable[[], str]] = {
    "no kid": lambda: signed({"alg": "RS256"}, claims(), rsa()),
    "typ JWT": lambda: _rs({"typ": "JWT"}),
    "typ of an access token": lambda: _rs({"typ": "application/at+jwt"}),
    "one audience of several": lambda: _rs(aud=["other", AUDIENCE]),
    "expired within the leeway": lambda: _rs(exp=NOW_S - 29),
    "begins within the leeway": lambda: _rs(nbf=NOW_S + 29, iat=NOW_S + 29),
    "no groups": lambda: _rs(groups=None),
    "one group": lambda: _rs(groups="ads-deploy"),
    "a jku that nobody follows": lambda: _rs({"jku": "https://evil.example/jwks"}),
    "times with fractions": lambda: _rs(exp=NOW_S + 0.5),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_the_standards_allow_counts(name: str) -> None:
    assert tokens.verify(tokens.parse(GOOD[name]()), _keys(), TRUST, NOW_S).user == f"{URL}#builder"


def test_claims_and_prefixes_name_the_user_as_kube_apiserver_does() -> None:
    trust = Trust(
        URL, frozenset({AUDIENCE}), user_claim="email", groups_claim="roles", groups_prefix="ci:"
    )
    given = tokens.parse(_rs(email="a@example.com", roles=["x", "x"]))
    found = tokens.verify(given, _keys(), trust, NOW_S)

    assert (found.user, found.groups) == ("a@example.com", ("ci:x",))
    unverified = tokens.parse(_rs(email="a@example.com", email_verified=False))
    with pytest.raises(Rejected, match="not verified"):
        tokens.verify(unverified, _keys(), trust, NOW_S)
    own, admin = Trust(URL, TRUST.audiences, user_prefix=""), tokens.parse(_rs(sub="system:admin"))
    with pytest.raises(Rejected, match="system:"):
        tokens.verify(admin, _keys(), own, NOW_S)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("issuer", {"issuer": ""}),
        ("audiences", {"audiences": frozenset()}),
        ("algorithms", {"algorithms": frozenset()}),
        ("algorithms", {"algorithms": frozenset({"RS256", "HS256"})}),
        ("algorithms", {"algorithms": frozenset({"none"})}),
    ],
)
def test_a_trust_that_accepts_too_much_is_refused(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(FieldError) as bad:
        Trust(**{"issuer": URL, "audiences": frozenset({AUDIENCE}), **given})

    assert bad.value.path == field


def _breakable() -> bytes:
    """A modulus of 2,048 bits with the mark of CVE-2017-15361: a power of 65537 modulo many
    primes."""
    primes = [number for number in range(3, 400) if all(number % p for p in range(2, number))]
    product = math.prod(primes)
    marked = pow(65537, 1234, product)
    return (marked + product * ((1 << 2047) // product + 1)).to_bytes(256)


def test_keys_that_must_not_verify_are_not_read(caplog: pytest.LogCaptureFixture) -> None:
    weak = {"kty": "RSA", "n": b64(b"\xc5" * 128), "e": "AQAB", "kid": "weak"}
    listed = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        weak,
        {**rsa().as_dict(private=True), "kid": "private"},
        issuing.public(rsa(), "for-encryption", use="enc"),
        issuing.public(rsa(), "to-encrypt", key_ops=["encrypt"]),
        issuing.public(rsa(), "not-a-list", key_ops="verify"),
        {"kty": "RSA", "n": b64(_breakable()), "e": "AQAB", "kid": "breakable"},
        {"kty": "RSA", "n": "!", "e": "AQAB", "kid": "unreadable"},
        {"kty": "EC", "crv": "P-256K", "x": "AA", "y": "AA", "kid": "curve"},
        issuing.public(rsa(), "other-algorithm", alg="PS512"),
        "no key",
    ]
    with caplog.at_level(logging.WARNING):
        found = keys.read(json.dumps({"keys": listed}).encode())

    assert [key.kid for key in found.keys] == ["other-algorithm"]
    assert found.fitting("", "RS256") == []
    for text in (b"[]", b'{"keys": {}}', b"{", json.dumps({"keys": [{}] * 65}).encode()):
        with pytest.raises(FieldError):
            keys.read(text)
