"""A host for commands."""

import pytest

from federator.kube.login import connect
from tests.unit.cli.hosts import Host


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    monkeypatch.setattr(connect, "from_kubeconfig", made.connected)
    return made
