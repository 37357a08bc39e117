"""Scalars of YAML as kubectl reads and prints them.

The rows follow `resolve.go` and `resolve()` of go.yaml.in/yaml/v2 2.4.4, the printer `stringv` of
its `encode.go`: https://github.com/yaml/go-yaml/tree/v2.4.4. What a real kubectl prints is tried in
`tests/e2e/test_kubectl_yaml.py`.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from federator.api import decoding
from federator.cli import common
from federator.kube import kubeyaml
from federator.model.kubernetes import scalars

RULES: Mapping[str, Mapping[str, Any]] = {
    "words": {
        **dict.fromkeys(
            ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True
        ),
        **dict.fromkeys(
            ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False
        ),
        **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
        **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
        **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
    },
    "texts like words": dict.fromkeys(
        ["yEs", "tRUE", "nULL", "none", "None", "oN", ".iNF", "inf", "nan", "NaN", "-.nan"], str
    ),
    "integers by strconv.ParseInt(base 0), underscores taken out": {
        "0": 0,
        "-0": 0,
        "+5": 5,
        "-7": -7,
        "1_000": 1000,
        "1__0_": 10,
        "017": 15,
        "-017": -15,
        "0_17": 15,
        "0o17": 15,
        "0O17": 15,
        "0x1F": 31,
        "0X_1f": 31,
        "-0x10": -16,
        "0b101": 5,
        "0B1": 1,
        "-0b11": -3,
        "9223372036854775807": 2**63 - 1,
        "18446744073709551615": 2**64 - 1,
    },
    "floats by the pattern of YAML and strconv.ParseFloat": {
        "1.5": 1.5,
        "1.": 1,
        ".5": 0.5,
        ".5_5": 0.55,
        ".5e1_0": 5_000_000_000,
        "+.5": 0.5,
        "-1.5e-3": -0.0015,
        "1e3": 1000,
        "1E+3": 1000,
        "12e03": 12000,
        "1_0.5": 10.5,
        "08": 8,
        "0_9.5": 9.5,
        "18446744073709551616": 2.0**64,
        "-9223372036854775809": -(2.0**63),
        "1e21": 1e21,
        "0.1": 0.1,
        "5e-324": 5e-324,
    },
    "texts that other readers take for numbers": dict.fromkeys(
        [
            "97000e656493",
            "1e400",
            "-1e999",
            "9" * 400,
            "1:30",
            "190:20:30",
            "-1:30.5",
            "2026-01-02",
            "2026-01-02T03:04:05Z",
            "2001-12-14 21:59:43",
            "1e",
            "e5",
            "0x",
            "0xg",
            "0b2",
            "0o8",
            "0x1p4",
            "1.5.2",
            "1,000",
            "_1",
            "._5",
            ".5__5",
            ".5_",
            ".",
            "..",
            "-",
            "+",
            "-_",
            "+-1",
            "--1",
            "1e1.5",
            "١",
            "１",
        ],
        str,
    ),
}


@pytest.mark.parametrize(
    ("text", "value"), [row for rule in RULES.values() for row in rule.items()]
)
def test_a_scalar_without_quotes_means_what_kubectl_reads(text: str, value: object) -> None:
    read = scalars.resolve(text)
    assert read == (text if value is str else value)
    assert type(read) is type(text if value is str else value)


def test_not_a_number_is_a_float() -> None:
    assert all(math.isnan(float(scalars.resolve(text) or 0)) for text in (".nan", ".NaN", ".NAN"))


class KubectlDumper(yaml.SafeDumper):
    """Prints as go-yaml does: plain where it resolves to a text and is no number of base 60, else
    double quotes, and block style for several lines. Its emitter is that of libyaml, as PyYAML's
    is."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else None if is_plain(text) else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    def represent_number(self, number: float | None) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", shown(number))


def is_plain(text: str) -> bool:
    base_60 = re.fullmatch(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", text)
    return isinstance(scalars.resolve(text), str) and not base_60


def shown(value: float | bool | None) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


KubectlDumper.add_representer(str, KubectlDumper.represent_text)
for number in (int, float, bool, type(None)):
    KubectlDumper.add_representer(number, KubectlDumper.represent_number)

NUMBERLIKE = st.text(alphabet="0123456789eE+-._:xXobaf~nyYNosfultrTIi", max_size=14)
# The emitter of kubectl itself loses breaks of lines other than \n.
TEXTS = NUMBERLIKE | st.text(
    st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029\ufeff"), max_size=30
)
KEYS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=12)
VALUES = st.recursive(
    TEXTS | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_kubectl_prints_reads_back_equal(obj: dict[str, Any]) -> None:
    text = yaml.dump(obj, Dumper=KubectlDumper, sort_keys=True, allow_unicode=True)
    assert decoding.from_yaml(text) == [obj]
    assert yaml.load(text, Loader=kubeyaml.Loader) == obj


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_what_we_print_reads_back_equal(obj: dict[str, Any]) -> None:
    assert decoding.from_yaml(yaml.dump(obj, Dumper=kubeyaml.Dumper, allow_unicode=True)) == [obj]
    assert decoding.from_yaml(common.dump(obj, "yaml")) == [obj]
