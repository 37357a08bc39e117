"""Which clusters may take a workload: one function and one table row per rule.

A filter refuses with a reason and a sentence, or returns None. Most filters only keep new copies
away. A rule that a person set for that very cluster (`evicts`) removes held copies at once; a
cluster that the policy no longer admits (`moves`) loses them when they have another place. Free
room and quota are not judged here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from federator.model.ask import Ask
from federator.model.decision import Reason
from federator.model.fleet import ClusterView, serves
from federator.model.kubernetes import selectors, taints
from federator.model.kubernetes.taints import Effect
from federator.model.names import is_probe
from federator.model.policy import Demand, FailoverWhen, Policy
from federator.model.rules import namespaces
from federator.placement.division.shards import Openness
from federator.placement.policy import conditions, enforcing, tolerating
from federator.placement.policy.conditions import Scope

Judge = Callable[[Ask, ClusterView], str | None]


@dataclass(frozen=True, slots=True)
class Filter:
    reason: Reason
    judge: Judge
    evicts: bool = False
    moves: bool = False
    passing: bool = False
    """It holds for a time: copies may stay until it is their turn, and no decision is made anew for
    it.
    """


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a cluster takes no new copies. With `evicts` it keeps none either, with `moves` only
    those without another place."""

    reason: Reason
    message: str
    evicts: bool = False
    moves: bool = False
    enforced: str = ""
    """Name of the Required policy that refuses; "" for none."""
    overdue: bool = False
    """A taint was tolerated for a time that is over: its copies leave at the pace of edits."""
    paced: bool = False
    """Copies that it moves draw on the budget of evacuations, not on that of a policy."""


def refuses_required_exclusion(ask: Ask, cluster: ClusterView) -> str | None:
    """A Required policy excludes it by name."""
    violation = enforcing.excluding(ask.policy, cluster)
    return None if violation is None else violation[1]


def refuses_required_choice(ask: Ask, cluster: ClusterView) -> str | None:
    """A Required policy does not admit it by name or label."""
    violation = enforcing.not_admitting(ask.policy, cluster)
    return None if violation is None else violation[1]


def refuses_unnamed(ask: Ask, cluster: ClusterView) -> str | None:
    """`clusters.names` of the policy lists others only."""
    if ask.policy.names and cluster.name not in ask.policy.names:
        return (
            f"is not among the {len(ask.policy.names)} clusters named by "
            f"{field_of(ask.policy, 'clusters.names')}"
        )
    return None


def refuses_excluded(ask: Ask, cluster: ClusterView) -> str | None:
    """Its name is in `clusters.exclude` of the policy."""
    if cluster.name in ask.policy.exclude:
        return f"is excluded by {field_of(ask.policy, 'clusters.exclude')}"
    return None


def refuses_unselected(ask: Ask, cluster: ClusterView) -> str | None:
    """Its labels do not match `clusters.selector` of the policy."""
    selector = ask.policy.selector
    if selector is not None and not selector.matches(cluster.labels):
        wanted = selectors.to_text(selector)
        return f"its labels do not match {field_of(ask.policy, 'clusters.selector')} ({wanted})"
    return None


def refuses_unmet(ask: Ask, cluster: ClusterView) -> str | None:
    """It does not meet `clusters.properties` or `clusters.anyOf` of the policy, by what operators
    state of it."""
    return _unmet(ask.policy, cluster, Scope.ALL)


def refuses_unevaluated(ask: Ask, cluster: ClusterView) -> str | None:
    """A term of `clusters.properties` or `clusters.anyOf` of the policy, or of a Required policy,
    cannot be evaluated for it: a CEL expression fails, or a value does not compare."""
    return _unmet(ask.policy, cluster, Scope.NEW) or _of_required(ask.policy, cluster, Scope.NEW)


def refuses_by_report(ask: Ask, cluster: ClusterView) -> str | None:
    """Its last capacity report does not meet `clusters.properties` or `clusters.anyOf` of the
    policy, or of a Required policy."""
    return _unmet(ask.policy, cluster, Scope.NOW) or _of_required(ask.policy, cluster, Scope.NOW)


def _unmet(policy: Policy, cluster: ClusterView, scope: Scope) -> str | None:
    if not policy.conditions:
        return None
    why = conditions.unmet(policy.conditions, cluster, (scope,))
    return None if why is None else f"{conditions.reason(why)} ({field_of(policy, why.path)})"


