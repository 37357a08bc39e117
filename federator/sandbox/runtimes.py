"""Runs the runtime of pods in a sandbox: for a pod with the containers of `federator runtime`, the
parts of the runtime themselves run in this process, against embedded backends. Certificates are
issued by the signer's own code, secrets come from a folder, artifacts from memory, and pods are
registered in a directory in memory.

The stand-in kubelet asks `/readyz` once a second, as the profile says, and waits for the drain as a
kubelet waits for a preStop hook. Logs and metrics are left out: there are no containers to read.
"""

import asyncio
import contextlib
import json
import logging
import random
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.embedded.controllers.kubelet.support import Standing
from federator.kube.clock import Clock
from federator.model.errors import FieldError
from federator.runtime import arguments, roles, running
from federator.runtime.configuration.getting import Answer
from federator.runtime.configuration.part import Configuration
from federator.runtime.configuration.stores import Blob
from federator.runtime.files import wanted
from federator.runtime.files.backends import Refusal
from federator.runtime.identity import keymaker
from federator.runtime.identity.certificates import CertificateRefused
from federator.runtime.identity.part import Renewed
from federator.runtime.parts import Part
from federator.runtime.probes import Probe
from federator.runtime.roles import BadSetting, Pod
from federator.runtime.running import Sidecar
from federator.runtime.secrets.folder import FolderStore
from federator.runtime.secrets.part import Secrets
from federator.runtime.traffic import part as traffic
from federator.runtime.traffic.embedded import Directory, EmbeddedRegistry
from federator.sandbox.authority import PodAuthority, new_pair
from federator.signer.authorities import Pair
from federator.signer.issuing import Attested

log = logging.getLogger("federator.sandbox.runtimes")

