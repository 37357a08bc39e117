"""Deployments, Services and Ingresses to PinterestServices: one test per rule."""

from typing import Any

import pytest

from federator.convert import convert
from federator.convert.drafts import BadInput, Fate
from tests.unit.kinds.conversions import (
    container,
    converted,
    deployment,
    ingress,
    left,
    native,
    notes,
    only,
    service,
    using,
)


def test_a_deployment_becomes_a_service_without_a_door() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}}
    obj = only(converted(deployment(replicas=7, strategy=rolling, minReadySeconds=5)))

    assert obj["kind"] == "PinterestService"
    assert obj["spec"]["replicas"] == 7
    assert obj["spec"]["updateStrategy"] == {
        "maxSurge": "10%",
        "maxUnavailable": 0,
        "minReadySeconds": 5,
    }
    assert obj["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
    assert "service" not in obj["spec"]


def test_federation_annotations_of_a_carried_deployment_become_fields() -> None:
    annotations = {f"federation.pinterest.com/{key}": value for key, value in _ANNOTATED.items()}
    obj = only(converted(deployment(metadata={"annotations": annotations})))

    spec = obj["spec"]
    assert (spec["project"], spec["tier"], spec["priority"], spec["suspend"]) == (
        "ads",
        "Reserved",
        7,
        True,
    )
    assert spec["placement"] == {"policyRef": "zonal"}
    assert "annotations" not in obj["metadata"]


_ANNOTATED = {
    "project": "ads",
    "tier": "Reserved",
    "priority": "7",
    "suspend": "true",
    "policy": "zonal",
}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"strategy": {"type": "Recreate"}}, "spec.strategy.type: Recreate"),
        ({"paused": True}, "spec.paused"),
        ({"pod": {"nodeName": "n1"}}, "nodeName: n1 is a node of one cluster"),
        (
            {"pod": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}},
            "PersistentVolumeClaim data is the storage of one cluster",
        ),
        ({"metadata": {"name": "2048"}}, "metadata.name"),
        ({"metadata": {"name": "x" * 53}}, "at most 52"),
    ],
)
def test_a_deployment_that_would_lose_something_is_left_alone(
    spec: dict[str, Any], reason: str
) -> None:
    done = converted(deployment(**spec))

    assert done.objects == ()
    assert reason in next(iter(left(done).values()))


