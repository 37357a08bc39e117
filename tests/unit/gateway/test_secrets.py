"""Credentials from Secrets: the usual forms, and nothing of them in reprs and errors."""

import base64
import json

import pytest

from federator.gateway.artifacts.secrets import Login, login_of

CANARY = "canary-7f3a"


def _data(**texts: str) -> dict[str, dict[str, str]]:
    encoded = {
        name.replace("_", "."): base64.b64encode(text.encode()).decode()
        for name, text in texts.items()
    }
    return {"data": encoded}


def _docker(**auths: dict[str, str]) -> dict[str, dict[str, str]]:
    return _data(_dockerconfigjson=json.dumps({"auths": auths}))


PAIR = base64.b64encode(f"ci:{CANARY}".encode()).decode()


@pytest.mark.parametrize(
    ("secret", "host"),
    [
        (_data(username="ci", password=CANARY), "anywhere"),
        (_docker(**{"registry.example": {"auth": PAIR}}), "registry.example"),
        (_docker(**{"https://registry.example/v1/": {"auth": PAIR}}), "registry.example"),
        (_docker(**{"https://index.docker.io/v1/": {"auth": PAIR}}), "docker.io"),
        (_docker(a={}, b={"username": "ci", "password": CANARY}), "b"),
    ],
)
def test_user_and_password_are_read(secret: dict[str, dict[str, str]], host: str) -> None:
    login = login_of(secret, host)

    assert login.header == f"Basic {PAIR}"
    assert CANARY not in repr(login)
    assert PAIR not in repr(login)


def test_a_token_is_shown_as_a_bearer_token() -> None:
    assert login_of(_data(token=CANARY), "anywhere").header == f"Bearer {CANARY}"
    assert Login().header == ""


@pytest.mark.parametrize(
    "secret",
    [
        {},
        {"data": {"token": f"%{CANARY}"}},
        _data(_dockerconfigjson=f"{{{CANARY}"),
        _docker(**{"other.example": {"auth": PAIR}}),
        _docker(**{"registry.example": {"auth": f"%{CANARY}"}}),
    ],
)
def test_a_secret_that_cannot_be_used_is_refused_without_quoting_it(
    secret: dict[str, dict[str, str]],
) -> None:
    with pytest.raises(ValueError, match=r"is not|no entry|holds neither") as refusal:
        login_of(secret, "registry.example")

    assert CANARY not in str(refusal.value)
