"""A person acts on a page of the dashboard in a real browser, and an open page shows a cluster that
is lost and returns.

With FEDERATOR_SCREENSHOTS=FOLDER the pages are kept there as pictures.
"""

import asyncio
import contextlib
import dataclasses
import random
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from federator.cli.running import demo, sandbox
from federator.dashboard import port, server
from federator.dashboard.options import DashboardOptions
from federator.dashboard.server import Dashboard
from federator.hub.history.options import HistoryOptions
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube.clock import RealClock
from federator.member.options import MemberOptions
from federator.sandbox.federation import Federation
from federator.sandbox.outages import Outages
from tests.browser.devtools import Page
from tests.e2e.shells import psvc
from tests.e2e.test_dashboard_in_a_browser import (
    DESK,
    FOCUSED,
    PHONE,
    SETTLE_S,
    VIOLATIONS,
    WEB,
    create,
    federation_of,
    keep,
    looks_right,
    press,
    tab_to,
    until_plans,
)
from tests.npm import modules

pytestmark = [pytest.mark.e2e, pytest.mark.long]
LOST = "document.querySelector('main').textContent.includes('Unreachable')"
FAST = HubOptions(
    capacity_copy_interval_s=0.5, probe_interval_s=0.5, probe_timeout_s=0.5, unready_after_s=8.0
)


@dataclasses.dataclass
class Operated:
    """A federation of two members with a service, and a dashboard for its operator."""

    federation: Federation
    outages: Outages
    pages: Dashboard
    base: str
    link: str


@contextlib.asynccontextmanager
async def operated(history: Path, *, fast: bool = False) -> AsyncIterator[Operated]:
    """`fast`: the hub finds out within seconds that a cluster is lost."""
    outages = Outages()
    federation = federation_of(2)
    if fast:
        federation.hub_options = FAST
        federation.member_options = MemberOptions(heartbeat_s=0.5)
    federation.history = HistoryOptions(directory=str(history))
    federation.wrap = outages.wrap
    queries = await sandbox.query_port(federation)
    try:
        await federation.start()
        await create(federation, psvc("web", 4))
        await federation.until_settled(SETTLE_S)
        pages = Dashboard(
            federation.client("host", "dashboard"),
            options=server.Options(),
            clock=RealClock(),
            rng=random.Random(1),
            draw=lambda: secrets.token_urlsafe(24),
            settings=DashboardOptions(act_as=(f"user:{demo.OPERATOR}",)),
        )
        async with server.running(pages) as (base, _):
            async with asyncio.timeout(SETTLE_S):
                for reflector in pages.fleet.reflectors:
                    await reflector.answered.wait()
            link = pages.link(base, await demo.operator(federation))
            yield Operated(federation, outages, pages, base, link)
    finally:
        await federation.stop()
        await queries.close()


async def web(federation: Federation) -> dict[str, Any]:
    ref = registry.KINDS["PinterestService"].ref("default", "web")
    return await federation.client("host").get(ref)


async def test_a_service_is_scaled_with_the_mouse(page: Page, tmp_path: Path) -> None:
    async with operated(tmp_path) as run:
        await page.open(run.link, width=DESK)
        await page.open(run.base + WEB, width=DESK)
        await page.value("[...document.links].find(a => a.textContent === 'Scale').click()")
        await page.until(f"location.pathname === '{WEB}/act/scale'")
        await page.value("document.querySelector('[name=given]').value = '6'")
        await page.value("document.querySelector('main .filters button').click()")
        await page.until("document.querySelector('.confirm') !== null")
        outcome = await page.value("document.querySelector('main').textContent")
        assert "1 workload changes" in outcome, outcome
        assert "2 start" in outcome
        assert (await web(run.federation))["spec"]["replicas"] == 4
        for path in (f"{WEB}/act/scale?given=6", f"{WEB}/timeline", f"{WEB}/logs", "/changes"):
            await looks_right(page, run.base, path)
        for path in ("/alerts", "/act/pause", "/clusters", WEB, "/"):
            await looks_right(page, run.base, path)
        await page.open(f"{run.base}{WEB}/act/scale?given=6", width=DESK)
        await page.value("document.querySelector('.confirm .act').click()")
        await page.until(f"location.pathname === '{WEB}'")
        await page.until("document.querySelector('main').textContent.includes('Done: scale')")
        assert (await web(run.federation))["spec"]["replicas"] == 6
        await page.until("document.querySelector('.lead').textContent.includes('6 of 6')")
        assert page.complaints == []


