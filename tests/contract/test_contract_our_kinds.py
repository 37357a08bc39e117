"""Our own CustomResourceDefinitions on every backend: accepted strictly, served, their rules kept
by the server, and every file of config/examples taken.
"""

import asyncio
import copy

import pytest
import yaml

from federator.embedded.server import EmbeddedCluster
from federator.kinds import crds, registry
from federator.kinds.kind import Kind
from tests.contract.conftest import bare_cluster
from tests.contract.crds import DEFINITIONS
from tests.contract.speaking import Object, Speaker
from tests.house.sources import ROOT
from tests.unit.kinds.test_autoscaling import REFUSED

TEMPLATE = {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}


def url(api: Speaker, kind: Kind, name: str = "", subresource: str = "") -> str:
    """The path of a collection or an object of ours."""
    scope = f"/namespaces/{api.namespace}" if kind.namespaced else ""
    parts = [f"/apis/{kind.api_version}{scope}/{kind.plural}", name, subresource]
    return "/".join(part for part in parts if part)


@pytest.fixture(scope="module")
def servers() -> dict[str, EmbeddedCluster]:
    """The embedded server of each backend, shared by the tests of this file as the real one is."""
    return {}


@pytest.fixture(scope="module")
def serving() -> set[str]:
    """The backends whose server serves our kinds."""
    return set()


@pytest.fixture
def embedded(backend: str, servers: dict[str, EmbeddedCluster]) -> EmbeddedCluster:
    return servers.setdefault(backend, bare_cluster())


@pytest.fixture
async def ours(api: Speaker, backend: str, serving: set[str]) -> Speaker:
    """A server that serves our kinds. They are installed once: a real server works for seconds on
    fifteen definitions.
    """
    if backend not in serving:
        await install(api)
        serving.add(backend)
    return api


async def install(api: Speaker) -> None:
    for crd in crds.all_crds():
        path = f"{DEFINITIONS}/{crd['metadata']['name']}"
        answer = await api.apply(
            path, copy.deepcopy(crd), "tests", force="true", fieldValidation="Strict"
        )
        assert answer.status in (200, 201), answer.json
    async with asyncio.timeout(60):
        for kind in registry.KINDS.values():
            while kind.model is not None and (await api.get(url(api, kind))).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def service(**spec: object) -> Object:
    kind = registry.KINDS["PinterestService"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "template": TEMPLATE, **spec},
    }


def mark(seq: int) -> Object:
    return {
        "fleet": "f",
        "workloadUID": "u",
        "originGeneration": 1,
        "cluster": "a",
        "seq": seq,
        "expander": "1",
    }


async def test_every_definition_of_ours_is_taken_strictly_and_served(ours: Speaker) -> None:
    for crd in crds.all_crds():
        live = (await ours.get(f"{DEFINITIONS}/{crd['metadata']['name']}")).object()
        conditions = {each["type"]: each["status"] for each in live["status"]["conditions"]}

        assert conditions["Established"] == "True"
        assert conditions.get("NonStructuralSchema") != "True"


@pytest.mark.parametrize("autoscaling", [wish for wish, _ in REFUSED])
async def test_bounds_and_metrics_that_make_no_sense_are_refused(
    ours: Speaker, autoscaling: Object
) -> None:
    kind = registry.KINDS["PinterestService"]
    answer = await ours.post(url(ours, kind), service(autoscaling=autoscaling))
    assert answer.status == 422, answer.json
    good = {"min": 1, "max": 2, "metrics": [{"resource": "cpu", "averageUtilization": 50}]}
    (await ours.post(url(ours, kind), service(autoscaling=good), fieldValidation="Strict")).object(
        201
    )


async def test_a_seq_never_falls_on_a_slice(ours: Speaker) -> None:
    kind = registry.KINDS["PinterestService"]
    (await ours.post(url(ours, kind), service(slice=mark(7)), fieldValidation="Strict")).object(201)

    lower = await ours.patch(url(ours, kind, "web"), {"spec": {"slice": {"seq": 6}}})
    same = await ours.patch(url(ours, kind, "web"), {"spec": {"slice": {"seq": 7}, "replicas": 3}})
    higher = await ours.patch(url(ours, kind, "web"), {"spec": {"slice": {"seq": 8}}})

    assert (lower.status, lower.json["reason"]) == (422, "Invalid")
    assert "seq" in lower.json["message"]
    assert (same.status, higher.status) == (200, 200)


async def test_a_long_name_is_refused_because_natives_are_named_after_it(ours: Speaker) -> None:
    body = service()
    body["metadata"]["name"] = "a" * 53
    answer = await ours.post(url(ours, registry.KINDS["PinterestService"]), body)

    assert (answer.status, answer.json["reason"]) == (422, "Invalid")


