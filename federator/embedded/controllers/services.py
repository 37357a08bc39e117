"""Endpoints and outside addresses: EndpointSlices of Services with a selector, load balancer and
Ingress status.

Follows pods through the index; slices are rewritten at most once a second per Service. There is no
traffic.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.controllers.agenda import Dirty
from federator.embedded.controllers.keyed import Keyed
from federator.embedded.controllers.pods import Pod, PodIndex
from federator.embedded.controllers.tools import SUFFIX_ALPHABET, Key, Tools, owner_reference
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import DELETED, Event, JsonObject

SERVICE_LABEL: Final = "kubernetes.io/service-name"
_MANAGER: Final = "endpointslice-controller.k8s.io"
_PER_SLICE: Final = 100
_PAUSE_S: Final = 1.0
_BALANCER_S: Final = 2.0
"""A cloud's time to make a load balancer."""

Pair = tuple[str, str]


class Services:
    """One controller for all Services of a cluster."""

    def __init__(self, tools: Tools, pods: PodIndex) -> None:
        self._tools = tools
        self._resource = tools.kinds.services
        self._members: dict[Key, set[str]] = {}
        """Names of the pods each Service selects."""
        self._by_pair: dict[tuple[str, Pair], dict[Key, Mapping[str, str]]] = {}
        self._selectors: dict[Key, dict[str, str]] = {}
        self._dirty: Dirty[Key] = Dirty()
        self._paused: set[Key] = set()
        self._late: set[Key] = set()
        """Changed during their pause."""
        self._pods = pods
        pods.listeners.append(self._on_pod)

    def notice(self, event: Event) -> None:
        if event.resource.key == self._tools.kinds.endpointslices.key:
            name = (event.current.obj["metadata"].get("labels") or {}).get(SERVICE_LABEL)
            if name and event.type is DELETED:
                self._dirty.add((event.key[0], name))
            return
        selector = event.current.obj["spec"].get("selector") or {}
        if event.type is DELETED or self._selectors.get(event.key) != selector:
            self._unselect(event.key)
            if event.type is DELETED:
                return
            self._select(event.key, selector)
        self._dirty.add(event.key)

    def _select(self, key: Key, selector: dict[str, str]) -> None:
        self._selectors[key] = selector
        if not selector:
            return
        self._by_pair.setdefault((key[0], min(selector.items())), {})[key] = selector
        self._members[key] = {
            pod.name
            for pod in self._pods.by_key.values()
            if pod.key[0] == key[0] and selector.items() <= pod.labels.items()
        }

    def _unselect(self, key: Key) -> None:
        selector = self._selectors.pop(key, None)
        self._members.pop(key, None)
        if selector:
            pair = (key[0], min(selector.items()))
            services = self._by_pair[pair]
            del services[key]
            if not services:
                del self._by_pair[pair]

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if not self._by_pair:
            return
        if new is not None and old is not None:
            same_labels = old.labels is new.labels or old.labels == new.labels
            if same_labels and _endpoint(old) == _endpoint(new):
                return
            if not same_labels:
                for key in self._matching(old):
                    self._members[key].discard(old.name)
                    self._dirty.add(key)
        pod = new or old
        if pod is None:
            return
        for key in self._matching(pod):
            if new is None:
                self._members[key].discard(pod.name)
            else:
                self._members[key].add(pod.name)
            if pod.status.get("podIP"):
                self._dirty.add(key)

    def _matching(self, pod: Pod) -> Iterator[Key]:
        for pair in pod.labels.items():
            for key, selector in self._by_pair.get((pod.key[0], pair), {}).items():
                if len(selector) == 1 or selector.items() <= pod.labels.items():
                    yield key

    def steps(self) -> Iterator[None]:
        for key in self._dirty.drain():
            if key in self._paused:
                self._late.add(key)
                continue
            obj = self._tools.get(self._resource, key)
            if obj is None or "deletionTimestamp" in obj["metadata"]:
                continue
            # Changes during the pause are taken up at its end.
            self._paused.add(key)
            self._tools.agenda.after(_PAUSE_S, self._resume, key)
            if obj["spec"].get("type") == "LoadBalancer":
                balance(self._tools, self._resource, obj)
            if obj["spec"].get("selector"):
                yield from self._write(key, obj)
            yield

    def _resume(self, key: Key) -> None:
        self._paused.discard(key)
        if key in self._late:
            self._late.discard(key)
            self._dirty.add(key)

    def _write(self, key: Key, service: JsonObject) -> Iterator[None]:
        pods = [self._pods.by_key[key[0], name] for name in sorted(self._members.get(key, ()))]
        endpoints = [_endpoint_object(pod) for pod in pods if _endpoint(pod)[0]]
        chunks = [
            endpoints[at : at + _PER_SLICE] for at in range(0, len(endpoints), _PER_SLICE)
        ] or [[]]
        ports = _ports(service, pods)
        resource = self._tools.kinds.endpointslices
        for number, chunk in enumerate(chunks):
            name = slice_name(key[1], number)
            metadata: dict[str, Any] = {
                "name": name,
                "namespace": key[0],
                "generateName": key[1] + "-",
                "labels": {
                    **(service["metadata"].get("labels") or {}),
                    "endpointslice.kubernetes.io/managed-by": _MANAGER,
                    SERVICE_LABEL: key[1],
                },
                "ownerReferences": [owner_reference(self._resource, service)],
            }
            obj: JsonObject = {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": metadata,
                "addressType": "IPv4",
                "endpoints": chunk,
                "ports": ports,
            }
            have = self._tools.get(resource, (key[0], name))
            if have is None:
                self._tools.store.create(resource, obj)
            elif any(have.get(field) != obj[field] for field in ("endpoints", "ports")):
                self._tools.store.update(
                    resource, {**obj, "metadata": {**have["metadata"], **metadata}}
                )
            yield
        number = len(chunks)
        while (
            extra := self._tools.get(resource, (key[0], slice_name(key[1], number)))
        ) is not None:
            self._tools.delete(resource, extra)
            number += 1


