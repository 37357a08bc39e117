"""Pod Security: what the labels of a namespace refuse and warn of, in the words of the real
server.
"""

import asyncio
import copy
import itertools
from typing import Any

import pytest

from tests import hostilepods
from tests.contract.speaking import MERGE, Answer, Speaker
from tests.hostilepods import Spec

LABEL = "pod-security.kubernetes.io/"
BAD: Spec = {"hostPID": True, "containers": [{"name": "a", "image": "a"}]}
HOST_PID = "host namespaces (hostPID=true)"
BARE = (
    'allowPrivilegeEscalation != false (container "a" must set '
    "securityContext.allowPrivilegeEscalation=false), "
    'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to '
    '"RuntimeDefault" or '
    '"Localhost")'
)

_ADD = "must not include {} in securityContext.capabilities.add"
_PROBE = 'probe or lifecycle host (container "app" uses probe or lifecycle host "10.0.0.1")'
_SELINUX = "seLinuxOptions ({} set forbidden securityContext.seLinuxOptions: {})"
_SECCOMP = 'seccompProfile ({} must not set securityContext.seccompProfile.type to "Unconfined")'
_DROP = (
    'unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"])'
)
SAID: dict[str, str] = {
    "spec.hostPID": HOST_PID,
    "spec.hostIPC": "host namespaces (hostIPC=true)",
    "spec.hostNetwork": "host namespaces (hostNetwork=true)",
    "spec.containers[0].securityContext.privileged": (
        'privileged (container "app" must not set securityContext.privileged=true)'
    ),
    "spec.initContainers[0].securityContext.privileged": (
        'privileged (container "side" must not set securityContext.privileged=true)'
    ),
    "spec.containers[0].securityContext.capabilities.add[1]": (
        f'non-default capabilities (container "app" {_ADD.format(chr(34) + "SYS_TIME" + chr(34))})'
    ),
    "spec.initContainers[0].securityContext.capabilities.add[0]": (
        'non-default capabilities (container "side" '
        f"{_ADD.format(chr(34) + 'SYS_ADMIN' + chr(34))})"
    ),
    "spec.volumes[0].hostPath": 'hostPath volumes (volume "v")',
    "spec.volumes[1].hostPath": 'hostPath volumes (volume "b")',
    "spec.containers[0].ports[0].hostPort": 'hostPort (container "app" uses hostPort 80)',
    "spec.containers[0].ports[1].hostPort": 'hostPort (container "app" uses hostPort 22)',
    "spec.containers[0].livenessProbe.httpGet.host": _PROBE,
    "spec.containers[0].livenessProbe.tcpSocket.host": _PROBE,
    "spec.containers[0].lifecycle.preStop.httpGet.host": _PROBE,
    "spec.securityContext.appArmorProfile.type": (
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")'
    ),
    "spec.containers[0].securityContext.appArmorProfile.type": (
        'forbidden AppArmor profile (container "app" must not set AppArmor profile type to '
        '"Unconfined")'
    ),
    "spec.securityContext.seLinuxOptions.type": _SELINUX.format("pod", 'type "spc_t"'),
    "spec.securityContext.seLinuxOptions.user": _SELINUX.format("pod", "user may not be set"),
    "spec.securityContext.seLinuxOptions.role": _SELINUX.format("pod", "role may not be set"),
    "spec.containers[0].securityContext.seLinuxOptions.type": _SELINUX.format(
        'container "app"', 'type "unconfined_t"'
    ),
    "spec.securityContext.seccompProfile.type": _SECCOMP.format("pod"),
    "spec.containers[0].securityContext.seccompProfile.type": _SECCOMP.format('container "app"'),
    f"metadata.annotations[{hostilepods.APPARMOR}]": (
        'forbidden AppArmor profiles (container "app" and annotation must not set AppArmor '
        "profile type to "
        f'"Unconfined", "{hostilepods.APPARMOR}="unconfined"")'
    ),
    "spec.volumes[0]": 'restricted volume types (volume "v" uses restricted volume type "nfs")',
    "spec.containers[0].securityContext.allowPrivilegeEscalation": (
        'allowPrivilegeEscalation != false (container "app" must set '
        "securityContext.allowPrivilegeEscalation=false)"
    ),
    "spec.containers[0].securityContext.runAsNonRoot": (
        'runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true)'
    ),
    "spec.securityContext.runAsNonRoot": (
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"
    ),
    "spec.containers[0].securityContext.runAsUser": (
        'runAsUser=0 (container "app" must not set runAsUser=0)'
    ),
    "spec.containers[0].securityContext.capabilities.drop": _DROP,
    "spec.initContainers[0].securityContext.capabilities.drop": _DROP.replace("app", "side"),
}
"""By the path of the first hostile pod that has it: what the lowest level that forbids it says of
it alone.
"""