RUN_MAX: Final = 10
"""Of one workload in one cluster, the runtimes of so many pods run. Each takes 5 ms of the process
that runs everything, and the demo has thousands of pods."""
WITHIN_S: Final = 120.0
BACKOFF_FIRST_S: Final = 10.0
BACKOFF_MAX_S: Final = 300.0
PROBE_S: Final = 1.0
"""How often a kubelet asks `/readyz`, as the profile of services says."""
_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "metadata.uid": ("metadata", "uid"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
}


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact of the sandbox: one file."""

    digest: str
    data: bytes = field(repr=False)


class Artifacts:
    """An artifact store in memory. See `configuration.stores.ArtifactStore`."""

    def __init__(self, held: Mapping[str, Artifact]) -> None:
        self._held = held

    def locate(self, artifact: Any, digest: str) -> Blob:
        held = self._held.get(str(artifact))
        if held is None:
            raise Refusal("ConfigMissing", f"there is no {artifact} in the sandbox")
        return Blob(str(artifact), held.digest, archive=False, size=len(held.data))

    @contextlib.contextmanager
    def opened(self, blob: Blob, offset: int) -> Iterator[Answer]:
        yield Answer(200, {}, iter([self._held[blob.url].data]))


@dataclass(slots=True)
class Backends:
    """What all pods of a federation share."""

    folder: Path
    """In memory, with a folder for each pod, and `secrets`."""
    clock: Clock
    rng: random.Random
    project_of: Callable[[str, str], str] = lambda cluster, namespace: ""
    """(cluster, namespace) -> what its signer attests as the project; "" for nothing."""
    directory: Directory = field(default_factory=Directory)
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    """By its address, such as `oci://registry.example/ads/model`."""
    run_max: int = RUN_MAX
    pair: Pair = field(init=False, repr=False)
    """All clusters have one authority, so that their pods trust each other."""
    clusters: "dict[str, PodRuntimes]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pair = new_pair(self.clock.now())
        (self.folder / "secrets").mkdir(exist_ok=True)

    def of(self, cluster: str) -> "PodRuntimes":
        """The runtimes of one cluster."""
        return self.clusters.setdefault(cluster, PodRuntimes(cluster, self))

    async def close(self) -> None:
        """Ends all runtimes, and removes what they have written."""
        for cluster in self.clusters.values():
            await cluster.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True, eq=False)
class _Run:
    """The runtime of one pod."""

    pod: Obj
    init: Obj | None
    sidecar: Obj | None
    workload: tuple[str, str]
    address: str
    serves: Callable[[], bool]
    changed: Callable[[], None]
    folder: Path
    standing: Standing = field(default_factory=Standing)
    task: "asyncio.Task[None] | None" = None
    kept: Sidecar | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def move(self, **fields: Any) -> None:
        """Tells the kubelet what is different now."""
        old = self.standing
        now = {name: getattr(old, name) for name in Standing.__slots__} | fields
        self.standing = Standing(**now)
        if self.standing != old:
            self.changed()


class PodRuntimes:
    """The runtimes of the pods of one cluster: a `Support` of its kubelets."""

    def __init__(self, cluster: str, backends: Backends) -> None:
        self._backends = backends

        async def project_of(namespace: str) -> str:
            return backends.project_of(cluster, namespace)

        self._authority = PodAuthority(backends.pair, cluster, backends.clock.now, project_of)
        self._runs: dict[str, _Run] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._probing: asyncio.Task[None] | None = None

    # -- what the kubelets call -----------------------------------------------

    def begin(
        self, pod: Obj, address: str, serves: Callable[[], bool], changed: Callable[[], None]
    ) -> bool:
        init, sidecar = _containers(pod)
        if init is None and sidecar is None:
            return False
        workload = _workload(pod, sidecar or init or {})
        if self._counts[workload] >= self._backends.run_max:
            return False
        self._counts[workload] += 1
        uid = raw.text(pod, "metadata", "uid")
        run = self._runs[uid] = _Run(
            pod,
            init,
            sidecar,
            workload,
            address,
            serves,
            changed,
            self._backends.folder / "pods" / uid,
        )
        run.standing = Standing(raw.text(init or {}, "name"), raw.text(sidecar or {}, "name"))
        run.task = asyncio.get_running_loop().create_task(self._live(run), name=f"runtime {uid}")
        if self._probing is None:
            self._probing = asyncio.get_running_loop().create_task(self._probe(), name="readiness")
        return True

    def standing(self, uid: str) -> Standing | None:
        run = self._runs.get(uid)
        return run.standing if run is not None else None

    def adopt(self, uid: str, serves: Callable[[], bool], changed: Callable[[], None]) -> None:
        run = self._runs[uid]
        run.serves, run.changed = serves, changed

    def stop(self, uid: str) -> None:
        run = self._runs[uid]
        run.stopping.set()
        if run.kept is None:
            run.move(stopped=True)

    def end(self, uid: str) -> None:
        run = self._runs.pop(uid, None)
        if run is None:
            return
        # Pods of a job come and go by the hundred: those that follow the first ones are not run.
        owners = raw.objects(run.pod, "metadata", "ownerReferences")
        if all(raw.text(owner, "kind") != "Job" for owner in owners):
            self._counts[run.workload] -= 1
        assert run.task is not None
        run.task.cancel()
        # a task that ends may still write, and so may the thread of a download, for which it waits
        run.task.add_done_callback(lambda _: shutil.rmtree(run.folder, ignore_errors=True))

    async def close(self) -> None:
        """Ends everything."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        tasks += [self._probing] if self._probing is not None else []
        self._probing = None
        for uid in list(self._runs):
            self.end(uid)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- what a kubelet and the containers do ---------------------------------

    async def _live(self, run: _Run) -> None:
        try:
            if run.init is not None:
                await self._prepare(run, run.init)
            run.move(prepared=True)
            if run.sidecar is None or run.stopping.is_set():
                run.move(ready=run.sidecar is None)
                await run.stopping.wait()
            else:
                pod = self._pod(run, run.sidecar)
                run.kept = Sidecar(self._parts(run, run.sidecar, pod), pod)
                await run.kept.keep_up(run.stopping)
            run.move(ready=False, stopped=True)
        except (BadSetting, FieldError) as bad:
            run.move(ready=False, failures=run.standing.failures + 1, why=str(bad))
        except Exception as bad:  # a bug of one runtime: its pod says so, and others go on
            self._failed(run, bad)

    def _failed(self, run: _Run, unforeseen: Exception) -> None:
        bad = running.alone(unforeseen)
        name, where = run.folder.name, running.places(bad)
        log.error("the runtime of pod %s failed with %s at %s", name, type(bad).__name__, where)
        why = f"failed with {type(bad).__name__}; the log of the sandbox says where"
        run.move(ready=False, failures=run.standing.failures + 1, why=why)

    async def _prepare(self, run: _Run, container: Obj) -> None:
        """The init run, started again after each failure."""
        while True:
            pod = self._pod(run, container)
            try:
                why = await running.init(
                    self._parts(run, container, pod), pod, None, _within_s(container)
                )
            except (BadSetting, FieldError) as bad:
                why = str(bad)
            if not why:
                return
            failures = run.standing.failures
            run.move(failures=failures + 1, why=why[: running.TERMINATION_MAX])
            await asyncio.sleep(min(BACKOFF_FIRST_S * 2.0 ** min(failures, 10), BACKOFF_MAX_S))

    async def _probe(self) -> None:
        """The readiness probes of all sidecars."""
        while True:
            await asyncio.sleep(PROBE_S)
            for run in list(self._runs.values()):
                if run.kept is not None and not run.standing.stopped:
                    try:
                        status, _, _ = await run.kept.answer("/readyz", inside=False)
                    except Exception as bad:  # the others are asked all the same
                        self._failed(run, bad)
                    else:
                        run.move(ready=status == 200)

    def _pod(self, run: _Run, container: Obj) -> Pod:
        env = dict(_variables(container, run.pod, run.address))
        env |= {
            roles.IDENTITY_DIR: str(run.folder / "identity"),
            "FEDERATOR_STATE_DIR": str(run.folder),
        }
        return Pod(
            env=env,
            monotonic=asyncio.get_running_loop().time,
            wall=self._backends.clock.now,
            chance=self._backends.rng.random,
        )

    def _parts(self, run: _Run, container: Obj, pod: Pod) -> list[Part]:
        """The parts of a container, in the order of the roles. Raises BadSetting, FieldError."""
        run.folder.mkdir(parents=True, exist_ok=True)
        makers: Mapping[str, Callable[[_Run, Pod], Part]] = {
            "identity": self._identity,
            "secrets": self._secrets,
            "config": self._config,
            "traffic": self._traffic,
        }
        named = _roles(container)
        return [makers[role](run, pod) for role in roles.PARTS if role in named and role in makers]

    def _identity(self, run: _Run, pod: Pod) -> Part:
        metadata = raw.mapping(run.pod, "metadata")
        account = raw.text(run.pod, "spec", "serviceAccountName") or "default"
        attested = Attested(
            raw.text(metadata, "namespace"),
            account,
            raw.text(metadata, "name"),
            raw.text(metadata, "uid"),
            "token",
        )
        mode = pod.text("FEDERATOR_IDENTITY_KEY_MODE", "0600")
        signer = self._authority.of(attested)
        return Renewed(pod, pod.principal(), signer, pod.identity, mode, makers=lambda: _maker(pod))

    def _secrets(self, run: _Run, pod: Pod) -> Part:
        store = FolderStore(self._backends.folder / "secrets", str(pod.principal()))
        return Secrets(
            pod, wanted.secrets(pod.env.get(wanted.SECRETS, "")), store, run.folder / "secrets"
        )

    def _config(self, run: _Run, pod: Pod) -> Part:
        artifacts = Artifacts(self._backends.artifacts)
        trees = wanted.config(pod.env.get(wanted.CONFIG, ""))
        return Configuration(pod, trees, lambda scheme, stopped: artifacts, run.folder / "config")

    def _traffic(self, run: _Run, pod: Pod) -> Part:
        async def ask(_probe: Probe, _address: str) -> str:
            return "" if run.serves() else "it does not answer"

        return traffic.made(
            pod,
            lambda settings: EmbeddedRegistry(
                self._backends.directory, session_s=settings.session_s
            ),
            ask,
        )

    # -- what people are shown ------------------------------------------------

    def identities(self) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
        """(namespace, workload) and what the certificate says, of each pod that has one."""
        for run in self._runs.values():
            with contextlib.suppress(OSError, ValueError):
                text = (run.folder / "identity" / keymaker.FACTS).read_text("utf-8")
                yield run.workload, json.loads(text)


