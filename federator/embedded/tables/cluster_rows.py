"""Table rows of networking, nodes, configuration and everything else built in. Used by `columns`
only."""

from collections.abc import Sequence
from typing import Any, Final

from federator.embedded.schema import event_groups
from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import ages, rowcells


def service(obj: JsonObject, now: float) -> list[Any]:
    spec = obj["spec"]
    internal = (spec.get("clusterIPs") or [spec.get("clusterIP") or rowcells.NONE])[0]
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or rowcells.NONE
    cells = [spec.get("type", ""), internal, _external(obj), ports]
    return [
        rowcells.name_of(obj),
        *cells,
        rowcells.age_of(obj, now),
        rowcells.labels_text(spec.get("selector")),
    ]


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


def ingress(obj: JsonObject, now: float) -> list[Any]:
    spec = obj["spec"]
    rules = spec.get("rules") or []
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    shown = rowcells.listed(hosts, len(rules)) if hosts else "*"
    ports = "80, 443" if spec.get("tls") else "80"
    return [
        rowcells.name_of(obj),
        spec.get("ingressClassName") or rowcells.NONE,
        shown,
        ",".join(rowcells.balanced(obj)),
        ports,
        rowcells.age_of(obj, now),
    ]


def ingress_class(obj: JsonObject, now: float) -> list[Any]:
    parameters = obj["spec"].get("parameters")
    shown = rowcells.NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{parameters['kind']}{group}/{parameters['name']}"
    return [
        rowcells.name_of(obj),
        obj["spec"].get("controller", ""),
        shown,
        rowcells.age_of(obj, now),
    ]


def endpoints(obj: JsonObject, now: float) -> list[Any]:
    listed = []
    for subset in obj.get("subsets") or ():
        ports = [f":{port['port']}" for port in subset.get("ports") or ()] or [""]
        listed += [
            f"{address['ip']}{port}" for port in ports for address in subset.get("addresses") or ()
        ]
    return [rowcells.name_of(obj), rowcells.listed(listed), rowcells.age_of(obj, now)]


def endpoint_slice(obj: JsonObject, now: float) -> list[Any]:
    ports = [str(port.get("port", port.get("name", "*"))) for port in obj.get("ports") or ()]
    addresses = [
        address
        for endpoint in obj.get("endpoints") or ()
        for address in endpoint.get("addresses") or ()
    ]
    shown = [
        rowcells.listed(ports).replace(rowcells.NONE, "<unset>"),
        rowcells.listed(addresses).replace(rowcells.NONE, "<unset>"),
    ]
    return [rowcells.name_of(obj), obj.get("addressType", ""), *shown, rowcells.age_of(obj, now)]


def node(obj: JsonObject, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, rowcells.status_of(obj)
    ready = [c for c in status.get("conditions") or () if c["type"] == "Ready"]
    states = ["Ready" if ready[-1]["status"] == "True" else "NotReady"] if ready else ["Unknown"]
    if spec.get("unschedulable"):
        states.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = {label.removeprefix(prefix) for label in labels if label.startswith(prefix)} - {""}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    node = status.get("nodeInfo") or {}
    kernel = node.get("kernelVersion") or "<unknown>"
    if node.get("architecture"):
        kernel += f" ({node['architecture']})"
    addresses = {
        entry["type"]: entry["address"] for entry in reversed(status.get("addresses") or [])
    }
    return [
        rowcells.name_of(obj),
        ",".join(states),
        ",".join(sorted(roles)) or rowcells.NONE,
        rowcells.age_of(obj, now),
        node.get("kubeletVersion", ""),
        addresses.get("InternalIP", rowcells.NONE),
        addresses.get("ExternalIP", rowcells.NONE),
        node.get("osImage") or "<unknown>",
        kernel,
        node.get("containerRuntimeVersion") or "<unknown>",
    ]


def event(obj: JsonObject, now: float) -> list[Any]:
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
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        target.get("kind", "").lower() + name,
        target.get("fieldPath", ""),
        ", ".join(part for part in origin if part),
        (obj.get("message") or "").strip(),
        first,
        count,
        rowcells.name_of(obj),
    ]


def namespace(obj: JsonObject, now: float) -> list[Any]:
    return [
        rowcells.name_of(obj),
        rowcells.status_of(obj).get("phase", ""),
        rowcells.age_of(obj, now),
    ]


def secret(obj: JsonObject, now: float) -> list[Any]:
    return [
        rowcells.name_of(obj),
        obj.get("type", ""),
        len(obj.get("data") or ()),
        rowcells.age_of(obj, now),
    ]


