"""Figures of a decision are packed, and read back as they are spelled in its object."""

import pytest

from federator.api.placement import decisionfacts


@pytest.mark.parametrize(
    ("uid", "version", "inputs_hash"),
    [
        ("e25d1f82-d9e5-40a1-a432-59121db002f0", "42", "0123456789abcdef"),
        ("E25D1F82-D9E5-40A1-A432-59121DB002F0", "42", "0123456789abcdef"),
        ("e25d1f82-d9e5-40a1-a432-59121db002f0", "042", "0123456789abcdef"),
        ("e25d1f82-d9e5-40a1-a432-59121db002f0", "9" * 30, "0123456789abcdef"),
        ("e25d1f82-d9e5-40a1-a432-59121db002f0", "42", "0123456789ABCDEF"),
        ("e25d1f82-d9e5-40a1-a432-59121db002f0", "42", "01 23"),
        ("", "", ""),
    ],
)
def test_whatever_stands_in_an_object_is_read_back_as_it_is_spelled(
    uid: str, version: str, inputs_hash: str
) -> None:
    made_at = "2026-01-01T00:00:00.250000Z"
    meta = {"name": "d", "uid": uid, "resourceVersion": version}
    spec = {"inputsHash": inputs_hash, "asOf": made_at}
    facts = decisionfacts.decision_facts({"metadata": meta, "spec": spec})
    assert (facts.uid, facts.resource_version, facts.inputs_hash) == (uid, version, inputs_hash)
    assert facts.as_of == 1767225600.25
    lost = facts.in_object("", "")
    assert (lost.uid, lost.resource_version, lost.inputs_hash) == ("", "", inputs_hash)
    assert lost.as_of == facts.as_of
    assert lost.in_object(uid, version) == facts
