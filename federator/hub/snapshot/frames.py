"""How the hub and its snapshot worker speak: frames of a length and a pickle, through two pipes.

Both ends are this program, started by the same user from the same files, so a pickle is as
trustworthy as the code that reads it. Nothing that callers write is a pickle.
"""

import dataclasses
import io
import operator
import pickle
import struct
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from federator.api.placement.decisionfacts import DecisionFacts, Terms
from federator.hub.records.decisions import Record, Standing
from federator.hub.records.workloads import Traits, Workload
from federator.model.ask import Ask
from federator.model.fleet import Commitment
from federator.model.quickly import quickly

HEAD: Final = struct.Struct("!Q")
"""Length of the pickle that follows."""

MANY: Final[tuple[type[Any], ...]] = (
    Workload,
    Ask,
    Record,
    DecisionFacts,
    Terms,
    Traits,
    Standing,
    Commitment,
)
"""Values of which a snapshot has some for each workload. Their own way into a pickle and out of it
sets field by field in Python, and takes three times as long."""
_MAKERS: Final[list[Callable[..., Any]]] = [quickly(kind) for kind in MANY]


def dumps(value: Any) -> bytes:
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _REDUCED
    pickler.dump(value)
    return buffer.getvalue()


def loads(data: bytes | bytearray | memoryview) -> Any:
    """The value that was pickled."""
    return pickle.loads(data)


def framed(pickled: bytes) -> bytes:
    """The pickle with its length in front."""
    return HEAD.pack(len(pickled)) + pickled


def _read_only(value: Any) -> Any:
    return MappingProxyType, (dict(value),)


def _reducer(number: int, kind: type[Any]) -> Callable[[Any], Any]:
    values = operator.attrgetter(*(field.name for field in dataclasses.fields(kind)))

    def reduced(value: Any) -> Any:
        return _make, (number, *values(value))

    return reduced


def _make(number: int, *values: Any) -> Any:
    return _MAKERS[number](*values)


_REDUCED: Final[dict[type[Any], Callable[[Any], Any]]] = {
    MappingProxyType: _read_only,
    **{kind: _reducer(number, kind) for number, kind in enumerate(MANY)},
}


class Frames:
    """Cuts what is read from a pipe into frames."""

    def __init__(self) -> None:
        self._read = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        """The pickles that are complete with this."""
        self._read += data
        done: list[bytes] = []
        at = 0
        while len(self._read) - at >= HEAD.size:
            (length,) = HEAD.unpack_from(self._read, at)
            end = at + HEAD.size + length
            if len(self._read) < end:
                break
            done.append(bytes(self._read[at + HEAD.size : end]))
            at = end
        del self._read[:at]
        return done
