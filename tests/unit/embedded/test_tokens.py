"""Tokens of service accounts: what makes them count, and what ends them."""

import asyncio
import base64
import random

from federator.cli.clusters import joining
from federator.embedded.auth.rbac import Attributes
from federator.embedded.controllers import NodePool
from federator.embedded.controllers.kubelet.behaviour import Defaults, Span
from federator.embedded.server import EmbeddedCluster
from federator.embedded.storage.messages import Caller
from federator.embedded.storage.revisions import JsonObject
from federator.kube.client import Client
from federator.kube.clock import Clock
from tests.contract.speaking import Speaker
from tests.unit.embedded.inprocess import EPOCH_S, cluster, on_virtual_time, speaker

NAME = "system:serviceaccount:default:robot"
TOKEN_SECRET: JsonObject = {
    "metadata": {
        "name": "robot-token",
        "annotations": {"kubernetes.io/service-account.name": "robot"},
    },
    "type": "kubernetes.io/service-account-token",
}


async def account(api: Speaker) -> JsonObject:
    return (await api.post(api.url("serviceaccounts"), {"metadata": {"name": "robot"}})).object(201)


async def requested(api: Speaker, **spec: object) -> str:
    answer = await api.post(api.url("serviceaccounts", "robot", "token"), {"spec": spec})
    return str(answer.object(201)["status"]["token"])


@on_virtual_time
async def test_a_requested_token_ends_at_its_time() -> None:
    made = cluster()
    api = speaker(made)
    uid = (await account(api))["metadata"]["uid"]
    token = await requested(api, expirationSeconds=600)
    groups = ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    assert made.tokens.caller(token) == Caller(NAME, groups, uid)
    await asyncio.sleep(599)
    assert made.tokens.caller(token) is not None
    await asyncio.sleep(2)
    assert made.tokens.caller(token) is None


@on_virtual_time
async def test_an_account_made_anew_does_not_take_the_old_tokens() -> None:
    made = cluster()
    api = speaker(made)
    await account(api)
    token = await requested(api)
    await api.delete(api.url("serviceaccounts", "robot"))
    await account(api)
    assert made.tokens.caller(token) is None


@on_virtual_time
async def test_changed_and_foreign_tokens_are_nobodys() -> None:
    made, other = cluster(), cluster()
    other.renew_token("another")
    api = speaker(made)
    await account(api)
    token = await requested(api)
    head, body, signature = token.split(".")
    claims = base64.urlsafe_b64decode(body + "==").replace(b"default", b"kube-system")
    forged = base64.urlsafe_b64encode(claims).decode().rstrip("=")
    for wrong in (
        f"{head}.{forged}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        "",
        ".",
        "ü.ü.ü",
        token + "x",
    ):
        assert made.tokens.caller(wrong) is None
    assert other.tokens.caller(token) is None
    made.renew_token("new")
    assert made.tokens.caller(token) is None
    assert made.tokens.caller("new") is not None


def served(**options: object) -> EmbeddedCluster:
    return cluster(controllers=True, workloads=False, **options)


@on_virtual_time
async def test_the_secret_of_an_account_is_filled_and_opens_the_server() -> None:
    made = served()
    api = speaker(made)
    assert made.controllers is not None
    made.trust("PEM")
    running = asyncio.create_task(made.controllers.run())
    await account(api)
    (await api.post(api.url("secrets"), TOKEN_SECRET)).object(201)
    await asyncio.sleep(1)
    data = (await api.get(api.url("secrets", "robot-token"))).object()["data"]
    plain = {name: base64.b64decode(text).decode() for name, text in data.items()}
    assert (plain["namespace"], plain["ca.crt"]) == ("default", "PEM")
    caller = made.tokens.caller(plain["token"])
    assert caller is not None
    assert caller.name == NAME
    await api.patch(api.url("secrets", "robot-token"), {"data": {"token": None}})
    await asyncio.sleep(1)
    assert made.tokens.caller(plain["token"]) is not None, "the same claims make the same token"
    await api.delete(api.url("secrets", "robot-token"))
    assert made.tokens.caller(plain["token"]) is None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_virtual_time
async def test_token_secrets_go_with_their_account_and_do_not_live_without_one() -> None:
    made = served()
    api = speaker(made)
    assert made.controllers is not None
    running = asyncio.create_task(made.controllers.run())
    (await api.post(api.url("secrets"), TOKEN_SECRET)).object(201)
    await asyncio.sleep(1)
    assert (await api.get(api.url("secrets", "robot-token"))).status == 404
    await account(api)
    (await api.post(api.url("secrets"), TOKEN_SECRET)).object(201)
    await asyncio.sleep(1)
    assert (await api.get(api.url("secrets", "robot-token"))).status == 200
    await api.delete(api.url("serviceaccounts", "robot"))
    await asyncio.sleep(1)
    assert (await api.get(api.url("secrets", "robot-token"))).status == 404
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_virtual_time
async def test_pods_start_as_the_cluster_was_told() -> None:
    quick = Defaults(start=Span(0.0, 0.0))
    made = EmbeddedCluster(
        "quick",
        clock=Clock(EPOCH_S),
        rng=random.Random(1),
        nodes=[NodePool(count=1)],
        defaults=quick,
        events=0,
    )
    api = speaker(made)
    assert made.controllers is not None
    running = asyncio.create_task(made.controllers.run())
    await asyncio.sleep(1)
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    (await api.post(api.url("pods"), pod)).object(201)
    await asyncio.sleep(0.3)
    assert (await api.get(api.url("pods", "a"))).object()["status"]["phase"] == "Running"
    assert (await api.get(api.url("events"))).object()["items"] == []
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_virtual_time
async def test_the_account_that_joining_makes_may_do_what_the_hub_needs_and_no_more() -> None:
    made = served()
    assert made.controllers is not None
    running = asyncio.create_task(made.controllers.run())
    token = await joining.hub_account(Client(made.transport(), "member"))
    hub = made.tokens.caller(token)
    assert hub is not None
    assert hub.name == "system:serviceaccount:federator-system:federator-hub"
    for group, resource, verbs in joining.HUB_RULES:
        for verb in verbs:
            wanted = Attributes(verb, group, resource, namespace="team", name="a")
            assert made.context.authorizer.decide(hub, wanted).allowed, wanted
    for group, resource, name, verb in joining.OWN_RULES:
        plural, _, part = resource.partition("/")
        for space, called, allowed in (
            ("federator-system", name, True),
            ("federator-system", "x", False),
            ("team", name, False),
        ):
            asked = Attributes(verb, group, plural, subresource=part, namespace=space, name=called)
            assert made.context.authorizer.decide(hub, asked).allowed is allowed, asked
    for verb, resource in (
        ("list", "secrets"),
        ("update", "namespaces"),
        ("create", "pods"),
        ("delete", "services"),
    ):
        assert not made.context.authorizer.decide(hub, Attributes(verb, resource=resource)).allowed
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
