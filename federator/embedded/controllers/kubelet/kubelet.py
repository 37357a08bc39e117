"""The kubelet stand-in of all nodes of a cluster: pods start, become ready, end, restart and stop
as `behaviour` says.

Two status writes bring a pod up: the binding (which carries the kubelet's first report) and
Running, with Ready in it unless readiness is delayed. What is due comes from the agenda in batches;
texts are in `podstatus`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from federator.embedded.controllers.agenda import Dirty
from federator.embedded.controllers.kubelet import behaviour, mounts, podstatus
from federator.embedded.controllers.kubelet.behaviour import Behaviour, Defaults
from federator.embedded.controllers.kubelet.support import Standing, Support
from federator.embedded.controllers.nodes import NodeIndex
from federator.embedded.controllers.pods import Key, Pod, PodIndex
from federator.embedded.controllers.services import reachable
from federator.embedded.controllers.tools import KUBELET, Tools
from federator.embedded.storage.revisions import Event
from federator.kube import clock as clocks

_BACKOFF_FIRST_S: Final = 10.0
_BACKOFF_MAX_S: Final = 300.0
_MOUNT_FIRST_S: Final = 0.5
_MOUNT_MAX_S: Final = 122.0
"""Between two tries to set a volume up; each waits twice as long."""
_CONFIG_S: Final = 12.0
"""Between two tries to make a container's variables."""

_Due = tuple[str, Key, str]
"""(action, pod key, pod uid)."""


