"""Kubernetes resource quantities, exactly: integers of nano-units and the format they were written
in, never a float.

The API borders and the member read amounts through here into `Resources`; `render` writes them
back. Grammar, rounding and canonical form are those of the Kubernetes resource API (the case table
quantity.json).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from federator.model import errors
from federator.model.errors import FieldError
from federator.model.resources import CPU, UNLIMITED, Resources, resource_of

NANO: Final = 10**9
MAX_BINARY: Final = (1 << 63) - 1
"""Amounts with a binary suffix saturate here, as the reference implementation does; decimal ones do
not."""
MAX_TEXT: Final = 64
MAX_EXPONENT: Final = 63
"""Longer texts and larger exponents are refused, so that no input can cost more than a few machine
words."""

_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?",
    re.ASCII,
)
_FINEST: Final = -9
"""The smallest exponent that a text without digits may have."""
_DECIMAL_SUFFIXES: Final = {
    -9: "n",
    -6: "u",
    -3: "m",
    0: "",
    3: "k",
    6: "M",
    9: "G",
    12: "T",
    15: "P",
    18: "E",
}
_DECIMAL_EXPONENTS: Final = {suffix: exponent for exponent, suffix in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_NAMES: Final = ("memory", "storage", "ephemeral-storage")


class Format(StrEnum):
    """How an amount was written, and so how it is written back."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount in nano-units. Equality is that of amount *and* format; compare `nanos` to
    compare amounts."""

    nanos: int
    format: Format = Format.DECIMAL_SI

    def ceil(self, scale: int = 0) -> int:
        """The amount in units of 10^scale, rounded away from zero (scale 0: ones, -3: milli); scale
        >= -9."""
        return _divide_away(self.nanos, 10 ** (9 + scale))

    def rounded(self, scale: int) -> "Quantity":
        """The same amount, rounded away from zero to a multiple of 10^scale; scale >= -9."""
        unit = 10 ** (9 + scale)
        return Quantity(_divide_away(self.nanos, unit) * unit, self.format)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity(self.nanos * factor, self.format)

    def __str__(self) -> str:
        """The canonical form: no fraction, the largest suffix that keeps it exact."""
        if self.nanos == 0:
            return "0"
        whole, part = divmod(abs(self.nanos), NANO)
        if self.format is Format.BINARY_SI and not part and whole >= 1024:
            return ("-" if self.nanos < 0 else "") + _binary(whole)
        return _decimal(self.nanos, exponents=self.format is Format.DECIMAL_EXPONENT)


def parse(text: str) -> Quantity:
    """Reads the strict grammar of the Kubernetes API (no blanks). Raises FieldError with path "".

    A sign, a point or a suffix without a single digit (`+`, `m`, `.e3`) is nothing, as for the
    library that API servers read amounts with; with the largest binary suffixes, or a tiny
    exponent, that refuses it, and so do we.
    """
    if len(text) > MAX_TEXT:
        raise FieldError(
            "", f"a quantity has at most {MAX_TEXT} characters, this one has {len(text)}"
        )
    match = _GRAMMAR.fullmatch(text)
    if match is None or not text:
        raise FieldError("", f"{text!r} is not a quantity such as 500m, 2 or 4Gi")
    fraction, suffix = match["fraction"] or "", match["suffix"] or ""
    if not (match["whole"] or fraction) and (suffix in ("Pi", "Ei") or _below_nano(suffix)):
        raise FieldError("", f"{text!r} is not a quantity such as 500m, 2 or 4Gi")
    digits = int((match["whole"] or "0") + fraction)
    negative = match["sign"] == "-"
    if suffix in _BINARY_SUFFIXES[1:]:
        numerator = digits * 1024 ** _BINARY_SUFFIXES.index(suffix)
        nanos = _divide_away(numerator * NANO, 10 ** len(fraction))
        small = 0 < numerator < 10 ** len(fraction)
        nanos = min(nanos, MAX_BINARY * NANO)
        return Quantity(
            -nanos if negative else nanos, Format.DECIMAL_SI if small else Format.BINARY_SI
        )
    form = Format.DECIMAL_SI if suffix in _DECIMAL_EXPONENTS else Format.DECIMAL_EXPONENT
    exponent = _DECIMAL_EXPONENTS[suffix] if form is Format.DECIMAL_SI else int(suffix[1:])
    if exponent > MAX_EXPONENT:
        raise FieldError("", f"{text!r} is too large: the exponent may be at most {MAX_EXPONENT}")
    exponent = max(exponent, -2 * MAX_TEXT) - len(fraction) + 9
    nanos = digits * 10**exponent if exponent >= 0 else _divide_away(digits, 10**-exponent)
    return Quantity(-nanos if negative else nanos, form)


def _below_nano(suffix: str) -> bool:
    return suffix[:1] in ("e", "E") and suffix[1:] != "" and int(suffix[1:]) < _FINEST


def from_json(value: object, path: str = "") -> Quantity:
    """Reads a decoded JSON value: a text (blanks around it are dropped) or an integer. Raises
    FieldError."""
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 10**MAX_TEXT:
            raise FieldError(path, f"a quantity has at most {MAX_TEXT} digits")
        return Quantity(value * NANO)
    if not isinstance(value, str):
        raise FieldError(path, f"a quantity is a text or an integer, not {type(value).__name__}")
    try:
        return parse(value.strip(" \t\r\n"))
    except FieldError as error:
        raise FieldError(path, error.message) from None


def milli(text: str) -> int:
    """Thousandths, rounded away from zero. Raises FieldError."""
    return parse(text).ceil(-3)


def value(text: str) -> int:
    """Whole units, rounded away from zero. Raises FieldError."""
    return parse(text).ceil()


def vector(amounts: Mapping[str, str | int], path: str = "") -> Resources:
    """A vector of a map as Kubernetes writes it: `cpu` in milli, everything else in its base unit,
    rounded up.

    Raises FieldError for what is not a quantity, is negative, or is beyond what this federation
    counts (2^62).
    """
    out: dict[str, int] = {}
    for name, text in amounts.items():
        here = errors.join(path, name)
        amount = from_json(text, here).ceil(-3 if name == CPU else 0)
        if amount < 0:
            raise FieldError(here, f"a resource may not be negative, this is {text}")
        if amount >= UNLIMITED:
            raise FieldError(here, f"{text} is larger than anything a cluster can hold")
        out[name] = amount
    return Resources(out)


def valid(amounts: Mapping[str, str | int]) -> Resources:
    """The vector of those amounts that `vector` accepts."""
    out: dict[str, int] = {}
    for name, text in amounts.items():
        try:
            out.update(vector({name: text}))
        except FieldError:
            continue
    return Resources(out)


def render(resources: Resources) -> dict[str, str]:
    """The canonical texts of a vector, by name: the inverse of `vector`."""
    return {name: render_amount(name, amount) for name, amount in resources.items()}


def render_amount(name: str, amount: int) -> str:
    """One amount of a vector as text: `cpu` from milli, memory and storage with binary suffixes; in
    a domain of clusters as over all."""
    name = resource_of(name)
    if name == CPU:
        return str(Quantity(amount * (NANO // 1000)))
    form = Format.BINARY_SI if _is_binary(name) else Format.DECIMAL_SI
    return str(Quantity(amount * NANO, form))


def readable(name: str, text: str) -> str:
    """A canonical text for comparing by eye, with two decimals at most: `1826820m` of cpu is
    1826.82, `3987072Mi` of memory 3.8Ti. Raises InvalidQuantity."""
    name, amount = resource_of(name), parse(text)
    if name == CPU:
        return _two_decimals(amount.nanos, NANO)
    if not _is_binary(name):
        return text
    power = 0
    while power < len(_BINARY_SUFFIXES) - 1 and abs(amount.nanos) >= NANO * 1024 ** (power + 1):
        power += 1
    return _two_decimals(amount.nanos, NANO * 1024**power) + _BINARY_SUFFIXES[power]


def _two_decimals(amount: int, unit: int) -> str:
    return f"{amount / unit:.2f}".rstrip("0").rstrip(".")


def _is_binary(name: str) -> bool:
    return name in _BINARY_NAMES or name.startswith("hugepages-")


def _divide_away(amount: int, unit: int) -> int:
    """Rounded away from zero."""
    size = -(-abs(amount) // unit)
    return -size if amount < 0 else size


def _binary(whole: int) -> str:
    power = 0
    while power < len(_BINARY_SUFFIXES) - 1 and whole % 1024 == 0:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY_SUFFIXES[power]}"


def _decimal(nanos: int, *, exponents: bool) -> str:
    mantissa, exponent = nanos, -9
    while mantissa % 1000 == 0 and (exponents or exponent < 18):
        mantissa //= 1000
        exponent += 3
    if not exponents:
        return f"{mantissa}{_DECIMAL_SUFFIXES[exponent]}"
    return f"{mantissa}e{exponent}" if exponent else str(mantissa)