@pytest.mark.parametrize(
    ("expression", "status"),
    [
        ({"operator": "In", "values": ["a"]}, 201),
        ({"operator": "Exists"}, 201),
        ({"operator": "Exists", "values": []}, 201),
        ({"operator": "In"}, 422),
        ({"operator": "NotIn", "values": []}, 422),
        ({"operator": "DoesNotExist", "values": ["a"]}, 422),
    ],
)
async def test_a_selector_that_no_cluster_could_meet_by_mistake_is_refused(
    ours: Speaker, expression: Object, status: int
) -> None:
    selector = {"matchExpressions": [{"key": "region", **expression}]}
    answer = await ours.post(
        url(ours, registry.KINDS["PinterestService"]),
        service(placement={"clusters": {"selector": selector}}),
    )

    assert answer.status == status
    if status == 422:
        assert "values are needed for In and NotIn" in answer.json["message"]


async def test_an_unknown_field_is_refused_strictly_with_its_path(ours: Speaker) -> None:
    answer = await ours.post(
        url(ours, registry.KINDS["PinterestService"]), service(replcias=3), fieldValidation="Strict"
    )

    assert answer.status == 400
    assert 'unknown field "spec.replcias"' in answer.json["message"]


async def test_a_service_is_scaled_through_its_subresource(ours: Speaker) -> None:
    kind = registry.KINDS["PinterestService"]
    (await ours.post(url(ours, kind), service())).object(201)
    scale = (await ours.get(url(ours, kind, "web", "scale"))).object()
    scale["spec"]["replicas"] = 9
    (await ours.put(url(ours, kind, "web", "scale"), scale)).object()

    live = (await ours.get(url(ours, kind, "web"))).object()
    assert live["spec"]["replicas"] == 9
    assert live["metadata"]["generation"] == 2


async def test_a_status_is_written_apart_from_the_spec(ours: Speaker) -> None:
    kind = registry.KINDS["PinterestService"]
    (await ours.post(url(ours, kind), service())).object(201)
    patch = {"spec": {"replicas": 5}, "status": {"ready": 1, "summary": "1/2 ready in 1 cluster"}}
    (await ours.patch(url(ours, kind, "web", "status"), patch)).object()

    live = (await ours.get(url(ours, kind, "web"))).object()
    assert live["spec"]["replicas"] == 2
    assert live["status"]["ready"] == 1
    assert live["metadata"]["generation"] == 1


async def test_containers_of_a_template_are_known_by_name_when_two_apply(ours: Speaker) -> None:
    kind = registry.KINDS["PinterestService"]
    path = url(ours, kind, "web")
    mine = service()
    yours = service()
    yours["spec"] = {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}
    (await ours.apply(path, mine, "me")).object(201)
    live = (await ours.apply(path, yours, "you")).object()

    assert [one["name"] for one in live["spec"]["template"]["spec"]["containers"]] == [
        "app",
        "side",
    ]


async def test_an_account_that_cannot_be_meant_is_refused(ours: Speaker) -> None:
    kind = registry.KINDS["FederatedQuota"]

    def account(**spec: object) -> Object:
        meta = {"name": f"{ours.namespace}-ads"}
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}

    above = account(tiers={"OnDemand": {"guaranteed": {"cpu": 3}, "max": {"cpu": "2500m"}}})
    same = account(
        tiers={"OnDemand": {"guaranteed": {"cpu": 3, "memory": "1Gi"}, "max": {"cpu": "3000m"}}}
    )
    for body, words in (
        (above, "guaranteed may not be above max"),
        (account(parent=f"{ours.namespace}-ads"), "an account is not its own parent"),
    ):
        refused = await ours.post(url(ours, kind), body)
        assert (refused.status, refused.json["reason"]) == (422, "Invalid")
        assert words in refused.json["message"]
    (await ours.post(url(ours, kind), same)).object(201)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"schedule": "60 * * * *"}, "a schedule has five fields"),
        ({"schedule": "* * * * 7"}, "a schedule has five fields"),
        ({"schedule": "* * * *"}, "a schedule has five fields"),
        ({"schedule": "@reboot"}, "a schedule has five fields"),
        ({"schedule": "TZ=UTC 5 * * * *"}, "a schedule has five fields"),
        ({"timeZone": "Europe/Berln"}, "unknown time zone Europe/Berln"),
        ({"timeZone": "Local"}, "a time zone is named as by IANA"),
        ({"timeZone": "+01:00"}, "a time zone is named as by IANA"),
        ({"startingDeadlineSeconds": -1}, "startingDeadlineSeconds"),
        ({"runs": "Native"}, "one run at a time"),
        (
            {"runs": "Native", "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 9},
            "at least 10",
        ),
        (
            {"jobTemplate": {"spec": {"execution": "Once", "template": TEMPLATE}}},
            "MayOverlap",
        ),
    ],
)
async def test_a_cron_job_that_could_never_run_is_refused(
    ours: Speaker, wrong: Object, words: str
) -> None:
    kind = registry.KINDS["PinterestCronJob"]
    spec = {
        "schedule": "*/5 1,2 ? jan-Mar sun",
        "timeZone": "Europe/Berlin",
        "jobTemplate": {"spec": {"template": TEMPLATE}},
    }
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "nightly"},
        "spec": {**spec, **wrong},
    }

    refused = await ours.post(url(ours, kind), body)

    assert (refused.status, refused.json["reason"]) == (422, "Invalid"), refused.json
    assert words in refused.json["message"]
    (await ours.post(url(ours, kind), {**body, "spec": spec})).object(201)
    longer = {**body, "metadata": {"name": "n" * 40}, "spec": spec}
    assert "at most 39" in (await ours.post(url(ours, kind), longer)).json["message"]


