"""Works from a recording: what `federator record` wrote becomes demand, as the hub read its
objects.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from federator.api import placementfields, raw
from federator.kinds import asks, registry
from federator.kinds import read as kinds_read
from federator.kinds.verbs import WorkloadVerbs
from federator.model.ask import Ask, PodShape, Unit
from federator.model.errors import FieldError, join
from federator.model.kubernetes.pod_security import Level
from federator.model.names import WorkloadKey
from federator.model.policy import DEFAULT_POLICY, Policy
from federator.model.resources import CPU, GPU, MEMORY
from federator.simulate.demand import Failing, Recorded, Scaling, Work
from federator.simulate.engine import shapes
from federator.simulate.outcome import Placed
from federator.simulate.scenario.schema import Object, RecordedWork, Recording

PATH: Final = "demand.recording"
Objects = Callable[[Sequence[Object], str, Sequence[str]], list[dict[str, Any]]]
"""(objects or files, path of the field, kinds) -> checked objects."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A recording, read."""

    works: tuple[Work, ...]
    """By submission; at one second in the order of the recording."""
    decisions: tuple[Placed, ...]
    """Those of the live federation, in their order."""
    levels: Mapping[str, Level]
    notes: tuple[str, ...]


def replay(given: Recording, objects: Objects, clusters: Sequence[str]) -> Replay:
    """Raises FieldError, with the path in the scenario."""
    profiles = {
        str(obj["metadata"]["name"]): obj
        for obj in objects(given.profiles, f"{PATH}.profiles", ("RuntimeProfile",))
    }
    notes = list(given.notes)
    works: list[Work] = []
    seen: set[WorkloadKey] = set()
    loose = 0
    for at, entry in enumerate(given.works):
        path = f"{PATH}.works[{at}]"
        work, dropped = _work(entry, path, profiles)
        assert work.recorded is not None
        if work.recorded.ask.key in seen:
            raise FieldError(f"{path}.workload", f"{work.id} is given twice")
        seen.add(work.recorded.ask.key)
        _check_clusters(entry, path, clusters)
        works.append(work)
        loose += dropped
        notes += _edits(entry, work.id, work.recorded.ask.count)
    if loose:
        notes.append(
            f"{loose} of {len(works)} recorded workloads select nodes by labels; reports of "
            "members name none but"
            " the GPU model, so the others are not looked at."
        )
    ordered = sorted(
        (
            (
                decided.seq,
                Placed(int(decided.at), work.id, {k: n for k, n in decided.clusters.items() if n}),
            )
            for entry, work in zip(given.works, works, strict=True)
            for decided in entry.decisions
        ),
        key=lambda pair: pair[0],
    )
    works.sort(key=lambda work: work.submit_s)
    levels = {namespace: Level(level) for namespace, level in given.levels.items()}
    return Replay(tuple(works), tuple(placed for _, placed in ordered), levels, tuple(notes))


def renamed(work: Work, suffix: str) -> Work:
    """Another work like this one: its id, and the name of its object, with a suffix."""
    recorded = work.recorded
    if recorded is not None:
        key = recorded.ask.key._replace(name=recorded.ask.key.name + suffix)
        recorded = replace(
            recorded, ask=replace(recorded.ask, key=key, uid=recorded.ask.uid + suffix)
        )
    return replace(work, id=work.id + suffix, recorded=recorded)


def ask_of(verbs: WorkloadVerbs, obj: Mapping[str, Any], profiles: Mapping[str, Any]) -> Ask:
    """What an object of the host asks for under the default policy, as the hub reads it. Raises
    FieldError for what is never placed as it is written."""
    if refused := kinds_read.host_problems(obj):
        raise refused[0]
    return asks.ask(obj, verbs, DEFAULT_POLICY, profiles.get(verbs.profile(obj)))


