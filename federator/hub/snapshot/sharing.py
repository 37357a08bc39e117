"""One copy of what values have in common, in a process that gets each value by itself.

The hub makes workloads, decisions and commitments of shared parts (`model/interning`). A pickle of
a few values has copies of these parts, so they are shared again when it is read. Only what takes
much memory: reading is what a worker that starts does longest.
"""

import operator
from dataclasses import fields
from typing import Any, Final, TypeVar

from msgspec import structs

from federator.api import raw
from federator.api.placement.decisionfacts import Besides, shared_portions
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Traits, Workload
from federator.model import interning
from federator.model.ask import Ask
from federator.model.fleet import Commitment
from federator.model.policy import DEFAULT_POLICY

Kept = TypeVar("Kept")
NOTHING_BESIDES: Final = Besides(records_given=True)
"""What nearly all decisions say beside their shares."""
_KEPT_MAX: Final = 8192
_kept: dict[tuple[Any, ...], Any] = {}
_others = operator.attrgetter(*(each.name for each in fields(Traits) if each.name != "placement"))
_asked = operator.attrgetter(
    *(each.name for each in fields(Ask) if each.name not in ("labels", "policy"))
)


def share_workload(workload: Workload) -> None:
    """Shares the parts of a workload that was just read."""
    _set(workload, "uid", interning.uid(workload.uid))
    wants = workload.wants
    if wants is not None:
        _set(wants, "policy", DEFAULT_POLICY)  # it is under no other, and has no labels
        _set(wants, "labels", raw.NO_FIELDS)
        _set(workload, "wants", _first(_asked(wants), wants))
    _set(workload, "traits", _traits(workload.traits))


def _traits(traits: Traits) -> Traits:
    """An equal one that is there already; one with a table in it is kept as it is."""
    if traits.placement or traits.served is not None:
        return traits
    _set(traits, "placement", raw.NO_FIELDS)
    return _first(_others(traits), traits)


def _first(parts: tuple[Any, ...], value: Kept) -> Kept:
    """The first value with these parts, while it is among the last few thousand."""
    if len(_kept) >= _KEPT_MAX:
        _kept.clear()
    kept: Kept = _kept.setdefault(parts, value)
    return kept


def share_record(record: Record, workload: Workload | None) -> None:
    """Shares the parts of a decision that was just read, with those of its workload."""
    facts, terms = record.facts, record.terms
    _set(facts, "workload_uid", interning.uid(facts.workload_uid))
    if workload is not None and workload.key == facts.key:
        _set(facts, "key", workload.key)
    _texts(terms, "project", "policy_name", "policy_namespace", "policy_origin", "revision")
    if terms.shape is not None:
        _set(terms, "shape", interning.value(terms.shape))
    for share in facts.portions:
        structs.force_setattr(share, "cluster", interning.text(share.cluster))
    _set(facts, "portions", shared_portions(facts.portions))
    _set(record, "standing", interning.value(record.standing))
    if facts.besides == NOTHING_BESIDES:
        _set(facts, "besides", NOTHING_BESIDES)


def share_commitment(commitment: Commitment, record: Record | None) -> None:
    """Shares the parts of a commitment that was just read, with those of its decision."""
    _set(commitment, "uid", interning.uid(commitment.uid))
    _texts(commitment, "project", "namespace")
    _set(commitment, "shape", interning.value(commitment.shape))
    if record is not None:
        _set(commitment, "key", record.key)


def _texts(value: Any, *names: str) -> None:
    for name in names:
        _set(value, name, interning.text(str(getattr(value, name))))


def _set(value: Any, name: str, part: Any) -> None:
    object.__setattr__(value, name, part)  # nobody else has the value yet
