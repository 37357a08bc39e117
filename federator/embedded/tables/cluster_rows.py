"""Cells of networking, nodes, configuration and everything else built in that take more than a look
at a field. Used by `columns`; `default_class` by `tables`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.embedded.schema import event_groups
from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import ages, rowcells

Own = Mapping[str, Any]


def service(obj: JsonObject, now: float) -> Own:
    spec = obj["spec"]
    return {
        "Cluster-IP": (spec.get("clusterIPs") or [spec.get("clusterIP") or rowcells.NONE])[0],
        "External-IP": _external(obj),
        "Port(s)": ",".join(_port(port) for port in spec.get("ports") or ()) or rowcells.NONE,
        "Selector": rowcells.labels_text(spec.get("selector")),
    }


def _port(port: JsonObject) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


def _external(obj: JsonObject) -> str:
    spec = obj["spec"]
    type_, given = spec.get("type"), list(spec.get("externalIPs") or ())
    if type_ == "ExternalName":
        return str(spec.get("externalName", ""))
    if type_ == "LoadBalancer":
        return ",".join([*rowcells.balanced(obj), *given]) or "<pending>"
    return ",".join(given) or rowcells.NONE


def ingress(obj: JsonObject, now: float) -> Own:
    spec = obj["spec"]
    rules = spec.get("rules") or []
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    return {
        "Hosts": rowcells.listed(hosts, len(rules)) if hosts else "*",
        "Address": ",".join(rowcells.balanced(obj)),
        "Ports": "80, 443" if spec.get("tls") else "80",
    }


def ingress_class(obj: JsonObject, now: float) -> Own:
    parameters = obj["spec"].get("parameters")
    if not parameters:
        return {"Parameters": rowcells.NONE}
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return {"Parameters": f"{parameters['kind']}{group}/{parameters['name']}"}


def endpoints(obj: JsonObject, now: float) -> Own:
    listed = []
    for subset in obj.get("subsets") or ():
        ports = [f":{port['port']}" for port in subset.get("ports") or ()] or [""]
        listed += [
            f"{address['ip']}{port}" for port in ports for address in subset.get("addresses") or ()
        ]
    return {"Endpoints": rowcells.listed(listed)}


def endpoint_slice(obj: JsonObject, now: float) -> Own:
    ports = [str(port.get("port", port.get("name", "*"))) for port in obj.get("ports") or ()]
    addresses = [
        address
        for endpoint in obj.get("endpoints") or ()
        for address in endpoint.get("addresses") or ()
    ]
    return {
        "Ports": rowcells.listed(ports).replace(rowcells.NONE, "<unset>"),
        "Endpoints": rowcells.listed(addresses).replace(rowcells.NONE, "<unset>"),
    }


def node(obj: JsonObject, now: float) -> Own:
    status = rowcells.status_of(obj)
    ready = [c for c in status.get("conditions") or () if c["type"] == "Ready"]
    states = ["Ready" if ready[-1]["status"] == "True" else "NotReady"] if ready else ["Unknown"]
    if (obj.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = {label.removeprefix(prefix) for label in labels if label.startswith(prefix)} - {""}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    about = status.get("nodeInfo") or {}
    machine = f" ({about['architecture']})" if about.get("architecture") else ""
    addresses = {
        entry["type"]: entry["address"] for entry in reversed(status.get("addresses") or [])
    }
    return {
        "Status": ",".join(states),
        "Roles": ",".join(sorted(roles)) or rowcells.NONE,
        "Internal-IP": addresses.get("InternalIP", rowcells.NONE),
        "External-IP": addresses.get("ExternalIP", rowcells.NONE),
        "Kernel-Version": (about.get("kernelVersion") or "<unknown>") + machine,
    }


def event(obj: JsonObject, now: float) -> Own:
    obj = event_groups.core_event(obj)
    first = ages.since(obj.get("firstTimestamp") or obj.get("eventTime"), now)
    last = ages.since(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    series = obj.get("series")
    if series:
        last, count = ages.since(series.get("lastObservedTime"), now), series.get("count", 1)
    target = obj.get("involvedObject") or {}
    name = f"/{target['name']}" if target.get("name") else ""
    source = obj.get("source") or {}
    origin = [
        source.get("component") or obj.get("reportingComponent"),
        source.get("host") or obj.get("reportingInstance"),
    ]
    return {
        "Last Seen": last,
        "Object": target.get("kind", "").lower() + name,
        "Subobject": target.get("fieldPath", ""),
        "Source": ", ".join(part for part in origin if part),
        "Message": (obj.get("message") or "").strip(),
        "First Seen": first,
        "Count": count,
    }


def data(obj: JsonObject, now: float) -> Own:
    """Of ConfigMaps and Secrets."""
    return {"Data": len(obj.get("data") or ()) + len(obj.get("binaryData") or ())}


def binding(obj: JsonObject, now: float) -> Own:
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        prefix = f"{subject.get('namespace', '')}/" if subject["kind"] == "ServiceAccount" else ""
        named.setdefault(subject["kind"], []).append(prefix + subject["name"])
    role = obj["roleRef"]
    return {
        "Role": f"{role['kind']}/{role['name']}",
        **{f"{kind}s": ", ".join(names) for kind, names in named.items()},
    }


def admission_policy(obj: JsonObject, now: float) -> Own:
    spec = obj.get("spec") or {}
    kind = spec.get("paramKind")
    return {
        "Validations": len(spec.get("validations") or ()),
        "ParamKind": f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else "<unset>",
    }


def admission_binding(obj: JsonObject, now: float) -> Own:
    reference = (obj.get("spec") or {}).get("paramRef") or {}
    if not reference.get("name"):
        return {"ParamRef": "<unset>"}
    return {"ParamRef": f"{reference.get('namespace') or '*'}/{reference['name']}"}


def webhooks(obj: JsonObject, now: float) -> Own:
    return {"Webhooks": len(obj.get("webhooks") or ())}


def network_policy(obj: JsonObject, now: float) -> Own:
    return {"Pod-Selector": rowcells.selector_text((obj.get("spec") or {}).get("podSelector"))}


def definition(obj: JsonObject, now: float) -> Own:
    """Of CustomResourceDefinitions."""
    spec = obj.get("spec") or {}
    served = sorted(
        version["name"] + "(storage)" * version.get("storage", False)
        for version in spec.get("versions") or ()
        if version.get("served")
    )
    return {
        "Versions": ",".join(served),
        "ShortNames": ",".join((spec.get("names") or {}).get("shortNames") or ()),
        "Established": any(
            condition.get("type") == "Established" and condition.get("status") == "True"
            for condition in rowcells.status_of(obj).get("conditions") or ()
        ),
    }


def storage_class(obj: JsonObject, now: float) -> Own:
    return {"AllowVolumeExpansion": obj.get("allowVolumeExpansion", False)}


_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def default_class(classes: Sequence[JsonObject]) -> str:
    """The name of the class that claims without one get: of those marked the newest, of several of
    one second the first by name. Empty when none is marked."""
    marked = [
        obj["metadata"]
        for obj in classes
        if any((obj["metadata"].get("annotations") or {}).get(key) == "true" for key in _DEFAULT)
    ]
    newest = max((meta["creationTimestamp"] for meta in marked), default="")
    return min((m["name"] for m in marked if m["creationTimestamp"] == newest), default="")


def volume(obj: JsonObject, now: float) -> Own:
    spec = obj.get("spec") or {}
    claim = spec.get("claimRef")
    return {
        "Access Modes": rowcells.access_modes(spec.get("accessModes")),
        "Status": rowcells.phase_of(obj),
        "Claim": f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
    }


def controller_revision(obj: JsonObject, now: float) -> Own:
    controller = rowcells.NONE
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group, slash, _ = owner["apiVersion"].partition("/")
            kind = owner["kind"].lower() + (f".{group}" if slash and group else "")
            controller = f"{kind}/{owner['name']}"
            break
    return {"Controller": controller, "Revision": obj.get("revision", 0)}


def pod_template(obj: JsonObject, now: float) -> Own:
    metadata = (obj.get("template") or {}).get("metadata") or {}
    return {"Pod Labels": rowcells.labels_text(metadata.get("labels"))}
