"""Callbacks of the caches: which slices, nodes and names a change concerns."""

from collections.abc import Callable
from dataclasses import dataclass, field

from federator.model.names import WorkloadKey

KeyListener = Callable[[WorkloadKey], None]
Listener = Callable[[], None]


@dataclass(slots=True)
class Signals:
    """Callbacks by kind of change. Filled once, when the process is wired."""

    to_expand: list[KeyListener] = field(default_factory=list)
    to_roll_up: list[KeyListener] = field(default_factory=list)
    to_survey: list[Listener] = field(default_factory=list)
    """Something that free room or the answers depend on has changed."""
    to_owe: list[KeyListener] = field(default_factory=list)
    """What a slice may take beyond its bound pods may have changed."""
    to_node: list[Callable[[str], None]] = field(default_factory=list)
    """A node has changed, or a pod there became ready."""
    to_reference: list[Callable[[str, str, str], None]] = field(default_factory=list)
    """(kind, namespace, name) came or went: a slice may have waited for it."""

    def expand(self, key: WorkloadKey) -> None:
        for listener in self.to_expand:
            listener(key)

    def roll_up(self, key: WorkloadKey) -> None:
        for listener in self.to_roll_up:
            listener(key)

    def survey(self) -> None:
        for listener in self.to_survey:
            listener()

    def owe(self, key: WorkloadKey) -> None:
        for listener in self.to_owe:
            listener(key)
        self.survey()

    def node(self, name: str) -> None:
        for listener in self.to_node:
            listener(name)

    def reference(self, kind: str, namespace: str, name: str) -> None:
        for listener in self.to_reference:
            listener(kind, namespace, name)
