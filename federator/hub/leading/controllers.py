"""The hub's controllers: made once, and run by a table of (name, when, task).

The process starts the tasks of the table; which turns a controller takes is in `cache.router`.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from federator.hub.cache.member_news import MemberNews
from federator.hub.cache.rollout_view import RolloutView
from federator.hub.deletion.cascades import Cascades
from federator.hub.deletion.departed import Departed
from federator.hub.deletion.finalizer import Finalizing
from federator.hub.deletion.force_forget import Forgetting
from federator.hub.deletion.orphans import Orphans
from federator.hub.deletion.removal import Removing
from federator.hub.deletion.tidying import Tidying
from federator.hub.dispatch.dispatcher import Dispatching
from federator.hub.dispatch.drift import Drift
from federator.hub.dispatch.prerequisites import Prerequisites
from federator.hub.dispatch.slice_writer import SliceWriter
from federator.hub.evacuation.draining import Draining
from federator.hub.evacuation.drilling import Drilling
from federator.hub.evacuation.governing import Governing, nobody
from federator.hub.evacuation.leasing import Leasing
from federator.hub.host.controller import Tools
from federator.hub.host.host_watch import Hosting
from federator.hub.host.in_force import SpecsInForce
from federator.hub.host.profile_keeping import ProfileKeeping
from federator.hub.host.revisions import Revisions
from federator.hub.jobs.expiry import Expiry
from federator.hub.jobs.recurring import Recurring
from federator.hub.leading.resync import Resync
from federator.hub.leading.standby import Standby
from federator.hub.members.connecting.connection import Connect
from federator.hub.metering.figures import Figures
from federator.hub.metering.readiness import Readiness
from federator.hub.metering.reconcile_times import ReconcileTimes
from federator.hub.metering.success import SuccessRates
from federator.hub.placing.placer import Placing
from federator.hub.placing.unschedulable import UnschedulableCaps
from federator.hub.probing.probing import Probing
from federator.hub.security.foreign import Foreign
from federator.hub.security.renewing import Renewing
from federator.hub.security.sealing import Sealing
from federator.hub.status.asking import Asking
from federator.hub.status.invariant_status import InvariantStatus
from federator.hub.status.member_status import Reporting
from federator.hub.status.policy_status import PolicyStatus
from federator.hub.status.quota_status import QuotaStatus
from federator.hub.status.workload_status import StatusAggregation
from federator.kube.leader.elector import Elector


class When(StrEnum):
    """From when on a task runs; each ends with the process, or with the lead that began it."""

    ALWAYS = "from the start: it reads, and writes nothing"
    ELECTED = "while this hub leads, also before it has read what the former leader left"
    LEADING = "while this hub leads and decides"


class Task(NamedTuple):
    """One row of the table."""

    name: str
    when: When
    run: Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all controllers of one hub are made from."""

    tools: Tools
    connect: Connect
    """Opens transports to members, behind the leader gate."""
    short: Callable[[], bool]
    """Whether this process is short of a resource of its own."""
    elector: Elector | None
    standby: Standby | None


