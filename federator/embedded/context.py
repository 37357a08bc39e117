"""What every request handler of one embedded server needs: its store, its registry, its clock, its address pool,
and who may do what.
"""

import random
from dataclasses import dataclass, field

from federator.embedded import builtins, refusals
from federator.embedded.rbac import Rbac
from federator.embedded.registry import Registry
from federator.embedded.revisions import DELETED, Event, JsonObject
from federator.embedded.store import Store
from federator.embedded.tokens import Tokens
from federator.kube.clock import Clock

_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes draws generated names from: no vowels, no look-alikes."""
_GENERATED_BASE_MAX = 58


class ServiceAddresses:
    """Cluster IPs and node ports in use, kept from the store's own changes; hands out free ones in order.

    Addresses come from 10.96.0.0/12 and ports from 30000-32767, the ranges of a default cluster.
    """

    _FIRST = (10 << 24) | (96 << 16) | 10
    _SIZE = 1 << 20
    _FIRST_PORT, _PORTS = 30000, 2768

    def __init__(self, store: Store) -> None:
        self._used: dict[str, int] = {}
        self._next = 0
        self._used_ports: set[int] = set()
        self._next_port = 0
        store.subscribe(builtins.info("", "services"), self._on_service)

    def taken(self, address: str) -> bool:
        return address in self._used

    def pick(self) -> str:
        """The next address nobody uses, in order, so that a run can be repeated."""
        while True:
            number = self._FIRST + self._next % (self._SIZE - 10)
            self._next += 1
            address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
            if address not in self._used:
                return address

    def pick_port(self) -> int:
        """The next node port nobody uses. Raises `Refusal` when all are taken."""
        for _ in range(self._PORTS):
            port = self._FIRST_PORT + self._next_port % self._PORTS
            self._next_port += 1
            if port not in self._used_ports:
                return port
        raise refusals.Refusal(500, "InternalError", "failed to allocate a nodePort: range is full")

    def _on_service(self, event: Event) -> None:
        if event.previous is not None:
            spec = event.previous.obj["spec"]
            for address in spec.get("clusterIPs") or ():
                self._used.pop(address, None)
            self._used_ports.difference_update(_node_ports(spec))
        if event.type is not DELETED:
            spec = event.current.obj["spec"]
            for address in spec.get("clusterIPs") or ():
                if address != "None":
                    self._used[address] = event.number
            self._used_ports.update(_node_ports(spec))


def _node_ports(spec: JsonObject) -> list[int]:
    return [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]


@dataclass(slots=True)
class Context:
    """One server's parts. Shared by all its requests."""

    name: str
    store: Store
    clock: Clock
    rng: random.Random
    tokens: Tokens
    registry: Registry = field(init=False)
    addresses: ServiceAddresses = field(init=False)
    authorizer: Rbac = field(init=False)

    def __post_init__(self) -> None:
        self.registry = Registry(self.store)
        self.addresses = ServiceAddresses(self.store)
        self.authorizer = Rbac(self.store, self.registry)

    def generated_name(self, base: str) -> str:
        """`base` and five random letters, as for generateName."""
        return base[:_GENERATED_BASE_MAX] + "".join(self.rng.choice(_NAME_ALPHABET) for _ in range(5))
