"""Writes FederatedQuota.status: what accounts use, which workloads lack quota, and what is wrong
with an account.

Use is a sum over decisions; it is summed once until decisions change, and written at intervals.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from federator.api import federatedquota, memberfields, raw
from federator.hub.cache.router import MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model import resources
from federator.model.accounts import QuotaAccount
from federator.model.ask import Tier
from federator.model.kubernetes import diffs
from federator.model.resources import ZERO, Resources
from federator.placement.quota import accounts
from federator.placement.quota.domain_usage import usage_with_domains
from federator.placement.quota.quota import BY_QUOTA
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Usage, Uses
from federator.status import conditions
from federator.status.conditions import Condition

ACCOUNT_S: Final = 3.0
"""Seconds between two writes of what accounts use: it is for users, decisions read the
commitments."""


class QuotaStatus(Controller):
    """Writes the status of FederatedQuotas."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[str] = self.new_queue("accounts")
        self._offered: dict[str, Resources] = {}
        """Member -> what its nodes have for the federation, as last reported."""
        self._short: Mapping[str, int] | None = None
        """Project -> workloads that lack copies because of a quota; None: to be counted."""
        self._usage: Usage | None = None
        """What projects use; None: to be summed."""
        self.state.signals.on_member(MemberTurn.REPORT, self.note_offered)
        self.state.signals.booked.append(self.count_all)

    async def run(self) -> None:
        """Serves the queue until cancelled."""
        await self.queue.run(self.account, workers=2)

    def count_all(self) -> None:
        """Decisions changed, and perhaps what accounts use."""
        self._short = self._usage = None
        for name in sorted(self.state.quotas):
            self.queue.add_after(name, ACCOUNT_S)

    async def account(self, name: str) -> None:
        """Brings the status of one FederatedQuota up to date: the use of its projects, summed over
        decisions."""
        account = self.state.quotas.get(name)
        if account is None or not self.state.ready:
            return
        ref = registry.KINDS["FederatedQuota"].ref("", name)
        try:
            obj = await self.host.get(ref)
        except errors.NotFound:
            return
        every = tuple(account for _, account in sorted(self.state.quotas.items()))
        tree = self.state.commitments.tree(every)
        uses, projects = Uses(tree, self._usage_in(tree)), tree.under(name)
        usage = {
            tier: {
                resource: balances[name]
                for resource, balances in uses.balances(tree.path(name)[-1], tier).items()
            }
            for tier in Tier
        }
        status = federatedquota.to_status(
            account,
            usage,
            sum(map(self.state.commitments.placed, projects)),
            sum(self._short_of_quota().get(project, 0) for project in projects),
            self.state.commitments.terminating_in(set(tree.own(name))),
            alone=tree.alone(name),
        )
        live = obj.get("status") or {}
        status["conditions"] = conditions.merge(
            live.get("conditions"),
            (self._validity(account, tree),),
            self.clock.rfc3339(),
            (federatedquota.VALID,),
        )
        kept = {field: value for field, value in live.items() if field != "waiting"}
        patch = diffs.replacement_patch(live, {**kept, **status})
        if patch:
            version = obj["metadata"]["resourceVersion"]
            body = {"metadata": {"uid": account.uid, "resourceVersion": version}, "status": patch}
            await self.host.patch(ref, body, subresource="status")

    def _usage_in(self, tree: Tree) -> Usage:
        """What projects use, in the domains of their trees too: summed once until decisions
        change."""
        if self._usage is None:
            clusters = {
                name: raw.text_map(member.obj, "metadata", "labels")
                for name, member in self.state.members.items()
            }
            held = self.state.commitments
            self._usage = usage_with_domains(held.usage, held, tree, clusters)
        return self._usage

    def _short_of_quota(self) -> Mapping[str, int]:
        if self._short is None:
            self._short = Counter(
                record.terms.project
                for record in self.state.records.values()
                if record.terms.reason in BY_QUOTA
            )
        return self._short

    def _validity(self, account: QuotaAccount, tree: Tree) -> Condition:
        """The condition that says what is wrong with an account: the gravest reason, and all
        sentences."""
        capacity = resources.total(self._offered.get(member, ZERO) for member in self.state.members)
        troubles = accounts.troubles(account, tree, capacity)
        if not troubles:
            return Condition(federatedquota.VALID, conditions.TRUE, "Valid", "", account.generation)
        said = "; ".join(trouble.message for trouble in troubles)
        return Condition(
            federatedquota.VALID, conditions.FALSE, troubles[0].reason, said, account.generation
        )

    def note_offered(self, member: Member) -> None:
        """Records what a member's nodes have; what accounts promise and name is checked again."""
        offered = ZERO
        if member.contents.report is not None:
            usable = memberfields.usable_permille(raw.text(member.obj, "spec", "usable"))
            has = member.contents.report.capacity.allocatable
            offered = has.scaled(usable).upper(Resources(dict.fromkeys(has, 1)))  # the names stay
        if self._offered.get(member.name, ZERO) != offered:
            self._offered[member.name] = offered
            self.count_all()
