"""Changes that may place more, each as the world in which it is made; trials are in `search`.

One function and one table row per class of change; each yields every change that could matter in
this world. Numbers are the smallest that gain as much as removing the bound would."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from federator.advice import patches, requests, rooms
from federator.advice.trials import (
    Change,
    HostState,
    Trials,
    in_member,
    in_policy,
    least,
    policy_fields,
)
from federator.api import raw
from federator.kinds import registry
from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask, Unit
from federator.model.decision import Decision, Reason
from federator.model.fleet import ClusterView, serves
from federator.model.kubernetes import quantity
from federator.model.kubernetes.taints import Taint, Toleration, toleration_to_dict
from federator.model.policy import Policy, Strategy
from federator.model.terms import Operator
from federator.placement.policy import conditions, mentions
from federator.placement.policy.conditions import Scope, Unmet
from federator.placement.quota import quota
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Limit, Uses
from federator.placement.selection import filters

MAX_CLUSTERS: Final = 16
"""Closed clusters that are tried, those with most room first."""
Source = Callable[[HostState, Trials, Decision], Iterator[Change]]


def clusters(world: HostState, trials: Trials, decision: Decision) -> Iterator[Change]:
    """Closed clusters opened, and clusters allowed to be filled further."""
    ask = world.ask
    assert ask is not None
    views, refusals = world.snapshot.clusters, trials.refusals(world)
    useful = any(refusals[name] or view.usable_permille < 1000 for name, view in views.items())
    for name in rooms.roomiest(world, ask)[:MAX_CLUSTERS] if useful else ():
        if refusals[name]:
            yield from opened(world, ask, views[name])
        elif views[name].usable_permille < 1000 and (
            made := in_member(world, name, ("spec", "usable"), "100%")
        ):
            now = raw.text(world.obj(("MemberCluster", "", name)), "spec", "usable")
            yield Change(f"usable of {name} {now} -> 100%", made)


def opened(world: HostState, ask: Ask, view: ClusterView) -> Iterator[Change]:
    """Changes that lift the first refusal of a cluster."""
    refusal = filters.refusal(ask, view)
    if refusal is None:
        return
    name = view.name
    match refusal.reason:
        case Reason.CORDONED if view.draining:
            if made := in_member(world, name, ("spec", "drain"), None):
                yield Change(f"end the drain of {name}", made)
        case Reason.CORDONED if view.unproven and not view.cordoned and not view.maintained:
            made = world.with_view(replace(view, unproven=""))
            yield Change(f"{name} passes a probe", made, f"federator probe run {name}")
        case Reason.CORDONED:
            if made := in_member(world, name, ("spec", "cordoned"), None):
                yield Change(f"uncordon {name}", made)
        case Reason.CLUSTER_UNHEALTHY | Reason.CLUSTER_STALE if view.capacity is not None:
            well = world.with_view(replace(view, ready=True, stale=False))
            yield Change(
                f"{name} is ready again, with the room it last reported",
                well,
                f"federator cluster check {name}",
            )
        case Reason.API_NOT_AVAILABLE:
            if serves(view.apis, ask.key.kind):
                served = world.with_view(replace(view, apis=view.apis | {*ask.needs}))
                kinds = ", ".join(api.partition(".")[0] for api in ask.needs)
                yield Change(f"{name} serves {kinds}", served)
                return
            served = world.with_view(
                replace(view, apis=view.apis | {f"{ask.key.kind}.any", *ask.needs})
            )
            yield Change(
                f"{name} serves {ask.key.kind}",
                served,
                f"federator crd install --member --context {name}",
            )
        case Reason.TAINTED:
            yield from _untainted(world, ask, view)
        case Reason.NOT_ALLOWED:
            if ask.tier not in view.tiers:
                tiers = sorted([*(str(tier) for tier in view.tiers), str(ask.tier)])
                if made := in_member(world, name, ("spec", "tiers"), tiers):
                    yield Change(f"{name} takes tier {ask.tier}", made)
            elif made := in_member(
                world, name, ("spec", "projects"), sorted([*(view.projects or ()), ask.project])
            ):
                yield Change(f"{name} takes project {ask.project}", made)
        case Reason.NOT_SELECTED | Reason.INSUFFICIENT_CAPACITY:
            yield from _selected(world, ask, view)
        case _:
            return


def _untainted(world: HostState, ask: Ask, view: ClusterView) -> Iterator[Change]:
    keeps_away = [taint for taint in view.taints if not _tolerated(ask.policy, taint)]
    named = ", ".join(str(taint) for taint in keeps_away)
    wanted = [toleration_to_dict(_toleration(taint)) for taint in keeps_away]
    before = raw.items(policy_fields(world, ask.policy), "tolerations")
    if made := in_policy(world, ask.policy, ("tolerations",), [*before, *wanted]):
        yield Change(f"tolerate {named} of {view.name}", made)
    obj = world.obj(("MemberCluster", "", view.name))
    left = [
        entry
        for entry in raw.objects(obj, "spec", "taints")
        if not any(
            entry.get("key") == taint.key and entry.get("effect") == taint.effect
            for taint in keeps_away
        )
    ]
    if made := in_member(world, view.name, ("spec", "taints"), left):
        yield Change(f"take {named} from {view.name}", made)


def _tolerated(policy: Policy, taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in policy.tolerations)


def _toleration(taint: Taint) -> Toleration:
    operator = "Equal" if taint.value else "Exists"
    return Toleration(taint.key, operator, taint.value, taint.effect)


def _selected(world: HostState, ask: Ask, view: ClusterView) -> Iterator[Change]:
    """The policy's choice of clusters widened by this one, or the cluster labelled."""
    policy, fields, name = ask.policy, policy_fields(world, ask.policy), view.name
    if name in policy.exclude:
        rest = [cluster for cluster in raw.items(fields, "clusters", "exclude") if cluster != name]
        if made := in_policy(world, policy, ("clusters", "exclude"), rest):
            yield Change(f"do not exclude {name}", made)
    elif policy.names and name not in policy.names:
        names = [*raw.items(fields, "clusters", "names"), name]
        if made := in_policy(world, policy, ("clusters", "names"), names):
            yield Change(f"add {name} to clusters.names", made)
    elif policy.selector is not None and not policy.selector.matches(view.labels):
        labels = dict(view.labels) | dict(policy.selector.match_labels)
        labels |= {
            requirement.key: requirement.values[0]
            for requirement in policy.selector.requirements
            if str(requirement.operator) == "in"
        }
        added = [
            f"{key}={value}"
            for key, value in sorted(labels.items())
            if view.labels.get(key) != value
        ]
        if added and (made := in_member(world, name, ("metadata", "labels"), labels)):
            yield Change(f"label {name} {', '.join(added)}", made)
    elif (why := conditions.unmet(policy.conditions, view, tuple(Scope))) is not None:
        yield from _meeting(world, ask, view, why)
    elif policy.division.groups:
        at = len(policy.division.groups) - 1
        names = [*policy.division.groups[at].names, name]
        if made := in_policy(world, policy, ("division", "groups", at, "names"), names):
            yield Change(f"add {name} to group {policy.division.groups[at].name}", made)


