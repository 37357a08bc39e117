"""The port to a platform: where the objects of submissions are kept and run.

Each implementation is a module beside this one, and a row of `table.PLATFORMS`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from federator.gateway.api.models import Logs, Verdict
from federator.gateway.callers import Caller, Callers
from federator.gateway.platforms.events import EventBatcher, SubmissionEvent
from federator.gateway.platforms.leader import Judge
from federator.hub.query.access import Access

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a gateway has for its platforms. Its owner closes what is open."""

    callers: Callers
    """Makes clients of the host that act as a caller."""
    judge: Judge
    """The leading hub."""
    access: Access
    """Reviews rights at the host."""
    events: EventBatcher
    """Writes Events on the host."""


class Platform(Protocol):
    """Where submissions run. Methods that wait have a deadline of their own, and raise
    `problems.Problem`. They get objects of the platform's own kinds only."""

    async def admit(self, caller: Caller, namespace: str) -> None:
        """Returns when the caller may create anything there."""
        ...

    def record_event(self, about: SubmissionEvent, identity: str, obj: Mapping[str, Any]) -> None:
        """Records an Event on the object: what happened to the submission. It is written later, or
        never if there are too many."""
        ...

    async def live(self, caller: Caller, obj: Mapping[str, Any]) -> Obj | None:
        """The object of this kind, namespace and name; None where there is none."""
        ...

    async def labelled(
        self, caller: Caller, namespace: str, selectors: Mapping[str, str]
    ) -> list[Obj]:
        """Objects that the caller may list, by the selector of labels of each kind. Raises
        `Problem` 403 where that is none of the kinds."""
        ...

    async def verdict(self, namespace: str, objects: Sequence[Obj]) -> Verdict:
        """Where they would run."""
        ...

    async def logs(
        self, caller: Caller, obj: Mapping[str, Any], query: tuple[tuple[str, str], ...]
    ) -> Logs:
        """The logs of the pods of this object, as far as the caller may see them. Asked only for a
        kind that has logs."""
        ...

    async def write(
        self, caller: Caller, obj: Obj, live: Mapping[str, Any] | None, *, dry_run: bool = False
    ) -> Obj | None:
        """The object as stored, created or in place of `live`; None where another request was
        faster, so that the live object is to be read again."""
        ...

    async def delete(self, caller: Caller, obj: Mapping[str, Any]) -> bool:
        """Deletes this very object. False where it was gone already."""
        ...
