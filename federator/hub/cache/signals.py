"""Who is told of a change in the hub's memory. A listener takes note (adds keys to a queue) and
returns."""

from collections.abc import Callable
from dataclasses import dataclass, field

from federator.hub.cache.router import (
    LEADERS,
    MEMBER_ROUTES,
    SLICE_ROUTES,
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
    """Who is told what. Filled once, when the process is wired."""

    to_place: list[KeyListener] = field(default_factory=list)
    to_dispatch: list[KeyListener] = field(default_factory=list)
    to_aggregate: list[KeyListener] = field(default_factory=list)
    of_member: dict[MemberTurn, list[MemberListener]] = field(default_factory=dict)
    """Who looks at a member when it has this turn."""
    of_slice: dict[SliceTurn, list[SliceListener]] = field(default_factory=dict)
    """Who looks at a slice in a member when it has this turn."""
    to_ask: list[Callable[[], None]] = field(default_factory=list)
    """A shape is wanted that members have not been asked about."""
    on_booked: list[Callable[[], None]] = field(default_factory=list)
    on_freed: list[Callable[[], None]] = field(default_factory=list)
    to_finalize: list[Callable[[str, str], None]] = field(default_factory=list)
    """(namespace, name) of a decision whose workload may be gone."""
    to_refuse: list[Callable[[str, str], None]] = field(default_factory=list)
    """(namespace, name) of a decision that this host's hub cannot have made."""
    on_used_up: list[Callable[[], None]] = field(default_factory=list)
    """The numbers of this term are used up: only another election has more."""
    on_space: list[Callable[[str], None]] = field(default_factory=list)
    """A namespace of the host came or went, or asks for another Pod Security level."""
    on_resumed: list[Callable[[], None]] = field(default_factory=list)
    """A pause is over: what was left alone meanwhile is due."""
    heeded: bool = False
    """While this hub does not lead, nobody works: whoever begins to lead looks at everything."""

    def place(self, key: WorkloadKey) -> None:
        for listener in self.to_place if self.heeded else ():
            listener(key)

    def dispatch(self, key: WorkloadKey) -> None:
        for listener in self.to_dispatch if self.heeded else ():
            listener(key)

    def aggregate(self, key: WorkloadKey) -> None:
        for listener in self.to_aggregate if self.heeded else ():
            listener(key)

    def on_member(self, turn: MemberTurn, listener: MemberListener) -> None:
        """`listener` looks at members whose turn this is."""
        self.of_member.setdefault(turn, []).append(listener)

    def on_slice(self, turn: SliceTurn, listener: SliceListener) -> None:
        """`listener` looks at slices in members whose turn this is."""
        self.of_slice.setdefault(turn, []).append(listener)

    def member_changed(self, what: MemberChanged, member: Member) -> None:
        """Gives the turns that are due because of a change about one member."""
        for turn in MEMBER_ROUTES[what]:
            for listener in (
                self.of_member.get(turn, ()) if self.heeded or turn not in LEADERS else ()
            ):
                listener(member)

    def slice_changed(self, what: SliceChanged, member: Member, key: WorkloadKey) -> None:
        """Gives the turns that are due because of a change about one slice in one member."""
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
        """Room or quota was given back: whoever is short may be helped."""
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

    def resumed(self) -> None:
        for listener in self.on_resumed if self.heeded else ():
            listener()
