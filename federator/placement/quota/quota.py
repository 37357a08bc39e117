"""How many copies of a workload the FederatedQuotas of its project admit, with the sentence when
not all.

What an account and those above it leave is reckoned by `tree` and `uses`; an account that stands
alone is a tree of one. Pure functions of accounts and usage; the ledger supplies both.

The sentences are read by the workload's owner, who shares accounts with others: they give the
request, the limit and what is admitted, never what others hold. Operators see that in the
FederatedQuota's status.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask, PodShape, Tier
from federator.model.decision import AT_ONCE, Reason
from federator.model.fleet import Commitment
from federator.model.kubernetes import quantity
from federator.model.quickly import quickly
from federator.model.resources import PODS, UNLIMITED, Resources
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Limit, Uses

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


_admission = quickly(Admission)
UNBOUND: Final = Admission()
BY_QUOTA: Final = frozenset(
    {
        Reason.QUOTA_EXCEEDED,
        Reason.EXCEEDS_MAX_QUOTA,
        Reason.PRIORITY_EXCEEDS_MAX,
        Reason.PREEMPTED,
    }
)
"""Reasons of workloads that lack copies because an account admits no more."""
RECORDED: Final = 64
"""So many accounts are recorded in a decision with their generations."""
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
        sorted(
            (account for account in accounts if project in account.projects),
            key=lambda account: account.name,
        )
    )


def allows_unknown(accounts: Iterable[QuotaAccount]) -> bool:
    """Whether a workload may name a project that no account covers: always while there is no
    account, otherwise only where accounts without a parent say so and none says otherwise."""
    every = list(accounts)
    settings = {
        account.unknown_projects
        for account in every
        if not account.parent and account.unknown_projects is not None
    }
    return not every or settings == {True}


def charged(ask: Ask, accounts: Iterable[QuotaAccount]) -> Ask:
    """The ask with the defaults that accounts of its project charge for resources it does not
    request; of several accounts the highest. Quota and room use the same amounts."""
    speaking = accounts_of(ask.project, accounts)
    if not speaking:
        return ask
    shape = _with_defaults(ask.shape, speaking, ask.own)
    return ask if shape == ask.shape else replace(ask, shape=shape, own=None)


def _with_defaults(
    shape: PodShape, speaking: tuple[QuotaAccount, ...], own: Resources | None = None
) -> PodShape:
    if shape.parts:
        return PodShape.together(
            replace(part, shape=_with_defaults(part.shape, speaking)) for part in shape.parts
        )
    return replace(shape, requests=with_defaults(shape.requests, speaking, own))


def with_defaults(
    requests: Resources, speaking: Iterable[QuotaAccount], own: Resources | None = None
) -> Resources:
    """The requests, plus these accounts' defaults for what is not requested. `own`: the requests
    without those of a profile's containers, which are charged on top and are no request of the
    workload's."""
    assumed = Resources()
    for account in speaking:
        # The highest of each resource: every account is to be charged at least its own default.
        assumed = assumed.upper(ASSUMED if account.defaults is None else account.defaults)
    # A profile's containers request something for themselves; that is no word on the workload.
    asked = requests if own is None else own
    lacking = Resources({name: amount for name, amount in assumed.items() if name not in asked})
    return requests + lacking


def admit(
    ask: Ask, wanted: int, held: int, uses: Uses, *, own: Commitment | None, placed: Placed
) -> Admission:
    """How many of `wanted` copies are admitted; the `held` ones run already and are never taken
    back.

    `own`: what the workload is charged for in `uses`; `placed` excludes it. With RequireAll all are
    admitted, or none beyond those held.
    """
    tree = uses.tree
    refused = (
        "" if tree.free(ask.project, ask.key.namespace) else refusal(ask, tree.accounts.values())
    )
    speaking, path = tree.speaking(ask.project), tree.above(ask.project)
    generations = {name: tree.accounts[name].generation for name in path[:RECORDED]}
    if refused:
        return Admission(held, Reason.NOT_ALLOWED, refused, False, generations)
    best = _admission(UNLIMITED, unlimited=not speaking, generations=generations)
    charged, asked = tree.charged(ask.project), _asked(ask, wanted, held, own)
    # The lowest account first: of equal refusals the one nearest to the user is named.
    for name in path:
        account = tree.accounts[name]
        for admission in (
            _by_priority(ask, account, held),
            _by_concurrency(account, wanted, held, tree, placed),
            _by_resources(asked, name, uses) if name in charged else None,
        ):
            if admission is not None and admission.copies < best.copies:
                best = _admission(
                    admission.copies, admission.reason, admission.message, False, generations
                )
    return best


def barred(ask: Ask, wanted: int, held: int, tree: Tree, placed: Placed) -> bool:
    """Whether an account admits nothing beyond the `held` copies however much others leave: its
    priority is too high, or too many workloads are placed. `placed` as in `admit`."""
    return any(
        _by_priority(ask, account, held) or _by_concurrency(account, wanted, held, tree, placed)
        for account in map(tree.accounts.__getitem__, tree.above(ask.project))
    )