class Kubelet:
    def __init__(
        self,
        tools: Tools,
        pods: PodIndex,
        nodes: NodeIndex,
        defaults: Defaults,
        support: Support | None = None,
    ) -> None:
        self._tools = tools
        self._support = support
        self._serving: set[str] = set()
        """Uids of supported pods with an application that passes its readiness probe."""
        self._pods = pods
        self._nodes = nodes
        self._defaults = defaults
        self._due: Dirty[_Due] = Dirty()
        self._held: dict[str, list[_Due]] = {}
        """What came due on nodes that are down."""
        self._plans: dict[str, Behaviour] = {}
        self._mounting: dict[str, float] = {}
        """Uid of a pod with volumes that cannot be set up -> seconds that the next try waits."""
        self._addresses = podstatus.Addresses()
        self._texts = podstatus.Texts()
        self._actions: dict[str, Callable[[Pod], None]] = {
            "accept": self._accept,
            "start": self._start,
            "support": self._follow_support,
            "ready": self._ready,
            "finish": self._finish,
            "restart": self._restart,
            "backoff": self._back_off,
            "stop": self._stop,
            "remove": self._remove,
        }
        pods.listeners.append(self._on_pod)

    def notice(self, event: Event) -> None:
        """A node that is ready again takes up what came due meanwhile, and reports its pods
        ready."""
        name = event.key[1]
        if name in self._held and not self._nodes.is_down(name):
            for due in self._held.pop(name):
                self._due.add(due)
            node = self._nodes.by_name.get(name)
            for key in sorted(node.pods) if node is not None else ():
                pod = self._pods.by_key[key]
                if pod.phase == "Running" and not pod.ready and not self._plan(pod).never_ready:
                    self._due.add(("ready", key, pod.uid))
        elif self._nodes.is_down(name):
            self._held.setdefault(name, [])

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._plans.pop(old.uid, None)
                self._mounting.pop(old.uid, None)
                self._addresses.release(old.status.get("podIP"))
                self._end_support(old.uid)
            return
        if not new.node:
            return
        if old is None or not old.node:
            self._due.add(("accept", new.key, new.uid))
        if new.deleting and (old is None or not old.deleting or not old.node):
            self._due.add(("stop", new.key, new.uid))

    def steps(self) -> Iterator[None]:
        for action, key, uid in self._due.drain():
            pod = self._pods.by_key.get(key)
            if pod is None or pod.uid != uid:
                continue
            if self._nodes.is_down(pod.node):
                self._held.setdefault(pod.node, []).append((action, key, uid))
            else:
                self._actions[action](pod)
                yield

    def _later(self, seconds: float, action: str, pod: Pod) -> None:
        if seconds <= 0:
            self._due.add((action, pod.key, pod.uid))
        else:
            self._tools.agenda.after(seconds, self._due.add, (action, pod.key, pod.uid))

    def _plan(self, pod: Pod) -> Behaviour:
        plan = self._plans.get(pod.uid)
        if plan is None:
            notes = self._nodes.annotations(pod.node)
            plan = self._plans[pod.uid] = behaviour.of(
                pod.obj, notes, self._defaults, self._tools.rng
            )
        return plan

    # From bound to running

    def _accept(self, pod: Pod) -> None:
        """Takes on a bound pod; after a restart of the controllers also one that runs already."""
        if pod.finished:
            return
        plan = self._plan(pod)
        self._addresses.reserve(pod.status.get("podIP"))
        if self._support is not None and self._standing(pod) is not None:
            self._support.adopt(pod.uid, *self._callbacks(pod))
            if pod.phase == "Running":
                self._follow_support(pod)
        if pod.phase != "Running":
            self._later(plan.start, "start", pod)
            return
        passed = self._tools.clock.now() - clocks.parse(
            pod.status.get("startTime") or self._tools.now()
        )
        if not pod.ready and not plan.never_ready:
            self._later(plan.ready - passed, "ready", pod)
        if plan.run is not None:
            self._later(plan.start + plan.run - passed, "finish", pod)

    def _start(self, pod: Pod) -> None:
        if pod.phase == "Running" or pod.finished or pod.deleting:
            return
        plan, now = self._plan(pod), self._tools.now()
        if self._lacks_a_volume(pod):
            return
        if plan.unpulled:
            self._write(pod, podstatus.pull_failed(pod.obj, plan.unpulled, "ErrImagePull", now))
            text = (
                f'Failed to pull image "{podstatus.image_of(pod.obj, plan.unpulled[0])}": not found'
            )
            self._tools.events.emit(pod.obj, "Failed", text, "kubelet", warning=True)
            self._later(_BACKOFF_FIRST_S, "backoff", pod)
            return
        if self._lacks_a_variable(pod):
            return
        if self._support is None:
            self._run(pod)
            return
        if self._standing(pod) is not None:  # the controllers started again meanwhile
            self._follow_support(pod)
            return
        address = self._addresses.take()
        if not self._support.begin(pod.obj, address, *self._callbacks(pod)):
            self._addresses.release(address)
            self._run(pod)
            return
        # its sidecar registers the address before the pod is ready
        self._write(pod, {**pod.status, "podIP": address, "podIPs": [{"ip": address}]})

    def _run(self, pod: Pod) -> None:
        """The application starts."""
        plan, now = self._plan(pod), self._tools.now()
        ready = not plan.never_ready and plan.ready <= 0
        address = pod.status.get("podIP") or self._addresses.take()
        host = self._nodes.address(pod.node)
        self._write(pod, self._texts.running(pod.obj, now, address=address, host=host, ready=ready))
        self._expect(pod, plan, ready=ready)

    def _expect(self, pod: Pod, plan: Behaviour, *, ready: bool) -> None:
        """What comes after its containers have started."""
        if not ready and not plan.never_ready:
            self._later(plan.ready, "ready", pod)
        if plan.run is not None:
            self._later(plan.run, "finish", pod)

    # The containers beside the application

    def _standing(self, pod: Pod) -> Standing | None:
        return self._support.standing(pod.uid) if self._support is not None else None

    def _callbacks(self, pod: Pod) -> tuple[Callable[[], bool], Callable[[], None]]:
        """Whether its application serves, and what is called when its standing is different."""
        uid, due = pod.uid, ("support", pod.key, pod.uid)
        return lambda: uid in self._serving, lambda: self._tools.agenda.at_once(self._due.add, due)

    def _follow_support(self, pod: Pod) -> None:
        standing = self._standing(pod)
        if standing is None or pod.finished:
            return
        if pod.phase != "Pending":
            self._write(pod, pod.status)
        elif standing.prepared and not pod.deleting:
            self._run(pod)
        elif not pod.deleting:
            self._write(pod, podstatus.unprepared(pod.obj, standing, self._tools.now()))
        if pod.deleting and standing.stopped:
            self._later(self._plan(pod).stop, "remove", pod)

    def _end_support(self, uid: str) -> None:
        self._serving.discard(uid)
        if self._support is not None:
            self._support.end(uid)

    def _with_support(self, pod: Pod, status: dict[str, Any]) -> dict[str, Any]:
        """What is written of a supported pod: it is ready while its sidecar is, too."""
        standing = self._standing(pod)
        if standing is None or status.get("phase") == "Pending":
            return status
        if status.get("phase") != "Running":
            self._end_support(pod.uid)
            return status
        if podstatus.serves(status):
            self._serving.add(pod.uid)
        else:
            self._serving.discard(pod.uid)
        return podstatus.supported(pod.obj, status, standing, self._tools.now())

    def _lacks_a_volume(self, pod: Pod) -> bool:
        missing = mounts.unmounted(self._tools, pod.obj)
        if missing is None:
            self._mounting.pop(pod.uid, None)
            return False
        self._tools.events.emit(pod.obj, "FailedMount", missing.text, "kubelet", warning=True)
        wait_s = self._mounting.get(pod.uid, _MOUNT_FIRST_S)
        self._mounting[pod.uid] = min(2 * wait_s, _MOUNT_MAX_S)
        self._later(wait_s, "start", pod)
        return True

    def _lacks_a_variable(self, pod: Pod) -> bool:
        missing = mounts.unset(self._tools, pod.obj)
        if missing is None:
            return False
        self._write(
            pod,
            podstatus.config_failed(pod.obj, missing.container, missing.text, self._tools.now()),
        )
        self._tools.events.emit(
            pod.obj, "Failed", f"Error: {missing.text}", "kubelet", warning=True
        )
        self._later(_CONFIG_S, "start", pod)
        return True

    def _back_off(self, pod: Pod) -> None:
        if pod.phase == "Pending" and not pod.deleting:
            unpulled, now = self._plan(pod).unpulled, self._tools.now()
            self._write(pod, podstatus.pull_failed(pod.obj, unpulled, "ImagePullBackOff", now))

    def _ready(self, pod: Pod) -> None:
        waits = any(
            "waiting" in status["state"] for status in pod.status.get("containerStatuses") or ()
        )
        if pod.phase == "Running" and not pod.ready and not pod.deleting and not waits:
            self._write(pod, podstatus.with_ready(pod.obj, self._tools.now(), ready=True))

    # Ending

    def _finish(self, pod: Pod) -> None:
        if pod.phase != "Running" or pod.deleting:
            return
        plan, now = self._plan(pod), self._tools.now()
        missed = plan.reaches and not reachable(self._tools, pod.key[0], plan.reaches)
        code = plan.exit_code or int(bool(missed))
        policy = pod.obj["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            self._write(pod, podstatus.ended(pod.obj, "Failed" if code else "Succeeded", code, now))
            return
        restarts = podstatus.restarts(pod.obj)
        wait = min(_BACKOFF_FIRST_S * 2.0 ** min(restarts, 10), _BACKOFF_MAX_S)
        self._write(pod, podstatus.crashed(pod.obj, code, wait, now))
        self._tools.events.emit(
            pod.obj,
            "BackOff",
            f"Back-off restarting failed container in pod {pod.name}",
            "kubelet",
            warning=True,
        )
        self._later(wait, "restart", pod)

    def _restart(self, pod: Pod) -> None:
        if pod.phase != "Running" or pod.deleting:
            return
        plan, now = self._plan(pod), self._tools.now()
        ready = not plan.never_ready and plan.ready <= 0
        self._write(pod, podstatus.restarted(pod.obj, now, ready=ready))
        self._expect(pod, plan, ready=ready)

    def _stop(self, pod: Pod) -> None:
        grace = pod.obj["metadata"].get("deletionGracePeriodSeconds", 0)
        if self._support is not None and self._standing(pod) is not None:
            self._support.stop(pod.uid)
            self._later(float(grace), "remove", pod)
            return
        self._later(min(self._plan(pod).stop, float(grace)), "remove", pod)

    def _remove(self, pod: Pod) -> None:
        if not pod.deleting:
            return
        if pod.obj["metadata"].get("finalizers") and not pod.finished:
            # A controller waits for the outcome: a stopped container exits with 143 (SIGTERM).
            self._write(pod, podstatus.ended(pod.obj, "Failed", 143, self._tools.now()))
        self._tools.store.delete(
            self._tools.kinds.pods, pod.key[0], pod.name, uid=pod.uid, grace_s=0
        )

    def _write(self, pod: Pod, status: dict[str, Any]) -> None:
        status = self._with_support(pod, status)
        self._tools.set_status(self._tools.kinds.pods, pod.obj, status, manager=KUBELET)
