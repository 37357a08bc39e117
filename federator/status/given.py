"""What a cluster was given, and what it says against that: its word is cut to its share before anything is made of it.

A member is untrusted. Whatever it reports of shards or copies that nobody gave it says nothing about the workload; what
no delay, roll-out or lost decision explains is a contradiction, which the hub holds against the cluster (`hub/trust`).
Pure.
"""

from dataclasses import dataclass
from typing import Final

SHARDS_NOT_GIVEN: Final = "ShardsNotGiven"
"""It completes, fails or runs shards that were never its own."""
TOO_MANY_COPIES: Final = "TooManyCopies"
"""It reports copies far beyond what it was ever given."""
SEQ_NOT_ISSUED: Final = "SeqNotIssued"
"""It shows numbers of decisions that this host never made."""
UNREADABLE: Final = "Unreadable"
"""What it says is beyond every bound of its schema."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What a cluster said that cannot be, with the evidence as a sentence."""

    reason: str
    message: str
    lasting: bool = False
    """A delay could explain it for a while: it counts when it stands for longer than that (`hub.trust`)."""
