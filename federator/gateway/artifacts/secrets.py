"""Credentials for artifact stores, from Secrets on the host. They are in no repr, log or error."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from federator.api import decoding, raw
from federator.api.raw import Obj
from federator.gateway.artifacts.ports import Reason, refused
from federator.kube import client as clients
from federator.kube import errors
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef

KEPT_S: Final = 30.0
"""A Secret is read again after so many seconds, so that a rotated password is soon in use."""
KEPT_MAX: Final = 256
READ_S: Final = 5.0
DOCKER_CONFIG: Final = ".dockerconfigjson"


@dataclass(frozen=True, slots=True)
class Login:
    """What is shown to one host; all empty for nothing."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    """A bearer token in place of both."""

    @property
    def basic(self) -> str:
        """The Authorization header with user and password, "" without them."""
        if not self.username and not self.password:
            return ""
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    @property
    def header(self) -> str:
        """The Authorization header for a host that asks for none in particular."""
        return f"Bearer {self.token}" if self.token else self.basic


class Secrets(Protocol):
    """Where credentials come from."""

    async def login(self, name: str, host: str) -> Login:
        """What the Secret of that name holds for the host. Raises ArtifactRefused."""
        ...


class HostSecrets:
    """Reads Secrets of one namespace on the host, by name."""

    def __init__(
        self, client: clients.Client, namespace: str, monotonic: Callable[[], float]
    ) -> None:
        self._client, self._namespace, self._monotonic = client, namespace, monotonic
        self._kept: dict[str, tuple[float, Obj]] = {}

    async def login(self, name: str, host: str) -> Login:
        path = f"the Secret {self._namespace}/{name}"
        try:
            return login_of(await self._read(name), host)
        except errors.NotFound:
            message = "does not exist; spec.registries of the policy names it"
        except errors.Denied:
            message = "the gateway may not read it"
        except errors.ApiError as trouble:
            raise refused(Reason.STORE_UNREACHABLE, path, f"cannot be read: {trouble}") from trouble
        except ValueError as bad:
            message = str(bad)
        raise refused(Reason.POLICY_INVALID, path, message)

    async def _read(self, name: str) -> Obj:
        now = self._monotonic()
        read_s, secret = self._kept.get(name, (-KEPT_S, raw.NO_FIELDS))
        if now - read_s < KEPT_S:
            return secret
        ref = ObjectRef("v1", "secrets", self._namespace, name, "Secret")
        secret = await self._client.get(ref, timeout_s=READ_S)
        while len(self._kept) >= KEPT_MAX:
            self._kept.pop(next(iter(self._kept)))
        self._kept[name] = now, secret
        return secret


def login_of(secret: Obj, host: str) -> Login:
    """The credentials of a Secret for a host. Raises ValueError, which quotes nothing of it."""
    data = raw.mapping(secret, "data")
    if DOCKER_CONFIG in data:
        login = of_docker_config(_decoded(data, DOCKER_CONFIG), host)
        if login is None:
            raise ValueError(f"{DOCKER_CONFIG} has no entry for {host}")
        return login
    if "token" in data:
        return Login(token=_decoded(data, "token"))
    if "username" in data or "password" in data:
        return Login(_decoded(data, "username"), _decoded(data, "password"))
    raise ValueError(f"holds neither {DOCKER_CONFIG} nor username and password nor token")


def _decoded(data: Obj, key: str) -> str:
    try:
        return base64.b64decode(raw.text(data, key), validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError(f"{key} is not text in base64") from None


def of_docker_config(text: str, host: str) -> Login | None:
    """The credentials for a host in a file of `docker login`; None when it has none. Raises
    ValueError. Programs that the file names are not run."""
    try:
        auths = raw.mapping(decoding.from_json(text), "auths")
    except FieldError:
        raise ValueError("is not JSON that can be read") from None
    entry = next((auths[key] for key in auths if _host_of(key) == host), None)
    if entry is None:
        return None
    if token := raw.text(entry, "registrytoken"):
        return Login(token=token)
    if auth := raw.text(entry, "auth"):
        username, _, password = _decoded({"auth": auth}, "auth").partition(":")
        return Login(username, password)
    return Login(raw.text(entry, "username"), raw.text(entry, "password"))


def _host_of(key: str) -> str:
    """registry.example, https://registry.example/v1/ -> registry.example"""
    host = key.removeprefix("https://").removeprefix("http://").partition("/")[0]
    return "docker.io" if host == "index.docker.io" else host