def test_fields_that_no_api_server_takes_are_bad_input_with_their_path() -> None:
    with pytest.raises(BadInput) as bad:
        convert.convert([("web.yaml", deployment(container={"imagePullPolice": "Always"}))])

    assert bad.value.errors[0].path == "spec.template.spec.containers[0].imagePullPolice"
    assert str(bad.value).startswith("web.yaml: Deployment/web: ")


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        ({"kind": "Deployment", "metadata": {"name": "a"}}, "apiVersion"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "kind"),
        ({"apiVersion": "v1", "kind": "Service", "metadata": {}}, "metadata.name"),
        (deployment(selector={"matchLabels": {"app": "other"}}), "spec.template.metadata.labels"),
    ],
)
def test_objects_without_identity_or_sense_are_bad_input(obj: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as bad:
        convert.convert([("", obj)])

    assert field in [error.path for error in bad.value.errors]


@pytest.mark.parametrize(
    ("part", "title", "field"),
    [
        (service(port={"port": 70000}), "Service/web", "spec.ports[0].port"),
        (service(port={"port": "http"}), "Service/web", "spec.ports[0].port"),
        (native("ConfigMap", "c", data={"a": 1}), "ConfigMap/c", "data.a"),
        (ingress(host="No Host"), "Ingress/web", "spec.rules"),
    ],
)
def test_a_wrong_field_is_told_of_the_object_it_stands_in(
    part: dict[str, Any], title: str, field: str
) -> None:
    others = [service()] if part["kind"] != "Service" else []
    with pytest.raises(BadInput) as bad:
        convert.convert([("", obj) for obj in (deployment(pod=using("c")), *others, part)])

    assert bad.value.title == title
    assert bad.value.errors[0].path.startswith(field)


def test_a_fractional_quantity_becomes_a_text_and_is_told() -> None:
    done = converted(
        deployment(container={"resources": {"requests": {"cpu": 0.5}, "limits": {"memory": 1e9}}})
    )

    assert container(only(done))["resources"] == {
        "requests": {"cpu": "0.5"},
        "limits": {"memory": "1000000000"},
    }
    assert 'resources.requests.cpu was the number 0.5 and becomes the text "0.5"' in notes(done)


def test_of_variables_named_twice_the_last_is_kept_as_containers_see_it() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    done = converted(deployment(container={"env": env}))

    assert container(only(done))["env"] == env[1:]
    assert "env has A more than once" in notes(done)


def test_a_port_given_under_two_names_is_one_port_and_references_use_its_number() -> None:
    ports = [
        {"name": "http", "containerPort": 8080},
        {"name": "probe", "containerPort": 8080, "protocol": "TCP"},
    ]
    probe = {"httpGet": {"path": "/", "port": "probe"}}
    done = converted(
        deployment(container={"ports": ports, "readinessProbe": probe}),
        service(port={"port": 80, "targetPort": "probe"}),
    )

    obj = only(done)
    assert container(obj)["ports"] == ports[:1]
    assert container(obj)["readinessProbe"]["httpGet"]["port"] == 8080
    assert obj["spec"]["service"]["ports"] == [{"port": 80, "targetPort": 8080}]


def test_nulls_status_and_server_set_fields_do_not_come_along() -> None:
    obj = deployment()
    obj["status"] = {"replicas": 1}
    obj["metadata"] |= {
        "uid": "u",
        "resourceVersion": "5",
        "managedFields": [],
        "creationTimestamp": None,
    }
    obj["spec"]["template"]["metadata"]["creationTimestamp"] = None
    made = only(converted(obj))

    assert made["metadata"] == {"name": "web"}
    assert made["spec"]["template"]["metadata"] == {"labels": {"app": "web"}}
    assert "status" not in made


def test_a_service_over_one_deployment_is_its_service() -> None:
    done = converted(deployment(), service())

    assert only(done)["spec"]["service"] == {
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}]
    }
    assert left(done) == {}


def test_a_headless_service_stays_headless() -> None:
    assert (
        only(converted(deployment(), service(clusterIP="None")))["spec"]["service"]["headless"]
        is True
    )


def test_the_workload_takes_the_name_by_which_clients_know_it() -> None:
    done = converted(
        deployment("web-v1", labels={"app": "web"}), service(metadata={"labels": {"tier": "front"}})
    )

    obj = only(done)
    assert obj["metadata"] == {"name": "web", "labels": {"tier": "front"}}
    assert "takes the name of Service/web" in notes(done)


def test_a_name_that_another_workload_has_is_not_taken() -> None:
    done = converted(deployment("web"), deployment("api"), service("web", app="api"))

    assert [obj["metadata"]["name"] for obj in done.objects] == ["web", "api"]
    assert "cannot take its name" in left(done)["Service/web"]


def test_namespaces_are_apart() -> None:
    elsewhere = service(metadata={"namespace": "b"})
    done = converted(deployment(metadata={"namespace": "a"}), elsewhere)

    assert "selects the pods of no workload" in left(done)["Service/web"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"selector": {}}, "it selects no pods"),
        ({"selector": {"app": "nobody"}}, "selects the pods of no workload"),
        ({"type": "ExternalName", "externalName": "a.b"}, "ExternalName is a DNS alias"),
        ({"clusterIP": "10.0.0.7"}, "an address of one cluster"),
        ({"externalIPs": ["192.0.2.1"]}, "addresses of one cluster"),
        ({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}, "for three hours"),
        ({"unheardOf": 1}, "it is not known here"),
    ],
)
def test_a_service_that_cannot_be_expressed_stays_as_it_is(
    spec: dict[str, Any], reason: str
) -> None:
    done = converted(deployment(), service(**spec))

    assert "service" not in only(done)["spec"]
    assert reason in left(done)["Service/web"]


