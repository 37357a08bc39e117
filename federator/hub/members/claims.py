"""Which host a member belongs to: each host writes its own uid into every member once, and accepts
no other uid there.

The claim is an annotation on the member's ClusterCapacity, one per owner id, so that an older
schema there cannot prune it. A host that reads another host's claim writes and deletes nothing in
that member until an operator declares that it has replaced the other (F51). Pure.
"""

from collections.abc import Mapping
from typing import Any

from federator.api import raw
from federator.kube.client import UID_MAX
from federator.model.names import FEDERATION

CLAIM_PREFIX = f"host.{FEDERATION}/"
"""Followed by the owner id; the value is the uid of the host's kube-system namespace."""
REASON = "HostIdentityChanged"


def annotation(fleet: str) -> str:
    """The annotation with the host that the slices of this owner id belong to."""
    return CLAIM_PREFIX + fleet


def recorded(capacity: Mapping[str, Any], fleet: str) -> str:
    """The host in a member's ClusterCapacity; "" for none."""
    return raw.text_map(capacity["metadata"], "annotations").get(annotation(fleet), "")[:UID_MAX]


def given_up(member_cluster: Mapping[str, Any]) -> str:
    """The host that this one has replaced, as the operator declared; "" for none."""
    return raw.text(member_cluster, "spec", "takeOverFrom")


def sentence(name: str, other: str, ours: str) -> str:
    """Why nothing is written in a member that another host has claimed, and what to do about it."""
    return (
        f"its slices belong to the host {other}, and this host is {ours} (kube-system uids), so"
        " nothing is written or"
        " deleted there; if this host has taken the other's place for good, run `federator"
        f" cluster take-over {name}`"
        f" (it sets spec.takeOverFrom: {other})"
    )
