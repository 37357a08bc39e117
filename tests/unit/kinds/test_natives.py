"""The native objects of a slice, compared with goldens, and what stays the same while things
change.

Goldens are rewritten with FEDERATOR_WRITE_GOLDEN=1; the change is then read in the diff.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.api import runtimeprofile
from federator.kinds import labels, read, registry
from federator.kinds.jobset import natives as jobsets
from federator.kinds.natives import as_served, pod_templates
from federator.kinds.pods import priorities
from federator.kinds.shared import parts
from federator.kinds.verbs import BARE, EXPANDER, Environment, PodRules, SliceMark
from federator.model import names
from federator.model.decision import Share
from tests.unit.kinds.croncases import NATIVE_CRON, PLAIN_NATIVE_CRON

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SERVICE = """
apiVersion: pinterest.com/v1beta1
kind: PinterestService
metadata: {name: homefeed, namespace: feed, uid: host-uid, labels: {app: homefeed, app.kubernetes.io/name: feed-app}}
spec:
  project: homefeed
  tier: Reserved
  replicas: 30
  iamRole: role-homefeed
  service: {ports: [{name: http, port: 80, targetPort: 8080}, {port: 81}]}
  loadBalancers: [{port: 80, host: a.example}, {port: 81, host: b.example}, {port: 81, host: a.example, path: /admin}]
  config: {app.properties: "x=1"}
  sidecars: {runtime: {register: true, environment: staging, metrics: 8080/metrics}}
  updateStrategy: {maxSurge: 10%, maxUnavailable: 0, minReadySeconds: 5}
  disruptionBudget: {maxUnavailable: 10%}
  placement: {policyRef: zonal}
  template:
    metadata: {labels: {app: homefeed}, creationTimestamp: null}
    spec:
      initContainers: [{name: warm, image: "warm:1"}]
      containers:
      - name: app
        image: "app:1"
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /ready, port: http}}
        resources: {requests: {cpu: 500m, memory: 1Gi}}
        env: [{name: MODE, value: live}]
"""
PLAIN_SERVICE = """
apiVersion: pinterest.com/v1beta1
kind: PinterestService
metadata: {name: plain, namespace: feed, uid: host-uid}
spec:
  service: {ports: [{port: 80}], headless: true}
  template:
    spec: {serviceAccountName: shared, priorityClassName: own, containers: [{name: app, image: "app:1"}]}
"""
ROUTED_SERVICE = """
apiVersion: pinterest.com/v1beta1
kind: PinterestService
metadata: {name: routed, namespace: feed, uid: host-uid}
spec:
  service: {ports: [{port: 80}, {port: 81}], export: true}
  additionalServices: [{name: inner, ports: [{port: 80}], export: true}, {name: other, ports: [{port: 80}]}]
  gateway: {name: edge, namespace: gateways, sectionName: https}
  loadBalancers: [{port: 80, host: a.example}, {port: 81}, {port: 81, host: a.example, path: /admin}]
  template:
    spec: {containers: [{name: app, image: "app:1"}]}
"""
SCALED_SERVICE = """
apiVersion: pinterest.com/v1beta1
kind: PinterestService
metadata: {name: scaled, namespace: feed, uid: host-uid}
spec:
  autoscaling:
    min: 12
    max: 120
    chargePercent: 50
    metrics:
    - {resource: cpu, averageUtilization: 60}
    - {resource: memory, container: app, averageValue: 2Gi}
    - {pods: requests, averageValue: 100, matchLabels: {verb: GET}}
    - {external: lag, averageValue: "30"}
    scaleDownStabilizationSeconds: 60
  template:
    spec: {containers: [{name: app, image: "app:1", resources: {requests: {cpu: 100m}}}]}
"""
JOBS = """
apiVersion: pinterest.com/v1beta1
kind: PinterestJobSet
metadata: {name: train, namespace: ads, uid: host-uid}
spec:
  project: ads
  tier: Preemptible
  shards: 400
  parallelism: 100
  backoffLimitPerShard: 2
  config: {job.conf: "a"}
  volumeClaimTemplates:
  - metadata: {name: scratch, labels: {a: b}}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
  template:
    spec:
      containers:
      - name: work
        image: "work:1"
        env: [{name: SHARD_BASE, value: "-1"}]
        volumeMounts: [{name: scratch, mountPath: /scratch}]
