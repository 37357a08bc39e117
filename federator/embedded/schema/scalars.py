"""Canonical forms of the builtin scalar types, as a real server stores them: quantities and times.

A real server reads `1000m` and stores `1`, reads `+01:00` times and stores `Z`. Pure functions,
cached; called while pruning.
"""

import datetime
import functools
import re
from fractions import Fraction
from typing import Final

_QUANTITY: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[-+]?\d*)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([+-]?\d+)", re.ASCII)
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {-3: "n", -2: "u", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E"}
_DECIMAL_EXPONENT: Final = {suffix: power for power, suffix in _DECIMAL.items()}
_TIME: Final = re.compile(
    r"^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)$", re.ASCII
)
QUANTITY_PATTERN: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
BAD_SUFFIX: Final = "unable to parse quantity's suffix"
BAD_NUMBER: Final = "unable to parse numeric part of quantity"
FINEST: Final = -9
"""The smallest exponent of a quantity without digits that a real server takes for nothing."""


@functools.lru_cache(maxsize=8192)
def _parsed(text: str) -> tuple[Fraction, str]:
    """(exact value, suffix as written: a binary or decimal one, `e` for an exponent). Raises
    ValueError."""
    match = _QUANTITY.fullmatch(text)
    if match is None or not text:
        raise ValueError(QUANTITY_PATTERN)
    sign, whole, fraction, suffix = match.groups(default="")
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None and suffix not in _BINARY and suffix not in _DECIMAL_EXPONENT:
        raise ValueError(BAD_SUFFIX)
    power = int(exponent[1]) if exponent is not None else 0
    if not whole and not fraction and (suffix in ("Pi", "Ei") or power < FINEST):
        raise ValueError(BAD_NUMBER)  # other suffixes without a number are read as nothing
    value = Fraction(int(whole + fraction or "0"), 10 ** len(fraction))
    if exponent is not None:
        value, suffix = value * Fraction(10) ** power, "e"
    elif suffix in _BINARY[1:]:
        value *= 1024 ** _BINARY.index(suffix)
    else:
        value *= Fraction(1000) ** _DECIMAL_EXPONENT[suffix]
    return (-value if sign == "-" else value), suffix


def amount(text: str) -> Fraction:
    """The exact value of a quantity. Raises ValueError with the real server's wording."""
    return _parsed(text)[0]


@functools.lru_cache(maxsize=8192)
def quantity(text: str) -> str:
    """The stored form of a quantity: largest suffix that keeps a whole number, at most nano
    precision (rounded away from zero).

    Raises ValueError with the real server's wording.
    """
    signed, suffix = _parsed(text)
    value = abs(signed)
    if suffix in _BINARY[1:] and value >= 1024:
        # A binary amount below 1024 loses its suffix: the server falls back to decimal.
        written = _in_binary(value)
    elif suffix == "e":
        written = _in_exponent(value)
    else:
        written = _in_decimal(value)
    return f"-{written}" if signed < 0 else written


def rounded_to_milli(text: str) -> str:
    """A quantity rounded up (away from zero) to whole milli units."""
    milli = amount(text) * 1000
    whole = (
        -(-milli.numerator // milli.denominator)
        if milli >= 0
        else milli.numerator // milli.denominator
    )
    return quantity(f"{whole}m")


def decimal(value: Fraction) -> str:
    """A quantity from an exact value, with a decimal suffix."""
    return f"-{_in_decimal(-value)}" if value < 0 else _in_decimal(value)


def _in_binary(value: Fraction) -> str:
    whole, power = -(-value.numerator // value.denominator), 0
    while whole % 1024 == 0 and power < 6:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power]}"


def _scaled(value: Fraction) -> tuple[int, int]:
    """(mantissa, power of 1000) with the largest power that keeps the mantissa whole."""
    nano = value * 10**9
    mantissa, power = -((-nano.numerator) // nano.denominator), -3
    if mantissa == 0:
        return 0, 0
    while mantissa % 1000 == 0 and power < 6:
        mantissa, power = mantissa // 1000, power + 1
    return mantissa, power


def _in_decimal(value: Fraction) -> str:
    mantissa, power = _scaled(value)
    return f"{mantissa}{_DECIMAL[power]}"


def _in_exponent(value: Fraction) -> str:
    mantissa, power = _scaled(value)
    return f"{mantissa}e{power * 3}" if power else str(mantissa)


@functools.lru_cache(maxsize=1024)
def time(text: str, micro: bool) -> str:
    """An RFC 3339 time in UTC, in whole seconds (or six digits for `micro`). Raises ValueError with
    the server's wording.
    """
    match = _TIME.match(text)
    layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
    if match is None:
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    date, clock, fraction, zone = match.groups()
    if micro and len(fraction or "") != 7:
        long = len(fraction or "") > 7
        rest = (fraction or "")[7 if long else 0 :] + zone
        wanted = "Z07:00" if long else ".000000"
        raise ValueError(
            f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{wanted}"'
        )
    offset = "+00:00" if zone in "Zz" else zone
    try:
        moment = datetime.datetime.fromisoformat(f"{date}T{clock}{offset}").astimezone(datetime.UTC)
    except ValueError:
        raise ValueError(f'parsing time "{text}": day out of range') from None
    whole = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{((fraction or '.')[1:] + '000000')[:6]}Z" if micro else f"{whole}Z"
