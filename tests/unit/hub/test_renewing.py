"""The hub's token in a member: renewed in time, taken without a new connection, told where that
fails.
"""

import asyncio
import base64
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from federator.cli.clusters import joining
from federator.hub.options import HubOptions
from federator.kube import errors, selfsigned, tokens
from federator.kube.login import kubeconfigs
from federator.kube.login.kubeconfigs import MemberAccess
from federator.kube.metrics import Metrics
from federator.kube.tokens import Token
from federator.kube.wire.transport import Request, Response, Transport
from federator.model.steps import ObjectRef
from federator.sandbox.federation import Federation
from tests.unit.hub.test_probing import restart, status_of
from tests.unit.hub.world import World, play, service

AGE_S = 1200.0
QUICK = HubOptions(token_lifetime_s=7 * 1200, token_renew_s=AGE_S)
"""A life of hours and not days: every probe of virtual time costs some."""
TOKEN_PATH = "/serviceaccounts/federator-hub/token"
FORBIDDEN = (
    403,
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}',
)


class Shown:
    """A transport that shows a token, as one over HTTP does, and is let in by the API server's own
    word on it.
    """

    def __init__(
        self, book: "Book", name: str, secret: Mapping[str, Any], inner: Transport
    ) -> None:
        self.book, self.name, self.inner = book, name, inner
        self.token = kubeconfigs.member_access(kubeconfigs.in_secret(secret, name)).token
        book.opened[name] += 1

    async def request(self, request: Request) -> Response:
        if self.book.federation.members[self.name].tokens.caller(self.token) is None:
            raise errors.Unauthenticated(f"{self.name}: the token is nobody's")
        self.book.shown[self.name] = self.token
        return await self.inner.request(request)

    def take_token(self, token: str) -> bool:
        self.token = token
        return not self.book.stiff

    async def close(self) -> None:
        await self.inner.close()


class Book:
    """What every member was shown."""

    def __init__(self) -> None:
        self.federation: Federation
        self.opened: Counter[str] = Counter()
        self.shown: dict[str, str] = {}
        self.stiff = False
        """Transports take no token."""

    def token(self, name: str) -> Token:
        found = tokens.read(self.shown[name])
        assert found is not None
        return found


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch) -> Book:
    """Members that have a token in their Secret are spoken to with it."""
    found, connect = Book(), Federation.connect

    async def connected(
        self: Federation, obj: Mapping[str, Any], secret: Mapping[str, Any], *, process: str = "hub"
    ) -> Transport:
        found.federation = self
        transport = await connect(self, obj, secret, process=process)
        return (
            Shown(found, obj["metadata"]["name"], secret, transport)
            if secret.get("data")
            else transport
        )

    monkeypatch.setattr(Federation, "connect", connected)
    return found


def secret_ref(name: str) -> ObjectRef:
    return ObjectRef("v1", "secrets", "federator-clusters", name, "Secret")


async def give(world: World, name: str, token: str) -> None:
    """What joining writes."""
    access = MemberAccess("https://api.example:6443", b"-----BEGIN CERTIFICATE-----\n", token)
    text = base64.b64encode(kubeconfigs.written(access).encode()).decode()
    await world.host.patch(secret_ref(name), {"data": {"kubeconfig": text}})


async def joined(world: World, name: str) -> None:
    """The member has an account for the hub, and the hub a token of it; it starts anew with
    that.
    """
    await joining.hub_account(world.member(name))
    lifetime_s = world.federation.hub_options.token_lifetime_s
    await give(
        world,
        name,
        await tokens.request(world.member(name), "federator-system", "federator-hub", lifetime_s),
    )
    await restart(world)
    await world.settle()


async def in_secret(world: World, name: str) -> Token:
    access = kubeconfigs.member_access(
        kubeconfigs.in_secret(await world.host.get(secret_ref(name)), name)
    )
    found = tokens.read(access.token)
    assert found is not None
    return found


async def condition(world: World, name: str) -> dict[str, Any] | None:
    found = (await status_of(world, name))["conditions"]
    return next((one for one in found if one["type"] == "CredentialsRenewed"), None)


