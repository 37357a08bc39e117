"""Mutations of how decisions are numbered, each with the rule that must catch it."""

from collections.abc import Mapping
from typing import Any

from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.member.cache.highest import Highest
from federator.model import seq as seqs
from tests.simulation.mutations import Method, in_worlds_of, instead
from tests.simulation.running import Plant


def _moves_the_fleet(original: Method) -> Method:
    def heard_seq(self: HubState, member: Member, seq: int, now_s: float) -> None:
        original(self, member, seq, now_s)
        if seq > self.issued:
            self.term, self._counter = seqs.term(seq) + 1, 0

    return heard_seq


def _begins_with_nothing(original: Method) -> Method:
    def load(self: Highest, status: Mapping[str, Any]) -> None:
        original(self, {})

    return load


NUMBERED: Mapping[str, tuple[str, Plant]] = {
    "a member's number moves the fleet's": (
        "4 numbers of this host",
        in_worlds_of(instead(HubState, "heard_seq", _moves_the_fleet), "numbers-raised"),
    ),
    "the highest seq is forgotten with the process": (
        "4 the past rests",
        in_worlds_of(instead(Highest, "load", _begins_with_nothing), "write-of-the-past"),
    ),
}
"""What is wrong -> (the rule that finds it, the bug)."""