def _of_required(policy: Policy, cluster: ClusterView, scope: Scope) -> str | None:
    for demand in policy.required:
        if demand.conditions and (sentence := enforcing.unmet(demand, cluster, (scope,))):
            return sentence
    return None


def refuses_ungrouped(ask: Ask, cluster: ClusterView) -> str | None:
    """It is in none of the policy's `division.groups`."""
    groups = ask.policy.division.groups
    if groups and group_of(ask.policy, cluster) is None:
        return (
            f"is in none of the {len(groups)} groups of {field_of(ask.policy, 'division.groups')}"
        )
    return None


def refuses_removing(ask: Ask, cluster: ClusterView) -> str | None:
    """Its MemberCluster is being deleted, and its finalizer empties it."""
    return "is being removed from the fleet" if cluster.removing else None


DRAINED: Final = "is being drained (spec.drain)"
"""Of a cluster that a person drains, or that a rehearsal takes for drained."""


def refuses_draining(ask: Ask, cluster: ClusterView) -> str | None:
    """It is being drained (`spec.drain`), by a person or for a maintenance window."""
    if not cluster.draining:
        return None
    if cluster.maintained:
        return f"is being drained, and {cluster.maintained}"
    return DRAINED


def ended(ask: Ask, cluster: ClusterView) -> bool:
    """Whether no shard of an Exclusive job set runs any more in a silent cluster: it was fenced, or
    its shards are guarded and its lease is over."""
    return cluster.fenced or (ask.guarded and cluster.lapsed)


def refuses_dead(ask: Ask, cluster: ClusterView) -> str | None:
    """It is silent and was declared dead (`spec.declaredDead`), or fenced (`spec.fenced`). The
    shards of an Exclusive job set stay until they have ended there."""
    if not cluster.dead or ask.policy.failover.when is FailoverWhen.NEVER:
        return None
    if ask.exclusive and not ended(ask, cluster):
        return None
    if cluster.fenced:
        return "is silent and was fenced (spec.fenced)"
    return "is silent and was declared dead (spec.declaredDead)"


def refuses_unreachable(ask: Ask, cluster: ClusterView) -> str | None:
    """It is silent and the hub has tainted it for that, and the workload may leave it one day: its
    policy fails over, its tolerations end, and its copies may overlap or have ended there."""
    parts = ask.overlaps or (ask.exclusive and ended(ask, cluster))
    leaves = parts and ask.policy.stays_unreachable_s is not None
    if not cluster.unreachable or not leaves:
        return None
    return f"is silent, and the hub has tainted it ({taints.UNREACHABLE_TAINT})"


def refuses_evicting_taint(ask: Ask, cluster: ClusterView) -> str | None:
    """It has a NoExecute taint of a person that is not tolerated. What a policy that cannot be read
    tolerates is unknown: there only Required policies can forbid it.
    """
    evicting = taints.evicting(cluster.taints)
    if ask.policy.problem:
        evicting = tuple(
            taint for taint in evicting if enforcing.forbids(ask.policy, taint) is not None
        )
    taint = enforcing.untolerated(ask.policy, evicting)
    return None if taint is None else _not_tolerated(taint, ask.policy)


def refuses_overdue_taint(ask: Ask, cluster: ClusterView) -> str | None:
    """It has a NoExecute taint of a person that was tolerated for `tolerationSeconds`, and these
    are over."""
    for name, taint in ask.policy.overdue:
        if name == cluster.name:
            lasts_s = tolerating.seconds(ask.policy, taint)
            return f"has taint {taint}, which was tolerated for {lasts_s} s (tolerationSeconds)"
    return None


def refuses_timed_taint(ask: Ask, cluster: ClusterView) -> str | None:
    """It has a NoExecute taint of a person that is tolerated for `tolerationSeconds` only: what
    began there would have to leave again."""
    for taint in taints.evicting(cluster.taints):
        lasts_s = tolerating.seconds(ask.policy, taint)
        if lasts_s is not None:
            return f"has taint {taint}, which is tolerated for {lasts_s} s only (tolerationSeconds)"
    return None


def refuses_moving_taint(ask: Ask, cluster: ClusterView) -> str | None:
    """It has a NoExecute taint that is not tolerated, which may be one that the federation set
    itself: that is no person's word to take anything down.
    """
    taint = enforcing.untolerated(ask.policy, cluster.taints, (Effect.NO_EXECUTE,))
    return None if taint is None else _not_tolerated(taint, ask.policy)


