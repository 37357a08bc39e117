"""Accounts that take back, and gangs, by objects alone: no guarantee is taken, both sides are told,
who leaves within an account has a lower priority, a gang leaves as a whole and is not half there
for longer than its time-out, no account has more workloads at a time than it may; at rest, a
guarantee has come back.
"""

import collections
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from federator.api import raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.kinds import registry
from federator.model.kubernetes import quantity
from tests.simulation import contest, promises
from tests.simulation.gangs import LABEL
from tests.simulation.halfdone import GANG, NAMESPACE
from tests.simulation.invariants import Obj, Step, all_of, charge, finished, is_decision

if TYPE_CHECKING:
    from tests.simulation.world import World

TAKEN: Final = "6 no guarantee is taken"
TOLD: Final = "6 both sides are told"
LOWER: Final = "6 the lower priority leaves"
AT_ONCE: Final = "6 workloads at a time"
WHOLE: Final = "7 a gang leaves as a whole"
HALF: Final = "7 a gang is not half there"
SERVED: Final = "10 a guarantee comes back"
WINDOW_S: Final = 60.0
"""For so long it may not be held against a hub what it could not have heard."""
SAID_S: Final = 10.0
CYCLE_S: Final = 3.0
"""The decisions of one cycle are written within this."""
ROLLS_BACK_S: Final = 45.0
"""Beyond its time-out, until a gang that is half there has given back what it has; a process may be
frozen for some of that."""
WITHIN: Final = "InClusterQueue"
TAKES: Final = "takes what it lacks"
FULL: Final = frozenset({"QuotaExceeded", "ExceedsMaxQuota", "Preempted"})


@dataclass(frozen=True, slots=True)
class _Doubt:
    """An account had less than its guarantee after somebody left it for another account's."""

    at_s: float
    project: str
    tier: str
    enough: int
    """What it has to come to at the least."""
    text: str


@dataclass(frozen=True, slots=True)
class _Taking:
    """Somebody left for a winner."""

    at_s: float
    by: str
    leader: str
    """The life that led."""


def _has_more_done(step: Step) -> bool:
    """Whether a status says of more shards that they are done: they take nothing from then on."""
    return step.same and finished(step.obj) != finished(step.old or {})


