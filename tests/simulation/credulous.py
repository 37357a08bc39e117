"""Mutations that believe what a member says or a tenant writes, and those of rooms and accounts
that only hostile acts or other people's pods show; each with the rule that must catch it.
"""

from collections.abc import Mapping
from typing import Any

from federator.hub.cache.state import HubState
from federator.hub.dispatch.dispatcher import Dispatching
from federator.hub.host.in_force import SpecsInForce
from federator.hub.members.member import Member
from federator.placement.policy import enforcing, permitted
from federator.placement.quota import quota
from federator.scheduling import editing
from federator.status import given as givens
from federator.status.given import Given
from tests.simulation import booked, confined, silence
from tests.simulation.mutations import Method, in_worlds_of, instead
from tests.simulation.running import Plant


def _believed(original: Method) -> Method:
    def cut(seen: Any, given: Given) -> Any:
        return seen, original(seen, given)[1]

    return cut


def _says(answer: Any) -> Any:
    """Instead of a method: one that says so of everything."""
    return lambda original: lambda *arguments, **named: answer


def _as_asked(original: Method) -> Method:
    return lambda ask, *arguments, **named: editing.EditRuling(ask)


def _tolerated_alone(original: Method) -> Method:
    return lambda policy, taint: any(one.tolerates(taint) for one in policy.tolerations)


def _own_alone(original: Method) -> Method:
    return lambda own, demands: own


def _as_requested(original: Method) -> Method:
    return lambda requests, speaking, own=None: requests


def _as_it_says_now(original: Method) -> Method:
    async def load(self: SpecsInForce, workload: Any, record: Any) -> Any:
        return workload

    return load


def _while_its_server_answers(original: Method) -> Method:
    return lambda self, kind: self.heard


CREDULOUS: Mapping[str, tuple[str, Plant]] = {
    "a member's completions are not cut": (
        "27 words are cut",
        in_worlds_of(instead(givens, "_cut_shards", _believed), "others-shards-done"),
    ),
    "a member is believed whose process is dead": (
        silence.NAME,
        in_worlds_of(
            instead(Member, "speaks_of", _while_its_server_answers), "member-process-down"
        ),
    ),
    "pods beyond the level of their namespace are placed": (
        confined.LEVEL,
        in_worlds_of(instead(permitted, "refusal", _says(None)), "hostile-templates"),
    ),
    "an edit is carried to members although it was refused": (
        confined.LEVEL,
        in_worlds_of(instead(Dispatching, "_stays_as_it_is", _says(False)), "hostile-templates"),
    ),
    "a Required policy gives way to a workload's own": (
        confined.REQUIRED,
        in_worlds_of(instead(enforcing, "combined", _own_alone), "policy-dodged"),
    ),
    "a workload's tolerations are enough beside a Required policy": (
        confined.REQUIRED,
        in_worlds_of(instead(enforcing, "tolerates", _tolerated_alone), "policy-dodged"),
    ),
    "an edit that asks for more is not an admission": (
        confined.EDITS,
        in_worlds_of(instead(editing, "judge", _as_asked), "quota-dodged"),
    ),
    "an edit that is held back is carried to members": (
        booked.ADMITTED,
        in_worlds_of(instead(SpecsInForce, "load", _as_it_says_now), "quota-dodged"),
    ),
    "an edit reaches members before it is judged": (
        booked.ADMITTED,
        in_worlds_of(instead(HubState, "unjudged", _says(False)), "quota-dodged"),
    ),
    "copies without requests cost nothing": (
        confined.FREE,
        in_worlds_of(instead(quota, "with_defaults", _as_requested), "quota-dodged"),
    ),
    "an account pays for every namespace": (
        confined.BOUND,
        in_worlds_of(instead(quota, "refusal", _says("")), "charge-edited"),
    ),
}
"""What is wrong -> (the rule that finds it, the bug)."""
