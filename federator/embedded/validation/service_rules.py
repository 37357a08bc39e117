"""Validation of Services and Ingresses, with a real API server's words."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.storage.field_errors import (
    FieldError,
    GoStruct,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from federator.embedded.validation import pod_rules
from federator.embedded.validation.metadata_rules import (
    dns_label,
    label_value,
    qualified_name,
    subdomain,
)
from federator.embedded.validation.pod_rules import named, one_of, port_number, port_or_name
from federator.embedded.validation.service_addresses import needs_health_check

Struct = Mapping[str, Any]

_SERVICE_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def service(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    """A Service; its cluster IP is fixed once given."""
    spec = obj.get("spec") or {}
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if kind == "ExternalName":
        for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(key) or (key == "clusterIPs" and spec.get("clusterIP")):
                yield forbidden(f"spec.{key}", "may not be set for ExternalName services")
        if not spec.get("externalName"):
            yield required("spec.externalName")
        else:
            yield from named(spec["externalName"].removesuffix("."), subdomain, "spec.externalName")
    elif kind == "LoadBalancer" and headless:
        yield invalid(
            "spec.clusterIPs[0]", "None", "may not be set to 'None' for LoadBalancer services"
        )
    elif kind == "NodePort" and headless:
        yield invalid(
            "spec.clusterIPs[0]", "None", "may not be set to 'None' for NodePort services"
        )
    names: set[str] = set()
    for index, port in enumerate(ports):
        if kind == "ClusterIP" and port.get("nodePort"):
            yield forbidden(
                f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'"
            )
        yield from _service_port(port, f"spec.ports[{index}]", len(ports) > 1, names)
    yield from _service_selector(spec)
    affinity = spec.get("sessionAffinity")
    yield from one_of(affinity, ("ClientIP", "None"), "spec.sessionAffinity")
    yield from one_of(kind, _SERVICE_TYPES, "spec.type")
    yield from _policies(spec)
    yield from _balancer(spec, old)
    yield from _port_uniqueness(ports)
    yield from _addresses(spec)
    if old is not None:
        yield from _service_update(spec, old.get("spec") or {})


_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")


def _policies(spec: Struct) -> Iterator[FieldError]:
    family, traffic, inside = (
        spec.get(key)
        for key in ("ipFamilyPolicy", "externalTrafficPolicy", "internalTrafficPolicy")
    )
    if family is not None and family not in _FAMILY_POLICIES:
        yield not_supported("spec.ipFamilyPolicy", family, _FAMILY_POLICIES)
    anywhere = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("type") != "ExternalName" and not anywhere:
        if family == "RequireDualStack":
            yield invalid(
                "spec.ipFamilyPolicy",
                family,
                "this cluster is not configured for dual-stack services",
            )
        for index, ip_family in enumerate(spec.get("ipFamilies") or ()):
            if ip_family == "IPv6":
                yield invalid(
                    f"spec.ipFamilies[{index}]", ip_family, "not configured on this cluster"
                )
    external = spec.get("type") in ("NodePort", "LoadBalancer") or spec.get("externalIPs")
    if traffic is not None and not external:
        text = "may only be set for externally-accessible services"
        yield invalid("spec.externalTrafficPolicy", traffic, text)
    for key, value in (
        ("externalTrafficPolicy", traffic if external else None),
        ("internalTrafficPolicy", inside),
    ):
        if value is not None and value not in ("Cluster", "Local"):
            yield not_supported(f"spec.{key}", value, ("Cluster", "Local"))


def _balancer(spec: Struct, old: Struct | None) -> Iterator[FieldError]:
    before = (old or {}).get("spec") or {}
    wanted, port = spec.get("loadBalancerClass"), spec.get("healthCheckNodePort", 0)
    if spec.get("type") != "LoadBalancer":
        if wanted is not None:
            yield forbidden(
                "spec.loadBalancerClass", "may only be used when `type` is 'LoadBalancer'"
            )
    else:
        if before.get("type") == "LoadBalancer" and wanted != before.get("loadBalancerClass"):
            yield invalid("spec.loadBalancerClass", wanted, "may not change once set")
        if wanted is not None:
            yield from named(wanted, qualified_name, "spec.loadBalancerClass")
    if not needs_health_check(spec):
        if port:
            text = (
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is"
                " 'Local'"
            )
            yield invalid("spec.healthCheckNodePort", port, text)
    elif needs_health_check(before) and port != before.get("healthCheckNodePort"):
        yield forbidden("spec.healthCheckNodePort", "field is immutable")


def _service_port(port: Struct, at: str, needs_name: bool, names: set[str]) -> Iterator[FieldError]:
    name = port.get("name", "")
    if needs_name and not name:
        yield required(f"{at}.name")
    elif name:
        yield from named(name, dns_label, f"{at}.name")
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
    yield from port_number(port.get("port"), f"{at}.port")
    yield from one_of(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{at}.protocol")
    yield from port_or_name(port.get("targetPort", 0), f"{at}.targetPort")
    if port.get("appProtocol"):
        yield from named(port["appProtocol"], qualified_name, f"{at}.appProtocol")


def _service_selector(spec: Struct) -> Iterator[FieldError]:
    for key, value in sorted((spec.get("selector") or {}).items()):
        for text in qualified_name(key):
            yield invalid("spec.selector", key, text)
        for text in label_value(value):
            yield invalid("spec.selector", value, text)


def _port_uniqueness(ports: list[Struct]) -> Iterator[FieldError]:
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            printed = GoStruct(
                Name="", Protocol=key[0], AppProtocol=None, Port=key[1], TargetPort=0, NodePort=0
            )
            yield duplicate(f"spec.ports[{index}]", printed)
        seen.add(key)


def _addresses(spec: Struct) -> Iterator[FieldError]:
    single, several = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if spec.get("type") != "ExternalName" and single != (several or [""])[0]:
        text = (
            "first value must match `clusterIP`"
            if single
            else "must be empty when `clusterIP` is not specified"
        )
        yield invalid("spec.clusterIPs", several, text)
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        if address == "None":
            continue
        try:
            ipaddress.ip_address(address)
        except ValueError:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(f"spec.clusterIPs[{index}]", address, text)


def _service_update(spec: Struct, before: Struct) -> Iterator[FieldError]:
    fixed = "ExternalName" not in (spec.get("type"), before.get("type"))
    old = before.get("clusterIPs") or []
    new = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    if fixed and old and new[:1] != old[:1]:
        yield invalid("spec.clusterIPs[0]", new or None, "may not change once set")


def warnings(service: Struct) -> Iterator[str]:
    """What a real server says about settings of a Service that have no effect."""
    spec = service.get("spec") or {}
    affine = spec.get("sessionAffinity", "None") != "None"
    if spec.get("clusterIP") == "None" and spec.get("type") != "ExternalName" and affine:
        yield "spec.SessionAffinity is ignored for headless services"
    if spec.get("type") != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'


def cidr(text: str, path: str) -> Iterator[FieldError]:
    """A block of addresses."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        yield invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")