BEACON = "kube-public"
"""A namespace that is there from the start and has no pods of anybody."""
SEEN_S = 60.0
_versions = itertools.count(1)


def first_rows() -> dict[str, hostilepods.Row]:
    found: dict[str, hostilepods.Row] = {}
    for row in hostilepods.EVERY:
        found.setdefault(row.path, row)
    return {path: row for path, row in found.items() if path in SAID}


def labels_of(labels: dict[str, str]) -> dict[str, Any]:
    """A namespace's labels, as a patch; `warn_version` is the label `warn-version`."""
    said = {LABEL + name.replace("_", "-"): value for name, value in labels.items()}
    return {"metadata": {"labels": said}}


async def label(api: Speaker, **labels: str) -> Answer:
    """Labels the namespace, and returns when admission goes by that."""
    path = f"/api/v1/namespaces/{api.namespace}"
    answer = await api.patch(path, labels_of(labels), MERGE)
    await _seen(api)
    return answer


async def _seen(api: Speaker) -> None:
    """Returns when admission has seen all that was written to namespaces until now.

    A real server's admission reads them from a watch, and what follows a label at once may still
    meet the namespace without it. The watch tells of all namespaces in the order of their changes:
    so it has come so far when it warns by what was written to another one last.
    """
    version = f"v1.{next(_versions)}"
    path = f"/api/v1/namespaces/{BEACON}"
    (await api.patch(path, labels_of({"warn": "baseline", "warn_version": version}))).object()
    warns = f'would violate PodSecurity "baseline:{version}": {HOST_PID}'
    async with asyncio.timeout(SEEN_S):
        while warns not in warned(await api.post(f"{path}/pods", pod(BAD), dryRun="All")):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _counts(api: Speaker, pods: int) -> None:
    """Returns when admission has seen so many bad pods in the namespace: it reads pods from a watch
    too.
    """
    path, tried = f"/api/v1/namespaces/{api.namespace}", labels_of({"enforce": "baseline"})
    told = f" (and {pods - 1} other pods): "
    async with asyncio.timeout(SEEN_S):
        while told not in str(warned(await api.patch(path, tried, MERGE, dryRun="All"))):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def pod(spec: Spec, name: str = "web", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    meta = {"name": name} | ({"annotations": annotations} if annotations else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": copy.deepcopy(spec)}


def warned(answer: Answer) -> list[str]:
    """The texts of Warning headers."""
    value = answer.headers.get("warning", "")
    return [
        part.removeprefix('299 - "').replace('\\"', '"')
        for part in value.removesuffix('"').split('", ')
        if part
    ]


async def test_each_control_is_refused_in_its_words(api: Speaker) -> None:
    rows = first_rows()
    assert set(rows) == set(SAID)
    for level in ("baseline", "restricted"):
        (await label(api, enforce=level)).object()
        for path, row in rows.items():
            if row.level == level:
                made = pod(row.spec, annotations=row.annotations)
                answer = await api.post(api.url("pods"), made, dryRun="All")
                why = (
                    f'pods "web" is forbidden: violates PodSecurity "{level}:latest": {SAID[path]}'
                )
                assert answer.refused(403, "Forbidden", why) == {"name": "web", "kind": "pods"}, (
                    path
                )
        for row in hostilepods.ALLOWED:
            (await api.post(api.url("pods"), pod(row.spec), dryRun="All")).object(201)


def _all_at_once() -> Spec:
    """A pod that fails most controls, in three containers."""
    app: Spec = {
        "name": "app",
        "image": "a",
        "securityContext": {
            "privileged": True,
            "capabilities": {"add": ["SYS_TIME", "NET_ADMIN", "CHOWN"]},
            "seLinuxOptions": {"type": "b_t", "user": "u", "role": "r"},
            "seccompProfile": {"type": "Unconfined"},
            "runAsNonRoot": False,
            "runAsUser": 0,
        },
    }
    side = copy.deepcopy(app) | {"name": "side"}
    side["securityContext"] |= {
        "capabilities": {"add": ["SYS_ADMIN"]},
        "seLinuxOptions": {"type": "a_t"},
    }
    app["ports"] = [{"containerPort": 80, "hostPort": 80}, {"containerPort": 22, "hostPort": 22}]
    app["livenessProbe"] = {"httpGet": hostilepods.GET}
    side["livenessProbe"] = {"httpGet": {**hostilepods.GET, "host": "10.0.0.2", "port": 81}}
    return {
        "hostPID": True,
        "hostIPC": True,
        "hostNetwork": True,
        "securityContext": {
            "runAsUser": 0,
            "seLinuxOptions": {"type": "p_t"},
            "sysctls": [{"name": "vm.z", "value": "1"}, {"name": "vm.a", "value": "1"}],
        },
        "initContainers": [{**copy.deepcopy(hostilepods.SIDE), "name": "init"}],
        "containers": [app, side],
        "volumes": [
            {"name": "v", "hostPath": {"path": "/"}},
            {"name": "w", "hostPath": {"path": "/x"}},
            {"name": "n", "nfs": {"server": "a", "path": "/"}},
        ],
    }


BOTH = 'containers "app", "side"'
SELINUX = (
    f'seLinuxOptions (pod and {BOTH} set forbidden securityContext.seLinuxOptions: types "a_t", '
    '"b_t", "p_t"; '
)
COMMON = (
    "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true), {paths}"
    'hostPort (container "app" uses hostPorts 22, 80), '
    f'probe or lifecycle host ({BOTH} use probe or lifecycle hosts "10.0.0.1", "10.0.0.2"), '
    f"privileged ({BOTH} must not set securityContext.privileged=true), "
    f"{SELINUX}user may not be set; role may not be set), {{seccomp}}"
    "forbidden sysctls (vm.z, vm.a)"
)
SECCOMP = (
    f'seccompProfile ({BOTH} must not set securityContext.seccompProfile.type to "Unconfined")'
)


async def test_what_fails_together_is_said_together(api: Speaker) -> None:
    (await label(api, enforce="baseline")).object()
    added = (
        f'{BOTH} must not include "NET_ADMIN", "SYS_ADMIN", "SYS_TIME" in '
        "securityContext.capabilities.add"
    )
    said = COMMON.format(paths='hostPath volumes (volumes "v", "w"), ', seccomp=f"{SECCOMP}, ")
    answer = await api.post(api.url("pods"), pod(_all_at_once()), dryRun="All")
    why = (
        'pods "web" is forbidden: violates PodSecurity "baseline:latest": non-default '
        f"capabilities ({added}), {said}"
    )
    answer.refused(403, "Forbidden", why)

    (await label(api, enforce="restricted", enforce_version="v1.36")).object()
    added = added.replace('"NET_ADMIN"', '"CHOWN", "NET_ADMIN"')
    said = COMMON.format(paths="", seccomp="") + (
        f", allowPrivilegeEscalation != false ({BOTH} must set "
        "securityContext.allowPrivilegeEscalation=false), "
        f"unrestricted capabilities ({BOTH} must set "
        f'securityContext.capabilities.drop=["ALL"]; {added}), '
        'restricted volume types (volumes "v", "w", "n" use restricted volume types '
        '"hostPath", "nfs"), '
        f"runAsNonRoot != true ({BOTH} must not set securityContext.runAsNonRoot=false), "
        f"runAsUser=0 (pod and {BOTH} must not set runAsUser=0), {SECCOMP}"
    )
    answer = await api.post(api.url("pods"), pod(_all_at_once()), dryRun="All")
    answer.refused(
        403,
        "Forbidden",
        f'pods "web" is forbidden: violates PodSecurity "restricted:v1.36": {said}',
    )


async def test_two_sysctls_are_harmless_from_version_1_37_on(api: Speaker, newest: bool) -> None:
    names = ("net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat")
    spec = {"securityContext": {"sysctls": [{"name": name, "value": "1"} for name in names]}}
    body = pod({**spec, "containers": [{"name": "app", "image": "app"}]})
    (await label(api, enforce="baseline", enforce_version="v1.36")).object()
    why = (
        'pods "web" is forbidden: violates PodSecurity "baseline:v1.36": forbidden sysctls '
        f"({', '.join(names)})"
    )
    (await api.post(api.url("pods"), body, dryRun="All")).refused(403, "Forbidden", why)
    if newest:
        (await label(api, enforce="baseline", enforce_version="v1.37")).object()
        (await api.post(api.url("pods"), body, dryRun="All")).object(201)


async def test_an_older_version_has_fewer_controls(api: Speaker) -> None:
    (await label(api, enforce="baseline", enforce_version="v1.20")).object()
    probe = first_rows()["spec.containers[0].livenessProbe.httpGet.host"]
    (await api.post(api.url("pods"), pod(probe.spec), dryRun="All")).object(201)
    answer = await api.post(api.url("pods"), pod(BAD), dryRun="All")
    answer.refused(
        403,
        "Forbidden",
        f'pods "web" is forbidden: violates PodSecurity "baseline:v1.20": {HOST_PID}',
    )


async def test_a_namespace_without_a_level_takes_everything(api: Speaker) -> None:
    answer = await api.post(api.url("pods"), pod(_all_at_once()), dryRun="All")
    answer.object(201)
    assert not [text for text in warned(answer) if "PodSecurity" in text]


@pytest.mark.parametrize(
    ("labels", "warns"),
    [
        ({"enforce": "baseline"}, f'would violate PodSecurity "baseline:latest": {HOST_PID}'),
        (
            {"enforce": "baseline", "enforce_version": "v1.30"},
            f'would violate PodSecurity "baseline:v1.30": {HOST_PID}',
        ),
        ({"enforce": "baseline", "warn": "privileged"}, ""),
        (
            {"enforce": "baseline", "warn": "restricted"},
            f'would violate PodSecurity "restricted:latest": {HOST_PID}, {BARE}',
        ),
        (
            {"warn": "baseline", "warn_version": "v1.30"},
            f'would violate PodSecurity "baseline:v1.30": {HOST_PID}',
        ),
        (
            {"enforce": "baseline", "warn_version": "v1.30"},
            f'would violate PodSecurity "baseline:v1.30": {HOST_PID}',
        ),
        (
            {"enforce": "baseline", "enforce_version": "v1.29", "warn_version": "v1.30"},
            f'would violate PodSecurity "baseline:v1.30": {HOST_PID}',
        ),
    ],
)
async def test_what_makes_pods_is_taken_and_warned_of(
    api: Speaker, labels: dict[str, str], warns: str
) -> None:
    (await label(api, **labels)).object()
    template = {"metadata": {"labels": {"app": "web"}}, "spec": BAD}
    selector = {"matchLabels": {"app": "web"}}
    never = {**template, "spec": {**BAD, "restartPolicy": "Never"}}
    for home, kind, spec in (
        ("/apis/apps/v1", "Deployment", {"selector": selector, "template": template}),
        ("/apis/apps/v1", "ReplicaSet", {"selector": selector, "template": template}),
        (
            "/apis/apps/v1",
            "StatefulSet",
            {"selector": selector, "template": template, "serviceName": "web"},
        ),
        ("/apis/apps/v1", "DaemonSet", {"selector": selector, "template": template}),
        ("/apis/batch/v1", "Job", {"template": never}),
        (
            "/apis/batch/v1",
            "CronJob",
            {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": never}}},
        ),
    ):
        body = {
            "apiVersion": home.removeprefix("/apis/"),
            "kind": kind,
            "metadata": {"name": "web"},
            "spec": spec,
        }
        path = f"{home}/namespaces/{api.namespace}/{kind.lower()}s"
        answer = await api.post(path, body)
        answer.object(201)
        assert [text for text in warned(answer) if "PodSecurity" in text] == (
            [warns] if warns else []
        ), kind
        # Every update is warned of again, whatever it changes.
        changed = await api.patch(f"{path}/web", {"metadata": {"labels": {"a": "b"}}}, MERGE)
        changed.object()
        assert [text for text in warned(changed) if "PodSecurity" in text] == (
            [warns] if warns else []
        ), kind


async def test_labels_that_say_nothing_known_are_refused(api: Speaker) -> None:
    levels, versions = (
        "must be one of privileged, baseline, restricted",
        'must be "latest" or "v1.x"',
    )
    answer = await label(api, enforce="foo")
    why = f'metadata.labels[{LABEL}enforce]: Invalid value: "foo": {levels}'
    answer.refused(422, "Invalid", f'Namespace "{api.namespace}" is invalid: {why}')
    body = {
        "metadata": {
            "name": api.namespace + "-x",
            "labels": {f"{LABEL}enforce-version": "1.3", f"{LABEL}warn": ""},
        }
    }
    answer = await api.post("/api/v1/namespaces", body)
    assert (answer.status, answer.causes()) == (
        422,
        [
            (
                "FieldValueInvalid",
                f"metadata.labels[{LABEL}enforce-version]",
                f'Invalid value: "1.3": {versions}',
            ),
            ("FieldValueInvalid", f"metadata.labels[{LABEL}warn]", f'Invalid value: "": {levels}'),
        ],
    )


async def test_pods_that_are_there_stay_and_are_told_of(api: Speaker) -> None:
    pods = api.url("pods")
    for name, spec in (
        ("p1", BAD),
        ("p2", BAD),
        ("p0", {**BAD, "hostPID": False, "hostIPC": True}),
    ):
        (await api.post(pods, pod(spec, name))).object(201)
    await _counts(api, 3)
    answer = await label(api, enforce="baseline")
    assert warned(answer) == [
        (
            f'existing pods in namespace "{api.namespace}" violate the new PodSecurity enforce '
            'level "baseline:latest"'
        ),
        "p0 (and 2 other pods): host namespaces",
    ]
    # What a pod says anew is not looked at unless it is an image.
    (await api.patch(f"{pods}/p1", {"metadata": {"labels": {"a": "b"}}}, MERGE)).object()
    image = {"spec": {"containers": [{"name": "a", "image": "b"}]}}
    answer = await api.patch(f"{pods}/p1", image, "application/strategic-merge-patch+json")
    answer.refused(
        403,
        "Forbidden",
        f'pods "p1" is forbidden: violates PodSecurity "baseline:latest": {HOST_PID}',
    )
    assert warned(await label(api, enforce="baseline", warn="baseline")) == []
    assert warned(await label(api, enforce="privileged")) == []
