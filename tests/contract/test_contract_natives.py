"""Native kinds: what is filled in, what is refused, and their subresources."""

import pytest

from tests.contract.bodies import deployment, job, template
from tests.contract.speaking import MERGE, TABLE, Object, Speaker

CONTAINER = {
    "name": "app",
    "image": "registry/app:1",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
POD_SPEC = {
    "containers": [CONTAINER],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}


async def test_a_deployment_is_defaulted(api: Speaker) -> None:
    made = (await api.post(api.url("deployments"), deployment(replicas=None))).object(201)
    assert made["spec"] == {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC},
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
        },
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    assert made["status"] == {}
    assert made["metadata"]["generation"] == 1


async def test_probes_ports_volumes_and_latest_images_are_defaulted(api: Speaker) -> None:
    body = deployment(image="app")
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"containerPort": 80}]
    container["readinessProbe"] = {"httpGet": {"port": 80}}
    container["env"] = [{"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    container["resources"] = {"limits": {"cpu": "1000m"}}
    body["spec"]["template"]["spec"]["volumes"] = [
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "e"},
    ]
    spec = (await api.post(api.url("deployments"), body)).object(201)["spec"]["template"]["spec"]
    found = spec["containers"][0]
    assert found["imagePullPolicy"] == "Always"
    assert found["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert found["readinessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert found["env"][0]["valueFrom"] == {
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}
    }
    assert found["resources"] == {"limits": {"cpu": "1"}}
    assert spec["volumes"] == [
        {"name": "c", "configMap": {"name": "c", "defaultMode": 420}},
        {"name": "e", "emptyDir": {}},
    ]


async def test_limits_of_a_pod_become_its_requests(api: Speaker) -> None:
    container = {
        "name": "app",
        "image": "app",
        "resources": {"limits": {"cpu": "1000m"}, "requests": {"memory": "1Gi"}},
    }
    made = (
        await api.post(
            api.url("pods"), {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
        )
    ).object(201)
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "Burstable")


async def test_a_stateful_set_is_defaulted_and_keeps_its_identity(
    api: Speaker, newest: bool
) -> None:
    labels = {"app": "db"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "serviceName": "db", "template": template}
    url = f"/apis/apps/v1/namespaces/{api.namespace}/statefulsets"
    made = (await api.post(url, {"metadata": {"name": "db"}, "spec": spec})).object(201)["spec"]
    limits = {"partition": 0, "maxUnavailable": 1} if newest else {"partition": 0}
    assert made["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": limits}
    assert (made["podManagementPolicy"], made["replicas"], made["revisionHistoryLimit"]) == (
        "OrderedReady",
        1,
        10,
    )

    answer = await api.patch(f"{url}/db", {"spec": {"serviceName": "other"}}, MERGE)
    said = 'spec.serviceName: Invalid value: "other": field is immutable'
    before = (
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', "
        "'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' "
        "and 'minReadySeconds' "
        "are forbidden"
    )
    answer.refused(
        422, "Invalid", f'StatefulSet.apps "db" is invalid: {said if newest else before}'
    )


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (0, "Invalid value: 0: cannot be 0"),
        ("0%", 'Invalid value: "0%": cannot be 0'),
        ("101%", 'Invalid value: "101%": must not be greater than 100%'),
    ],
)
async def test_a_stateful_set_rolls_at_least_one_pod_and_at_most_all(
    api: Speaker, newest: bool, limit: object, said: str
) -> None:
    if not newest:
        pytest.skip("Kubernetes before 1.37 drops the field")
    labels = {"app": "db"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    }
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}}
    spec = {"selector": {"matchLabels": labels}, "template": template, "updateStrategy": strategy}
    url = f"/apis/apps/v1/namespaces/{api.namespace}/statefulsets"
    answer = await api.post(url, {"metadata": {"name": "db"}, "spec": spec})
    path = "spec.updateStrategy.rollingUpdate.maxUnavailable"
    answer.refused(422, "Invalid", f'StatefulSet.apps "db" is invalid: {path}: {said}')