def _meeting(world: HostState, ask: Ask, view: ClusterView, why: Unmet) -> Iterator[Change]:
    """The cluster labelled as a required term asks, or added to the alternatives. Terms themselves
    are bounds of the policy: `_terms`."""
    policy, name = ask.policy, view.name
    if why.path == "clusters.anyOf":
        entries = [*raw.items(policy_fields(world, policy), "clusters", "anyOf"), {"names": [name]}]
        if made := in_policy(world, policy, ("clusters", "anyOf"), entries):
            yield Change(f"add {name} to clusters.anyOf", made)
        return
    term = next((term for term in policy.conditions.terms if term.path == why.path), None)
    key = term.key.removeprefix("labels.") if term is not None else ""
    if term is None or term.operator is not Operator.IN or key == term.key:
        return
    labels = {**view.labels, key: term.values[0]}
    if made := in_member(world, name, ("metadata", "labels"), labels):
        yield Change(f"label {name} {key}={term.values[0]}", made)


def spellings(world: HostState, trials: Trials, decision: Decision) -> Iterator[Change]:
    """Names that no cluster or policy has, replaced by the one probably meant."""
    ask = world.ask
    assert ask is not None
    for mention in mentions.unknown(ask.policy, world.snapshot.clusters):
        if not mention.alike:
            continue
        path: list[str | int] = []
        for part in mention.field.split("."):
            word, _, index = part.partition("[")
            path += [word, int(index[:-1])] if index else [word]
        names = [
            mention.alike if name == mention.name else name
            for name in mentions.mentioned(ask.policy)[mention.field]
        ]
        if made := in_policy(world, ask.policy, path, list(dict.fromkeys(names))):
            yield Change(f"{mention.field}: {mention.name} -> {mention.alike}", made)
    wanted = str(world.workload.placement.get("policyRef") or "")
    if ask.policy.problem and wanted:
        there = [
            rule.policy.name
            for rule in world.rules
            if rule.cluster_wide or rule.policy.namespace == ask.key.namespace
        ]
        for meant in difflib.get_close_matches(wanted, there, n=1):
            yield Change(f"policyRef {wanted} -> {meant}", _own(world, "policyRef", meant))


