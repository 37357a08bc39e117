"""Statuses of workloads as the hub keeps them: JSON, deflated against a sample of what statuses look like.

A hub holds one per workload and reads it only when a fold writes, so room counts more than speed: about a tenth of the
room for ten microseconds.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

_WINDOW_BITS = -12
"""A window of 4 KiB without header and checksum: setting up a larger one takes longer than the work itself."""
_MEMORY_LEVEL = 5
_CONDITIONS = (
    ("Scheduled", "Chosen", "All 12 copies are placed on 2 clusters."),
    ("QuotaReserved", "Unlimited", "No FederatedQuota speaks for the project, nothing limits it."),
    ("Reconciling", "Settled", ""),
    ("Stalled", "Progressing", ""),
    ("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
    ("Progressing", "NewReplicaSetAvailable", "The new template runs everywhere."),
    ("Ready", "AllReady", "All 12 copies are ready on 2 clusters."),
)


def _sample() -> bytes:
    """What statuses have in common; the likeliest stands last. Only the ratio depends on it."""
    conditions = [
        {
            "type": name,
            "status": status,
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "reason": reason,
            "message": message,
        }
        for status in ("Unknown", "False", "True")
        for name, reason, message in _CONDITIONS
    ]
    row = {"cluster": "m", "replicas": 1, "ready": 1, "updated": 1, "actual": 1, "known": True}
    counters = ("desired", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
    shards = {"completedIndexes": "0-9", "failedIndexes": "", "shards": 1, "running": 1, "done": 1, "failed": 0}
    head = {"observedGeneration": 1, "clusters": 2, "placed": 12, "ready": 12, "summary": "12/12 ready on 2 clusters"}
    status = {**shards, **head, **dict.fromkeys(counters, 1), "policy": "default", "clusterStatuses": [row, row]}
    return msgspec.json.encode({"conditions": conditions, **status})


_SAMPLE = _sample()
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def packed(status: Mapping[str, Any]) -> bytes:
    """A status as bytes that `unpacked` reads."""
    press = zlib.compressobj(1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, _SAMPLE)
    return press.compress(msgspec.json.encode(status)) + press.flush()


def unpacked(data: bytes) -> dict[str, Any]:
    """The status that was packed."""
    return _decode(zlib.decompressobj(_WINDOW_BITS, zdict=_SAMPLE).decompress(data))
