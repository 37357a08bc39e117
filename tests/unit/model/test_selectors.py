"""Selectors and names against the case table; objects that are not selectors name their field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from tests import casetables

NO_ENTRY = "we never turn a selector into a map of labels"
LEFT_OUT = {"parse-equality-map": NO_ENTRY}


def refused(reading: Any) -> FieldError | None:
    try:
        reading()
    except FieldError as error:
        return error
    return None


def check(kind: str, given_: dict[str, Any], expected: dict[str, Any]) -> None:
    match kind:
        case "parse":
            assert (refused(lambda: selectors.parse(given_["selector"])) is None) == expected["ok"]
            if expected["ok"]:
                assert (
                    selectors.to_text(selectors.parse(given_["selector"])) == expected["canonical"]
                )
        case "parse-order":
            texts = {selectors.to_text(selectors.parse(text)) for text in given_["selectors"]}
            assert len(texts) == 1
        case "match":
            assert (
                selectors.parse(given_["selector"]).matches(given_["labels"]) == expected["match"]
            )
        case "match-set":
            selector = selectors.from_dict({"matchLabels": given_["matchLabels"]})
            assert selector.matches(given_["labels"]) == expected["match"]
        case "requirement":
            error = refused(
                lambda: selectors.requirement(given_["key"], given_["operator"], given_["values"])
            )
            assert [wrong["field"] for wrong in expected["errors"]] == (
                [error.path] if error else []
            )
        case "match-requirements":
            conditions = [
                selectors.requirement(r["key"], r["op"], r["values"])
                for r in given_["requirements"]
            ]
            assert all(one.matches(given_["labels"]) for one in conditions) == expected["match"]
        case "parse-set":
            check_parse_set(given_["selector"], expected)
        case "label-selector-object":
            assert (
                refused(lambda: selectors.from_dict(given_["labelSelector"])) is None
            ) == expected["ok"]
            if expected["ok"]:
                text = selectors.to_text(selectors.from_dict(given_["labelSelector"]))
                assert text == expected["equivalent"].replace("<everything>", "")
        case _:
            checks = {
                "label-key": selectors.check_label_key,
                "label-value": selectors.check_label_value,
                "dns-label": selectors.dns1123_label,
                "dns-subdomain": selectors.dns1123_subdomain,
            }
            assert (checks[kind](given_["text"]) is None) == expected["ok"]


def check_parse_set(text: str, expected: dict[str, Any]) -> None:
    assert (refused(lambda: selectors.parse(text)) is None) == expected["ok"]
    if not expected["ok"]:
        return
    got = [
        {"key": r.key, "op": str(r.operator), "values": list(r.values)}
        for r in selectors.parse(text).requirements
    ]
    if "requirements" in expected:
        assert got == expected["requirements"]
    else:
        assert sorted(got, key=str) == sorted(expected["requirementsAnyOrder"], key=str)


def test_every_case_of_the_table_holds() -> None:
    wrong, seen = [], 0
    for case in casetables.cases("label_selectors"):
        if case["kind"] in LEFT_OUT:
            continue
        seen += 1
        try:
            check(case["kind"], case["input"], case["expected"])
        except (AssertionError, FieldError) as error:
            wrong.append(f"{case['name']} {case['kind']} {case['input']}: {error!r}")
    assert not wrong, "\n".join(wrong)
    assert seen == 302


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        ({"matchLabel": {}}, "spec.selector.matchLabel"),
        ({"matchLabels": {"a": 1}}, "spec.selector.matchLabels.a"),
        ({"matchLabels": []}, "spec.selector.matchLabels"),
        ({"matchLabels": {"-a": "b"}}, "spec.selector.matchLabels.-a"),
        ({"matchExpressions": {"a": 1}}, "spec.selector.matchExpressions"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Gt"}]},
            "spec.selector.matchExpressions[0].operator",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "spec.selector.matchExpressions[0].values",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]},
            "spec.selector.matchExpressions[0].values",
        ),
        ({"matchExpressions": [{"operator": "Exists"}]}, "spec.selector.matchExpressions[0].key"),
        ({"matchExpressions": ["a"]}, "spec.selector.matchExpressions[0]"),
        ([], "spec.selector"),
    ],
)
def test_an_object_that_is_no_selector_is_refused_at_its_field(obj: Any, path: str) -> None:
    error = refused(lambda: selectors.from_dict(obj, "spec.selector"))
    assert error is not None
    assert error.path == path


@pytest.mark.parametrize(
    ("name", "ok"),
    [
        ("web", True),
        ("1web", False),
        ("web-", False),
        ("Web", False),
        ("w" * 64, False),
        ("w\n", False),
    ],
)
def test_names_of_services_begin_with_a_letter(name: str, ok: bool) -> None:
    assert (selectors.dns1035_label(name) is None) == ok


@given(st.text(max_size=30))
def test_parsing_any_text_gives_a_selector_or_a_field_error_and_the_canonical_text_is_stable(
    text: str,
) -> None:
    try:
        selector = selectors.parse(text)
    except FieldError:
        return
    assert selectors.parse(selectors.to_text(selector)) == selector
