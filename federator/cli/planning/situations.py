"""All that decisions depend on, from the federation or from files, for commands that look at the
whole of it."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from federator.cli import common
from federator.cli.explain import READ

if TYPE_CHECKING:
    from federator.hub.offline import Situation


def read(
    files: tuple[str, ...], namespace: str, connection: Mapping[str, str], instead: str
) -> "Situation":
    """Of files, or of the federation where there are none. `instead`: what somebody may do who may
    not read all of it."""
    if files:
        return _of_files(files, namespace)

    async def of_host(client: Any) -> "Situation":
        return await _of_host(client, instead)

    return common.run(
        common.with_federation(connection["kubeconfig"], connection["context"], of_host)
    )


def _of_files(files: tuple[str, ...], namespace: str) -> "Situation":
    from federator.cli.files import place
    from federator.hub import offline

    objs = place.load(files, namespace)
    return offline.read(objs, as_of=place.picture_s(objs))


async def _of_host(client: Any, instead: str) -> "Situation":
    from federator.hub import offline
    from federator.kinds import registry
    from federator.kube import errors

    objs: list[Mapping[str, Any]] = []
    try:
        for name in (*READ, "PlacementDecision", *registry.WORKLOADS):
            row = registry.KINDS[name]
            try:
                objs += (await client.list(row.api_version, row.plural)).items
            except errors.NotFound:
                continue  # a host without Deployments
    except errors.Denied as why:
        common.fail(f"{why}; {instead}")
    return offline.read(objs, as_of=time.time())