def refuses_tainted(ask: Ask, cluster: ClusterView) -> str | None:
    """It has a NoSchedule taint that is not tolerated."""
    taint = enforcing.untolerated(ask.policy, cluster.taints, (Effect.NO_SCHEDULE,))
    return None if taint is None else _not_tolerated(taint, ask.policy)


def refuses_forbidden_taint(ask: Ask, cluster: ClusterView) -> str | None:
    """It has a taint of a person that a Required policy does not let it tolerate."""
    for taint in cluster.taints:
        if taint.effect in taints.REFUSING and not taint.by_federation:
            demand = enforcing.forbids(ask.policy, taint)
            if demand is not None:
                return _not_let(taint, demand)
    return None


def _not_tolerated(taint: taints.Taint, policy: Policy) -> str:
    demand = enforcing.forbids(policy, taint)
    if demand is not None and (
        policy.problem or any(toleration.tolerates(taint) for toleration in policy.tolerations)
    ):
        return _not_let(taint, demand)
    return f"has taint {taint}, which {field_of(policy, 'tolerations')} does not tolerate"


def _not_let(taint: taints.Taint, demand: Demand) -> str:
    of_demand = enforcing.of("tolerations", demand)
    return f"has taint {taint}, which {of_demand} does not let it tolerate"


def refuses_missing_api(ask: Ask, cluster: ClusterView) -> str | None:
    """It does not serve the kind, or one that the workload becomes there. A cluster without a read
    discovery (no kinds at all) is not judged.
    """
    if not serves(cluster.apis, ask.key.kind):
        return f"does not serve {ask.key.kind}"
    lacking = [api for api in ask.needs if cluster.apis and api not in cluster.apis]
    if not lacking:
        return None
    kind, _, group = lacking[0].partition(".")
    return f"does not serve {kind} ({group}), which the workload is to become there"


def refuses_by_neighbours(ask: Ask, cluster: ClusterView) -> str | None:
    """A required term of `workloadAffinity` keeps new copies away from it: of the workload's own
    policy, or the anti-affinity of another workload of the namespace."""
    around = ask.policy.around
    if around is None:
        return None
    return around.why(cluster.name)


def refuses_cordoned(ask: Ask, cluster: ClusterView) -> str | None:
    """It is cordoned (`spec.cordoned`), or a maintenance window is near (`spec.maintenance`). A
    cordon does not keep probes out."""
    if cluster.cordoned and not is_probe(ask.key):
        return "is cordoned (spec.cordoned)"
    return cluster.maintained or None


def refuses_unproven(ask: Ask, cluster: ClusterView) -> str | None:
    """Its ClusterStandard asks for a passed probe before it takes work, and it has passed none
    since it became ready."""
    return cluster.unproven or None if not is_probe(ask.key) else None


def refuses_tier(ask: Ask, cluster: ClusterView) -> str | None:
    """It does not take the tier of the workload (`spec.tiers`)."""
    if ask.tier in cluster.tiers:
        return None
    return f"takes tiers {', '.join(sorted(cluster.tiers)) or 'none'}, not {ask.tier}"


def refuses_project(ask: Ask, cluster: ClusterView) -> str | None:
    """It is open to other projects only (`spec.projects`)."""
    if cluster.projects is None or is_probe(ask.key):
        return None
    # The project is the workload's own word. Only a quota that binds the namespace to it makes it
    # true.
    if ask.project in cluster.projects:
        claims = f"is open to project {ask.project} (spec.projects), and no FederatedQuota binds"
        return None if ask.project_bound else f"{claims} namespace {ask.key.namespace} to it"
    return f"is open to {len(cluster.projects)} projects, and {ask.project} is not among them"


def refuses_by_namespace(ask: Ask, cluster: ClusterView) -> str | None:
    """Its API server would refuse a pod of the workload, by a LimitRange of the namespace there, or
    because a ResourceQuota of it bounds what a container does not state."""
    rules = cluster.rules.get(ask.key.namespace)
    if rules is None or not ask.stated:
        return None
    return namespaces.refusal(ask.key.namespace, rules, ask.stated) or None


def refuses_unhealthy(ask: Ask, cluster: ClusterView) -> str | None:
    """It is not ready: not heard, or one of the reasons of its condition Ready."""
    if cluster.ready:
        return None
    return f"is not ready: {cluster.unready_reason}" if cluster.unready_reason else "is not ready"


