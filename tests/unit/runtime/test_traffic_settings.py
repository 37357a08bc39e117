"""Entries of the registry as text, and what a pod's variables say about its own."""

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from federator.runtime.parts import Waiting
from federator.runtime.traffic import members, part, registry, settings
from federator.runtime.traffic.embedded import EmbeddedRegistry
from federator.runtime.traffic.members import Member
from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry


@dataclass(frozen=True)
class Variables:
    """What the runner gives a part."""

    env: Mapping[str, str]
    monotonic: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random


GIVEN: Mapping[str, str] = {
    "POD_UID": "0F8E8A3E-8F0A-4C5B-9C1E-2B7D6A5F4C3D",
    "POD_IP": "10.4.0.17",
    "POD_NAME": "search-7d9f-x2x4z",
    "PINTEREST_WORKLOAD_NAME": "search",
    "PINTEREST_CLUSTER": "use1-a",
    "FEDERATOR_ZOOKEEPER": "zk-0:2181,zk-1:2181",
    "FEDERATOR_APPLICATION": json.dumps(
        {"port": 8080, "probes": {"web": {"httpGet": {"port": 8080, "path": "/ready"}}}}
    ),
}


def test_an_entry_is_made_of_the_pods_own_variables() -> None:
    read = settings.read({**GIVEN, "FEDERATOR_TRAFFIC_METADATA": '{"stage": "canary"}'})
    assert read.member == Member(
        "/discovery/search/prod",
        "0f8e8a3e8f0a4c5b9c1e2b7d6a5f4c3d",
        "10.4.0.17",
        8080,
        1,
        {
            "cluster": "use1-a",
            "workload": "search",
            "pod": "search-7d9f-x2x4z",
            "stage": "canary",
        },
    )
    assert read.member.path == (
        "/discovery/search/prod/0f8e8a3e8f0a4c5b9c1e2b7d6a5f4c3d-10.4.0.17:8080"
    )
    assert (read.drain_s, read.session_s, list(read.probes)) == (15.0, 10.0, ["web"])


def test_without_a_readiness_probe_the_port_is_asked() -> None:
    read = settings.read({**GIVEN, "FEDERATOR_APPLICATION": '{"port": 9000}'})
    assert [probe.how for probe in read.probes.values()] == [{"tcpSocket": {"port": 9000}}]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"POD_IP": ""}, "the variable POD_IP is missing"),
        ({"FEDERATOR_ZOOKEEPER": " "}, "the variable FEDERATOR_ZOOKEEPER is missing"),
        ({"FEDERATOR_TRAFFIC_SERVICE": "../prod"}, "cannot be the name of a service"),
        ({"FEDERATOR_TRAFFIC_PORT": "70000"}, "is 70000; from 1 to 65535 is accepted"),
        ({"FEDERATOR_TRAFFIC_PORT": "web"}, "is 'web', which is no number"),
        ({"FEDERATOR_TRAFFIC_WEIGHT": "-1"}, "from 0 to 1e+06 is accepted"),
        ({"FEDERATOR_APPLICATION": "{"}, "FEDERATOR_APPLICATION is no JSON"),
        ({"FEDERATOR_TRAFFIC_METADATA": '{"a": 1}'}, "FEDERATOR_TRAFFIC_METADATA: a is not a text"),
        (
            {"FEDERATOR_APPLICATION": '{"port": 1, "probes": {"web": {"exec": {}}}}'},
            "the readiness probe of web is none that the sidecar can ask: grpc, httpGet, tcpSocket",
        ),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(changed: dict[str, str], text: str) -> None:
    made = part.make(Variables({**GIVEN, **changed}))
    with pytest.raises(Waiting) as waiting:
        asyncio.run(made.prepare())
    assert text in waiting.value.state.message
    assert waiting.value.state == made.state()
    assert (made.state().ready, made.state().reason) == (False, "Unusable")


def test_a_pod_that_is_not_to_be_registered_is_ready_without_a_registry() -> None:
    made = part.make(Variables({"FEDERATOR_TRAFFIC_REGISTER": "False"}))
    asyncio.run(made.prepare())
    asyncio.run(made.drain())
    assert (made.state().ready, made.state().reason) == (True, "NotRegistered")


def test_the_registry_is_made_of_the_variables(tmp_path: Path) -> None:
    made = part.make(
        Variables(
            {
                **GIVEN,
                "FEDERATOR_TRAFFIC_SECRET": f"{tmp_path}/login",
                "FEDERATOR_TRAFFIC_TLS": f"{tmp_path}",
                "FEDERATOR_ZOOKEEPER_SESSION_SECONDS": "20",
            }
        )
    )
    assert isinstance(made, part.TrafficPart)
    assert isinstance(made._registry, ZooKeeperRegistry)
    assert made._registry._server == Server(
        "zk-0:2181,zk-1:2181",
        20.0,
        tmp_path / "login",
        (tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt"),
    )
    embedded = part.make(Variables({**GIVEN, "FEDERATOR_ZOOKEEPER": "embedded"}))
    assert isinstance(embedded, part.TrafficPart)
    assert isinstance(embedded._registry, EmbeddedRegistry)


@pytest.mark.parametrize(
    ("node", "data", "read"),
    [
        (f"{'a' * 32}-10.0.0.1:80", b'{"weight": 3}', ("10.0.0.1", 80, 3)),
        (f"{'a' * 32}-[fd00::7]:80", b"", ("fd00::7", 80, 1)),
        (f"{'a' * 32}-10.0.0.1:80", b"10.0.0.1:80", ("10.0.0.1", 80, 1)),
        (f"{'a' * 32}-10.0.0.1:80", b'{"weight": -4, "metadata": {"x": 1}}', ("10.0.0.1", 80, 1)),
        (f"{'a' * 32}-10.0.0.1:80", b"[" * 60_000, ("10.0.0.1", 80, 1)),
        (f"{'a' * 32}-10.0.0.1:0", b"", None),
        (f"{'a' * 31}-10.0.0.1:80", b"", None),
        ("", b"", None),
    ],
)
def test_whatever_lies_in_the_folder_is_read_or_skipped(node: str, data: bytes, read: Any) -> None:
    member = members.read("/discovery/a/b", node, data)
    assert (member and (member.ip, member.port, member.weight)) == read
    if member is not None:
        assert member.node == node


def test_a_pod_uid_in_another_form_still_gives_32_digits() -> None:
    assert len(members.digits("static-pod-of-node-7")) == 32
    assert members.digits("static-pod-of-node-7") == members.digits("static-pod-of-node-7")


def test_logins_are_read_line_by_line_and_never_shown() -> None:
    logins = registry.logins("search:new:secret\n\n search:old\n")
    assert [(each.name, each.secret) for each in logins] == [
        ("search", "new:secret"),
        ("search", "old"),
    ]
    assert "secret" not in repr(logins)
    with pytest.raises(ValueError, match="line 1 of the registry's secret") as bad:
        registry.logins("hunter2")
    assert "hunter2" not in str(bad.value)
