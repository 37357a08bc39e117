"""Who gets a page: sessions, sign-in, one-time links, and forms of other origins."""

import asyncio
import logging

import pytest

from federator.dashboard import pages, port, render, sessions
from federator.dashboard.port import HEADERS
from federator.dashboard.routes.route import Route
from federator.dashboard.signin import browsing, signing
from federator.dashboard.signin.browsing import Cookies
from federator.hub.query.access import REMEMBERED_S, User
from tests.unit.dashboard.asking import Browser, dashboard_of, play, reader
from tests.unit.hub.world import World
from tests.unit.query import asking


def _address(route: Route) -> str:
    given = {"kind": "PinterestService", "namespace": "feed", "name": "web", "action": "drain"}
    return route.path.format_map(given)


def test_every_page_without_a_session_is_a_redirect_or_401() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            stranger = Browser(dashboard)
            paths = [*map(_address, pages.ROUTES), signing.SIGN_OUT, "/nope", "/static", "//", ""]
            for path in paths:
                page = await stranger.get(path)
                assert (page.status, page.body) == (303, b""), path
                assert page.headers["Location"].startswith("/signin?next=%2F") or path in ("", "//")
                assert (await stranger.get(f"{path}?format=json")).status == 401
                assert (await stranger.get(path, accept="application/json")).status == 401
                assert (await stranger.post(path, {"csrf": "x"})).status == 401
                renewed = await stranger.get(path, **{"hx-request": "true"})
                assert renewed.status == 401
                assert renewed.headers["HX-Redirect"].startswith("/signin?next=")
            for path in (*sorted(port.PROBES), signing.SIGN_IN):
                assert (await stranger.get(path)).status == 200, path
            for name in render.STATIC:
                assert (await stranger.get(f"/static/{name}")).status == 200, name
            assert (await stranger.get("/static/../server.py")).status == 404

    play(scenario)


def test_every_answer_forbids_what_a_page_does_not_need() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            browser = await reader(world, dashboard)
            for path in ("/", "/nope", "/signin", "/static/dashboard.css", "/workloads?page=x"):
                answer = await browser.get(path)
                assert HEADERS.items() <= answer.headers.items(), path
                text = answer.body.decode()
                assert "<style" not in text
                assert " style=" not in text
                assert " onclick" not in text
            policy = HEADERS["Content-Security-Policy"]
            assert "unsafe" not in policy
            assert policy.startswith("default-src 'none'")

    play(scenario)


def test_a_token_of_the_host_signs_in_and_the_button_signs_out() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            browser = Browser(dashboard)
            form = await browser.form()
            refused = await browser.post("/signin", {**form, "token": "stranger"})
            assert refused.status == 401
            assert b"The host does not know this token" in refused.body
            form = await browser.form()
            answer = await browser.post(
                "/signin", {"csrf": form["csrf"], "next": "/quota", "token": dashboard_token(world)}
            )
            assert (answer.status, answer.headers["Location"]) == (303, "/quota")
            page = await browser.get("/")
            assert page.status == 200
            assert b"kubernetes-admin" in page.body
            csrf = page.body.decode().partition('name="csrf" value="')[2].partition('"')[0]
            assert (await browser.post("/signout", {"csrf": "wrong"})).status == 403
            assert (await browser.get("/")).status == 200
            assert (await browser.get("/signout")).status == 405
            gone = await browser.post("/signout", {"csrf": csrf})
            assert (gone.status, gone.headers["Location"]) == (303, "/signin")
            assert "Max-Age=0" in gone.headers["Set-Cookie"]
            assert (await browser.get("/")).status == 303

    play(scenario)


def dashboard_token(world: World) -> str:
    return world.federation.host.token


FOREIGN = {
    "another origin": {"origin": "https://evil.example"},
    "another port": {"origin": "http://localhost:1"},
    "no origin": {"origin": ""},
    "a sandboxed page": {"origin": "null"},
    "a cross-site form": {"sec-fetch-site": "cross-site"},
    "a form of a neighbour": {"sec-fetch-site": "same-site"},
    "no host": {"host": ""},
}


def test_forms_of_other_origins_change_nothing() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            browser = await reader(world, dashboard)
            page = (await browser.get("/")).body.decode()
            csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
            for name, headers in FOREIGN.items():
                assert (await browser.post("/signout", {"csrf": csrf}, **headers)).status == 403, (
                    name
                )
                fields = {**await browser.form(), "token": dashboard_token(world)}
                assert (await browser.post("/signin", fields, **headers)).status == 403, name
            as_json = {"content-type": "application/json"}
            assert (await browser.post("/signout", {"csrf": csrf}, **as_json)).status == 400
            other = await reader(world, dashboard)
            assert (await other.post("/signout", {"csrf": csrf})).status == 403
            assert (await browser.get("/")).status == 200

    play(scenario)


