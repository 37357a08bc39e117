"""Why a workload is where it is, and the smallest changes that would place what is missing.

Off the hot path: the decision is made again on a ledger of its own, then tried with one thing changed at a time (a
cluster opened, a quota raised, a smaller request, a looser policy). Nothing is charged, nothing is written, and the
number of trials is bounded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from federator.model import quantity, shards
from federator.model.ask import Ask, Strategy, Unit
from federator.model.decision import Decision, Reason
from federator.model.fleet import ClusterView, FleetSnapshot, Holding, QuotaAccount, TierQuota
from federator.model.resources import PODS, ZERO, Resources
from federator.model.shards import Ranges
from federator.model.taints import Toleration
from federator.placement import candidates, engine, filters, quota
from federator.placement.books import Books

MAX_TRIALS: Final = 96
MAX_CLUSTERS_TRIED: Final = 16
STEPS: Final = 64


@dataclass(frozen=True, slots=True)
class Row:
    """One cluster's part in the split."""

    cluster: str
    held: int
    room: int | None
    """Further copies that fit; None while the member has not answered."""
    cap: int
    weight: int
    domains: tuple[str, ...]
    got: int
    largest: Resources
    """The most of each requested resource that is free on one node."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change that places `gains` more of what is missing; `field` is where to make it."""

    field: str
    message: str
    gains: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """`decision` has the full verdict table; `arithmetic` tells the split in sentences; `remedies` are ordered by what
    they gain, then by how little they change."""

    decision: Decision
    missing: int
    rows: tuple[Row, ...]
    arithmetic: tuple[str, ...]
    remedies: tuple[Remedy, ...]


def explain(
    ask: Ask,
    held: Sequence[Holding],
    snapshot: FleetSnapshot,
    books: Books,
    *,
    previous_hash: str = "",
    finished: Ranges = (),
) -> Explanation:
    """Decides afresh and looks for remedies; the books stay as they are."""
    trials = _Trials(ask, tuple(held), snapshot, books, previous_hash=previous_hash, finished=finished)
    decision = trials.decide(ask, snapshot)
    missing = trials.missing(ask, decision)
    rows = _rows(ask, held, snapshot, books, decision)
    remedies = tuple(sorted(_remedies(trials, decision, missing), key=lambda one: (-one.gains, one.field, one.message)))
    return Explanation(decision, missing, rows, _arithmetic(ask, rows, decision), remedies if missing else ())


class _Trials:
    """Asks the engine again with something changed, a bounded number of times."""

    def __init__(
        self,
        ask: Ask,
        held: tuple[Holding, ...],
        snapshot: FleetSnapshot,
        books: Books,
        *,
        previous_hash: str,
        finished: Ranges,
    ) -> None:
        self.ask, self.held, self.snapshot, self.books = ask, held, snapshot, books
        self.previous_hash, self.finished = previous_hash, finished
        self.left = MAX_TRIALS
        self.seq = max((one.seq for one in held), default=0) + 1

    def decide(self, ask: Ask, snapshot: FleetSnapshot) -> Decision:
        self.left -= 1
        ledger = self.books.open(snapshot)
        return engine.decide(
            ask,
            self.held,
            snapshot,
            ledger,
            seq=self.seq,
            previous_hash=self.previous_hash,
            finished=self.finished,
        )

    def missing(self, ask: Ask, decision: Decision) -> int:
        """Copies, or for shards the slots and what cannot be assigned at all."""
        if ask.unit is Unit.REPLICAS:
            return decision.shortfall
        unfinished = shards.size(shards.minus(((0, ask.count - 1),), self.finished)) if ask.count > 0 else 0
        return max(min(ask.slots, unfinished) - sum(one.got for one in decision.verdicts), 0)

    def with_ask(self, ask: Ask) -> int:
        return self.missing(ask, self.decide(ask, self.snapshot))

    def with_snapshot(self, snapshot: FleetSnapshot) -> int:
        return self.missing(self.ask, self.decide(self.ask, snapshot))


def _remedies(trials: _Trials, decision: Decision, missing: int) -> Iterator[Remedy]:
    if missing <= 0 or decision.reason in (Reason.SUSPENDED, Reason.MISCONFIGURED):
        return
    for search in (_opened_clusters, _raised_quotas, _looser_policies, _smaller_requests):
        for remedy in search(trials, missing):
            if remedy.gains > 0:
                yield remedy
            if trials.left <= 0:
                return


