"""Proves that members hold nothing of a workload any more; not having seen it is no proof.

A watch can fall silent before an earlier leader creates a slice. Until the next probes fail, its
member looks reachable and empty. Finalizing therefore releases a decision only when for every
member that it names the slice was seen to go, or the member itself confirms that there is none.
"""

import logging

from federator.hub.cache.state import HubState
from federator.hub.deletion.release import ending_step
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.hub.records import slices
from federator.hub.records.decisions import Record
from federator.kinds import registry
from federator.kube import errors

log = logging.getLogger(__name__)


class AbsenceProof:
    """What has been proven so far, by the uid of a decision. Used by finalizing only."""

    def __init__(self, state: HubState) -> None:
        self.state = state
        self._proven: dict[str, set[str]] = {}

    def seen(self, record: Record, cluster: str) -> None:
        """This process has seen the slice there, so it will also see it go."""
        self._proven.setdefault(record.uid, set()).add(cluster)

    def forget(self, uid: str) -> None:
        """The decision is gone."""
        self._proven.pop(uid, None)

    async def unproven(self, record: Record) -> tuple[str, ...]:
        """Clusters that may still hold something; what is found there is deleted."""
        left: list[str] = []
        for cluster in sorted(record.clusters - self._proven.get(record.uid, set())):
            member = self.state.holder(cluster)
            given_up = cluster in record.given_up and (
                member is None or not member.knows(record.key.kind)
            )
            if member is None or given_up:
                continue
            if await self._is_empty(member, record):
                self.seen(record, cluster)
            else:
                left.append(cluster)
        return tuple(left)

    async def _is_empty(self, member: Member, record: Record) -> bool:
        """Asks the member itself, unless its probes fail: waiting for it would delay others."""
        client, applier = member.link.client, member.link.applier
        if (
            client is None
            or applier is None
            or member.link.reachability.state is not Reachability.LIVE
        ):
            return False
        ref = registry.KINDS[record.key.kind].ref(record.key.namespace, record.key.name)
        try:
            live = await client.get(ref, timeout_s=self.state.options.probe_timeout_s)
        except errors.NotServed:
            return False
        except errors.NotFound:
            return await self._is_itself(member)
        except errors.ApiError as trouble:
            log.info(
                "%s: whether it holds a slice of %s cannot be read: %s",
                member.name,
                record.key,
                trouble,
            )
            return False
        listed = slices.summarise(record.key.kind, member.name, live)
        if listed.mark is None or not listed.ours(self.state.options.fleet):
            return True
        if listed.mark.workload_uid != record.workload_uid:
            return True
        if member.claimed and not listed.deleting:
            log.info(
                "%s: it holds a slice of %s that was never seen; removing it",
                member.name,
                record.key,
            )
            step = ending_step(record, ref, listed.uid)
            outcome = await applier.apply(step, record.key)
            if outcome.error is not None:
                log.info(
                    "%s: slice of %s not removed yet: %s", member.name, record.key, outcome.error
                )
        return False

    async def _is_itself(self, member: Member) -> bool:
        """Whether the cluster that joined gave the answer: absence in another one proves nothing
        (F35)."""
        if member.link.client is None:
            return False
        try:
            return await member.link.client.kube_system_uid() == member.link.uid
        except errors.ApiError:
            return False