class Controllers:
    """Everything that reads the host or acts while this hub leads, but for the connections to
    members (`membership`)."""

    def __init__(
        self,
        around: Surroundings,
        *,
        on_member: Callable[[str, Mapping[str, Any] | None], None],
    ) -> None:
        tools = self._tools = around.tools
        state, clock, rng = tools.state, tools.clock, tools.rng
        self._make_deciding(around)
        queues = (self.placing.queue, self.aggregation.queue)
        self.news = MemberNews(state, self.view, clock=clock)
        self.resync = Resync(state, queues, rng=rng)
        self.quotas = QuotaStatus(tools)
        self.reporting = Reporting(tools)
        self.asking = Asking(tools)
        self._make_leaving(around)
        looked = around.elector.looked.wait if around.elector is not None else None
        self.hosting = Hosting(tools, on_member=on_member, looked=looked)

    def _make_deciding(self, around: Surroundings) -> None:
        """Makes what places workloads, writes their slices and aggregates their status."""
        tools = around.tools
        state, clock, rng = tools.state, tools.clock, tools.rng
        self.caps = UnschedulableCaps(state, clock=clock)
        in_force = SpecsInForce(tools)
        self.placing = Placing(tools, self.caps, in_force)
        witnesses = around.standby.witnesses if around.standby is not None else nobody
        governing = Governing(tools, around.short, witnesses=witnesses)
        self.draining = Draining(tools, self.placing, governing=governing)
        self.drilling = Drilling(tools, self.placing)
        self.invariants = InvariantStatus(tools, lose=self.drilling.outcome)
        self.policies = PolicyStatus(tools)
        self.view = RolloutView(state, self.caps.lasting)
        self.keeping = ProfileKeeping(tools)
        prerequisites = Prerequisites(state, self.keeping.keep, now=clock.monotonic, rng=rng)
        writer = SliceWriter(tools, self.view, Revisions(tools), prerequisites)
        self.dispatching = Dispatching(tools, self.view, writer, in_force, Drift(tools.events))
        readiness = Readiness()
        self.aggregation = StatusAggregation(tools, self.view, readiness)
        self.recurring = Recurring(tools)
        self.expiry = Expiry(tools)
        self.success = SuccessRates(state, clock=clock)
        self.probing = Probing(tools)
        times = ReconcileTimes(state, self.view, clock=clock)
        self.figures = Figures(state, times, readiness, clock=clock)

    def _make_leaving(self, around: Surroundings) -> None:
        """Makes what handles workloads and members that leave, what they leave behind, and foreign
        decisions."""
        tools, elector = around.tools, around.elector
        hand_on = elector.note if elector is not None else None
        self.forgetting = Forgetting(tools)
        self.finalizing = Finalizing(tools, self.forgetting, hand_on=hand_on)
        self.cascades = Cascades(tools)
        self.orphans = Orphans(tools)
        self.sealing = Sealing(tools)
        self.foreign = Foreign(tools)
        self.departed = Departed(tools)
        self.tidying = Tidying(tools)
        self.renewing = Renewing(tools, around.connect)
        self.leasing = Leasing(tools)
        self.removing = Removing(tools, departed=self.departed, tidying=self.tidying)

    def tasks(self) -> tuple[Task, ...]:
        """The table, in the order in which tasks are started."""
        always, elected, leading = When.ALWAYS, When.ELECTED, When.LEADING
        return (
            Task("hosting", always, self.hosting.run),
            *(
                Task(f"host {reflector.store.name}", always, reflector.run)
                for reflector in self.recurring.reflectors
            ),
            Task("events", elected, self._tools.events.run),
            Task("reporting", elected, self.reporting.run),
            Task("accounts", elected, self.quotas.run),
            Task("asking", elected, self.asking.run),
            Task("crowding", leading, self.hosting.crowding.run),
            Task("profiles", leading, self.keeping.run),
            Task("resync", leading, self.resync.run),
            Task("placing", leading, self.placing.run),
            Task("draining", leading, self.draining.run),
            Task("sealing", leading, self.sealing.run),
            Task("status aggregation", leading, self.aggregation.run),
            Task("finalizing", leading, self.finalizing.run),
            Task("cascades", leading, self.cascades.run),
            Task("orphans", leading, self.orphans.run),
            Task("foreign decisions", leading, self.foreign.run),
            Task("forgetting", leading, self.forgetting.run),
            Task("departed", leading, self.departed.run),
            Task("tidying", leading, self.tidying.run),
            Task("renewing", leading, self.renewing.run),
            Task("leasing", leading, self.leasing.run),
            Task("removing", leading, self.removing.run),
            Task("recurring", leading, self.recurring.run),
            Task("expiry", leading, self.expiry.run),
            Task("probing", leading, self.probing.run),
            Task("figures", leading, self.figures.run),
            Task("success rates", leading, self.success.run),
            Task("optimality gaps", leading, self.placing.gaps.run),
            Task("drilling", leading, self.drilling.run),
            Task("invariants", leading, self.invariants.run),
            Task("policy status", leading, self.policies.run),
        )

    def begin_term(self) -> None:
        """This hub leads from now on: what is not queued by a change is queued here."""
        state, clock = self._tools.state, self._tools.clock
        self.placing.first_reports.begin()
        self.quotas.count_all()
        state.notices.begin(state.records.values(), clock.monotonic(), clock.now())

    def forget_connection(self, name: str) -> None:
        """The connection to a member is closed."""
        self.dispatching.forget(name)
        self.caps.forget(name)
        self.renewing.forget(name)
        self.leasing.forget(name)
