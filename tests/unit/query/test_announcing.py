"""What a Lease says of the query port: believed of the hub that holds it, and of nobody else."""

import json
from typing import Any

import pytest

from federator.hub.query import announcing
from federator.hub.query.announcing import Announcement, NoPort
from federator.model.errors import FieldError

SAID = Announcement(
    "hub-0_1", "10.0.0.7:8444", announcing.SERVER_NAME, "-----BEGIN CERTIFICATE-----"
)


def lease(holder: str = "hub-0_1", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    given = announcing.notes(SAID) if annotations is None else annotations
    return {"metadata": {"annotations": given}, "spec": {"holderIdentity": holder}}


def changed(**facts: Any) -> dict[str, Any]:
    """The Lease with other facts in its annotation."""
    before = json.loads(announcing.notes(SAID)[announcing.ANNOTATION])
    return lease(annotations={announcing.ANNOTATION: json.dumps(before | facts)})


def test_what_a_leader_says_is_read_as_it_was_said() -> None:
    assert announcing.read(lease()) == SAID


@pytest.mark.parametrize(
    ("obj", "waiting"),
    [
        (lease(holder="hub-1_2"), True),
        (lease(holder=""), True),
        (lease(annotations={}), True),
        (lease(annotations={announcing.ANNOTATION: "{"}), False),
        (lease(annotations={announcing.ANNOTATION: "[]"}), True),
        (changed(address=""), False),
        (changed(address=7), False),
        (changed(ca=""), False),
        (changed(serverName=""), False),
        (changed(address="evil.example/path:1"), False),
        (changed(address="user@evil.example:1"), False),
        (changed(address="a" * 400), False),
        (changed(ca="x" * 100_000), False),
        ({}, True),
    ],
    ids=str,
)
def test_what_cannot_be_believed_is_one_sentence(obj: dict[str, Any], waiting: bool) -> None:
    with pytest.raises(NoPort) as refused:
        announcing.read(obj)
    assert refused.value.waiting is waiting


@pytest.mark.parametrize(
    ("advertise", "host", "told"),
    [
        ("", "127.0.0.1", "127.0.0.1:8444"),
        ("", "::1", "[::1]:8444"),
        ("10.0.0.7", "0.0.0.0", "10.0.0.7:8444"),
        ("10.0.0.7:443", "0.0.0.0", "10.0.0.7:443"),
        ("hub.example", "0.0.0.0", "hub.example:8444"),
        ("fd00::7", "::", "[fd00::7]:8444"),
        ("[fd00::7]:443", "::", "[fd00::7]:443"),
        ("[fd00::7]", "::", "[fd00::7]:8444"),
    ],
)
def test_an_address_is_where_callers_find_it(advertise: str, host: str, told: str) -> None:
    assert announcing.address(advertise, host, 8444) == told


def test_a_port_on_every_address_must_say_where_it_is() -> None:
    with pytest.raises(FieldError, match="advertise"):
        announcing.address("", "0.0.0.0", 8444)