def refusal(ask: Ask, accounts: Collection[QuotaAccount]) -> str:
    """Why the workload may take nothing for its project, as a sentence; "" when it may. A namespace
    bound to an account may use only that account's projects, and a project of an account with
    namespaces only those namespaces. Does not mention other namespaces."""
    namespace = ask.key.namespace
    owners = sorted(
        (account for account in accounts if namespace in account.namespaces),
        key=lambda account: account.name,
    )
    if owners and not any(ask.project in account.projects for account in owners):
        owner = owners[0]
        return (
            f"namespace {namespace} is bound to FederatedQuota {owner.name} "
            "(spec.namespaces), projects: "
            f"{', '.join(sorted(owner.projects)) or 'none'}; project {ask.project} is not "
            "among them"
        )
    speaking = accounts_of(ask.project, accounts)
    if not speaking and not allows_unknown(accounts):
        return (
            f"no FederatedQuota has project {ask.project} (spec.projects), and no account without "
            "a parent allows projects that none has (spec.unknownProjects: Allow); `federator "
            "explain` prints both as commands"
        )
    for account in speaking:
        if account.namespaces and namespace not in account.namespaces:
            return (
                f"project {ask.project} belongs to FederatedQuota {account.name}, which does "
                "not admit it from "
                f"namespace {namespace} (spec.namespaces)"
            )
    return ""


def _by_priority(ask: Ask, account: QuotaAccount, held: int) -> Admission | None:
    if account.max_priority is None or ask.priority <= account.max_priority:
        return None
    return Admission(
        held,
        Reason.PRIORITY_EXCEEDS_MAX,
        f"FederatedQuota {account.name} allows priority up to {account.max_priority} "
        "(spec.maxPriority), "
        f"the workload asks for {ask.priority}",
    )


def _by_concurrency(
    account: QuotaAccount, wanted: int, held: int, tree: Tree, placed: Placed
) -> Admission | None:
    # What holds something counts already, and keeps its place.
    if account.max_concurrent is None or held > 0 or wanted <= 0:
        return None
    if sum(map(placed, _sharing(tree, account))) < account.max_concurrent:
        return None
    most = "1 workload" if account.max_concurrent == 1 else f"{account.max_concurrent} workloads"
    return Admission(
        0,
        Reason.QUOTA_EXCEEDED,
        f"FederatedQuota {account.name} allows {most} at a time {AT_ONCE}, and that many are"
        " placed",
    )


