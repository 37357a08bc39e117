"""Canonical forms of the builtin scalar types, as a real server stores them: quantities and times.

A real server reads `1000m` and stores `1`, reads `+01:00` times and stores `Z`. Pure functions,
cached; called while pruning.
"""

import datetime
import functools
import re
from fractions import Fraction
from typing import Final

from federator.model.errors import FieldError
from federator.model.kubernetes import quantity as quantities
from federator.model.kubernetes.quantity import NANO, Quantity

_QUANTITY: Final = re.compile(r"[+-]?\d*(?:\.\d*)?([eEinumkKMGTP]*[-+]?\d*)", re.ASCII)
_SUFFIX: Final = re.compile(r"[numkMGTPE]?|[KMGTPE]i|[eE][+-]?\d+", re.ASCII)
_TIME: Final = re.compile(
    r"^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)$", re.ASCII
)
QUANTITY_PATTERN: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
BAD_SUFFIX: Final = "unable to parse quantity's suffix"
BAD_NUMBER: Final = "unable to parse numeric part of quantity"


def _parsed(text: str) -> Quantity:
    """Raises ValueError with the real server's wording."""
    try:
        return quantities.parse(text)
    except FieldError:
        match = _QUANTITY.fullmatch(text)
        if match is None or not text:
            raise ValueError(QUANTITY_PATTERN) from None
        raise ValueError(BAD_NUMBER if _SUFFIX.fullmatch(match[1]) else BAD_SUFFIX) from None


@functools.lru_cache(maxsize=8192)
def amount(text: str) -> Fraction:
    """The exact value of a quantity. Raises ValueError with the real server's wording."""
    return Fraction(_parsed(text).nanos, NANO)


@functools.lru_cache(maxsize=8192)
def quantity(text: str) -> str:
    """The stored form of a quantity. Raises ValueError with the real server's wording."""
    return str(_parsed(text))


def rounded_to_milli(text: str) -> str:
    """A quantity rounded up (away from zero) to whole milli units."""
    return str(_parsed(text).rounded(-3))


def decimal(value: Fraction) -> str:
    """A quantity from an exact value, with a decimal suffix."""
    return str(Quantity(int(value * NANO)))


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
