"""The generated pages and files are what `make docs` makes of the program's tables as they
are now.
"""

import re

import pytest

from federator.scheduling.governor import Health
from tests.house.sources import ROOT
from tests.reference import generate
from tests.simulation import reasons

CONDITIONS = (ROOT / "docs" / "reference" / "conditions.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """Seconds of work, which collecting tests must not cost."""
    return generate.made()


@pytest.mark.parametrize("path", sorted(generate.paths()))
def test_a_generated_file_is_what_the_tables_say(made: dict[str, str], path: str) -> None:
    file = ROOT / path
    assert file.is_file(), f"run `make docs`: {path} is not there"
    assert file.read_text(encoding="utf-8") == made[path], (
        f"run `make docs`: {path} is not what the program says"
    )


def test_a_page_about_an_object_that_is_gone_is_gone() -> None:
    folder = ROOT / "docs" / "reference" / "objects"
    assert {str(path.relative_to(ROOT)) for path in folder.glob("*.md")} <= generate.paths()


def test_a_missing_marker_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="generated: filters"):
        generate.with_part("no markers", "filters", "text", "page.md")


def test_every_field_of_ours_has_a_meaning(made: dict[str, str]) -> None:
    bare = [
        (path, line)
        for path, text in made.items()
        if "/objects/" in path
        for line in text.splitlines()
        if re.match(r"\| `(spec|status)\.", line) and line.endswith("| |")
    ]
    assert not bare


def test_each_state_of_a_cluster_has_one_row() -> None:
    """The rows name only reasons and conditions that the program writes."""
    section = CONDITIONS.partition("## States of a cluster")[2].partition("\n## ")[0]
    states, _, others = section.partition("These names are no states")
    rows = re.findall(r"^\| (\w+) \|", states, flags=re.MULTILINE)
    assert rows == ["state", *(str(health) for health in Health)]
    named = set(re.findall(r"`([A-Z]\w+)`", states + others)) - {"Lost", "Refused"}
    assert "ClusterUnknown" in named
    without = CONDITIONS.replace(section, "")
    assert {name for name in named if f"`{name}`" not in without} == set()


def test_every_reason_is_explained_in_words() -> None:
    """The generated lists would hold for themselves, so they are left out."""
    written = re.sub(
        r"<!-- generated: reasons -->.*?<!-- end: reasons -->", "", CONDITIONS, flags=re.DOTALL
    )
    names = {one.split(": ", 1)[1] for one in reasons.EVERY}

    assert len(names) > 100
    assert sorted(name for name in names if f"`{name}`" not in written) == []
