"""The registry in memory: sessions that expire, entries that end with them, and rights, as far as
pods use them. Tests and the demo run the traffic part against it.

It can be made to fail as a real one does: away, slow, partitioned from one pod, or with entries of
other clients.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from federator.runtime.traffic import members
from federator.runtime.traffic.members import Member
from federator.runtime.traffic.registry import Login, RegistrationRefused, Unreachable

REQUEST_S: Final = 5.0
ANYBODY: Final = ""


@dataclass(slots=True)
class RegistryNode:
    """One node of a folder. `session` is "" for one that stays."""

    data: bytes
    session: str = ""
    owner: str = ANYBODY


@dataclass(slots=True)
class Directory:
    """The server. Times are those of the running event loop."""

    away: bool = False
    delay_s: float = 0.0
    """How long each answer takes."""
    folders: dict[str, dict[str, RegistryNode]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    """Folder -> the login that may add and remove entries there."""
    heard_s: dict[str, float] = field(default_factory=dict)
    """Session -> when it was heard last."""
    timeouts_s: dict[str, float] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def open(self, timeout_s: float) -> str:
        session = f"session-{next(self._numbers)}"
        self.timeouts_s[session] = timeout_s
        self.heard_s[session] = asyncio.get_running_loop().time()
        return session

    def expire(self, session: str) -> None:
        """Ends a session and its entries."""
        self.heard_s.pop(session, None)
        self.timeouts_s.pop(session, None)
        for entries in self.folders.values():
            for node in [node for node, entry in entries.items() if entry.session == session]:
                del entries[node]

    def sweep(self) -> None:
        """Ends the sessions that were not heard for their timeout. A server that is away ends none,
        and counts again when it comes back."""
        now_s = asyncio.get_running_loop().time()
        for session, heard_s in list(self.heard_s.items()):
            if now_s - heard_s > self.timeouts_s[session]:
                self.expire(session)

    def leave(self) -> None:
        """The server goes away."""
        self.away = True

    def come_back(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self.away = False
        self.heard_s = dict.fromkeys(self.heard_s, now_s)


class EmbeddedRegistry:
    """One pod's session at a directory."""

    def __init__(
        self, directory: Directory, login: Login | None = None, session_s: float = 10.0
    ) -> None:
        self.directory = directory
        self.cut = False
        """This pod alone does not reach the directory."""
        self._login = login.name if login is not None else ANYBODY
        self._session_s = session_s
        self._session = ""
        self._up = False
        self._changed: Callable[[bool], None] = lambda _lost: None
        self._beats: asyncio.Task[None] | None = None

    @property
    def session(self) -> str:
        return self._session

    @property
    def up(self) -> bool:
        return self._up

    def watch(self, changed: Callable[[bool], None]) -> None:
        """Also begins to connect."""
        self._changed = changed
        if self._beats is None:
            self._beats = asyncio.get_running_loop().create_task(self._beat(), name="heartbeats")

    async def _beat(self) -> None:
        while True:
            self._hear()
            await asyncio.sleep(self._session_s / 3 if self._up else min(self._session_s / 3, 1.0))

    def _hear(self) -> None:
        directory = self.directory
        if directory.away or self.cut:
            if self._up:
                self._up = False
                self._changed(False)
            return
        directory.sweep()
        lost = bool(self._session) and self._session not in directory.heard_s
        if lost or not self._session:
            self._session = directory.open(self._session_s)
        directory.heard_s[self._session] = asyncio.get_running_loop().time()
        if lost:
            self._changed(True)
        if not self._up:
            self._up = True
            self._changed(False)

    async def _ask(self) -> None:
        if self.directory.away or self.cut or not self._session:
            raise Unreachable("the registry does not answer")
        if self.directory.delay_s > REQUEST_S:
            await asyncio.sleep(REQUEST_S)
            raise Unreachable(f"no answer within {REQUEST_S:g} s")
        await asyncio.sleep(self.directory.delay_s)
        self._hear()
        if self.directory.away or self.cut:
            raise Unreachable("the connection was lost")

    async def join(self, member: Member) -> str:
        try:
            data = member.data()
        except ValueError as bad:
            raise RegistrationRefused(str(bad)) from None
        await self._ask()
        entries = self.directory.folders.setdefault(member.folder, {})
        owner = self.directory.owners.setdefault(member.folder, self._login)
        present = entries.get(member.node)
        if owner not in (ANYBODY, self._login):
            raise RegistrationRefused(
                f"{member.folder} belongs to {owner}, and this pod is {self._login}"
            )
        if present is None or present.session != self._session or present.data != data:
            entries[member.node] = RegistryNode(data, self._session, self._login)
        return self._session

    async def leave(self, member: Member) -> None:
        await self._ask()
        owner = self.directory.owners.get(member.folder, ANYBODY)
        if owner not in (ANYBODY, self._login):
            raise RegistrationRefused(
                f"{member.folder} belongs to {owner}, and this pod is {self._login}"
            )
        self.directory.folders.get(member.folder, {}).pop(member.node, None)

    async def members(self, folder: str) -> Sequence[Member]:
        await self._ask()
        read = (
            members.read(folder, node, entry.data)
            for node, entry in sorted(self.directory.folders.get(folder, {}).items())
        )
        return [member for member in read if member is not None]

    async def close(self) -> None:
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)
            self._beats = None
        if not (self.directory.away or self.cut):
            self.directory.expire(self._session)
        self._session, self._up = "", False
