"""What the user of a simulated federation does: actions on the host, drawn from the seed before
anything runs.

The script does not look at the federation, so the same seed asks for the same end state whatever
faults befall it. It ends with every cluster open again, because what a cordoned one holds depends
on when it was cordoned.
"""

import asyncio
import contextlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.model.steps import ObjectRef
from tests.simulation import (
    backlog,
    contest,
    daemons,
    duplicates,
    gangs,
    halfdone,
    lives,
    machines,
    mistakes,
    nativeruns,
    oddities,
    ordinals,
    recurrences,
    rulings,
    upheld,
)
from tests.simulation.drawing import SOME_PER_MILLE, Parameters, generator

SERVICE, JOBSET, DEPLOYMENT = "PinterestService", "PinterestJobSet", "Deployment"
NAMES: tuple[tuple[str, str, str], ...] = (
    (SERVICE, "feed", "web"),
    (SERVICE, "feed", "api"),
    (SERVICE, "ads", "web"),
    (JOBSET, "feed", "index"),
    (DEPLOYMENT, "ads", "page"),
)
"""Few names, so that they are used again."""
NAMESPACES = ("ads", "feed")
"""Those with policies and accounts."""
PROFILE = "RuntimeProfile"
LEAST_CPU = "100m"
"""Of all that copies are edited to ask for."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user does after a pause. `body` is the new object, or a merge patch."""

    pause_s: float
    what: str
    kind: str
    namespace: str
    name: str
    body: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.what} {self.kind} {where} {dict(self.body) or ''}"


async def perform(action: Action, host: Client) -> None:
    """Does it. The user's own connection has no faults."""
    if action.namespace in (ordinals.NAMESPACE, halfdone.NAMESPACE, lives.NAMESPACE):
        with contextlib.suppress(errors.NotFound):  # a fault may have taken it
            await _done(action, host)
        return
    await _done(action, host)


async def _done(action: Action, host: Client) -> None:
    ref = registry.KINDS[action.kind].ref(action.namespace, action.name)
    if action.what in ("delete", "re-create"):
        live = await host.get(ref)
        await host.delete(ref, uid=live["metadata"]["uid"])
    if action.what in ("create", "re-create"):
        await host.create(ref, whole(action))
    elif action.what != "delete":
        while True:
            try:
                await host.patch(ref, action.body)
                return
            except errors.NotFound:
                if action.kind != "MemberCluster":
                    raise
            await asyncio.sleep(0.5)  # it has left for a while, and is joined again


def whole(action: Action) -> dict[str, Any]:
    """The object that a creating action makes."""
    meta = {"name": action.name} | ({"namespace": action.namespace} if action.namespace else {})
    return {
        "apiVersion": registry.KINDS[action.kind].api_version,
        "kind": action.kind,
        "metadata": meta,
        **action.body,
    }


