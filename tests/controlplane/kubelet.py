"""Takes pods that are bound to stand-in nodes of a real cluster through their life, as annotations
of the pod say.

nodes.py owns one `Kubelet` for all its nodes. How a pod behaves is read by the same pure function
as in the embedded API (`federator.embedded.controllers.kubelet.behaviour`), so that a scenario
means the same on both. It never creates a pod.
"""

import asyncio
import contextlib
import copy
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from federator.embedded.controllers.kubelet import behaviour
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.model.steps import ObjectRef

RESTART_S = 1.0
"""From a container's exit to its next start; a real kubelet backs off from 10 s, which no test
wants to wait for.
"""
AGAIN_S = 0.2
"""Between two tries on a server that does not answer."""

QUICK = behaviour.Defaults(
    start=behaviour.Span(0.0, 0.0), stop=behaviour.Span(0.0, 0.0), job_run=behaviour.Span(0.5, 0.5)
)
"""What holds where no annotation says otherwise: at once, and Jobs' pods exit after half a second.
"""


class Kubelet:
    """Runs the pods of the nodes in `nodes` (name -> annotations). `watch_pods` is its whole
    life.
    """

    def __init__(
        self, client: Client, nodes: Mapping[str, Mapping[str, str]], rng: random.Random
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._rng = rng
        self._clock = RealClock()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopping: set[str] = set()
        self._reported: dict[str, tuple[ObjectRef, dict[str, Any]]] = {}
        """What was said last of each pod, by uid."""
        self._failed: Counter[tuple[str, str]] = Counter()
        self._next_ip = 0

    async def watch_pods(self) -> None:
        """Follows all bound pods until cancelled; lists again whenever a watch ends."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._follow(group)
                except errors.ApiError as error:
                    if not error.transient:
                        raise
                    await asyncio.sleep(AGAIN_S)

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        listing = await self._client.list("v1", "pods", field_selector="spec.nodeName!=")
        for pod in listing.items:
            self._seen(group, pod)
        version = listing.resource_version
        async for event in self._client.watch(
            "v1", "pods", resource_version=version, field_selector="spec.nodeName!="
        ):
            if event.type in ("ADDED", "MODIFIED"):
                self._seen(group, event.object)
            elif event.type == "DELETED":
                self._forget(event.object["metadata"]["uid"])

    def _seen(self, group: asyncio.TaskGroup, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if pod["spec"]["nodeName"] not in self._nodes:
            return
        if "deletionTimestamp" in pod["metadata"]:
            if uid not in self._stopping:
                self._forget(uid)
                self._stopping.add(uid)
                group.create_task(self._stop(pod), name=f"stop {pod['metadata']['name']}")
        elif uid not in self._running and pod["status"].get("phase", "Pending") == "Pending":
            self._running[uid] = group.create_task(
                self._run(pod), name=f"run {pod['metadata']['name']}"
            )
        elif uid in self._reported and _ready(pod) != _ready(self._reported[uid][1]):
            # The node controller says of all pods of a node that was silent that they are not
            # ready.
            group.create_task(self._tell(uid), name=f"report {pod['metadata']['name']} again")

    def _forget(self, uid: str) -> None:
        task = self._running.pop(uid, None)
        if task is not None:
            task.cancel()
        self._stopping.discard(uid)
        self._reported.pop(uid, None)

    async def _run(self, pod: dict[str, Any]) -> None:
        plan = self._plan(pod)
        started = self._clock.rfc3339()
        pod_ip = self._address()
        base = {
            "hostIP": "10.9.0.1",
            "podIP": pod_ip,
            "podIPs": [{"ip": pod_ip}],
            "startTime": started,
        }
        if plan.unpulled:
            waiting = {
                "waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image."}
            }
            await self._report(pod, {**base, "phase": "Pending"}, waiting, ready=False, restarts=0)
            return
        await asyncio.sleep(plan.start)
        for restarts in range(1_000_000):
            running = {"running": {"startedAt": self._clock.rfc3339()}}
            status = {**base, "phase": "Running"}
            if plan.ready or plan.never_ready:
                await self._report(pod, status, running, ready=False, restarts=restarts)
                await asyncio.sleep(plan.ready)
            if not plan.never_ready:
                await self._report(pod, status, running, ready=True, restarts=restarts)
            if plan.run is None:
                return
            await asyncio.sleep(plan.run)
            policy = pod["spec"]["restartPolicy"]
            ended = self._ended(started, plan.exit_code)
            if policy == "Never" or (policy == "OnFailure" and plan.exit_code == 0):
                self._count_failure(pod, plan.exit_code)
                phase = "Failed" if plan.exit_code else "Succeeded"
                await self._report(
                    pod, {**base, "phase": phase}, ended, ready=False, restarts=restarts
                )
                return
            await self._report(pod, status, ended, ready=False, restarts=restarts)
            await asyncio.sleep(RESTART_S)

    async def _stop(self, pod: dict[str, Any]) -> None:
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 0))
        await asyncio.sleep(min(self._plan(pod).stop, grace))
        metadata = pod["metadata"]
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        headers = {"Content-Type": "application/json"}

        async def delete() -> None:
            with contextlib.suppress(
                errors.NotFound, errors.Conflict
            ):  # somebody forced it already
                await self._client.raw(
                    "DELETE", path, body=json.dumps(body).encode(), headers=headers
                )

        await _until_answered(delete)

    def _plan(self, pod: dict[str, Any]) -> behaviour.Behaviour:
        known = copy.deepcopy(pod)
        attempts = self._failed[self._attempt_key(pod)]
        known["metadata"].setdefault("annotations", {})[behaviour.ATTEMPT_ANNOTATION] = str(
            attempts
        )
        return behaviour.of(known, self._nodes[pod["spec"]["nodeName"]], QUICK, self._rng)

    def _count_failure(self, pod: dict[str, Any], exit_code: int) -> None:
        if exit_code:
            self._failed[self._attempt_key(pod)] += 1

    @staticmethod
    def _attempt_key(pod: dict[str, Any]) -> tuple[str, str]:
        owners = pod["metadata"].get("ownerReferences") or [{"uid": pod["metadata"]["uid"]}]
        index = (pod["metadata"].get("annotations") or {}).get(behaviour.INDEX_ANNOTATION, "")
        return owners[0]["uid"], index

    def _address(self) -> str:
        self._next_ip += 1
        return (
            f"10.{64 + (self._next_ip >> 16) % 64}.{self._next_ip >> 8 & 255}.{self._next_ip & 255}"
        )

    def _ended(self, started: str, exit_code: int) -> dict[str, Any]:
        reason = "Error" if exit_code else "Completed"
        now = self._clock.rfc3339()
        return {
            "terminated": {
                "exitCode": exit_code,
                "reason": reason,
                "startedAt": started,
                "finishedAt": now,
            }
        }

    async def _report(
        self,
        pod: dict[str, Any],
        status: dict[str, Any],
        state: dict[str, Any],
        *,
        ready: bool,
        restarts: int,
    ) -> None:
        """Writes the whole status of the pod; one that is gone meanwhile is nobody's loss."""
        now = self._clock.rfc3339()
        flags = {
            "Initialized": True,
            "Ready": ready,
            "ContainersReady": ready,
            "PodScheduled": True,
        }
        status["conditions"] = [
            {"type": kind, "status": str(value), "lastTransitionTime": now}
            for kind, value in flags.items()
        ]
        for name, list_name in (
            ("containers", "containerStatuses"),
            ("initContainers", "initContainerStatuses"),
        ):
            status[list_name] = [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": container["image"],
                    "ready": ready,
                    "started": "running" in state,
                    "restartCount": restarts,
                    "state": state,
                }
                for container in pod["spec"].get(name) or ()
            ]
        metadata = pod["metadata"]
        ref = ObjectRef("v1", "pods", metadata["namespace"], metadata["name"], "Pod")
        self._reported[metadata["uid"]] = (
            ref,
            {"metadata": {"uid": metadata["uid"]}, "status": status},
        )
        await self._tell(metadata["uid"])

    async def _tell(self, uid: str) -> None:
        async def patch() -> None:
            if uid in self._reported:
                ref, body = self._reported[uid]
                with contextlib.suppress(errors.NotFound, errors.Conflict):
                    await self._client.patch(ref, body, subresource="status")

        await _until_answered(patch)


async def _until_answered(ask: Callable[[], Awaitable[None]]) -> None:
    """A server may be away for minutes: its nodes go on, and tell it when it is back."""
    while True:
        try:
            return await ask()
        except errors.ApiError as error:
            if not error.transient:
                raise
            await asyncio.sleep(AGAIN_S)


def _ready(pod: Mapping[str, Any]) -> str:
    """The status of the pod's condition Ready; "" before there is one."""
    return next(
        (one["status"] for one in pod["status"].get("conditions") or () if one["type"] == "Ready"),
        "",
    )
