"""A decision as it would be read back after the hub has written it, without writing it: a plan
makes thousands of decisions that no host gets.
"""

import functools
from dataclasses import replace
from typing import Final

from federator.api import capacityfields, raw
from federator.api.placement import decisionfacts, placementdecision
from federator.api.placement.decisionfacts import DecisionFacts, Terms
from federator.model import plaintext
from federator.model.ask import Admitted, Ask, PodShape, Unit
from federator.model.decision import Decision, Share, apart
from federator.model.quickly import likewise, quickly

NO_TOLERATED: Final[dict[str, tuple[str, ...]]] = {}


def of(decision: Decision, ask: Ask, cause: str, *, name: str, content: bytes) -> DecisionFacts:
    """What `decision_facts` returns for the object of a decision that has no uid yet. `ask`,
    `cause`, `content`: as in `placementdecision.to_spec`, for one cause. `name`: of the object."""
    ask = decision.under or ask
    if not _plain(decision, ask):
        # nobody reads the verdicts of a plan, and they take long
        unread = replace(decision, verdicts=())
        spec = placementdecision.to_spec(unread, (cause,), ask, content=content)
        metadata = {"name": name, "namespace": decision.key.namespace}
        return decisionfacts.decision_facts({"metadata": metadata, "spec": spec})
    portions, shares_seq = apart(tuple(map(_read_share, decision.shares)))
    return _facts(
        name=name,
        key=decision.key,
        workload_uid=decision.uid,
        seq=decision.seq,
        portions=portions,
        shares_seq=shares_seq,
        terms=_terms_of(decision, ask, cause, content),
        figures=("", "", _read_moment(decision.as_of), decision.inputs_hash),
        besides=decisionfacts.NOTHING_BESIDES,
    )


def in_object(facts: DecisionFacts, uid: str, rebalanced: str) -> DecisionFacts:
    """The same in the object with this uid, after this request for a rebalance."""
    figures = decisionfacts.figures_of(uid, "", facts.as_of, facts.inputs_hash)
    terms = facts.terms
    if terms.rebalanced != rebalanced:
        terms = _with_rebalanced(terms, rebalanced)
    return _moved(facts, figures, terms)


_facts, _terms, _admitted = quickly(DecisionFacts), quickly(Terms), quickly(Admitted)
_with_rebalanced = likewise(Terms, "rebalanced")
_moved = likewise(DecisionFacts, "figures", "terms")


def _plain(decision: Decision, ask: Ask) -> bool:
    """Whether it says nothing but what the most frequent decisions say: copies without numbers, and
    no state of a move or preemption."""
    return not (
        ask.unit is not Unit.REPLICAS
        or ask.former
        or decision.marks
        or decision.blocks
        or decision.may_run
        or decision.tolerated
        or decision.additions
        or decision.preempted is not None
        or any(share.ranges or share.nodes is not None for share in decision.shares)
    )


def _read_share(share: Share) -> Share:
    if share.count == share.slots and not share.pods:
        return share
    return Share(share.cluster, share.count, share.count, share.seq)


def _terms_of(decision: Decision, ask: Ask, cause: str, content: bytes) -> Terms:
    shape, violations = _read_shape(ask.shape), decision.violations[:16]
    return _terms(
        unit=Unit.REPLICAS,
        wanted=decision.wanted,
        shortfall=decision.shortfall,
        reason=decision.reason,
        message=plaintext.clipped(decision.message),
        leaving=(),
        max_clusters_at_once=ask.policy.max_clusters_at_once or None,
        policy_name=decision.policy_name,
        policy_origin=decision.policy_origin,
        unlimited_quota=decision.unlimited_quota,
        violations=tuple(map(plaintext.clipped, violations)) if violations else (),
        causes=(plaintext.clipped(cause),),
        project=ask.project,
        tier=ask.tier,
        shape=shape,
        held=decision.held,
        tolerated=NO_TOLERATED,
        to_move=decision.to_move,
        moved=decision.moved,
        preempted=None,
        per_cluster=decision.per_cluster,
        surplus=decision.surplus,
        rebalanced="",
        policy_namespace=decision.policy_namespace,
        charged=_admitted(
            ask.generation,
            shape,
            ask.project,
            ask.tier,
            ask.priority,
            max(ask.slots, 0),
            content,
            (),
        ),
        held_back=decision.held_back,
        revision="",
        held_profile=decision.held_profile,
        required=tuple(demand for demand, _ in decision.required[:64]),
        deletion_reason="",
        waiting_for=(),
    )


@functools.lru_cache(maxsize=16)
def _read_moment(as_of: float) -> float:
    return raw.epoch_s(raw.rfc3339(as_of))


_SHAPES: Final = 4096
_shapes: dict[int, tuple[PodShape, PodShape]] = {}


def _read_shape(shape: PodShape) -> PodShape:
    """Kept by the identity of the shape: its hash takes longer than all else of it."""
    kept = _shapes.get(id(shape))
    if kept is None or kept[0] is not shape:
        if len(_shapes) >= _SHAPES:
            _shapes.clear()
        kept = shape, capacityfields.shared_shape(capacityfields.from_shape(shape))
        _shapes[id(shape)] = kept
    return kept[1]