def quotas(world: HostState, trials: Trials, decision: Decision) -> Iterator[Change]:
    """All accounts that limit the workload raised to just what is needed, in one change; or the
    priority lowered."""
    ask = world.ask
    assert ask is not None
    accounts = quota.accounts_of(ask.project, world.snapshot.quotas)
    yield from _bindings(world, ask, accounts)
    if not accounts:
        yield from _unknown(world, ask)
        return
    finished = world.workload.progress().done
    copies = trials.placed(world, without_quotas=True)
    if ask.whole and decision.reason in quota.BY_QUOTA:
        copies = max(
            copies, min(ask.slots, ask.count - sum(high - low + 1 for low, high in finished))
        )
    made, texts = world, []
    uses = Uses(Tree(world.snapshot.quotas), world.situation.commitments.usage)
    for account in _line(uses.tree, ask.project):
        obj = made.obj(("FederatedQuota", "", account.name))
        if obj is None:
            continue
        for path, old, new, text in _raised(world, ask, account, copies, uses):
            texts.append(f"FederatedQuota {account.name} {text} {old} -> {new}")
            obj = patches.edited(obj, path, new)
        made = (
            made.with_object(obj)
            if obj is not made.obj(("FederatedQuota", "", account.name))
            else made
        )
    if texts:
        yield Change(", ".join(texts), made)
    bounds = [account.max_priority for account in accounts if account.max_priority is not None]
    if bounds and ask.priority > min(bounds):
        yield Change(
            f"priority {ask.priority} -> {min(bounds)}", _own(world, "priority", min(bounds))
        )


def _bindings(world: HostState, ask: Ask, accounts: Sequence[QuotaAccount]) -> Iterator[Change]:
    """Bindings of namespaces and projects, where accounts do not match the workload."""
    namespace = ask.key.namespace
    owners = [account for account in world.snapshot.quotas if namespace in account.namespaces]
    if owners and not any(ask.project in owner.projects for owner in owners):
        for account in owners:
            if obj := world.obj(("FederatedQuota", "", account.name)):
                projects = sorted([*account.projects, ask.project])
                text = f"FederatedQuota {account.name} speaks for project {ask.project}"
                yield Change(
                    text, world.with_object(patches.edited(obj, ("spec", "projects"), projects))
                )
    for account in accounts:
        obj = world.obj(("FederatedQuota", "", account.name))
        if account.namespaces and namespace not in account.namespaces and obj is not None:
            names = sorted([*account.namespaces, namespace])
            text = f"FederatedQuota {account.name} admits namespace {namespace}"
            yield Change(
                text, world.with_object(patches.edited(obj, ("spec", "namespaces"), names))
            )