@pytest.mark.long
def test_a_token_is_renewed_every_day_and_no_watch_is_dropped_for_it(book: Book) -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", service(6))
        await joined(world, "b")
        first, opened = await in_secret(world, "b"), book.opened["b"]
        watches = dict(world.federation.hub.state.members["b"].contents.reflectors)
        troubles = {name: sum(one.troubles.values()) for name, one in watches.items()}
        await asyncio.sleep(0.8 * AGE_S)
        assert await in_secret(world, "b") == first
        await asyncio.sleep(0.3 * AGE_S)
        second = await in_secret(world, "b")
        assert second.issued_s > first.issued_s
        assert second.ends_s == second.issued_s + 7 * AGE_S
        assert book.token("b") == second
        await asyncio.sleep(4 * AGE_S)

        assert book.token("b").issued_s > second.issued_s + 3 * AGE_S
        renewals = 6
        assert book.opened["b"] <= opened + renewals + 1, (
            "one to try each token with, and none for the watches"
        )
        assert world.federation.hub.state.members["b"].contents.reflectors == watches
        assert {name: sum(one.troubles.values()) for name, one in watches.items()} == troubles
        assert await condition(world, "b") is None

    play(scenario, options=QUICK)


@pytest.mark.long
def test_a_token_is_renewed_before_it_ends_where_the_member_gives_short_ones(book: Book) -> None:
    async def scenario(world: World) -> None:
        await joined(world, "b")
        await asyncio.sleep(2000)
        token = book.token("b")
        assert token.ends_s is not None
        assert token.ends_s - token.issued_s == 600
        assert all(one["status"] == "True" for one in (await status_of(world, "b"))["conditions"])

    play(scenario, options=HubOptions(token_lifetime_s=600))


@pytest.mark.long
def test_a_renewal_that_is_refused_is_told_while_days_are_left_and_ends_by_itself(
    book: Book,
) -> None:
    async def scenario(world: World) -> None:
        metrics = world.federation.metrics = Metrics()
        await joined(world, "b")
        world.answer("b", TOKEN_PATH, *FORBIDDEN)
        await asyncio.sleep(1.5 * AGE_S)
        told = await condition(world, "b")
        assert told is not None
        assert (told["status"], told["reason"]) == ("False", "RenewalFailed")
        assert "ends at 2026-" in told["message"]
        assert "apply deploy/member" in told["message"]
        tries = world.answered[TOKEN_PATH]
        assert 2 < tries < 20, "it backs off"
        assert (
            f'federator_token_renewals_total{{result="failed"}} {tries}.0'
            in metrics.render().decode()
        )

        world.clear()
        await asyncio.sleep(600)
        assert await condition(world, "b") is None
        shown = metrics.render().decode().splitlines()
        assert 'federator_token_renewals_total{result="renewed"} 1.0' in shown
        ends_s = (await in_secret(world, "b")).ends_s
        told_s = dict(line.rsplit(" ", 1) for line in shown)
        name = 'federator_member_token_ends_timestamp_seconds{cluster="b"}'
        assert float(told_s[name]) == ends_s
        assert (await in_secret(world, "b")).issued_s > world.federation.clock.now() - 600

    play(scenario, options=QUICK)


def test_a_token_without_end_is_replaced_by_one_that_ends(book: Book) -> None:
    """As it lies on hosts whose members joined with an earlier version."""

    async def scenario(world: World) -> None:
        await world.settle()
        member = world.federation.members["b"]
        await joining.hub_account(world.member("b"))
        lasting = {
            "metadata": {
                "name": "hub",
                "annotations": {"kubernetes.io/service-account.name": "federator-hub"},
            },
            "type": "kubernetes.io/service-account-token",
        }
        ref = ObjectRef("v1", "secrets", "federator-system", "hub", "Secret")
        await world.member("b").create(ref, lasting)
        await asyncio.sleep(5)
        found = (await world.member("b").get(ref))["data"]["token"]
        await give(world, "b", base64.b64decode(found).decode())
        assert (await in_secret(world, "b")).ends_s is None
        await restart(world)
        await asyncio.sleep(60)
        assert (await in_secret(world, "b")).ends_s is not None
        assert book.token("b").ends_s is not None
        assert member.tokens.caller(book.shown["b"]) is not None

    play(scenario, options=QUICK)