"""
DAEMON = """
apiVersion: pinterest.com/v1beta1
kind: PinterestDaemon
metadata: {name: node-agent, namespace: infra, uid: host-uid, labels: {app: node-agent}}
spec:
  project: infra
  tier: Reserved
  iamRole: role-agent
  config: {agent.conf: "level=info"}
  sidecars: {runtime: {metrics: 8080/metrics}}
  updateStrategy: {maxUnavailable: 10%, minReadySeconds: 5}
  startupTaint: {key: infra.example/starting}
  placement: {tolerations: [{key: pool, operator: Exists}]}
  template:
    spec:
      nodeSelector: {pool: general}
      tolerations: [{operator: Exists}]
      containers: [{name: agent, image: "agent:1", resources: {requests: {cpu: 50m, memory: 64Mi}}}]
"""
PLAIN_DAEMON = """
apiVersion: pinterest.com/v1beta1
kind: PinterestDaemon
metadata: {name: plain, namespace: infra, uid: host-uid}
spec:
  updateStrategy: {maxSurge: 1}
  template:
    spec: {serviceAccountName: shared, priorityClassName: own, containers: [{name: agent, image: "agent:1"}]}
"""
TRAINING = """
apiVersion: pinterest.com/v1beta1
kind: PinterestTrainingJob
metadata: {name: ranker, namespace: ml, uid: host-uid, labels: {app: ranker}}
spec:
  project: ads
  tier: Reserved
  iamRole: role-ranker
  config: {train.conf: "epochs=3"}
  sidecars: {runtime: {metrics: 8080/metrics}}
  checkpoint: {storage: 10Gi, mountPath: /ckpt, storageClassName: shared}
  activeDeadlineSeconds: 3600
  components:
  - {name: master, replicas: 1}
  - {name: worker, replicas: 3, minReplicas: 1, restartPolicy: OnFailure, backoffLimit: 2, gpuModels: [A100, H100]}
  template:
    spec:
      containers: [{name: main, image: "train:1", resources: {requests: {cpu: 2}, limits: {nvidia.com/gpu: "4"}}}]
"""
TENSORFLOW = """
apiVersion: pinterest.com/v1beta1
kind: PinterestTrainingJob
metadata: {name: mnist, namespace: ml, uid: host-uid}
spec:
  framework: TensorFlow
  port: 2222
  components:
  - {name: chief, replicas: 1}
  - {name: worker, replicas: 2}
  - name: ps
    replicas: 2
    template:
      spec: {containers: [{name: ps, image: "ps:1", env: [{name: TF_CONFIG, value: own}]}]}
  - {name: evaluator, replicas: 1}
  template:
    spec: {containers: [{name: main, image: "train:1"}]}
"""
CUSTOM = """
apiVersion: pinterest.com/v1beta1
kind: PinterestTrainingJob
metadata: {name: sim, namespace: ml, uid: host-uid}
spec:
  framework: Custom
  subdomain: ring
  completesWith: [leader]
  components:
  - {name: leader, replicas: 1}
  - {name: actor, replicas: 6, podsPerJob: 3}
  template:
    spec: {containers: [{name: main, image: "train:1", envFrom: [{secretRef: {name: keys}}]}]}
"""
STATEFUL = """
apiVersion: pinterest.com/v1beta1
kind: PinterestStatefulSet
metadata: {name: db, namespace: storage, uid: host-uid, labels: {app: db}}
spec:
  project: storage
  tier: Reserved
  replicas: 12
  iamRole: role-db
  config: {db.conf: "a"}
  service: {ports: [{name: sql, port: 5432}], publishNotReadyAddresses: true}
  podManagementPolicy: Parallel
  updateStrategy: {minReadySeconds: 5}
  claimRetention: Delete
  release: [west]
  placement: {division: {maxPerCluster: 6}}
  volumeClaimTemplates:
  - metadata: {name: data, labels: {a: b}}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
  template:
    spec:
      containers:
      - name: db
        image: "db:1"
        env: [{name: ORDINAL, value: "-1"}]
        resources: {requests: {cpu: 500m, memory: 1Gi}}
        volumeMounts: [{name: data, mountPath: /data}]
"""
PLAIN_STATEFUL = """
apiVersion: pinterest.com/v1beta1
kind: PinterestStatefulSet
metadata: {name: a-name-as-long-as-any-workload-may-have-in-the-fleet, namespace: storage, uid: host-uid}
spec:
  replicas: 2
  template:
    spec: {serviceAccountName: shared, priorityClassName: own, containers: [{name: db, image: "db:1"}]}
