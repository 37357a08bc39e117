"""Quota admission in one scheduling cycle, before the cycle decides where.

Trees of accounts in which anything is guaranteed, or that say anything of order, domains or
preemption, are judged here (`managed`); of the others each decision takes what is left when it is
made (`quota.admit`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask, Tier
from federator.model.decision import TAKES, Reason
from federator.model.fleet import copies_of
from federator.model.kubernetes import quantity
from federator.model.resources import domain_of, resource_of
from federator.placement.contradictions import contradiction
from federator.placement.quota import quota
from federator.placement.quota.quota import Admission
from federator.placement.quota.tree import Tree
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.room.world import PENDING
from federator.placement.selection import candidates, neighbours
from federator.scheduling import editing
from federator.scheduling.admission import budgets, domains, edits, everywhere
from federator.scheduling.admission.admitting import Judged, Queues, Round, Status, age
from federator.scheduling.admission.budgets import NO_BUDGETS, Budgets
from federator.scheduling.admission.domains import Mode, Want
from federator.scheduling.admission.everywhere import is_everywhere
from federator.scheduling.admission.following import Following
from federator.scheduling.admission.holders import Victim
from federator.scheduling.admission.tree_holders import TreeHolders
from federator.scheduling.editing import Proposed
from federator.scheduling.entry import Entry


@dataclass(frozen=True, slots=True)
class Eviction:
    """A workload gives up copies for another."""

    uid: str
    copies: int
    whole: bool
    by: Ask
    why: str
    clusters: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> so many of them leave there; anywhere where none is named."""


@dataclass(slots=True)
class Admissions:
    """The decisions on quota."""

    rulings: dict[str, Admission] = field(default_factory=dict)
    """uid -> the most that it may get now."""
    held_back: dict[str, Admission] = field(default_factory=dict)
    """uid -> why an edit of what runs is not admitted now."""
    clusters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """uid -> the clusters of its domains; those that are not named here may be anywhere."""
    evictions: list[Eviction] = field(default_factory=list)
    """In the order in which they were told."""
    later: list[Ask] = field(default_factory=list)
    """Workloads that would have got something without what others get or reclaim in this cycle."""
    slowed: list[Ask] = field(default_factory=list)
    """Preemptors that would get more victims now without disruption budgets."""
    ending: set[str] = field(default_factory=set)
    """uids of those that have quota when pods that are terminating have ended."""
    claimed: dict[str, tuple[Ask, Mapping[str, int]]] = field(default_factory=dict)
    """uid -> the workload with a claim, and what is free of that by cell."""


def managed(tree: Tree, root: str) -> bool:
    """Whether a tree is judged here: several accounts of which any has a guarantee, or one that
    says anything of order, domains or preemption."""
    accounts = [tree.accounts[name] for name in tree.family(root)]
    if len(accounts) > 1 and any(
        said.guaranteed or said.withheld for account in accounts for said in account.tiers.values()
    ):
        return True
    return any(
        account.preemption.any or account.domains or account.strict or account.ordering is not None
        for account in accounts
    )


def run(
    entries: Sequence[Entry],
    commitments: Commitments,
    ledger: Ledger,
    claims: Sequence[Entry] = (),
    spare: Budgets = NO_BUDGETS,
) -> Admissions:
    """Judges the entries of all managed trees. Reads the ledger; charges nothing.

    `claims`: those for which others have left already, and which have not had their turn since.
    They are judged before the others, also where their turn is yet to come. Otherwise a workload
    that is due first, or first in the order, would take what was freed for them, and that may be
    the victim. Those that are not due preempt nothing now. `spare`: what workloads allow to leave
    of them at once.
    """
    staged = Admissions()
    if not ledger.snapshot.quotas:
        return staged
    tree = ledger.tree
    judged: dict[tuple[str, Tier], dict[str, Entry]] = {}
    edited: dict[str, Proposed] = {}
    barred: list[Entry] = []
    due = {entry.ask.uid for entry in entries}
    # Claims are judged although they are not due: a head would take what was freed for them.
    beside = [entry for entry in claims if entry.ask.uid not in due]
    claiming = frozenset(entry.ask.uid for entry in claims)
    for entry in (*entries, *beside):
        charged = tree.charged(entry.ask.project)
        if len(charged) != 1 or not _may_grow(entry):
            continue
        root = tree.path(charged[0])[-1]
        if _is_edit(entry) and not _edit_asks(entry, ledger, root, staged, edited):
            continue
        if not tree.free(entry.ask.project, entry.key.namespace) and quota.refusal(
            entry.ask, tree.accounts.values()
        ):
            continue
        if entry.ask.uid not in edited and ledger.barred(entry.ask, entry.ask.at_once, entry.held):
            barred.append(entry)  # nobody leaves for it
            continue
        if managed(tree, root):
            judged.setdefault((root, entry.ask.tier), {})[entry.ask.uid] = entry
    # Trees and tiers share no quota; sorted only so that messages and evictions come in the same
    # order.
    for (root, tier), heads in sorted(judged.items()):
        contest = _Tree(root, tier, heads, commitments, ledger, spare=spare, edited=edited)
        contest.round.claiming = claiming
        contest.run(staged)
    staged.evictions = [leaves for leaves in staged.evictions if leaves.by.uid in due]
    if staged.evictions:
        _bar(barred, ledger, staged)
    return staged


