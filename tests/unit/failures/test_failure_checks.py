"""The checks of the failure tests can fail: doubled objects and falling seqs are found in what the
audit logs say.
"""

import dataclasses

from tests.e2e import failures_writes
from tests.e2e.failures_writes import Write

MADE = Write(
    at_s=1.0,
    cluster="a",
    account="federator-hub",
    credential="one",
    verb="create",
    resource="pinterestservices",
    namespace="feed",
    name="web",
    code=201,
    uid="u-1",
    version=10,
    seq=7,
)
GONE = dataclasses.replace(MADE, at_s=2.0, verb="delete", code=200, version=0, seq=0)
AGAIN = dataclasses.replace(MADE, at_s=3.0, uid="u-2", version=20)
PATCHED = dataclasses.replace(MADE, at_s=4.0, verb="patch", code=200, version=12, seq=8)


def test_an_object_that_is_created_twice_is_found() -> None:
    assert failures_writes.doubled([MADE, AGAIN], "feed") == [
        f"{AGAIN.row} is the second of its name"
    ]


def test_an_object_that_was_deleted_in_between_is_none() -> None:
    assert failures_writes.doubled([MADE, GONE, AGAIN], "feed") == []
    assert failures_writes.doubled([MADE, PATCHED], "feed") == []
    assert failures_writes.doubled([MADE, AGAIN], "other") == []


def test_a_refused_creation_counts_as_nothing() -> None:
    assert failures_writes.doubled([MADE, dataclasses.replace(AGAIN, code=409)], "feed") == []


def test_a_seq_that_falls_is_found_whatever_the_order_of_the_log() -> None:
    low = dataclasses.replace(PATCHED, version=13, seq=6)
    assert failures_writes.fallen([PATCHED, MADE]) == []
    assert failures_writes.fallen([low, MADE, PATCHED]) == [f"{low.row}: seq 8 -> 6"]
    assert failures_writes.fallen([dataclasses.replace(low, code=422), MADE, PATCHED]) == []


def test_a_new_object_of_the_same_name_begins_its_own_history() -> None:
    assert failures_writes.fallen([MADE, PATCHED, dataclasses.replace(AGAIN, seq=1)]) == []
