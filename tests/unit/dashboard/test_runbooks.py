"""Runbooks: pages of docs/operating as blocks, and links that lead somewhere."""

from pathlib import Path
from typing import Any

import pytest

from federator.dashboard import runbooks
from federator.dashboard.views import overview

FOLDER = Path(__file__).parents[3] / "docs" / "operating"
NAMES = sorted(path.stem for path in FOLDER.glob("*.md"))


def anchors(name: str) -> set[str]:
    page = runbooks.page(name)
    assert page is not None, name
    return {block["anchor"] for block in page["blocks"] if block["kind"] == "heading"}


@pytest.mark.parametrize("name", NAMES)
def test_every_page_of_operating_is_read_and_its_links_lead_somewhere(name: str) -> None:
    page = runbooks.page(name)
    assert page is not None
    links: list[dict[str, Any]] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            links.extend([value] if value.get("kind") == "link" else [])
            for each in value.values():
                collect(each)
        elif isinstance(value, list):
            for each in value:
                collect(each)

    collect(page["blocks"])
    for link in links:
        target, _, anchor = link["href"].partition("#")
        other = target.removeprefix("/runbooks/") if target else name
        assert other in NAMES, link
        assert not anchor or anchor in anchors(other), link


def test_runbooks_that_pages_name_exist() -> None:
    named = {
        *overview.CLUSTER_RUNBOOKS.values(),
        *overview.NOTE_RUNBOOKS.values(),
        *overview.HEALTH_RUNBOOKS.values(),
        *overview.REASON_RUNBOOKS.values(),
        overview.DEFAULT_RUNBOOK,
        "quotas",
    }
    for target in named:
        name, _, anchor = target.partition("#")
        assert name in NAMES, target
        assert not anchor or anchor in anchors(name), target


def test_blocks_of_a_page() -> None:
    text = (
        "# A `b` c\n\nwords **bold** [x](y.md#z) [out](https://a.example)\n\n"
        "* one\n  more\n* two\n\n```\n<b>\n```\n| h |\n|---|\n| a \\| b |\n"
    )
    heading, words, items, code, table = runbooks.parse(text)
    assert (heading["level"], heading["anchor"], heading["plain"]) == (1, "a-b-c", "A b c")
    assert [part["kind"] for part in words["parts"]] == [
        "text",
        "strong",
        "text",
        "link",
        "text",
        "text",
    ]
    assert words["parts"][3]["href"] == "/runbooks/y#z"
    assert [item[0]["text"] for item in items["items"]] == ["one more", "two"]
    assert code["text"] == "<b>"
    assert table["rows"][0][0][0]["text"] == "a | b"


@pytest.mark.parametrize("name", ["../index", "index.md", "", "INDEX", "a" * 100])
def test_other_names_are_no_runbooks(name: str) -> None:
    assert runbooks.page(name) is None
