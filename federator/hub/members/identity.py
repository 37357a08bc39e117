"""Is whoever answers at a member's address still the cluster that the last probe found? Asked
before lists and watches are believed: what another cluster lacks is not lost, and must not be made
a second time (FAULTS.md F35).

Called by a member's reflectors. Whoever made it is told at once of another cluster, because between
two probes nothing else would stop what is being written there. Several that ask at once share one
answer, and many questions have pauses between them: streams that break all the time do not make it
a flood.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from federator.kube import errors
from federator.kube.clock import Clock

PAUSE_S = 3.0
"""Between two questions, in seconds, once `AT_ONCE` of them came faster."""
AT_ONCE = 8
"""A new connection lists and watches every kind: nobody should wait for that."""


class Asked(Protocol):
    """Whom to ask."""

    async def kube_system_uid(self) -> str: ...


class Sameness:
    """Of one connection. `check` raises `errors.ServerTrouble` when another cluster answers."""

    def __init__(
        self, client: Asked, cluster: str, uid: str, clock: Clock, other: Callable[[str], None]
    ) -> None:
        """`other` is told the uid of another cluster that answers."""
        self._client = client
        self._cluster = cluster
        self._uid = uid
        self._clock = clock
        self._other = other
        self._one = asyncio.Lock()
        self._begun = 0
        self._good = 0
        """Number of the last question that was answered well."""
        self._earned_s = float("-inf")
        """When all questions so far would have been put with pauses between them."""

    async def check(self) -> None:
        """Returns after an answer to a question that was put after this call began. Raises
        ApiErrors."""
        enough = self._begun + 1
        async with self._one:
            if self._good >= enough:
                return
            await asyncio.sleep(
                max(0.0, self._earned_s - AT_ONCE * PAUSE_S - self._clock.monotonic())
            )
            self._begun += 1
            number = self._begun
            self._earned_s = max(self._earned_s, self._clock.monotonic()) + PAUSE_S
            uid = await self._client.kube_system_uid()
            if uid != self._uid:
                self._other(uid)
                raise errors.ServerTrouble(
                    f"{self._cluster} answers as {uid}, and was {self._uid} at the last probe."
                )
            self._good = number
