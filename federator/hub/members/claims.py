"""Whose member a cluster is: each host writes its own identity once into every member, and believes
no other.

The claim is an annotation on the member's ClusterCapacity, one per fleet, so that nothing is pruned
by an older schema there. A host that finds another's claim writes and deletes nothing until an
operator says that it has taken the other's place (FAULTS.md F51). Pure.
"""

from collections.abc import Mapping
from typing import Any

from federator.api import raw
from federator.kube.client import UID_MAX
from federator.model.names import FEDERATION

CLAIM_PREFIX = f"host.{FEDERATION}/"
"""Followed by the fleet; the value is the uid of the host's kube-system namespace."""
REASON = "HostIdentityChanged"


def annotation(fleet: str) -> str:
    """Name of the annotation that says which host a fleet's slices belong to."""
    return CLAIM_PREFIX + fleet


def recorded(capacity: Mapping[str, Any], fleet: str) -> str:
    """The host that a member's ClusterCapacity names; "" for none."""
    return raw.text_map(capacity["metadata"], "annotations").get(annotation(fleet), "")[:UID_MAX]


def given_up(member_cluster: Mapping[str, Any]) -> str:
    """The host whose place the operator says this one has taken; "" for none."""
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
