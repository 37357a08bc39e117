"""How the text of a table is divided: what separates cells, what quotes them, what begins the part
of a number. What nobody says is found out from the header and from the cells of a column.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SEPARATORS: Final = (",", ";", "\t", "|")
_NAMES: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_COMMA: Final = re.compile(r"[-+]?[0-9]+,[0-9]+", re.ASCII)
_OF_THREE: Final = re.compile(r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+", re.ASCII)
_GROUPED: Final = {
    ".": re.compile(r"[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?", re.ASCII),
    ",": re.compile(r"[-+]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]+)?", re.ASCII),
}
"""Decimal mark -> a number with thousands that the other mark groups."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a scenario says of a table's text; "" where it is found out."""

    separator: str = ""
    decimal: str = ""
    quote: str = ""

    def of(self, header: str) -> "Dialect":
        """With separator and quote as the header has them. The separator that divides the header
        into most cells is the one; of two the earlier of `SEPARATORS`."""
        quote = self.quote or ("'" if header.startswith("'") else '"')

        def cells(separator: str) -> int:
            return len(next(csv.reader([header], delimiter=separator, quotechar=quote), ()))

        separator = self.separator or max(SEPARATORS, key=cells)
        return Dialect(separator, self.decimal, quote)

    @property
    def name(self) -> str:
        """The separator in words."""
        return _NAMES[self.separator]


FOUND: Final = Dialect()
"""Everything is found out."""


def decimal_of(cells: Iterable[str], stated: str) -> str:
    """The decimal mark of a column with commas: as stated; else a comma where a number has other
    than three digits after it, and a point where commas surely group thousands; "" where both may
    be meant.
    """
    if stated:
        return stated
    numbers = [cell for cell in map(str.strip, cells) if "," in cell]
    if any(_COMMA.fullmatch(cell) and not _OF_THREE.fullmatch(cell) for cell in numbers):
        return ","
    if any(_GROUPED["."].fullmatch(cell) and not _COMMA.fullmatch(cell) for cell in numbers):
        return "."
    return "" if any(map(_COMMA.fullmatch, numbers)) else "."


def with_point(cell: str, decimal: str) -> str:
    """A number with a decimal point and without marks between thousands; another cell as it is."""
    text = cell.strip()
    if _GROUPED[decimal].fullmatch(text):
        text = text.replace("," if decimal == "." else ".", "")
    return text.replace(",", ".") if decimal == "," and _COMMA.fullmatch(text) else text
