"""The runtimes of a sandbox: the parts of the runtime run for pods of the stand-in kubelet, and what
they say is where that of a real pod is."""

import asyncio
import contextlib
import functools
import hashlib
import json
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from cryptography import x509

from federator.embedded.controllers import NodePool
from federator.kinds import read
from federator.kinds.pods import lookup, supporting
from federator.kinds.pods.inject import inject
from federator.kube.clock import Clock, RealClock
from federator.member.cache import rows
from federator.runtime.identity import certificates
from federator.runtime.traffic import members
from federator.sandbox.runtimes import Artifact, Backends
from federator.status import reasons
from tests import virtual_time
from tests.unit.embedded.controllers.clusters import EPOCH, STEADY, Cluster, deployment

PROFILE = Path(__file__).parents[3] / "config" / "runtimeprofile.yaml"
FOLDER = "/discovery/web/prod"
DATA = b"limits: {pins: 50}\n"
Story = Callable[[Cluster, Backends], Awaitable[None]]


def pod(name: str = "web-1", *, runtime: dict[str, Any] | None = None, **annotations: str) -> Any:
    """A pod with the default profile, registered as `web`."""
    (profile,) = read.load_yaml(PROFILE.read_text(encoding="utf-8"))
    app = {"name": "app", "image": "app:1", "ports": [{"containerPort": 8080}]}
    template = {"spec": {"containers": [app], "serviceAccountName": "web"}}
    made = inject(template, profile, {"runtime": {"register": True, "drainSeconds": "5"}})
    given = {"PINTEREST_WORKLOAD_NAME": "web", "PINTEREST_CLUSTER": "east", **(runtime or {})}
    for container in made["spec"]["initContainers"]:
        container["env"] += [{"name": key, "value": value} for key, value in given.items()]
    metadata = made["metadata"]
    metadata["name"] = name
    notes = {
        f"embedded.federator/{key.replace('_', '-')}": text for key, text in annotations.items()
    }
    metadata["annotations"] = {**metadata.get("annotations", {}), **notes}
    return made


def in_memory() -> Path:
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))


@contextlib.asynccontextmanager
async def running(
    clock: Clock | None = None, **options: Any
) -> AsyncIterator[tuple[Cluster, Backends]]:
    folder = in_memory()
    backends = Backends(folder, clock or Clock(EPOCH), random.Random(1), **options)
    cluster = Cluster([NodePool()], seed=1, defaults=STEADY, workloads=True, events=100)
    cluster._options["support"] = backends.of("east")
    cluster.start()
    try:
        yield cluster, backends
    finally:
        await backends.close()
        await cluster.stop()


def play(story: Story, **options: Any) -> None:
    async def run() -> None:
        async with running(**options) as (cluster, backends):
            await story(cluster, backends)

    virtual_time.run(run())


def registered(backends: Backends) -> list[str]:
    return sorted(backends.directory.folders.get(FOLDER, {}))


def container(cluster: Cluster, group: str, name: str) -> Any:
    statuses = cluster.status("Pod", "web-1")[group]
    return next(entry for entry in statuses if entry["name"] == name)


def test_a_pod_is_ready_once_it_has_a_certificate_and_an_entry_in_the_registry() -> None:
    async def story(cluster: Cluster, backends: Backends) -> None:
        made = cluster.create("Pod", pod())
        await cluster.pass_s(0.9)
        assert not registered(backends)
        await cluster.pass_s(2)

        uid, address = made["metadata"]["uid"], cluster.status("Pod", "web-1")["podIP"]
        assert registered(backends) == [f"{members.digits(uid)}-{address}:8080"]
        assert cluster.condition("Pod", "web-1", "Ready")["status"] == "True"
        assert container(cluster, "initContainerStatuses", "runtime")["ready"] is True

        identity = backends.folder / "pods" / uid / "identity"
        (leaf, _) = certificates.read_chain((identity / "tls.crt").read_bytes(), "it")
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.UniformResourceIdentifier) == [
            "spiffe://federator.example/ns/default/sa/web"
        ]
        ((workload, facts),) = backends.clusters["east"].identities()
        assert workload == ("default", "web")
        assert facts["claims"] == ["cluster=east"]

    play(story)


def test_a_pod_with_an_application_that_is_not_ready_is_not_registered() -> None:
    async def story(cluster: Cluster, backends: Backends) -> None:
        cluster.create("Pod", pod(ready_delay_seconds="20"))
        await cluster.pass_s(18)
        assert cluster.status("Pod", "web-1")["phase"] == "Running"
        assert not registered(backends)
        await cluster.pass_s(6)
        assert len(registered(backends)) == 1
        assert cluster.condition("Pod", "web-1", "Ready")["status"] == "True"

    play(story)