async def test_a_service_gets_an_address_and_target_ports(api: Speaker) -> None:
    body = {
        "metadata": {"name": "s"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    spec = (await api.post(api.url("services"), body)).object(201)["spec"]
    address = spec["clusterIP"]
    assert address.count(".") == 3
    assert spec == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        "selector": {"app": "web"},
        "clusterIP": address,
        "clusterIPs": [address],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    kept = (await api.patch(api.url("services", "s"), {"spec": {"ports": [{"port": 81}]}})).object()
    assert kept["spec"]["clusterIP"] == address


async def test_a_service_that_becomes_another_type_gives_up_what_that_has_no_use_for(
    api: Speaker,
) -> None:
    body = {
        "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}},
    }
    port = (await api.post(api.url("services"), body)).object(201)["spec"]["ports"][0]["nodePort"]
    path = api.url("services", "s")
    kept = (
        await api.patch(path, {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}})
    ).object()["spec"]
    assert kept["ports"][0]["nodePort"] == port
    assert 30000 <= kept["healthCheckNodePort"] <= 32767
    inside = (await api.patch(path, {"spec": {"type": "ClusterIP"}})).object()["spec"]
    assert inside["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert inside.keys().isdisjoint(
        {"externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"}
    )
    named = (
        await api.patch(path, {"spec": {"type": "ExternalName", "externalName": "e.example"}})
    ).object()["spec"]
    assert named.keys() == {"type", "externalName", "ports", "selector", "sessionAffinity"}


async def test_a_node_port_must_be_free_and_in_range(api: Speaker) -> None:
    spec = {"type": "NodePort", "selector": {"a": "b"}}
    body = {"metadata": {"name": "s"}, "spec": {**spec, "ports": [{"port": 80}]}}
    port = (await api.post(api.url("services"), body)).object(201)["spec"]["ports"][0]["nodePort"]
    for wanted, why in (
        (port, "already allocated"),
        (40000, "not in the valid range. The range of valid ports is "),
    ):
        body = {
            "metadata": {"name": "t"},
            "spec": {**spec, "ports": [{"port": 80, "nodePort": wanted}]},
        }
        answer = await api.post(api.url("services"), body)
        ((reason, field, message),) = answer.causes()
        assert (answer.status, reason, field) == (
            422,
            "FieldValueInvalid",
            "spec.ports[0].nodePort",
        )
        assert message.startswith(f"Invalid value: {wanted}: provided port is {why}")
    (await api.post(api.url("services"), body, dryRun="All")).object(
        201
    )  # a trial is not told of the range


async def test_a_job_is_defaulted_and_selects_its_own_pods(api: Speaker) -> None:
    made = (await api.post(api.url("jobs"), job())).object(201)
    uid, spec = made["metadata"]["uid"], made["spec"]
    labels = {
        "app": "job",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "work",
        "controller-uid": uid,
        "job-name": "work",
    }
    assert spec["template"]["metadata"]["labels"] == labels
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    rest = {name: value for name, value in spec.items() if name not in ("template", "selector")}
    assert rest == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "manualSelector": False,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }


async def test_an_indexed_job_with_limits_per_index(api: Speaker) -> None:
    body = job(completions=4, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    spec = (await api.post(api.url("jobs"), body)).object(201)["spec"]
    assert (spec["completionMode"], spec["backoffLimitPerIndex"], spec["backoffLimit"]) == (
        "Indexed",
        1,
        2147483647,
    )


async def test_an_ingress_keeps_its_rules(api: Speaker) -> None:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    body = {
        "metadata": {"name": "i"},
        "spec": {"rules": [{"host": "a.example", "http": {"paths": [path]}}]},
    }
    made = (await api.post(api.url("ingresses"), body)).object(201)
    assert made["spec"] == body["spec"]
    assert made["status"] == {"loadBalancer": {}}


@pytest.mark.parametrize(
    ("plural", "body", "message"),
    [
        (
            "deployments",
            deployment("bad", replicas=-1),
            (
                'Deployment.apps "bad" is invalid: spec.replicas: Invalid value: -1: must be '
                "greater than or equal to 0"
            ),
        ),
        (
            "deployments",
            {"metadata": {"name": "bad"}},
            'Deployment.apps "bad" is invalid: [spec.selector: Required value, '
            "spec.template.metadata.labels: Invalid "
            "value: null: `selector` does not match template `labels`, "
            "spec.template.spec.containers: Required value]",
        ),
        (
            "deployments",
            deployment("bad", selector={"matchLabels": {"app": "other"}}),
            'Deployment.apps "bad" is invalid: spec.template.metadata.labels: Invalid value: '
            '{"app":"web"}: `selector` '
            "does not match template `labels`",
        ),
        (
            "jobs",
            {"metadata": {"name": "bad"}, "spec": {"template": template()}},
            'Job.batch "bad" is invalid: spec.template.spec.restartPolicy: Required value: '
            'valid values: "OnFailure", '
            '"Never"',
        ),
        (
            "services",
            {"metadata": {"name": "bad"}, "spec": {"ports": [{"port": 80}, {"port": 81}]}},
            (
                'Service "bad" is invalid: [spec.ports[0].name: Required value, '
                "spec.ports[1].name: Required value]"
            ),
        ),
        (
            "services",
            {"metadata": {"name": "bad"}, "spec": {}},
            'Service "bad" is invalid: spec.ports: Required value',
        ),
        (
            "ingresses",
            {"metadata": {"name": "bad"}, "spec": {}},
            'Ingress.networking.k8s.io "bad" is invalid: spec: Invalid value: null: either '
            "`defaultBackend` or `rules` "
            "must be specified",
        ),
    ],
)
async def test_invalid_natives_are_refused_with_paths(
    api: Speaker, plural: str, body: Object, message: str
) -> None:
    (await api.post(api.url(plural), body)).refused(422, "Invalid", message)


async def test_containers_are_validated(api: Speaker) -> None:
    body = deployment("bad")
    body["spec"]["template"]["spec"]["containers"] = [
        {"name": "a"},
        {
            "name": "a",
            "image": "x",
            "ports": [{"containerPort": 99999}],
            "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        },
    ]
    answer = await api.post(api.url("deployments"), body)
    where = "spec.template.spec.containers"
    assert answer.status == 422
    assert answer.causes() == [
        ("FieldValueRequired", f"{where}[0].image", "Required value"),
        (
            "FieldValueInvalid",
            f"{where}[1].ports[0].containerPort",
            "Invalid value: 99999: must be between 1 and 65535, inclusive",
        ),
        (
            "FieldValueInvalid",
            f"{where}[1].resources.requests",
            'Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        ("FieldValueDuplicate", f"{where}[1].name", 'Duplicate value: "a"'),
    ]


async def test_a_bad_quantity_is_a_bad_request(api: Speaker) -> None:
    body = deployment("bad")
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "abc"}}
    (await api.post(api.url("deployments"), body)).refused(
        400,
        "BadRequest",
        'Deployment in version "v1" cannot be handled as a Deployment: quantities must match '
        "the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    )


@pytest.mark.parametrize("text", ["+", "m", "Ki", ".e3"])
async def test_a_quantity_without_digits_is_nothing(api: Speaker, text: str) -> None:
    body = deployment("nothing")
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": text}}
    made = (await api.post(api.url("deployments"), body)).object(201)
    assert made["spec"]["template"]["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "0"}
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ei", "unable to parse numeric part of quantity"),
        ("1K", "unable to parse quantity's suffix"),
    ],
)
async def test_a_quantity_that_cannot_be_read_is_refused_in_the_servers_words(
    api: Speaker, text: str, words: str
) -> None:
    body = deployment("bad")
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": text}}
    said = f'Deployment in version "v1" cannot be handled as a Deployment: {words}'
    (await api.post(api.url("deployments"), body)).refused(400, "BadRequest", said)


async def test_immutable_fields_stay(api: Speaker) -> None:
    (await api.post(api.url("deployments"), deployment())).object(201)
    patch = {
        "spec": {
            "selector": {"matchLabels": {"app": "other"}},
            "template": {"metadata": {"labels": {"app": "other"}}},
        }
    }
    answer = await api.patch(api.url("deployments", "web"), patch)
    answer.refused(
        422,
        "Invalid",
        'Deployment.apps "web" is invalid: spec.selector: Invalid value: '
        '{"matchLabels":{"app":"other"}}: '
        "field is immutable",
    )
    (await api.post(api.url("jobs"), job())).object(201)
    container = {"name": "app", "image": "other:1"}
    answer = await api.patch(
        api.url("jobs", "work"), {"spec": {"template": {"spec": {"containers": [container]}}}}
    )
    assert answer.status == 422
    ((reason, field, message),) = answer.causes()
    assert (reason, field) == ("FieldValueInvalid", "spec.template")
    assert message.endswith("field is immutable")
    (await api.patch(api.url("jobs", "work"), {"spec": {"parallelism": 3}})).object()


async def test_status_and_spec_of_a_deployment_are_apart(api: Speaker) -> None:
    (await api.post(api.url("deployments"), deployment())).object(201)
    path = api.url("deployments", "web")
    patch = {
        "spec": {"replicas": 9},
        "status": {"replicas": 2, "readyReplicas": 2, "observedGeneration": 1},
    }
    changed = (await api.patch(f"{path}/status", patch)).object()
    assert changed["spec"]["replicas"] == 3
    assert changed["status"] == {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2}
    assert changed["metadata"]["generation"] == 1


async def test_a_deployment_scales(api: Speaker) -> None:
    made = (await api.post(api.url("deployments"), deployment())).object(201)
    path = api.url("deployments", "web", "scale")
    scale = (await api.get(path)).object()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    scale["spec"]["replicas"] = 5
    changed = (await api.put(path, scale)).object()
    assert changed["spec"] == {"replicas": 5}
    stale = await api.put(path, scale)
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    answer = await api.patch(path, {"spec": {"replicas": -1}})
    answer.refused(
        422,
        "Invalid",
        (
            'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be '
            "greater than or equal to 0"
        ),
    )
    live = (await api.get(api.url("deployments", "web"))).object()
    assert (live["spec"]["replicas"], live["metadata"]["generation"]) == (5, 2)


async def test_a_pod_is_bound_once(api: Speaker) -> None:
    body = {
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "none", "containers": [{"name": "a", "image": "b"}]},
    }
    (await api.post(api.url("pods"), body)).object(201)
    path = api.url("pods", "p", "binding")
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    answer = (await api.post(path, binding)).object(201)
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    pod = (await api.get(api.url("pods", "p"))).object()
    assert pod["spec"]["nodeName"] == "n1"
    conditions = [(each["type"], each["status"]) for each in pod["status"]["conditions"]]
    assert conditions == [("PodScheduled", "True")]
    answer2 = await api.post(path, {**binding, "target": {"kind": "Node", "name": "n2"}})
    answer2.refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"',
    )