def _edit_asks(
    entry: Entry, ledger: Ledger, root: str, staged: Admissions, edited: dict[str, Proposed]
) -> bool:
    """Whether an edit has to be judged: noted in `edited` where it asks for more than before."""
    by_domain = bool(domains.of_tree(ledger.tree, root))
    if managed(ledger.tree, root):
        asked = edits.proposed(entry, ledger, domains=by_domain)
        if asked is not None:
            edited[entry.ask.uid] = asked
            return True
    if by_domain and (held := entry.held):
        _no_more(entry, held, staged)
        return False
    return by_domain


def _bar(barred: Iterable[Entry], ledger: Ledger, staged: Admissions) -> None:
    """Victims may free quota of an account that bars these workloads, but it is freed for another:
    they are judged in the next cycle."""
    for entry in barred:
        ask = entry.ask
        staged.rulings[ask.uid] = ledger.admission(ask, ask.at_once, entry.held)
        staged.later.append(ask)


def _may_grow(entry: Entry) -> bool:
    """Whether it may ask for more than it has."""
    ask = entry.ask
    if entry.refused is not None or entry.native or ask.suspended or entry.standing.ended:
        return False
    return not contradiction(ask)


def _is_edit(entry: Entry) -> bool:
    """Whether what runs of it was admitted as something else. Until its edit is, it gets no copies
    beyond these. One that only asks for more copies, or fewer, is no edit in that sense."""
    ask, admitted = entry.ask, entry.standing.admitted
    if admitted is None or not entry.standing.held:
        return False
    if not editing.may_ask_for_more(ask, admitted, entry.standing.support):
        return False
    before = (admitted.project, admitted.tier, admitted.shape.requests)
    return before != (ask.project, ask.tier, ask.shape.requests)


def _no_more(entry: Entry, copies: int, staged: Admissions, *, soon: bool = True) -> None:
    """What an edit asks for besides so many copies is judged when these are charged by it: only
    here is anything known of domains. `soon`: that is in the next cycle."""
    if is_everywhere(entry.ask) or entry.ask.at_once > copies:
        message = "its edit goes before further copies (spec.domains)"
        staged.rulings[entry.ask.uid] = Admission(copies, Reason.QUOTA_EXCEEDED, message)
        if soon:
            staged.later.append(entry.ask)


