"""The registry in ZooKeeper, by kazoo: its threads keep the session, and this class waits for their
answers on the event loop. Imported only by pods that register: it takes 5 MB.

Rights: entries and folders that a pod with a login makes can be read by every client and changed by
that login alone. ZooKeeper asks the folder for the right to remove an entry, so the folder of a
service belongs to the service. Every client may add to `/discovery`.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    ZookeeperError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions

from federator.runtime.traffic import members, registry
from federator.runtime.traffic.members import Member
from federator.runtime.traffic.registry import RegistrationRefused, Unreachable

log = logging.getLogger("federator.traffic")
_KAZOO: Final = logging.getLogger("federator.traffic.kazoo")
# It would log each of its tries while the registry is away; the part's state says it once.
_KAZOO.setLevel(logging.ERROR)

REQUEST_S: Final = 5.0
CLOSE_S: Final = 2.0
AGAIN_S: Final = 30.0
"""A login that was refused is shown again so often, and at once when the secret has changed."""
SECRET_MAX: Final = 1 << 14
RETRY: Final = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 5.0}
"""How kazoo connects again; it adds its own jitter."""
WORLD: Final = Id("world", "anyone")
_REFUSALS: Final = (NoAuthError, InvalidACLError, AuthFailedError)
SELF: Final = Id("auth", "")
"""ZooKeeper writes the identities of the connection in its place."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where ZooKeeper is, and as which identity a pod speaks to it."""

    hosts: str
    """host:port, separated by commas; a path at the end is put before every path."""
    session_s: float = 10.0
    secret: Path | None = None
    """A file with logins of the scheme `digest`, `name:secret`."""
    certificates: tuple[Path, Path, Path] | None = None
    """Certificate, key and trust bundle: the connection is TLS, and the identity is x509."""

    @property
    def known(self) -> bool:
        """Whether the pod has an identity there."""
        return self.secret is not None or self.certificates is not None


class _Trusting(SequentialThreadingHandler):  # type: ignore[misc]
    """TLS as pods trust: the authorities of the bundle alone, and the server by its name. By itself
    kazoo trusts those of the machine as well and looks at no name, so that any pod of the trust
    domain could stand in for ZooKeeper. Reads the files for each connection: they are renewed."""

    def __init__(self, certificates: tuple[Path, Path, Path]) -> None:
        super().__init__()
        self._certificates = certificates

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> ssl.SSLSocket:
        certificate, key, bundle = self._certificates
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the name
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(bundle)
        context.load_cert_chain(certificate, key)
        plain = socket.create_connection(address, timeout)
        try:
            return context.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise


class ZooKeeperRegistry:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._client: Any = None
        self._shown: tuple[registry.Login, ...] = ()
        self._trouble = ""
        self._connected_s = 0.0
        self._rejected = False
        """It has refused a login. That is an answer, which a person has to know of."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: Callable[[bool], None] = lambda _lost: None

    @property
    def session(self) -> str:
        known = self._client.client_id if self._client is not None else None
        return f"0x{known[0]:x}" if known else ""

    @property
    def up(self) -> bool:
        return self._client is not None and bool(self._client.connected or self._rejected)

    def watch(self, changed: Callable[[bool], None]) -> None:
        """Also begins to connect."""
        self._loop, self._changed = asyncio.get_running_loop(), changed
        self._connect()

    def _connect(self) -> None:
        tls: dict[str, Any] = {}
        if self._server.certificates is not None:
            tls = {"use_ssl": True, "handler": _Trusting(self._server.certificates)}
        self._connected_s, self._rejected = time.monotonic(), False
        self._shown = self._logins()
        self._client = KazooClient(
            hosts=self._server.hosts,
            timeout=self._server.session_s,
            connection_retry=RETRY,
            auth_data=[("digest", f"{login.name}:{login.secret}") for login in self._shown],
            logger=_KAZOO,
            **tls,
        )
        self._client.add_listener(self._heard)
        self._client.start_async()

    def _logins(self) -> tuple[registry.Login, ...]:
        if self._server.secret is None:
            return ()
        try:
            with self._server.secret.open("rb") as file:
                logins = registry.logins(file.read(SECRET_MAX).decode())
        except (OSError, ValueError) as bad:
            why = bad.strerror if isinstance(bad, OSError) else str(bad)
            self._trouble = f"the secret {self._server.secret} cannot be read: {why}"
            return ()
        self._trouble = "" if logins else f"the secret {self._server.secret} is empty"
        return logins

    def _heard(self, state: str) -> None:
        """Called by a thread of kazoo."""
        client = self._client
        if client is not None and client.client_state == KeeperState.AUTH_FAILED:
            self._rejected = True  # kazoo closes its session next
        if self._loop is not None and not self._loop.is_closed():
            lost = state == KazooState.LOST
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
                self._loop.call_soon_threadsafe(self._changed, lost)

    async def _answer(self, ask: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """The answer to one request. Nothing is sent without a connection: a request that waits in
        kazoo's queue would be carried out at a time when it is not wanted any more."""
        if not self.up:
            raise Unreachable("there is no connection to ZooKeeper")
        if self._rejected:
            raise AuthFailedError
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not answered.done():
                answered.set_result(None)

        def arrived(_result: object) -> None:
            """Called by a thread of kazoo."""
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
                loop.call_soon_threadsafe(wake)

        try:
            result = ask(*given, **named)
            result.rawlink(arrived)
            async with asyncio.timeout(REQUEST_S):
                await answered
            return result.get(block=False)
        except TimeoutError:
            raise Unreachable(f"ZooKeeper has not answered within {REQUEST_S:g} s") from None
        except (NodeExistsError, NoNodeError, *_REFUSALS):
            raise
        except (KazooException, ZookeeperError, OSError) as bad:
            raise Unreachable(f"ZooKeeper: {type(bad).__name__} {bad}".strip()) from None

    async def join(self, member: Member) -> str:
        await self._authorize()
        try:
            data = member.data()
        except ValueError as bad:
            raise RegistrationRefused(str(bad)) from None
        try:
            for _ in range(3):
                if await self._joined(member, data):
                    return self.session
        except _REFUSALS as bad:
            raise RegistrationRefused(self._denied(member, bad)) from None
        raise Unreachable("another session changes the entry of this pod at the same time")

    async def _joined(self, member: Member, data: bytes) -> bool:
        """Whether the entry is there, by this session."""
        client = self._client
        try:
            await self._answer(
                client.create_async, member.path, data, acl=self._acl(), ephemeral=True
            )
            return True
        except NoNodeError:
            await self._make_folders(member.folder)
            return False
        except NodeExistsError:
            pass
        try:
            present, stat = await self._answer(client.get_async, member.path)
            if stat.ephemeralOwner == (client.client_id or (0,))[0] and present == data:
                return True
            # One transaction: clients never see the folder without the entry.
            exchange = client.transaction()
            exchange.delete(member.path, version=stat.version)
            exchange.create(member.path, data, acl=self._acl(), ephemeral=True)
            outcomes = await self._answer(exchange.commit_async)
        except NoNodeError:
            return False
        for outcome in outcomes:
            if isinstance(outcome, NoAuthError | InvalidACLError):
                raise outcome
        return not any(isinstance(outcome, Exception) for outcome in outcomes)

    async def _make_folders(self, folder: str) -> None:
        """From `/discovery` down, as far as they are missing."""
        names = folder.strip("/").split("/")
        for depth in range(1, len(names) + 1):
            path = "/" + "/".join(names[:depth])
            acl = self._acl(shared=path == members.ROOT)
            try:
                await self._answer(self._client.create_async, path, b"", acl=acl)
            except NodeExistsError:
                pass
            except NoNodeError:
                if depth > 1:
                    return  # another client removes folders; the caller tries again
                raise RegistrationRefused(
                    "the path at the end of FEDERATOR_ZOOKEEPER does not exist; create it"
                ) from None

    def _acl(self, *, shared: bool = False) -> list[ACL]:
        if not self._server.known:
            return list(OPEN_ACL_UNSAFE)
        everybody = Permissions.READ | (Permissions.CREATE if shared else 0)
        return [ACL(everybody, WORLD), ACL(Permissions.ALL, SELF)]

    async def _authorize(self) -> None:
        """Shows the logins of a secret that was changed."""
        if self._server.secret is None:
            return
        logins = self._logins()
        if self._trouble:
            raise RegistrationRefused(self._trouble)
        if self._rejected:
            if logins != self._shown or time.monotonic() - self._connected_s > AGAIN_S:
                await self.close()
                self._connect()
            raise RegistrationRefused(f"ZooKeeper does not take the login {_names(logins)}")
        for login in logins:
            if login not in self._shown:
                text = f"{login.name}:{login.secret}"
                try:
                    await self._answer(self._client.add_auth_async, "digest", text)
                except AuthFailedError:
                    raise RegistrationRefused(
                        f"ZooKeeper does not take the login {login.name}"
                    ) from None
        self._shown = logins

    def _denied(self, member: Member, bad: Exception) -> str:
        names = _names(self._shown)
        as_whom = f"as {names}" if names else "by its certificate" if self._server.known else ""
        kind = "has no identity there" if isinstance(bad, InvalidACLError) else "may not write"
        return f"ZooKeeper: this pod {kind} {as_whom} in {member.folder}".replace("  ", " ")

    async def leave(self, member: Member) -> None:
        await self._authorize()
        try:
            await self._answer(self._client.delete_async, member.path)
        except NoNodeError:
            return
        except _REFUSALS as bad:
            raise RegistrationRefused(self._denied(member, bad)) from None

    async def members(self, folder: str) -> Sequence[Member]:
        try:
            nodes = await self._answer(self._client.get_children_async, folder)
        except NoNodeError:
            return []
        except _REFUSALS:
            raise RegistrationRefused(f"ZooKeeper: {folder} may not be read") from None
        asked = (self._read(folder, node) for node in sorted(nodes))
        return [member for member in await asyncio.gather(*asked) if member is not None]

    async def _read(self, folder: str, node: str) -> Member | None:
        try:
            data, _ = await self._answer(self._client.get_async, f"{folder}/{node}")
        except (NoNodeError, *_REFUSALS):
            return None
        return members.read(folder, node, data)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        client.remove_listener(self._heard)

        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            try:
                client.stop()
                client.close()
            except KazooException as bad:
                log.info("the session did not end in order: %s", bad)
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
                loop.call_soon_threadsafe(ended.set)

        # Not in the loop's pool, which the process waits for: a connection that is being made
        # holds `stop` up for seconds.
        threading.Thread(target=end, name="zookeeper-close", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await ended.wait()


def _names(logins: Sequence[registry.Login]) -> str:
    return ", ".join(login.name for login in logins)
