"""The pages of docs/operating as blocks of text, so that a runbook is at hand where nothing else of
the documentation can be reached. The wheel carries them; a source tree reads them where they stand.

Reads the part of Markdown that these pages use. A template puts the blocks out; no HTML is made
here.
"""

import functools
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final

FOLDER: Final = "operating"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,60}", re.ASCII)
_INLINE: Final = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<em>[^*\s][^*]*)\*"
    r"|\[(?P<label>(?:`[^`]*`|[^\]])+)\]\((?P<target>[^)\s]+)\)"
)
_HEADING: Final = re.compile(r"(#{1,6}) +(.*)")
_ITEM: Final = re.compile(r"\s*(?:[*-]|\d+\.) +(.*)")
_RULER: Final = re.compile(r"\|?[\s:|-]+\|[\s:|-]*")
_LOCAL: Final = re.compile(r"([a-z0-9-]+)\.md(#[\w-]+)?")


@functools.lru_cache(maxsize=64)
def page(name: str) -> dict[str, Any] | None:
    """The blocks of a runbook; None where there is none of that name."""
    text = _text(name) if _NAME.fullmatch(name) else ""
    if not text:
        return None
    blocks = list(parse(text))
    title = next((block["plain"] for block in blocks if block["kind"] == "heading"), name)
    return {"name": name, "title": title, "blocks": blocks}


def _text(name: str) -> str:
    packed = resources.files("federator.dashboard").joinpath(FOLDER, f"{name}.md")
    if packed.is_file():
        return packed.read_text(encoding="utf-8")
    beside = Path(__file__).parents[2] / "docs" / FOLDER / f"{name}.md"
    return beside.read_text(encoding="utf-8") if beside.is_file() else ""


def parse(text: str) -> Iterator[dict[str, Any]]:
    """The blocks of a page: headings, code, lists, tables and paragraphs."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("```"):
            end = next(
                (n for n in range(at + 1, len(lines)) if lines[n].startswith("```")), len(lines)
            )
            yield {"kind": "code", "text": "\n".join(lines[at + 1 : end])}
            at = end + 1
        elif heading := _HEADING.fullmatch(line):
            words = heading[2]
            yield {
                "kind": "heading",
                "level": len(heading[1]),
                "anchor": anchor(words),
                "plain": plain(words),
                "parts": inline(words),
            }
            at += 1
        elif line.startswith("|"):
            end = _until(lines, at, lambda each: not each.startswith("|"))
            yield _table(lines[at:end])
            at = end
        elif _ITEM.fullmatch(line):
            end = _until(
                lines, at, lambda each: not each.strip() or each.startswith(("#", "|", "```"))
            )
            yield {"kind": "list", "items": [inline(item) for item in _items(lines[at:end])]}
            at = end
        elif line.strip():
            end = _until(
                lines,
                at,
                lambda each: (
                    not each.strip()
                    or each.startswith(("#", "|", "```"))
                    or _ITEM.fullmatch(each) is not None
                ),
            )
            yield {"kind": "text", "parts": inline(" ".join(map(str.strip, lines[at:end])))}
            at = end
        else:
            at += 1


def _until(lines: list[str], at: int, stops: Any) -> int:
    """The first line after `at` that stops a block."""
    return next((n for n in range(at + 1, len(lines)) if stops(lines[n])), len(lines))


def _items(lines: list[str]) -> list[str]:
    """Items, each with the lines that go on with it."""
    items: list[str] = []
    for line in lines:
        begun = _ITEM.fullmatch(line)
        if begun:
            items.append(begun[1])
        else:
            items[-1] += f" {line.strip()}"
    return items


def _table(lines: list[str]) -> dict[str, Any]:
    rows = [_cells(line) for line in lines if not _RULER.fullmatch(line)]
    return {"kind": "table", "head": rows[0] if rows else [], "rows": rows[1:]}


def _cells(line: str) -> list[list[dict[str, str]]]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [inline(cell.replace("\\|", "|").strip()) for cell in re.split(r"(?<!\\)\|", inner)]


def inline(text: str) -> list[dict[str, str]]:
    """Pieces of a line: text, code, strong, emphasis, and links. A link to another runbook leads
    there; of every other link the words stay."""
    parts: list[dict[str, str]] = []
    at = 0
    for match in _INLINE.finditer(text):
        if match.start() > at:
            parts.append({"kind": "text", "text": text[at : match.start()]})
        if match["code"] is not None:
            parts.append({"kind": "code", "text": match["code"]})
        elif match["strong"] is not None:
            parts.append({"kind": "strong", "text": plain(match["strong"])})
        elif match["em"] is not None:
            parts.append({"kind": "em", "text": plain(match["em"])})
        else:
            href = address(match["target"])
            kind = "link" if href else "text"
            parts.append({"kind": kind, "text": match["label"].replace("`", ""), "href": href})
        at = match.end()
    if at < len(text):
        parts.append({"kind": "text", "text": text[at:]})
    return parts


def plain(text: str) -> str:
    """The words of a line."""
    return "".join(part["text"] for part in inline(text))


def address(target: str) -> str:
    """Where a link leads here: another runbook, or a section; "" for anything else."""
    if target.startswith("#"):
        return target
    local = _LOCAL.fullmatch(target)
    return f"/runbooks/{local[1]}{local[2] or ''}" if local else ""


def anchor(heading: str) -> str:
    """The name of a heading in addresses, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", plain(heading).lower()).replace(" ", "-")
