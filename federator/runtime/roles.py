"""The parts by name, and what each is made from. A part's module is imported only where its role is
asked for, because every pod pays for the memory."""

import importlib
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from federator.runtime.identity.spiffe import NoId, SpiffeId
from federator.runtime.parts import Part

PARTS: Final[Mapping[str, str]] = {
    "identity": "federator.runtime.identity.part",
    "secrets": "federator.runtime.secrets.part",
    "config": "federator.runtime.configuration.part",
    "traffic": "federator.runtime.traffic.part",
    "logs": "federator.runtime.logs.part",
    "metrics": "federator.runtime.metrics.part",
}
"""Role -> the module with its `make`. In this order the init run prepares them: each may use the
files of those before it."""

IDENTITY_DIR: Final = "FEDERATOR_IDENTITY_DIR"
DEFAULT_IDENTITY_DIR: Final = "/var/run/pinterest/identity"


class BadSetting(ValueError):
    """A variable of the pod cannot be used. The message names it and what is accepted."""


@dataclass(frozen=True, slots=True)
class Pod:
    """What parts are made from: the variables of the container, clocks and chance."""

    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    monotonic: Callable[[], float] = time.monotonic
    """Seconds of a clock that no one sets."""
    wall: Callable[[], float] = time.time
    """Epoch seconds."""
    chance: Callable[[], float] = random.random
    """From 0 to 1: jitter."""

    @property
    def identity(self) -> Path:
        """The folder with `tls.crt`, `tls.key` and `ca.crt` of the pod."""
        return Path(self.env.get(IDENTITY_DIR) or DEFAULT_IDENTITY_DIR)

    def text(self, name: str, default: str | None = None) -> str:
        """A variable. Raises BadSetting for one that is missing and has no default."""
        value = self.env.get(name, "") or default
        if value is None:
            raise BadSetting(f"{name} is not set; the runtime profile has to set it")
        return value

    def principal(self) -> SpiffeId:
        """The SPIFFE id that the variables of the pod say. Raises BadSetting."""
        try:
            return SpiffeId(
                self.text("FEDERATOR_TRUST_DOMAIN"),
                self.text("POD_NAMESPACE"),
                self.text("POD_SERVICE_ACCOUNT"),
            )
        except NoId as bad:
            raise BadSetting(str(bad)) from None

    def seconds(self, name: str, default: float) -> float:
        """A variable with a number of seconds. Raises BadSetting."""
        text = self.env.get(name, "")
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise BadSetting(f"{name} is {text!r}; a number of seconds such as 15 is accepted")
        return value


def made(roles: Iterable[str], pod: Pod) -> list[Part]:
    """The parts of these roles, in the order of the table. Raises BadSetting."""
    wanted = list(roles)
    if unknown := sorted(set(wanted) - set(PARTS)):
        raise BadSetting(f"there is no role {unknown[0]!r}; the roles are {', '.join(PARTS)}")
    if not wanted:
        raise BadSetting(f"no role is named; the roles are {', '.join(PARTS)}")
    return [importlib.import_module(PARTS[name]).make(pod) for name in PARTS if name in wanted]
