"""Bugs to plant in a hub that places everything under another policy than the one in force."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from federator.hub.leading.process import HubProcess
from federator.hub.records.workloads import Workload
from federator.model.ask import Ask
from federator.model.policy import Policy
from tests.simulation import bounds
from tests.simulation.running import Plant


def _under(change: Callable[[Policy], Policy]) -> Plant:
    def tamper(hub: HubProcess) -> None:
        original = hub.controllers.placing.asked

        def asked(workload: Workload) -> Ask | None:
            ask = original(workload)
            return None if ask is None else replace(ask, policy=change(ask.policy))

        hub.controllers.placing.asked = asked  # type: ignore[method-assign]

    return Plant(tamper=tamper)


def _unbounded(policy: Policy) -> Policy:
    division = replace(policy.division, min_per_cluster=0, max_per_cluster=None, max_clusters=None)
    return replace(policy, division=division)


def _anyhow(policy: Policy) -> Policy:
    return replace(policy, spread=())


def _in_part(policy: Policy) -> Policy:
    return replace(policy, require_all=False)


UNRULED: Mapping[str, tuple[str, Plant]] = {
    "a policy's bounds on clusters are forgotten": (bounds.NAME, _under(_unbounded)),
    "spread rules are not looked at": (bounds.NAME, _under(_anyhow)),
    "all or nothing gives some": (bounds.NAME, _under(_in_part)),
}
"""What is wrong -> (the rule that finds it, the bug)."""
