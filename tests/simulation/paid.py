"""6: the pods in members, summed over all kinds, stay within the accounts that pay for them.

At each pod that comes, the requests of all pods of a tree of accounts are held beside the limits in
FederatedQuotas as they are written, and beside what the decisions charge: a limit that was lowered
takes nothing away. Pods are read from the members' stores, with the containers that a RuntimeProfile
adds. `federator.placement` is never asked.

What is under way and was admitted is allowed, each in one place: `_surging`, `_ended` and
`_payer`.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from federator.api import raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.embedded.server import EmbeddedCluster
from federator.kinds.natives import NATIVES
from federator.model import names
from federator.model.kubernetes.quantity import vector
from tests.simulation import promises
from tests.simulation.invariants import Obj, Step, is_decision

NAME = "6 pods within their account"
MEASURED = ("cpu", "memory")
MAKERS = ("Deployment", "StatefulSet", "DaemonSet", "Job")
"""Natives that make pods, for all six kinds of workloads."""
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

    def breaches(self, step: Step) -> Iterator[str]:
        """What one write breaks."""
        if is_decision(step) and step.writer.startswith("hub"):
            facts = decision_facts(step.obj)
            self._decisions[facts.workload_uid] = facts
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
                if uid and not _ended(entry.obj):
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
    (their replacements come first), and copies that are scaled away and are still there."""
    return max(len(amounts) - copies, 0)


def _ended(pod: Obj) -> bool:
    """Whether a pod takes nothing any more, or is on its way out."""
    return "deletionTimestamp" in pod["metadata"] or raw.text(pod, "status", "phase") in (
        "Succeeded",
        "Failed",
    )


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