@pytest.mark.long
def test_a_member_that_lets_the_hub_make_none_keeps_it_on_the_token_without_end_and_is_not_blamed(
    book: Book,
) -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await joining.hub_account(world.member("b"))
        account = await world.member("b").get(
            ObjectRef(
                "v1", "serviceaccounts", "federator-system", "federator-hub", "ServiceAccount"
            )
        )
        member = world.federation.members["b"]
        lasting = member.tokens.issue_legacy(account, "hub")
        secret = {
            "metadata": {"name": "hub"},
            "data": {"token": base64.b64encode(lasting.encode()).decode()},
        }
        await world.member("b").create(
            ObjectRef("v1", "secrets", "federator-system", "hub", "Secret"), secret
        )
        await give(world, "b", lasting)
        world.answer("b", TOKEN_PATH, *FORBIDDEN)
        await restart(world)
        await asyncio.sleep(4000)
        assert await condition(world, "b") is None
        assert 0 < world.answered[TOKEN_PATH] <= 4
        assert (await status_of(world, "b"))["conditions"][0]["reason"] == "Ready"

    play(scenario, options=QUICK)


@pytest.mark.long
def test_what_a_member_gives_that_is_no_token_of_ours_is_not_written(book: Book) -> None:
    async def scenario(world: World) -> None:
        await joined(world, "b")
        first = await in_secret(world, "b")
        forever = base64.urlsafe_b64encode(
            b'{"sub":"system:serviceaccount:federator-system:federator-hub"}'
        ).decode()
        answer = f'{{"metadata":{{}},"status":{{"token":"a.{forever.rstrip("=")}.c"}}}}'
        world.answer("b", TOKEN_PATH, 201, answer.encode())
        await asyncio.sleep(1.2 * AGE_S)
        assert await in_secret(world, "b") == first
        claims = b'{"sub":"system:serviceaccount:federator-system:federator-hub","iat":1,"exp":9000000000}'
        forged = base64.urlsafe_b64encode(claims).decode().rstrip("=")
        world.answer(
            "b",
            TOKEN_PATH,
            201,
            f'{{"metadata":{{}},"status":{{"token":"a.{forged}.c"}}}}'.encode(),
        )
        await asyncio.sleep(0.2 * AGE_S)
        assert await in_secret(world, "b") == first, "it is tried before it is written"
        told = await condition(world, "b")
        assert told is not None
        assert told["reason"] == "RenewalFailed"

    play(scenario, options=QUICK)


@pytest.mark.long
def test_a_host_that_keeps_the_secret_from_being_written_is_told_with_what_helps(
    book: Book,
) -> None:
    async def scenario(world: World) -> None:
        await joined(world, "b")
        first = await in_secret(world, "b")
        world.refuse_writes("host", "/secrets/b")
        await asyncio.sleep(1.5 * AGE_S)
        told = await condition(world, "b")
        assert told is not None
        assert "`federator cluster grant b` on the host lets it" in told["message"]
        assert await in_secret(world, "b") == first
        assert book.token("b") == first
        world.clear()
        await asyncio.sleep(600)
        assert await condition(world, "b") is None
        assert await in_secret(world, "b") != first

    play(scenario, options=QUICK)


@pytest.mark.long
def test_a_hub_that_may_not_write_takes_what_the_leader_has_renewed(book: Book) -> None:
    """A standby: it asks for no token, and by the time its own would end it has long had
    another.
    """

    async def scenario(world: World) -> None:
        await joined(world, "b")
        state, opened = world.federation.hub.state, book.opened["b"]
        state.leader_gate = lambda: False
        await asyncio.sleep(AGE_S)
        fresh = await tokens.request(world.member("b"), "federator-system", "federator-hub")
        await give(world, "b", fresh)
        await asyncio.sleep(200)
        assert book.shown["b"] == fresh
        assert state.members["b"].link.token == tokens.read(fresh)
        assert book.opened["b"] == opened, "no other connection was needed"

    play(scenario, options=QUICK)


def test_the_end_of_a_client_certificate_is_a_metric() -> None:
    async def scenario(world: World) -> None:
        metrics = world.federation.metrics = Metrics()
        now_s = world.federation.clock.now()
        own = selfsigned.made("hub", dns=["federator-hub"], now_s=now_s)
        access = MemberAccess(
            "https://api.example:6443", own.ca_pem, cert_pem=own.cert_pem, key_pem=own.key_pem
        )
        text = base64.b64encode(kubeconfigs.written(access).encode()).decode()
        await world.host.patch(secret_ref("b"), {"data": {"kubeconfig": text}})
        await restart(world)
        await world.settle()

        name = 'federator_member_certificate_ends_timestamp_seconds{cluster="b"}'
        shown = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines())
        assert float(shown[name]) == selfsigned.ends_s(own.cert_pem) == int(now_s) + 3650 * 86400
        assert selfsigned.ends_s(b"-----BEGIN CERTIFICATE-----\n") is None

    play(scenario)