def _opened_clusters(trials: _Trials, missing: int) -> Iterator[Remedy]:
    """Each closed cluster with the one thing that closes it lifted."""
    tried = 0
    for name in sorted(trials.snapshot.clusters):
        view = trials.snapshot.clusters[name]
        opened = _opened(trials.ask, view)
        if opened is None or tried >= MAX_CLUSTERS_TRIED:
            continue
        tried += 1
        field, message, other_view, other_ask = opened
        clusters = {**trials.snapshot.clusters, name: other_view}
        left = trials.missing(other_ask, trials.decide(other_ask, replace(trials.snapshot, clusters=clusters)))
        yield Remedy(field, f"{message} (+{missing - left})", missing - left)


def _opened(ask: Ask, view: ClusterView) -> tuple[str, str, ClusterView, Ask] | None:
    refusal = filters.refusal(ask, view)
    if refusal is None:
        return None
    match refusal.reason:
        case Reason.CORDONED:
            return "MemberCluster.spec.cordoned", f"uncordon {view.name}", replace(view, cordoned=False), ask
        case Reason.CLUSTER_UNHEALTHY:
            return f"MemberCluster {view.name}", f"{view.name} becomes ready", replace(view, ready=True), ask
        case Reason.CLUSTER_STALE if view.capacity is not None:
            return f"MemberCluster {view.name}", f"{view.name} reports again", replace(view, stale=False), ask
        case Reason.TAINTED:
            tolerations = tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in view.taints)
            policy = replace(ask.policy, tolerations=(*ask.policy.tolerations, *tolerations))
            named = ", ".join(str(taint) for taint in view.taints)
            return "spec.tolerations", f"tolerate {named} of {view.name}", view, replace(ask, policy=policy)
        case _:
            return None


def _raised_quotas(trials: _Trials, missing: int) -> Iterator[Remedy]:
    """Each account raised to just what is needed."""
    ask = trials.ask
    wanted = trials.decide(ask, replace(trials.snapshot, quotas=()))
    copies = sum(one.got for one in wanted.verdicts)
    for account in quota.accounts_of(ask.project, trials.snapshot.quotas):
        raised, texts = _raised(ask, account, copies, trials.books)
        if not texts:
            continue
        quotas = tuple(raised if one is account else one for one in trials.snapshot.quotas)
        left = trials.with_snapshot(replace(trials.snapshot, quotas=quotas))
        message = f"FederatedQuota {account.name}: {', '.join(texts)} (+{missing - left})"
        yield Remedy(f"FederatedQuota {account.name}", message, missing - left)


def _raised(ask: Ask, account: QuotaAccount, copies: int, books: Books) -> tuple[QuotaAccount, list[str]]:
    tier = account.tiers.get(ask.tier)
    texts: list[str] = []
    raised = account
    if account.max_priority is not None and ask.priority > account.max_priority:
        texts.append(f"maxPriority {account.max_priority} -> {ask.priority}")
        raised = replace(raised, max_priority=ask.priority)
    placed = sum(books.placed(project) for project in account.projects)
    if account.max_concurrent is not None and placed >= account.max_concurrent:
        texts.append(f"maxConcurrentWorkloads {account.max_concurrent} -> {placed + 1}")
        raised = replace(raised, max_concurrent=placed + 1)
    if tier is None:
        return raised, texts
    own = books.commitment(ask.uid)
    limits: dict[str, int] = {}
    for name, field, limit in quota.limits(tier):
        used = sum(books.usage(project, ask.tier)[name] for project in account.projects)
        if own is not None and own.project in account.projects and own.tier is ask.tier:
            used -= own.usage[name]
        limits[name] = max(limit, used + copies * ask.shape.requests[name])
        if limits[name] > limit:
            old, new = (quantity.render_amount(name, amount) for amount in (limit, limits[name]))
            texts.append(f"tiers.{ask.tier}.{field}.{name} {old} -> {new}")
    raised = replace(raised, tiers={**account.tiers, ask.tier: TierQuota(maximum=Resources(limits))})
    return raised, texts


