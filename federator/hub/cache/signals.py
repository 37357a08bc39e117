"""The listeners for changes in the hub's memory. A listener adds keys to a queue and returns."""

from collections.abc import Callable
from typing import Generic, ParamSpec

from federator.hub.cache.router import (
    LEADERS,
    MEMBER_ROUTES,
    SLICE_ROUTES,
    Changed,
    MemberChanged,
    MemberTurn,
    SliceChanged,
    SliceTurn,
)
from federator.hub.members.member import Member
from federator.model.names import WorkloadKey

P = ParamSpec("P")
MemberListener = Callable[[Member], None]
SliceListener = Callable[[Member, WorkloadKey], None]


class Signal(list[Callable[P, None]], Generic[P]):
    """Its listeners, in the order in which they are called."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in self:
            listener(*args, **kwargs)


class LeadersSignal(Signal[P]):
    """One without an effect while this hub does not lead."""

    def __init__(self, of: "Signals") -> None:
        super().__init__()
        self._of = of

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in self if self._of.heeded else ():
            listener(*args, **kwargs)


class Signals:
    """Which listener gets which signal. Filled once, when the process is wired."""

    def __init__(self) -> None:
        self.heeded = False
        """False while this hub does not lead: a new leader examines everything."""
        self.place: Signal[[WorkloadKey]] = LeadersSignal(self)
        self.dispatch: Signal[[WorkloadKey]] = LeadersSignal(self)
        self.aggregate: Signal[[WorkloadKey]] = LeadersSignal(self)
        self.cascade: Signal[[WorkloadKey]] = LeadersSignal(self)
        self.stated: Signal[[WorkloadKey]] = LeadersSignal(self)
        """Our own write of a status was answered: the event that follows it tells nothing new."""
        self.note: Signal[[Changed, WorkloadKey]] = Signal()
        """Whatever changed about a workload, after the turns that it makes due were queued."""
        self.finalize: Signal[[str, str]] = LeadersSignal(self)
        """(namespace, name) of a decision on a workload that may be gone."""
        self.refuse: Signal[[str, str]] = LeadersSignal(self)
        """(namespace, name) of a decision that a hub of this host cannot have made."""
        self.ask_members: Signal[[]] = Signal()
        """A shape is needed that members have not been asked about."""
        self.booked: Signal[[]] = Signal()
        """Decisions were written: what projects hold has changed."""
        self.freed: Signal[[]] = Signal([self.booked])
        """Room or quota was released: workloads that wait for it may be helped."""
        self.used_up: Signal[[]] = Signal()
        """The seqs of this term are used up: only a new election gives more."""
        self.space: Signal[[str]] = LeadersSignal(self)
        """A namespace of the host came or went, or its Pod Security level changed."""
        self.accounts: Signal[[]] = LeadersSignal(self)
        """A FederatedQuota allows other service accounts, or binds other namespaces or projects."""
        self.invariant: Signal[[]] = Signal()
        """A PlacementInvariant came, changed or went."""
        self.policy: Signal[[]] = Signal()
        """A placement policy came, changed or went."""
        self.resumed: Signal[[]] = LeadersSignal(self)
        """A pause has ended: work that was held back is due."""
        self.of_member: dict[MemberTurn, list[MemberListener]] = {}
        """Turn -> listeners with a member."""
        self.of_slice: dict[SliceTurn, list[SliceListener]] = {}
        """Turn -> listeners with a slice in a member."""

    def on_member(self, turn: MemberTurn, listener: MemberListener) -> None:
        self.of_member.setdefault(turn, []).append(listener)

    def on_slice(self, turn: SliceTurn, listener: SliceListener) -> None:
        self.of_slice.setdefault(turn, []).append(listener)

    def member_changed(self, what: MemberChanged, member: Member) -> None:
        """Queues the turns that are due after a change of one member."""
        for turn in MEMBER_ROUTES[what]:
            for listener in (
                self.of_member.get(turn, ()) if self.heeded or turn not in LEADERS else ()
            ):
                listener(member)

    def slice_changed(self, what: SliceChanged, member: Member, key: WorkloadKey) -> None:
        """Queues the turns that are due after a change of one slice in one member."""
        for turn in SLICE_ROUTES[what]:
            for listener in self.of_slice.get(turn, ()):
                listener(member, key)