def test_a_pod_leaves_the_registry_before_it_ends_and_its_slice_can_count_that() -> None:
    async def story(cluster: Cluster, backends: Backends) -> None:
        cluster.create("Pod", pod())
        await cluster.pass_s(4)
        cluster.delete("Pod", "web-1")
        await cluster.pass_s(2.5)
        assert not registered(backends)
        assert rows.pod_row(cluster.get("Pod", "web-1"), rows.Shapes()).deregistered
        await cluster.pass_s(4)
        assert cluster.find("Pod", "web-1") is None
        assert not list((backends.folder / "pods").iterdir())

    play(story)


def test_what_keeps_a_pod_from_starting_is_its_reason_in_the_status_of_the_slice() -> None:
    async def story(cluster: Cluster, backends: Backends) -> None:
        wanted = '[{"name": "search/db", "path": "db"}]'
        cluster.create("Pod", pod(runtime={"FEDERATOR_SECRETS": wanted}))
        (backends.folder / "secrets" / "search" / "db").mkdir(parents=True)
        (backends.folder / "secrets" / "search" / "db" / "..readers").write_text("spiffe://x/y")
        await cluster.pass_s(130)
        trouble = reasons.of_pod(cluster.get("Pod", "web-1"))
        assert trouble is not None
        assert trouble.reason == "CrashLooping"
        principal = "spiffe://federator.example/ns/default/sa/web"
        assert f"secrets: {principal} may not read search/db" in trouble.detail
        assert cluster.status("Pod", "web-1")["phase"] == "Pending"

        (backends.folder / "secrets" / "search" / "db" / "..readers").write_text(principal)
        (backends.folder / "secrets" / "search" / "db" / "user").write_text("reader")
        await cluster.pass_s(60)
        assert cluster.condition("Pod", "web-1", "Ready")["status"] == "True"

    play(story)


def test_readers_are_told_what_each_pod_has_and_what_it_waits_for() -> None:
    template = pod(runtime={"FEDERATOR_SECRETS": '[{"name": "search/db", "path": "db"}]'})
    template["metadata"]["labels"] = {"app": "web"}

    def told(cluster: Cluster) -> list[dict[str, Any]]:
        body = json.dumps({"items": cluster.all("Pod")}).encode()
        belongs = functools.partial(lookup.of_replica_set, "web")
        return list(supporting.rows(supporting.pods(body), belongs))

    async def story(cluster: Cluster, backends: Backends) -> None:
        cluster.create("Deployment", deployment(replicas=1, pod=template))
        await cluster.pass_s(130)
        (row,) = told(cluster)
        assert row["facts"] == {
            "identity": "spiffe://federator.example/ns/default/sa/web",
            "secrets": ["search/db"],
            "config": [],
            "registry": FOLDER,
        }
        parts = [row[part] for part in supporting.PARTS]
        assert parts == ["yes", "no", "-", "no"]
        assert row["reason"] == "secrets: there is no secret search/db"

        secret = backends.folder / "secrets" / "search" / "db"
        secret.mkdir(parents=True)
        (secret / "..readers").write_text("spiffe:*")
        await cluster.pass_s(60)
        (row,) = told(cluster)
        assert [row[part] for part in supporting.PARTS] == ["yes", "yes", "-", "yes"]
        assert supporting.counted([row]) == {
            "identity": 1,
            "secrets": 1,
            "config": 0,
            "registry": 1,
            "left": 0,
            "troubled": 0,
        }

        cluster.delete("Pod", row["name"])
        await cluster.pass_s(2.5)
        leaving = next(each for each in told(cluster) if each["name"] == row["name"])
        assert (leaving["registry"], leaving["reason"]) == ("left", "")

    play(story)


def test_an_init_run_that_succeeded_after_a_failure_is_no_trouble() -> None:
    """A kubelet keeps the former end of a container in lastState."""
    made = pod()
    made["metadata"]["ownerReferences"] = [{"controller": True}]
    ended = {"exitCode": 1, "message": "identity: the signer is away"}
    init = {"name": "runtime-init", "lastState": {"terminated": ended}}
    sidecar = {"name": "runtime", "ready": True, "state": {"running": {}}}

    def told(state: dict[str, Any]) -> dict[str, Any]:
        made["status"] = {"initContainerStatuses": [{**init, "state": state}, sidecar]}
        listed = supporting.pods(json.dumps({"items": [made]}).encode())
        (row,) = supporting.rows(listed, lambda owner, labels: True)
        return row

    healthy = told({"terminated": {"exitCode": 0}})
    assert [healthy["reason"], healthy["identity"], healthy["registry"]] == ["", "yes", "yes"]
    waits = told({"waiting": {"reason": "CrashLoopBackOff"}})
    assert [waits["reason"], waits["identity"]] == ["identity: the signer is away", "no"]


