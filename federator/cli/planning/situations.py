"""All that decisions depend on, from the federation or from files, for commands that look at the
whole of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from federator.cli import common
from federator.cli.files import situations

if TYPE_CHECKING:
    from federator.hub.placing.offline import Situation


def read(
    files: tuple[str, ...], namespace: str, connection: Mapping[str, str], instead: str
) -> "Situation":
    """Of files, or of the federation where there are none. `instead`: what a user may do who may
    not read all of it."""
    if files:
        return _of_files(files, namespace)

    async def of_host(client: Any) -> "Situation":
        return await situations.from_host(client, instead)

    return common.run(
        common.with_federation(connection["kubeconfig"], connection["context"], of_host)
    )


def _of_files(files: tuple[str, ...], namespace: str) -> "Situation":
    from federator.cli.files import place
    from federator.hub.placing import offline

    objs = place.load(files, namespace)
    return offline.read(objs, as_of=place.picture_s(objs))
