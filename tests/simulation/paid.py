"""6: the pods in members, summed over all kinds, stay within the accounts that pay for them.

At each pod that comes, the requests of all pods of a tree of accounts are held beside the limits in
FederatedQuotas as they are written, and beside what the decisions charge: a limit that was lowered
takes nothing away. Pods are read from the members' stores, with the containers that a RuntimeProfile
adds. `federator.placement` is never asked.

What is under way and was admitted is allowed, each in one place: `_surging`, `_ended` and
`_payer`. A decision that gives a workload more is judged too: pods that have been terminating for a
while take as much of the account as decisions do.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from federator.api import raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.embedded.server import EmbeddedCluster
from federator.kinds.natives import NATIVES
from federator.kube import clock as clocks
from federator.model import names, shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.kubernetes.quantity import vector
from federator.model.shards import Ranges
from tests.simulation import endings, promises
from tests.simulation.invariants import Obj, Step, is_decision

NAME = "6 pods within their account"
MEASURED = ("cpu", "memory")
HEARD_S = 60.0
"""Pods that have been terminating for so long are known to the hub."""
MAKERS = ("Deployment", "StatefulSet", "DaemonSet", "Job")
"""Natives that make pods, for all six kinds of workloads."""
SHARDED = ("PinterestJobSet", "PinterestTrainingJob")
Account = tuple[str, str]
"""Project and tier."""


@dataclass(frozen=True, slots=True)
class Use:
    """What the accounts use of one resource, by pods and by decisions."""

    pods: Mapping[Account, int]
    charged: Mapping[Account, int]


class Paid:
    """Sums at each pod that comes to a member."""

    def __init__(self, liars: Collection[str]) -> None:
        self.judged: Counter[str] = Counter()
        self._liars = liars
        self._decisions: dict[str, DecisionFacts] = {}
        """uid of a workload -> its last decision that a hub wrote; a forged one counts for nothing."""
        self._gone: set[str] = set()
        """uids of workloads whose decision is gone from the host."""

    def breaches(self, step: Step) -> Iterator[str]:
        """What one write breaks."""
        if is_decision(step) and step.writer.startswith("hub"):
            facts = decision_facts(step.obj)
            before = self._decisions.get(facts.workload_uid)
            self._decisions[facts.workload_uid] = facts
            self._gone.discard(facts.workload_uid)
            yield from self._admitted(step, before, facts)
        elif step.kind == "PlacementDecision" and step.new is None:
            self._gone.add(decision_facts(step.obj).workload_uid)
        comes = step.kind == "Pod" and step.cluster != "host" and step.old is None
        quotas = step.all_of("FederatedQuota") if comes else []
        if not quotas:
            return
        accounts, pods = promises.Accounts(quotas), self._pods(step)
        mine = self._decisions.get(_workload_of(step, step.cluster, step.obj))
        if mine is None or not (payers := accounts.of(mine.terms.project)):
            return
        self.judged[NAME] += 1
        tier = _payer(mine)[1]
        for resource in MEASURED:
            use = self._use(resource, pods)
            for payer in payers:
                for text in _above(accounts, payer, tier, resource, use):
                    yield f"{NAME}: {step.name}: {text}"

    def _admitted(
        self, step: Step, before: DecisionFacts | None, facts: DecisionFacts
    ) -> Iterator[str]:
        """Accounts that a decision takes more of, although terminating pods fill them."""
        quotas = step.all_of("FederatedQuota")
        nodes = any(share.nodes is not None for share in facts.shares)
        if nodes or not quotas or facts.terms.shape is None:
            return  # what a daemon takes follows the nodes
        terminating = self._terminating(step, facts.as_of)
        if not terminating:
            return  # what decisions charge by themselves is judged elsewhere
        accounts, payer = promises.Accounts(quotas), _payer(facts)
        done = {
            one["metadata"]["uid"]: endings.over(kind, one)
            for kind in SHARDED
            for one in step.all_of(kind)
        }
        for resource in MEASURED:
            was = _taken(before, resource, done) if before and _payer(before) == payer else 0
            more = _taken(facts, resource, done) - was
            if more <= 0:
                continue
            held: Counter[Account] = Counter()
            for other in self._decisions.values():
                if other.workload_uid not in self._gone:
                    held[_payer(other)] += _taken(other, resource, done)
            for uid, amounts in terminating.items():
                if (owner := self._decisions.get(uid)) is not None:
                    held[_payer(owner)] += amounts[resource]
            earlier = held - Counter({payer: more})
            for account in accounts.of(payer[0]):
                for text in _above(accounts, account, payer[1], resource, Use(held, earlier)):
                    yield f"{NAME}: {step.name} gives {more} {resource} more: {text}"

    def _terminating(self, step: Step, now_s: float) -> dict[str, Counter[str]]:
        """uid of a workload -> what its pods request that have been terminating for a while."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for cluster, served in step.clusters.items():
            if cluster == "host" or cluster in self._liars:
                continue
            makers = _makers(served)
            for entry in served.store.items(served.registry.get("", "pods")):
                meta = entry.obj["metadata"]
                if "deletionTimestamp" not in meta or _ended(entry.obj):
                    continue
                began_s = clocks.parse(meta["deletionTimestamp"])
                began_s -= meta.get("deletionGracePeriodSeconds", 0)
                if began_s <= now_s - HEARD_S and (uid := makers.get(_owner(entry.obj))):
                    found[uid] += _requests(entry.obj)
        return found

    def _use(self, resource: str, pods: Mapping[str, list[Counter[str]]]) -> Use:
        running: Counter[Account] = Counter()
        charged: Counter[Account] = Counter()
        for uid, facts in self._decisions.items():
            if facts.terms.shape is None:
                continue
            copies = sum(share.slots for share in facts.shares)
            charged[_payer(facts)] += copies * facts.terms.shape.requests[resource]
            amounts = sorted((pod[resource] for pod in pods.get(uid, ())), reverse=True)
            running[_payer(facts)] += sum(amounts[: len(amounts) - _surging(amounts, copies)])
        return Use(running, charged)

    def _pods(self, step: Step) -> dict[str, list[Counter[str]]]:
        """uid of a workload -> what each of its pods requests, in all members."""
        found: dict[str, list[Counter[str]]] = defaultdict(list)
        for cluster, served in step.clusters.items():
            if cluster == "host" or cluster in self._liars:
                continue
            makers = _makers(served)
            for entry in served.store.items(served.registry.get("", "pods")):
                uid = makers.get(_owner(entry.obj), "")
                leaves = "deletionTimestamp" in entry.obj["metadata"]
                if uid and not leaves and not _ended(entry.obj):
                    found[uid].append(_requests(entry.obj))
        return found


