"""Invariants 27 and 28: words planted in everything that one tenant has are in nothing that another
can read, and secrets are in no log, answer, metric or object.

The other tenant asks for everything that the hub refuses, and for what a lying member spoils, so
that every sentence there is has a chance to tell.
"""

import json
import logging
from collections.abc import Iterable
from typing import Any

import pytest

from federator.kinds import registry
from federator.kube.metrics import Metrics
from federator.model.ask import Tier
from federator.model.kubernetes import quantity
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef
from federator.status.given import Contradiction
from tests.unit.hub.world import World, jobset, play, service
from tests.unit.query.asking import grant, port_of, request, token

WORD = "kaleidoscope"
"""In every name, label, annotation and message of the first tenant."""
SECRET = "marzipan-4711"
"""In what is nobody's to see but the pods': the value of a variable, a Secret."""
COPIES, CPU = 13, "777m"
LIMIT = 20_000
"""Of the shared account, in thousandths of a cpu."""
FIRST, BOUND, OTHER = f"{WORD}-ns", f"{WORD}-bound", "feed"
RULES = [
    {"apiGroups": ["pinterest.com"], "resources": ["*"], "verbs": ["get", "create"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
]
MARKED = {"labels": {f"{WORD}/team": WORD}, "annotations": {f"{WORD}/why": f"{WORD} wants it"}}


def limits(cpu: str) -> dict[str, Any]:
    return {"OnDemand": {"max": {"cpu": cpu}}}


def pod(found: dict[str, Any], **fields: Any) -> dict[str, Any]:
    found["template"]["spec"].update(fields)
    return found


TROUBLES: dict[str, tuple[dict[str, Any], str]] = {
    "fine": (service(1, "10m", project="feed"), ""),
    "short": (service(15, "1", project="feed"), "QuotaExceeded"),
    "huge": (service(500, "1", project="feed"), "ExceedsMaxQuota"),
    "theirs": (service(1, "10m", project="theirs"), "NotAllowed"),
    "unknown": (service(1, "10m", project="nobodys"), "NotAllowed"),
    "crowded": (service(1, "10m", project="crowd"), "QuotaExceeded"),
    "lost": (service(1, "10m", project="feed", placement={"policyRef": "none"}), "Misconfigured"),
    "away": (
        service(1, "10m", project="feed", placement={"clusters": {"names": ["c"]}}),
        "ClusterUntrustworthy",
    ),
    "root": (pod(service(1, "10m", project="feed"), hostPID=True), "PodSecurityViolation"),
}
"""Workloads of the other tenant, and how the hub answers each."""


async def first_tenant(world: World) -> None:
    """Everything it has bears the word, and it takes part of every shared account."""
    await world.create(
        "FederatedQuota", "", "shared", {"projects": ["feed"], "tiers": limits(f"{LIMIT}m")}
    )
    await world.create(
        "FederatedQuota", "", "bound", {"projects": ["theirs"], "namespaces": [BOUND]}
    )
    await world.create(
        "FederatedQuota", "", "crowd", {"projects": ["crowd"], "maxConcurrentWorkloads": 1}
    )
    await world.namespace(FIRST)
    spec = service(COPIES, CPU, project="feed")
    container = spec["template"]["spec"]["containers"][0]
    container |= {"image": f"registry/{WORD}:1", "env": [{"name": WORD.upper(), "value": SECRET}]}
    await world.create("PinterestService", FIRST, f"{WORD}-app", spec, **MARKED)
    await world.create(
        "PinterestService", FIRST, f"{WORD}-one", service(1, "10m", project="crowd"), **MARKED
    )
    await world.create(
        "PinterestJobSet",
        BOUND,
        f"{WORD}-jobs",
        {**jobset(4, 2, "10m"), "project": "theirs"},
        **MARKED,
    )
    await world.create(
        "PlacementPolicy", FIRST, f"{WORD}-rule", {"workloads": {"matchLabels": {WORD: "x"}}}
    )
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": WORD, "namespace": FIRST}}
    body["stringData"] = {"password": SECRET}
    await world.host.create(ObjectRef("v1", "secrets", FIRST, WORD, "Secret"), body)
    await world.settle()
    assert sum((await world.shares(FIRST, f"{WORD}-app")).values()) == COPIES
    # Member c lied about it: the evidence is of the first tenant's workload.
    state, key = world.federation.hub.state, WorkloadKey("PinterestService", FIRST, f"{WORD}-app")
    lie = Contradiction("TooManyCopies", f"{key}: it tells of 10101 copies, and was given {COPIES}")
    state.hold_against(state.members["c"], key, lie, world.federation.clock.monotonic())


async def other_tenant(world: World) -> None:
    await world.create("PinterestService", OTHER, "edited", service(2, "10m", project="feed"))
    for name, (spec, _) in TROUBLES.items():
        await world.create("PinterestService", OTHER, name, spec)
    await world.create("PinterestJobSet", OTHER, "jobs", {**jobset(40, 15, "1"), "project": "feed"})
    odd = {"clusters": {"names": ["no-such"]}, "workloads": {"matchLabels": {"odd": "yes"}}}
    await world.create("PlacementPolicy", OTHER, "odd", odd)
    await world.settle()
    larger = service(2, "6", project="feed")
    await world.patch(
        "PinterestService", OTHER, "edited", {"spec": {"template": larger["template"]}}
    )
    await world.settle()
    await grant(world, "other", OTHER, *RULES)


async def objects_of(world: World, client: Any, namespace: str) -> list[dict[str, Any]]:
    """Everything in a namespace of one server, Secrets too."""
    found: list[dict[str, Any]] = []
    served = {resource.kind for resource in await client.discover()}
    ours = [row for row in registry.KINDS.values() if row.namespaced and row.kind in served]
    for api_version, plural in (
        *((row.api_version, row.plural) for row in ours),
        ("events.k8s.io/v1", "events"),
        ("apps/v1", "controllerrevisions"),
        ("v1", "pods"),
        ("v1", "secrets"),
        ("v1", "configmaps"),
    ):
        found += (await client.list(api_version, plural, namespace)).items
    return found


async def answers(world: World, metrics: Metrics) -> dict[str, str]:
    """What the query port says to the other tenant, about its own and about the first tenant's, as
    it is sent.
    """
    port, found = port_of(world, metrics=metrics), {}
    for name in (*TROUBLES, "edited", "absent"):
        for question in ("explain", "pods", "logs"):
            path = f"/v1/namespaces/{OTHER}/pinterestservices/{name}/{question}"
            found[path] = (await port.answer(request(path, user="other"))).body.decode()
    for question in ("explain", "pods"):
        path = f"/v1/namespaces/{OTHER}/pinterestjobsets/jobs/{question}"
        found[path] = (await port.answer(request(path, user="other"))).body.decode()
    for name in ("app", "none"):
        # The words of the path are his own: only others may not come back.
        path = f"/v1/namespaces/{FIRST}/pinterestservices/{WORD}-{name}/explain"
        refused = await port.answer(request(path, user="other"))
        assert refused.status == 403
        found[path] = refused.body.decode().replace(FIRST, "").replace(f"{WORD}-{name}", "")
    for user in ("", "stranger"):
        nobody = await port.answer(
            request(f"/v1/namespaces/{FIRST}/pinterestservices/{WORD}-app/explain", user=user)
        )
        found[f"of {user!r}"] = nobody.body.decode()
    return found


def figures(world: World) -> set[str]:
    """What the first tenant's copies ask for and hold, and for each workload of the other what
    others hold of the account, and leave of it, as any sentence might write it.
    """
    commitments = world.federation.hub.state.commitments
    total, hers = (
        commitments.usage("feed", Tier.ON_DEMAND)["cpu"],
        COPIES * int(CPU.removesuffix("m")),
    )
    mine = [one.usage["cpu"] for one in commitments if one.namespace == OTHER]
    amounts = {hers, total, *(total - own for own in (0, *mine))}
    amounts |= {LIMIT - amount for amount in amounts}
    found = {quantity.render_amount("cpu", amount) for amount in amounts} | {
        f"{amount}m" for amount in amounts
    }
    assert all(len(text) >= 4 for text in found), found  # else they would be found in anything
    return {CPU, *found}


def told(texts: dict[str, str], words: Iterable[str]) -> list[str]:
    return [
        f"{word} in {where}: {text[:2000]}"
        for where, text in texts.items()
        for word in words
        if word in text
    ]


def test_nothing_of_one_tenant_is_in_what_another_can_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario(world: World) -> None:
        metrics = Metrics()
        await first_tenant(world)
        await other_tenant(world)
        for name, (
            _,
            reason,
        ) in TROUBLES.items():  # every trouble is there, or the scan would prove nothing
            placed = await world.condition("PinterestService", OTHER, name, "Placed")
            assert (name, placed["reason"] if reason else "") == (name, reason)
        held = await world.condition("PinterestService", OTHER, "edited", "Placed")
        assert (held["reason"], "stays in force" in held["message"]) == ("QuotaExceeded", True)
        texts = await answers(world, metrics)
        assert sum('"verdict"' in text for text in texts.values()) > 5
        for where, client in [
            ("host", world.host),
            *((name, world.member(name)) for name in world.federation.members),
        ]:
            for obj in await objects_of(world, client, OTHER):
                texts[f"{where} {obj.get('kind')} {obj['metadata']['name']}"] = json.dumps(obj)
        assert len(texts) > 60
        assert told(texts, (WORD, SECRET, *figures(world))) == []
        # What only operators and programs read: no secret of anybody.
        key = await world.host.get(
            ObjectRef("v1", "secrets", "federator-system", "federator-decisions", "Secret")
        )
        secrets = (SECRET, token("other"), *key["data"].values())
        rest = {"metrics": metrics.render().decode(), "logs": caplog.text}
        for obj in await objects_of(world, world.host, "") + (
            await all_of(world, "MemberCluster", "FederatedQuota")
        ):
            if obj.get("kind") not in ("Secret", "PinterestService", "ControllerRevision"):
                rest[f"{obj.get('kind')} {obj['metadata']['name']}"] = json.dumps(obj)
        assert WORD in rest["logs"]  # it was logged about, at a level that shows all
        assert told(rest, secrets) == []

    play(scenario)


async def all_of(world: World, *names: str) -> list[dict[str, Any]]:
    rows = [registry.KINDS[name] for name in names]
    return [
        obj for row in rows for obj in (await world.host.list(row.api_version, row.plural)).items
    ]
