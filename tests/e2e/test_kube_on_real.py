"""The floor against a real API server: the very stories that the embedded one is told."""

import pytest

from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.login import connect
from tests.controlplane.plane import ControlPlane
from tests.unit.kube import embeddedstory

pytestmark = [pytest.mark.e2e, pytest.mark.real, pytest.mark.xdist_group("real servers with nodes")]


async def test_the_same_stories_on_a_real_api_server(control_plane: ControlPlane) -> None:
    cluster = control_plane.cluster("kube-floor")
    client = Client(await connect.from_kubeconfig(str(cluster.kubeconfig())), "real")
    try:
        await embeddedstory.tell(client, RealClock())
        await embeddedstory.ask(client)
    finally:
        await client.close()
        control_plane.forget(cluster)
