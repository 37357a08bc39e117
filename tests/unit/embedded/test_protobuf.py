"""Protobuf bodies as kubectl's typed commands post them."""

from typing import Any

import pytest

from federator.embedded.schema import protobuf
from tests.unit.embedded.inprocess import on_virtual_time, speaker


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    meta = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, meta) + field(2, message) + field(3, b"") + field(4, b"")


def test_a_namespace_reads_like_its_json() -> None:
    empty_time = field(8, b"")
    metadata = field(1, b"feed") + field(2, b"") + field(3, b"") + field(7, 0) + empty_time
    labels = field(11, field(1, b"team") + field(2, b"a")) + field(
        11, field(1, b"zone") + field(2, b"")
    )
    body = envelope(
        "v1", "Namespace", field(1, metadata + labels) + field(2, b"") + field(3, field(1, b""))
    )
    assert protobuf.decode(body) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "feed", "labels": {"team": "a", "zone": ""}},
        "spec": {},
        "status": {},
    }


def test_pointers_to_zero_are_kept_and_inlined_structs_are_flat() -> None:
    port = (
        field(1, b"http")
        + field(2, b"TCP")
        + field(3, 80)
        + field(4, field(1, 0) + field(2, 8080) + field(3, b""))
    )
    spec = field(1, port) + field(3, b"ClusterIP")
    service = protobuf.decode(envelope("v1", "Service", field(1, field(1, b"s")) + field(2, spec)))
    assert service["spec"]["ports"] == [
        {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}
    ]
    scale = field(1, 0)
    made = protobuf.decode(envelope("apps/v1", "Deployment", field(2, scale)))
    assert made["spec"] == {"replicas": 0}
    volume = field(1, b"v") + field(2, field(1, field(1, b"/host")))
    pod = protobuf.decode(envelope("v1", "Pod", field(2, field(1, volume))))
    assert pod["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/host"}}]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        envelope("v1", "Nothing", b""),
        envelope("v1", "Pod", field(1, b"\xff\xff\xff")),
        b"k8s\x00" + b"\x0a\x7f",
        b"k8s\x00" + b"\xff" * 20,
        envelope("v1", "Pod", b"\x0b"),
        envelope("v1", "Pod", field(1, 7)),
    ],
)
def test_nonsense_is_undecodable_and_nothing_worse(body: bytes) -> None:
    with pytest.raises(protobuf.Undecodable):
        protobuf.decode(body)


@on_virtual_time
async def test_what_is_posted_as_protobuf_is_stored_and_answered_as_json() -> None:
    body = envelope(
        "v1", "ConfigMap", field(1, field(1, b"c")) + field(2, field(1, b"k") + field(2, b"v"))
    )
    api = speaker()
    made: dict[str, Any] = (
        await api.call("POST", api.url("configmaps"), body, content_type=protobuf.MEDIA_TYPE)
    ).object(201)
    assert made["data"] == {"k": "v"}
    answer = await api.call(
        "POST", api.url("configmaps"), b"k8s\x00\xff", content_type=protobuf.MEDIA_TYPE
    )
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
