"""The same kubectl commands on a real cluster and on an embedded one print the same, chance and
time aside.

Each script runs in a namespace of its own on both. What differs by nature (ages, uids, versions,
addresses, random parts of names) is written over before the two transcripts are compared line by
line.
"""

import asyncio
import difflib
import os
import random
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.embedded import http
from federator.embedded.controllers import NodePool
from federator.embedded.server import EmbeddedCluster
from federator.kube.clock import RealClock
from tests.contract.bodies import deployment, job
from tests.contract.crds import definition, widget
from tests.controlplane import build, nodes
from tests.controlplane.plane import ControlPlane

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.xdist_group("real servers with nodes"),
]

WRITTEN_OVER = (
    # kubectl says so now and then when it ends its own watch while an event arrives.
    (r"(?m)^.*decode an event from the watch stream: context canceled.*\n", ""),
    (r"(?m)^[WEI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", ""),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000)", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "TIME"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UID"),
    (r"(Resource Version: +)\d+", r"\1VERSION"),
    (r'(resourceVersion"?: )"\d+"', r'\1"VERSION"'),
    (r"\b\d+\.\d+\.\d+\.\d+\b", "ADDRESS"),
    (r"\b(web|batch)-[0-9a-z]{5,10}-[0-9a-z]{5}\b", r"\1-HASH-RANDOM"),
    (r"\b(web)-[0-9a-z]{8,10}\b", r"\1-HASH"),
    (r"\b(work)-([0-9]+-)?[0-9a-z]{5}\b", r"\1-RANDOM"),
    (r"pod-template-hash(=|: |\":\")\"?[0-9a-z]+", "pod-template-hash"),
    (r"/tmp/(LIVE|MERGED)-\d+", r"\1"),
    (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b", "AGE"),
    (r"/[^ ]*/manifest", "manifest"),
    (r"Endpoints: .*", "Endpoints:"),  # a rollout may still be under way
    (r"[ \t]+", " "),
    (r"(?m) $", ""),
    # The real server tells so of a service that its cache of IPAddresses hears of a moment late
    # (Kubernetes, pkg/registry/core/service/ipallocator/controller/repairip.go, `syncService`).
    (r"Events:\n.*\n.*\n( Warning ClusterIPNotAllocated .* repairing\n)+", "Events: <none>\n"),
)


@dataclass(frozen=True, slots=True)
class Runner:
    """kubectl on one cluster."""

    binary: Path
    kubeconfig: Path
    home: Path
    namespace: str

    async def transcript(self, commands: Sequence[str]) -> list[str]:
        """Everything the commands print, output before errors, with what differs by nature written
        over.
        """
        lines = []
        for command in commands:
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "KUBECONFIG": str(self.kubeconfig),
                "KUBE_EDITOR": "sed -i s/registry/edited/",
            }
            process = await asyncio.create_subprocess_shell(
                f"{self.binary} -n {self.namespace} {command}",
                env=environment,
                cwd=self.home,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(60):
                output, errors = await process.communicate()
            text = output.decode() + errors.decode()
            for pattern, replacement in WRITTEN_OVER:
                text = re.sub(pattern, replacement, text)
            lines += [f"$ kubectl {command}", *text.splitlines(), f"exit {process.returncode}"]
        return lines


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Path]:
    """The kubeconfig of an embedded cluster with two nodes and the widgets."""
    cluster = EmbeddedCluster(
        "emb", clock=RealClock(), rng=random.Random(1), nodes=[NodePool(count=2, annotations=QUICK)]
    )
    assert cluster.controllers is not None
    running = asyncio.create_task(cluster.controllers.run())
    server = await http.serve(cluster)
    path = tmp_path / "embedded.kubeconfig"
    http.write_kubeconfig(path, {"emb": server}, "emb")
    yield path
    await server.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


QUICK = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/stop-seconds": "0"}
"""Pods of the embedded cluster start and stop at once, as those on stand-in nodes of the real one
do.
"""

WORK = job(completions=2)
WORK["spec"]["template"]["metadata"]["annotations"] = {"embedded.federator/run-seconds": "0.1"}

TOLD = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "told"},
    "eventTime": "2026-03-01T10:00:00.000000Z",
    "regarding": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "c",
        "namespace": "alike-events",
    },
    "note": "Placed in three clusters",
    "reason": "Placed",
    "action": "Place",
    "type": "Normal",
    "reportingController": "example.org/placer",
    "reportingInstance": "placer-0",
}
OLD_TOLD = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "old-told"},
    "involvedObject": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "d",
        "namespace": "alike-events",
    },
    "message": "Nothing works",
    "reason": "Broken",
    "type": "Warning",
    "source": {"component": "breaker"},
    "firstTimestamp": "2026-03-01T09:00:00Z",
    "lastTimestamp": "2026-03-01T09:10:00Z",
    "count": 4,
}
TOKEN = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "robot-token",
        "annotations": {"kubernetes.io/service-account.name": "robot"},
    },
    "type": "kubernetes.io/service-account-token",
}
ROBOT = "--as=system:serviceaccount:alike-service-accounts:robot"

