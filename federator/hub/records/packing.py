"""Statuses of workloads as the hub keeps them: JSON, deflated against a sample of what statuses
look like.

A hub holds one per workload and reads it only when a fold writes, so room counts more than speed:
about a tenth of the room for ten microseconds.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

_WINDOW_BITS = -12
"""A window of 4 KiB without header and checksum: setting up a larger one takes longer than the work
itself."""
_MEMORY_LEVEL = 5
_LEVEL = 3
"""The first takes as long and leaves half as much again, of which there is one for each workload;
the fourth takes longer."""
_CONDITIONS = (
    ("Ready", "True", "Ready", "12/12 ready in 2 clusters."),
    ("Placed", "True", "Placed", "All 12 replicas have a place, in 2 clusters."),
    ("Applied", "True", "Applied", "2 clusters have the present generation and share."),
    ("Healthy", "True", "Healthy", "12/12 ready in 2 clusters."),
    ("Reconciling", "False", "Settled", ""),
    ("Stalled", "False", "NotStalled", ""),
    (
        "QuotaUnlimited",
        "True",
        "NoQuota",
        "No FederatedQuota speaks for the project '': nothing limits what it takes.",
    ),
    ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
    (
        "Progressing",
        "True",
        "NewReplicaSetAvailable",
        "12 of 12 replicas are ready over all clusters.",
    ),
)
_MOMENT = "2026-01-01T00:00:00Z"


def _sample() -> bytes:
    """What statuses have in common; the likeliest stands last. Only the ratio depends on it."""
    ours: list[dict[str, Any]] = []
    native: list[dict[str, Any]] = []
    for name, state, reason, message in _CONDITIONS:
        shown = {"message": message} if message else {}
        head = {
            "type": name,
            "status": state,
            "reason": reason,
            **shown,
            "lastTransitionTime": _MOMENT,
        }
        ours.append({**head, "observedGeneration": 1})
        native.append({**head, "lastUpdateTime": None})
    row = {"cluster": "m", "replicas": 1, "ready": 1, "updated": 1, "actual": 1, "known": True}
    shards = {
        "completedIndexes": "0-9",
        "failedIndexes": "",
        "shards": 1,
        "running": 1,
        "done": 1,
        "failed": 0,
    }
    figures = {
        "observedGeneration": 1,
        "clusters": 2,
        "placed": 1,
        "ready": 1,
        "summary": "1/1 ready in 2 clusters",
    }
    counters = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    samples: tuple[dict[str, Any], ...] = (
        {
            **shards,
            "desired": 1,
            "unavailableReplicas": 1,
            "unknownReplicas": 1,
            "policy": "default",
        },
        {**figures, "conditions": ours[:8], "clusterStatuses": [row, row]},
        {"observedGeneration": 1, **counters, "conditions": native},
    )
    return b"".join(map(msgspec.json.encode, samples))


_SAMPLE = _sample()
_press = zlib.compressobj(
    _LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, _SAMPLE
)
"""Has read the sample; each status is deflated by a copy, which takes half the time of a new
one."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def packed(status: Mapping[str, Any]) -> bytes:
    """A status as bytes that `unpacked` reads."""
    press = _press.copy()
    return press.compress(msgspec.json.encode(status)) + press.flush()


def unpacked(data: bytes) -> dict[str, Any]:
    """The status that was packed."""
    return _decode(zlib.decompressobj(_WINDOW_BITS, zdict=_SAMPLE).decompress(data))
