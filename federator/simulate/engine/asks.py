"""From a work to its ask, under the policies and quotas in force: what the hub reads of an object
of that kind.
"""

from dataclasses import fields, replace
from typing import Any, Final

from federator.model.ask import Ask, Unit
from federator.model.errors import FieldError
from federator.model.names import WorkloadKey
from federator.model.policy import Policy
from federator.model.quickly import quickly
from federator.placement.policy import enforcing
from federator.placement.policy.policies import Bindings, Policies, Subject
from federator.placement.quota import quota
from federator.simulate.demand import Recorded, Work
from federator.simulate.engine.shapes import Shapes

_ask = quickly(Ask)
SERVICE: Final = "service"
KIND_OF: Final = {SERVICE: "PinterestService"}
JOB_KIND: Final = "PinterestJobSet"
GENERATION: Final = 1
_OWN: Final = frozenset({"key", "uid", "created_s", "run_s"})
"""Fields that differ between asks of works that are alike."""


class Asks:
    """Makes asks; works that are alike but for name and time share everything else."""

    def __init__(self, policies: Policies, bindings: Bindings, shapes: Shapes) -> None:
        self._policies = policies
        self._bindings = bindings
        self._shapes = shapes
        self._like: dict[tuple[object, ...], dict[str, Any]] = {}
        """The fields of an ask of works that are alike."""

    def of(self, work: Work, copies: int | None = None, edits: int = 0) -> Ask:
        """The ask of a work. A job starts with all its shards, in one cluster; a service takes what
        there is. What was recorded is asked for as the hub would. `copies`: of a service that was
        scaled, with the number of the edit.
        """
        ask = self._unscaled(work)
        if copies is None:
            return ask
        return replace(ask, count=copies, slots=copies, generation=ask.generation + edits)

    def _unscaled(self, work: Work) -> Ask:
        if work.recorded is not None:
            return self._recorded(work, work.recorded)
        alike = (
            work.kind == SERVICE,
            work.namespace,
            work.project,
            work.tier,
            work.shards,
            work.priority,
            # what makes the shape, which would cost more to hash
            work.cpu_milli,
            work.memory_mib,
            work.gpu,
            work.gpu_models,
        )
        like = self._like.get(alike)
        if like is None:
            first = self._first(work)
            names_of = (field.name for field in fields(first) if field.name not in _OWN)
            like = self._like[alike] = {name: getattr(first, name) for name in names_of}
        return _ask(
            **like,
            key=key_of(work),
            uid=work.id,
            created_s=float(work.submit_s),
            run_s=work.deadline_s,
        )

    def _recorded(self, work: Work, recorded: Recorded) -> Ask:
        ask = recorded.ask
        subject = Subject(
            ask.key.kind,
            ask.key.namespace,
            ask.labels,
            ask.project,
            self._bindings.of(ask.key.namespace),
            ask.key.name,
        )
        try:
            own = recorded.own or self._policies.choose(subject, recorded.policy_ref)
        except FieldError as bad:
            own = Policy(name=recorded.policy_ref, origin="misconfigured", problem=str(bad))
        ask = replace(
            ask,
            created_s=float(work.submit_s),
            policy=enforcing.combined(own, self._policies.demands(subject)),
            project_bound=self._bindings.speaks(ask.key.namespace, ask.project),
        )
        self._shapes.note(ask.shape)
        return quota.charged(ask, self._bindings.accounts(ask.project))

    def _first(self, work: Work) -> Ask:
        key = key_of(work)
        subject = Subject(
            key.kind, key.namespace, {}, work.project, self._bindings.of(key.namespace), key.name
        )
        policy = enforcing.combined(
            self._policies.choose(subject, ""), self._policies.demands(subject)
        )
        service = work.kind == SERVICE
        ask = Ask(
            key=key,
            uid=work.id,
            generation=GENERATION,
            unit=Unit.REPLICAS if service else Unit.SHARDS,
            count=work.shards,
            slots=work.shards,
            shape=self._shapes.of(work),
            project=work.project,
            tier=work.tier,
            priority=work.priority,
            policy=policy if service or work.shards == 1 else _as_gang(policy),
            whole=not service,
            project_bound=self._bindings.speaks(key.namespace, work.project),
        )
        return quota.charged(ask, self._bindings.accounts(work.project))


def key_of(work: Work) -> WorkloadKey:
    """The key of the object that the work would be, or was."""
    if work.recorded is not None:
        return work.recorded.ask.key
    return WorkloadKey(*identity(work))  # nothing else has it: there is nothing to share


def identity(work: Work) -> tuple[str, str, str]:
    """Kind, namespace and name of that object."""
    if work.recorded is not None:
        key = work.recorded.ask.key
        return key.kind, key.namespace, key.name
    return KIND_OF.get(work.kind, JOB_KIND), work.namespace, work.id


def _as_gang(policy: Policy) -> Policy:
    """All shards in one cluster or none: they wait for each other."""
    return replace(policy, division=replace(policy.division, max_clusters=1), require_all=True)
