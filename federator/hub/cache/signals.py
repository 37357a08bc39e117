"""The listeners for changes in the hub's memory. A listener adds keys to a queue and returns."""

from collections.abc import Callable
from dataclasses import dataclass, field

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

KeyListener = Callable[[WorkloadKey], None]
MemberListener = Callable[[Member], None]
SliceListener = Callable[[Member, WorkloadKey], None]


@dataclass(slots=True)
class Signals:
    """Which listener gets which signal. Filled once, when the process is wired."""

    to_place: list[KeyListener] = field(default_factory=list)
    to_dispatch: list[KeyListener] = field(default_factory=list)
    to_aggregate: list[KeyListener] = field(default_factory=list)
    to_cascade: list[KeyListener] = field(default_factory=list)
    on_status: list[KeyListener] = field(default_factory=list)
    """Our own write of a status was answered: the event that follows it tells nothing new."""
    of_member: dict[MemberTurn, list[MemberListener]] = field(default_factory=dict)
    """Turn -> listeners with a member."""
    of_slice: dict[SliceTurn, list[SliceListener]] = field(default_factory=dict)
    """Turn -> listeners with a slice in a member."""
    to_ask: list[Callable[[], None]] = field(default_factory=list)
    """A shape is needed that members have not been asked about."""
    on_changed: list[Callable[[Changed, WorkloadKey], None]] = field(default_factory=list)
    """Whatever changed about a workload, after the turns that it makes due were queued."""
    on_booked: list[Callable[[], None]] = field(default_factory=list)
    on_freed: list[Callable[[], None]] = field(default_factory=list)
    to_finalize: list[Callable[[str, str], None]] = field(default_factory=list)
    """(namespace, name) of a decision on a workload that may be gone."""
    to_refuse: list[Callable[[str, str], None]] = field(default_factory=list)
    """(namespace, name) of a decision that a hub of this host cannot have made."""
    on_used_up: list[Callable[[], None]] = field(default_factory=list)
    """The seqs of this term are used up: only a new election gives more."""
    on_space: list[Callable[[str], None]] = field(default_factory=list)
    """A namespace of the host came or went, or its Pod Security level changed."""
    on_accounts: list[Callable[[], None]] = field(default_factory=list)
    """A FederatedQuota allows other service accounts, or binds other namespaces or projects."""
    on_invariant: list[Callable[[], None]] = field(default_factory=list)
    """A PlacementInvariant came, changed or went."""
    on_policy: list[Callable[[], None]] = field(default_factory=list)
    """A placement policy came, changed or went."""
    on_resumed: list[Callable[[], None]] = field(default_factory=list)
    """A pause has ended: work that was held back is due."""
    heeded: bool = False
    """False while this hub does not lead: a new leader examines everything."""

    def place(self, key: WorkloadKey) -> None:
        for listener in self.to_place if self.heeded else ():
            listener(key)

    def dispatch(self, key: WorkloadKey) -> None:
        for listener in self.to_dispatch if self.heeded else ():
            listener(key)

    def aggregate(self, key: WorkloadKey) -> None:
        for listener in self.to_aggregate if self.heeded else ():
            listener(key)

    def cascade(self, key: WorkloadKey) -> None:
        for listener in self.to_cascade if self.heeded else ():
            listener(key)

    def stated(self, key: WorkloadKey) -> None:
        """The host has a status of this workload that we wrote."""
        for listener in self.on_status if self.heeded else ():
            listener(key)

    def note(self, what: Changed, key: WorkloadKey) -> None:
        """Notifies the listeners for changes."""
        for listener in self.on_changed:
            listener(what, key)

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

    def ask_members(self) -> None:
        for listener in self.to_ask:
            listener()

    def booked(self) -> None:
        """Decisions were written: what projects hold has changed."""
        for listener in self.on_booked:
            listener()

    def freed(self) -> None:
        """Room or quota was released: workloads that wait for it may be helped."""
        self.booked()
        for listener in self.on_freed:
            listener()

    def finalize(self, namespace: str, name: str) -> None:
        for listener in self.to_finalize if self.heeded else ():
            listener(namespace, name)

    def refuse(self, namespace: str, name: str) -> None:
        for listener in self.to_refuse if self.heeded else ():
            listener(namespace, name)

    def used_up(self) -> None:
        for listener in self.on_used_up:
            listener()

    def space(self, name: str) -> None:
        for listener in self.on_space if self.heeded else ():
            listener(name)

    def accounts(self) -> None:
        for listener in self.on_accounts if self.heeded else ():
            listener()

    def invariant(self) -> None:
        for listener in self.on_invariant:
            listener()

    def policy(self) -> None:
        for listener in self.on_policy:
            listener()

    def resumed(self) -> None:
        for listener in self.on_resumed if self.heeded else ():
            listener()
