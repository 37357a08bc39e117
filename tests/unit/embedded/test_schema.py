"""Decoding, defaults and schema validation of custom resources beyond the recordings, and canonical
scalars.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.embedded.schema import builtins, defaults, pruning, scalars
from federator.embedded.storage.schema import Node
from federator.embedded.validation import schema_rules
from tests.unit.embedded import recordings

QUANTITIES = [
    *(
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1e3"),
        ("1000", "1k"),
    ),
    *(
        ("0.1m", "100u"),
        ("0Gi", "0"),
        ("0.5Ki", "512"),
        ("-5m", "-5m"),
        ("100E", "100E"),
        (".5", "500m"),
        ("1.", "1"),
    ),
]


@pytest.mark.parametrize(("text", "stored"), QUANTITIES)
def test_quantity_is_stored_in_canonical_form(text: str, stored: str) -> None:
    assert scalars.quantity(text) == stored
    assert scalars.amount(stored) == scalars.amount(text)


@pytest.mark.parametrize("text", ["", "1x", "1 Gi", "Ei", "1GiB", "--1", "1e", "0x1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        scalars.quantity(text)


TIMES = [
    ("2026-01-01T00:00:00Z", False, "2026-01-01T00:00:00Z"),
    ("2026-01-01T02:00:00+02:00", False, "2026-01-01T00:00:00Z"),
    ("2026-01-01T02:00:00.123456+02:00", True, "2026-01-01T00:00:00.123456Z"),
]


@pytest.mark.parametrize(("text", "micro", "stored"), TIMES)
def test_time_is_stored_in_utc(text: str, micro: bool, stored: str) -> None:
    assert scalars.time(text, micro) == stored


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789Z"])
def test_a_micro_time_has_exactly_six_digits(text: str) -> None:
    with pytest.raises(ValueError, match=r"2006-01-02T15:04:05.000000Z07:00"):
        scalars.time(text, True)


def test_decoding_changes_nothing_and_shares_nothing() -> None:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
        "data": {"a": "b"},
    }
    pruned = pruning.prune(body, builtins.info("", "configmaps"))
    assert pruned.obj == body
    assert pruned.obj["data"] is not body["data"]
    assert pruned.obj["metadata"] is not body["metadata"]


def test_duplicate_fields_are_found_at_any_depth() -> None:
    raw = b'{"a": 1, "b": [{"c": 1, "c": 2}], "a": 3, "d": {"e": {}, "e": {}}}'
    assert pruning.duplicate_fields(raw) == ["a", "b[0].c", "d.e"]


def test_strict_error_names_duplicates_first() -> None:
    text = pruning.strict_error(["spec.x"], ["metadata.name"])
    assert text == 'strict decoding error: duplicate field "metadata.name", unknown field "spec.x"'


def test_default_of_a_parent_lets_defaults_below_apply() -> None:
    obj: dict[str, Any] = {"spec": {"color": "red"}}
    defaults.fill(obj, recordings.widget())
    assert obj["spec"]["nested"] == {"deep": "x"}


def test_defaults_are_not_shared_between_objects() -> None:
    first: dict[str, Any] = {"spec": {}}
    second: dict[str, Any] = {"spec": {}}
    for obj in (first, second):
        defaults.fill(obj, recordings.widget())
    first["spec"]["nested"]["deep"] = "changed"
    assert second["spec"]["nested"]["deep"] == "x"


def test_unchanged_bad_value_does_not_block_an_update() -> None:
    node = recordings.widget().node
    old = {"spec": {"color": "blue", "note": "TOO LOUD"}}
    assert (
        schema_rules.check(
            {"spec": {"color": "blue", "note": "TOO LOUD", "replicas": 2}}, old, node
        )
        == []
    )
    changed = schema_rules.check({"spec": {"color": "blue", "note": "LOUDER"}}, old, node)
    assert [error.field for error in changed] == ["spec.note"]


def test_items_of_a_keyed_list_are_compared_by_key() -> None:
    node = recordings.widget().node
    old = {"spec": {"color": "red", "ports": [{"name": "a", "port": 0}, {"name": "b", "port": 1}]}}
    moved = {
        "spec": {"color": "red", "ports": [{"name": "b", "port": 1}, {"name": "a", "port": 0}]}
    }
    assert schema_rules.check(moved, old, node) == []


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (5, "5"),
        (0.5, "0.5"),
        (-1.5, "-1.5"),
        (999999, "999999"),
        (1e6, "1e+06"),
        (2147483647, "2.147483647e+09"),
    ],
)
def test_bounds_are_printed_as_go_prints_floats(number: float, text: str) -> None:
    assert schema_rules.go_float(number) == text


SCHEMA = Node(
    {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer", "minimum": 0, "format": "int32"},
            "b": {
                "type": "array",
                "maxItems": 2,
                "items": {"type": "string", "maxLength": 2, "nullable": True},
            },
            "c": {
                "type": "object",
                "additionalProperties": {"type": "boolean"},
                "minProperties": 1,
            },
            "d": {"x-kubernetes-int-or-string": True},
            "e": {"type": "string", "enum": ["x", "y"]},
            "f": {"oneOf": [{"required": ["p"]}, {"required": ["q"]}], "type": "object"},
            "g": {"x-kubernetes-preserve-unknown-fields": True},
        },
    },
    None,
)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-3, 3)
    | st.sampled_from(["x", "y", "long", ""])
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abcdefgpq"), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("abcdefg"), _VALUES, max_size=6))
def test_the_quick_look_and_the_slow_one_agree(obj: dict[str, Any]) -> None:
    """An object has no complaints in the worded walk exactly when the compiled one lets it pass."""
    worded = list(schema_rules.problems(obj, schema_rules._ABSENT, SCHEMA, "", ""))
    assert schema_rules.check(obj, None, SCHEMA) == worded
    assert schema_rules._fits(SCHEMA)(obj) == (not worded)