async def test_the_shards_of_a_cron_job_s_template_can_be_changed(ours: Speaker) -> None:
    """Unlike those of a job set: what ran was cut for its own number."""
    kind = registry.KINDS["PinterestCronJob"]
    spec = {"schedule": "@hourly", "jobTemplate": {"spec": {"shards": 2, "template": TEMPLATE}}}
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "nightly"},
        "spec": spec,
    }
    made = (await ours.post(url(ours, kind), body)).object(201)
    made["spec"]["jobTemplate"]["spec"]["shards"] = 3

    (await ours.put(url(ours, kind, "nightly"), made)).object(200)


ENTRIES = [
    ({"max": 3}, "either cluster or selector"),
    ({"cluster": "a", "selector": {}, "max": 3}, "either cluster or selector"),
    ({"cluster": "a"}, "min, max or both"),
    ({"cluster": "a", "min": 4, "max": 3}, "min must not be above max"),
    ({"cluster": "a", "max": "140%"}, "spec.placement.division.perCluster[0].max"),
    ({"cluster": "a", "max": -1}, "spec.placement.division.perCluster[0].max"),
]


@pytest.mark.parametrize(("entry", "why"), ENTRIES)
async def test_bounds_of_single_clusters_that_mean_nothing_are_refused(
    ours: Speaker, entry: Object, why: str
) -> None:
    kind = registry.KINDS["PinterestService"]
    for entries, status in (([entry], 422), ([{"cluster": "a", "min": 3, "max": "40%"}], 201)):
        body = service(placement={"division": {"perCluster": entries}})
        answer = await ours.post(url(ours, kind), body)
        assert answer.status == status, answer.json
        assert status == 201 or why in answer.json["message"], answer.json


async def test_contradicting_numbers_of_domains_and_times_without_effect_are_refused(
    ours: Speaker,
) -> None:
    kind = registry.KINDS["PinterestService"]
    rule = {"topologyKey": "zone", "minDomains": 3, "maxDomains": 2}
    toleration = {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}
    for placement in ({"spread": [rule]}, {"tolerations": [toleration]}):
        answer = await ours.post(url(ours, kind), service(placement=placement))
        assert answer.status == 422, answer.json


EXAMPLES = ROOT / "config" / "examples"
TEXTS = {
    str(path.relative_to(EXAMPLES)): path.read_text(encoding="utf-8")
    for path in sorted(EXAMPLES.rglob("*.yaml"))
}
OTHERS = {
    "Namespace": "namespaces",
    "Deployment": "deployments",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


@pytest.mark.parametrize("name", TEXTS)
async def test_an_example_is_taken_with_every_field(ours: Speaker, name: str) -> None:
    plurals = {**OTHERS, **{kind.kind: kind.plural for kind in registry.KINDS.values()}}
    for obj in yaml.safe_load_all(TEXTS[name]):
        if isinstance(obj, list) or obj.get("kind", "Workflow") == "Workflow":
            continue  # a file of federator test or of the gateway, which is no object
        version, namespace = str(obj["apiVersion"]), obj["metadata"].get("namespace")
        if namespace:
            made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            assert (await ours.post("/api/v1/namespaces", made)).status in (201, 409)
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        path = f"{root}{scope}/{plurals[obj['kind']]}/{obj['metadata']['name']}"
        if obj["kind"] != "Namespace":  # another example's may have fields that are fixed
            await ours.delete(path)
        answer = await ours.apply(path, obj, "examples", force="true", fieldValidation="Strict")
        assert answer.status in (200, 201), answer.json


def test_every_example_is_told_of() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert len(TEXTS) > 8
    assert [name for name in TEXTS if f"`{name.split('/')[0]}" not in page] == []
