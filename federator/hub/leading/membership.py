"""The members of the fleet while this process lives: one object and one connection for each
MemberCluster, from its first listing until the host confirms that it is gone.

The host's watch reports MemberClusters; nothing is decided here. All tasks belong to the process.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from federator.api import raw
from federator.api.membercluster import UNTRUSTWORTHY
from federator.hub.cache.router import MemberChanged
from federator.hub.host.controller import Controller
from federator.hub.leading.controllers import Controllers, Surroundings
from federator.hub.members import member_conditions
from federator.hub.members.connecting.connection import Connection, ConnectionLimits
from federator.hub.members.contents import Contents
from federator.hub.members.member import Member
from federator.hub.members.trust import Trust
from federator.hub.members.writes import Writes
from federator.hub.metering.figures import forget_cluster
from federator.kube import errors
from federator.kube.backoff import Backoff
from federator.kube.control.lanes import Lane
from federator.kube.control.write_fights import WriteFightDetector
from federator.kube.store import Bound
from federator.model.names import ClusterName

log = logging.getLogger(__name__)


class Membership(Controller):
    """Begins, reconnects and ends members."""

    def __init__(self, around: Surroundings, controllers: Controllers) -> None:
        super().__init__(around.tools)
        self.connect, self.options = around.connect, self.state.options
        self._controllers, self.news = controllers, controllers.news
        self.host_uid = ""
        """Uid of the host, once it is known."""
        self._missed: dict[str, Member] = {}
        """Members without a MemberCluster in the list, until the host confirms that it is gone."""
        self._connections: dict[str, list[asyncio.Task[None]]] = {}
        self._limits = ConnectionLimits()
        self._group: asyncio.TaskGroup | None = None
        self._writers: asyncio.TaskGroup | None = None
        """Task group of everything that writes, while this hub leads."""

    def begin(self, group: asyncio.TaskGroup, host_uid: str) -> None:
        """The host has said its uid; tasks of connections run in this group from now on."""
        self._group, self.host_uid = group, host_uid

    def lead(self, writers: asyncio.TaskGroup) -> None:
        """This hub leads: slices of all members are written by tasks of this group."""
        self._writers = writers
        for member in self.state.members.values():
            self._serve(member)
            self.state.signals.member_changed(MemberChanged.LEADING, member)

    def stand_by(self) -> None:
        """This hub no longer leads."""
        self._writers = None

    def changed(self, name: str, obj: Mapping[str, Any] | None) -> None:
        """A MemberCluster appeared, changed or went away."""
        member = self.state.members.get(name)
        if obj is None:
            if member is not None and self._missed.get(name) is not member:
                assert self._group is not None
                self._missed[name] = member
                member.vitals.observe_unlisted(member_conditions.UNLISTED)
                self._group.create_task(self._confirm_gone(member), name=f"gone {name}")
            return
        if name in self._missed:
            if member is not None and member.obj["metadata"].get("uid") != obj["metadata"].get(
                "uid"
            ):
                self._leave(name)  # it was deleted, and a new one has its name
            self._missed.pop(name, None)
        if member is not None and member.obj["metadata"].get("uid") == obj["metadata"].get("uid"):
            member.observe_object(obj)
            member.vitals.observe_unlisted("")
            self.news.edited(member)
            return
        self._begin(name, obj)

    async def _confirm_gone(self, member: Member) -> None:
        """A MemberCluster is no longer listed. It has left the fleet when a read by name confirms
        it; until then it keeps its copies and gets no new ones. The reads become rarer, and end
        when it is listed again."""
        name, waits = member.name, Backoff(self.rng, base_s=0.5, cap_s=15.0)
        while self._missed.get(name) is member and self.state.members.get(name) is not None:
            try:
                gone = await self._controllers.departed.confirms(
                    name, str(member.obj["metadata"].get("uid", ""))
                )
            except errors.ApiError as trouble:
                log.warning(
                    "whether the MemberCluster %s is gone cannot be asked: %s", name, trouble
                )
                gone = False
            if gone and self._missed.get(name) is member:
                self._leave(name)
                return
            await asyncio.sleep(waits.next())

    def _leave(self, name: str) -> None:
        """A cluster has left the fleet."""
        del self._missed[name]
        self._limits.budgets.pop(name, None)
        ending = self._connections.get(name, [])
        self._close_connection(name)
        self.news.left(self.state.members[name])
        assert self._group is not None
        self._group.create_task(forget_cluster(self.state, name, ending), name=f"metrics {name}")

    def _begin(self, name: str, obj: Mapping[str, Any]) -> None:
        """Starts a member about which nothing is known yet."""
        self._close_connection(name)
        member = Member(
            name=ClusterName(name),
            obj=obj,
            on_slice=self.news.slice_changed,
            on_count=self.news.counted,
            on_capacity=self.news.capacity_changed,
            on_rewind=self._went_back,
            on_other=self._met_other,
            lane=Lane(
                name,
                limit=self.options.lane_writes_in_flight,
                clock=self.clock,
                rng=self.rng,
                metrics=self.state.metrics,
            ),
            now_s=self.clock.now,
            fleet=self.options.fleet,
            host_uid=self.host_uid,
            writes=Writes(
                fights=WriteFightDetector(
                    writes=self.options.futile_writes,
                    window_s=self.options.futile_window_s,
                    pause_s=self.options.futile_pause_s,
                )
            ),
            trust=Trust(clears_after_s=self.options.trust_after_s),
            contents=Contents(
                Bound(self.options.member_objects_max, self.options.member_bytes_max)
            ),
        )
        member.link.begin(self.clock.monotonic())
        member.trust.recorded(raw.condition(obj, UNTRUSTWORTHY))
        self.news.appeared(member)
        self._open_connection(member)

    def _went_back(self, member: Member) -> None:
        """A member was restored from a backup. Versions, comparisons and namespaces remembered of
        it belong to another history: it starts again, its identity first."""
        if self.state.members.get(member.name) is not member:
            return
        log.warning(
            "member %s went back in time: it was restored from a backup and is compared anew",
            member.name,
        )
        if self.state.ready:
            self.events.member_went_back(member)
        self._begin(member.name, member.obj)

    def _met_other(self, member: Member) -> None:
        """A hub that could not write to the host, or a standby, had seen another cluster at this
        address before."""
        if self.state.members.get(member.name) is member:
            log.warning(
                "member %s is another cluster than %s, which never joined: met anew",
                member.name,
                member.link.uid,
            )
            self._begin(member.name, member.obj)

    def _open_connection(self, member: Member) -> None:
        assert self._group is not None
        connection = Connection(
            member=member,
            host=self.host,
            connect=self.connect,
            options=self.options,
            clock=self.clock,
            rng=self.rng,
            answered=self.news.answered,
            followed=self.news.followed,
            changed=self.news.reached,
            limits=self._limits,
            use_of=self.state.use_of,
            host_uid=lambda: self.host_uid,
            metrics=self.state.metrics,
        )
        self._controllers.dispatching.queue_of(member)
        self._connections[member.name] = [
            self._group.create_task(connection.run(), name=f"connection {member.name}")
        ]
        self._serve(member)

    def _serve(self, member: Member) -> None:
        """Works on one member's slices while this hub leads."""
        if self._writers is not None:
            serving = self._controllers.dispatching.run(member)
            task = self._writers.create_task(serving, name=f"dispatch {member.name}")
            self._connections[member.name].append(task)

    def _close_connection(self, name: str) -> None:
        for task in self._connections.pop(name, ()):
            task.cancel()
        self._controllers.forget_connection(name)
