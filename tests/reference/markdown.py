"""Tables and sentences as Markdown."""

import inspect
from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are one line each."""
    lines = [_row(headings), _row(["---"] * len(headings)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return (
        "| "
        + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells).rstrip()
        + " |"
    )


def code(text: object) -> str:
    """As code, or nothing for an empty text."""
    return f"`{text}`" if text not in ("", None) else ""


def docstring(described: object) -> str:
    """The docstring as one line. Raises ValueError where there is none: it would leave a hole in a
    page.
    """
    text = inspect.getdoc(described)
    if not text:
        raise ValueError(f"{described} needs a docstring: the reference shows it")
    return " ".join(text.split())
