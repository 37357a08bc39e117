"""The port to the registry of services. Two implementations: ZooKeeper (`zookeeper`) and one in
memory (`embedded`); `tests/contract` holds both to the same behaviour.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from federator.runtime.traffic.members import Member


class Unreachable(Exception):
    """The registry did not answer in time. Trying again may help."""


class RegistrationRefused(Exception):
    """The registry refuses the entry. A person has to change something."""


@dataclass(frozen=True, slots=True)
class Login:
    """One identity of a service at the registry: a name and its secret."""

    name: str
    secret: str

    def __repr__(self) -> str:
        return f"Login({self.name!r})"


def logins(text: str) -> tuple[Login, ...]:
    """The identities in a secret: a line each, `name:secret`. The first one owns new entries; more
    are there while the secret is changed. Raises ValueError, without the secret."""
    listed = []
    for number, line in enumerate(text.splitlines(), 1):
        name, separator, secret = line.strip().partition(":")
        if not line.strip():
            continue
        if not separator or not name or not secret:
            raise ValueError(f"line {number} of the registry's secret is not `name:secret`")
        listed.append(Login(name, secret))
    return tuple(listed)


class Registry(Protocol):
    """One session. Its entries end with it. Every method answers within its deadline."""

    @property
    def session(self) -> str:
        """The present session; "" while there is none."""

    @property
    def up(self) -> bool:
        """Whether there is a connection now. The session outlives one that is gone."""

    def watch(self, changed: Callable[[bool], None]) -> None:
        """Calls it on the event loop when the connection comes or goes (False), and when a session
        has ended (True)."""

    async def join(self, member: Member) -> str:
        """Writes the entry, or makes an entry of an earlier session its own; returns the session
        that holds it. Raises Unreachable and RegistrationRefused."""

    async def leave(self, member: Member) -> None:
        """Removes the entry, if it is there. Raises Unreachable and RegistrationRefused."""

    async def members(self, folder: str) -> Sequence[Member]:
        """All that can be read of a service, by name. Raises Unreachable and
        RegistrationRefused."""

    async def close(self) -> None:
        """Ends the session and so its entries, as far as the registry can be reached."""


async def listed(registry: Registry, folder: str, within_s: float) -> Sequence[Member]:
    """All entries of a service, by a session that ends with the answer. Raises Unreachable after
    `within_s`, and RegistrationRefused."""
    moved = asyncio.Event()
    registry.watch(lambda _lost: moved.set())
    try:
        async with asyncio.timeout(within_s):
            while not registry.up:
                await moved.wait()
                moved.clear()
            return await registry.members(folder)
    except TimeoutError:
        raise Unreachable(f"the registry has not answered within {within_s:g} s") from None
    finally:
        await registry.close()
