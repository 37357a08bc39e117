"""ClusterQueues and Cohorts of Kueue, with their LocalQueues, as a tree of FederatedQuotas.

A ClusterQueue is an account with one project of its name, used from the namespaces of its
LocalQueues; a Cohort is the account above it (`kueueaccounts`). In Kueue a cohort's own quota adds
to that of its queues, here a guarantee includes those below it. Flavors become domains of clusters
(`kueueflavors`) where there are several, or Workloads, which are in one (`kueueworkloads`).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import yaml

from federator.api import raw
from federator.convert import kueueworkloads
from federator.convert.drafts import BadInput, Drafts, Item
from federator.convert.kueueaccounts import QUEUE, Account, Family, Settings, fitting
from federator.convert.kueueflavors import Flavors
from federator.kinds import read
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors

VERSIONS: Final = ("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2")
COHORT: Final = "Cohort"
OLDER: Final = (("kueue.x-k8s.io/v1alpha1", COHORT),)
"""Versions of single kinds that were served before all kinds were v1beta1, with the same fields."""
CONFIGURATIONS: Final = ("config.kueue.x-k8s.io/v1beta1", "config.kueue.x-k8s.io/v1beta2")
LOCAL: Final = "LocalQueue"
FLAVOR: Final = "ResourceFlavor"
CONFIGURATION: Final = "Configuration"
SETTINGS: Final = "controller_manager_config.yaml"
"""Key of the ConfigMap that has Kueue's settings."""
KINDS: Final = (
    *(
        (version, kind)
        for version in VERSIONS
        for kind in (QUEUE, COHORT, LOCAL, FLAVOR, kueueworkloads.KIND, "WorkloadPriorityClass")
    ),
    *OLDER,
    ("scheduling.k8s.io/v1", "PriorityClass"),
    *((version, CONFIGURATION) for version in CONFIGURATIONS),
)
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
NO_NAMESPACE: Final = "no-namespace-is-selected"
"""Stands in an account if its queue selects none of the namespaces that have a LocalQueue of it."""


def absorb(drafts: Drafts) -> None:
    """Turns the queues and cohorts into accounts, flavors into clusters and domains, and Workloads
    into job sets and decisions."""
    loads = list(_open(drafts, kueueworkloads.KIND))
    used = {raw.text(item.given, "status", "admission", "clusterQueue") for item in loads}
    queues = {item.name: item for item in _open(drafts, QUEUE) if _covers(item, drafts, used)}
    cohorts = {item.name: item for item in _open(drafts, COHORT)}
    if not queues and not cohorts:
        return
    family = Family.of(queues, cohorts)
    for name, reason in family.refused():
        drafts.leave(family.items[name], reason)
    items = {item.name: item for item in _open(drafts, FLAVOR)}
    every = list(family.items.values())
    flavors = Flavors.of(every, items)
    by_domain = bool(items or loads)
    spaces, locals_ = _namespaces(drafts, family, loads)
    settings = _settings(drafts, every)
    for name in family.kept():
        account = Account(name, family, flavors, settings, by_domain=by_domain)
        obj = account.obj(spaces.get(name, ()))
        _check(obj, family.items.get(name))
        drafts.become(obj, family.items.get(name), list(account.notes()))
    if by_domain:
        _workloads(drafts, loads, locals_, every, flavors)
    _spend(drafts, items.values())


def assign(drafts: Drafts) -> None:
    """Workloads that name a LocalQueue which is given get the project of its account. Whatever
    names a queue is not suspended for a person's sake."""
    projects = {
        (item.namespace or "default", item.name): fitting(
            raw.text(item.obj, "spec", "clusterQueue")
        )
        for item in drafts.items
        if item.kind == LOCAL and drafts.joined(item)
    }
    for draft in drafts.made:
        run = raw.mapping(draft.obj, "spec", "jobTemplate") or draft.item.obj
        queue = raw.text(run, "metadata", "labels", QUEUE_LABEL)
        if project := projects.get((draft.namespace or "default", queue)):
            draft.spec["project"] = project
        if queue and draft.spec.pop("suspend", False):
            drafts.note(
                draft,
                "spec.suspend is left out: it is how Kueue holds the jobs of its queues until it"
                " admits them; the federation places it once its account has quota",
            )


def _workloads(
    drafts: Drafts,
    loads: list[Item],
    queues: Mapping[tuple[str, str], str],
    every: list[Item],
    flavors: Flavors,
) -> None:
    """The Workloads as job sets with decisions, and clusters for their flavors where none is
    given."""
    given = [item.obj for item in drafts.kept if item.kind == "MemberCluster"]
    stamps = [raw.text(item.given, "metadata", "creationTimestamp") for item in loads]
    as_of = max(map(raw.epoch_s, stamps), default=0.0)
    made = [] if given else list(flavors.clusters(every, raw.rfc3339(as_of)))
    rows = list(kueueworkloads.made(drafts, loads, queues, flavors))
    for cluster in made:
        drafts.add(cluster)
    for row in rows:
        _check(row.obj, row.item)
        drafts.become(row.obj, row.item, list(kueueworkloads.notes(row)))
    for decision in kueueworkloads.decisions(rows, given or made, flavors):
        drafts.add(dict(decision))