def refuses_untrustworthy(ask: Ask, cluster: ClusterView) -> str | None:
    """It is Untrustworthy. What runs there stays: its copies may well be real."""
    return (
        f"is untrustworthy ({cluster.untrustworthy}) and takes nothing new"
        if cluster.untrustworthy
        else None
    )


def refuses_skewed(ask: Ask, cluster: ClusterView) -> str | None:
    """Its clock is off the hub's (`ClockSkew`), and shards of the workload have guards, which go by
    it. What runs there stays."""
    if not ask.guarded or not cluster.skewed:
        return None
    return f"{cluster.skewed} (ClockSkew), and its guards would stop shards too late or too early"


def refuses_unreported(ask: Ask, cluster: ClusterView) -> str | None:
    """Its capacity was not reported yet, or too long ago."""
    if cluster.capacity is None:
        return (
            "has no report of its capacity that is known here (its member process writes "
            "ClusterCapacity)"
        )
    return (
        f"last reported its capacity {cluster.capacity_age_s:.0f} s ago, too long to rely on"
        if cluster.stale
        else None
    )


FILTERS: Final[Mapping[str, Filter]] = {
    "exclude": Filter(Reason.NOT_SELECTED, refuses_excluded, evicts=True),
    "required-exclude": Filter(Reason.NOT_ALLOWED, refuses_required_exclusion, evicts=True),
    "evicting-taint": Filter(Reason.TAINTED, refuses_evicting_taint, evicts=True),
    "required": Filter(Reason.NOT_ALLOWED, refuses_required_choice, moves=True),
    "name": Filter(Reason.NOT_SELECTED, refuses_unnamed, moves=True),
    "selector": Filter(Reason.NOT_SELECTED, refuses_unselected, moves=True),
    "properties": Filter(Reason.NOT_SELECTED, refuses_unmet, moves=True),
    "group": Filter(Reason.NOT_SELECTED, refuses_ungrouped, moves=True),
    "removing": Filter(Reason.NOT_SELECTED, refuses_removing, moves=True, passing=True),
    "overdue-taint": Filter(Reason.TAINTED, refuses_overdue_taint, moves=True),
    "moving-taint": Filter(Reason.TAINTED, refuses_moving_taint, moves=True),
    "dead": Filter(Reason.CLUSTER_UNHEALTHY, refuses_dead, moves=True, passing=True),
    "unreachable": Filter(Reason.CLUSTER_UNHEALTHY, refuses_unreachable, moves=True, passing=True),
    "draining": Filter(Reason.CORDONED, refuses_draining, moves=True, passing=True),
    "api": Filter(Reason.API_NOT_AVAILABLE, refuses_missing_api),
    "unevaluated": Filter(Reason.NOT_SELECTED, refuses_unevaluated),
    "taint": Filter(Reason.TAINTED, refuses_tainted),
    "timed-taint": Filter(Reason.TAINTED, refuses_timed_taint),
    "cordon": Filter(Reason.CORDONED, refuses_cordoned),
    "probe": Filter(Reason.CORDONED, refuses_unproven),
    "tier": Filter(Reason.NOT_ALLOWED, refuses_tier),
    "project": Filter(Reason.NOT_ALLOWED, refuses_project),
    "namespace": Filter(Reason.NAMESPACE_LIMITS, refuses_by_namespace),
    "health": Filter(Reason.CLUSTER_UNHEALTHY, refuses_unhealthy),
    "trust": Filter(Reason.CLUSTER_UNTRUSTWORTHY, refuses_untrustworthy),
    "clock": Filter(Reason.CLUSTER_UNHEALTHY, refuses_skewed),
    "report": Filter(Reason.CLUSTER_STALE, refuses_unreported),
    "reported-properties": Filter(Reason.INSUFFICIENT_CAPACITY, refuses_by_report),
    "workloads": Filter(Reason.WORKLOAD_AFFINITY, refuses_by_neighbours),
}
"""In order of precedence: the first that refuses is the one reported. Those that evict come first,
then those that move, Required policies before the workload's own: a Lazy one holds nothing back
that they move. Last comes what other workloads decide: it is judged for each decision, the rest
once for all that are alike.
"""
_BARRING: Final[tuple[Judge, ...]] = (
    refuses_required_exclusion,
    refuses_required_choice,
    refuses_forbidden_taint,
    refuses_tier,
    refuses_project,
)
"""The rules by which nothing of a workload may begin in a cluster that keeps what it holds."""


