"""Reading Kubernetes protobuf bodies: what kubectl's typed commands (`create namespace`, `auth
can-i`, ...) post.

Only decoding: answers are always JSON, which every client accepts beside protobuf. Field numbers
come from `data/k8s-protobuf.json.gz` (made by `tests/controlplane/trim_protobuf.py`). Never given
more than a bounded body.
"""

import base64
import functools
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from federator.embedded.schema import facts
from federator.kube import clock

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN = 1 << 63
_DEPTH_MAX = 100

Scalar = Callable[[Any], Any]


class Undecodable(ValueError):
    """The bytes are no Kubernetes protobuf message of a known kind."""


@functools.cache
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = facts.read("k8s-protobuf.json.gz")
    return data


def decode(body: bytes) -> dict[str, Any]:
    """The object in a protobuf body, as its JSON would be. Raises `Undecodable`."""
    if not body.startswith(_MAGIC):
        raise Undecodable("provided data does not appear to be a protobuf message")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        type_meta = dict(_fields(envelope.get(1, b"")))
        api_version, kind = (type_meta.get(number, b"").decode() for number in (1, 2))
        # DeleteOptions travel under the group of the object that is deleted.
        name = "v1/DeleteOptions" if kind == "DeleteOptions" else f"{api_version}/{kind}"
        full = _data()["kinds"].get(name)
        if full is None:
            raise Undecodable(
                f'no kind "{kind}" is registered for version "{api_version}" as protobuf'
            )
        return {"kind": kind, "apiVersion": api_version, **_message(full, envelope.get(2, b""), 0)}
    except (IndexError, struct.error, UnicodeDecodeError, AttributeError, TypeError) as error:
        raise Undecodable(f"the protobuf message is malformed: {error}") from error


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, raw value) of each field on the wire, in order."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
        elif wire == _BYTES:
            size, position = _varint(data, position)
            if position + size > end:
                raise IndexError("a field is longer than its message")
            yield number, data[position : position + size]
            position += size
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
            yield number, data[position : position + size]
            position += size
        else:
            raise IndexError(f"wire type {wire} is unknown")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > 63:
            raise IndexError("a number is longer than 64 bits")


def _message(full: str, data: bytes, depth: int) -> dict[str, Any]:
    if depth > _DEPTH_MAX:
        raise IndexError("messages are nested too deeply")
    fields: Mapping[str, list[Any]] = _data()["types"][full]
    message: dict[str, Any] = {}
    for number, raw in _fields(data):
        field = fields.get(str(number))
        if field is None:
            continue
        name, type_, kept = field
        if not name:
            message.update(_value(type_, raw, depth))
        elif type_.startswith("[]"):
            message.setdefault(name, []).append(_value(type_[2:], raw, depth))
        elif type_.startswith("{}"):
            entry = dict(_fields(raw))
            message.setdefault(name, {})[entry.get(1, b"").decode()] = _value(
                type_[2:], entry.get(2, b""), depth
            )
        else:
            value = _value(type_, raw, depth)
            # Fields that are no pointers are always on the wire; JSON leaves them out when they are
            # zero.
            if value is not None and (kept or value not in (0, "", False)):
                message[name] = value
    return message


def _value(type_: str, raw: Any, depth: int) -> Any:
    scalar = _SCALARS.get(type_)
    return scalar(raw) if scalar is not None else _message(type_, raw, depth + 1)


def _signed(raw: Any) -> int:
    number = 0 if raw == b"" else int(raw)
    return number - 2 * _SIGN if number >= _SIGN else number


def _double(raw: Any) -> float:
    value: float = struct.unpack("<d", raw)[0] if raw else 0.0
    return value


def _first_string(raw: bytes) -> str:
    text: str = dict(_fields(raw)).get(1, b"").decode()
    return text


def _int_or_string(raw: bytes) -> int | str:
    fields = dict(_fields(raw))
    text: str = fields.get(3, b"").decode()
    return text if fields.get(1, 0) == 1 else _signed(fields.get(2, 0))


def _time(raw: bytes) -> str | None:
    fields = dict(_fields(raw))
    return clock.stamp(_signed(fields[1])) if 1 in fields else None


def _micro_time(raw: bytes) -> str | None:
    fields = dict(_fields(raw))
    return clock.stamp_micro(_signed(fields[1]) + fields.get(2, 0) / 1e9) if 1 in fields else None


def _duration(raw: bytes) -> str:
    seconds = _signed(dict(_fields(raw)).get(1, 0)) / 1e9
    return f"{seconds:g}s"


def _json(raw: bytes) -> Any:
    inner = dict(_fields(raw)).get(1, b"")
    return msgspec.json.decode(inner) if inner else None


_SCALARS: Mapping[str, Scalar] = {
    "string": lambda raw: raw.decode(),
    "bytes": lambda raw: base64.b64encode(raw).decode(),
    "bool": lambda raw: bool(raw) and raw != b"",
    "int": _signed,
    "double": _double,
    "quantity": _first_string,
    "intstr": _int_or_string,
    "time": _time,
    "microtime": _micro_time,
    "duration": _duration,
    "raw": _json,
    "fields": _json,
    "items": lambda raw: [item.decode() for _, item in _fields(raw)],
}