def _above(
    accounts: promises.Accounts, payer: str, tier: str, resource: str, use: Use
) -> Iterator[str]:
    """Accounts from `payer` up whose pods request more than they may use and are charged."""

    def by(amounts: Mapping[Account, int], project: str) -> int:
        return amounts.get((project, tier), 0)

    pods = accounts.seen(payer, tier, resource, functools.partial(by, use.pods))
    charged = accounts.seen(payer, tier, resource, functools.partial(by, use.charged))
    for account in accounts.line(payer):
        used, most = pods[account].used, pods[account].most
        if most is not None and used > max(most, charged[account].used):
            yield (
                f"the pods of {account} request {used} {resource} in tier {tier}; it may use"
                f" {most}, and is charged {charged[account].used}"
            )


# -- what is under way -----------------------------------------------------------------------------


def _surging(amounts: Collection[int], copies: int) -> int:
    """Pods beyond the copies that the decision charges: the surge of a roll-out, copies that move
    (their replacements come first), and copies that are scaled away and are still there. They came
    when they were admitted. When they terminate, nothing else is admitted in their place
    (`Paid._admitted`)."""
    return max(len(amounts) - copies, 0)


def _ended(pod: Obj) -> bool:
    """Whether a pod takes nothing any more."""
    return raw.text(pod, "status", "phase") in ("Succeeded", "Failed")


def _taken(facts: DecisionFacts, resource: str, done: Mapping[str, Ranges]) -> int:
    """What a decision charges its account, by the shards that are done. `done`: by workload; what is
    sharded and not in it has left the host."""
    if facts.terms.shape is None:
        return 0
    copies = sum(share.slots for share in facts.shares)
    if facts.terms.unit is Unit.SHARDS:
        ended = done.get(facts.workload_uid)
        copies = 0 if ended is None else sum(_open(share, ended) for share in facts.shares)
    return copies * facts.terms.shape.requests[resource]


def _open(share: Share, done: Ranges) -> int:
    return min(share.slots, shards.size(shards.minus(shards.normal(share.ranges), done)))


def _payer(facts: DecisionFacts) -> Account:
    """Who pays for the pods of a workload: the account of its present decision, also for pods that
    an earlier account was charged for."""
    return facts.terms.project, str(facts.terms.tier)


# -- pods ------------------------------------------------------------------------------------------


def _workload_of(step: Step, cluster: str, pod: Obj) -> str:
    return _makers(step.clusters[cluster]).get(_owner(pod), "")


def _makers(served: EmbeddedCluster) -> dict[str, str]:
    """uid of an object that makes pods -> uid of the workload on the host."""
    found: dict[str, str] = {}
    for kind in MAKERS:
        native = NATIVES[kind]
        info = served.registry.get(native.api_version.rpartition("/")[0], native.plural)
        for entry in served.store.items(info):
            meta = entry.obj["metadata"]
            if uid := (meta.get("labels") or {}).get(names.WORKLOAD_UID_LABEL):
                found[meta["uid"]] = uid
    for entry in served.store.items(served.registry.get("apps", "replicasets")):
        if uid := found.get(_owner(entry.obj)):
            found[entry.obj["metadata"]["uid"]] = uid
    return found


def _owner(obj: Obj) -> str:
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def _requests(pod: Obj) -> Counter[str]:
    """What the containers and native sidecars of a pod request together."""
    spec = raw.mapping(pod, "spec")
    beside = [
        container
        for container in raw.objects(spec, "initContainers")
        if raw.text(container, "restartPolicy") == "Always"
    ]
    total: Counter[str] = Counter()
    for container in (*raw.objects(spec, "containers"), *beside):
        amounts = raw.mapping(container, "resources", "requests")
        total.update(vector({name: amounts[name] for name in MEASURED if name in amounts}))
    return total