async def open_namespaces(host: Client, *more: str) -> None:
    for name in (*NAMESPACES, ordinals.NAMESPACE, *more):
        ref = ObjectRef("v1", "namespaces", "", name, "Namespace")
        try:
            await host.create(
                ref, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        except errors.AlreadyExists:
            continue


def write(parameters: Parameters) -> list[Action]:
    """The script of a seed."""
    author = _Author(parameters)
    actions = [*author.begin(), *(author.next() for _ in range(parameters.steps))]
    return [*_among(actions, author.everywhere()), *author.end()]


def _among(actions: list[Action], others: list[Action]) -> Iterator[Action]:
    """Both, each in its order, the others evenly among the actions."""
    given = 0
    for number, action in enumerate(actions, 1):
        yield action
        due = len(others) * number // len(actions)
        yield from others[given:due]
        given = due


def _some(parameters: Parameters, what: str) -> bool:
    """Whether this is one of the seeds with this in their scripts: the others are what they would
    be without.
    """
    return generator(parameters.seed, what).randrange(1000) < SOME_PER_MILLE


class _Author:
    """Keeps in mind what exists, so that every action is possible."""

    def __init__(self, parameters: Parameters) -> None:
        self.rng: random.Random = generator(parameters.seed, "script")
        self.pause_s = parameters.pause_s
        self.quota_cpu = parameters.quota_cpu
        self.tree = _some(parameters, "quota trees")
        self.clusters = "abcdefghij"[: parameters.members]
        self.alive: set[tuple[str, str, str]] = set()
        self.policies: set[str] = set()
        self.cordoned: set[str] = set()
        self.image = 1
        self.profiled = False
        self.odd = oddities.Oddities(generator(parameters.seed, "oddities"))
        self.rulings = rulings.Rulings(generator(parameters.seed, "rulings"), self.clusters)
        self.choosy = machines.Choosy(parameters)
        self.backlog = backlog.Backlog(parameters, self.clusters)
        self.duplicates = duplicates.Duplicates(parameters)
        self.contest = contest.Contest(parameters)
        self.upheld = upheld.Drawn(parameters.seed)
        refused = generator(parameters.seed, "unknown projects").randrange(1000) < SOME_PER_MILLE
        self.by_clusters = True
        """Whether clusters decide the runs of the cron job that goes to and fro."""
        self.strangers: dict[str, Any] = {} if refused else {"unknownProjects": "Allow"}
        """What accounts say of workloads whose project no account names."""
        self.cron = recurrences.policy(generator(parameters.seed, "cron"))
        self.native = nativeruns.some(generator(parameters.seed, "native cron"))
        self.gang = gangs.workers(generator(parameters.seed, "gang"))
        self.numbered = ordinals.Numbered(generator(parameters.seed, "ordinals"))
        self.lives = lives.Lives(parameters.seed)
        self.daemons = daemons.Daemons(parameters.seed, self.clusters)
        self.mistakes = mistakes.Mistakes(generator(parameters.seed, "mistakes"), self.clusters)
        self.choices = [
            self.create,
            self.scale,
            self.scale,
            self.roll,
            self.policy,
            self.relabel,
            self.cordon,
        ]
        self.choices += [self.delete, self.recreate, self.suspend]
        self.choices += [self.policy, self.policy] if self.rulings.any else []
        self.choices += [self.hand_over] * 6 if self.native else []
        self.choices += [self.mistake, self.mistake, self.mistake] if self.mistakes.any else []
        self.choices += (
            [self.jobs, self.slots, self.slots, self.suspend_jobs]
            if _some(parameters, "jobs")
            else []
        )
        self.choices += [self.profile, self.profile] if _some(parameters, "profiles") else []
        self.choices += [self.resize, self.resize] if _some(parameters, "sizes") else []

    def hand_over(self) -> Action:
        """The hub decides the runs of the cron job, or its clusters do; after a time in which it was
        due.
        """
        self.by_clusters = not self.by_clusters
        body = {"spec": {"runs": "Native" if self.by_clusters else "Hub"}}
        return Action(self.rng.uniform(30.0, 90.0), "patch", *_SWEEP, body)

    def begin(self) -> Iterator[Action]:
        if self.quota_cpu:
            limits = {"cpu": str(self.quota_cpu), "memory": "64Gi"}
            spec = {
                "projects": ["feed"],
                "namespaces": ["feed"],
                "tiers": {"OnDemand": {"max": limits}},
            }
            if self.tree:
                yield from self._company()
                promised = {"cpu": str(self.quota_cpu // 2)}
                below = {"guaranteed": promised, "lendingLimit": {"cpu": "1"}}
                spec |= {"parent": "company", "tiers": {"OnDemand": below}}
            more = {} if self.tree else self.strangers
            yield Action(0.0, "create", "FederatedQuota", "", "feed", {"spec": {**spec, **more}})
        yield from (Action(*move) for move in self.upheld.begin())
        yield self._made(self.rng.choice(NAMES))
        for name, body in self.contest.accounts():
            yield Action(0.0, "create", "FederatedQuota", "", name, body)
        for move in self.contest.begin():
            yield _contested(0.0, move)
        if self.cron:
            yield Action(0.0, "create", *_CRON, recurrences.made(_run(), self.cron))
        if self.native:
            body = nativeruns.made(_run(), self.clusters[:2])
            yield Action(0.0, "create", *_SWEEP, body)
        if self.gang:
            yield Action(0.0, "create", *_GANG, gangs.made(self.gang))
        yield from (Action(*one) for one in (*self.lives.begin(), *self.daemons.begin()))
        for kind, name, body in self.numbered.begin(container("kv:1")):
            yield Action(0.0, "create", kind, ordinals.NAMESPACE, name, body)
        if self.backlog.any:
            account = self.backlog.account()["spec"]
            yield Action(
                0.0,
                "create",
                "FederatedQuota",
                "",
                backlog.PROJECT,
                {"spec": {**account, **self.strangers}},
            )
            for name in backlog.NAMES:
                yield Action(0.1, "create", JOBSET, backlog.NAMESPACE, name, self.backlog.made())
            yield from self._moves(backlog.EARLY)

    def _company(self) -> Iterator[Action]:
        """What project feed borrows from: an account above it, and one beside it that lends a part
        of its guarantee.
        """
        tiers = {"OnDemand": {"max": {"cpu": str(self.quota_cpu), "memory": "64Gi"}}}
        yield Action(
            0.0,
            "create",
            "FederatedQuota",
            "",
            "company",
            {"spec": {"tiers": tiers, **self.strangers}},
        )
        below = {"guaranteed": {"cpu": "2"}, "lendingLimit": {"cpu": "1"}}
        spec = {"projects": ["ads"], "parent": "company", "tiers": {"OnDemand": below}}
        yield Action(0.0, "create", "FederatedQuota", "", "ads", {"spec": spec})

    def everywhere(self) -> list[Action]:
        scales = [
            Action(self.pause_s, "patch", ordinals.STATEFUL, ordinals.NAMESPACE, "kv", body)
            for body in self.numbered.moves()
        ]
        others = (*self.duplicates.begin(), *self.duplicates.moves(), *self.lives.moves())
        others = (*others, *self.daemons.moves(), *self.upheld.moves())
        contested = [_contested(self.pause_s, move) for move in self.contest.moves()]
        return [*(Action(*move) for move in others), *scales, *contested]

    def next(self) -> Action:
        while True:
            action = self.rng.choice(self.choices)()
            if action is not None:
                return action

    def end(self) -> Iterator[Action]:
        yield from self._moves(backlog.LATE)
        if self.cron:
            yield Action(0.0, "delete", *_CRON)
        if self.native:
            yield Action(0.0, "delete", *_SWEEP)
        if self.gang:
            yield Action(0.0, "delete", *_GANG)
        for move in self.contest.end():
            yield _contested(0.0, move)
        if self.numbered.any:
            yield Action(0.0, "delete", ordinals.STATEFUL, ordinals.NAMESPACE, "kv")
            yield Action(0.0, "delete", ordinals.DAEMON, ordinals.NAMESPACE, "agent")
        yield from (Action(*one) for one in (*self.lives.end(), *self.daemons.end()))
        for cluster in sorted(self.cordoned):
            yield Action(0.0, "patch", "MemberCluster", "", cluster, {"spec": {"cordoned": False}})
        for cluster in sorted(self.rulings.tainted):
            yield Action(0.0, "patch", "MemberCluster", "", cluster, {"spec": {"taints": None}})
        for namespace in sorted(self.policies) if self.mistakes.any else ():
            yield Action(
                0.0, "patch", "PlacementPolicy", namespace, "where", {"spec": self.mistakes.cure()}
            )
        for kind, namespace, name in sorted(self.alive):
            if kind != DEPLOYMENT:
                yield Action(0.0, "patch", kind, namespace, name, {"spec": {"suspend": False}})
        for found in sorted(self.alive) if self.choosy.any else ():
            if found[0] == SERVICE:
                yield Action(0.0, "patch", *found, machines.ANYWHERE)
        for found, cure in self.odd.cures(self.alive):
            yield Action(0.0, "patch", *found, cure)

    def _moves(self, count: int) -> Iterator[Action]:
        for pause_s, name, body in self.backlog.moves(count):
            yield Action(pause_s, "patch", JOBSET, backlog.NAMESPACE, name, body)

    def _pause(self) -> float:
        return round(self.rng.uniform(0, self.pause_s), 3)

    def _one(self, *wanted: str) -> tuple[str, str, str] | None:
        found = sorted(name for name in self.alive if name[0] in wanted)
        return self.rng.choice(found) if found else None

    def create(self) -> Action | None:
        free = [name for name in NAMES if name not in self.alive]
        return self._made(self.rng.choice(free)) if free else None

    def _made(self, found: tuple[str, str, str]) -> Action:
        self.alive.add(found)
        return Action(self._pause(), "create", *found, self.odd.made(found, self._body(found[0])))

    def recreate(self) -> Action | None:
        found = self._one(SERVICE, JOBSET, DEPLOYMENT)
        return found and Action(
            self._pause(), "re-create", *found, self.odd.made(found, self._body(found[0]))
        )

    def delete(self) -> Action | None:
        found = self._one(SERVICE, JOBSET, DEPLOYMENT)
        if found is None:
            return None
        self.alive.discard(found)
        return Action(self._pause(), "delete", *found)

    def scale(self) -> Action | None:
        found = self._one(SERVICE, DEPLOYMENT)
        return found and Action(
            self._pause(), "patch", *found, {"spec": {"replicas": self.rng.randint(0, 12)}}
        )

    def roll(self) -> Action | None:
        found = self._one(SERVICE, DEPLOYMENT)
        if found is None:
            return None
        self.image += 1
        made = container(f"app:{self.image}")
        changes = self.choosy.rolled() if found[0] == SERVICE else {}
        spec = {"template": {"spec": {"containers": [made], **changes}}}
        return Action(self._pause(), "patch", *found, {"spec": spec})

    def resize(self) -> Action | None:
        """Copies that ask for more or for less, whose roll-out takes a while."""
        found = self._one(SERVICE, DEPLOYMENT)
        if found is None:
            return None
        self.image += 1
        made = container(f"app:{self.image}", self.rng.choice((LEAST_CPU, "500m", "900m")))
        self.odd.resized(found, container(f"app:{self.image}", LEAST_CPU))
        notes = {"embedded.federator/ready-delay-seconds": str(self.rng.choice((0, 10, 20)))}
        template = {"metadata": {"annotations": notes}, "spec": {"containers": [made]}}
        return Action(self._pause(), "patch", *found, {"spec": {"template": template}})

    def suspend(self, kind: str = SERVICE) -> Action | None:
        found = self._one(kind)
        return found and Action(
            self._pause(), "patch", *found, {"spec": {"suspend": self.rng.random() < 0.5}}
        )

    def jobs(self) -> Action | None:
        free = [name for name in NAMES if name[0] == JOBSET and name not in self.alive]
        return self._made(self.rng.choice(free)) if free else None

    def slots(self) -> Action | None:
        found = self._one(JOBSET)
        return found and Action(
            self._pause(), "patch", *found, {"spec": {"parallelism": self.rng.randint(1, 10)}}
        )

    def suspend_jobs(self) -> Action | None:
        return self.suspend(JOBSET)

    def profile(self) -> Action:
        """The profile of all pods whose workload names none, made, changed or removed."""
        self.image += 1
        requests = {"cpu": self.rng.choice(("100m", "200m"))}
        sidecar = {
            "name": "logs",
            "container": {"image": f"logs:{self.image}", "resources": {"requests": requests}},
        }
        what = "create" if not self.profiled else "delete" if self.rng.random() < 0.3 else "patch"
        self.profiled = what != "delete"
        body = {"spec": {"sidecars": [sidecar]}} if self.profiled else {}
        return Action(self._pause(), what, PROFILE, "", "default", body)

    def policy(self) -> Action:
        """One policy for each namespace, made, changed or removed."""
        namespace = self.rng.choice(NAMESPACES)
        spec: dict[str, Any] = {
            "clusters": self.rng.choice(
                (
                    {"exclude": [self.clusters[0]]},
                    {"names": list(self.clusters[:2])},
                    {"exclude": [self.clusters[-1]]},
                )
            ),
            "rollout": {"maxClustersAtOnce": self.rng.randint(1, 3)},
            **self.rulings.policy(),
        }
        if namespace not in self.policies:
            self.policies.add(namespace)
            made = {"spec": rulings.without_nulls(spec)}
            return Action(self._pause(), "create", "PlacementPolicy", namespace, "where", made)
        if self.rng.random() < 0.3:
            self.policies.discard(namespace)
            return Action(self._pause(), "delete", "PlacementPolicy", namespace, "where")
        nulls = {"exclude": None, "names": None, **spec["clusters"]}
        return Action(
            self._pause(),
            "patch",
            "PlacementPolicy",
            namespace,
            "where",
            {"spec": {**spec, "clusters": nulls}},
        )

    def mistake(self) -> Action | None:
        """An edit of a policy that admits fewer clusters than hold copies, or none."""
        if not self.policies:
            return None
        namespace = self.rng.choice(sorted(self.policies))
        return Action(
            self._pause(),
            "patch",
            "PlacementPolicy",
            namespace,
            "where",
            {"spec": self.mistakes.policy()},
        )

    def relabel(self) -> Action:
        cluster, zone = self.rng.choice(self.clusters), self.rng.choice(("z-1", "z-2"))
        return Action(
            self._pause(),
            "patch",
            "MemberCluster",
            "",
            cluster,
            {"metadata": {"labels": {"zone": zone}}},
        )

    def cordon(self) -> Action:
        if taint := self.rulings.taint():
            return Action(self._pause(), "patch", "MemberCluster", "", *taint)
        cluster = self.rng.choice(self.clusters)
        self.cordoned ^= {cluster}
        return Action(
            self._pause(),
            "patch",
            "MemberCluster",
            "",
            cluster,
            {"spec": {"cordoned": cluster in self.cordoned}},
        )

    def _body(self, kind: str) -> dict[str, Any]:
        self.image += 1
        made = container(f"app:{self.image}")
        if kind == JOBSET:
            return {"spec": self._jobset(made)}
        template: dict[str, Any] = {"spec": {"containers": [made]}}
        spec: dict[str, Any] = {"replicas": self.rng.randint(1, 8), "template": template}
        if kind == DEPLOYMENT:
            labels = {"app": "page"}
            template["metadata"] = {"labels": labels}
            return {"spec": {**spec, "selector": {"matchLabels": labels}}}
        self.choosy.made(template)
        if self.rng.random() < 0.5:
            spec["service"] = {"ports": [{"port": 80}]}
        if self.rng.random() < 0.3:
            zones = [{"key": "zone", "operator": "In", "values": ["z-1"]}]
            spec["placement"] = {"clusters": {"selector": {"matchExpressions": zones}}}
        if ruled := self.rulings.inline():
            spec["placement"] = {**spec.get("placement", {}), **ruled}
        return {"spec": spec}

    def _jobset(self, made: dict[str, Any]) -> dict[str, Any]:
        shards = self.rng.randint(2, 10)
        slots = self.rng.randint(1, shards)
        template = {
            "metadata": {
                "annotations": {"embedded.federator/run-seconds": str(self.rng.randint(1, 5))}
            },
            "spec": {"restartPolicy": "Never", "containers": [made]},
        }
        self.choosy.made(template)
        return {"shards": shards, "parallelism": slots, "template": template}


_GANG = (gangs.KIND, gangs.NAMESPACE, gangs.NAME)
_SWEEP = (recurrences.CRON, recurrences.NAMESPACE, nativeruns.NAME)
_CRON = (recurrences.CRON, recurrences.NAMESPACE, recurrences.NAME)


def _contested(pause_s: float, move: contest.Move) -> Action:
    what, kind, name, body = move
    return Action(pause_s, what, kind, halfdone.NAMESPACE, name, body)


def _run() -> dict[str, Any]:
    """What each run of the cron job does."""
    template = {
        "metadata": {"annotations": {"embedded.federator/run-seconds": "5"}},
        "spec": {"restartPolicy": "Never", "containers": [container("tick:1")]},
    }
    return {"shards": 1, "template": template}


def container(image: str, cpu: str = "500m") -> dict[str, Any]:
    return {
        "name": "app",
        "image": image,
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