def test_a_sign_in_form_counts_in_the_browser_that_opened_it_and_for_ten_minutes() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            token = dashboard_token(world)
            theirs = await Browser(dashboard).form()
            browser = Browser(dashboard)
            await browser.form()
            assert (await browser.post("/signin", {**theirs, "token": token})).status == 401
            own = await browser.form()
            await asyncio.sleep(sessions.SIGN_IN_S + 1)
            assert (await browser.post("/signin", {**own, "token": token})).status == 401
            assert (await browser.sign_in(token)).status == 303

    play(scenario)


def test_a_link_signs_in_once() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            link = dashboard.link("", dashboard_token(world))
            browser = Browser(dashboard)
            answer = await browser.get(link)
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            assert (await browser.get("/")).status == 200
            second = Browser(dashboard)
            assert (await second.get(link)).status == 403
            assert (await second.get("/signin/link?key=")).status == 403
            late = dashboard.link("", dashboard_token(world))
            await asyncio.sleep(sessions.LINK_S + 1)
            assert (await second.get(late)).status == 403

    play(scenario)


def test_sessions_end() -> None:
    """Idle ones after an hour, whatever an open page asks by itself; all after twelve."""

    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            idle = await reader(world, dashboard)
            for _ in range(6):
                await asyncio.sleep(sessions.IDLE_S / 6 + 1)
                renewed = await idle.get("/", **{"hx-request": "true"})
            assert renewed.status == 401
            assert (await idle.get("/")).status == 303
            busy = await reader(world, dashboard)
            for _ in range(24):
                assert (await busy.get("/")).status == 200
                await asyncio.sleep(sessions.LONGEST_S / 24 + 1)
            assert (await busy.get("/")).status == 303

    play(scenario)


def test_a_token_that_the_host_no_longer_knows_ends_its_session() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            browser = await reader(world, dashboard, "alice")
            assert (await browser.get("/workloads")).status == 200
            del world.federation.host.tokens.admins[asking.token("alice")]
            await asyncio.sleep(REMEMBERED_S + 1)
            assert (await browser.get("/workloads")).status == 303

    play(scenario)


def test_no_token_or_cookie_shows_in_logs_pages_or_reprs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            browser = await reader(world, dashboard, "alice")
            key = browser.cookies[Cookies(secure=False).session]
            session = dashboard.sessions.get(key)
            assert session is not None
            shown = repr(session) + (await browser.get("/")).body.decode()
            shown += (await browser.get("/?format=json")).body.decode()
            await world.cut("host", process="dashboard")
            await asyncio.sleep(REMEMBERED_S + 1)
            down = await browser.get("/workloads")
            assert down.status == 503
            shown += down.body.decode()
            assert asking.token("alice") not in shown
            assert key not in shown
            assert key not in caplog.text

    play(scenario)
    assert "alice has signed in" in caplog.text
    assert asking.token("alice") not in caplog.text


def test_the_sessions_of_one_user_and_of_all_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 100)
    now = [0.0]
    numbers = iter(range(10**6))
    kept = sessions.Sessions(lambda: f"key-{next(numbers)}", lambda: now[0])
    alice = [kept.begin(User("alice"), "t") for _ in range(sessions.SESSIONS_OF_ONE_USER + 3)]
    assert [kept.get(each.key) is None for each in alice[:4]] == [True, True, True, False]
    for number in range(sessions.SESSIONS_MAX):
        kept.begin(User(f"user-{number}"), "t")
    assert kept.get(alice[-1].key) is None


@pytest.mark.parametrize(
    ("where", "lands"),
    [
        ("/quota?q=a", "/quota?q=a"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\r\nSet-Cookie: x=y", "/"),
        ("/\u202eevil", "/"),
        ("", "/"),
    ],
)
def test_a_sign_in_leads_to_pages_of_this_server_only(where: str, lands: str) -> None:
    assert browsing.local(where) == lands


def test_cookies_are_for_this_origin() -> None:
    secure = Cookies(secure=True).set(Cookies(secure=True).session, "k", 60)
    assert secure.startswith("__Host-federator-session=k; Path=/;")
    assert secure.endswith("HttpOnly; SameSite=Strict; Secure")
    plain = Cookies(secure=False, port=8600)
    assert plain.session == "federator-8600-session"
    assert plain.set(plain.session, "k", 60).endswith("HttpOnly; SameSite=Strict")
