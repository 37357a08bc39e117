"""Probes of containers with their ports as numbers, as a program of the same pod needs them."""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj

WITH_PORT: Final = ("httpGet", "tcpSocket", "grpc")


def port(written: object, ports: list[Obj]) -> int | None:
    """A port of a probe, or the port of this container that it names; None if there is none."""
    if isinstance(written, str):
        named = (raw.integer(p, "containerPort") for p in ports if p.get("name") == written)
        plain = int(written) if written.isascii() and written.isdecimal() else None
        written = next(named, plain)
    fits = isinstance(written, int) and not isinstance(written, bool) and 0 < written < 65536
    return written if fits and isinstance(written, int) else None


def resolved(probe: Obj, ports: list[Obj]) -> dict[str, Any]:
    """The probe, or the handler of a hook, with its port as a number."""
    out = dict(probe)
    for way in WITH_PORT:
        if way in out:
            how = raw.mapping(out, way)
            out[way] = {**how, "port": port(how.get("port"), ports)}
    return out
