"""Pods that the Pod Security Standards do not allow, one field each: written from the documentation
of Kubernetes, not from our own tables. Used by the unit tests and, beside a real API server, by the
end-to-end ones.
"""

import copy
from dataclasses import dataclass
from typing import Any, Final

Spec = dict[str, Any]
GOOD: Spec = {
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "initContainers": [],
    "containers": [
        {
            "name": "app",
            "image": "app:1",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
}
"""Allowed at every level."""
SIDE = {**GOOD["containers"][0], "name": "side"}


@dataclass(frozen=True, slots=True)
class Row:
    """A pod that `level` forbids and the next lower one allows, and the path of the field."""

    level: str
    path: str
    spec: Spec
    annotations: dict[str, str] | None = None

    @property
    def template(self) -> dict[str, Any]:
        meta = {"labels": {"app": "web"}} | (
            {"annotations": self.annotations} if self.annotations else {}
        )
        return {"metadata": meta, "spec": copy.deepcopy(self.spec)}


def _pod(**fields: Any) -> Spec:
    spec = copy.deepcopy(GOOD)
    spec["securityContext"] |= fields.pop("context", {})
    return {name: value for name, value in (spec | fields).items() if value != []}


def _own(context: Spec | None = None, **fields: Any) -> Spec:
    """The pod with more in its only container; a context replaces nothing that it does not name."""
    container = copy.deepcopy(GOOD["containers"][0])
    container["securityContext"] |= context or {}
    return _pod(containers=[container | fields])


def _init(context: Spec, name: str = "initContainers") -> Spec:
    container = copy.deepcopy(SIDE)
    container["securityContext"] |= context
    return _pod(**{name: [container]})


APP = "spec.containers[0]"
CONTEXT = f"{APP}.securityContext"
POD = "spec.securityContext"
GET = {"path": "/", "port": 80, "host": "10.0.0.1"}
TCP = {"port": 80, "host": "10.0.0.1"}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/app"

_BASELINE = tuple(
    Row("baseline", path, spec)
    for path, spec in (
        ("spec.hostPID", _pod(hostPID=True)),
        ("spec.hostIPC", _pod(hostIPC=True)),
        ("spec.hostNetwork", _pod(hostNetwork=True)),
        (f"{CONTEXT}.privileged", _own({"privileged": True, "allowPrivilegeEscalation": True})),
        (
            "spec.initContainers[0].securityContext.privileged",
            _init({"privileged": True, "allowPrivilegeEscalation": True}),
        ),
        *(
            (
                f"{CONTEXT}.capabilities.add[0]",
                _own({"capabilities": {"drop": ["ALL"], "add": [name]}}),
            )
            for name in (
                "SYS_ADMIN",
                "NET_ADMIN",
                "NET_RAW",
                "SYS_PTRACE",
                "SYS_MODULE",
                "BPF",
                "ALL",
                "CAP_CHOWN",
            )
        ),
        (
            f"{CONTEXT}.capabilities.add[1]",
            _own({"capabilities": {"drop": ["ALL"], "add": ["CHOWN", "SYS_TIME"]}}),
        ),
        (
            "spec.initContainers[0].securityContext.capabilities.add[0]",
            _init({"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}),
        ),
        *(
            ("spec.volumes[0].hostPath", _pod(volumes=[{"name": "v", "hostPath": {"path": path}}]))
            for path in ("/", "/var/run/docker.sock", "/etc/kubernetes", "/proc")
        ),
        (
            "spec.volumes[1].hostPath",
            _pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}]),
        ),
        (f"{APP}.ports[0].hostPort", _own(ports=[{"containerPort": 80, "hostPort": 80}])),
        (
            f"{APP}.ports[1].hostPort",
            _own(
                ports=[
                    {"name": "a", "containerPort": 80},
                    {"name": "b", "containerPort": 22, "hostPort": 22},
                ]
            ),
        ),
        *(
            (f"{APP}.{probe}.httpGet.host", _own(**{probe: {"httpGet": GET}}))
            for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        ),
        (f"{APP}.livenessProbe.tcpSocket.host", _own(livenessProbe={"tcpSocket": TCP})),
        (
            f"{APP}.lifecycle.postStart.httpGet.host",
            _own(lifecycle={"postStart": {"httpGet": GET}}),
        ),
        (f"{APP}.lifecycle.preStop.httpGet.host", _own(lifecycle={"preStop": {"httpGet": GET}})),
        (f"{POD}.appArmorProfile.type", _pod(context={"appArmorProfile": {"type": "Unconfined"}})),
        (f"{CONTEXT}.appArmorProfile.type", _own({"appArmorProfile": {"type": "Unconfined"}})),
        *(
            (f"{POD}.seLinuxOptions.{field}", _pod(context={"seLinuxOptions": {field: value}}))
            for field, value in (("type", "spc_t"), ("user", "system_u"), ("role", "system_r"))
        ),
        (f"{CONTEXT}.seLinuxOptions.type", _own({"seLinuxOptions": {"type": "unconfined_t"}})),
        (f"{CONTEXT}.procMount", _own({"procMount": "Unmasked"})),
        (f"{POD}.seccompProfile.type", _pod(context={"seccompProfile": {"type": "Unconfined"}})),
        (f"{CONTEXT}.seccompProfile.type", _own({"seccompProfile": {"type": "Unconfined"}})),
        *(
            (f"{POD}.sysctls[0].name", _pod(context={"sysctls": [{"name": name, "value": "1"}]}))
            for name in ("kernel.msgmax", "net.core.somaxconn", "vm.overcommit_memory")
        ),
        (
            f"{POD}.windowsOptions.hostProcess",
            _pod(context={"windowsOptions": {"hostProcess": True}}),
        ),
        (f"{CONTEXT}.windowsOptions.hostProcess", _own({"windowsOptions": {"hostProcess": True}})),
    )
)
BASELINE: tuple[Row, ...] = (
    *_BASELINE,
    Row("baseline", f"metadata.annotations[{APPARMOR}]", _pod(), {APPARMOR: "unconfined"}),
    Row("baseline", f"metadata.annotations[{APPARMOR}]", _pod(), {APPARMOR: "runtime/other"}),
)


def _without(*names: str) -> Spec:
    """The pod without some of what `restricted` asks of its security context."""
    spec = _pod()
    spec["securityContext"] = {
        key: value for key, value in spec["securityContext"].items() if key not in names
    }
    return spec


def _bare(*names: str) -> Spec:
    container = copy.deepcopy(GOOD["containers"][0])
    container["securityContext"] = {
        key: value for key, value in container["securityContext"].items() if key not in names
    }
    return _pod(containers=[container])


RESTRICTED: tuple[Row, ...] = tuple(
    Row("restricted", path, spec)
    for path, spec in (
        ("spec.volumes[0]", _pod(volumes=[{"name": "v", "nfs": {"server": "nfs", "path": "/"}}])),
        (
            "spec.volumes[0]",
            _pod(
                volumes=[
                    {
                        "name": "v",
                        "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com:x", "lun": 0},
                    }
                ]
            ),
        ),
        (f"{CONTEXT}.allowPrivilegeEscalation", _bare("allowPrivilegeEscalation")),
        (f"{CONTEXT}.allowPrivilegeEscalation", _own({"allowPrivilegeEscalation": True})),
        (
            "spec.initContainers[0].securityContext.allowPrivilegeEscalation",
            _init({"allowPrivilegeEscalation": True}),
        ),
        (f"{CONTEXT}.runAsNonRoot", _without("runAsNonRoot")),
        (f"{POD}.runAsNonRoot", _pod(context={"runAsNonRoot": False})),
        (f"{CONTEXT}.runAsNonRoot", _own({"runAsNonRoot": False})),
        (f"{CONTEXT}.runAsUser", _own({"runAsUser": 0})),
        (f"{CONTEXT}.seccompProfile.type", _without("seccompProfile")),
        (f"{CONTEXT}.capabilities.drop", _bare("capabilities")),
        (f"{CONTEXT}.capabilities.drop", _own({"capabilities": {"drop": ["NET_RAW"]}})),
        (
            f"{CONTEXT}.capabilities.add[0]",
            _own({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}),
        ),
        ("spec.initContainers[0].securityContext.capabilities.drop", _init({"capabilities": {}})),
    )
)
EVERY: tuple[Row, ...] = (*BASELINE, *RESTRICTED)
ELSEWHERE: Final = {
    "init": ("initContainers", {}),
    "sidecar": ("initContainers", {"restartPolicy": "Always"}),
    "ephemeral": ("ephemeralContainers", {}),
}
"""Where a container may stand besides `containers` -> its list, and what makes it that."""