ACTIONS = "[...document.querySelectorAll('main a[href*=\"/act/\"]')].map(a => a.pathname)"


async def test_axe_finds_no_violation_on_the_page_of_any_action(page: Page, tmp_path: Path) -> None:
    rules = (modules.needed() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    async with operated(tmp_path) as run:
        await page.open(run.link, width=DESK)
        await until_plans(page, run.base)
        template = psvc("web", 4, cpu="200m")["spec"]["template"]
        ref = registry.KINDS["PinterestService"].ref("default", "web")
        await run.federation.client("host").patch(ref, {"spec": {"template": template}})
        await run.federation.until_settled(SETTLE_S)
        cluster = f"/clusters/{next(iter(run.federation.members))}"
        paths = [f"{WEB}/act/scale?given=6"]
        for subject in (WEB, cluster, "/"):
            await page.open(run.base + subject, width=DESK)
            paths += await page.value(ACTIONS)
        named = {path.partition("?")[0].rpartition("/")[2] for path in paths}
        assert named >= {"scale", "suspend", "restart", "undo", "cordon", "drain", "pause"}
        for path in paths:
            await page.open(run.base + path, width=DESK)
            await page.value(f"{rules}; 0")
            for width, dark in ((DESK, False), (DESK, True), (PHONE, False), (PHONE, True)):
                await page.resize(width, dark=dark)
                assert await page.value(VIOLATIONS) == [], (path, width, dark)
                assert await page.value("document.documentElement.scrollWidth") <= width, path
            await keep(page, path, PHONE)
        assert page.complaints == []


async def test_a_service_is_scaled_by_keyboard_alone(page: Page, tmp_path: Path) -> None:
    async with operated(tmp_path) as run:
        await page.open(run.link, width=DESK)
        await until_plans(page, run.base)
        await page.open(f"{run.base}{WEB}?live=off", width=DESK)
        await tab_to(page, "Scale")
        await press(page, "Enter")
        await page.until(f"location.pathname === '{WEB}/act/scale'")
        while (await page.value(FOCUSED))[0] != "INPUT":
            await press(page, "Tab")
        await page.call("Input.insertText", text="6")  # the tab key has selected what was there
        await press(page, "Enter")
        await page.until("location.search === '?given=6'")
        assert "1 workload changes" in await page.value("document.body.textContent")
        await tab_to(page, "Scale (6)")
        await press(page, "Enter")
        await page.until(f"location.pathname === '{WEB}'")
        await page.until("document.querySelector('main').textContent.includes('Done: scale')")
        assert (await web(run.federation))["spec"]["replicas"] == 6
        assert page.complaints == []


async def test_an_open_page_shows_a_cluster_that_is_lost_and_returns(
    page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody clicks, no clock renews the page, and the stream ends with it."""
    monkeypatch.setattr(port, "LIVE_REFRESH_S", 3600)
    async with operated(tmp_path, fast=True) as run:
        await page.open(run.link, width=DESK)
        await page.value("window.same = true")
        await keep(page, "/before", DESK)
        assert not await page.value(LOST)
        lost = next(iter(run.federation.members))
        await run.outages.lose(lost)
        await page.until(LOST)
        assert run.pages.live.open == 1
        await keep(page, "/lost", DESK)
        run.outages.give_back(lost)
        await page.until(f"!({LOST})")
        await keep(page, "/returned", DESK)
        assert await page.value("window.same") is True
        assert page.complaints == []
        await page.open("about:blank", width=DESK)
        async with asyncio.timeout(SETTLE_S):
            while run.pages.live.open:  # noqa: ASYNC110 - the other side is a browser
                await asyncio.sleep(0.05)
