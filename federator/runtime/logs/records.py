"""Bytes of a log file as records, a line each. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

LINE_MAX: Final = 1 << 14
"""Bytes of a record's text. A longer line becomes several records."""


@dataclass(slots=True)
class Lines:
    """The line of a file that is not complete yet."""

    rest: bytes = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, bool]]:
        """(text, partial) of each record that is complete now. `partial`: the same line goes on in
        the next record."""
        self.rest += data
        begin = 0
        while True:
            end = self.rest.find(b"\n", begin, begin + LINE_MAX + 1)
            if end >= 0:
                yield _text(self.rest[begin:end].removesuffix(b"\r")), False
                begin = end + 1
            elif len(self.rest) - begin > LINE_MAX:
                cut = _boundary(self.rest, begin, begin + LINE_MAX)
                yield _text(self.rest[begin:cut]), True
                begin = cut
            else:
                break
        self.rest = self.rest[begin:]

    def end(self) -> Iterator[tuple[str, bool]]:
        """What is left when nothing comes after it."""
        if self.rest:
            yield _text(self.rest), False
        self.rest = b""


def _boundary(data: bytes, begin: int, end: int) -> int:
    """`end`, or up to three bytes before it, so that no character of UTF-8 is cut."""
    for back in range(min(3, end - begin - 1)):
        if data[end - back] & 0xC0 != 0x80:
            return end - back
    return end


def _text(line: bytes) -> str:
    """Bytes that are no UTF-8 are shown as \\xNN: a binary file loses nothing."""
    return line.decode("utf-8", "backslashreplace")


def record(text: str, labels: Mapping[str, str], file: str, *, partial: bool) -> str:
    """One line of JSON. Control characters are escaped by it."""
    body: dict[str, object] = {**labels, "file": file, "message": text}
    if partial:
        body["partial"] = True
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
