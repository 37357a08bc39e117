"""Helpers of the embedded API's own tests: a cluster on virtual time, and one line to ask it
something.
"""

import functools
import random
from collections.abc import Callable, Coroutine
from typing import Any

from federator.embedded.schema import builtins
from federator.embedded.server import EmbeddedCluster
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.store import Store
from federator.kube.clock import Clock
from tests import virtual_time
from tests.contract.speaking import Speaker

EPOCH_S = 1_700_000_000.0
CONFIGMAPS: ResourceInfo = builtins.info("", "configmaps")
DEPLOYMENTS: ResourceInfo = builtins.info("apps", "deployments")
PODS: ResourceInfo = builtins.info("", "pods")


def on_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test on a virtual-time loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        virtual_time.run(test(*args, **kwargs))

    return run


def store(**options: Any) -> Store:
    return Store(Clock(EPOCH_S), random.Random(1), **options)


def cluster(**options: Any) -> EmbeddedCluster:
    """A bare API: no stand-in controllers."""
    return EmbeddedCluster(
        "test", clock=Clock(EPOCH_S), rng=random.Random(1), **{"controllers": False, **options}
    )


def speaker(made: EmbeddedCluster | None = None) -> Speaker:
    """Asks in process, in the namespace `default`."""
    return Speaker((made or cluster()).transport(), "default")


def configmap(name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}
