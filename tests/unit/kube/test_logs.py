"""What is logged: one line of JSON per record, no secrets, no floods."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from federator.process import logs
from tests.running import leaving


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    with leaving.put_back():
        logs.configure("DEBUG", "json", stream)
        yield stream


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(row) for row in out.getvalue().splitlines()]


def test_a_record_is_one_line_of_json_with_level_logger_and_time(out: io.StringIO) -> None:
    logging.getLogger("federator.kube.x").info("member %s joined", "east\n1")
    (row,) = lines(out)
    assert row["event"] == "member east\n1 joined"
    assert (row["level"], row["logger"]) == ("info", "federator.kube.x")
    assert str(row["timestamp"]).endswith("Z")


def test_a_traceback_is_part_of_its_record(out: io.StringIO) -> None:
    try:
        raise ValueError("token: s3cr3t-canary")
    except ValueError:
        logging.getLogger("x").exception("broke")
    (row,) = lines(out)
    assert "Traceback" in str(row["exception"])
    assert "s3cr3t-canary" not in out.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer s3cr3t-canary-0123456789",
        '{"token": "s3cr3t-canary"}',
        "password=s3cr3t-canary",
        "client-key-data: s3cr3t-canary",
        "eyJhbGciOiJSUzI1NiJ9.s3cr3t-canary.c2lnbmF0dXJl",
        "-----BEGIN EC PRIVATE KEY-----\ns3cr3t-canary\n-----END EC PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\ns3cr3t-canary",
    ],
)
def test_what_looks_like_a_secret_is_left_out(text: str, out: io.StringIO) -> None:
    logging.getLogger("x").warning("got %s", text)
    assert "s3cr3t-canary" not in out.getvalue()
    assert "[redacted]" in out.getvalue()


def test_ordinary_words_stay() -> None:
    text = "the token expires in 5 s; the bearer of bad news; key web/api"
    assert logs.redacted(text) == text


def test_a_flood_from_one_place_is_held_back_and_counted(out: io.StringIO) -> None:
    flood, other = logging.getLogger("flood"), logging.getLogger("other")
    for number in range(1000):
        flood.info("again %d", number)
    other.info("still heard")
    events = [str(row["event"]) for row in lines(out)]
    assert 20 <= len(events) <= 60
    assert events[-1] == "still heard"


def test_after_a_flood_the_next_record_says_how_many_were_left_out() -> None:
    one = logs.FloodFilter()
    records = [logging.LogRecord("x", 20, "f.py", 1, "again", (), None) for _ in range(102)]
    for record in records:
        record.created = 1000.0
    records[-1].created = 2000.0
    passed = [record for record in records if one.filter(record)]
    assert len(passed) == 31
    assert passed[-1].getMessage() == "again (71 more like this were left out)"


def test_facts_given_beside_the_message_are_fields(out: io.StringIO) -> None:
    logging.getLogger("x").info("placed", extra={"workload": "psvc/web", "shares": {"a": 2}})
    (row,) = lines(out)
    assert (row["workload"], row["shares"]) == ("psvc/web", {"a": 2})