def openness(ask: Ask, cluster: ClusterView, refused: Refusal | None) -> Openness:
    """How far a cluster is open to shards that nobody has. `refused`: why it takes no copies."""
    if refused is None:
        return Openness.OPEN
    if barring(ask, cluster):
        return Openness.BARRED
    # Shards there may still be running, and what is only not heard may be heard again: they stay
    # its own for longer.
    unheard = refused.reason in (Reason.CLUSTER_UNHEALTHY, Reason.CLUSTER_STALE)
    return Openness.UNHEARD if unheard else Openness.CLOSED


def barring(ask: Ask, cluster: ClusterView) -> str:
    """Why nothing of the workload may begin in this cluster, not even as in the last one that has
    slots: a Required policy refuses it or one of its taints, or it is not for the workload's tier
    or project, whatever else is against it. "" when it may."""
    for judge in _BARRING:
        message = judge(ask, cluster)
        if message is not None:
            return f"cluster {cluster.name}{_joined(message)}"
    return ""


def refusal(ask: Ask, cluster: ClusterView) -> Refusal | None:
    """The first rule that refuses this cluster; None when it is open."""
    for name, rule in FILTERS.items():
        message = rule.judge(ask, cluster)
        if message is not None:
            text = f"cluster {cluster.name}{_joined(message)}"
            by = _enforced(name, ask.policy, cluster)
            return Refusal(
                rule.reason,
                text,
                rule.evicts,
                rule.moves,
                by,
                overdue=name == "overdue-taint",
                paced=rule.passing and rule.moves,
            )
    return None


def apart(ask: Ask, cluster: ClusterView) -> Refusal | None:
    """The refusal of the last filter, of a cluster that all others leave open."""
    rule = FILTERS["workloads"]
    message = rule.judge(ask, cluster)
    if message is None:
        return None
    return Refusal(rule.reason, f"cluster {cluster.name}{_joined(message)}")


def _enforced(name: str, policy: Policy, cluster: ClusterView) -> str:
    enforcing_filter = {
        "required": enforcing.not_admitting,
        "required-exclude": enforcing.excluding,
    }.get(name)
    demand = None if enforcing_filter is None else enforcing_filter(policy, cluster)
    return demand[0].name if demand is not None else ""


def of_holder(
    ask: Ask, cluster: ClusterView, refused: Refusal | None, tolerated: Collection[str]
) -> Refusal | None:
    """The refusal for a cluster that holds copies which stayed under its `tolerated` taints at the
    last decision. If no other taint evicts them, the policy has changed, not the cluster: the
    copies move instead."""
    if refused is None or not refused.evicts or refused.reason is not Reason.TAINTED:
        return refused
    news = [taint for taint in taints.evicting(cluster.taints) if str(taint) not in tolerated]
    if enforcing.untolerated(ask.policy, news) is not None:
        return refused
    return replace(refused, evicts=False, moves=True)


def pinned(refused: Refusal | None) -> Refusal | None:
    """The refusal for a cluster with copies that stay whatever is against it: it takes no more."""
    if refused is None:
        return None
    return replace(refused, evicts=False, moves=False, enforced="", paced=False)


def admitted(ask: Ask, cluster: ClusterView) -> bool:
    """Whether copies held there may stay permanently, once what passes has passed."""
    return not any(
        rule.judge(ask, cluster) is not None
        for rule in FILTERS.values()
        if (rule.evicts or rule.moves) and not rule.passing
    )


def group_of(policy: Policy, cluster: ClusterView) -> int | None:
    """The index of the first ordered group that names or selects this cluster; 0 without groups,
    None when none does."""
    if not policy.division.groups:
        return 0
    for index, group in enumerate(policy.division.groups):
        if cluster.name in group.names or (
            group.selector is not None and group.selector.matches(cluster.labels)
        ):
            return index
    return None


def field_of(policy: Policy, field: str) -> str:
    """Where the field is, in the user's terms."""
    if policy.origin == "inline":
        return f"spec.placement.{field}"
    if (policy.origin, policy.name) == ("default", "default"):
        return "the built-in default policy"
    if policy.origin == "misconfigured":
        return "the policy that is missing"
    return f"spec.{field} of policy {policy.name}"


def _joined(message: str) -> str:
    return f": {message}" if message.startswith("its ") else f" {message}"