def test_defaults_that_servers_fill_in_are_no_reason() -> None:
    filled: dict[str, Any] = {
        "clusterIP": "10.0.0.7",
        "clusterIPs": ["10.0.0.7"],
        "ipFamilies": ["IPv4"],
    }
    filled |= {
        "ipFamilyPolicy": "SingleStack",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }
    done = converted(deployment(), service(metadata={"uid": "u"}, **filled))

    assert only(done)["spec"]["service"] == {
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}]
    }


def test_a_service_over_several_deployments_is_left_with_their_names() -> None:
    both = [deployment(name, labels={"app": "web", "v": name}) for name in ("web-a", "web-b")]
    done = converted(*both, service())

    assert len(done.objects) == 2
    assert "2 workloads (Deployment/web-a, Deployment/web-b)" in left(done)["Service/web"]


def test_a_service_that_also_selects_a_stateful_set_is_left() -> None:
    other = {**deployment("db", labels={"app": "web"}), "kind": "StatefulSet"}

    assert (
        "Deployment/web, StatefulSet/db"
        in left(converted(deployment(), other, service()))["Service/web"]
    )


def test_a_second_service_of_type_load_balancer_becomes_doors() -> None:
    done = converted(deployment(), service("web-external", type="LoadBalancer"), service())

    obj = only(done)
    assert obj["metadata"]["name"] == "web"
    assert obj["spec"]["loadBalancers"] == [{"port": 80}]
    assert "Service/web-external of type LoadBalancer becomes spec.loadBalancers" in notes(done)


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (
            {"metadata": {"annotations": {"prometheus.io/scrape": "true"}}},
            {"annotations": {"prometheus.io/scrape": "true"}},
        ),
        ({"sessionAffinity": "ClientIP"}, {"sessionAffinity": "ClientIP"}),
        ({"publishNotReadyAddresses": True}, {"publishNotReadyAddresses": True}),
        (
            {"type": "LoadBalancer", "port": {"name": "postgres", "port": 5432}},
            {"type": "LoadBalancer"},
        ),
        (
            {"type": "LoadBalancer", "metadata": {"annotations": {"cloud/balancer": "internal"}}},
            {"type": "LoadBalancer", "annotations": {"cloud/balancer": "internal"}},
        ),
        ({"type": "NodePort", "port": {"port": 80, "nodePort": 30001}}, {"type": "NodePort"}),
    ],
)
def test_what_a_service_says_beside_its_ports_is_carried(
    given: dict[str, Any], fields: dict[str, Any]
) -> None:
    source = service(**given)
    done = converted(deployment(), source)

    made = only(done)["spec"]["service"]
    assert made == {"ports": source["spec"]["ports"], **fields}
    assert left(done) == {}


def test_ports_of_nodes_that_an_api_server_drew_for_a_balancer_are_not_wishes() -> None:
    live = {"uid": "u", "annotations": {"a": "b"}}
    port = {"name": "sql", "port": 5432, "nodePort": 31234}
    done = converted(deployment(), service(type="LoadBalancer", port=port, metadata=live))

    assert only(done)["spec"]["service"]["ports"] == [{"name": "sql", "port": 5432}]


def test_a_second_name_for_the_same_pods_is_a_further_service() -> None:
    done = converted(
        deployment(),
        service(),
        service("alias", clusterIP="None", metadata={"annotations": {"a": "b"}}),
    )

    spec = only(done)["spec"]
    assert spec["service"] == {"ports": service()["spec"]["ports"]}
    further = {
        "name": "alias",
        "ports": service()["spec"]["ports"],
        "headless": True,
        "annotations": {"a": "b"},
    }
    assert spec["additionalServices"] == [further]
    assert left(done) == {}