"""
ENDING_JOBS = """
apiVersion: pinterest.com/v1beta1
kind: PinterestJobSet
metadata: {name: search, namespace: ads, uid: host-uid}
spec:
  shards: 40
  completion: SuccessPolicy
  successPolicy: {succeededCount: 3, succeededShards: "0-9"}
  activeDeadlineSeconds: 600
  ttlSecondsAfterFinished: 60
  failurePolicy:
    maxFailedShards: 2
    rules:
    - {action: FailJobSet, onExitCodes: {operator: In, values: [42, 7]}}
    - {action: FailShard, onExitCodes: {containerName: work, operator: NotIn, values: [1]}}
    - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}
  template:
    spec:
      initContainers: [{name: fetch, image: "fetch:1"}]
      containers: [{name: work, image: "work:1"}]
"""
OWN_PARTS = """
apiVersion: pinterest.com/v1beta1
kind: PinterestJobSet
metadata: {name: own, namespace: ads, uid: host-uid}
spec:
  shards: 20
  shardConfig: {part.json: '{"shard": {shard}, "of": {count}, "index": {index}}'}
  volumeClaimTemplates:
  - metadata: {name: data, labels: {a: b}}
    spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 10Gi}}}
    lifetime: Shard
    retention: Retain
  - metadata: {name: scratch}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  template:
    spec:
      containers:
      - name: work
        image: "work:1"
        volumeMounts:
        - {name: data, mountPath: /data}
        - {name: data, mountPath: /logs, subPath: logs}
        - {name: scratch, mountPath: /scratch}
"""
GUARDED_JOBS = """
apiVersion: pinterest.com/v1beta1
kind: PinterestJobSet
metadata: {name: once, namespace: feed, uid: host-uid}
spec:
  project: feed
  shards: 20
  execution: Exclusive
  guard: true
  template:
    spec:
      terminationGracePeriodSeconds: 45
      initContainers:
      - {name: proxy, image: "proxy:1", restartPolicy: Always, livenessProbe: {tcpSocket: {port: 9000}}}
      containers:
      - name: shard
        image: "shard:1"
        ports: [{name: health, containerPort: 8081}]
        startupProbe: {httpGet: {path: /started, port: health}, failureThreshold: 60}
        livenessProbe: {httpGet: {path: /alive, port: health}, periodSeconds: 20, terminationGracePeriodSeconds: 5}
