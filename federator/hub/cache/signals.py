"""Who is told of a change in the hub's memory. A listener takes note (adds keys to a queue) and returns."""

from collections.abc import Callable
from dataclasses import dataclass, field

from federator.hub.members.member import Member
from federator.model.names import WorkloadKey

KeyListener = Callable[[WorkloadKey], None]


@dataclass(slots=True)
class Signals:
    """Who is told what. Filled once, when the process is wired."""

    to_place: list[KeyListener] = field(default_factory=list)
    to_dispatch: list[KeyListener] = field(default_factory=list)
    to_aggregate: list[KeyListener] = field(default_factory=list)
    to_claim: list[Callable[[str], None]] = field(default_factory=list)
    """A member does not know yet whose it is, and something is to be written there."""
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
    on_doubt: list[Callable[[Member], None]] = field(default_factory=list)
    """The verdict on whether a member's word can be trusted is another than before."""
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

    def claim(self, cluster: str) -> None:
        for listener in self.to_claim:
            listener(cluster)

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

    def doubt(self, member: Member) -> None:
        for listener in self.on_doubt:
            listener(member)

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