def test_a_second_load_balancer_that_leads_elsewhere_is_a_balancer_of_its_own() -> None:
    outer = service(
        "outer", type="LoadBalancer", port={"name": "http", "port": 80, "targetPort": 9999}
    )
    spec = only(converted(deployment(), service(), outer))["spec"]

    assert spec["additionalServices"] == [
        {"name": "outer", "type": "LoadBalancer", "ports": outer["spec"]["ports"]}
    ]
    assert "loadBalancers" not in spec


def test_no_more_services_than_the_schema_allows_are_taken_along() -> None:
    done = converted(deployment(), service(), *(service(f"alias{number}") for number in range(9)))

    assert len(only(done)["spec"]["additionalServices"]) == 8
    assert "no more are allowed" in left(done)["Service/alias8"]


def test_namespaces_and_objects_of_the_federation_come_along_before_the_workloads() -> None:
    space = native(
        "Namespace",
        "shop",
        metadata={"uid": "u", "labels": {"team": "a"}},
        spec={"finalizers": ["x"]},
    )
    policy = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": "all"},
        "spec": {},
    }
    done = converted(deployment(metadata={"namespace": "shop"}), policy, space)

    assert [obj["kind"] for obj in done.objects] == [
        "Namespace",
        "ClusterPlacementPolicy",
        "PinterestService",
    ]
    assert done.objects[0] == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"team": "a"}},
    }
    assert [account.fate for account in done.accounts] == [Fate.CONVERTED, Fate.KEPT, Fate.KEPT]


def test_a_workload_that_is_given_already_is_not_made_a_second_time() -> None:
    ours = only(converted(deployment()))
    done = converted(ours, deployment())

    assert done.objects == (ours,)
    assert "PinterestService/web is given already" in left(done)["Deployment/web"]


def test_an_ingress_becomes_doors_with_host_and_path() -> None:
    both = ingress()
    both["spec"]["rules"][0]["http"]["paths"][0]["path"] = "/a"
    done = converted(
        deployment(), service(), both, ingress("second", host="b.example", port="http")
    )

    assert only(done)["spec"]["loadBalancers"] == [
        {"port": 80, "host": "web.example", "path": "/a"},
        {"port": 80, "host": "b.example"},
    ]
    assert left(done) == {}


def test_an_ingress_over_two_workloads_becomes_doors_of_both() -> None:
    fan = ingress()
    fan["spec"]["rules"] += ingress(host="api.example", backend="api")["spec"]["rules"]
    done = converted(deployment(), service(), deployment("api"), service("api", app="api"), fan)

    assert [obj["spec"]["loadBalancers"] for obj in done.objects] == [
        [{"port": 80, "host": "web.example"}],
        [{"port": 80, "host": "api.example"}],
    ]
    account = done.accounts[-1]
    assert (account.fate, account.into) == (
        Fate.ABSORBED,
        ("PinterestService/web", "PinterestService/api"),
    )


def test_a_host_name_of_two_namespaces_is_noted_with_what_the_host_does() -> None:
    def application(space: str, host: str) -> tuple[dict[str, Any], ...]:
        made = deployment(), service(), ingress(host=host)
        for obj in made:
            obj["metadata"]["namespace"] = space
        return made

    first = application("pay", "*.example")
    for second, words in (
        ("a.example", "[0].host: is a.example, which overlaps *.example of a workload of another"),
        ("*.example", "[0].host: is *.example, which is that of a workload of another"),
    ):
        told = notes(converted(*first, *application("evil", second)))
        assert told.count("loadBalancers") == 1
        assert words in told
    assert "loadBalancers" not in notes(converted(*first, *application("evil", "a.other")))
    assert "loadBalancers" not in notes(converted(*first, *application("pay", "a.example")[1:2]))