"""


def with_target(text: str, target: str) -> str:
    return text.replace("\nspec:\n", f"\nspec:\n  target: {target}\n", 1)


CASES = {
    "nativecron": (NATIVE_CRON, Share("east", 2, 2, 9), True),
    "nativecron-plain": (PLAIN_NATIVE_CRON, Share("east", 1, 1, 9), False),
    "jobset-guarded": (GUARDED_JOBS, Share("east", 10, 10, 9, ((10, 19),)), True),
    "jobset-own-parts": (OWN_PARTS, Share("east", 3, 3, 9, ((4, 5), (9, 9))), False),
    "jobset-ending": (ENDING_JOBS, Share("east", 10, 5, 9, ((10, 19),)), False),
    "service": (SERVICE, Share("east", 12, 12, 9), True),
    "service-routed": (ROUTED_SERVICE, Share("east", 12, 12, 9), False),
    "service-autoscaled": (SCALED_SERVICE, Share("east", 30, 30, 9), False),
    "service-plain": (PLAIN_SERVICE, Share("east", 2, 2, 9), False),
    "daemon": (DAEMON, Share("east", 1, 1, 9, nodes=12), True),
    "daemon-plain": (PLAIN_DAEMON, Share("east", 1, 1, 9, nodes=12), False),
    "training": (TRAINING, Share("east", 1, 1, 9, ((0, 0),), pods=(1, 2)), True),
    "training-tensorflow": (TENSORFLOW, Share("east", 1, 1, 9, ((0, 0),)), False),
    "training-jobset": (
        with_target(TRAINING, "JobSet"),
        Share("east", 1, 1, 9, ((0, 0),), pods=(1, 2)),
        True,
    ),
    "training-tensorflow-jobset": (
        with_target(TENSORFLOW, "JobSet"),
        Share("east", 1, 1, 9, ((0, 0),)),
        False,
    ),
    "training-trainjob": (
        with_target(CUSTOM, "TrainJob"),
        Share("east", 1, 1, 9, ((0, 0),)),
        False,
    ),
    "statefulset": (STATEFUL, Share("east", 6, 6, 9, ((3, 6), (10, 11))), True),
    "statefulset-plain": (PLAIN_STATEFUL, Share("east", 2, 2, 9, ((0, 1),)), False),
    "jobset": (JOBS, Share("east", 120, 50, 9, ((100, 149), (150, 199), (300, 319))), True),
}

VERSION_1 = "4c59a7ceeb3e"
"""The hash by which slices name version 1 of the default profile."""
FORMER = {"daemon-plain", "service-plain", "statefulset-plain"}
"""Slices as an earlier release left them: what is made of them stays as it was."""


def profile() -> dict[str, Any]:
    return read.load_yaml((ROOT / "config" / "runtimeprofile.yaml").read_text(encoding="utf-8"))[0]


def slice_of(text: str, share: Share, expander: str = EXPANDER) -> dict[str, Any]:
    (obj,) = read.load_yaml(text)
    read.check(obj)
    project = registry.verbs_of(obj["kind"]).project(obj)
    environment = Environment(project, "team-a", "us-east-1", "us-east-1a")
    mark = SliceMark(
        "fleet-1",
        "host-uid",
        1,
        share.cluster,
        share.seq,
        share.ranges,
        PodRules(("default", "abc"), expander, environment),
        share.pods,
    )
    rendered = registry.verbs_of(obj["kind"]).render_slice(obj, share, mark)
    rendered["metadata"]["uid"] = "slice-uid"
    return rendered


def expand(obj: dict[str, Any], with_profile: dict[str, Any] | None) -> tuple[dict[str, Any], ...]:
    made = registry.verbs_of(obj["kind"]).expand
    assert made is not None
    return made(obj, with_profile)


@pytest.mark.parametrize("case", CASES)
def test_the_natives_of_a_slice_are_those_of_the_golden(case: str) -> None:
    text, share, with_profile = CASES[case]
    rules = BARE if case in FORMER else EXPANDER
    made = expand(slice_of(text, share, rules), profile() if with_profile else None)
    golden = HERE / "golden" / f"{case}.yaml"
    if os.environ.get("FEDERATOR_WRITE_GOLDEN") == "1":
        text = yaml.dump_all(made, Dumper=_WithoutAnchors, sort_keys=True, width=120)
        golden.write_text(text, encoding="utf-8")
    assert list(yaml.safe_load_all(golden.read_text(encoding="utf-8"))) == list(made)


@pytest.mark.parametrize("case", ["jobset", "statefulset"])
def test_pods_on_version_1_of_the_default_profile_stay_as_they_are(case: str) -> None:
    """An upgrade brings another default profile. A pinned slice names the former one by its hash,
    and its pods are made from that, byte for byte: none restarts."""
    former = read.load_yaml((HERE / "profiles" / "default-1.yaml").read_text(encoding="utf-8"))[0]
    assert runtimeprofile.content_hash(former) == VERSION_1
    assert runtimeprofile.content_hash(former) != runtimeprofile.content_hash(profile())
    text, share, _ = CASES[case]
    made = expand(slice_of(text, share), former)
    golden = (HERE / "golden" / f"{case}-profile-1.yaml").read_text(encoding="utf-8")
    assert list(yaml.safe_load_all(golden)) == list(made)


class _WithoutAnchors(yaml.SafeDumper):
    """Equal parts are written out: a golden is read by people."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _only(made: tuple[dict[str, Any], ...], kind: str) -> dict[str, Any]:
    (found,) = (obj for obj in made if obj["kind"] == kind)
    return found


def test_every_native_is_marked_and_owned_but_for_a_service_account_that_may_be_shared() -> None:
    for text, share, _ in CASES.values():
        for obj in expand(slice_of(text, share), None):
            meta = obj["metadata"]
            assert meta["labels"][labels.MANAGED_BY_LABEL] == "federator"
            assert meta["labels"][names.FLEET_LABEL] == "fleet-1"
            if meta["name"] == "shared":
                assert "ownerReferences" not in meta
                assert names.WORKLOAD_UID_LABEL not in meta["labels"]
            elif meta["name"] == "own-data" or obj["kind"] == "TrainingRuntime":
                assert "ownerReferences" not in meta  # retained, or goes after another
            else:
                assert meta["labels"][names.WORKLOAD_UID_LABEL] == "host-uid"
                (owner,) = meta["ownerReferences"]
                assert (owner["uid"], owner["controller"]) == ("slice-uid", True)