MANIFESTS: dict[str, list[Any]] = {
    "events": [TOLD, OLD_TOLD],
    "token": [TOKEN],
    "web": [deployment(replicas=2)],
    "web2": [deployment(replicas=2, image="registry/app:2")],
    "strategyless": [deployment("bad", replicas=-1)],
    "typo": [{**deployment("typo"), "specc": {}}],
    "work": [{"apiVersion": "batch/v1", "kind": "Job", **WORK}],
    "definition": [definition()],
    "widget": [widget("a", replicas=3, note="hi")],
    "badwidget": [widget("b", color="blue")],
    "typowidget": [widget("b", colour="blue")],
}

SCRIPTS = {
    "a deployment": (
        "apply -f manifest-web.yaml",
        "rollout status deploy/web --timeout=60s >silent",
        "rollout status deploy/web",
        "apply -f manifest-web.yaml",
        "get deploy",
        "get deploy web -o wide",
        "get deploy web -o name",
        "get rs",
        "get pods",
        "get deploy,pods -l app=none",
        "get deploy web -o jsonpath={.spec.replicas}",
        "diff -f manifest-web2.yaml",
        "apply -f manifest-web2.yaml --dry-run=server",
        "apply -f manifest-web2.yaml --dry-run=client",
        "scale deploy/web --replicas=3",
        "wait --for=jsonpath={.status.readyReplicas}=3 deploy/web --timeout=60s",
        'patch deploy web --type=merge -p \'{"spec":{"minReadySeconds":1}}\'',
        'patch deploy web --type=json -p \'[{"op":"remove","path":"/spec/minReadySeconds"}]\'',
        'patch deploy web --type=json -p \'[{"op":"remove","path":"/spec/minReadySeconds"}]\'',
        "label deploy web tier=front",
        "label deploy web tier=back",
        "label deploy web tier-",
        "annotate deploy web note=x",
        "wait --for=condition=Available deploy/web --timeout=60s",
        "delete deploy web --cascade=foreground --timeout=60s",
        "delete deploy web",
        "get deploy",
    ),
    "server-side apply": (
        "apply --server-side -f manifest-web.yaml",
        "apply --server-side --field-manager=other -f manifest-web2.yaml",
        "apply --server-side --field-manager=other --force-conflicts -f manifest-web2.yaml",
        "rollout status deploy/web --timeout=60s >silent",
        "diff --server-side --force-conflicts -f manifest-web.yaml",
        "get deploy web -o jsonpath='{.metadata.managedFields[?(@.operation==\"Apply\")].manager}'",
    ),
    "descriptions": (
        "apply -f manifest-web.yaml",
        "rollout status deploy/web --timeout=60s >silent",
        "describe deploy web",
        "describe rs",
        "describe ns default",
        "set image deploy/web app=registry/app:3",
        "rollout status deploy/web --timeout=60s >silent",
        "rollout history deploy/web",
        "rollout undo deploy/web",
        "rollout status deploy/web --timeout=60s >silent",
        "get rs -o jsonpath='{.items[*].metadata.name}' | wc -w",
        "rollout restart deploy/web",
        "rollout pause deploy/web",
        "rollout resume deploy/web",
        "expose deploy web --port=80 --target-port=8080",
        "describe svc web",
        "autoscale deploy web --max=5",
        "get hpa",
        "create job once --image=x",
        "create cronjob nightly --image=x --schedule='0 3 * * *'",
        "get cronjob nightly",
        "create role reader --verb=get --resource=pods",
        "create rolebinding readers --role=reader --user=ann",
        "get roles,rolebindings",
        "create quota small --hard=pods=9",
        "create poddisruptionbudget pdb --selector=app=web --min-available=1",
        "create ingress i --rule=a.example/*=web:80",
        "get ingress i",
        "describe ingress i",
        "create priorityclass alike --value=7",
        "get priorityclass alike",
        "delete priorityclass alike",
        "get nodes -o jsonpath='{.items[*].metadata.name}'",
        "cordon node-0",
        "uncordon node-0",
        "auth whoami -o jsonpath={.kind}",
        "replace -f manifest-web2.yaml",
        "create -f manifest-web2.yaml",
        "delete -f manifest-web2.yaml --cascade=foreground",
        "delete svc,hpa,jobs,cronjobs --all --cascade=foreground",
        "get all",
    ),
    "an editor": (
        "apply -f manifest-web.yaml",
        "edit deploy web",
        "get deploy web -o jsonpath='{.spec.template.spec.containers[0].image}'",
    ),
    "a job": (
        "apply -f manifest-work.yaml",
        "wait --for=condition=Complete job/work --timeout=60s",
        "get jobs",
        "get job work -o jsonpath='{.status.succeeded}'",
        "delete job work",
    ),
    "refusals": (
        "get nope",
        "get deploy nope",
        "apply -f manifest-strategyless.yaml",
        "apply -f manifest-typo.yaml",
        "apply --validate=false -f manifest-typo.yaml",
        "create deployment typo --image=x",
        "create namespace default",
        "delete namespace default",
        "get pods --field-selector=spec.none=1",
        "get pods -l 'a==='",
        "wait --for=delete deploy/none --timeout=5s",
    ),
    "custom resources": (
        "apply -f manifest-definition.yaml",
        "wait --for=condition=Established crd/widgets.contract.example --timeout=60s",
        "apply -f manifest-widget.yaml",
        "get widgets",
        "get wix a -o wide",
        "get widget a -o yaml",
        "apply -f manifest-badwidget.yaml",
        "apply -f manifest-typowidget.yaml",
        "scale widget a --replicas=5",
        'patch widget a --type=merge -p \'{"spec":{"seq":5}}\'',
        'patch widget a --type=merge -p \'{"spec":{"seq":4}}\'',
        "patch widget a -p '{}'",
        "explain widget",
        "explain widget.spec.color",
        "delete widget a",
        "delete widget a",
    ),
    "events": (
        "apply -f manifest-events.yaml",
        "apply -f manifest-events.yaml",
        "events",
        "events --for=cm/d",
        "events --types=Warning",
        "get events",
        "get events -o wide",
        "get events --sort-by=.lastTimestamp -o name",
        "get events --field-selector=involvedObject.name=c",
        "get events.v1.events.k8s.io",
        "get events.v1.events.k8s.io told -o yaml",
        "get events told -o yaml",
        "describe event told",
        "describe events.v1.events.k8s.io old-told",
        "create cm c",
        "describe cm c",
        "delete event told",
        "delete events.v1.events.k8s.io --all",
        "get events",
    ),
    "service accounts": (
        "create sa robot",
        "create token robot | tr -cd .",
        "create token nobody",
        "create token robot --duration=1m",
        "create token robot --bound-object-kind=Secret --bound-object-name=none",
        "apply -f manifest-token.yaml",
        "wait --for=jsonpath={.data.token} secret/robot-token --timeout=60s",
        "get secret robot-token",
        "get secret robot-token -o jsonpath='{.data.namespace}'",
        "describe sa robot",
        f"auth can-i list cm {ROBOT}",
        f"get cm {ROBOT}",
        "create role reader --verb=get,list --resource=configmaps",
        "create rolebinding readers --role=reader --serviceaccount=alike-service-accounts:robot",
        "describe rolebinding readers",
        f"auth can-i list cm {ROBOT}",
        f"auth can-i delete cm {ROBOT}",
        f"get cm -o name {ROBOT}",
        f"delete cm kube-root-ca.crt {ROBOT}",
        f"auth can-i list nodes {ROBOT}",
        f"get nodes {ROBOT}",
        "auth can-i get /version --as=ann",
        "auth can-i get /metrics --as=ann",
        "auth whoami --as=ann --as-group=devs",
        f"auth whoami {ROBOT}",
        "delete sa robot",
        "wait --for=delete secret/robot-token --timeout=60s",
    ),
    "what is not there": (
        "logs none",
        "logs deploy/none",
        "top pods",
        "top nodes",
        "rollout status deploy/none",
        "rollout status cm/none",
        "describe pod none",
    ),
    "asking": (
        "auth can-i create deployments",
        "auth can-i '*' '*'",
        "explain deployment.spec.replicas",
        "explain pods.spec.containers.resources",
        "create configmap c --from-literal=k=v",
        "get cm c -o yaml",
        "describe cm c",
        "create secret generic s --from-literal=k=v",
        "get secret s",
        "create service clusterip s --tcp=80:8080",
        "get svc s",
        "get svc s -o yaml",
        "get ingress",
        "get --raw /readyz",
        "get cm c --show-managed-fields -o jsonpath='{.metadata.managedFields[0].fieldsV1}'",
        "delete cm c secret/s",
    ),
}
USUAL = ("a deployment", "descriptions", "refusals", "custom resources")
"""Those that `make test` compares; the others are long."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in USUAL else pytest.mark.long) for name in SCRIPTS],
)
async def test_kubectl_prints_the_same(
    name: str, embedded: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    binary = build.kubectl()
    assert binary is not None
    for manifest, objects in MANIFESTS.items():
        (tmp_path / f"manifest-{manifest}.yaml").write_text(yaml.safe_dump_all(objects))
    real = control_plane.cluster("nodes", controllers=True, scheduler=True)
    namespace = "alike-" + re.sub("[^a-z]", "-", name)
    setup = [
        f"create namespace {namespace}",
        f"wait --for=create sa/default -n {namespace} --timeout=60s",
    ]
    with nodes.running(real, nodes.many("node", 2, cpu="16", memory="64Gi")):
        told = []
        for kubeconfig in (real.kubeconfig(), embedded):
            home = tmp_path / kubeconfig.stem
            home.mkdir()
            for manifest in MANIFESTS:
                (home / f"manifest-{manifest}.yaml").symlink_to(
                    tmp_path / f"manifest-{manifest}.yaml"
                )
            runner = Runner(binary, kubeconfig, home, namespace)
            await runner.transcript(setup)
            told.append(await runner.transcript(SCRIPTS[name]))
    difference = "\n".join(
        difflib.unified_diff(told[0], told[1], "real", "embedded", n=6, lineterm="")
    )
    assert not difference, difference
