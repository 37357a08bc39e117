"""When a service account's token ends, by its claims, and what is no such token."""

import base64
import json
from typing import Any

import pytest

from federator.kube import tokens
from federator.kube.tokens import Token

SUBJECT = "system:serviceaccount:federator-system:federator-hub"


def jwt(claims: Any) -> str:
    body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    return f"aGVhZA.{base64.urlsafe_b64encode(body).decode().rstrip('=')}.c2ln"


def test_a_token_says_whose_it_is_and_when_it_ends() -> None:
    claims = {
        "sub": SUBJECT,
        "iat": 1_000,
        "exp": 4_000,
        "aud": ["x"],
        "kubernetes.io": {"namespace": "other"},
    }
    assert tokens.read(jwt(claims)) == Token("federator-system", "federator-hub", 1_000, 4_000)
    assert tokens.read(jwt({"sub": SUBJECT})) == Token("federator-system", "federator-hub", 0, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b.c",
        "0123456789abcdef",
        jwt({"sub": "system:node:n", "iat": 1, "exp": 2}),
        jwt({"sub": "system:serviceaccount:only", "iat": 1, "exp": 2}),
        jwt({"sub": "system:serviceaccount:../x:y", "iat": 1, "exp": 2}),
        jwt({"sub": SUBJECT, "iat": 5, "exp": 5}),
        jwt({"sub": SUBJECT, "iat": -5, "exp": 5}),
        jwt({"sub": SUBJECT, "exp": 5}),
        jwt({"sub": SUBJECT, "iat": 1, "exp": 10**15}),
        jwt({"sub": SUBJECT, "iat": 1, "exp": "5"}),
        jwt({"sub": SUBJECT, "iat": True, "exp": 5}),
        jwt([SUBJECT]),
        jwt(b"[" * 12_000),
        jwt({"sub": SUBJECT, "iat": 1, "exp": 2}) + "\n",
        jwt({"sub": SUBJECT, "iat": 1, "exp": 2, "pad": "x" * tokens.TOKEN_MAX}),
    ],
)
def test_what_is_no_such_token_is_nobodys_to_renew(text: str) -> None:
    assert tokens.read(text) is None


def test_it_is_renewed_at_its_age_or_two_thirds_of_a_short_life_and_if_endless_at_once() -> None:
    week = Token("n", "hub", 1_000, 1_000 + 7 * 86_400)
    assert week.renewable_s(86_400.0) == 1_000 + 86_400
    assert Token("n", "hub", 1_000, 1_600).renewable_s(86_400.0) == 1_400
    assert Token("n", "hub", 0, None).renewable_s(86_400.0) == 0.0
