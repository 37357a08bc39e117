"""Ports of the Services that workloads make: their schema, and how they are written."""

from typing import Annotated, Any, Literal

from pydantic import Field

from federator.api import raw
from federator.api.common import Model, Port, PortNameOrNumber
from federator.api.raw import Obj


class ServicePort(Model):
    """A port of the service."""

    name: Annotated[str, Field(max_length=63)] = ""
    """Name of the port; needed when there are several."""
    port: Port
    """Port that clients use."""
    target_port: PortNameOrNumber | None = None
    """Port of the container, by number or name; the same as port when left out."""
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    """Protocol."""
    app_protocol: Annotated[str, Field(max_length=317)] | None = None
    """Hint on the protocol spoken, such as http or kubernetes.io/h2c."""


def written(port: Obj, *, alone: bool) -> dict[str, Any]:
    """A port of a Service. Several ports must be named; one that is not is called after its number
    and protocol."""
    number, protocol = raw.integer(port, "port"), raw.text(port, "protocol", default="TCP")
    out: dict[str, Any] = {
        "port": number,
        "protocol": protocol,
        "targetPort": port.get("targetPort", number),
    }
    name = raw.text(port, "name") or ("" if alone else f"{protocol.lower()}-{number}")
    return out | raw.present({"name": name, "appProtocol": raw.text(port, "appProtocol")})