def _work(given: RecordedWork, path: str, profiles: Mapping[str, Any]) -> tuple[Work, bool]:
    """The work, and whether a node selector of it was dropped."""
    obj, here = given.workload, join(path, "workload")
    try:
        kind = kinds_read.check(obj, here)
    except kinds_read.InvalidObject as bad:
        raise bad.errors[0] from None
    if kind.verbs is None:
        raise FieldError(
            join(here, "kind"), f"{kind.kind} is no workload: {', '.join(registry.WORKLOADS)} are"
        )
    try:
        recorded_ask = ask_of(kind.verbs, obj, profiles)
    except FieldError as bad:
        raise FieldError(here, str(bad)) from None
    placement = kind.verbs.placement(obj) or raw.NO_FIELDS
    shape, dropped = _simulated(recorded_ask.shape)
    ask = replace(recorded_ask, shape=shape, uid=recorded_ask.uid or str(recorded_ask.key))
    if given.replicas is not None or given.scalings:
        if ask.unit is not Unit.REPLICAS:
            raise FieldError(join(path, "scalings"), f"{kind.kind} does not scale")
        first = ask.count if given.replicas is None else given.replicas
        ask = replace(ask, count=first, slots=first)
    times = [given.submit, *(scaling.at for scaling in given.scalings)]
    if times != sorted(times):
        raise FieldError(
            join(path, "scalings"), "are not in the order of their times after the submission"
        )
    requests = shape.requests
    work = Work(
        id=str(ask.key),
        kind=_kind(ask),
        namespace=ask.key.namespace,
        project=ask.project,
        tier=ask.tier,
        home_cluster="",
        submit_s=given.submit,
        runtime_s=given.runtime,
        shards=ask.slots,
        cpu_milli=requests[CPU] or None,
        memory_mib=requests[MEMORY] // shapes.MIB or None,
        gpu=requests[GPU] or None,
        gpu_models=tuple(sorted(shapes.models_of(shape))),
        priority=ask.priority,
        recorded=Recorded(ask, _own(placement), str(placement.get("policyRef") or ""), given.cycle),
        failing=Failing(times=1, limit=0) if given.failed else None,
        curve=tuple(
            Scaling(scaling.at, scaling.replicas, scaling.cycle) for scaling in given.scalings
        ),
    )
    return work, dropped


def _kind(ask: Ask) -> str:
    if ask.shape.parts:
        return "trainingjob"
    return "jobset" if ask.unit is Unit.SHARDS else "service"


def _own(placement: Mapping[str, Any]) -> Policy | None:
    """The policy that the workload spells out; one that cannot be read places nothing, as in the
    hub.
    """
    if not placement or placement.get("policyRef"):
        return None
    try:
        return placementfields.policy_from_inline(placement)
    except FieldError as bad:
        return Policy(name="inline", origin="misconfigured", problem=str(bad))


def _simulated(shape: PodShape) -> tuple[PodShape, bool]:
    """The shape as simulated members can count it: of the nodes that it asks for only GPU models
    stay. Whether more was dropped.
    """
    if shape.parts:
        pods = [(part, *_simulated(part.shape)) for part in shape.parts]
        kept = PodShape.together(replace(part, shape=pod) for part, pod, _ in pods)
        return kept, any(dropped for _, _, dropped in pods)
    if not shape.node_selector:
        return shape, False
    wanted = json.loads(shape.node_selector)
    labels = dict(wanted.get("nodeSelector", {}))
    named = labels.pop(shapes.MODEL_LABEL, None)
    models, others = _of_affinity(wanted.get("nodeAffinity", ()))
    if named is not None:
        others = others or (models is not None and named not in models)
        models = {str(named)}
    return replace(shape, node_selector=shapes.selector(models or ())), bool(labels) or others


def _of_affinity(terms: Sequence[Mapping[str, Any]]) -> tuple[set[str] | None, bool]:
    """The GPU models that terms of node affinity admit, of which one must hold (None: they do not
    restrict them), and whether they ask for anything else.
    """
    models: set[str] = set()
    some, others = bool(terms), False
    for term in terms:
        expressions = [*term.get("matchExpressions", ()), *term.get("matchFields", ())]
        of_model = [
            set(each.get("values", ()))
            for each in expressions
            if each.get("key") == shapes.MODEL_LABEL and each.get("operator") == "In"
        ]
        others = others or len(of_model) < len(expressions)
        if of_model:
            models |= set.intersection(*of_model)
        some = some and bool(of_model)
    return (models, others) if some and models else (None, others)


def _check_clusters(given: RecordedWork, path: str, clusters: Sequence[str]) -> None:
    """A decision names clusters of the fleet. One that has left since cannot be replayed."""
    for at, decided in enumerate(given.decisions):
        for name in decided.clusters:
            if name not in clusters:
                message = f"there is no cluster {name!r} in the recorded fleet"
                raise FieldError(f"{path}.decisions[{at}].clusters", message)


def _edits(given: RecordedWork, title: str, count: int) -> list[str]:
    """A sentence for a work that once asked for another number of copies than it is replayed
    with.
    """
    replayed = {count, *(scaling.replicas for scaling in given.scalings)}
    others = sorted(
        {
            decision.wanted
            for decision in given.decisions
            if decision.wanted and decision.wanted not in replayed
        }
    )
    if not others:
        return []
    said = ", ".join(map(str, others))
    return [f"{title} once asked for {said}: it is replayed with {count} from the beginning."]
