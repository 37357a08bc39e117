"""What a Deployment reads of its ReplicaSets: which one is current, revisions, recorded sizes,
hashes of templates. Pure.

Annotations and labels are those of the Kubernetes deployment controller. Called by `deployments`,
and for hashes by the other controllers that have revisions.
"""

import hashlib
from typing import Final

import msgspec

from federator.embedded.controllers.tools import SUFFIX_ALPHABET
from federator.embedded.controllers.workloads.replicasets import wanted_replicas
from federator.embedded.controllers.workloads.rolling import SetView
from federator.embedded.storage.revisions import JsonObject

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
HASH_LABEL: Final = "pod-template-hash"
_NOT_COPIED: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MAX_REPLICAS}
)
_canonical = msgspec.json.Encoder(order="sorted").encode


def split(
    deployment: JsonObject, sets: list[JsonObject]
) -> tuple[JsonObject | None, list[JsonObject]]:
    """(the set with the deployment's template, all others oldest first)."""
    for replica_set in sets:
        if same_template(deployment["spec"]["template"], replica_set["spec"]["template"]):
            return replica_set, [other for other in sets if other is not replica_set]
    return None, sets


def same_template(wanted: JsonObject, have: JsonObject) -> bool:
    """Equal but for the hash label."""
    return _unhashed(wanted) == _unhashed(have)


def _unhashed(template: JsonObject) -> JsonObject:
    metadata = template.get("metadata") or {}
    labels = {
        name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL
    }
    return {**template, "metadata": {**metadata, "labels": labels}}


def template_hash(template: JsonObject, collisions: int = 0) -> str:
    """Ten characters that depend on the template only, in the alphabet of generated names."""
    number = int.from_bytes(hashlib.sha256(_canonical([template, collisions])).digest()[:8], "big")
    digits = []
    for _ in range(10):
        number, digit = divmod(number, len(SUFFIX_ALPHABET))
        digits.append(SUFFIX_ALPHABET[digit])
    return "".join(digits)


def view(replica_set: JsonObject) -> SetView:
    """A ReplicaSet as `rolling` sees it. No more available than asked for: status lags behind
    scaling."""
    annotations = replica_set["metadata"].get("annotations") or {}
    replicas = wanted_replicas(replica_set)

    def number(name: str) -> int | None:
        text = annotations.get(name, "")
        return int(text) if text.isdecimal() else None

    return SetView(
        name=replica_set["metadata"]["name"],
        created=replica_set["metadata"]["creationTimestamp"],
        replicas=replicas,
        available=min(replicas, (replica_set.get("status") or {}).get("availableReplicas", 0)),
        desired=number(DESIRED),
        max_replicas=number(MAX_REPLICAS),
    )


def revision_of(replica_set: JsonObject) -> int:
    """The revision a set was last current at, or 0."""
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def copied(deployment: JsonObject) -> dict[str, str]:
    annotations = deployment["metadata"].get("annotations") or {}
    return {name: value for name, value in annotations.items() if name not in _NOT_COPIED}
