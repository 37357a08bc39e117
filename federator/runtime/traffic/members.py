"""The entries of a service's registry: one node for each pod that serves. Pure.

The layout is that of kazoo's ShallowParty, which Pinterest's clients read: the name of a node is 32
hexadecimal digits, a hyphen and `ip:port`. Its data is JSON. The digits are the pod's uid, so a
sidecar that is started again finds the node that it left behind.

    /discovery/search/prod/0f8e...b1-10.4.0.17:8080
    {"ip": "10.4.0.17", "port": 8080, "weight": 1, "metadata": {"cluster": "use1-a"}}
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ROOT: Final = "/discovery"
DATA_MAX: Final = 1 << 16
"""Bytes of an entry. A server takes a megabyte; readers load all entries of a service."""
WEIGHT_MAX: Final = 1_000_000
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NODE: Final = re.compile(r"([0-9a-f]{32})-(.+):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Member:
    """One pod that serves."""

    folder: str
    """The path of the service's entries."""
    uid: str
    """32 hexadecimal digits."""
    ip: str
    port: int
    weight: int = 1
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """The name of the entry in its folder."""
        return f"{self.uid}-{self.endpoint}"

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.node}"

    @property
    def endpoint(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"

    def data(self) -> bytes:
        """The entry's data. Raises ValueError if it is too large."""
        body = {"ip": self.ip, "port": self.port, "weight": self.weight}
        text = json.dumps({**body, "metadata": dict(self.metadata)}, sort_keys=True).encode()
        if len(text) > DATA_MAX:
            raise ValueError(f"the metadata of an entry may take {DATA_MAX} bytes, not {len(text)}")
        return text


def folder(service: str, environment: str) -> str:
    """The path of a service's entries. Raises ValueError."""
    for what, name in (("service", service), ("environment", environment)):
        if NAME.fullmatch(name) is None:
            raise ValueError(
                f"{name!r} cannot be the name of a {what} in the registry: letters, digits, dot,"
                " underscore and hyphen, up to 128, with a letter or a digit first"
            )
    return f"{ROOT}/{service}/{environment}"


def digits(pod_uid: str) -> str:
    """A pod's uid as 32 hexadecimal digits; of a uid in another form, a hash of it."""
    plain = pod_uid.replace("-", "").lower()
    if re.fullmatch("[0-9a-f]{32}", plain):
        return plain
    return hashlib.sha256(pod_uid.encode()).hexdigest()[:32]


def read(parent: str, node: str, data: bytes) -> Member | None:
    """The member that an entry describes; None if it describes none. Other clients write into the
    same folder, so nothing about an entry is certain. The name decides the address; where the data
    says nothing useful, the weight is 1."""
    match = _NODE.fullmatch(node)
    if match is None or not 0 < int(match[3]) < 65536:
        return None
    weight, metadata = 1, {}
    try:
        body: Any = json.loads(data) if len(data) <= DATA_MAX else None
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        given = body.get("weight")
        if type(given) is int and 0 <= given <= WEIGHT_MAX:
            weight = given
        if isinstance(labels := body.get("metadata"), dict):
            metadata = {key: text for key, text in labels.items() if isinstance(text, str)}
    return Member(parent, match[1], match[2].strip("[]"), int(match[3]), weight, metadata)


def by_cluster(members: Iterable[Member]) -> dict[str, tuple[int, int]]:
    """Cluster -> (entries, their weight), by name; "" for entries that name none."""
    sums: dict[str, tuple[int, int]] = {}
    for member in members:
        name = member.metadata.get("cluster", "")
        entries, weight = sums.get(name, (0, 0))
        sums[name] = (entries + 1, weight + member.weight)
    return dict(sorted(sums.items()))