def _unknown(world: HostState, ask: Ask) -> Iterator[Change]:
    """An account for a project that no account names, and permission for all such projects."""
    every = world.snapshot.quotas
    if quota.allows_unknown(every):
        return
    name = account_name(ask.project)
    obj = world.obj(("FederatedQuota", "", name))
    if obj is None:
        kind = registry.KINDS["FederatedQuota"]
        made = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name},
            "spec": {"projects": [ask.project]},
        }
        text = f"new FederatedQuota {name}, without limits, for project {ask.project}"
        yield Change(text, world.with_object(made))
    else:
        projects = sorted([*raw.texts(obj, "spec", "projects"), ask.project])
        yield Change(
            f"FederatedQuota {name} also for project {ask.project}",
            world.with_object(patches.edited(obj, ("spec", "projects"), projects)),
        )
    roots = sorted((each for each in every if not each.parent), key=lambda each: each.name)
    refusing = [root for root in roots if root.unknown_projects is False] or roots[:1]
    then, texts = world, []
    for root in refusing:
        if (obj := then.obj(("FederatedQuota", "", root.name))) is not None:
            then = then.with_object(patches.edited(obj, ("spec", "unknownProjects"), "Allow"))
            texts.append(f"FederatedQuota {root.name} unknownProjects -> Allow")
    if texts:
        yield Change(", ".join(texts), then)


def account_name(project: str) -> str:
    """The project as the name of an object."""
    return re.sub(r"[^a-z0-9.-]+", "-", project.lower()).strip("-.") or "account"


def _line(tree: Tree, project: str) -> list[QuotaAccount]:
    """The accounts of a project and all above them."""
    line = dict.fromkeys(name for own in tree.speaking(project) for name in tree.path(own))
    return [tree.accounts[name] for name in line]


def _raised(
    world: HostState, ask: Ask, account: QuotaAccount, copies: int, uses: Uses
) -> Iterator[tuple[tuple[str, ...], str, Any, str]]:
    """(path, from, to, field) of each limit of an account that is too low for this many copies."""
    commitments, tree = world.situation.commitments, uses.tree
    if account.max_priority is not None and ask.priority > account.max_priority:
        yield ("spec", "maxPriority"), str(account.max_priority), ask.priority, "maxPriority"
    own = commitments.commitment(ask.uid)
    sharing = {*account.projects, *tree.under(account.name)}
    mine = own is not None and own.project in sharing
    running = sum(map(commitments.placed, sharing))
    running -= bool(mine and own is not None and own.copies)
    if account.max_concurrent is not None and running >= account.max_concurrent:
        field = "maxConcurrentWorkloads"
        yield ("spec", field), str(account.max_concurrent), running + 1, field
    charged = [lowest for lowest in tree.charged(ask.project) if account.name in tree.path(lowest)]
    for name in tree.names(account.name, ask.tier):
        needed = copies * ask.shape.requests[name]
        limits = [limit for each in charged for limit in uses.limits(each, ask.tier, name, own)]
        for limit in limits:
            if limit.account == account.name and needed > limit.left:
                yield _higher(limit, ask, name, needed - limit.left)
                break


def _higher(
    limit: Limit, ask: Ask, name: str, missing: int
) -> tuple[tuple[str, ...], str, Any, str]:
    """A limit raised by what is missing: `max` where nothing is written of the account itself."""
    field = limit.bound.field.partition(".")[0] or "max"
    now = limit.bound.stated or 0
    if field == "borrowingLimit":
        now -= limit.bound.guaranteed or 0
    texts = [quantity.render_amount(name, amount) for amount in (now, now + missing)]
    path = ("spec", "tiers", str(ask.tier), field, name)
    return path, texts[0], texts[1], f"tiers.{ask.tier}.{field}.{name}"


