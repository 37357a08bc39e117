"""Acts on the host as a reader: the dashboard's account impersonates users and groups that the
setting `dashboard.act_as` admits, and never one of `system:`. The audit of the API server names
both.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDict

from federator.hub.query.access import AUTHENTICATED, User
from federator.kube.wire.transport import RefreshesCredentials, Request, Response, Transport
from federator.model import plaintext
from federator.model.errors import FieldError

SYSTEM: Final = "system:"
NAME_MAX: Final = 256
"""Characters of a name in a header."""
SETTING: Final = "dashboard.act_as"


@dataclass(frozen=True, slots=True)
class Admitted:
    """The people that may act. Groups that are not admitted are not impersonated: their rights do
    not count."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def acting(self, user: User) -> User | None:
        """The user as the host is to see it; None for a person without that."""
        groups = tuple(group for group in dict.fromkeys(user.groups) if group in self.groups)
        if not passable(user.name) or not (groups or user.name in self.users):
            return None
        return User(user.name, (*groups, AUTHENTICATED))

    def __bool__(self) -> bool:
        return bool(self.users or self.groups)


def admitted(entries: Iterable[str]) -> Admitted:
    """Of the setting. Raises FieldError."""
    names: dict[str, set[str]] = {"user": set(), "group": set()}
    for entry in entries:
        kind, colon, name = entry.partition(":")
        if not colon or kind not in names:
            shown = plaintext.clipped(entry, 80)
            raise FieldError(SETTING, f"{shown!r} is neither user:NAME nor group:NAME")
        if not passable(name) or "," in name:
            shown = plaintext.clipped(name, 80)
            raise FieldError(
                SETTING,
                f"{shown!r} cannot be acted as: a name is printable ASCII without commas, and does"
                f" not begin with {SYSTEM}",
            )
        names[kind].add(name)
    return Admitted(frozenset(names["user"]), frozenset(names["group"]))


def passable(name: str) -> bool:
    """Whether a header carries this name as it is, and it is none of Kubernetes' own."""
    plain = name.isascii() and name.isprintable() and name == name.strip()
    return plain and 0 < len(name) <= NAME_MAX and not name.lower().startswith(SYSTEM)


class ActingTransport:
    """Sends requests of the dashboard's account as another user. What it is made from stays open
    when it is closed."""

    def __init__(self, transport: Transport, user: User) -> None:
        self._transport = transport
        groups = [group for group in user.groups if group != AUTHENTICATED]
        assert passable(user.name)
        assert all(map(passable, groups))
        self._headers = [
            ("Impersonate-User", user.name),
            *(("Impersonate-Group", group) for group in groups),
        ]

    async def request(self, request: Request) -> Response:
        """Sends the request with the names of the user."""
        headers = CIMultiDict(request.headers)
        headers.extend(self._headers)
        return await self._transport.request(dataclasses.replace(request, headers=headers))

    async def refresh_credentials(self) -> bool:
        """Renews those of the dashboard's account."""
        inner = self._transport
        return isinstance(inner, RefreshesCredentials) and await inner.refresh_credentials()

    async def close(self) -> None:
        """Nothing of its own is open."""
