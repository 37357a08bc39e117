"""A person signs in at a real OpenID provider with a real browser, over TLS and between two sites."""

import asyncio
import contextlib
import random
import secrets
import ssl
import time
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from federator.cli.running import sandbox
from federator.dashboard import server
from federator.dashboard.server import Dashboard
from federator.kinds import registry
from federator.kube import selfsigned
from federator.kube.clock import RealClock
from federator.kube.wire.http import StaticToken
from federator.model.steps import ObjectRef
from federator.process.oidc import issuer
from federator.process.oidc.issuer import Issuer
from federator.process.oidc.options import CALLBACK, OidcOptions
from federator.process.oidc.tokens import Trust
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from tests.browser.devtools import Page
from tests.e2e.shells import psvc
from tests.npm import provider
from tests.npm.provider import Provider
from tests.running.ports import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.long]
SECRET = "of-tests"
SETTLE_S = 60.0
RBAC = "rbac.authorization.k8s.io"
WEB = "/workloads/PinterestService/default/web"
FILLED = """
document.querySelectorAll('input:not([type=hidden])').forEach(each => { each.value = 'ada' })
"""
FORM = "document.querySelector('form').requestSubmit()"


@contextlib.asynccontextmanager
async def dashboard_at(
    provided: Provider, options: OidcOptions, port: int, folder: Path
) -> AsyncIterator[str]:
    """The address of a dashboard with TLS, whose readers sign in there."""
    federation = Federation(
        fleet=fleetfile.generated(1), clock=RealClock(), rng=random.Random(5), election=True
    )
    leader = await sandbox.query_port(federation)
    await federation.start()
    await grant(federation)
    signed = selfsigned.made("dashboard", dns=(), addresses=("127.0.0.1",), now_s=time.time())
    for name, pem in (("cert", signed.cert_pem), ("key", signed.key_pem)):
        (folder / name).write_bytes(pem)
    connect = issuer.connecting(ca_pem=provided.ca_pem, allow_loopback=True)
    pages = Dashboard(
        federation.client("host", "dashboard"),
        options=server.Options("127.0.0.1", port, str(folder / "cert"), str(folder / "key")),
        clock=RealClock(),
        rng=random.Random(1),
        draw=lambda: secrets.token_urlsafe(24),
        own=StaticToken(federation.host.token),
        issuer=Issuer(Trust.of(options), connect, clock=RealClock()),
        oidc=options,
    )
    try:
        async with server.running(pages) as (base, _):
            yield base
    finally:
        await federation.stop()
        await leader.close()


async def grant(federation: Federation) -> None:
    """A workload, and the right of a group to see it."""
    host = federation.client("host")
    await host.create(registry.KINDS["PinterestService"].ref("default", "web"), psvc("web", 4))
    name = {"name": "deployers"}
    rules = [{"apiGroups": ["pinterest.com"], "resources": ["pinterestservices"], "verbs": ["get"]}]
    subject = {"apiGroup": RBAC, "kind": "Group", "name": "ads-deploy"}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "deployers"}
    for kind, rest in (
        ("ClusterRole", {"rules": rules}),
        ("ClusterRoleBinding", {"roleRef": reference, "subjects": [subject]}),
    ):
        ref = ObjectRef(f"{RBAC}/v1", f"{kind.lower()}s", "", "deployers", kind)
        await host.create(
            ref, {"apiVersion": ref.api_version, "kind": kind, "metadata": name, **rest}
        )


async def until_explained(page: Page, base: str) -> None:
    """Opens the page "Why here" until it names the cluster. Before a hub leads, and while its
    snapshot worker starts, the page says so instead."""
    async with asyncio.timeout(SETTLE_S):
        while True:
            await page.open(f"{base}{WEB}/why", width=1280)
            rows = "document.querySelectorAll('#verdicts ~ .scroll tbody tr').length"
            if await page.value(rows) == 1:
                break
    page.complaints.clear()