def bounds(world: HostState, trials: Trials, decision: Decision) -> Iterator[Change]:
    """The policy's bounds on the division, loosened by as little as gains most."""
    ask = world.ask
    assert ask is not None
    plan = ask.policy.division
    if plan.max_per_cluster is not None:
        now = plan.max_per_cluster
        yield from _least(
            world, trials, ask, ("division", "maxPerCluster"), now, max(ask.count, now + 1)
        )
    if plan.max_clusters is not None:
        high = max(len(world.snapshot.clusters), plan.max_clusters + 1)
        yield from _least(world, trials, ask, ("division", "maxClusters"), plan.max_clusters, high)
    if plan.min_per_cluster > 0 and (
        made := in_policy(world, ask.policy, ("division", "minPerCluster"), 0)
    ):
        yield Change(f"minPerCluster {plan.min_per_cluster} -> 0", made)
    yield from _single(world, trials, ask)
    yield from _terms(world, ask.policy)
    if ask.policy.require_all and (made := in_policy(world, ask.policy, ("partial",), "Allow")):
        yield Change("partial RequireAll -> Allow", made)
    weighted = plan.strategy is Strategy.WEIGHTED and bool(plan.weights)
    if weighted and (made := in_policy(world, ask.policy, ("division", "strategy"), "Capacity")):
        yield Change("strategy Weighted -> Capacity", made)
    for at, rule in enumerate(ask.policy.spread):
        if not rule.hard:
            continue
        key = rule.topology_key
        if made := in_policy(
            world, ask.policy, ("spread", at, "whenUnsatisfiable"), "ScheduleAnyway"
        ):
            yield Change(f"spread over {key}: DoNotSchedule -> ScheduleAnyway", made)
        if rule.max_skew:
            skew = ("spread", at, "maxSkew")
            yield from _least(
                world, trials, ask, skew, rule.max_skew, max(ask.count, rule.max_skew + 1), key
            )
        if rule.max_domains is not None:
            high = max(len(world.snapshot.clusters), rule.max_domains + 1)
            domains = ("spread", at, "maxDomains")
            yield from _least(world, trials, ask, domains, rule.max_domains, high, key)
        for fewer in range(rule.min_domains - 1, 0, -1):
            made = in_policy(world, ask.policy, ("spread", at, "minDomains"), fewer)
            if made is not None and trials.placed(made) > sum(
                verdict.got for verdict in decision.verdicts
            ):
                yield Change(f"spread over {key}: minDomains {rule.min_domains} -> {fewer}", made)
                break


def _single(world: HostState, trials: Trials, ask: Ask) -> Iterator[Change]:
    """The bounds of single clusters that the workload's own policy sets."""
    for at, entry in enumerate(ask.policy.division.per_cluster):
        if entry.enforced:
            continue
        path, name = ("division", "perCluster", at), f"perCluster[{at}]"
        copies = ask.at_once
        most = entry.of(copies)
        if most is not None and entry.percent is None:
            yield from _least(world, trials, ask, (*path, "max"), most, max(copies, most + 1), name)
        elif entry.percent is not None and entry.percent < 100:
            yield from _percent(world, trials, ask, (*path, "max"), entry.percent, name)
        made = in_policy(world, ask.policy, (*path, "min"), 0) if entry.least > 0 else None
        if made is not None:
            yield Change(f"{name}: min {entry.least} -> 0", made)


