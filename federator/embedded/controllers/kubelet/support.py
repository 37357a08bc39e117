"""The port to what runs the support of pods: the containers beside the application that prepare a
pod, and are part of its readiness. Without one they are as good as their application.

The sandbox has an implementation that runs the runtime of federator (`sandbox.runtimes`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from federator.embedded.storage.revisions import JsonObject


@dataclass(frozen=True, slots=True)
class Standing:
    """How the support of one pod is now."""

    init: str = ""
    """Name of the init container that prepares the pod; "" for none."""
    sidecar: str = ""
    """Name of the container that runs beside the application; "" for none."""
    prepared: bool = False
    """The application may start."""
    ready: bool = False
    """The sidecar's readiness probe passes."""
    failures: int = 0
    """How often the init container has ended without success."""
    why: str = ""
    """Its last termination message."""
    stopped: bool = False
    """The pod was told to end, and its preStop hooks have returned."""


class Support(Protocol):
    """Runs the support of the pods of one cluster. Calls only take notes; work is done by tasks."""

    def begin(
        self,
        pod: JsonObject,
        address: str,
        serves: Callable[[], bool],
        changed: Callable[[], None],
    ) -> bool:
        """Whether the support of this pod is run from now on. `serves`: whether the application
        passes its readiness probe now. `changed` is called after each change of the standing."""

    def standing(self, uid: str) -> Standing | None:
        """None for a pod with support that is not run."""

    def adopt(self, uid: str, serves: Callable[[], bool], changed: Callable[[], None]) -> None:
        """Controllers that have started again take over a pod that has a standing: as `begin`."""

    def stop(self, uid: str) -> None:
        """The pod is to end: its preStop hooks are called."""

    def end(self, uid: str) -> None:
        """The pod has ended, or is gone."""