def moved(row: Row, where: str) -> Row:
    """The same hostile container as another kind of container, beside an honest one. What the pod
    says for all of its containers, or leaves to them, holds for it too."""
    field, more = ELSEWHERE[where]
    (hostile,) = row.spec["containers"]
    honest = copy.deepcopy(GOOD["containers"][0])
    honest["securityContext"] |= {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    other = {**copy.deepcopy(hostile), "name": "other", **more}
    spec = {**copy.deepcopy(row.spec), "containers": [honest], field: [other]}
    return Row(row.level, row.path.replace(APP, f"spec.{field}[0]"), spec, row.annotations)


IN_EVERY_LIST: tuple[tuple[str, Row], ...] = tuple(
    (where, moved(row, where)) for row in EVERY if row.path.startswith(APP) for where in ELSEWHERE
)
"""(where, row): what is hostile in a container, in each other kind of container."""
ALLOWED: tuple[Row, ...] = tuple(
    Row("privileged", "", spec)
    for spec in (
        _pod(),
        _own({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
        _pod(
            volumes=[
                {"name": "a", "configMap": {"name": "a"}},
                {"name": "b", "secret": {"secretName": "b"}},
                {"name": "c", "emptyDir": {}},
                {"name": "d", "projected": {"sources": [{"downwardAPI": {"items": []}}]}},
                {"name": "e", "persistentVolumeClaim": {"claimName": "e"}},
            ]
        ),
        _pod(context={"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}),
        _pod(
            context={
                "appArmorProfile": {"type": "RuntimeDefault"},
                "seLinuxOptions": {"type": "container_t"},
            }
        ),
        _own(livenessProbe={"httpGet": {"path": "/", "port": 80}}),
    )
)
"""What every level allows."""
