"""The dashboard of a small federation in a real browser: every page is opened, on a desk and on a
phone in the dark, by its links and by keyboard alone; texts of strangers do not run.

With FEDERATOR_SCREENSHOTS=FOLDER the pages are kept there as pictures, to be looked at.
"""

import asyncio
import base64
import contextlib
import json
import os
import random
import secrets
import signal
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from federator.cli.running import sandbox
from federator.dashboard import server
from federator.dashboard.server import Dashboard
from federator.embedded import http
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube import selfsigned
from federator.kube.clock import RealClock
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from tests.browser.devtools import Page
from tests.e2e.shells import psvc
from tests.forkserver.starting import FEDERATOR
from tests.npm import modules
from tests.unit.dashboard.corpus import CORPUS

pytestmark = [pytest.mark.e2e, pytest.mark.long]
PHONE, DESK = 390, 1280
SETTLE_S = 60.0
WEB = "/workloads/PinterestService/default/web"
OUTSIDE = """
[...document.querySelectorAll('a[href]')].filter(
  link => !link.getAttribute('href').match(/^[/#](?![/\\\\])/)).map(link => link.outerHTML)
"""
SMALL = """
[...document.querySelectorAll('a, button, input:not([type=hidden]), select, .scroll')]
  .filter(each => !each.classList.contains('skip'))
  .filter(each => each.tabIndex < 0).map(each => each.outerHTML)
"""
"""What can be clicked and not reached by keyboard."""
VIOLATIONS = """
axe.run(document).then(found => found.violations.map(
  each => [each.id, each.help, ...each.nodes.slice(0, 3).map(node => node.html)]))
"""
FOCUSED = """
(() => { const each = document.activeElement; const style = getComputedStyle(each);
  return [each.tagName, each.textContent.trim().slice(0, 40), style.outlineStyle !== 'none']; })()
"""


POLICY = """\
apiVersion: federation.pinterest.com/v1alpha1
kind: PlacementPolicy
metadata: {name: elsewhere, namespace: default}
spec:
  clusters: {exclude: [us-west-2a]}
"""


def jobs(name: str) -> dict[str, Any]:
    """A job set of which some shards run for long."""
    container = {"name": "shard", "image": "shard:1", "resources": {"requests": {"cpu": "100m"}}}
    metadata = {"annotations": {"embedded.federator/run-seconds": "2"}}
    template = {
        "metadata": metadata,
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": registry.KINDS["PinterestJobSet"].api_version,
        "kind": "PinterestJobSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"shards": 12, "parallelism": 6, "template": template},
    }


def nightly() -> dict[str, Any]:
    """A cron job."""
    spec = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": jobs("x")["spec"]}}
    return {
        "apiVersion": registry.KINDS["PinterestCronJob"].api_version,
        "kind": "PinterestCronJob",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": spec,
    }


@contextlib.asynccontextmanager
async def dashboard_of(federation: Federation) -> AsyncIterator[tuple[Dashboard, str]]:
    pages = Dashboard(
        federation.client("host", "dashboard"),
        options=server.Options(),
        clock=RealClock(),
        rng=random.Random(1),
        draw=lambda: secrets.token_urlsafe(24),
    )
    async with server.running(pages) as (base, _):
        async with asyncio.timeout(SETTLE_S):
            for reflector in pages.fleet.reflectors:
                await reflector.answered.wait()
        yield pages, base


def federation_of(members: int) -> Federation:
    return Federation(
        fleet=fleetfile.generated(members),
        clock=RealClock(),
        rng=random.Random(5),
        hub_options=HubOptions(capacity_copy_interval_s=0.5),
        election=True,
    )


async def create(federation: Federation, obj: dict[str, Any]) -> None:
    kind = registry.kind_of(obj)
    assert kind is not None
    await federation.client("host").create(kind.ref_of(obj), obj)


async def keep(page: Page, path: str, width: int) -> None:
    """A picture of the page, where somebody wants to look at it."""
    if folder := os.environ.get("FEDERATOR_SCREENSHOTS"):
        shot = await page.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        name = path.strip("/").replace("/", "-").partition("?")[0] or "overview"
        file = Path(folder, f"{name}-{width}.png")
        await asyncio.to_thread(file.write_bytes, base64.b64decode(shot["data"]))


@contextlib.asynccontextmanager
async def federated(page: Page) -> AsyncIterator[str]:
    """The address of the dashboard of a small federation, with a workload that lacks copies. The
    browser has signed in."""
    federation = federation_of(2)
    port = await sandbox.query_port(federation)
    try:
        await federation.start()
        await create(federation, psvc("web", 4))
        await create(federation, psvc("large", 40, cpu="1000"))
        await create(federation, jobs("index"))
        await create(federation, nightly())
        await federation.until_settled(SETTLE_S)
        async with dashboard_of(federation) as (pages, base):
            await page.open(pages.link(base, federation.host.token), width=DESK)
            await until_plans(page, base)
            yield base
    finally:
        await federation.stop()
        await port.close()


