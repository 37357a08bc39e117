"""What users may choose or read is documented where they look: filters, scorers, dividers, faults,
settings, metrics, CRDs.
"""

from collections.abc import Iterable

import pytest
import yaml

from federator import settings
from federator.cli import config as config_command
from federator.cli import main
from federator.cli.running import demo
from federator.hub.cache import router
from federator.hub.records import workloads
from federator.kube import metrics
from federator.placement.division.division import DIVIDERS
from federator.placement.selection.filters import FILTERS
from federator.placement.selection.scorers import SCORERS
from tests.faults import table as faults
from tests.house import sources
from tests.unit.placement import invariants

REFERENCE = "\n".join(
    path.read_text(encoding="utf-8")
    for path in sorted((sources.ROOT / "docs" / "reference").rglob("*.md"))
)
CONFIG = sources.ROOT / "config" / "federator.yaml"


def missing(names: Iterable[str]) -> list[str]:
    """Names that no page of the reference shows as code."""
    return sorted(name for name in names if f"`{name}`" not in REFERENCE)


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("filters", list(FILTERS)),
        ("scorers", list(SCORERS)),
        ("dividers", [str(name) for name in DIVIDERS]),
        ("metrics", [row.name for row in metrics.TABLE]),
        ("commands", [f"federator {name}" for name in main.COMMANDS]),
        ("invariants", list(invariants.INVARIANTS)),
    ],
)
def test_every_row_of_a_table_is_documented(what: str, names: list[str]) -> None:
    assert names, f"the table of {what} is empty"
    assert not missing(names), f"{what} that docs/reference does not mention"


def test_every_fault_is_a_row_of_the_simulation_s_readme() -> None:
    text = (sources.ROOT / "tests" / "simulation" / "README.md").read_text(encoding="utf-8")

    assert not sorted(
        name for name, row in faults.FAULTS.items() if f"`{name}` ({row.number})" not in text
    )


def test_the_router_is_documented_as_it_is() -> None:
    page = (sources.ROOT / "docs" / "internals" / "router.md").read_text(encoding="utf-8")

    assert set(router.ROUTES) == set(router.Changed)
    assert set(router.MEMBER_ROUTES) == set(router.MemberChanged)
    assert set(router.SLICE_ROUTES) == set(router.SliceChanged)
    for part in router.tables():
        assert part in page, f"docs/internals/router.md has to show\n{part}"


def test_the_settings_file_states_every_setting_at_its_default() -> None:
    assert yaml.safe_load(CONFIG.read_text(encoding="utf-8")) == settings.defaults()


def test_every_setting_is_explained_by_the_command_line() -> None:
    silent = [
        f"{group}.{name}"
        for group, kind in settings.groups().items()
        for name, _, text in config_command.documented(kind)
        if not text
    ]

    assert not silent


def test_the_first_service_shows_its_whole_example() -> None:
    page = (sources.ROOT / "docs" / "using" / "first-service.md").read_text(encoding="utf-8")
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    example = sources.ROOT / "config" / "examples" / "service-first.yaml"
    _, _, whole = example.read_text(encoding="utf-8").partition("\n")
    assert shown == whole


@pytest.mark.parametrize("page", ["README.md", "docs/using/first-service.md"])
def test_the_second_shell_finds_the_program_of_make_demo(page: str) -> None:
    makefile = (sources.ROOT / "Makefile").read_text(encoding="utf-8")
    folder = makefile.partition("VENV := ")[2].partition("\n")[0]
    assert f"$ export PATH=$PWD/{folder}/bin:$PATH\n" in (sources.ROOT / page).read_text(
        encoding="utf-8"
    )


def test_the_first_service_counts_the_sidecars_of_the_default_profile() -> None:
    """Its block asks for 100m, and the page states what pods of the demo ask for."""
    page = (sources.ROOT / "docs" / "using" / "first-service.md").read_text(encoding="utf-8")
    example = sources.ROOT / "config" / "examples" / "service-first.yaml"
    _, obj = yaml.safe_load_all(example.read_text(encoding="utf-8"))
    given = workloads.summarise("PinterestService", obj, demo.profile())
    assert given.ask is not None
    assert f"one copy asks for cpu {given.ask.shape.requests['cpu']}m" in page