def _sharing(tree: Tree, account: QuotaAccount) -> Collection[str]:
    """The projects that count for an account: its own, and those of the accounts below it."""
    return (
        account.projects
        if tree.alone(account.name)
        else {*account.projects, *tree.under(account.name)}
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """`own`: what the workload is charged for already."""

    ask: Ask
    wanted: int
    held: int
    own: Commitment | None


_asked = quickly(_Asked)


def _by_resources(asked: _Asked, account: str, uses: Uses) -> Admission | None:
    ask = asked.ask
    tightest: tuple[int, str] | None = None
    for name in uses.tree.names(account, ask.tier):
        need = ask.shape.requests[name]
        if need <= 0 or (left := uses.left(account, ask.tier, name, asked.own)) is None:
            continue
        # Whole copies: part of one cannot run.
        fit = left // need
        if fit < asked.wanted and (tightest is None or fit < tightest[0]):
            tightest = fit, name
    if tightest is None:
        return None
    reason, message = _refusal(asked, account, tightest, uses)
    fit = tightest[0]
    # Less than all, or than the least that is enough, would hold quota without running.
    if ask.whole and not 0 < ask.least <= fit:
        fit = asked.held
    # A limit that was lowered takes nothing away: only growth is refused.
    return _admission(max(fit, asked.held), reason, message)


def _refusal(
    asked: _Asked, account: str, tightest: tuple[int, str], uses: Uses
) -> tuple[Reason, str]:
    """Why not all are admitted. `tightest`: the copies that fit, and the resource."""
    ask, wanted, (fit, name) = asked.ask, asked.wanted, tightest
    need = ask.shape.requests[name]
    limits = uses.limits(account, ask.tier, name, asked.own)
    # What can never fit is reported first: waiting would not help.
    never = [limit for limit in limits if need * wanted > limit.ever]
    binding = min(never or limits, key=lambda limit: limit.left)
    left = "" if never else ", and too little of it is left"
    each, needed = quantity.render_amount(name, need), quantity.render_amount(name, need * wanted)
    # With RequireAll the number that would fit is left out: it would only reveal the use of others.
    fits = "" if ask.whole else f", {fit} fit"
    return (
        Reason.EXCEEDS_MAX_QUOTA if never else Reason.QUOTA_EXCEEDED,
        f"FederatedQuota {allows(binding, account, ask.tier, name)}{left}: "
        f"{wanted} copies of {each} need {needed}{fits}",
    )


def allows(limit: Limit, account: str, tier: Tier, name: str) -> str:
    """What a limit allows to an account, as it is written: `ads allows 10 cpu (...)`. By what is
    written alone: nothing is said of what others use."""
    bound, field_name = limit.bound, f"spec.tiers.{tier}"
    amount = bound.stated or 0
    stated = quantity.render_amount(name, amount)
    if bound.field.startswith("borrowingLimit"):
        promised, more = (
            quantity.render_amount(name, part)
            for part in (bound.guaranteed or 0, amount - (bound.guaranteed or 0))
        )
        where = f"{promised} guaranteed and {more} borrowed, {field_name}.{bound.field}"
    elif bound.field:
        where = f"{field_name}.{bound.field}"
    else:
        where = f"the sum of {field_name}.guaranteed.{name} below it"
    if limit.account == account:
        return f"{account} allows {stated} {name} ({where})"
    most = quantity.render_amount(name, limit.ever)
    return (
        f"{limit.account}, above {account}, allows {stated} {name} ({where}), at most {most} of "
        f"it to {account}"
    )


def refuse_edit(
    edit: Edit, uses: Uses, *, own: Commitment | None, placed: Placed
) -> Admission | None:
    """Why an edit of running copies is not admitted, by the first account that refuses it; None
    when it is. `own` and `placed` as in `admit`. Only growth is judged: a workload above a limit
    may be edited as long as it does not grow."""
    ask, before, tree = edit.ask, edit.before, uses.tree
    if ask.project != before.project and (refused := refusal(ask, tree.accounts.values())):
        return Admission(0, Reason.NOT_ALLOWED, f"project {ask.project}, and {refused}")
    for name in tree.above(ask.project):
        account = tree.accounts[name]
        admission = None
        # A limit lowered since is no reason to refuse an edit that does not ask for more.
        if ask.priority > before.priority:
            admission = _by_priority(ask, account, 0)
        if admission is None and before.project not in _sharing(tree, account):
            admission = _by_concurrency(account, edit.kept, 0, tree, placed)
        if admission is not None:
            return replace(admission, message=f"{wish(edit)}, and {admission.message}")
        if name in tree.charged(ask.project) and (over := _over(edit, name, uses, own)):
            return Admission(0, Reason.QUOTA_EXCEEDED, over)
    return None


def wish(edit: Edit) -> str:
    """The changes of the edit that an account charges or bounds, in a few words."""
    ask, before = edit.ask, edit.before
    parts = [f"{edit.kept} running copies of {amounts(ask.shape.requests)}"]
    parts += (
        [f"project {ask.project} instead of {before.project}"]
        if ask.project != before.project
        else []
    )
    parts += [f"tier {ask.tier} instead of {before.tier}"] if ask.tier is not before.tier else []
    parts += (
        [f"priority {ask.priority} instead of {before.priority}"]
        if ask.priority > before.priority
        else []
    )
    return ", ".join(parts if len(parts) == 1 else parts[1:])


def _over(edit: Edit, account: str, uses: Uses, own: Commitment | None) -> str:
    """The first limit of the account that the edit would exceed, as a sentence; "" for none."""
    ask, before = edit.ask, edit.before
    same = account in uses.tree.charged(before.project) and before.tier is ask.tier
    for name in uses.tree.names(account, ask.tier):
        need = ask.shape.requests[name] * edit.kept
        # Not more of this resource than before, so this edit is not what exceeds the limit.
        if need <= 0 or (same and need <= before.shape.requests[name] * edit.running):
            continue
        limits = [limit for limit in uses.limits(account, ask.tier, name, own) if need > limit.left]
        if limits:
            binding = min(limits, key=lambda limit: (limit.ever >= need, limit.left))
            asks, each = (
                quantity.render_amount(name, amount) for amount in (need, ask.shape.requests[name])
            )
            left = "" if need > binding.ever else ", of which too little is left"
            return (
                f"{asks} {name} of project {ask.project} in tier {ask.tier} ({edit.kept} "
                f"running copies of {each}), and"
                f" FederatedQuota {_edited(binding, account, ask.tier, name)}{left}"
            )
    return ""


def _edited(limit: Limit, account: str, tier: Tier, name: str) -> str:
    """As `allows`, without the name of the resource where the account's own limit binds."""
    said = allows(limit, account, tier, name)
    return said.replace(f" {name} (", " (") if limit.account == account else said


def amounts(requests: Resources) -> str:
    """`cpu 2, memory 4Gi`; without pods."""
    shown = {name: amount for name, amount in quantity.render(requests).items() if name != PODS}
    return ", ".join(f"{name} {amount}" for name, amount in shown.items()) or "nothing"