def test_a_gateway_of_the_profile_counts_where_the_service_names_none() -> None:
    share = CASES["service"][1]
    given = profile()
    given["spec"]["gateway"] = {"name": "shared"}
    for text, parent in ((SERVICE, "shared"), (ROUTED_SERVICE, "edge")):
        made = expand(slice_of(text, share), given)
        routes = [obj for obj in made if obj["kind"] == "HTTPRoute"]
        assert {route["spec"]["parentRefs"][0]["name"] for route in routes} == {parent}
        assert [obj["kind"] for obj in as_served(made, lambda kind: True)].count("Ingress") == 0
        bare = {obj["kind"] for obj in as_served(made, lambda kind: False)}
        assert "Ingress" in bare
        assert not bare & {"HTTPRoute", "ServiceExport"}
    assert not [obj for obj in expand(slice_of(SERVICE, share), None) if obj["kind"] == "HTTPRoute"]


def test_the_selector_of_a_service_depends_on_its_name_alone() -> None:
    one = _only(expand(slice_of(SERVICE, CASES["service"][1]), profile()), "Deployment")
    changed = SERVICE.replace("app: homefeed", "app: other").replace(
        "project: homefeed", "project: else"
    )
    two = _only(expand(slice_of(changed, CASES["service"][1]), None), "Deployment")
    assert (
        one["spec"]["selector"]
        == two["spec"]["selector"]
        == {"matchLabels": {"pinterest.com/service": "homefeed"}}
    )
    for deployment in (one, two):
        pod_labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert pod_labels["pinterest.com/service"] == "homefeed"


def test_a_changed_config_map_changes_the_pods_of_a_service_and_nothing_else_does() -> None:
    def template(text: str) -> Any:
        return _only(expand(slice_of(text, CASES["service"][1]), profile()), "Deployment")["spec"][
            "template"
        ]

    assert template(SERVICE) == template(SERVICE.replace("replicas: 30", "replicas: 31"))
    assert template(SERVICE) == template(SERVICE.replace("zonal", "other"))
    one, two = template(SERVICE), template(SERVICE.replace("x=1", "x=2"))
    assert one["spec"] == two["spec"]
    annotation = labels.CONFIG_HASH_ANNOTATION
    assert one["metadata"]["annotations"][annotation] != two["metadata"]["annotations"][annotation]


def test_the_config_is_mounted_in_the_workloads_own_containers_only() -> None:
    pod = _only(expand(slice_of(SERVICE, CASES["service"][1]), profile()), "Deployment")["spec"][
        "template"
    ]["spec"]
    everything = [*pod["initContainers"], *pod["containers"]]
    mounted = {
        c["name"]
        for c in everything
        for m in c.get("volumeMounts", ())
        if m["name"] == parts.CONFIG_VOLUME
    }
    assert mounted == {"warm", "app"}


@pytest.mark.parametrize(
    "use",
    [
        {"volumes": [{"name": "mine", "configMap": {"name": "homefeed-config"}}]},
        {
            "volumes": [
                {
                    "name": "mine",
                    "projected": {"sources": [{"configMap": {"name": "homefeed-config"}}]},
                }
            ]
        },
        {
            "containers": [
                {"name": "app", "envFrom": [{"configMapRef": {"name": "homefeed-config"}}]}
            ]
        },
    ],
)
def test_a_template_that_uses_its_config_map_itself_is_left_alone(use: dict[str, Any]) -> None:
    obj = slice_of(SERVICE, CASES["service"][1])
    pod = {**obj["spec"]["template"]["spec"], **use}
    obj["spec"]["template"] = {**obj["spec"]["template"], "spec": pod}
    made = _only(expand(obj, None), "Deployment")["spec"]["template"]["spec"]
    assert parts.CONFIG_VOLUME not in {volume["name"] for volume in made.get("volumes", ())}