class _Maker:
    """Makes a key in this process: a child for each of hundreds of pods would take minutes."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._order: Mapping[str, Any] = {}
        self._renewal: keymaker.Renewal | None = None

    async def tell(self, words: Mapping[str, Any]) -> dict[str, Any]:
        if self._renewal is None:
            self._order, self._renewal = words, keymaker.Renewal(words, self._pod.wall)
            return self._renewal.request()
        try:
            return {"facts": self._renewal.finish(words)}
        except (CertificateRefused, OSError) as bad:
            return keymaker.refusal(bad, self._order)


@contextlib.asynccontextmanager
async def _maker(pod: Pod) -> AsyncIterator[_Maker]:
    yield _Maker(pod)


def _containers(pod: Obj) -> tuple[Obj | None, Obj | None]:
    """The init run and the sidecar of `federator runtime`; None for a pod that has none."""
    init = sidecar = None
    for container in raw.objects(pod, "spec", "initContainers"):
        if not _roles(container):
            continue
        if arguments.prepares(raw.texts(container, "args")):
            init = container
        elif raw.text(container, "restartPolicy") == "Always":
            sidecar = container
    return init, sidecar


def _roles(container: Obj) -> list[str]:
    return arguments.roles(raw.texts(container, "args"))


def _within_s(container: Obj) -> float:
    try:
        return max(1.0, float(arguments.option(raw.texts(container, "args"), "--within")))
    except ValueError:
        return WITHIN_S


def _workload(pod: Obj, container: Obj) -> tuple[str, str]:
    variables = {
        raw.text(each, "name"): raw.text(each, "value") for each in raw.objects(container, "env")
    }
    name = variables.get("PINTEREST_WORKLOAD_NAME", "")
    return raw.text(pod, "metadata", "namespace"), name


def _variables(container: Obj, pod: Obj, address: str) -> Iterator[tuple[str, str]]:
    """Those with a value, and those that hold a field of the pod."""
    for variable in raw.objects(container, "env"):
        name = raw.text(variable, "name")
        path = raw.text(variable, "valueFrom", "fieldRef", "fieldPath")
        if "valueFrom" not in variable:
            yield name, raw.text(variable, "value")
        elif path == "status.podIP":
            yield name, address
        elif path in _FIELDS:
            yield name, raw.text(pod, *_FIELDS[path])
        elif (named := _FIELD.fullmatch(path)) is not None:
            yield name, raw.text_map(pod, "metadata", named[1]).get(named[2], "")