class _Tree:
    def __init__(
        self,
        root: str,
        tier: Tier,
        heads: Mapping[str, Entry],
        commitments: Commitments,
        ledger: Ledger,
        *,
        spare: Budgets,
        edited: Mapping[str, Proposed],
    ) -> None:
        self.tree, self.tier = ledger.tree, tier
        self.edited = edited
        self.ledger, self.heads = ledger, heads
        self.domains = domains.of_tree(self.tree, root)
        self.commitments = commitments
        self.got: dict[str, int] = {}
        """uid -> copies that were admitted in earlier rounds of this cycle."""
        held = TreeHolders.of(ledger, root, tier, commitments, named=self.domains, spare=spare)
        self.within, self._domains_of = held.within, held.domains_of
        self.places = edits.TierDomains(held.domains_of, held.limited)
        self.round = Round.of(self.tree, root, tier, held.holders())
        self.round.terminating = held.terminating()

    def run(self, staged: Admissions) -> None:
        wants = ((uid, want) for uid, entry in self.heads.items() for want in self._wants(entry))
        growing = [
            (uid, want)
            for uid, want in wants
            if (
                uid in self.edited
                or uid in self.round.claiming
                or not self._lacks_only_room(self.heads[uid], want)
            )
        ]
        queues = Queues(
            sorted(growing, key=lambda pair: self._place(*pair)),
            lambda node: self._account(node).strict,
        )
        yields = True
        while heads := queues.heads():
            verdicts = self.round.run(heads, queues.behind if yields else None)
            judged = {
                uid: verdict
                for uid, verdict in verdicts.items()
                if verdict.status is not Status.SKIPPED
            }
            for uid, verdict in judged.items():
                self._judged(uid, heads[uid], verdict, queues, staged)
            yields = bool(judged) or queues.hurry(self.round.covered)

    def _account(self, node: str) -> QuotaAccount:
        return self.tree.accounts[self.round.usage.account[node]]

    def _judged(
        self, uid: str, want: Want, verdict: Judged, queues: Queues, staged: Admissions
    ) -> None:
        """Notes what the first of an account got, and goes on to the next."""
        node, account = want.node, self._account(want.node)
        self._note(uid, want, verdict, staged)
        queues.judged(node, self._rest(uid, want, verdict))
        if want.there:
            self._sum_up(uid, verdict, staged)
        waits = verdict.status is not Status.ADMITTED and uid not in self.edited
        if account.strict and waits:
            for other, later in queues.stop(node):
                if other == uid:  # the rest of what is everywhere
                    continue
                self._wait(other, later, _behind(account, self.heads[uid].ask), staged)

    def _place(self, uid: str, want: Want) -> tuple[bool, tuple[int, float, str]]:
        """Its place among those of its account. What others have left for one of them, and is free,
        is its own before those that are in the order before it: if these were judged first, the
        victim would take it back."""
        claims = uid in self.round.claiming and self.round.is_free(want)
        return not claims, age(want, uid)

    def _rest(self, uid: str, want: Want, verdict: Judged) -> Want | None:
        """What of a workload is judged in the next round, because only what is guaranteed to its
        account was in this one. What has a domain by now gets no more in another."""
        assignment = verdict.assignment
        copies = want.copies - assignment.copies
        admitted = verdict.status is Status.ADMITTED
        apart = bool(assignment.height or assignment.domains) or want.cells is not None
        if not admitted or copies <= 0 or apart:
            return None
        self.got[uid] = self.got.get(uid, 0) + assignment.copies
        return replace(want, copies=copies, least=1)

    def _sum_up(self, uid: str, verdict: Judged, staged: Admissions) -> None:
        """What is everywhere is admitted part by part, and is decided on as a whole."""
        if verdict.status is Status.ADMITTED:
            self.got[uid] = self.got.get(uid, 0) + verdict.assignment.copies
        if (ruling := staged.rulings.get(uid)) is not None:
            copies = self.heads[uid].held + self.got.get(uid, 0)
            staged.rulings[uid] = replace(ruling, copies=copies)

    def _wants(self, entry: Entry) -> Iterator[Want]:
        """What an entry lacks; nothing when its account is not of this tree."""
        ask = entry.ask
        node = self.round.usage.leaf(ask.project)
        if node is None:
            return
        if ask.uid in self.edited:
            edit = self.edited[ask.uid]
            yield edits.want(edit, node, self.commitments, self.ledger, self.places)
        elif is_everywhere(ask):
            yield from everywhere.wants(entry, node, self.commitments, self.ledger, self.places)
        elif (want := self._want(entry, node)) is not None:
            yield want

    def _want(self, entry: Entry, node: str) -> Want | None:
        """What one that is divided lacks; None when nothing."""
        ask = entry.ask
        held = entry.held
        copies = ask.at_once - held
        if copies <= 0:
            return None
        least = 1
        if ask.whole or ask.policy.require_all:
            least = copies if not ask.least else max(min(ask.least - held, copies), 1)
        near = neighbours.followed(ask, self.ledger)
        following = Following(ask, near, self.commitments, self.ledger)
        return Want(
            node,
            ask.priority,
            ask.created_s,
            ask.shape.requests,
            copies,
            least,
            partial(self._allowed, entry, {}),
            follows=following.uids,
            helped=partial(self._may_begin, following, least),
            whence=following.whence,
        )

    def _may_begin(
        self, following: Following, least: int, victims: tuple[Victim, ...], _: int
    ) -> bool:
        """Whether it could begin at all, in empty clusters: otherwise its victims would leave and
        come back, again and again."""
        if not victims:
            return True
        ask, opened = following.ask, following.open_clusters(victims)
        # Empty clusters: whether present copies make room is not known before victims are decided
        # on. Only what could never begin is ruled out.
        takes = [self.ledger.could_take(name, ask.shape) for name in opened]
        together = ask.policy.division.max_clusters == 1
        return (max(takes, default=0) if together else sum(takes)) >= least

    def _lacks_only_room(self, entry: Entry, want: Want) -> bool:
        """Whether it has quota and no cluster has room for it. Then it needs no victims, and it
        uses up nothing for those after it. Otherwise these would preempt others, which would come
        back in the next cycle, and leave again. In a strict account it holds up the others; one
        with a claim does so while that lasts, over all cycles.
        """
        ask, node = entry.ask, want.node
        if self.tree.accounts[self.round.usage.account[node]].strict or ask.shape.every_node:
            return False
        judged = candidates.places(ask, self.ledger.snapshot, self.ledger)
        rooms = [
            self.ledger.room(name, ask.shape)
            for name, place in judged.items()
            if place.refusal is None
        ]
        # Only the member can tell whether there is room, so room is not all that it lacks.
        if PENDING in rooms:
            return False
        if want.there:
            rooms = [*everywhere.rooms(want, ask, self.ledger).values()]
        together = ask.policy.division.max_clusters == 1
        room = max(rooms, default=0) if together else sum(rooms)
        return room < want.least and (
            domains.assign(want, want.least, self.round.usage, domains.nobody).mode is Mode.FREE
        )

    def _allowed(self, entry: Entry, places: dict[str, frozenset[str]], domain: str) -> bool:
        """Whether the workload may be in clusters of a domain: where it has copies already, only in
        one that has all these."""
        if "" not in places:
            judged = candidates.places(entry.ask, self.ledger.snapshot, self.ledger)
            places[""] = frozenset(name for name, place in judged.items() if place.refusal is None)
        within = self.within.get(domain, frozenset())
        holds = {holding.cluster for holding in entry.standing.held if copies_of(holding)}
        # Copies do not move for quota: those that run decide the domain.
        return holds <= within if holds else bool(within & places[""])

    def _note(self, uid: str, want: Want, verdict: Judged, staged: Admissions) -> None:
        entry, assignment = self.heads[uid], verdict.assignment
        if want.node in self.round.slowed and verdict.status is Status.PENDING:
            staged.slowed.append(entry.ask)
        if verdict.ends:
            staged.ending.add(uid)
        if assignment.domains and verdict.status is Status.ADMITTED:
            inside = frozenset.intersection(*(self.within[name] for name in assignment.domains))
            if not inside:
                names = " and ".join(assignment.domains)
                self._wait(uid, want, f"no cluster is in the domains {names}", staged)
                return
            staged.clusters[uid] = tuple(sorted(inside))
        if verdict.status is Status.ADMITTED:
            if uid in self.round.claiming:
                _, before = staged.claimed.get(uid, (entry.ask, Counter[str]()))
                staged.claimed[uid] = entry.ask, Counter(before) + Counter(assignment.needs)
            if not want.there:
                staged.rulings.pop(uid, None)
            if uid in self.edited:
                if self.domains:
                    staged.clusters[uid] = self._around(self.edited[uid])
                    _no_more(entry, self.edited[uid].edit.kept, staged)
                return
            if assignment.copies < want.copies or assignment.domains:
                self._rule(entry, want, assignment.copies, self._short(want, verdict), staged)
            return
        if verdict.later:
            staged.later.append(entry.ask)
        if verdict.status is Status.PREEMPTING:
            staged.evictions += self._leaves(uid, want, verdict.victims)
        self._wait(uid, want, self._short(want, verdict), staged)

    def _leaves(self, uid: str, want: Want, victims: Sequence[Victim]) -> Iterator[Eviction]:
        by, commitments = self.heads[uid].ask, self.commitments
        for victim, there in want.whence(victims):
            commitment = commitments.commitment(victim.holder.workload)
            whole = commitment is not None and commitment.whole
            copies = commitment.copies if whole and commitment is not None else victim.copies
            clusters: Mapping[str, int] = budgets.spread(victim.holder.clusters, copies)
            if there is not None and not whole:
                clusters = there
            yield Eviction(victim.holder.workload, copies, whole, by, str(victim.why), clusters)

    def _around(self, edit: Proposed) -> tuple[str, ...]:
        """The clusters in which edited copies may be: what they ask for more is had in the domains
        in which they are."""
        at = {self._domains_of(cluster) for cluster in edit.mine}
        if len(at) > 1 or () in at:
            return tuple(sorted(edit.mine))
        return tuple(
            cluster
            for cluster in sorted(self.ledger.snapshot.clusters)
            if self._domains_of(cluster) in at
        )

    def _wait(self, uid: str, want: Want, message: str, staged: Admissions) -> None:
        if uid in self.edited:
            staged.held_back[uid] = Admission(0, Reason.QUOTA_EXCEEDED, message)
            if self.domains:
                _no_more(self.heads[uid], self.heads[uid].held, staged, soon=False)
            return
        self._rule(self.heads[uid], want, 0, message, staged)

    def _rule(self, entry: Entry, want: Want, more: int, message: str, staged: Admissions) -> None:
        held = entry.held + self.got.get(entry.ask.uid, 0)
        judged = self.ledger.admission(entry.ask, held + want.copies, held)
        copies = held + more
        if copies >= held + want.copies:
            return
        reason = judged.reason if judged.reason is not Reason.CHOSEN else Reason.QUOTA_EXCEEDED
        said = message or judged.message or self._overtaken(want)
        staged.rulings[entry.ask.uid] = Admission(copies, reason, said)

    def _overtaken(self, want: Want) -> str:
        """Why a workload waits although the account's limits would admit it now."""
        account, needs = self.round.usage.account[want.node], want.each * want.copies
        amounts = (
            f"{quantity.render_amount(name, needs[name])} {name}"
            for name in self.tree.names(account, self.tier)
            if needs[name] > 0
        )
        return (
            f"FederatedQuota {account} has less than {' and '.join(amounts)} left for it after what"
            " workloads before it in the order got, take back or wait for"
        )

    def _short(self, want: Want, verdict: Judged) -> str:
        """Why not all is admitted, beyond what the account's own limits say: "" when they do."""
        account, assignment = self.round.usage.account[want.node], verdict.assignment
        if verdict.victims:
            count = len(verdict.victims)
            leave = "1 workload leaves" if count == 1 else f"{count} workloads leave"
            return f"FederatedQuota {account}{TAKES} for it from others: {leave} (spec.preemption)"
        if want.node in self.round.slowed:
            return (
                f"FederatedQuota {account}{TAKES} for it from others, as their disruption budgets"
                " allow (spec.disruptionBudget of those that leave)"
            )
        if verdict.later:
            return (
                f"FederatedQuota {account} has too little left after what others before it in the"
                " order got or take back"
            )
        short = sorted(assignment.short) or sorted(assignment.needs)
        if assignment.mode is Mode.NEVER and not assignment.needs:
            return f"FederatedQuota {account} has no domain of clusters for what it requests"
        in_domains = [name for name in short if domain_of(name)]
        if not in_domains:
            return ""
        name = in_domains[0]
        need = quantity.render_amount(resource_of(name), assignment.needs[name])
        return (
            f"FederatedQuota {account} has less than {need} {resource_of(name)} for it in"
            f" {domain_of(name)} (spec.domains)"
        )


def _behind(account: QuotaAccount, first: Ask) -> str:
    return (
        f"FederatedQuota {account.name} is strict (spec.queueing: StrictFIFO), and {first.key}"
        " before it waits"
    )


def restricted(ask: Ask, clusters: tuple[str, ...]) -> Ask:
    """The ask where only these clusters are open to it."""
    policy = ask.policy
    named = set(policy.names)
    names = tuple(name for name in clusters if not named or name in named)
    return replace(ask, policy=replace(policy, names=names or ("",)))