class Ingresses(Keyed):
    """Gives every Ingress an address."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools, tools.kinds.ingresses)

    def _sync(self, key: Key, obj: JsonObject) -> Iterator[None]:
        if "deletionTimestamp" not in obj["metadata"]:
            balance(self._tools, self._resource, obj)
            yield


def balance(tools: Tools, resource: ResourceInfo, obj: JsonObject) -> None:
    """Asks for an address: it is there a little later and stays the same."""
    status = obj.get("status") or {}
    if not (status.get("loadBalancer") or {}).get("ingress"):
        metadata = obj["metadata"]
        key = (metadata["namespace"], metadata["name"])
        tools.agenda.after(_BALANCER_S, _balanced, tools, resource, key, metadata["uid"])


def _balanced(tools: Tools, resource: ResourceInfo, key: Key, uid: str) -> None:
    obj = tools.get(resource, key)
    if obj is None or obj["metadata"]["uid"] != uid:
        return
    entry: dict[str, Any] = {"ip": address_of(uid)}
    if resource is tools.kinds.services:
        entry["ipMode"] = "VIP"
    tools.set_status(
        resource, obj, {**(obj.get("status") or {}), "loadBalancer": {"ingress": [entry]}}
    )


def address_of(uid: str) -> str:
    """An address of the benchmarking range 198.18.0.0/15 that depends on the uid only."""
    digest = hashlib.sha256(uid.encode()).digest()
    return f"198.{18 + digest[0] % 2}.{digest[1]}.{1 + digest[2] % 254}"


def reachable(tools: Tools, namespace: str, service: str) -> bool:
    """Whether an EndpointSlice of the Service has a ready endpoint: all that can be known of a
    connection where there is no traffic."""
    if tools.get(tools.kinds.services, (namespace, service)) is None:
        return False
    number, resource = 0, tools.kinds.endpointslices
    while (obj := tools.get(resource, (namespace, slice_name(service, number)))) is not None:
        if any(endpoint["conditions"]["ready"] for endpoint in obj["endpoints"]):
            return True
        number += 1
    return False


def slice_name(service: str, number: int) -> str:
    """The name of a Service's n-th EndpointSlice: as long and as odd as a generated one, yet always
    the same."""
    digest = hashlib.sha256(f"{service}/{number}".encode()).digest()
    return f"{service}-" + "".join(
        SUFFIX_ALPHABET[byte % len(SUFFIX_ALPHABET)] for byte in digest[:5]
    )


def _endpoint(pod: Pod) -> tuple[str, bool, bool]:
    """(address, ready, terminating); no address when the pod is not an endpoint."""
    address = "" if pod.finished else pod.status.get("podIP") or ""
    return address, pod.ready, pod.deleting


def _endpoint_object(pod: Pod) -> JsonObject:
    address, ready, terminating = _endpoint(pod)
    return {
        "addresses": [address],
        "conditions": {
            "ready": ready and not terminating,
            "serving": ready,
            "terminating": terminating,
        },
        "nodeName": pod.node,
        "targetRef": {"kind": "Pod", "namespace": pod.key[0], "name": pod.name, "uid": pod.uid},
    }


def _ports(service: JsonObject, pods: list[Pod]) -> list[dict[str, Any]]:
    ports = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else _named_port(pods, target)
        if number is not None:
            entry = {
                "name": port.get("name", ""),
                "port": number,
                "protocol": port.get("protocol", "TCP"),
            }
            ports.append(
                {**entry, "appProtocol": port["appProtocol"]} if port.get("appProtocol") else entry
            )
    return ports


def _named_port(pods: list[Pod], name: str) -> int | None:
    for pod in pods[:1]:
        for container in pod.obj["spec"].get("containers") or ():
            for port in container.get("ports") or ():
                if port.get("name") == name:
                    return int(port["containerPort"])
    return None