async def walk(page: Page, base: str, look: Callable[[str], Awaitable[None]]) -> None:
    """Looks at one page of each sort, along the links from the first page, so that every link
    leads to a page."""
    left, walked = ["/"], set[str]()
    while left:
        path = left.pop()
        if shape(path) in walked:
            continue
        walked.add(shape(path))
        await look(path)
        links = await page.value("[...document.links].map(a => a.getAttribute('href'))")
        left += [link.partition("#")[0] for link in links if not link.startswith("#")]
        left = [link for link in left if "format=json" not in link]
    tabs = {"", "/why", "/objects", "/runtime", "/shards", "/timeline", "/logs"}
    assert walked >= {"/plan", "/jobs", "/cronjobs", "/cronjobs/x", "/clusters/x/drain"}
    assert walked >= {*(f"/workloads/x{tab}" for tab in tabs), "/changes", "/alerts"}
    assert walked >= {"/", "/workloads", "/workloads?", "/clusters", "/clusters/x"}
    assert walked >= {"/quota", "/runbooks/x"}


async def test_every_page_is_readable_and_complains_of_nothing(page: Page) -> None:
    async with federated(page) as base:
        await walk(page, base, lambda path: looks_right(page, base, path))
        await page.open(f"{base}{WEB}/why", width=DESK)
        assert (
            await page.value("document.querySelectorAll('#verdicts ~ .scroll tbody tr').length")
            == 2
        )
        await by_keyboard(page, base)
        await plans_an_edit(page, base)
        assert {urlsplit(url).netloc for url in page.fetched if url.startswith("http")} == {
            urlsplit(base).netloc
        }


async def test_axe_finds_no_violation_on_any_page(page: Page) -> None:
    """With every rule of axe, those of best practice included."""
    rules = (modules.needed() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    async with federated(page) as base:

        async def look(path: str) -> None:
            for width, dark in ((DESK, False), (DESK, True), (PHONE, False), (PHONE, True)):
                await page.open(base + path, width=width, dark=dark)
                await page.value(f"{rules}; 0")
                assert await page.value(VIOLATIONS) == [], (path, width, dark)

        await walk(page, base, look)
        for path in ("/nope", "/signin"):
            await look(path)
        await page.value("document.documentElement.removeAttribute('lang')")
        assert [each[0] for each in await page.value(VIOLATIONS)] == ["html-has-lang"]


async def until_plans(page: Page, base: str) -> None:
    """Waits for the snapshot worker, which starts with the first question: on a busy machine that
    takes longer than a page waits."""
    async with asyncio.timeout(3 * SETTLE_S):
        while True:
            await page.open(f"{base}/plan?scale=psvc/web=5", width=DESK)
            if await page.value("document.querySelector('[role=alert]') === null"):
                break
    page.complaints.clear()


def shape(path: str) -> str:
    """Pages of the same sort are looked at once."""
    path, _, query = path.partition("?")
    first, *parts = path.strip("/").split("/")
    named = {"workloads": 3, "clusters": 1}.get(first, len(parts))
    tail = "/".join(parts[named:])
    return f"/{first}{'/x' if parts else ''}{f'/{tail}' if tail else ''}{'?' if query else ''}"


async def looks_right(page: Page, base: str, path: str) -> None:
    """On a desk in the light and on a phone in the dark."""
    for width, dark in ((DESK, False), (PHONE, True)):
        await page.open(base + path, width=width, dark=dark)
        await keep(page, path, width)
        assert await page.value("document.documentElement.scrollWidth") <= width, path
        assert await page.value("document.querySelectorAll('h1').length") == 1, path
        assert await page.value(OUTSIDE) == [], path
        assert await page.value(SMALL) == [], path
        ground = await page.value("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(22, 24, 28)" if dark else "rgb(255, 255, 255)")
    assert page.complaints == [], path


async def by_keyboard(page: Page, base: str) -> None:
    """From the first page to a workload with the tab and enter keys alone."""
    await page.open(f"{base}/?live=off", width=DESK)
    await tab_to(page, "Workloads")
    await press(page, "Enter")
    await page.until("location.pathname === '/workloads'")
    await tab_to(page, "web")
    await press(page, "Enter")
    await page.until(f"location.pathname === '{WEB}'")


async def plans_an_edit(page: Page, base: str) -> None:
    """Pastes a policy, and asks what if of a workload."""
    await page.open(f"{base}/plan", width=DESK)
    await page.value(f"document.querySelector('#manifests').value = {json.dumps(POLICY)}")
    await page.value("document.querySelector('.edits button').click()")
    await page.until("document.querySelector('.banner p') !== null")
    shown = await page.value("document.querySelector('main').textContent")
    assert "copies move between clusters" in shown
    assert await page.value("document.querySelector('#manifests').value") == POLICY.strip()
    for width, dark in ((DESK, False), (PHONE, True)):
        await page.resize(width, dark=dark)
        await keep(page, "/planned", width)
        assert await page.value("document.documentElement.scrollWidth") <= width
    await looks_right(page, base, f"{WEB}/why?replicas=12&lose=us-west-2a")
    shown = await page.value("document.querySelector('#what-if').parentElement.textContent")
    assert "4 -> 12" in shown


async def tab_to(page: Page, words: str) -> None:
    for _ in range(60):
        await press(page, "Tab")
        _, text, outlined = await page.value(FOCUSED)
        assert outlined, f"the focus on {text} cannot be seen"
        if text == words:
            return
    raise AssertionError(f"{words} is not reached by the tab key")


async def press(page: Page, key: str) -> None:
    code = {"Tab": 9, "Enter": 13}[key]
    text = {"text": "\r"} if key == "Enter" else {}
    for kind in ("keyDown", "keyUp"):
        await page.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code=key,
            windowsVirtualKeyCode=code,
            **text,
        )


