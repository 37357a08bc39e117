"""Which asks are alike: what filters read of an ask, and where to keep what was judged of the
clusters for all that read the same."""

import itertools
from collections.abc import Hashable, Mapping, MutableMapping
from typing import Any, Final

from federator.model import names
from federator.model.ask import Ask
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.neighbours import NOBODY
from federator.model.policy import Policy
from federator.placement.policy import tolerating
from federator.placement.room.ledger import Ledger
from federator.placement.selection import neighbours

_NUMBERED: Final = 4096
"""Number of policies with numbers that are kept."""
_numbers: dict[Policy, int] = {}
_seen: dict[int, tuple[Policy, int, bool]] = {}
"""Identity of a policy -> what `_known` says of it."""
_count = itertools.count()


def memo_of(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> MutableMapping[Any, Any]:
    """Where to keep what was judged of the clusters under the ask's policy: the ledger's cache; for
    a policy that reads amounts of reports one that lasts until a cluster reports; and where other
    workloads decide one that lasts until they say something else."""
    return judged(ask, snapshot, ledger)[0]


def judged(
    ask: Ask, snapshot: FleetSnapshot, ledger: Ledger
) -> tuple[MutableMapping[Any, Any], Hashable]:
    """Both `memo_of` and `likeness`, which a decision asks for together."""
    _, number, steady = _known(ask.policy)
    if steady and snapshot.peers is NOBODY:
        return ledger.memo, _likeness(number, ask, ledger)  # as nearly always
    ask = tolerating.resolved(ask, snapshot)
    memo, alike = memo_apart(ask, snapshot, ledger), likeness_apart(ask, ledger)
    if snapshot.peers is NOBODY and not ask.policy.workloads:
        return memo, alike  # no other workload decides
    around = neighbours.resolved(ask, ledger).policy.around
    if around is None:
        return memo, alike
    key = alike, around
    kept: tuple[Any, dict[Any, Any]] | None = memo.get("around")
    if kept is None or kept[0] != key:
        kept = memo["around"] = (key, {})
    return kept[1], key


def memo_apart(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> MutableMapping[Any, Any]:
    """The same for what holds whatever other workloads decide."""
    if not ask.policy.reads_reports:
        return ledger.memo
    kept: tuple[Mapping[str, ClusterView], dict[Any, Any]] | None = ledger.memo.get("by report")
    if kept is None or kept[0] is not snapshot.clusters:
        kept = ledger.memo["by report"] = (snapshot.clusters, {})
    return kept[1]


def likeness(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> Hashable:
    """All that the filters read of an ask: policy, tier, kind, what that becomes, whether two of it
    may run at once, whether it is a probe, its project where a cluster is not open to all, and what
    other workloads decide. For a project claim without a binding the refusal names the namespace.
    """
    _, number, steady = _known(ask.policy)
    if steady and snapshot.peers is NOBODY:
        return _likeness(number, ask, ledger)
    ask = tolerating.resolved(ask, snapshot)
    alike = likeness_apart(ask, ledger)
    around = neighbours.resolved(ask, ledger).policy.around
    return (alike, around) if around else alike


def likeness_apart(ask: Ask, ledger: Ledger) -> Hashable:
    """The same without what other workloads decide; of an ask with its tolerations resolved."""
    return _likeness(number_of(ask.policy), ask, ledger)


def _likeness(number: int, ask: Ask, ledger: Ledger) -> Hashable:
    kind, namespace, _ = ask.key
    fleet = ledger.fleet
    claim = (ask.project, "" if ask.project_bound else namespace) if fleet.closed else None
    apart = ask.exclusive, ask.guarded, namespace == names.PROBES
    stated = (namespace, ask.stated) if namespace in fleet.ruled else None
    return number, claim, ask.tier, kind, apart, ask.needs, stated


def number_of(policy: Policy) -> int:
    """A number that equal policies have in common, and no others: a policy is hashed once, and not
    for every decision. Two calls may give one policy two numbers, far apart."""
    return _known(policy)[1]


def _known(policy: Policy) -> tuple[Policy, int, bool]:
    """(the policy, its number, whether what it says of clusters follows from their views alone: not
    from time, amounts of reports or other workloads)."""
    seen = _seen.get(id(policy))
    if seen is not None and seen[0] is policy:
        return seen
    if len(_seen) >= _NUMBERED:
        _seen.clear()
        _numbers.clear()
    number = _numbers.get(policy)
    if number is None:
        number = _numbers[policy] = next(_count)
    steady = not (policy.reads_reports or policy.workloads or tolerating.timed(policy))
    seen = _seen[id(policy)] = policy, number, steady
    return seen
