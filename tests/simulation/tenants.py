"""What a hostile tenant does on the host: with his own rights there, and never as an
administrator.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.model import seq as seqs
from federator.model.steps import ObjectRef
from tests.faults.episodes.guests import drop, until
from tests.simulation import tenantwork
from tests.simulation.acts import TENANT, Act, Actor, service, standing, tainted, tenant, tried
from tests.simulation.invariants import FORGED, all_of

if TYPE_CHECKING:
    from tests.simulation.world import World

ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202e\u2066\x00"[:-1]
"""Clears a terminal, names its window, and turns what follows around."""
BURIED_S = 60.0
"""So long the operator waits for hubs to have removed what the forger's service had."""
OWNED = (TENANT, "owned")
"""The service whose decision is taken away."""
SOME_KINDS = 3
"""So many kinds of workloads one act writes."""
EDIT_S = (1.0, 5.0)
"""From one edit to the next."""


@contextlib.asynccontextmanager
async def escapes_in_words(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """He writes escape sequences wherever a text of his may go: annotations, images, policies that
    are named.
    """
    async with tenant(world) as client:
        ref, body = service(
            "loud", rng.randint(1, 3), placement={"policyRef": {"name": f"none{ESCAPES}"}}
        )
        if await tried(world, "escapes-in-words", client.create(ref, body)) is None:
            ref, body = service("loud", rng.randint(1, 3))
            await tried(world, "escapes-in-words", client.create(ref, body))
        for patch in (
            {"metadata": {"annotations": {"example.com/note": ESCAPES}}},
            {"metadata": {"labels": {"loud": ESCAPES}}},
            {
                "spec": {
                    "template": {
                        "spec": {"containers": [{"name": "app", "image": f"app:1{ESCAPES}"}]}
                    }
                }
            },
            {"spec": {"project": f"feed{ESCAPES}"}},
        ):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            await tried(world, "escapes-in-words", client.patch(ref, patch))
        yield


@contextlib.asynccontextmanager
async def charge_edited(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """He changes whatever workloads of some kinds are charged by, while they run, to and fro: the
    project (to others' projects, and to some that nobody knows), tier, priority, count, requests,
    profile and sidecars.
    """
    async with contextlib.AsyncExitStack() as stack:
        for name, cpu in tenantwork.PROFILES.items():
            spec = tenantwork.profile(cpu)
            await stack.enter_async_context(standing(world, "RuntimeProfile", name, spec))
        client = await stack.enter_async_context(tenant(world))
        works = await _works(world, client, rng, "charge-edited", "dodger")
        for _ in range(rng.randint(4, 8)):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            kind = rng.choice(sorted(works))
            drawn = tenantwork.EDITS[rng.choice(tenantwork.CHARGED)](kind, rng)
            edit = client.patch(works[kind], tenantwork.patch(kind, drawn))
            await tried(world, "charge-edited", edit)
        yield


async def _works(
    world: "World", client: Client, rng: random.Random, act: str, name: str
) -> dict[str, ObjectRef]:
    """Makes workloads of some kinds. Returns them by kind."""
    works = {}
    for kind in rng.sample(tenantwork.KINDS, SOME_KINDS):
        short = registry.KINDS[kind].short_names[0]
        works[kind], body = tenantwork.made(kind, f"{name}-{short}", rng.randint(1, 5))
        await tried(world, act, client.create(works[kind], body))
    return works


@contextlib.asynccontextmanager
async def decision_forged(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """He writes the decision of a service of his: all copies in one cluster, or none, charged to
    nobody, now and then with the highest seq there is. Where a hub dies in the instant in which it
    has removed such a decision, and the service is deleted then, nobody can prove any more that its
    slices may go: they are told (UnknownSlices), and an operator removes them.
    """
    kind = registry.KINDS["PlacementDecision"]
    async with tenant(world) as client:
        ref, body = service(FORGED[1], rng.randint(2, 5))
        await tried(world, "decision-forged", client.create(ref, body))
        for _ in range(rng.randint(2, 5)):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            for found in (await client.list(kind.api_version, kind.plural, namespace=TENANT)).items:
                if found["spec"]["workload"]["name"] != FORGED[1]:
                    continue  # of another act
                many = rng.choice((0, 1, 400))
                share = {
                    "cluster": rng.choice(list(world.members)),
                    "seq": found["spec"]["seq"] + 1,
                    "replicas": many,
                }
                spec = {
                    "shares": [share],
                    "placed": many,
                    "wanted": many,
                    "charge": None,
                    "shortfall": 0,
                }
                spec |= rng.choice(({}, {"seq": seqs.MAX}))
                forged = kind.ref(TENANT, found["metadata"]["name"])
                await tried(world, "decision-forged", client.patch(forged, {"spec": spec}))
        yield
    await until(lambda: not _decided(world), BURIED_S)
    if not _decided(world):
        for cluster in world.members:
            await drop(world, cluster, ref)


def _decided(world: "World") -> bool:
    """Whether a decision of the forger's service stands."""
    found = all_of(world.clusters["host"], "PlacementDecision")
    return any(
        (obj["metadata"]["namespace"], obj["spec"]["workload"]["name"]) == FORGED for obj in found
    )


ROOT = (
    {"hostPID": True},
    {"hostNetwork": True},
    {"nodeName": "node-0"},
    {"priorityClassName": "system-node-critical"},
    {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    {"containers": [{"name": "app", "image": "app:1", "securityContext": {"privileged": True}}]},
)
"""Each would make its pods more than a tenant's."""
HARMLESS = dict.fromkeys(("hostPID", "hostNetwork", "nodeName", "priorityClassName", "volumes"))


@contextlib.asynccontextmanager
async def hostile_templates(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """He makes a workload that would be root on its nodes, and edits some that run to be that, to
    and fro.
    """
    async with tenant(world) as client:
        kind = rng.choice(tenantwork.KINDS)
        ref, body = tenantwork.made(kind, "rooted", rng.randint(1, 3), **rng.choice(ROOT))
        await tried(world, "hostile-templates", client.create(ref, body))
        works = await _works(world, client, rng, "hostile-templates", "honest")
        for _ in range(rng.randint(3, 6)):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            kind = rng.choice(sorted(works))
            pods = {**HARMLESS, **tenantwork.pods(kind), **rng.choice((*ROOT, {}))}
            edit = {"template": {"spec": pods}, **tenantwork.counted(kind, rng.randint(1, 5))}
            patch = tenantwork.patch(kind, edit)
            await tried(world, "hostile-templates", client.patch(works[kind], patch))
        yield


EVERYTHING = [{"operator": "Exists"}]
"""Tolerations of every taint."""


@contextlib.asynccontextmanager
async def policy_dodged(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """An operator keeps his copies away from one cluster by a Required policy, and from another by
    a taint that this policy does not tolerate. He names the first, in a policy of his own and in
    the service; he tolerates everything.
    """
    kept = rng.choice(sorted(world.members))
    clusters = rng.choice(({"exclude": [kept]}, {"names": sorted({*world.members} - {kept})}))
    spec = {"enforcement": "Required", "workloads": {"namespaces": [TENANT]}, "clusters": clusters}
    if not clusters.get("names", [kept]):
        spec["clusters"] = {"exclude": [kept]}
    private = rng.choice([one for one in sorted(world.members) if one != kept] or [kept])
    policy = registry.KINDS["PlacementPolicy"]
    free = {"clusters": {"names": [kept]}, "tolerations": EVERYTHING}
    ways = (
        {"policyRef": "free", "clusters": None, "tolerations": None},
        {"policyRef": None, "clusters": {"names": [kept]}, "tolerations": EVERYTHING},
        {"policyRef": None, "clusters": None, "tolerations": EVERYTHING},
    )
    confined = standing(world, "ClusterPlacementPolicy", "confines", spec)
    async with confined, tainted(world, private), tenant(world) as client:
        body = {
            "apiVersion": policy.api_version,
            "kind": policy.kind,
            "metadata": {"name": "free"},
            "spec": free,
        }
        await tried(world, "policy-dodged", client.create(policy.ref(TENANT, "free"), body))
        ref, body = service("loose", rng.randint(2, 6))
        await tried(world, "policy-dodged", client.create(ref, body))
        for _ in range(rng.randint(3, 6)):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            edit = {"placement": rng.choice(ways), "replicas": rng.randint(1, 6)}
            await tried(world, "policy-dodged", client.patch(ref, {"spec": edit}))
        yield


@contextlib.asynccontextmanager
async def quota_dodged(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """He has an account of one cpu. He edits workloads that run within it to ask for more, to and
    fro, and makes one that asks for nothing and has many pods.
    """
    tiers = {"OnDemand": {"max": {"cpu": "1", "memory": "4Gi"}}}
    account = {
        "projects": [TENANT],
        "namespaces": [TENANT],
        "tiers": tiers,
        "unknownProjects": "Allow",
    }
    async with standing(world, "FederatedQuota", TENANT, account), tenant(world) as client:
        works = await _works(world, client, rng, "quota-dodged", "greedy")
        idle = rng.choice(tenantwork.KINDS)
        free, body = tenantwork.made(idle, "free", rng.randint(1, 14), requests=None)
        await tried(world, "quota-dodged", client.create(free, body))
        for _ in range(rng.randint(3, 6)):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            kind = rng.choice(sorted(works))
            edit = {
                **tenantwork.EDITS["requests"](kind, rng),
                **tenantwork.counted(kind, rng.randint(1, 8)),
            }
            patch = tenantwork.patch(kind, edit)
            await tried(world, "quota-dodged", client.patch(works[kind], patch))
            more = tenantwork.patch(idle, tenantwork.counted(idle, rng.randint(1, 14)))
            await tried(world, "quota-dodged", client.patch(free, more))
        yield


@contextlib.asynccontextmanager
async def decision_owned(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """He makes a ConfigMap of his the owner of the decision of a service that runs, and deletes the
    ConfigMap: the garbage collector deletes the decision with it, and the service begins anew.
    Admission, which these worlds have not, refuses the first; without it nobody else's may suffer,
    and nothing may be left behind.
    """
    kind = registry.KINDS["PlacementDecision"]
    async with tenant(world) as client:
        ref, body = service(OWNED[1], rng.randint(2, 5))
        await tried(world, "decision-owned", client.create(ref, body))
        for number in range(rng.randint(2, 4)):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            owner = ObjectRef("v1", "configmaps", TENANT, f"owner-{number}", "ConfigMap")
            meta = {"name": owner.name, "namespace": TENANT}
            made = await client.create(
                owner, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
            )
            uid = made["metadata"]["uid"]
            named = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "uid": uid}
            for found in (await client.list(kind.api_version, kind.plural, namespace=TENANT)).items:
                if found["spec"]["workload"]["name"] != ref.name:
                    continue  # of another act
                owned = {"metadata": {"ownerReferences": [named]}}
                await tried(
                    world,
                    "decision-owned",
                    client.patch(kind.ref(TENANT, found["metadata"]["name"]), owned),
                )
            await asyncio.sleep(rng.uniform(*EDIT_S))
            with contextlib.suppress(errors.NotFound):
                await client.delete(owner, uid=uid)
        yield


ROWS = (
    Act(
        "hostile-templates",
        Actor.TENANT,
        "27",
        "pods that would be root on their nodes, in workloads that are new and that run",
        "his workloads are deleted",
        hostile_templates,
    ),
    Act(
        "policy-dodged",
        Actor.TENANT,
        "2",
        "placements, policies and tolerations of his own against a Required policy and a taint",
        "his service and the policies are deleted",
        policy_dodged,
    ),
    Act(
        "quota-dodged",
        Actor.TENANT,
        "6",
        "templates raised while they run, and copies without requests, under an account of one cpu",
        "his workloads and the account are deleted",
        quota_dodged,
    ),
    Act(
        "decision-owned",
        Actor.TENANT,
        "8",
        "an ownerReference to a ConfigMap of his on a decision, and the ConfigMap deleted",
        "his service is deleted",
        decision_owned,
    ),
    Act(
        "decision-forged",
        Actor.TENANT,
        "27",
        "his service's PlacementDecision written by himself: shares, charge, the highest seq",
        "his service is deleted",
        decision_forged,
    ),
    Act(
        "escapes-in-words",
        Actor.TENANT,
        "27",
        "escape sequences in annotations, labels, images, and names of projects and policies",
        "his service is deleted",
        escapes_in_words,
    ),
    Act(
        "charge-edited",
        Actor.TENANT,
        "6",
        "every charged field of running workloads of all kinds edited to and fro",
        "his workloads and the profiles are deleted",
        charge_edited,
    ),
)