@pytest.mark.parametrize("secret", ["", SECRET], ids=["public client", "client with a secret"])
async def test_a_person_signs_in_and_out_at_an_issuer(
    page: Page, tmp_path: Path, secret: str
) -> None:
    port = free_port()
    redirect = f"https://127.0.0.1:{port}{CALLBACK}"
    accounts = {"ada": {"groups": ["ads-deploy"]}}
    (tmp_path / "secret").write_text(f"{secret}\n", encoding="utf-8")
    async with provider.running(
        provider.client(redirect, secret=secret), accounts=accounts
    ) as provided:
        options = OidcOptions(
            issuer_url=provided.issuer,
            client_id=provider.CLIENT,
            client_secret_file=str(tmp_path / "secret") if secret else "",
            redirect_url=redirect,
        )
        async with dashboard_at(provided, options, port, tmp_path) as base:
            await page.trust_any_certificate()
            await page.open(f"{base}/quota", width=1280)
            assert await page.value("location.pathname") == "/signin"
            await page.value("document.querySelector('a.button').click()")
            await page.until(f"location.origin === '{provided.issuer}'")
            await page.until("document.querySelector('input[value=login]')")
            await page.value(FILLED)
            await page.value(FORM)
            await page.until("document.querySelector('input[value=consent]')")
            await page.value(FORM)
            await page.until("location.pathname === '/quota'")
            page.complaints.clear()  # of the provider's own page: it imports a font
            shown = await page.value("document.querySelector('.reader').textContent")
            assert shown == f"{provided.issuer}#ada"
            cookies = (await page.call("Network.getCookies", urls=[base]))["cookies"]
            kept = {cookie["name"]: (cookie["sameSite"], cookie["secure"]) for cookie in cookies}
            assert kept["__Host-federator-session"] == ("Strict", True)
            assert kept["__Host-federator-issued"] == ("Lax", True)
            # the leader answers for the person: the right comes from a group of the ID token
            await until_explained(page, base)
            await page.value("document.querySelector('.out').requestSubmit()")
            await page.until("location.search === '?left=yes'")
            assert await page.value("document.querySelector('.banner a').host") in provided.issuer
            await page.open(f"{base}/quota", width=1280)
            assert await page.value("location.pathname") == "/signin"
            assert page.complaints == []


async def test_the_provider_refuses_another_verifier_and_a_spent_code(tmp_path: Path) -> None:
    """PKCE counts: a code that leaks is worth nothing without the cookie of its browser."""
    port = free_port()
    redirect = f"https://127.0.0.1:{port}{CALLBACK}"
    async with provider.running(provider.client(redirect)) as provided:
        options = OidcOptions(
            issuer_url=provided.issuer, client_id=provider.CLIENT, redirect_url=redirect
        )
        async with dashboard_at(provided, options, port, tmp_path) as base:
            trusting = ssl.create_default_context(cafile=str(tmp_path / "cert"))
            trusting.check_hostname = False
            trusting.verify_mode = ssl.CERT_NONE
            jar = aiohttp.CookieJar(unsafe=True)
            connector = aiohttp.TCPConnector(ssl=trusting)
            async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as session:
                params = await _answer(session, base)
                stolen = {**params, "code": "stolen"}
                async with session.get(f"{base}{CALLBACK}", params=stolen) as other:
                    assert other.status == 401
                async with session.get(f"{base}{CALLBACK}", params=params) as good:
                    assert good.status == 200
                async with session.get(f"{base}{CALLBACK}", params=params) as spent:
                    assert spent.status == 401
                    assert "did not confirm the sign-in" in await spent.text()


class Form(HTMLParser):
    """The form of a page of the provider."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = given["action"]
        elif tag == "input":
            self.fields[given["name"]] = given.get("value") or "ada"


async def _answer(session: aiohttp.ClientSession, base: str) -> dict[str, str]:
    """The parameters of a sign-in with which the provider sends the browser back."""
    url, form = URL(f"{base}/signin/issuer"), dict[str, str]()
    for _ in range(12):
        method = "POST" if form else "GET"
        async with session.request(method, url, data=form, allow_redirects=False) as answer:
            if answer.status in (302, 303):
                url, form = answer.url.join(URL(answer.headers["Location"])), {}
                if "code" in url.query:
                    return dict(url.query)
                continue
            found = Form(await answer.text())
            url, form = answer.url.join(URL(found.action)), found.fields
    raise AssertionError("the provider gave no code")
