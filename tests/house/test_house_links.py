"""What the documents name exists: linked pages and headings, files of the package, numbers of rules
and faults; and decisions have their three parts.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import ROOT, all_files

FOLDERS = ("docs", "config", "tests")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for name in FOLDERS for page in sorted((ROOT / name).rglob("*.md"))),
]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
PATH = re.compile(
    r"(?<![\w/])(?:federator|tests|config|deploy)/[\w./-]*\w\.(?:py|md|yaml|json|svg|txt)\b"
)


FUNCTION = re.compile(r"`(federator/[\w/]+\.py)::(\w+)`")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> Iterator[str]:
    """The lines of a page outside its fenced blocks."""
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield line


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    found = set()
    for line in prose(page):
        if heading := re.match(r"#+ (.*)", line):
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def dead_links(page: Path) -> list[str]:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        linked = (page.parent / file).resolve() if file else page
        if not linked.exists() or (
            anchor and linked.suffix == ".md" and anchor not in anchors(linked)
        ):
            dead.append(target)
    return dead


def test_a_dead_link_and_a_dead_heading_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `heading`, so\n[a](#a-heading-so) [b](#gone) [c](gone.md) [d](https://example.com)\n"
    )

    assert dead_links(page) == ["#gone", "gone.md"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert dead_links(page) == []


@pytest.mark.parametrize(
    "page", [one for one in PAGES if one.parent.name != "decisions"], ids=name_of
)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """Decisions tell what was: they may name files of their time."""
    named = {found for line in prose(page) for found in PATH.findall(line)}
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.mark.parametrize(
    "file",
    [one for name in ("deploy", "config") for one in sorted((ROOT / name).rglob("*.yaml"))],
    ids=name_of,
)
def test_every_test_that_a_manifest_names_exists(file: Path) -> None:
    named = {path for path in PATH.findall(file.read_text("utf-8")) if path.startswith("tests/")}
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def absent_functions(text: str) -> list[str]:
    """What `file::function` names and the file does not define."""
    return sorted(
        f"{path}::{name}"
        for path, name in FUNCTION.findall(text)
        if not re.search(
            rf"^ *(async def|def|class) {name}\b",
            (ROOT / path).read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )


def test_an_absent_function_is_found() -> None:
    text = "`federator/scheduling/cycle.py::run` `federator/scheduling/cycle.py::gone`"
    assert absent_functions(text) == ["federator/scheduling/cycle.py::gone"]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "internals").glob("*.md")), ids=name_of)
def test_every_function_that_a_page_names_is_there(page: Path) -> None:
    assert absent_functions(page.read_text(encoding="utf-8")) == []


def test_every_page_of_docs_can_be_reached_from_its_index() -> None:
    seen: set[Path] = set()
    open_pages = [ROOT / "docs" / "index.md"]
    while open_pages:
        page = open_pages.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        open_pages += [(page.parent / target).resolve() for target in targets]
    assert sorted(name_of(page) for page in (ROOT / "docs").rglob("*.md") if page not in seen) == []


@pytest.mark.parametrize("page", DECISIONS, ids=name_of)
def test_a_decision_has_its_number_and_its_three_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text.startswith(f"# {page.name[:4]}: ")
    for part in ("context", "decision", "price"):
        assert re.search(rf"(^#+ |\*\*|^|\| ){part}", text, re.MULTILINE | re.IGNORECASE), part


NUMBERED = {
    "invariants.md": re.compile(r"\b[Ii]nvariants? (\d+)(?:(?:,| and) (\d+))?"),
    "faults.md": re.compile(r"\bF([1-9]\d?)\b()"),
}
"""Page -> what in code, tests and documents refers to a number of it."""


@pytest.mark.parametrize("name", NUMBERED)
def test_every_number_that_is_referred_to_is_published(name: str) -> None:
    page = (ROOT / "docs" / "internals" / name).read_text(encoding="utf-8")
    published = set(re.findall(r"^\| F?(\d+) \|", page, re.MULTILINE))
    referred = {
        number
        for path in (*all_files(), *PAGES)
        if path != Path(__file__)
        for pair in NUMBERED[name].findall(path.read_text(encoding="utf-8"))
        for number in pair
        if number
    }

    assert len(published) > 30
    assert sorted(referred - published, key=int) == []