def test_a_restart_of_the_controllers_starts_no_application_before_its_runtime_is_prepared() -> (
    None
):
    async def story(cluster: Cluster, backends: Backends) -> None:
        wanted = '[{"name": "search/db", "path": "db"}]'
        cluster.create("Pod", pod(runtime={"FEDERATOR_SECRETS": wanted}))
        await cluster.pass_s(130)
        await cluster.stop()
        cluster.start()
        await cluster.pass_s(10)
        assert cluster.status("Pod", "web-1")["phase"] == "Pending"

        secret = backends.folder / "secrets" / "search" / "db"
        secret.mkdir(parents=True)
        (secret / "..readers").write_text("spiffe:*")
        await cluster.pass_s(60)
        assert cluster.condition("Pod", "web-1", "Ready")["status"] == "True"

    play(story)


def test_what_nobody_foresaw_is_the_reason_of_its_pod_and_costs_no_other_one_its_readiness(
    caplog: Any,
) -> None:
    async def story(cluster: Cluster, backends: Backends) -> None:
        (backends.folder / "pods").mkdir()
        bad = cluster.create("Pod", pod("web-1", start_delay_seconds="3"))
        (backends.folder / "pods" / bad["metadata"]["uid"]).write_text("in the way of its folder")
        cluster.create("Pod", pod("web-2"))
        await cluster.pass_s(8)
        assert cluster.status("Pod", "web-1")["phase"] == "Pending"
        assert "failed with FileExistsError" in str(cluster.status("Pod", "web-1"))
        assert cluster.condition("Pod", "web-2", "Ready")["status"] == "True"

        runs = backends.clusters["east"]._runs.values()
        well = next(run for run in runs if run.kept is not None)
        cluster.create("Pod", pod("web-3"))
        well.kept = _Breaks()  # type: ignore[assignment]
        await cluster.pass_s(5)
        assert cluster.condition("Pod", "web-2", "Ready")["status"] == "False"
        assert cluster.condition("Pod", "web-3", "Ready")["status"] == "True"

    play(story)
    assert "failed with FileExistsError" in caplog.text


class _Breaks:
    async def answer(self, path: str, *, inside: bool) -> Any:
        raise RuntimeError(path)


def test_of_thousands_of_pods_those_with_a_reason_are_named_and_each_cluster_has_its_turn() -> None:
    row = {"name": "web", **dict.fromkeys(supporting.PARTS, "yes"), "reason": "", "facts": {}}
    rows = [(cluster, row) for cluster in ("a", "b") for _ in range(200)]
    rows += [("c", {**row, "reason": "identity: it is refused"})]
    shown = supporting.shown(rows)
    assert len(shown) == supporting.ROWS_MAX
    assert (shown[0]["cluster"], shown[0]["reason"]) == ("c", "identity: it is refused")
    assert sum(each["cluster"] == "a" for each in shown) == 50


def test_a_registry_that_is_away_keeps_new_pods_unready_and_running_ones_ready() -> None:
    async def story(cluster: Cluster, backends: Backends) -> None:
        cluster.create("Pod", pod())
        await cluster.pass_s(4)
        backends.directory.leave()
        cluster.create("Pod", pod("web-2"))
        await cluster.pass_s(60)
        assert cluster.condition("Pod", "web-1", "Ready")["status"] == "True"
        assert cluster.condition("Pod", "web-2", "Ready")["status"] == "False"
        backends.directory.come_back()
        await cluster.pass_s(15)
        assert cluster.condition("Pod", "web-2", "Ready")["status"] == "True"

    play(story)


def test_beyond_the_limit_and_without_a_runtime_pods_are_as_good_as_their_application() -> None:
    async def story(cluster: Cluster, backends: Backends) -> None:
        cluster.create("Pod", pod())
        cluster.create("Pod", pod("web-2"))
        bare = {"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        cluster.create("Pod", bare)
        await cluster.pass_s(5)
        for name in ("web-1", "web-2", "bare"):
            assert cluster.condition("Pod", name, "Ready")["status"] == "True"
        assert len(registered(backends)) == 1

    play(story, run_max=1)


def test_configuration_is_there_before_the_application_starts() -> None:
    """On real time: downloads run in threads."""
    digest = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
    held = {"oci://registry.example/web/limits": Artifact(digest, DATA)}
    wanted = f'[{{"artifact": "{next(iter(held))}", "digest": "{digest}", "path": "limits.yaml"}}]'

    async def story() -> None:
        async with running(RealClock(), artifacts=held) as (cluster, backends):
            made = cluster.create("Pod", pod(runtime={"FEDERATOR_CONFIG": wanted}))
            folder = backends.folder / "pods" / made["metadata"]["uid"] / "config"
            started = asyncio.Event()
            cluster.store.subscribe_all(
                lambda event: (
                    started.set()
                    if event.current.obj.get("status", {}).get("phase") == "Running"
                    else None
                )
            )
            await started.wait()
            assert (folder / "limits.yaml").read_bytes() == DATA

    asyncio.run(asyncio.wait_for(story(), 60))