def test_the_class_of_an_ingress_is_told() -> None:
    assert "the class nginx of Ingress/web is not carried" in notes(
        converted(deployment(), service(), ingress(ingressClassName="nginx"))
    )


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"tls": [{"hosts": ["web.example"]}]}, "end no TLS"),
        ({"path_type": "Exact"}, "Exact"),
        (
            {"metadata": {"annotations": {"nginx.ingress.kubernetes.io/rewrite-target": "/"}}},
            "rewrite-target",
        ),
        (
            {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
            "spec.defaultBackend",
        ),
        ({"backend": "other"}, "Service/other is not given here"),
        ({"port": 81}, "has no port 81"),
        ({"rules": []}, "spec.rules: it has none"),
    ],
)
def test_an_ingress_that_doors_cannot_express_is_left(spec: dict[str, Any], reason: str) -> None:
    done = converted(deployment(), service(), ingress(**spec))

    assert "loadBalancers" not in only(done)["spec"]
    assert reason in left(done)["Ingress/web"]


def test_an_ingress_that_is_left_must_not_have_the_name_of_the_one_that_is_made() -> None:
    done = converted(
        deployment(),
        service(),
        service("out", type="LoadBalancer"),
        ingress(tls=[{"hosts": ["a.b"]}]),
    )

    assert "Ingress/web" in left(done)
    assert "members make an Ingress web from spec.loadBalancers: rename Ingress/web" in notes(done)


@pytest.mark.parametrize("kind", ["ReplicaSet", "Secret", "Pod", "Widget"])
def test_other_kinds_are_left_and_named(kind: str) -> None:
    assert f"kind {kind} (v1) is not converted" in left(converted(native(kind, "x")))[f"{kind}/x"]


def test_of_two_objects_of_one_name_the_first_counts() -> None:
    done = convert.convert([("a", deployment()), ("b", deployment(replicas=9)), ("b", service())])

    assert len(done.objects) == 1
    assert done.accounts[1].reason == "metadata.name: another Deployment/web was given before in a"
    assert done.accounts[2].fate is Fate.ABSORBED


def test_old_api_versions_are_named() -> None:
    old = {**deployment(), "apiVersion": "extensions/v1beta1"}

    assert "only apps/v1" in left(converted(old))["Deployment/web"]


def autoscaler(**spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    full = {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 30, **spec}
    made = native("HorizontalPodAutoscaler", "web", spec=full)
    return {**made, "apiVersion": "autoscaling/v2"}


def test_an_autoscaler_becomes_bounds_over_all_clusters() -> None:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    lag = {
        "metric": {"name": "lag", "selector": {"matchLabels": {"topic": "a"}}},
        "target": {"type": "AverageValue", "averageValue": "30"},
    }
    metrics = [{"type": "Resource", "resource": cpu}, {"type": "External", "external": lag}]
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    result = converted(deployment(replicas=7), autoscaler(metrics=metrics, behavior=behavior))
    spec = only(result)["spec"]
    assert "replicas" not in spec
    assert spec["autoscaling"] == {
        "min": 3,
        "max": 30,
        "metrics": [
            {"resource": "cpu", "averageUtilization": 60},
            {"external": "lag", "matchLabels": {"topic": "a"}, "averageValue": "30"},
        ],
        "scaleDownStabilizationSeconds": 60,
    }
    assert "over all clusters" in notes(result)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"minReplicas": 0}, "spec.minReplicas"),
        ({"metrics": [{"type": "Object", "object": {}}]}, "spec.metrics[0].type: Object"),
        (
            {"metrics": [{"type": "External", "external": {"target": {"value": "3"}}}]},
            "spec.metrics[0].external.target",
        ),
        ({"behavior": {"scaleUp": {"policies": [{}]}}}, "spec.behavior.scaleUp"),
        ({"behavior": {"scaleDown": {"policies": [{}]}}}, "spec.behavior.scaleDown.policies"),
        ({"scaleTargetRef": {"kind": "Deployment", "name": "other"}}, "Deployment/other"),
    ],
)
def test_an_autoscaler_that_says_more_is_left(spec: dict[str, Any], why: str) -> None:
    result = converted(deployment(), autoscaler(**spec))
    assert why in left(result)["HorizontalPodAutoscaler/web"]
    assert "autoscaling" not in only(result)["spec"]
