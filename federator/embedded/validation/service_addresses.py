"""Addresses and ports of Services: what an update keeps, follows or gives up, and what is drawn for
it.

`natives` calls `keep` for every update, `writing` calls `allocate` before it validates. The rules
are those of a real API server's storage of Services (allocated values are patched in, `clusterIP`
and `clusterIPs` follow each other, a change of type drops what the new type has no use for).
Nothing here validates or reads the store.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

Object = dict[str, Any]

_TRAFFIC_POLICIES: Final = ("Cluster", "Local")


def keep(service: Object, old: Object) -> None:
    """Shapes an updated Service in place by the old one."""
    spec, before = service["spec"], old.get("spec") or {}
    if _needs_address(spec) and _needs_address(before):
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and before.get(key):
                spec[key] = before[key]
        if not spec.get("ipFamilyPolicy") and before.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = before["ipFamilyPolicy"]
    if spec.get("clusterIP", "") != before.get("clusterIP", "") and _same(
        spec, before, "clusterIPs"
    ):
        spec.pop("clusterIPs", None)
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]
    _keep_node_ports(spec, before)
    _drop(spec, before)
    if spec.get("type") != "LoadBalancer" and "status" in service:
        service["status"] = {**service["status"], "loadBalancer": {}}


def _keep_node_ports(spec: Object, before: Object) -> None:
    if _draws_ports(spec) and _draws_ports(before):
        wanted = {port.get("nodePort", 0) for port in spec.get("ports") or ()}
        ports_before = {
            port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports") or ()
        }
        for port in spec.get("ports") or ():
            number = ports_before.get(port.get("name", ""), 0)
            if not port.get("nodePort") and number and number not in wanted:
                port["nodePort"] = number
    if (
        needs_health_check(spec)
        and needs_health_check(before)
        and not spec.get("healthCheckNodePort")
    ):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def _drop(spec: Object, before: Object) -> None:
    """Takes away what the new type does not use, unless the update says something else about it
    too."""
    if _needs_address(before) and not _needs_address(spec):
        if _same(spec, before, "clusterIP") and _same(spec, before, "clusterIPs"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        for key in ("ipFamilies", "ipFamilyPolicy"):
            if _same(spec, before, key):
                spec.pop(key, None)
    ports = [port.get("nodePort", 0) for port in spec.get("ports") or ()]
    old_ports = {port.get("nodePort", 0) for port in before.get("ports") or ()}
    if (
        _has_ports(before)
        and not _has_ports(spec)
        and all(not port or port in old_ports for port in ports)
    ):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    gone = {
        "healthCheckNodePort": needs_health_check(before) and not needs_health_check(spec),
        "allocateLoadBalancerNodePorts": _balances(before) and not _balances(spec),
        "loadBalancerClass": _balances(before) and not _balances(spec),
        "externalTrafficPolicy": _is_outside(before) and not _is_outside(spec),
    }
    for key, is_gone in gone.items():
        if is_gone and _same(spec, before, key):
            spec.pop(key, None)


def allocate(service: Object, ip: Callable[[], str], port: Callable[[], int]) -> None:
    """Fills in addresses and node ports. `ip` and `port` give free ones, once per value needed."""
    spec = service["spec"]
    if not _needs_address(spec):
        # It was a default of this type once, and is not shown since.
        if spec.get("internalTrafficPolicy") in _TRAFFIC_POLICIES:
            del spec["internalTrafficPolicy"]
        return
    if not spec.get("clusterIP"):
        if spec.get("clusterIPs"):
            # Without the first of them they are refused, and get nothing.
            return
        spec["clusterIP"] = ip()
    if not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    # A headless service without a selector may point anywhere, so it is given both families.
    anywhere = spec["clusterIP"] == "None" and not spec.get("selector")
    policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anywhere else "SingleStack")
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4", "IPv6"] if anywhere and policy != "SingleStack" else ["IPv4"]
    if _draws_ports(spec):
        for item in spec.get("ports") or ():
            if not item.get("nodePort"):
                item["nodePort"] = port()
    if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = port()


def needs_health_check(spec: Mapping[str, Any]) -> bool:
    """Whether balancers outside ask each node for this Service's health on a port of its own."""
    return _balances(spec) and spec.get("externalTrafficPolicy") == "Local"


def _needs_address(spec: Object) -> bool:
    return spec.get("type") != "ExternalName"


def _balances(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") == "LoadBalancer"


def _has_ports(spec: Object) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def _draws_ports(spec: Object) -> bool:
    return spec.get("type") == "NodePort" or (
        _balances(spec) and spec.get("allocateLoadBalancerNodePorts", True)
    )


def _is_outside(spec: Object) -> bool:
    return _has_ports(spec) or bool(spec.get("externalIPs") and spec.get("type") == "ClusterIP")


def _same(spec: Object, before: Object, key: str) -> bool:
    return bool((spec.get(key) or None) == (before.get(key) or None))
