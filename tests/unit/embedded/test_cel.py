"""CEL rules of custom resources: transitions, messages, paths, what is compiled and what is
refused.
"""

from typing import Any

import pytest

from federator.embedded.storage.schema import Node
from federator.embedded.validation.cel import rules as cel_rules
from federator.embedded.validation.cel import views


def _node(rules: list[dict[str, Any]], **properties: Any) -> Node:
    return Node(
        {"type": "object", "properties": properties, "x-kubernetes-validations": rules}, None
    )


INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


def test_transition_rule_needs_an_old_value() -> None:
    node = _node([{"rule": "self.seq >= oldSelf.seq", "message": "seq may only rise"}], seq=INTEGER)
    assert cel_rules.check({"seq": 1}, None, node) == []
    assert cel_rules.check({"seq": 2}, {"seq": 1}, node) == []
    (error,) = cel_rules.check({"seq": 1}, {"seq": 2}, node)
    assert error.line() == "<nil>: Invalid value: seq may only rise"


def test_optional_old_value_is_there_on_create_too() -> None:
    node = _node(
        [{"rule": "!oldSelf.hasValue() || self.a == oldSelf.value().a", "optionalOldSelf": True}],
        a=INTEGER,
    )
    assert cel_rules.check({"a": 1}, None, node) == []
    assert len(cel_rules.check({"a": 2}, {"a": 1}, node)) == 1


def test_rule_that_says_nothing_gets_its_own_text() -> None:
    (error,) = cel_rules.check({"a": 0}, None, _node([{"rule": "self.a > 0"}], a=INTEGER))
    assert error.message == "Invalid value: failed rule: self.a > 0"


def test_message_expression_path_and_reason() -> None:
    rule = {
        "rule": "self.a > 0",
        "message": "unused",
        "messageExpression": "'a is ' + string(self.a)",
        "reason": "FieldValueForbidden",
        "fieldPath": ".a",
    }
    (error,) = cel_rules.check({"a": 0}, None, _node([rule], a=INTEGER))
    assert error.line() == "a: Forbidden: a is 0"


def test_failing_message_expression_falls_back_to_the_message() -> None:
    rule = {"rule": "self.a > 0", "message": "too small", "messageExpression": "self.b"}
    (error,) = cel_rules.check({"a": 0}, None, _node([rule], a=INTEGER, b=TEXT))
    assert error.message == "Invalid value: too small"


def test_missing_field_is_an_error_not_a_pass() -> None:
    (error,) = cel_rules.check({}, None, _node([{"rule": "self.a > 0"}], a=INTEGER))
    assert error.message == 'Invalid value: "object": no such key: a evaluating rule: self.a > 0'


def test_unchanged_object_is_not_held_against_an_ordinary_rule() -> None:
    node = _node([{"rule": "self.a > 0"}], a=INTEGER)
    assert cel_rules.check({"a": 0}, {"a": 0}, node) == []


def test_rules_below_lists_maps_and_fields_name_their_place() -> None:
    item = {
        "type": "object",
        "properties": {"n": TEXT, "v": INTEGER},
        "x-kubernetes-validations": [{"rule": "self.v > 0"}],
    }
    node = Node(
        {
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["n"],
                    "items": item,
                },
                "m": {"type": "object", "additionalProperties": item},
                "s": item,
            },
        },
        None,
    )
    bad = {"n": "x", "v": 0}
    errors = cel_rules.check({"l": [bad], "m": {"k": bad}, "s": bad}, None, node)
    assert [error.field for error in errors] == ["l[0]", "m[k]", "s"]


def test_transition_in_a_keyed_list_compares_items_of_one_key() -> None:
    item = {
        "type": "object",
        "properties": {"n": TEXT, "v": INTEGER},
        "x-kubernetes-validations": [{"rule": "self.v == oldSelf.v", "message": "fixed"}],
    }
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"],
        "items": item,
    }
    node = Node({"type": "object", "properties": {"l": schema}}, None)
    old = {"l": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]}
    new = {"l": [{"n": "b", "v": 2}, {"n": "c", "v": 3}, {"n": "a", "v": 9}]}
    assert [error.field for error in cel_rules.check(new, old, node)] == ["l[2]"]


def test_fields_that_cel_cannot_spell_are_escaped() -> None:
    node = _node(
        [{"rule": "self.__namespace__ == self.a__dash__b"}], **{"namespace": TEXT, "a-b": TEXT}
    )
    assert cel_rules.check({"namespace": "x", "a-b": "x"}, None, node) == []
    assert len(cel_rules.check({"namespace": "x", "a-b": "y"}, None, node)) == 1


WHOLE = [
    ("self.size() == 1", {"a": 1}, True),
    ("self == {'a': 1}", {"a": 1}, True),
    ("has(self.a) && !has(self.b)", {"a": 1}, True),
    ("'self.b' == 'self.' + 'b'", {"a": 1}, True),
    ("quantity('1Gi').isGreaterThan(quantity('1000Mi'))", {}, True),
    ("'a,b'.split(',').size() == 2 && 'AB'.lowerAscii() == 'ab'", {}, True),
    ("quantity('0.5').add(quantity('500m')).compareTo(quantity('1')) == 0", {}, True),
]


@pytest.mark.parametrize(("rule", "obj", "holds"), WHOLE)
def test_rule_sees_what_it_names(rule: str, obj: dict[str, Any], holds: bool) -> None:
    node = Node(
        {
            "type": "object",
            "additionalProperties": INTEGER,
            "x-kubernetes-validations": [{"rule": rule}],
        },
        None,
    )
    assert (cel_rules.check(obj, None, node) == []) is holds


NAMED = [
    ("self.a > 0 && oldSelf.b > 0", {"a": None}, {"b": None}),
    ("has(self.a.b) && self.a.c == 1", {"a": {"b": {}, "c": None}}, {}),
    ("has(self.a) && self.a.size() > 0", {"a": None}, {}),
    ("self.a.b.all(x, x.self > 0)", {"a": {"b": None}}, {}),
    ("self.a[0].b == 'self.c'", {"a": None}, {}),
    ("self == oldSelf", None, None),
]


@pytest.mark.parametrize(("rule", "of_self", "of_old"), NAMED)
def test_rule_is_given_only_what_it_names(rule: str, of_self: Any, of_old: Any) -> None:
    assert views.named_fields(rule) == {"self": of_self, "oldSelf": of_old}


def test_what_is_only_asked_for_is_not_shown() -> None:
    node = _node([], a={"type": "object", "properties": {"b": TEXT, "c": TEXT}}, d=TEXT)
    value = {"a": {"b": "x", "c": "y"}, "d": "z"}
    assert views.seen(value, {"a": {}}, node) == {"a": {}}
    assert views.seen(value, {"a": {"b": None}, "e": None}, node) == {"a": {"b": "x"}}
    assert views.seen(value, None, node) is value


REFUSED = [
    ("self.a >", "Syntax error"),
    ("self.nope > 1", "undefined field 'nope'"),
    ("dance(self.a)", "undeclared reference to 'dance' (in container '')"),
]


@pytest.mark.parametrize(("rule", "why"), REFUSED)
def test_rule_that_does_not_compile_is_refused_with_its_place(rule: str, why: str) -> None:
    with pytest.raises(cel_rules.RuleError) as refused:
        cel_rules.compile_rule({"rule": rule}, _node([], a=INTEGER))
    assert why in str(refused.value)
    assert "ERROR: <input>:1:" in str(refused.value)