def ip_of(text: str, family: str, path: str) -> Iterator[FieldError]:
    """An address of a family, IPv4 or IPv6."""
    try:
        version = ipaddress.ip_address(text).version
    except ValueError:
        yield invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return
    if f"IPv{version}" != family:
        yield invalid(path, text, f"must be an {family} address")


def ingress(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    if not spec.get("rules") and "defaultBackend" not in spec:
        # A real server prints the empty list of rules it looked at.
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if spec.get("ingressClassName"):
        yield from named(spec["ingressClassName"], subdomain, "spec.ingressClassName")
    for index, entry in enumerate(spec.get("tls") or ()):
        for position, host in enumerate(entry.get("hosts") or ()):
            at = f"spec.tls[{index}].hosts[{position}]"
            yield from named(host.removeprefix("*."), subdomain, at)
    if "defaultBackend" in spec:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        at, host = f"spec.rules[{index}]", rule.get("host", "")
        if host:
            try:
                ipaddress.ip_address(host)
                yield invalid(f"{at}.host", host, "must be a DNS name, not an IP address")
            except ValueError:
                yield from named(host.removeprefix("*."), subdomain, f"{at}.host")
        if "http" in rule:
            paths = (rule["http"] or {}).get("paths") or []
            if not paths:
                yield required(f"{at}.http.paths")
            for position, path in enumerate(paths):
                yield from _ingress_path(path, f"{at}.http.paths[{position}]")


def _ingress_path(path: Struct, at: str) -> Iterator[FieldError]:
    kind, where = path.get("pathType"), path.get("path", "")
    if kind is None:
        yield required(f"{at}.pathType", "pathType must be specified")
        return
    if kind in ("Exact", "Prefix"):
        if not where.startswith("/"):
            yield invalid(f"{at}.path", where, "must be an absolute path")
        for part in ("//", "/./", "/../", "%2f", "%2F"):
            if part in where:
                yield invalid(f"{at}.path", where, f"must not contain '{part}'")
    elif kind == "ImplementationSpecific":
        if where and not where.startswith("/"):
            yield invalid(f"{at}.path", where, "must be an absolute path")
    else:
        yield not_supported(f"{at}.pathType", kind, ("Exact", "ImplementationSpecific", "Prefix"))
    yield from _backend(path.get("backend") or {}, f"{at}.backend")


def _backend(backend: Struct, at: str) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        yield invalid(at, "", "resource or service backend is required")
        return
    if service is None:
        return
    if resource is not None:
        yield invalid(at, "", "cannot set both resource and service backends")
        return
    if not service.get("name"):
        yield required(f"{at}.service.name")
    else:
        yield from named(service["name"], dns_label, f"{at}.service.name")
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        yield invalid(at, "", "cannot set both port name & port number")
    elif port.get("name"):
        yield from named(port["name"], pod_rules.port_name, f"{at}.service.port.name")
    elif port.get("number"):
        yield from port_number(port["number"], f"{at}.service.port.number")
    else:
        yield required(at, "port name or number is required")
