"""What every request handler of one embedded server needs: its store, its registry, its clock, its
address pool, and its authorization rules.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.embedded.auth.rbac import Rbac
from federator.embedded.auth.tokens import Tokens
from federator.embedded.catalogue.registry import Registry
from federator.embedded.schema import builtins
from federator.embedded.storage import field_errors, refusals
from federator.embedded.storage.revisions import DELETED, Event, JsonObject
from federator.embedded.storage.store import Store
from federator.embedded.validation import service_addresses
from federator.kube.clock import Clock

_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes draws generated names from: no vowels, no look-alikes."""
_GENERATED_BASE_MAX = 58


class ServiceAddresses:
    """Cluster IPs and node ports in use, kept from the store's own changes; hands out free ones in
    order.

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

    def give(self, service: JsonObject, old: JsonObject | None, *, dry_run: bool = False) -> None:
        """Fills in what a new Service, or a changed one, lacks. Raises `Refusal` 422 when it
        asks for what others have, or for what cannot be had. For ports, a dry run does not report
        the latter, as on a real server."""
        spec, before = service["spec"], (old or {}).get("spec") or {}
        wanted = spec.get("clusterIP")
        is_new = old is None or before.get("type") == "ExternalName"
        if wanted and is_new and wanted in self._used:
            why = f"failed to allocate IP {wanted}: provided IP is already allocated"
            raise _refused(service, "spec.clusterIPs", [wanted], why)
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            before_ports = _node_ports(before)
            for index, item in enumerate(spec.get("ports") or ()):
                self._check_port(
                    service, index, item.get("nodePort", 0), before_ports, dry_run=dry_run
                )
        service_addresses.allocate(service, self.pick, self.pick_port)

    def _check_port(
        self, service: JsonObject, index: int, port: int, taken: set[int], *, dry_run: bool
    ) -> None:
        if not port or port in taken:
            return
        why = "already allocated" if port in self._used_ports else ""
        if not dry_run and not self._FIRST_PORT <= port < self._FIRST_PORT + self._PORTS:
            last = self._FIRST_PORT + self._PORTS - 1
            why = f"not in the valid range. The range of valid ports is {self._FIRST_PORT}-{last}"
        if why:
            where = f"spec.ports[{index}].nodePort"
            raise _refused(service, where, port, f"provided port is {why}")

    def pick(self) -> str:
        """The next free address, in order, so that a run can be repeated."""
        while True:
            number = self._FIRST + self._next % (self._SIZE - 10)
            self._next += 1
            address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
            if address not in self._used:
                return address

    def pick_port(self) -> int:
        """The next free node port. Raises `Refusal` when all are taken."""
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


def _node_ports(spec: JsonObject) -> set[int]:
    ports = (
        *(port.get("nodePort", 0) for port in spec.get("ports") or ()),
        spec.get("healthCheckNodePort", 0),
    )
    return {port for port in ports if port}


def _refused(service: JsonObject, path: str, value: Any, why: str) -> refusals.Refusal:
    error = field_errors.invalid(path, value, why)
    return refusals.invalid("", "Service", service["metadata"]["name"], [error])


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
    before_write: list[Callable[[JsonObject], None]] = field(init=False, default_factory=list)
    """Called with each object that passed admission, before it is stored; may write others."""

    def __post_init__(self) -> None:
        self.registry = Registry(self.store)
        self.addresses = ServiceAddresses(self.store)
        self.authorizer = Rbac(self.store, self.registry)

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none for one that is not there."""
        stored = self.store.get(self.registry.get("", "namespaces"), "", namespace)
        return {} if stored is None else stored.obj["metadata"].get("labels") or {}

    def generated_name(self, base: str) -> str:
        """`base` and five random letters, as for generateName."""
        return base[:_GENERATED_BASE_MAX] + "".join(
            self.rng.choice(_NAME_ALPHABET) for _ in range(5)
        )