def config_map(obj: JsonObject, now: float) -> list[Any]:
    return [
        rowcells.name_of(obj),
        len(obj.get("data") or ()) + len(obj.get("binaryData") or ()),
        rowcells.age_of(obj, now),
    ]


def name_and_age(obj: JsonObject, now: float) -> list[Any]:
    return [rowcells.name_of(obj), rowcells.age_of(obj, now)]


def lease(obj: JsonObject, now: float) -> list[Any]:
    return [
        rowcells.name_of(obj),
        (obj.get("spec") or {}).get("holderIdentity") or "",
        rowcells.age_of(obj, now),
    ]


def priority_class(obj: JsonObject, now: float) -> list[Any]:
    cells = [obj.get("value", 0), obj.get("globalDefault", False), rowcells.age_of(obj, now)]
    return [rowcells.name_of(obj), *cells, obj.get("preemptionPolicy") or ""]


def binding(obj: JsonObject, now: float) -> list[Any]:
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        prefix = f"{subject.get('namespace', '')}/" if subject["kind"] == "ServiceAccount" else ""
        named.setdefault(subject["kind"], []).append(prefix + subject["name"])
    wide = [", ".join(named[kind]) for kind in ("User", "Group", "ServiceAccount")]
    role = obj["roleRef"]
    return [
        rowcells.name_of(obj),
        f"{role['kind']}/{role['name']}",
        rowcells.age_of(obj, now),
        *wide,
    ]


def admission_policy(obj: JsonObject, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    kind = spec.get("paramKind")
    shown = f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else "<unset>"
    return [
        rowcells.name_of(obj),
        len(spec.get("validations") or ()),
        shown,
        rowcells.age_of(obj, now),
    ]


def admission_binding(obj: JsonObject, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    reference = spec.get("paramRef") or {}
    shown = (
        f"{reference.get('namespace') or '*'}/{reference['name']}"
        if reference.get("name")
        else "<unset>"
    )
    return [rowcells.name_of(obj), spec.get("policyName", ""), shown, rowcells.age_of(obj, now)]


def webhooks(obj: JsonObject, now: float) -> list[Any]:
    return [rowcells.name_of(obj), len(obj.get("webhooks") or ()), rowcells.age_of(obj, now)]


def network_policy(obj: JsonObject, now: float) -> list[Any]:
    selector = (obj.get("spec") or {}).get("podSelector")
    return [rowcells.name_of(obj), rowcells.selector_text(selector), rowcells.age_of(obj, now)]


def definition(obj: JsonObject, _now: float) -> list[Any]:
    """The row of a CustomResourceDefinition."""
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    served = sorted(
        version["name"] + "(storage)" * version.get("storage", False)
        for version in spec.get("versions") or ()
        if version.get("served")
    )
    established = any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in rowcells.status_of(obj).get("conditions") or ()
    )
    return [
        rowcells.name_of(obj),
        spec.get("scope", ""),
        ",".join(served),
        obj["metadata"].get("creationTimestamp"),
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        established,
    ]


def storage_class(obj: JsonObject, now: float) -> list[Any]:
    cells = [
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
    ]
    growing = obj.get("allowVolumeExpansion", False)
    return [rowcells.name_of(obj), *cells, growing, rowcells.age_of(obj, now)]


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


def volume(obj: JsonObject, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, rowcells.status_of(obj)
    phase = "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", "")
    claim = spec.get("claimRef")
    bound = f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
    return [
        rowcells.name_of(obj),
        (spec.get("capacity") or {}).get("storage", "0"),
        rowcells.access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        bound,
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason") or "",
        rowcells.age_of(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def controller_revision(obj: JsonObject, now: float) -> list[Any]:
    owners = [
        owner for owner in obj["metadata"].get("ownerReferences") or () if owner.get("controller")
    ]
    controller = rowcells.NONE
    if owners:
        group = owners[0]["apiVersion"].partition("/")[0] if "/" in owners[0]["apiVersion"] else ""
        kind = owners[0]["kind"].lower()
        controller = (
            f"{kind}.{group}/{owners[0]['name']}" if group else f"{kind}/{owners[0]['name']}"
        )
    return [rowcells.name_of(obj), controller, obj.get("revision", 0), rowcells.age_of(obj, now)]


def pod_template(obj: JsonObject, now: float) -> list[Any]:
    template = obj.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    return [
        rowcells.name_of(obj),
        *rowcells.containers_of(template.get("spec") or {}),
        rowcells.labels_text(labels),
    ]