def _terms(world: HostState, policy: Policy) -> Iterator[Change]:
    """The required terms of the workload's own policy, about clusters and about other workloads,
    each left out."""
    required = [(term.path, f" ({term})") for term in policy.conditions.terms]
    required += [(term.path, "") for term in policy.workloads if not term.weight]
    for path, text in required:
        field, _, index = path.removesuffix("]").rpartition("[")
        entries = list(raw.items(policy_fields(world, policy), *field.split(".")))
        del entries[int(index)]
        if made := in_policy(world, policy, field.split("."), entries):
            yield Change(f"without {path}{text}", made)


def _percent(  # noqa: PLR0917 as `_least`
    world: HostState, trials: Trials, ask: Ask, path: Sequence[str | int], now: int, of: str
) -> Iterator[Change]:
    """The smallest percentage above `now` that places as much as 100% does, if that is more than
    `now` does."""

    def made(value: int) -> HostState:
        change = in_policy(world, ask.policy, path, f"{value}%")
        assert change is not None
        return change

    if in_policy(world, ask.policy, path, "100%") is None:
        return
    best = trials.placed(made(100))
    if best <= trials.placed(world):
        return
    value = least(now + 1, 100, lambda value: trials.placed(made(value)) >= best)
    yield Change(f"{of}: {path[-1]} {now}% -> {value}%", made(value))


def _least(  # noqa: PLR0917 a field of one world, and between which numbers it is looked for
    world: HostState,
    trials: Trials,
    ask: Ask,
    path: Sequence[str | int],
    now: int,
    high: int,
    of: str = "",
) -> Iterator[Change]:
    """The smallest number above `now` that places as much as `high` does, if that is more than
    `now` does."""

    def made(value: int) -> HostState:
        change = in_policy(world, ask.policy, path, value)
        assert change is not None
        return change

    if in_policy(world, ask.policy, path, high) is None:
        return
    best = trials.placed(made(high))
    if best <= trials.placed(world):
        return
    value = least(now + 1, high, lambda value: trials.placed(made(value)) >= best)
    where = f"spread over {of}: " if of and path[0] == "spread" else f"{of}: " if of else ""
    yield Change(f"{where}{path[-1]} {now} -> {value}", made(value))


def workload(world: HostState, trials: Trials, decision: Decision) -> Iterator[Change]:
    """The workload itself: resumed, with smaller requests in its template, or with fewer copies
    where all or none are wanted, or all or none are to be as an edit says."""
    ask = world.ask
    assert ask is not None
    if ask.suspended:
        yield Change("spec.suspend true -> false", _own(world, "suspend", False))
        return
    yield from requests.smaller(world, trials, decision)
    fewer_helps = ask.policy.require_all or ask.whole or decision.held_back
    if not fewer_helps or decision.reason is Reason.CHOSEN:
        return
    field = "parallelism" if ask.unit is Unit.SHARDS else "replicas"

    def of(count: int) -> HostState:
        obj = world.obj(world.workload_id)
        assert obj is not None
        return world.with_object(patches.edited(obj, ("spec", field), count))

    fewer = least(
        0, ask.slots, lambda less: trials.placed(of(ask.slots - less)) >= ask.slots - less
    )
    if 0 < ask.slots - fewer < ask.slots:
        yield Change(
            f"{field} {ask.slots} -> {ask.slots - fewer}", of(ask.slots - fewer), shrinks=True
        )


SOURCES: Final[Mapping[str, Source]] = {
    "misspelt names": spellings,
    "closed clusters": clusters,
    "quotas": quotas,
    "bounds of the policy": bounds,
    "the workload": workload,
    "nodes that clusters can add": rooms.scale_ups,
    "more nodes": rooms.more_nodes,
}


def _own(world: HostState, field: str, value: Any) -> HostState:
    """The world with one field of the workload changed: in its spec, or in an annotation for kinds
    that are not ours."""
    obj = world.obj(world.workload_id)
    assert obj is not None
    path = registry.verbs_of(world.key.kind).fields[field]
    if path[0] == "metadata":  # an annotation holds a text
        value = str(value).lower() if isinstance(value, bool) else str(value)
    return world.with_object(patches.edited(obj, path, value))
