"""Sign-in through an issuer: what must fit together, and what a forged or late answer gets."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest

from federator import settings
from federator.dashboard import sessions
from federator.dashboard.server import Dashboard
from federator.dashboard.signin import signing
from federator.kube.wire.transport import Request
from federator.model.errors import FieldError
from federator.process.oidc.options import CALLBACK, OidcOptions
from tests.unit.dashboard.asking import LIST, Browser, dashboard_of, play
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.kube.scripted import Answer
from tests.unit.oidc import issuing
from tests.unit.oidc.issuing import AUDIENCE, NOW_S, URL, b64, claims, rsa, signed
from tests.unit.query import asking

OPTIONS = OidcOptions(
    issuer_url=URL, client_id=AUDIENCE, redirect_url="http://127.0.0.1:8600/signin/callback"
)


def honest(nonce: str) -> str:
    return issuing.token(nonce=nonce)


@dataclass
class Answering(issuing.Served):
    """An issuer that exchanges codes, as a test wants."""

    token_of: Callable[[str], str] = honest
    nonce: str = ""
    challenge: str = ""
    forms: list[dict[str, str]] = field(default_factory=list)

    async def request(self, request: Request) -> Answer:
        if request.method != "POST" or self.away:
            return await super().request(request)
        form = dict(parse_qsl(request.body.decode()))
        self.forms.append(form)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == self.challenge
        if form["code"] != "good":
            return Answer(400, (b'{"error":"invalid_grant"}',))
        body = {"id_token": self.token_of(self.nonce), "token_type": "Bearer"}
        return Answer(200, (json.dumps(body).encode(),))


@asynccontextmanager
async def opened(world: World) -> AsyncIterator[tuple[Dashboard, Answering, Browser]]:
    served = Answering()
    served.document |= {
        "authorization_endpoint": f"{URL}/auth?realm=ci",
        "end_session_endpoint": f"{URL}/logout",
        "scopes_supported": ["openid", "groups"],
    }
    async with dashboard_of(world, issuer=served.issuer(), oidc=OPTIONS) as dashboard:
        yield dashboard, served, Browser(dashboard)


async def begun(browser: Browser, served: Answering, where: str = "/quota") -> dict[str, str]:
    """Starts a sign-in; the parameters that the issuer would send the browser back with."""
    answer = await browser.get(f"{signing.ISSUER}?{urlencode({'next': where})}")
    assert answer.status == 303
    sent = {
        name: texts[0]
        for name, texts in parse_qs(urlsplit(answer.headers["Location"]).query).items()
    }
    served.nonce, served.challenge = sent["nonce"], sent["code_challenge"]
    assert sent | {"nonce": "", "state": "", "code_challenge": ""} == {
        "realm": "ci",
        "response_type": "code",
        "client_id": AUDIENCE,
        "redirect_uri": OPTIONS.redirect_url,
        "scope": "openid groups",
        "code_challenge_method": "S256",
        "nonce": "",
        "state": "",
        "code_challenge": "",
    }
    return {"code": "good", "state": sent["state"]}


async def back(browser: Browser, given: Mapping[str, str]) -> Any:
    return await browser.get(f"{CALLBACK}?{urlencode(given)}")


def test_the_session_is_of_the_user_and_groups_of_the_token() -> None:
    async def scenario(world: World) -> None:
        for namespace in ("feed", "ads"):
            await world.create("PinterestService", namespace, "web", worlds.service(3))
        await asking.grant_everywhere(world, "ads-deploy", LIST, subject="Group")
        async with opened(world) as (dashboard, served, browser):
            page = await browser.get("/signin?next=%2Fquota")
            assert b'href="/signin/issuer?next=%2Fquota">Sign in with issuer.example' in page.body
            answer = await back(browser, await begun(browser, served))
            assert answer.status == 200
            assert b'content="0; url=/quota"' in answer.body
            kept = answer.headers["Set-Cookie"]
            assert "SameSite=Strict" in kept
            assert "Max-Age=3600" in kept
            shown = await browser.get("/")
            assert f"{URL}#builder".encode() in shown.body
            session = dashboard.sessions.get(kept.partition("=")[2].partition(";")[0])
            assert session is not None
            assert session.user.groups == ("ads-deploy", "system:authenticated")
            assert session.token == ""
            assert (await browser.json("/workloads"))["paging"]["total"] == 2
            csrf = shown.body.decode().partition('name="csrf" value="')[2].partition('"')[0]
            out = await browser.post("/signout", {"csrf": csrf})
            left = await browser.get(out.headers["Location"])
            assert b"still signed in at issuer.example" in left.body
            assert f'href="{URL}/logout?client_id={AUDIENCE}"'.encode() in left.body

    play(scenario)


FORGED: Mapping[str, Callable[[str], str]] = {
    "no nonce": lambda nonce: issuing.token(),
    "another nonce": lambda nonce: issuing.token(nonce="other"),
    "a nonce that is a list": lambda nonce: issuing.token(nonce=[nonce]),
    "another audience": lambda nonce: issuing.token(nonce=nonce, aud="kubernetes"),
    "another program": lambda nonce: issuing.token(
        nonce=nonce, aud=[AUDIENCE, "other"], azp="other"
    ),
    "another issuer": lambda nonce: issuing.token(nonce=nonce, iss="https://evil.example"),
    "expired": lambda nonce: issuing.token(nonce=nonce, exp=NOW_S - 60),
    "unsigned": lambda nonce: (
        f"{b64(json.dumps({'alg': 'none'}).encode())}.{b64(json.dumps(claims(nonce=nonce)).encode())}."
    ),
    "signed by a stranger": lambda nonce: signed(
        {"alg": "RS256", "kid": "first"}, claims(nonce=nonce), rsa(1)
    ),
    "a group of Kubernetes": lambda nonce: issuing.token(nonce=nonce, groups=["system:masters"]),
    "no token": lambda nonce: "",
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_token_signs_nobody_in(name: str) -> None:
    async def scenario(world: World) -> None:
        async with opened(world) as (_, served, browser):
            served.token_of = FORGED[name]
            answer = await back(browser, await begun(browser, served))
            assert answer.status == 401, answer.body
            assert b"Sign in again." in answer.body
            assert "Set-Cookie" not in answer.headers
            assert (await browser.get("/")).status == 303

    play(scenario)


def test_an_answer_counts_in_the_browser_that_began_and_in_time() -> None:
    async def scenario(world: World) -> None:
        async with opened(world) as (dashboard, served, browser):
            given = await begun(browser, served)
            stranger = Browser(dashboard)
            other = await begun(stranger, served)
            refused = {
                "no cookie": await back(Browser(dashboard), given),
                "the state of another browser": await back(browser, other),
                "no state": await back(browser, {"code": "good"}),
                "another issuer": await back(browser, {**given, "iss": "https://evil.example"}),
            }
            await asyncio.sleep(sessions.SIGN_IN_S + 1)
            refused["too late"] = await back(browser, given)
            assert {name: answer.status for name, answer in refused.items()} == dict.fromkeys(
                refused, 403
            )
            assert served.forms == [], "no code is sent to the issuer"
            twice = await browser.get(f"{CALLBACK}?{urlencode(given)}&state=x")
            assert twice.status == 400

    play(scenario)


def test_an_issuer_that_refuses_or_is_away_is_named() -> None:
    async def scenario(world: World) -> None:
        async with opened(world) as (_, served, browser):
            given = await begun(browser, served)
            script = "<script>alert(1)</script>"
            denied = await back(browser, {"state": given["state"], "error": script})
            assert denied.status == 401
            assert b"issuer.example did not sign you in: &lt;script&gt;" in denied.body
            spent = await back(browser, {**given, "code": "spent"})
            assert (spent.status, b"did not confirm" in spent.body) == (401, True)
            assert (await back(browser, {"state": given["state"]})).status == 400
            served.away = True
            late = await back(browser, given)
            assert (late.status, b"does not answer" in late.body) == (503, True)
            assert (await browser.post(signing.ISSUER, {})).status == 405
        async with dashboard_of(world) as dashboard:
            without = Browser(dashboard)
            assert (await without.get(signing.ISSUER)).status == 404
            assert b"/signin/issuer" not in (await without.get("/signin")).body

    play(scenario)


def test_a_session_by_an_issuer_ends_after_an_hour() -> None:
    async def scenario(world: World) -> None:
        async with opened(world) as (_, served, browser):
            await back(browser, await begun(browser, served))
            for _ in range(3):
                await asyncio.sleep(sessions.ISSUED_S / 4)
                assert (await browser.get("/")).status == 200
            await asyncio.sleep(sessions.ISSUED_S / 4 + 1)
            assert (await browser.get("/")).headers["Location"] == "/signin?next=%2F"
            lost = await browser.post("/workloads", {"csrf": "x"})
            assert lost.status == 401
            assert b"What you sent was not kept, and nothing was changed." in lost.body

    play(scenario)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"redirect_url": ""}, "oidc.redirect_url"),
        ({"redirect_url": "http://dash.example/signin/callback"}, "oidc.redirect_url"),
        ({"redirect_url": "https://dash.example/other"}, "oidc.redirect_url"),
        ({"redirect_url": "https://[/signin/callback"}, "oidc.redirect_url"),
        ({"client_id": ""}, "oidc.client_id"),
        ({"groups_prefix": "system:"}, "oidc.groups_prefix"),
        ({"username_prefix": "system:serviceaccount:"}, "oidc.username_prefix"),
    ],
)
def test_settings_that_sign_nobody_in_are_refused(given: dict[str, str], path: str) -> None:
    good = {"issuer_url": URL, "redirect_url": f"https://dash.example{CALLBACK}"}
    settings.load(environ={}, overrides={"oidc": good})
    with pytest.raises(FieldError) as bad:
        settings.load(environ={}, overrides={"oidc": {**good, **given}})
    assert bad.value.path == path
