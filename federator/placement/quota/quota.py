"""Flat quotas: how many copies of a workload the FederatedQuotas of its project admit, with the
sentence when not all.

Every account stands alone, and guaranteed equals max. Pure functions of accounts and usage; the
ledger supplies usage without the asking workload's own.

The sentences are read by the workload's owner, who shares accounts with others: they give the
request, the limit and what is admitted, never what others hold. Operators see that in the
FederatedQuota's status.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federator.model.ask import Ask, Tier
from federator.model.decision import Reason
from federator.model.fleet import QuotaAccount, TierQuota
from federator.model.kubernetes import quantity
from federator.model.resources import PODS, UNLIMITED, Resources

Usage = Callable[[str, Tier], Resources]
Placed = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Admission:
    """`copies`: the most that quota admits for this workload in all; UNLIMITED without a limit."""

    copies: int = UNLIMITED
    reason: Reason = Reason.CHOSEN
    message: str = ""
    unlimited: bool = True
    """No account covers the project."""
    generations: Mapping[str, int] = field(default_factory=dict)


UNBOUND: Final = Admission()
ASSUMED: Final = Resources({"cpu": 100, "memory": 200 << 20})
"""What a copy without requests is charged: the kube-scheduler's default for such a container."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a running workload: `kept` of its `running` copies continue as `ask` instead of
    `before`."""

    ask: Ask
    before: Ask
    kept: int
    running: int


def accounts_of(project: str, accounts: Iterable[QuotaAccount]) -> tuple[QuotaAccount, ...]:
    """Every account that covers a project, by name; each of them limits it."""
    return tuple(
        sorted((account for account in accounts if project in account.projects), key=lambda account: account.name)
    )


def allows_unknown(accounts: Iterable[QuotaAccount]) -> bool:
    """Whether a workload may name a project that no account covers: always while there is no
    account, otherwise only where accounts without a parent say so and none says otherwise."""
    every = list(accounts)
    settings = {
        account.unknown_projects for account in every if not account.parent and account.unknown_projects is not None
    }
    return not every or settings == {True}


def charged(ask: Ask, accounts: Iterable[QuotaAccount]) -> Ask:
    """The ask with the defaults that accounts of its project charge for resources it does not
    request; of several accounts the highest. Quota and room use the same amounts."""
    speaking = accounts_of(ask.project, accounts)
    if not speaking:
        return ask
    shape = replace(ask.shape, requests=with_defaults(ask.shape.requests, speaking, ask.own))
    return ask if shape == ask.shape else replace(ask, shape=shape, own=None)


def with_defaults(requests: Resources, speaking: Iterable[QuotaAccount], own: Resources | None = None) -> Resources:
    """The requests, plus these accounts' defaults for what is not requested. `own`: the requests
    without those of a profile's containers, which are charged on top and are no request of the
    workload's."""
    assumed = Resources()
    for account in speaking:
        assumed = assumed.upper(ASSUMED if account.defaults is None else account.defaults)
    asked = requests if own is None else own
    lacking = Resources({name: amount for name, amount in assumed.items() if name not in asked})
    return requests + lacking


def limits(tier: TierQuota) -> tuple[tuple[str, str, int], ...]:
    """(resource, limiting field, limit). Flat: `max` where it names the resource, else
    `guaranteed`; resources that neither names are not limited."""
    named = tier.maximum or Resources()
    return tuple(
        (name, "max", named[name])
        if name in named or name in tier.barred
        else (name, "guaranteed", tier.guaranteed[name])
        for name in sorted({*named, *tier.guaranteed, *tier.barred, *tier.withheld})
    )


def admit(
    ask: Ask, wanted: int, held: int, accounts: tuple[QuotaAccount, ...], *, usage: Usage, placed: Placed
) -> Admission:
    """How many of `wanted` copies are admitted; the `held` ones run already and are never taken
    back.

    `usage` and `placed` exclude the asking workload. With RequireAll all are admitted, or none
    beyond those held.
    """
    refused = refusal(ask, accounts)
    speaking = accounts_of(ask.project, accounts)
    generations = {account.name: account.generation for account in speaking}
    if refused:
        return Admission(held, Reason.NOT_ALLOWED, refused, False, generations)
    best = Admission(UNLIMITED, unlimited=not speaking, generations=generations)
    for account in speaking:
        for admission in (
            _by_priority(ask, account, held),
            _by_concurrency(account, wanted, held, placed),
            _by_resources(ask, account, wanted, held, usage),
        ):
            if admission is not None and admission.copies < best.copies:
                best = Admission(admission.copies, admission.reason, admission.message, False, generations)
    return best


def refusal(ask: Ask, accounts: Collection[QuotaAccount]) -> str:
    """Why the workload may take nothing for its project, as a sentence; "" when it may. A namespace
    bound to an account may use only that account's projects, and a project of an account with
    namespaces only those namespaces. Does not mention other namespaces."""
    namespace = ask.key.namespace
    owners = sorted(
        (account for account in accounts if namespace in account.namespaces), key=lambda account: account.name
    )
    if owners and not any(ask.project in account.projects for account in owners):
        owner = owners[0]
        return (
            f"namespace {namespace} is bound to FederatedQuota {owner.name} (spec.namespaces), whose projects are "
            f"{', '.join(sorted(owner.projects)) or 'none'}; project {ask.project} is not among them"
        )
    speaking = accounts_of(ask.project, accounts)
    if not speaking and not allows_unknown(accounts):
        return (
            f"no FederatedQuota speaks for project {ask.project} (spec.projects), and projects that none speaks for are"
            " refused (spec.unknownProjects of an account without a parent)"
        )
    for account in speaking:
        if account.namespaces and namespace not in account.namespaces:
            return (
                f"project {ask.project} belongs to FederatedQuota {account.name}, which does not admit it from "
                f"namespace {namespace} (spec.namespaces)"
            )
    return ""