def _looser_policies(trials: _Trials, missing: int) -> Iterator[Remedy]:
    """Each bound of the policy lifted; where a number bounds, the smallest that gains as much."""
    ask, plan = trials.ask, trials.ask.policy.division

    def with_division(**changes: object) -> Ask:
        return replace(ask, policy=replace(ask.policy, division=replace(plan, **changes)))  # type: ignore[arg-type]

    if plan.max_per_cluster is not None:
        best = trials.with_ask(with_division(max_per_cluster=None))
        if best < missing:
            most = _least(
                plan.max_per_cluster + 1,
                max(ask.count, plan.max_per_cluster + 1),
                lambda value: trials.with_ask(with_division(max_per_cluster=value)) <= best,
            )
            text = f"maxPerCluster {plan.max_per_cluster} -> {most} (+{missing - best})"
            yield Remedy("spec.division.maxPerCluster", text, missing - best)
    if plan.min_per_cluster > 0:
        gains = missing - trials.with_ask(with_division(min_per_cluster=0))
        yield Remedy("spec.division.minPerCluster", f"minPerCluster {plan.min_per_cluster} -> 0 (+{gains})", gains)
    if plan.max_clusters is not None:
        gains = missing - trials.with_ask(with_division(max_clusters=None))
        yield Remedy("spec.division.maxClusters", f"maxClusters {plan.max_clusters} -> none (+{gains})", gains)
    if any(rule.hard for rule in ask.policy.spread):
        soft = tuple(replace(rule, hard=False) for rule in ask.policy.spread)
        gains = missing - trials.with_ask(replace(ask, policy=replace(ask.policy, spread=soft)))
        yield Remedy("spec.spread", f"whenUnsatisfiable DoNotSchedule -> ScheduleAnyway (+{gains})", gains)
    if ask.policy.require_all:
        gains = missing - trials.with_ask(replace(ask, policy=replace(ask.policy, require_all=False)))
        yield Remedy("spec.partial", f"partial RequireAll -> Allow (+{gains})", gains)
    if plan.strategy is Strategy.WEIGHTED and plan.weights:
        gains = missing - trials.with_ask(with_division(strategy=Strategy.CAPACITY))
        yield Remedy("spec.division.strategy", f"strategy Weighted -> Capacity (+{gains})", gains)


def _smaller_requests(trials: _Trials, missing: int) -> Iterator[Remedy]:
    """For each resource the largest smaller request with which everything fits. Only shapes that the hub can judge."""
    ask = trials.ask
    if not ask.shape.plain:
        return
    for name, amount in ask.shape.requests.items():
        if name == PODS:
            continue

        def fits_all(step: int, name: str = name, amount: int = amount) -> bool:
            requests = Resources({**ask.shape.requests, name: _reduced(amount, step)})
            return trials.with_ask(replace(ask, shape=replace(ask.shape, requests=requests))) == 0

        if amount <= 1 or trials.left < 12 or not fits_all(STEPS):
            continue
        smaller = _reduced(amount, _least(1, STEPS, fits_all))
        old, new = (quantity.render_amount(name, value) for value in (amount, smaller))
        yield Remedy(f"requests.{name}", f"{name} request {old} -> {new} (+{missing})", missing)


def _reduced(amount: int, step: int) -> int:
    """The amount less `step` of STEPS parts; the last step leaves a sixteenth."""
    return max(amount - amount * step * 15 // (16 * STEPS), 1)


def _least(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """The smallest value in low..high that is enough, taking `high` as enough."""
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _rows(
    ask: Ask, held: Sequence[Holding], snapshot: FleetSnapshot, books: Books, decision: Decision
) -> tuple[Row, ...]:
    ledger = books.open(snapshot)
    eligible = candidates.places(ask, snapshot, ledger)
    found = candidates.candidates(ask, {one.cluster: one for one in held}, eligible, ledger, by_name=False)
    got = {one.cluster: one.got for one in decision.verdicts}
    return tuple(
        Row(
            one.name,
            one.held,
            None if one.pending else one.room,
            one.cap,
            one.weight,
            one.place.domains,
            got.get(one.name, 0),
            _largest(ask, one.place.view),
        )
        for one in found
    )


def _largest(ask: Ask, view: ClusterView) -> Resources:
    largest = ZERO
    for row in view.capacity.rows if view.capacity is not None else ():
        largest = largest.upper(Resources({name: row.free[name] for name in ask.shape.requests}))
    return largest


def _arithmetic(ask: Ask, rows: Sequence[Row], decision: Decision) -> tuple[str, ...]:
    strategy, total = ask.policy.division.strategy, sum(row.weight for row in rows)
    lines = [f"strategy {strategy}: {decision.wanted} wanted over {len(rows)} clusters, weights sum up to {total}"]
    for row in rows:
        room = "not yet known" if row.room is None else str(row.room)
        amounts = [(name, row.largest[name]) for name, _ in ask.shape.requests.items()]
        free = ", ".join(f"{name} {quantity.render_amount(name, amount)}" for name, amount in amounts) or "nothing"
        lines.append(
            f"{row.cluster}: weight {row.weight}, held {row.held}, room for {room} more, at most {row.cap}, "
            f"gets {row.got}; most free on one node: {free}"
        )
    return tuple(lines)
