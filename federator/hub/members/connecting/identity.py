"""Checks that the cluster at a member's address is still the one that the last probe saw, before a
list or watch is believed: what is missing in another cluster is not lost, and must not be created a
second time (F35).

Called by a member's reflectors. A mismatch is signalled at once, because nothing else would stop
writes there before the next probe. Concurrent checks share one answer, and after a burst checks are
spaced out, so that streams that break all the time do not flood the server.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from federator.kube import errors
from federator.kube.clock import Clock

PAUSE_S = 3.0
"""Seconds between two checks after a burst of `AT_ONCE`."""
AT_ONCE = 8
"""Burst without pauses: a new connection lists and watches every kind, and none of them should
wait."""


class Asked(Protocol):
    """Reads the identity of the cluster at the address."""

    async def kube_system_uid(self) -> str: ...


class Sameness:
    """The identity check of one connection. `check` raises `errors.ServerTrouble` when another
    cluster answers."""

    def __init__(
        self, client: Asked, cluster: str, uid: str, clock: Clock, other: Callable[[str], None]
    ) -> None:
        """`other` is called with the uid of another cluster that answers."""
        self._client = client
        self._cluster = cluster
        self._uid = uid
        self._clock = clock
        self._other = other
        self._at_a_time = asyncio.Lock()
        self._begun = 0
        self._good = 0
        """Number of the last check that succeeded."""
        self._earned_s = float("-inf")
        """The time at which all checks so far would have been made had each been followed by a
        pause."""

    async def check(self) -> None:
        """Returns once a check that began after this call has succeeded. Raises ApiErrors."""
        enough = self._begun + 1
        async with self._at_a_time:
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
