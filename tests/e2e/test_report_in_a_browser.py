"""The report of a simulation, opened in a real browser: every chart drawn, nothing complained of,
nothing fetched, readable on a phone, and names that try to run do not.
"""

from pathlib import Path

import pytest

from federator.simulate.report import forms, measures
from federator.simulate.report.page import Provenance
from tests.browser.devtools import Page
from tests.unit.simulate.report import outcomes

pytestmark = pytest.mark.e2e
PHONE, DESK = 390, 1280
SOURCE = Provenance("0.0.0", "scenario.yaml", "fleet: {}\n", {"seed": "1"})

UNDRAWN = """
[...document.querySelectorAll('svg.chart')].filter(svg => {
  const shapes = [...svg.querySelectorAll('path.line, rect')];
  const seen = shapes.filter(one => {
    const box = one.getBBox(), style = getComputedStyle(one);
    const painted = one.tagName === 'path' ? style.stroke : style.fill;
    return (box.width > 0 || box.height > 0) && painted !== 'none';
  });
  const room = svg.getBoundingClientRect();
  return !seen.length || seen.length < shapes.length || room.width < 200 || room.height < 20;
}).map(svg => svg.id)
"""
CUT = """
[...document.querySelectorAll('svg.chart text')].filter(one => {
  const text = one.getBoundingClientRect(), room = one.closest('svg').getBoundingClientRect();
  return text.left < room.left - 0.5 || text.right > room.right + 0.5 || text.bottom > room.bottom + 0.5;
}).map(one => one.closest('svg').id + ': ' + one.textContent)
"""
SMALLEST = (
    "Math.min(...[...document.querySelectorAll('svg.chart text')].map(one => "
    "one.getBoundingClientRect().height))"
)
UNNAMED = """
[...document.querySelectorAll('svg.chart')].filter(svg =>
  svg.getAttribute('role') !== 'img' || !svg.querySelector('title').textContent
  || !svg.querySelector('desc').textContent || !svg.closest('figure').querySelector('table')).map(svg => svg.id)
"""


def _written(folder: Path, *, hostile: bool = False, compared: bool = False) -> str:
    found = measures.measure(outcomes.drawn(hostile=hostile))
    name = outcomes.HOSTILE if hostile else "half the fleet"
    other = (name, measures.measure(outcomes.drawn(2, slow=3.0))) if compared else None
    forms.write(folder, forms.files(found, SOURCE, other))
    return (folder / forms.PAGE).as_uri()


async def test_every_chart_is_drawn_and_nothing_is_fetched_or_complained_of(
    page: Page, tmp_path: Path
) -> None:
    await page.open(_written(tmp_path / "out", compared=True), width=DESK)

    assert await page.value("document.querySelectorAll('svg.chart').length") == 17
    assert await page.value(UNDRAWN) == []
    assert await page.value(CUT) == []
    assert await page.value(UNNAMED) == []
    assert await page.value("document.querySelector('#differences tbody').rows.length") > 10
    assert page.complaints == []
    assert {url.partition(":")[0] for url in page.fetched} <= {"file", "data"}


@pytest.mark.parametrize("dark", [False, True])
async def test_it_is_readable_on_a_phone(page: Page, tmp_path: Path, dark: bool) -> None:
    await page.open(_written(tmp_path / "out", compared=True), width=PHONE, dark=dark)

    assert await page.value("document.documentElement.scrollWidth") <= PHONE
    assert await page.value(UNDRAWN) == []
    assert await page.value(CUT) == []
    assert await page.value(SMALLEST) >= 9
    await page.value("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert await page.value("document.documentElement.scrollWidth") <= PHONE
    assert await page.value("getComputedStyle(document.body).backgroundColor") == (
        "rgb(22, 24, 28)" if dark else "rgb(255, 255, 255)"
    )
    assert page.complaints == []


async def test_names_that_try_to_run_are_text(page: Page, tmp_path: Path) -> None:
    await page.open(_written(tmp_path / "out", hostile=True, compared=True), width=PHONE)

    assert page.dialogs == []
    assert page.complaints == [], "even what the page forbids was not tried"
    assert await page.value("document.querySelectorAll('script, img').length") == 0
    assert await page.value("document.querySelector('h1').textContent") == outcomes.HOSTILE
    assert await page.value("document.documentElement.scrollWidth") <= PHONE
    assert await page.value(UNDRAWN) == []
