"""What an unquoted scalar of YAML means to kubectl and to API servers.

They read YAML with sigs.k8s.io/yaml 1.6 on go.yaml.in/yaml/v2 2.4: the rules are those of its
`resolve.go`. Its printer leaves a text without quotes only where these rules read it back as a
text. They are neither those of YAML 1.1 (`1:30` and dates are texts) nor of 1.2 (`no` is false, 017
is 15, and 1e999 is a text because it is no float).
"""

import math
import re
from typing import Final

Scalar = str | int | float | bool | None

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGERS: Final = (
    (re.compile(r"([-+]?)(0|[1-9][0-9]{0,19})"), 10),
    (re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0[bB]([01]+)"), 2),
    (re.compile(r"([-+]?)0[oO]?([0-7]+)"), 8),
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BETWEEN: Final = re.compile(r"(?<=[0-9])_(?=[0-9])")
_INT64: Final = range(-(2**63), 2**63)
_UINT64: Final = range(2**64)


def resolve(text: str) -> Scalar:
    """The value of a scalar that stands without quotes and without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or not text.isascii():
        return text
    # The library of Go takes one underscore between digits out of a float; in all that begins with
    # a digit or a sign go-yaml takes every underscore out first.
    digits = _BETWEEN.sub("", text) if text[0] == "." else text.replace("_", "")
    number = _integer(digits)
    return number if number is not None else _float(digits, text)


def _integer(digits: str) -> int | None:
    for form, base in _INTEGERS:
        if match := form.fullmatch(digits):
            number = int(match[1] + match[2], base)
            is_known = number in _INT64 or (not match[1] and number in _UINT64)
            return number if is_known else None
    return None


def _float(digits: str, text: str) -> Scalar:
    if not _FLOAT.fullmatch(digits):
        return text
    number = float(digits)
    if not math.isfinite(number):
        return text
    # JSON carries 1e3 as 1000, which the server reads as an integer.
    is_exact = abs(number) < 2**53 or not digits.lstrip("+-").isdigit()
    is_integer = number.is_integer() and int(number) in _INT64
    return int(number) if is_integer and is_exact else number