@pytest.mark.parametrize(
    ("plural", "columns"),
    [
        ("pods", ["Name", "Ready", "Status", "Restarts", "Age"]),
        ("deployments", ["Name", "Ready", "Up-to-date", "Available", "Age"]),
        ("jobs", ["Name", "Status", "Completions", "Duration", "Age"]),
        ("services", ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"]),
        ("ingresses", ["Name", "Class", "Hosts", "Address", "Ports", "Age"]),
        ("events", ["Last Seen", "Type", "Reason", "Object", "Message"]),
    ],
)
async def test_tables_have_the_columns_that_people_know(
    api: Speaker, plural: str, columns: list[str]
) -> None:
    table = (await api.get(api.url(plural), accept=TABLE)).object()
    shown = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert [name for name in shown if name != "Subobject"] == columns


async def test_a_deployment_row_counts_its_replicas(api: Speaker) -> None:
    (await api.post(api.url("deployments"), deployment())).object(201)
    status = {"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}
    await api.patch(api.url("deployments", "web", "status"), {"status": status})
    (row,) = (await api.get(api.url("deployments"), accept=TABLE)).object()["rows"]
    assert row["cells"][:4] == ["web", "1/3", 2, 1]
    assert row["cells"][5:] == ["app", "registry/app:1", "app=web"]


async def test_a_controller_revision_keeps_its_data(api: Speaker) -> None:
    data = {
        "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "registry/app:1"}]}}}
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "web-1"},
        "revision": 1,
        "data": data,
    }
    made = (await api.post(api.url("controllerrevisions"), body)).object(201)
    assert (made["revision"], made["data"], "generation" in made["metadata"]) == (1, data, False)
    path = api.url("controllerrevisions", "web-1")
    message = 'ControllerRevision.apps "web-1" is invalid: data: Invalid value: '
    answer = await api.patch(path, {"data": {"spec": None}})
    assert (answer.status, answer.json["message"].startswith(message)) == (422, True)
    assert answer.json["message"].endswith(": field is immutable")
    answer = await api.post(
        api.url("controllerrevisions"), {**body, "metadata": {"name": "web-2"}, "revision": -1}
    )
    assert answer.status == 422
    assert (
        "revision: Invalid value: -1: must be greater than or equal to 0" in answer.json["message"]
    )
    bare = {name: value for name, value in body.items() if name != "data"} | {
        "metadata": {"name": "web-3"}
    }
    answer = await api.post(api.url("controllerrevisions"), bare)
    assert answer.status == 422
    assert "data: Required value: data is mandatory" in answer.json["message"]