def _by_priority(ask: Ask, account: QuotaAccount, held: int) -> Admission | None:
    if account.max_priority is None or ask.priority <= account.max_priority:
        return None
    return Admission(
        held,
        Reason.PRIORITY_EXCEEDS_MAX,
        f"FederatedQuota {account.name} allows priority up to {account.max_priority} (spec.maxPriority), "
        f"the workload asks for {ask.priority}",
    )


def _by_concurrency(account: QuotaAccount, wanted: int, held: int, placed: Placed) -> Admission | None:
    if account.max_concurrent is None or held > 0 or wanted <= 0:
        return None
    if sum(placed(project) for project in account.projects) < account.max_concurrent:
        return None
    most = "1 workload" if account.max_concurrent == 1 else f"{account.max_concurrent} workloads"
    return Admission(
        0,
        Reason.QUOTA_EXCEEDED,
        f"FederatedQuota {account.name} allows {most} at a time "
        f"(spec.maxConcurrentWorkloads), and that many are placed",
    )


def _by_resources(ask: Ask, account: QuotaAccount, wanted: int, held: int, usage: Usage) -> Admission | None:
    tier = account.tiers.get(ask.tier)
    if tier is None:
        return None
    used = Resources()
    for project in sorted(account.projects):
        used = used + usage(project, ask.tier)
    tightest: Admission | None = None
    for name, field_name, limit in limits(tier):
        need = ask.shape.requests[name]
        if need <= 0:
            continue
        fit = max(limit - used[name], 0) // need
        if fit >= wanted or (tightest is not None and fit >= tightest.copies):
            continue
        never = need * wanted > limit
        allowed, each, needed = (quantity.render_amount(name, amount) for amount in (limit, need, need * wanted))
        left = "" if never else ", and too little of it is left"
        # With RequireAll the number that would fit is left out: it would only reveal the use of others.
        fits = "" if ask.whole else f", {fit} fit"
        tightest = Admission(
            fit,
            Reason.EXCEEDS_MAX_QUOTA if never else Reason.QUOTA_EXCEEDED,
            f"FederatedQuota {account.name} allows {allowed} {name} (spec.tiers.{ask.tier}.{field_name}.{name}){left}: "
            f"{wanted} copies of {each} need {needed}{fits}",
        )
    if tightest is None:
        return None
    copies = held if ask.whole else max(tightest.copies, held)
    return Admission(copies, tightest.reason, tightest.message)


def refuse_edit(edit: Edit, accounts: tuple[QuotaAccount, ...], *, usage: Usage, placed: Placed) -> Admission | None:
    """Why an edit of running copies is not admitted, by the first account that refuses it; None
    when it is. `usage` and `placed` exclude the workload. Only growth is judged: a workload above a
    limit may be edited as long as it does not grow."""
    ask, before = edit.ask, edit.before
    if ask.project != before.project and (refused := refusal(ask, accounts)):
        return Admission(0, Reason.NOT_ALLOWED, f"project {ask.project}, and {refused}")
    for account in accounts_of(ask.project, accounts):
        admission = None
        if ask.priority > before.priority:
            admission = _by_priority(ask, account, 0)
        if admission is None and before.project not in account.projects:
            admission = _by_concurrency(account, edit.kept, 0, placed)
        if admission is not None:
            return replace(admission, message=f"{_wish(edit)}, and {admission.message}")
        if over := _over(edit, account, usage):
            return Admission(0, Reason.QUOTA_EXCEEDED, over)
    return None


def _wish(edit: Edit) -> str:
    """The changes of the edit that an account charges or bounds, in a few words."""
    ask, before = edit.ask, edit.before
    parts = [f"{edit.kept} running copies of {amounts(ask.shape.requests)}"]
    parts += [f"project {ask.project} instead of {before.project}"] if ask.project != before.project else []
    parts += [f"tier {ask.tier} instead of {before.tier}"] if ask.tier is not before.tier else []
    parts += [f"priority {ask.priority} instead of {before.priority}"] if ask.priority > before.priority else []
    return ", ".join(parts if len(parts) == 1 else parts[1:])


def _over(edit: Edit, account: QuotaAccount, usage: Usage) -> str:
    """The first limit of the account that the edit would exceed, as a sentence; "" for none."""
    ask, before = edit.ask, edit.before
    tier = account.tiers.get(ask.tier)
    if tier is None:
        return ""
    same = before.project in account.projects and before.tier is ask.tier
    for name, field_name, limit in limits(tier):
        need = ask.shape.requests[name] * edit.kept
        if need <= 0 or (same and need <= before.shape.requests[name] * edit.running):
            continue
        used = sum(usage(project, ask.tier)[name] for project in account.projects)
        if used + need > limit:
            asks, each, allows = (
                quantity.render_amount(name, amount) for amount in (need, ask.shape.requests[name], limit)
            )
            left = "" if need > limit else ", of which too little is left"
            return (
                f"{asks} {name} of project {ask.project} in tier {ask.tier} ({edit.kept} running copies of {each}), and"
                f" FederatedQuota {account.name} allows {allows} (spec.tiers.{ask.tier}.{field_name}.{name}){left}"
            )
    return ""


def amounts(requests: Resources) -> str:
    """`cpu 2, memory 4Gi`; without pods."""
    shown = {name: amount for name, amount in quantity.render(requests).items() if name != PODS}
    return ", ".join(f"{name} {amount}" for name, amount in shown.items()) or "nothing"
