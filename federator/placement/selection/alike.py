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
_seen: dict[int, tuple[Policy, int]] = {}
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
    ask = tolerating.resolved(ask, snapshot)
    memo, alike = memo_apart(ask, snapshot, ledger), likeness_apart(ask, snapshot, ledger)
    if snapshot.peers is NOBODY and not ask.policy.workloads:
        return memo, alike  # as nearly always: no other workload decides
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
    ask = tolerating.resolved(ask, snapshot)
    alike = likeness_apart(ask, snapshot, ledger)
    around = neighbours.resolved(ask, ledger).policy.around
    return (alike, around) if around else alike


def likeness_apart(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> Hashable:
    """The same without what other workloads decide; of an ask with its tolerations resolved."""
    kind, namespace, _ = ask.key
    closed, ruled = _by_fleet(snapshot, ledger)
    claim = (ask.project, "" if ask.project_bound else namespace) if closed else None
    apart = ask.exclusive, ask.guarded, namespace == names.PROBES
    stated = (namespace, ask.stated) if namespace in ruled else None
    return number_of(ask.policy), claim, ask.tier, kind, apart, ask.needs, stated


def number_of(policy: Policy) -> int:
    """A number that equal policies have in common, and no others: a policy is hashed once, and not
    for every decision. Two calls may give one policy two numbers, far apart."""
    seen = _seen.get(id(policy))
    if seen is not None and seen[0] is policy:
        return seen[1]
    if len(_seen) >= _NUMBERED:
        _seen.clear()
        _numbers.clear()
    number = _numbers.get(policy)
    if number is None:
        number = _numbers[policy] = next(_count)
    _seen[id(policy)] = (policy, number)
    return number


def _by_fleet(snapshot: FleetSnapshot, ledger: Ledger) -> tuple[bool, frozenset[str]]:
    """Whether some cluster is open to some projects only; and the namespaces in which some cluster
    has LimitRanges or ResourceQuotas."""
    kept: tuple[bool, frozenset[str]] | None = ledger.memo.get("by fleet")
    if kept is None:
        views = snapshot.clusters.values()
        ruled = frozenset[str]().union(*(view.rules for view in views if view.rules))
        kept = any(view.projects is not None for view in views), ruled
        ledger.memo["by fleet"] = kept
    return kept
