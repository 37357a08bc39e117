"""Quantities against the whole case table, and the traps that hostile input sets."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.embedded.schema import scalars
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity
from federator.model.kubernetes.quantity import Format, Quantity
from federator.model.resources import Resources
from tests import casetables


def exact(text: str) -> int:
    nanos = Fraction(text) * 10**9
    assert nanos.denominator == 1
    return nanos.numerator


def check_parse(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    if not expected["ok"]:
        with pytest.raises(FieldError):
            quantity.parse(given_["text"])
        return
    got = quantity.parse(given_["text"])
    assert got == Quantity(exact(expected["value"]), Format(expected["format"]))
    assert str(got) == expected["canonical"]
    if "ceilInt" in expected:
        assert got.ceil() == quantity.value(given_["text"]) == expected["ceilInt"]
    if "ceilMilli" in expected:
        assert got.ceil(-3) == quantity.milli(given_["text"]) == expected["ceilMilli"]


def check_format(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    assert str(Quantity(exact(given_["value"]), Format(given_["format"]))) == expected["canonical"]


def check_json(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    assert str(quantity.from_json(json.loads(given_["json"]))) == expected["canonical"]


def check_cmp(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    a, b = quantity.parse(given_["a"]).nanos, quantity.parse(given_["b"]).nanos
    assert (a > b) - (a < b) == expected["cmp"]


def operands(given_: dict[str, Any]) -> tuple[Quantity, Quantity]:
    if "aFormat" not in given_:
        return quantity.parse(given_["a"]), quantity.parse(given_["b"])
    return tuple(Quantity(exact(given_[side]), Format(given_[f"{side}Format"])) for side in "ab")  # type: ignore[return-value]


def check_sum(got: Quantity, expected: dict[str, Any]) -> None:
    if "canonical" in expected:
        assert str(got) == expected["canonical"]
    else:
        assert got == Quantity(exact(expected["value"]), Format(expected["format"]))


def check_add(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    a, b = operands(given_)
    check_sum(a + b, expected)


def check_sub(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    a, b = operands(given_)
    check_sum(a - b, expected)


def check_mul(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    assert (Quantity(exact(given_["a"])) * given_["by"]).nanos == exact(expected["value"])


def check_roundup(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    before = quantity.parse(given_["text"])
    after = before.rounded(given_["scale"])
    assert after.nanos == exact(expected["value"])
    assert (after == before) == expected["exact"]


def check_scaled(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    assert Quantity(exact(given_["value"])).ceil(given_["scale"]) == expected["ceil"]


LEFT_OUT = {
    "cmp-288": (
        "the reference compares the two decimals before they are rounded to nano-units, as "
        "parsing does"
    )
}
CHECKS = {
    "parse": check_parse,
    "format": check_format,
    "json": check_json,
    "cmp": check_cmp,
    "add": check_add,
    "add-text": check_add,
    "sub": check_sub,
    "sub-text": check_sub,
    "mul": check_mul,
    "roundup": check_roundup,
    "scaled": check_scaled,
}


def test_every_case_of_the_table_holds() -> None:
    wrong = []
    for case in casetables.cases("quantity"):
        if case["name"] in LEFT_OUT:
            continue
        try:
            CHECKS[case["kind"]](case["input"], case["expected"])
        except AssertionError as error:
            wrong.append(f"{case['name']} {case['input']}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "10KiB",
        "1_000",
        "١",
        " 7 ",
        "1Ki1",
        "7\n",
        "1" * 5000,
        "1e400",
        "NaN",
        "Infinity",
        "0x10",
        "Ei",
        "+Pi",
        "e-10",
        "..",
        "K",
        "",
    ],
)
def test_what_python_would_read_but_kubernetes_does_not_is_refused(text: str) -> None:
    with pytest.raises(FieldError):
        quantity.parse(text)


NOTHING = [
    *(
        ("+", "DecimalSI"),
        ("-", "DecimalSI"),
        (".", "DecimalSI"),
        ("+.", "DecimalSI"),
        ("m", "DecimalSI"),
    ),
    *(
        ("-m", "DecimalSI"),
        (".m", "DecimalSI"),
        ("n", "DecimalSI"),
        ("E", "DecimalSI"),
        ("Ki", "BinarySI"),
    ),
    *(
        ("-.Ki", "BinarySI"),
        ("Ti", "BinarySI"),
        ("e3", "DecimalExponent"),
        (".e3", "DecimalExponent"),
    ),
    *(("-.e3", "DecimalExponent"), ("e-9", "DecimalExponent"), ("E+3", "DecimalExponent")),
]
"""Texts without a digit and their format, as k8s.io/apimachinery v0.36.4 reads them."""


@pytest.mark.parametrize(("text", "form"), NOTHING)
def test_a_text_without_digits_is_nothing_as_for_api_servers(text: str, form: str) -> None:
    assert quantity.parse(text) == Quantity(0, Format(form))
    assert str(quantity.parse(text)) == scalars.quantity(text) == "0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Ei", scalars.BAD_NUMBER),
        ("+Pi", scalars.BAD_NUMBER),
        ("e-10", scalars.BAD_NUMBER),
        ("K", scalars.BAD_SUFFIX),
        ("1e", scalars.BAD_SUFFIX),
        ("--1", scalars.BAD_SUFFIX),
        ("m3", scalars.BAD_SUFFIX),
        ("..", scalars.QUANTITY_PATTERN),
        ("", scalars.QUANTITY_PATTERN),
        ("abc", scalars.QUANTITY_PATTERN),
    ],
)
def test_a_refusal_has_the_words_of_api_servers(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="quantit") as caught:
        scalars.quantity(text)
    assert str(caught.value) == said
    with pytest.raises(FieldError):
        quantity.parse(text)


@pytest.mark.parametrize("value", [True, 1.5, None, [], {"a": 1}, float("nan"), 10**70])
def test_json_values_that_are_not_quantities_are_refused_with_their_path(value: object) -> None:
    with pytest.raises(FieldError) as caught:
        quantity.from_json(value, "spec.tiers.cpu")
    assert caught.value.path == "spec.tiers.cpu"


@pytest.mark.parametrize("text", ["-1", "-500m", "9Ei", "1e30"])
def test_a_vector_refuses_negative_and_absurd_amounts_naming_the_resource(text: str) -> None:
    with pytest.raises(FieldError) as caught:
        quantity.vector({"cpu": "1", "memory": text}, "requests")
    assert caught.value.path == "requests.memory"


def test_a_vector_counts_milli_cpu_and_base_units_and_is_written_back_canonically() -> None:
    vector = quantity.vector({"cpu": "1.5", "memory": "1536Mi", "nvidia.com/gpu": 2, "pods": "110"})
    assert vector == Resources(
        {"cpu": 1500, "memory": 1536 << 20, "nvidia.com/gpu": 2, "pods": 110}
    )
    assert quantity.render(vector) == {
        "cpu": "1500m",
        "memory": "1536Mi",
        "nvidia.com/gpu": "2",
        "pods": "110",
    }


def test_a_fraction_of_a_unit_is_rounded_up_so_that_requests_are_never_understated() -> None:
    assert quantity.vector({"cpu": "0.1m", "memory": "100m"}) == Resources({"cpu": 1, "memory": 1})


@given(st.text(max_size=40))
def test_parsing_any_text_gives_a_quantity_or_a_field_error(text: str) -> None:
    try:
        got = quantity.parse(text)
    except FieldError:
        return
    assert quantity.parse(str(got)).nanos == got.nanos


@given(st.integers(-(10**30), 10**30), st.sampled_from(Format))
def test_canonical_text_reads_back_to_the_same_amount(nanos: int, form: Format) -> None:
    got = quantity.parse(str(Quantity(nanos, form)))
    assert got.nanos == nanos or abs(nanos) > quantity.MAX_BINARY * quantity.NANO


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("cpu", "1826820m", "1826.82"),
        ("cpu", "500m", "0.5"),
        ("cpu in zone", "2", "2"),
        ("memory", "3987072Mi", "3.8Ti"),
        ("memory", "4653Gi", "4.54Ti"),
        ("memory", "0", "0"),
        ("memory", "1023", "1023"),
        ("nvidia.com/gpu", "12", "12"),
        ("pods", "4505", "4505"),
    ],
)
def test_amounts_are_shown_for_comparing_by_eye(name: str, text: str, shown: str) -> None:
    assert quantity.readable(name, text) == shown