async def test_the_command_serves_https_and_ends_on_a_signal(tmp_path: Path) -> None:
    federation = federation_of(1)
    await federation.install()
    host = await http.serve(federation.host)
    http.write_kubeconfig(tmp_path / "host.kubeconfig", {"host": host}, "host")
    signed = selfsigned.made("dashboard", dns=(), addresses=("127.0.0.1",), now_s=time.time())
    for name, pem in (("cert", signed.cert_pem), ("key", signed.key_pem)):
        (tmp_path / name).write_bytes(pem)
    files = ("--cert-file", str(tmp_path / "cert"), "--key-file", str(tmp_path / "key"))
    command = ("dashboard", "--kubeconfig", str(tmp_path / "host.kubeconfig"), *files)
    process = await asyncio.create_subprocess_exec(
        *FEDERATOR, *command, "--listen", "127.0.0.1:0", stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(SETTLE_S):
            while not (line := (await process.stderr.readline()).decode()).count("https://"):
                assert line, "it has ended"
            base = "https://" + line.partition("https://")[2].split()[0].strip("\"',}")
            context = ssl.create_default_context(cadata=signed.ca_pem.decode())
            connector = aiohttp.TCPConnector(ssl=context)
            async with aiohttp.ClientSession(connector=connector) as session:
                async with session.get(f"{base}/healthz") as healthy:
                    assert healthy.status == 200
                async with session.get(f"{base}/signin") as form:
                    assert form.headers["Set-Cookie"].startswith("__Host-federator-form=")
                    assert form.headers["Set-Cookie"].endswith("; Secure")
                async with session.get(f"{base}/quota", allow_redirects=False) as stranger:
                    assert (stranger.status, stranger.headers["Location"]) == (
                        303,
                        "/signin?next=%2Fquota",
                    )
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await host.close()
        await federation.stop()


async def test_texts_of_strangers_do_not_run_and_an_open_page_renews_itself(page: Page) -> None:
    """A host without a hub: statuses and Events stay as they are written here."""
    federation = federation_of(1)
    await federation.install()
    client = federation.client("host")
    ref = registry.KINDS["PinterestService"].ref("default", "web")
    await create(federation, psvc("web", 4))
    script = "\u202etxt.exe ".join(text for text in CORPUS if "\ud800" not in text)
    placed = {"type": "Placed", "status": "False", "reason": "Misconfigured", "message": script}
    status = {"conditions": [placed], "summary": CORPUS[0], "message": script, "desired": 4}
    try:
        await client.patch(ref, {"status": status}, subresource="status")
        async with dashboard_of(federation) as (pages, base):
            await page.open(pages.link(base, federation.host.token), width=PHONE)
            for path in ("/", "/workloads", WEB, f"{WEB}/why", "/quota"):
                await page.open(base + path, width=PHONE)
                assert await page.value("document.title.includes('federator')"), path
                assert (
                    await page.value("document.querySelectorAll('main script, main img').length")
                    == 0
                )
                assert await page.value("document.documentElement.scrollWidth") <= PHONE
            assert [text for text in page.complaints if "502" not in text] == []
            assert page.dialogs == []
            shown = await page.value("document.body.textContent")
            assert "<script>alert(1)</script>" in shown
            assert "\\u202etxt.exe" in shown
            await page.open(base + WEB, width=DESK)
            await page.value("document.querySelector('.tabs a').focus()")
            calm = {**placed, "status": "True", "reason": "Placed", "message": "calm"}
            await client.patch(ref, {"status": {"conditions": [calm]}}, subresource="status")
            await page.value("htmx.trigger('#main', 'every')")
            await page.until("document.body.textContent.includes('calm')")
            assert (await page.value(FOCUSED))[1] == "Summary", "the focus stays where it was"
            assert [text for text in page.complaints if "502" not in text] == []
    finally:
        await federation.stop()
