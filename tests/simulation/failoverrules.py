"""What is judged while clusters fall silent and come back with failover on: by decisions, slices,
Deployments and by what was really cut off. The rules know nothing of `federator.scheduling`.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import raw
from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.kube import errors
from federator.model import seq as seqs
from federator.model.steps import ObjectRef
from tests.faults.links import Cut
from tests.faults.rows import Box
from tests.simulation.campaigns import Broken
from tests.simulation.invariants import Obj, all_of
from tests.unit.hub.world import World

PSVC: Final = "PinterestService"
LOOK_S: Final = 2.0
GRACE_S: Final = 40.0
PROBE_S: Final = 11.0
"""A probe, with its jitter: what a hub knows of the truth is that old."""
SURE_S: Final = 125.0
"""After this no news that a watch brought before contradicts that a member is gone."""
LATE_S: Final = 20.0
"""A decision that was right when it was made is seen so much later at most."""
EARLY, BRAKE, ANEW = "15 nobody moves early", "15 the brake holds", "15 clocks begin anew"
ONCE, HOME = "15 one move a cooldown", "15 home is steady"
NOWHERE, KEPT, READY = (
    "2 nobody leaves for nowhere",
    "16 what is decided stays",
    "15 make before break",
)
COUNTED, STILL, TWIN = "28 risk is counted", "16 nothing changes", "1 a double gets nothing"
SETTLES: Final = "10 settles"
SETTLES_S: Final = 300.0
"""Slow pods become ready and moves end within this."""
Holdings = Mapping[tuple[str, str, str], tuple[str, int, int]]
"""(member, kind, name) of slices and Deployments -> uid, generation, copies asked for."""
Given = Mapping[str, Mapping[str, int]]
"""Workload -> copies by cluster, as a decision says."""
READ, WANTED = ("status", "ready"), ("spec", "replicas")
RISK: Final = "federator_duplicate_risk_total"
FIRED: Final = (
    "F22 blip",
    "F23 down for long",
    "F24 flapping",
    "F25 most gone",
    "F26 all gone",
    "F27 restart in the dark",
    "F28 shards cut off",
    "F29 one-way partition",
    "F30 delayed writes",
    "F31 host cut off",
    "F32 no hub and no host",
    "F33 slow member",
    "F34 wrong body",
    "F35 made anew",
    "F36 joined twice",
    "F37 back at once",
    "F38 target fills up",
    "leader killed",
    "leader without host",
    "lease deleted",
    "half a failover",
    "half a failback",
    "half a drain",
)
"""What a whole campaign must have fired."""


def strayed(before: Holdings, now: Holdings, given: Given) -> list[str]:
    """What has changed in members otherwise than was decided. Copies that a decision takes away go
    when those that replace them are ready, however long that takes: that they go while hub and host
    do not reach each other is no answer to the loss.
    """
    found = list[str]()
    for held, was in before.items():
        member, kind, name = held
        there = now.get(held)
        share = given[name].get(member, 0) if name in given else was[2]
        uid, _, copies = there or (was[0], 0, 0)
        leaves = uid == was[0] and share <= copies < was[2]
        if there != was and not leaves:
            found.append(f"{member} {kind} {name}")
    return sorted(found)


@dataclass(frozen=True)
class Policy:
    """What one workload says; in seconds."""

    after_s: int
    cooldown_s: int
    back_s: int

    def fields(self) -> dict[str, Any]:
        return {
            "afterSeconds": self.after_s,
            "cooldownSeconds": self.cooldown_s,
            "failbackAfterSeconds": self.back_s,
        }


@dataclass
class Moved:
    """A move that was seen."""

    at_s: float
    cluster: str
    back: bool
    lost: frozenset[tuple[str, float]]
    """Silences that went on then."""


@dataclass
class Run:
    """One world, and what was seen in it."""

    seed: int
    world: World
    policies: dict[str, Policy]
    members: list[str]
    cut_s: dict[str, float] = field(default_factory=dict)
    """Since when a member is cut off."""
    quiet_s: dict[str, float] = field(default_factory=dict)
    """The same, where a while between that no probe may have noticed does not count."""
    well_s: dict[str, float] = field(default_factory=dict)
    """Since when one that is not is well."""
    before_s: dict[str, float] = field(default_factory=dict)
    """The same, before it fell silent last; 0 when it never had been."""
    all_gone: bool = False
    anew_s: float = float("-inf")
    """When the first was heard after all had been gone for longer than the grace."""
    born_s: float = 0.0
    """When the present hub began; of hubs that stand for election the last one."""
    terms_s: dict[int, float] = field(default_factory=dict)
    """When each term began; empty without election. Of who is silent a leader knows nothing before.
    """
    causes: dict[str, tuple[int, dict[str, int]]] = field(default_factory=dict)
    """Workload -> seq and shares of its decision as last seen."""
    moves: dict[str, list[Moved]] = field(default_factory=dict)
    slices: dict[tuple[str, str], str] = field(default_factory=dict)
    """(member, workload) -> uid of its slice."""
    ready: dict[tuple[str, str], int] = field(default_factory=dict)
    """(member, workload) -> copies that were ready at the last look."""
    seen: Counter[str] = field(default_factory=Counter)
    hearsay: dict[str, contextlib.ExitStack] = field(default_factory=dict)
    """Members whose requests are not answered well, while what is open there may go on."""
    strange: dict[str, EmbeddedCluster] = field(default_factory=dict)
    """Members at whose address another cluster answers -> the one that has joined."""
    at_risk: int = 0
    """Copies that were seen to leave silent members."""
    alone: set[tuple[str, float]] = field(default_factory=set)
    """Silences in which a member had shards."""
    crowd: frozenset[str] = frozenset()
    """Members that were gone together at the last look, where these were most."""
    drained_s: dict[str, float] = field(default_factory=dict)
    """Until when a member is, or was, drained."""
    double: str = ""
    """A second name of a member; "" for none."""

    @property
    def now_s(self) -> float:
        return self.world.federation.clock.monotonic()

    def broken(self, rule: str, what: str) -> Broken:
        return Broken(self.seed, rule, f"{what} (at {self.now_s:.0f} s)")

    # -- what happens ---------------------------------------------------------

    def fired(self, what: str) -> None:
        """Something went wrong, by a name of `FIRED`."""
        self.seen[what] += 1

    async def cut(self, name: str, *, how: Cut = Cut.REFUSED, late: bool = False) -> None:
        """Nothing is heard of a member any more."""
        if self._falls_silent(name):
            for hub in self.hubs:
                await self.world.cut(name, process=hub, how=how, late=late)

    def doubt(self, name: str, box: Box) -> None:
        """The box stands before a member until it is healed."""
        if self._falls_silent(name):
            self.hearsay[name] = contextlib.ExitStack()
            self.hearsay[name].enter_context(self.world.boxes.standing(box))

    def _falls_silent(self, name: str) -> bool:
        """Notes since when; False where it is silent, or strange, already."""
        if name in self.cut_s or name in self.strange:
            return False
        self.cut_s[name] = self.now_s
        self.before_s[name] = self.well_s.pop(name, 0.0)
        well_s = self.now_s - (self.before_s[name] or float("-inf"))
        if well_s > PROBE_S + LATE_S or name not in self.quiet_s:
            self.quiet_s[name] = self.now_s
        return True

    def heal(self, name: str) -> None:
        """It is heard again."""
        if name not in self.cut_s:
            return
        if self.all_gone_for(SURE_S) and not self.hearsay:
            self.anew_s = self.now_s
        if self.all_gone_for(GRACE_S):
            self.fired("F26 all gone")
        silent_s = self.now_s - self.cut_s.pop(name)
        if silent_s >= 60.0:
            self.fired("F23 down for long")
        # a blip that no probe may have met breaks nothing
        self.well_s[name] = self.now_s if silent_s > PROBE_S else self.before_s.get(name, 0.0)
        if name in self.hearsay:
            self.hearsay.pop(name).close()
        else:
            self.world.heal(name)

    def begins(self) -> None:
        """Hubs that are down begin."""
        federation = self.world.federation
        down = [hub for hub in self.hubs if hub not in federation.tasks]
        for hub in down:
            federation.start_hub(hub)
        self.born_s = self.now_s if down else self.born_s

    @property
    def hubs(self) -> tuple[str, ...]:
        return self.world.federation.hub_names

    def leader(self) -> str:
        """The hub that acts; "" while there is none."""
        federation = self.world.federation
        return next(
            (
                hub
                for hub in self.hubs
                if hub in federation.tasks and federation.processes[hub].state.leading
            ),
            "",
        )

    def _note_leader(self) -> None:
        """A lease that was lost, and won by this hub or another, is a new look at the fleet."""
        leader = self.leader()
        elector = self.world.federation.processes[leader].elector if leader else None
        if elector is not None:
            self.terms_s.setdefault(elector.term, self.now_s)

    def _begun_s(self, seq: int) -> float:
        """When the hub that made this decision began to look. It may have made it, and lost the
        lease, since the last look.
        """
        if not self.terms_s:
            return self.born_s
        return self.terms_s.setdefault(seqs.term(seq), self.now_s)

    async def swap(self, name: str, cluster: EmbeddedCluster) -> None:
        """From now on this cluster answers at the address of a member."""
        members, processes = self.world.federation.members, (*self.hubs, f"member-{name}")
        for one in processes:
            await self.world.links.sever(one, name, Cut.REFUSED)
        joined = self.strange.pop(name, None)
        if joined is None:
            self.strange[name] = members[name]
        members[name] = cluster
        self.well_s[name] = self.now_s
        for one in processes:
            self.world.links.heal(one, name, Cut.REFUSED)

    async def fill(self, name: str, namespace: str) -> None:
        """Somebody's pods take all the room of a member."""
        client = self.world.member(name)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(ObjectRef("v1", "namespaces", "", namespace, "Namespace"), space)
        labels = {"app": "others"}
        container = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 24, "selector": {"matchLabels": labels}, "template": template}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "others", "namespace": namespace},
            "spec": spec,
        }
        await client.create(registry.KINDS["Deployment"].ref(namespace, "others"), body)

    async def empty(self, name: str, namespace: str) -> None:
        """They go."""
        client, ref = self.world.member(name), registry.KINDS["Deployment"].ref(namespace, "others")
        with contextlib.suppress(errors.NotFound):
            await client.delete(ref, uid=(await client.get(ref))["metadata"]["uid"])

    async def well(self) -> None:
        """Everything that is wrong ends."""
        for name in self.members:
            self.heal(name)
        for name, joined in list(self.strange.items()):
            await self.swap(name, joined)
        self.world.heal()
        for name in self.members:
            await self.empty(name, "elsewhere")
        self.begins()

    def all_gone_for(self, seconds: float) -> bool:
        """Whether nobody has been heard for so long."""
        return len(self.cut_s) == len(self.members) and all(
            self.now_s - since_s >= seconds for since_s in self.cut_s.values()
        )

    # -- what is judged -------------------------------------------------------

    async def at_rest(self) -> None:
        """All is well for a while: everybody has a place for all copies, and as many ready as are
        promised; some may be on their way home.
        """
        for name, (_, shares) in self.causes.items():
            obj = await self.world.get(PSVC, "feed", name) or {}
            ready, wanted = (raw.integer(obj, *path) for path in (READ, WANTED))
            placed = sum(shares.values())
            if placed != wanted or ready < wanted - -(-wanted // 4):
                raise self.broken(SETTLES, f"{name}: {placed} placed, {ready} ready of {wanted}")

    def held(self) -> Holdings:
        """What members hold of all services."""
        found: dict[tuple[str, str, str], tuple[str, int, int]] = {}
        for member in self.members:
            if member in self.strange:
                continue
            for kind in (PSVC, "Deployment"):
                for obj in self._all(kind, member):
                    meta = obj["metadata"]
                    if meta["namespace"] == "feed":
                        held = meta["uid"], meta["generation"], obj["spec"]["replicas"]
                        found[member, kind, meta["name"]] = held
        return found

    def given(self) -> Given:
        """What the decisions on the host say now."""
        specs = [obj["spec"] for obj in all_of(self.world.federation.host, "PlacementDecision")]
        return {
            spec["workload"]["name"]: {one["cluster"]: one["replicas"] for one in spec["shares"]}
            for spec in specs
            if spec["workload"]["kind"] == PSVC
        }

    def unchanged(self, before: Holdings, what: str, given: Given) -> None:
        """Judges that members hold what they held. `given`: decisions that the host had recorded
        when its hub lost it.
        """
        if changed := strayed(before, self.held(), given):
            raise self.broken(STILL, f"{what}: {', '.join(changed)}")

    async def look(self) -> None:
        """Judges what has changed since the last look."""
        self._note_leader()
        gone = {name for name, since_s in self.cut_s.items() if self.now_s - since_s > GRACE_S}
        most = len(gone) >= 3 and len(gone) * 100 > 55 * len(self.members)
        if most and not self.crowd:
            self.fired("F25 most gone")
        self.crowd = frozenset(gone) if most else frozenset()
        former = {name: shares for name, (_, shares) in self.causes.items()}
        for obj in all_of(self.world.federation.host, "PlacementDecision"):
            spec = obj["spec"]
            name = spec["workload"]["name"]
            if self.double and self.double in {one["cluster"] for one in spec["shares"]}:
                raise self.broken(TWIN, f"{name} is given to {self.double}")
            if name not in self.policies:
                self._look_at_shards(spec)
                continue
            shares = {one["cluster"]: one["replicas"] for one in spec["shares"]}
            before = self.causes.get(name)
            if before is not None and before[0] != spec["seq"]:
                for breach in self._judged(name, spec, before[1], shares):
                    raise breach
            self.causes[name] = spec["seq"], shares
        self._look_at_slices(former)

    def _look_at_shards(self, spec: dict[str, Any]) -> None:
        holders = {one["cluster"] for one in spec["shares"]}
        silent = {
            (name, since_s)
            for name, since_s in self.cut_s.items()
            if self.now_s - since_s > GRACE_S and name in holders
        }
        self.seen["F28 shards cut off"] += len(silent - self.alone)
        self.alone |= silent

    def _judge_risk(self, name: str) -> None:
        """What may run twice now is counted, by whatever hub."""
        metrics = self.world.federation.metrics
        assert metrics is not None
        lines = metrics.render().decode().splitlines()
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(RISK)]
        if sum(values) < self.at_risk:
            what = f"{name}: {sum(values):.0f} counted, {self.at_risk} seen"
            raise self.broken(COUNTED, what)

    def _judged(
        self, name: str, spec: dict[str, Any], before: dict[str, int], shares: dict[str, int]
    ) -> Iterator[Broken]:
        cause = spec["causes"][-1]
        fails, returns = cause.startswith("failover from "), cause.startswith("failback to ")
        if not fails and not returns:
            return
        if sum(shares.values()) < sum(before.values()):
            yield self.broken(NOWHERE, f"{name} goes from {before} to {shares}: {cause}")
        policy = self.policies[name]
        if fails:
            self.seen["failover"] += 1
            for cluster, copies in before.items():
                if shares.get(cluster, 0) < copies and not self._is_drained(cluster):
                    yield from self._left(name, cluster, policy, self._begun_s(spec["seq"]))
                    if cluster in self.cut_s:
                        self.at_risk += copies - shares.get(cluster, 0)
            self._judge_risk(name)
        else:
            self.seen["failback"] += 1
            yield from self._went_home(name, cause.removeprefix("failback to "), policy)

    def _is_drained(self, cluster: str) -> bool:
        """Whether what leaves it may do so because of a drain: one decision answers that and a
        cluster that is lost.
        """
        return self.now_s - self.drained_s.get(cluster, float("-inf")) <= LATE_S

    def _left(self, name: str, cluster: str, policy: Policy, begun_s: float) -> Iterator[Broken]:
        """`begun_s`: when who decided it began to look."""
        now_s = self.now_s
        well_s = now_s - self.well_s.get(cluster, 0.0)
        if cluster not in self.cut_s and well_s > LATE_S:
            yield self.broken(EARLY, f"{name} leaves {cluster}, well for {well_s:.0f} s")
        silent_s = now_s - self.quiet_s.get(cluster, now_s)
        if cluster in self.cut_s and silent_s < policy.after_s + GRACE_S - PROBE_S - LOOK_S:
            yield self.broken(EARLY, f"{name} leaves {cluster} after {silent_s:.0f} s")
        if now_s - begun_s < policy.after_s - LOOK_S:  # it began at most a look before it was seen
            yield self.broken(EARLY, f"{name} leaves {cluster} of a hub that has just begun")
        gone = [one for one, since in self.cut_s.items() if now_s - since > GRACE_S + LATE_S]
        if len(gone) == len(self.members) or (
            len(gone) >= 3 and len(gone) * 100 > 55 * len(self.members)
        ):
            yield self.broken(BRAKE, f"{name} leaves {cluster} while {gone} are gone")
        if cluster in self.cut_s and now_s - self.anew_s < policy.after_s - LATE_S:
            since_s = now_s - self.anew_s
            yield self.broken(ANEW, f"{name} leaves {cluster} {since_s:.0f} s after all were gone")
        yield from self._rested(name, cluster, policy, back=False)

    def _went_home(self, name: str, cluster: str, policy: Policy) -> Iterator[Broken]:
        silent_s = self.now_s - self.cut_s.get(cluster, self.now_s)
        if silent_s > PROBE_S + LATE_S:
            yield self.broken(HOME, f"{name} goes back to {cluster}, silent for {silent_s:.0f} s")
        well_s = self.now_s - self.well_s.get(cluster, float("-inf"))
        if cluster not in self.cut_s and well_s < policy.back_s - LATE_S:
            yield self.broken(HOME, f"{name} goes back to {cluster}, well for {well_s:.0f} s")
        yield from self._rested(name, cluster, policy, back=True)

    def _rested(self, name: str, cluster: str, policy: Policy, *, back: bool) -> Iterator[Broken]:
        """What leaves clusters that were lost together is one move; going home in turns is, too."""
        silence = (cluster, self.quiet_s.get(cluster, 0.0))
        for move in self.moves.get(name, ()):
            same = move.back == back and (move.cluster == cluster if back else silence in move.lost)
            if not same and self.now_s - move.at_s < policy.cooldown_s - LOOK_S:
                ago_s = self.now_s - move.at_s
                yield self.broken(ONCE, f"{name} moves again after {ago_s:.0f} s: {cluster}")
        lost = frozenset((one, since_s) for one, since_s in self.quiet_s.items())
        self.moves.setdefault(name, []).append(Moved(self.now_s, cluster, back, lost))

    def _look_at_slices(self, former: dict[str, dict[str, int]]) -> None:
        """`former`: the shares at the last look."""
        for member in self.members:
            if member in self.strange:
                continue
            present = {
                obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in self._all(PSVC, member)
            }
            ready = self._ready(member)
            for name, (_, shares) in self.causes.items():
                before, now = self.slices.get((member, name), ""), present.get(name, "")
                decided = shares.get(member, 0) and former.get(name, {}).get(member, 0)
                if before and now != before and decided:
                    raise self.broken(KEPT, f"the slice of {name} in {member} is gone")
                if before and not now and self.ready.get((member, name)):
                    self._judge_break(name, member, shares)
                self.slices[member, name] = now
                self.ready[member, name] = ready.get(name, 0)

    def _all(self, kind: str, member: str) -> list[Obj]:
        """What a member has of a kind, read from its store: nothing happens between two reads."""
        return all_of(self.world.federation.members[member], kind)

    def _ready(self, member: str) -> dict[str, int]:
        """How many copies of each workload are ready in a member."""
        return {
            obj["metadata"]["name"]: raw.integer(obj, "status", "readyReplicas")
            for obj in self._all("Deployment", member)
            if obj["metadata"]["namespace"] == "feed"
        }

    def _judge_break(self, name: str, member: str, shares: dict[str, int]) -> None:
        """A slice went, of which copies were ready at the last look: as many must be ready in all
        clusters that were heard as are promised; what another one still has that copies left counts,
        too. Heard is who has been silent for less than the grace: a blip changes nothing, neither
        what counts as ready.
        """
        self.seen["stale slice removed"] += 1
        ready = 0
        now_s = self.now_s
        silent = {name for name, since_s in self.cut_s.items() if now_s - since_s > GRACE_S}
        for cluster in set(self.members) - silent - {member}:
            if cluster not in self.strange:
                ready += self._ready(cluster).get(name, 0)
            elif now_s - self.well_s[cluster] <= PROBE_S:  # nobody can know of it yet
                ready += self.ready.get((cluster, name), 0)
        promised = sum(shares.values()) - -(-sum(shares.values()) // 4)
        if ready < promised:
            raise self.broken(READY, f"{name} leaves {member} with {ready} ready of {promised}")