class Contested:
    """Remembers what fell, who left for whom, and which gangs are half there."""

    def __init__(self, world: "World") -> None:
        self.judged: Counter[str] = Counter()
        self._world = world
        self._any = world.parameters.contest
        self._fell_s: dict[tuple[str, str], float] = {}
        """(project, tier) -> when it last gave up something by itself, or shards of it were done."""
        self._doubts: list[_Doubt] = []
        self._takings: collections.deque[_Taking] = collections.deque()
        self._words: dict[str, list[tuple[float, str]]] = {}
        self._half_s: dict[tuple[str, str], float] = {}
        """(cluster, gang) -> since when some of its pods have a node and some wait for one."""

    def breaches(self, step: Step, now_s: float) -> list[str]:
        """What one write breaks, and what has not followed in time."""
        if not self._any:
            return []
        if step.kind == "Pod" and step.cluster != "host":
            self._look_at(step, now_s)
        if step.kind in (GANG, contest.JOBSET) and _has_more_done(step):
            spec = raw.mapping(step.obj, "spec")
            tier = raw.text(spec, "tier") or "OnDemand"
            self._fell_s[raw.text(spec, "project"), tier] = now_s
        found = [*self._half_there(now_s), *self._unsaid(now_s), *self._taken(step, now_s)]
        if is_decision(step) and raw.text(step.obj, "metadata", "namespace") == NAMESPACE:
            found += self._decided(step, now_s)
        return found

    # -- decisions -----------------------------------------------------------------------------

    def _decided(self, step: Step, now_s: float) -> Iterator[str]:
        facts = decision_facts(step.obj)
        before = decision_facts(step.old) if step.old is not None else None
        message = facts.terms.message
        self._words.setdefault(str(facts.key), []).append((now_s, message))
        gone = facts.terms.preempted
        had = before.terms.preempted if before is not None else None
        left = gone is not None and (had is None or had.by != gone.by or gone.copies > had.copies)
        if facts.terms.shape is None or not step.writer:
            return
        if (
            before is not None
            and not left
            and charge(step, facts, "cpu") < charge(step, before, "cpu")
        ):
            self._fell_s[facts.terms.project, str(facts.terms.tier)] = now_s
        if before is None or (not charge(step, before, "cpu") and charge(step, facts, "cpu")):
            yield from self._at_once(step, facts)
        if not left or gone is None or before is None:
            return
        self.judged[TAKEN] += 1
        if str(facts.terms.reason) != "Preempted" or str(gone.by) not in message:
            yield f"{TOLD}: {facts.key} left for {gone.by}: {message}"
        if facts.key.kind == GANG and any(share.slots for share in facts.shares):
            yield f"{WHOLE}: {facts.key} keeps {facts.shares}"
        yield from self._priorities(step, facts)
        if gone.project != facts.terms.project:
            self._doubt(step, facts, before, now_s)
        leader = self._world.leader()
        life = self._world.lives[leader].name if leader else ""
        self._takings.append(_Taking(now_s, str(gone.by), life))

    def _priorities(self, step: Step, facts: DecisionFacts) -> Iterator[str]:
        """Within one account nobody leaves for one of the same priority or a lower one."""
        gone = facts.terms.preempted
        if gone is None or gone.why != WITHIN:
            return
        loser, winner = self._object(step, str(facts.key)), self._object(step, str(gone.by))
        if loser is None or winner is None:
            return
        self.judged[LOWER] += 1
        if raw.integer(winner, "spec", "priority") <= raw.integer(loser, "spec", "priority"):
            yield f"{LOWER}: {facts.key} left for {gone.by}"

    def _object(self, step: Step, text: str) -> Obj | None:
        for kind in registry.WORKLOADS:
            for obj in step.all_of(kind):
                if f"{kind}/{obj['metadata']['namespace']}/{obj['metadata']['name']}" == text:
                    return obj
        return None

    def _doubt(self, step: Step, facts: DecisionFacts, before: DecisionFacts, now_s: float) -> None:
        """What it leaves its account is what is guaranteed, but for a part of the last that went."""
        project, tier = facts.terms.project, facts.terms.tier
        fell_s = self._fell_s.get((project, str(tier)), -math.inf)
        if now_s - fell_s < WINDOW_S or not facts.terms.shortfall:
            return  # it gave up something itself, and may have had it still; or it asks for no more
        promised = self._promised(step, project, str(tier))
        whole = facts.key.kind in (GANG, contest.JOBSET)
        assert facts.terms.shape is not None
        unit = charge(step, before, "cpu") if whole else facts.terms.shape.requests["cpu"]
        left = charge(step, facts, "cpu") + self._used(step, project, str(tier), but=facts.uid)
        if left <= promised - unit:
            text = f"{TAKEN}: {facts.key} left, and {project} has {left} of {promised} in {tier}"
            enough = promised - unit + 1
            self._doubts.append(_Doubt(now_s, project, str(tier), enough, text))

    def _taken(self, step: Step, now_s: float) -> Iterator[str]:
        """Guarantees that were taken: in the same cycle the account may have got something else, of
        which the decision is written after those of who left."""
        for doubt in [*self._doubts]:
            if self._used(step, doubt.project, doubt.tier) >= doubt.enough:
                self._doubts.remove(doubt)
            elif now_s - doubt.at_s > CYCLE_S:
                self._doubts.remove(doubt)
                yield doubt.text

    def _promised(self, step: Step, project: str, tier: str) -> int:
        accounts = promises.Accounts(step.all_of("FederatedQuota"))
        total = 0
        for name in accounts.of(project):
            amounts = raw.mapping(accounts.objs[name], "spec", "tiers", tier, "guaranteed")
            total += quantity.valid({"cpu": amounts["cpu"]})["cpu"] if "cpu" in amounts else 0
        return total

    def _used(self, step: Step, project: str, tier: str, *, but: str = "") -> int:
        every = map(decision_facts, step.all_of("PlacementDecision"))
        return sum(
            charge(step, other, "cpu")
            for other in every
            if other.uid != but and other.terms.project == project and str(other.terms.tier) == tier
        )

    def _at_once(self, step: Step, facts: DecisionFacts) -> Iterator[str]:
        accounts = promises.Accounts(step.all_of("FederatedQuota"))
        for name in accounts.of(facts.terms.project):
            most = raw.integer(accounts.objs[name], "spec", "maxConcurrentWorkloads")
            if not most or not step.heard(accounts.objs[name]):
                continue
            holding = {
                other.workload_uid
                for other in map(decision_facts, step.all_of("PlacementDecision"))
                if other.terms.project in accounts.projects(name) and charge(step, other, "cpu")
            }
            self.judged[AT_ONCE] += 1
            if len(holding) > most and facts.workload_uid in holding:
                yield f"{AT_ONCE}: {facts.key} begins, {name} has {len(holding)} of {most}"

    def _unsaid(self, now_s: float) -> Iterator[str]:
        """Winners that have not said in time that others leave for them. A hub that died, or did not
        reach the host, may have told only one side."""
        world = self._world
        while self._takings and self._takings[0].at_s + SAID_S < now_s:
            taking = self._takings.popleft()
            since_s = taking.at_s - WINDOW_S
            said = [text for at_s, text in self._words.get(taking.by, ()) if at_s >= since_s]
            leader = world.leader()
            life = world.lives[leader].name if leader else ""
            well_s = world.reach.well_since_s(life, "host", now_s) if life else now_s
            if (
                life != taking.leader
                or max(well_s, world.reach.awake_since_s(life, now_s)) > since_s
            ):
                continue
            self.judged[TOLD] += 1
            if not any(TAKES in text for text in said) and self._asks(taking.by):
                yield f"{TOLD}: {taking.by}, for which others left, says {said}"

    def _asks(self, text: str) -> bool:
        """Whether it is there still."""
        host = self._world.federation.host
        kind = text.partition("/")[0]
        return any(
            f"{kind}/{obj['metadata']['namespace']}/{obj['metadata']['name']}" == text
            for obj in all_of(host, kind)
        )

    # -- gangs ---------------------------------------------------------------------------------

    def _look_at(self, step: Step, now_s: float) -> None:
        """A pod of a gang was written: whether the gang is half there now."""
        labels = raw.text_map(step.obj, "metadata", "labels")
        space, name = raw.text(step.obj, "metadata", "namespace"), labels.get(LABEL, "")
        if not name or space != NAMESPACE:
            return
        served = step.clusters[step.cluster]
        bound = waiting = 0
        for entry in served.store.items(served.registry.get("", "pods"), space):
            pod = entry.obj
            ours = raw.text_map(pod, "metadata", "labels").get(LABEL) == name
            ended = raw.text(pod, "status", "phase") in ("Succeeded", "Failed")
            if not ours or ended or "deletionTimestamp" in pod["metadata"]:
                continue
            there = bool(raw.text(pod, "spec", "nodeName"))
            bound, waiting = bound + there, waiting + (not there)
        key = (step.cluster, name)
        if bound and waiting:
            self._half_s.setdefault(key, now_s)
            self.judged[HALF] += 1
        else:
            self._half_s.pop(key, None)

    def _half_there(self, now_s: float) -> Iterator[str]:
        """Gangs that have been half there for too long, while their member process was well."""
        world = self._world
        for (cluster, name), half_s in list(self._half_s.items()):
            process = f"member-{cluster}"
            if process not in world.lives or now_s - half_s < contest.TIMEOUT_S + ROLLS_BACK_S:
                continue
            life = world.lives[process]
            since_s = max(
                half_s,
                world.patience.born_s.get(life.name, 0.0),
                world.reach.well_since_s(life.name, cluster, now_s),
            )
            if not life.dead and now_s - since_s > contest.TIMEOUT_S + ROLLS_BACK_S:
                del self._half_s[cluster, name]
                yield f"{HALF}: {name} in {cluster}, for {now_s - since_s:.0f} s"

    # -- at rest -------------------------------------------------------------------------------

    def at_rest(self) -> Iterator[str]:
        """Who left says so, and what is guaranteed is there where it is asked for."""
        if not self._any:
            return
        host = self._world.federation.host
        step = Step(self._world.clusters, "host", "", "", None, None)
        objs = {
            obj["metadata"]["uid"]: obj for kind in registry.WORKLOADS for obj in all_of(host, kind)
        }
        for facts in map(decision_facts, step.all_of("PlacementDecision")):
            obj = objs.get(facts.workload_uid)
            if obj is None or facts.key.namespace != NAMESPACE:
                continue
            gone, placed = facts.terms.preempted, raw.condition(obj, "Placed")
            if gone is not None and str(gone.by) not in placed.get("message", ""):
                yield f"{TOLD}: {facts.key} left for {gone.by}, its status says {dict(placed)}"
            yield from self._withheld(step, facts)

    def _withheld(self, step: Step, facts: DecisionFacts) -> Iterator[str]:
        project, tier, terms = facts.terms.project, str(facts.terms.tier), facts.terms
        if facts.key.kind != contest.SERVICE or terms.shape is None or not terms.shortfall:
            return
        if terms.wanted > 2 * contest.CPUS:
            return  # a policy gives each cluster all of them, or none
        if str(terms.reason) not in FULL or "workloads at a time" in terms.message:
            return
        self.judged[SERVED] += 1
        used, promised = self._used(step, project, tier), self._promised(step, project, tier)
        if used + terms.shape.requests["cpu"] <= promised:
            yield (
                f"{SERVED}: {facts.key} lacks {terms.shortfall}, {project} has {used} of {promised} in"
                f" {tier}: {terms.message}"
            )