def test_jobs_cover_the_ranges_exactly_and_number_their_shards() -> None:
    obj = slice_of(JOBS, CASES["jobset"][1])
    jobs = [native for native in expand(obj, profile()) if native["kind"] == "Job"]
    covered = []
    for job in jobs:
        env = {
            e["name"]: e["value"]
            for e in job["spec"]["template"]["spec"]["containers"][0]["env"]
            if "value" in e
        }
        base = int(env["SHARD_BASE"])
        covered.append((base, base + job["spec"]["completions"] - 1))
        assert env["SHARD_COUNT"] == "400"
        assert labels.piece_of(job["metadata"]["annotations"]) == covered[-1]
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert tuple(covered) == CASES["jobset"][1].ranges
    assert len({job["metadata"]["name"] for job in jobs}) == 3


def test_parallelism_flows_to_later_jobs_as_earlier_ones_run_dry() -> None:
    obj = slice_of(JOBS, Share("east", 120, 60, 9, ((0, 49), (50, 99), (100, 119))))
    steps = {
        "": [50, 10, 0],
        "0-29": [50, 40, 0],
        "0-49": [50, 50, 10],
        "0-49,50-94": [50, 50, 20],
    }
    for completed, expected in steps.items():
        found = jobsets.parallelism({**obj, "status": {"completedIndexes": completed}})
        assert list(found.values()) == expected, completed


def test_a_job_set_without_a_federation_runs_all_its_shards() -> None:
    (obj,) = read.load_yaml(JOBS)
    (job,) = (native for native in expand(obj, None) if native["kind"] == "Job")
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (400, 100)
    assert names.FLEET_LABEL not in job["metadata"]["labels"]


@pytest.mark.parametrize("name", ["a", "train", "w" * 52, "w" * 40 + "-" * 11 + "w"])
@pytest.mark.parametrize("piece", [(0, 0), (0, 99), (99_000, 99_999), (0, 99_999)])
def test_the_names_of_a_jobs_pods_are_valid_host_names(name: str, piece: tuple[int, int]) -> None:
    job = jobsets.job_name(name, piece)
    assert len(f"{job}-{piece[1] - piece[0]}") <= 63
    assert job[0].isalnum()
    assert job[-1].isalnum()


def test_names_of_jobs_differ_between_ranges_and_workloads() -> None:
    made = {
        jobsets.job_name("w" * 51 + last, (low, low + 10_000))
        for last in "ab"
        for low in range(0, 90_000, 9)
    }
    assert len(made) == 2 * 10_000


def test_each_tier_has_a_priority_class_that_pods_name_unless_they_name_their_own() -> None:
    classes = {body["metadata"]["name"]: body["value"] for body in priorities.PRIORITY_CLASSES}
    assert (
        classes["federator-reserved"]
        > classes["federator-ondemand"]
        > 0
        > classes["federator-preemptible"]
    )
    named = {case: expand(slice_of(text, share), None) for case, (text, share, _) in CASES.items()}
    pods = {
        case: next(template["spec"] for n in made for template in pod_templates(n))
        for case, made in named.items()
    }
    assert pods["service"]["priorityClassName"] == "federator-reserved"
    assert pods["jobset"]["priorityClassName"] == "federator-preemptible"
    assert pods["service-plain"]["priorityClassName"] == "own"


def test_services_carry_what_the_workload_says_of_them() -> None:
    obj = read.load_yaml(PLAIN_SERVICE)[0]
    obj["spec"]["service"] = {
        "ports": [{"port": 80, "nodePort": 30001}],
        "type": "NodePort",
        "annotations": {"prometheus.io/scrape": "true"},
        "sessionAffinity": "ClientIP",
    }
    obj["spec"]["additionalServices"] = [
        {
            "name": "alias",
            "ports": [{"port": 90}],
            "headless": True,
            "publishNotReadyAddresses": True,
        }
    ]
    first, second = (made for made in expand(obj, None) if made["kind"] == "Service")

    assert first["metadata"]["annotations"] == {"prometheus.io/scrape": "true"}
    assert (first["spec"]["type"], first["spec"]["sessionAffinity"]) == ("NodePort", "ClientIP")
    assert first["spec"]["ports"] == [
        {"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30001}
    ]
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("plain", "alias")
    assert second["spec"]["selector"] == first["spec"]["selector"]
    assert (second["spec"]["clusterIP"], second["spec"]["publishNotReadyAddresses"]) == (
        "None",
        True,
    )
    assert "annotations" not in second["metadata"]