def _spend(drafts: Drafts, flavors: Iterable[Item]) -> None:
    """The objects that are part of others now."""
    for item in flavors:
        drafts.join(item, "the domains of FederatedQuotas")
    for item in drafts.undecided():
        if item.kind in kueueworkloads.PRIORITIES and (item.api_version, item.kind) in KINDS:
            drafts.join(item, "the priorities of workloads")


def _open(drafts: Drafts, kind: str) -> list[Item]:
    return [
        item
        for item in drafts.undecided()
        if item.kind == kind and (item.api_version in VERSIONS or (item.api_version, kind) in OLDER)
    ]


def _covers(item: Item, drafts: Drafts, used: Collection[str]) -> bool:
    """Whether a queue covers any flavor, or holds something still; one that does not is left, as it
    admits nothing."""
    covers = item.name in used or any(
        flavor.get("resources") or used
        for group in raw.objects(item.obj, "spec", "resourceGroups")
        for flavor in raw.objects(group, "flavors")
    )
    if not covers:
        drafts.leave(item, "spec.resourceGroups: it covers no resource, and admits nothing")
    return covers


def _settings(drafts: Drafts, every: Iterable[Item]) -> Settings:
    """Kueue's settings, from its Configuration or the ConfigMap with it. Without them queues are
    taken to share fairly when one says a weight."""
    for item in drafts.undecided():
        if item.kind == CONFIGURATION and item.api_version in CONFIGURATIONS:
            drafts.join(item, "the settings of FederatedQuotas")
            return Settings.of(item.obj)
        text = raw.text(item.obj, "data", SETTINGS) if item.kind == "ConfigMap" else ""
        if text:
            drafts.join(item, "the settings of FederatedQuotas")
            try:
                result = yaml.safe_load(text)
            except yaml.YAMLError as bad:
                raise item.bad(f"data.{SETTINGS}", f"is no YAML: {bad}") from None
            return Settings.of(result if isinstance(result, dict) else {})
    weighed = any(raw.at(item.obj, "spec", "fairSharing") is not None for item in every)
    return Settings(fair=weighed)


def _namespaces(
    drafts: Drafts, family: Family, loads: Iterable[Item]
) -> tuple[dict[str, tuple[str, ...]], dict[tuple[str, str], str]]:
    """(account -> the namespaces from which it is used, LocalQueue -> queue). A namespace that is
    given counts when the queue's namespaceSelector matches its labels."""
    labels = {
        item.name: {
            "kubernetes.io/metadata.name": item.name,
            **raw.text_map(item.obj, "metadata", "labels"),
        }
        for item in drafts.items
        if item.is_a("v1", "Namespace")
    }
    spaces: dict[str, set[str]] = {}
    queues: dict[tuple[str, str], str] = {}
    for item in _open(drafts, LOCAL):
        queue = raw.text(item.obj, "spec", "clusterQueue")
        node = family.node_of(queue)
        if node is None:
            drafts.leave(item, f"spec.clusterQueue: {queue or 'no queue'} is not converted")
            continue
        namespace = item.namespace or "default"
        drafts.join(item, f"FederatedQuota/{node}")
        queues[namespace, item.name] = queue
        of = spaces.setdefault(node, set())
        if _selected(family.items[node], labels.get(namespace)):
            of.add(namespace)
    for item in loads:
        admitted = raw.text(item.given, "status", "admission", "clusterQueue")
        if (node := family.node_of(admitted)) is not None and spaces.get(node):
            spaces[node].add(item.namespace or "default")
    result = {node: tuple(sorted(names)) or (NO_NAMESPACE,) for node, names in spaces.items()}
    return result, queues


def _selected(queue: Item, labels: Mapping[str, str] | None) -> bool:
    """Whether a queue admits from a namespace; one that is not given counts as admitted."""
    selector = raw.at(queue.obj, "spec", "namespaceSelector")
    if labels is None or not isinstance(selector, dict):
        return True
    try:
        return selectors.from_dict(selector).matches(labels)
    except FieldError as bad:
        raise queue.bad(f"spec.namespaceSelector.{bad.path}", bad.message) from None


def _check(obj: dict[str, Any], item: Item | None) -> None:
    try:
        read.load(obj)
    except read.InvalidObject as bad:
        origin = item.origin if item is not None else ""
        title = item.title if item is not None else f"Cohort/{obj['metadata']['name']}"
        raise BadInput(origin, title, list(bad.errors)) from None
