"""A scenario becomes the inputs of a simulation: files are read, names are checked, demand is
drawn.

What sources leave open (a resource that nobody recorded, rows that were left out) becomes a
sentence of the inputs' assumptions.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from federator.api import federatedquota, raw
from federator.api.decoding import FILE_LIMITS
from federator.api.placement import placementinvariant, placementpolicy
from federator.kinds import read as kinds_read
from federator.model.accounts import QuotaAccount
from federator.model.errors import FieldError, join
from federator.model.resources import CPU, GPU, MEMORY, Resources
from federator.model.rules.invariant import Invariant
from federator.placement.policy.policies import Rule
from federator.placement.quota.quota import ASSUMED
from federator.simulate import bounded
from federator.simulate.demand import Work
from federator.simulate.engine.asks import SERVICE
from federator.simulate.inputs import Inputs
from federator.simulate.scenario import (
    aggregates,
    drawing,
    events,
    fields,
    fleet,
    recorded,
    scaling,
    wanted,
)
from federator.simulate.scenario.fleet import Clusters
from federator.simulate.scenario.recorded import Replay
from federator.simulate.scenario.schema import Object, Scenario
from federator.simulate.scenario.tables import TraceFile
from federator.simulate.traces import loading
from federator.simulate.traces.works import Trace

POLICIES: Final = ("ClusterPlacementPolicy", "PlacementPolicy")
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of a scenario: relative ones start at its own folder, `${NAME}` is a variable."""

    folder: Path
    variables: Mapping[str, str]

    def path(self, text: str) -> Path:
        """Raises FieldError for a variable that is not set."""
        missing = next(
            (name for name in _VARIABLE.findall(text) if name not in self.variables), None
        )
        if missing is not None:
            raise FieldError("", f"{text}: the variable {missing} is not set")
        return self.folder / os.path.expanduser(
            _VARIABLE.sub(lambda match: self.variables[match[1]], text)
        )

    def objects(
        self, given: Sequence[Object], path: str, kinds: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Objects of these kinds, inline or from files, checked as an API server would. Raises
        FieldError with the field's path, or the file's."""
        checked = []
        for at, obj in enumerate(given):
            here = f"{path}[{at}]"
            for manifest, where in self._read(obj, here):
                try:
                    kinds_read.check(manifest, where)
                except kinds_read.InvalidObject as bad:
                    raise bad.errors[0] from None
                if manifest.get("kind") not in kinds:
                    message = (
                        f"{manifest.get('kind')} is not expected here: {' or '.join(kinds)} is"
                    )
                    raise FieldError(join(where, "kind"), message)
                checked.append(manifest)
        return checked

    def _read(self, obj: Object, here: str) -> Iterable[tuple[dict[str, Any], str]]:
        if set(obj) != {"file"}:
            return [(obj, here)]
        path = self.path(str(obj["file"]))
        try:
            objs = kinds_read.load_yaml(bounded.read(path, FILE_LIMITS.size).decode("utf-8"))
        except (OSError, UnicodeDecodeError) as trouble:
            why = getattr(trouble, "strerror", None) or str(trouble)
            raise FieldError(f"{here}.file", f"{path} cannot be read: {why}") from None
        except kinds_read.InvalidObject as bad:
            raise FieldError(f"{path}", str(bad.errors[0])) from None
        return [(manifest, f"{path}: [{at}]") for at, manifest in enumerate(objs)]

    def rules(self, given: Sequence[Object], path: str) -> tuple[Rule, ...]:
        return tuple(
            Rule(**placementpolicy.rule_fields(str(obj["kind"]), obj))
            for obj in self.objects(given, path, POLICIES)
        )

    def quotas(self, given: Sequence[Object], path: str) -> tuple[QuotaAccount, ...]:
        objs = self.objects(given, path, ("FederatedQuota",))
        return tuple(federatedquota.to_account(_with_uid(obj)) for obj in objs)

    def invariants(self, given: Sequence[Object], path: str) -> tuple[Invariant, ...]:
        objs = self.objects(given, path, (placementinvariant.KIND,))
        made = (placementinvariant.to_invariant(_with_uid(obj)) for obj in objs)
        return tuple(sorted(made, key=lambda invariant: invariant.name))


def _with_uid(obj: dict[str, Any]) -> dict[str, Any]:
    meta = raw.mapping(obj, "metadata")
    return {**obj, "metadata": {"uid": meta.get("name", ""), **meta}}


def inputs(scenario: Scenario, files: Files, name: str) -> Inputs:
    """Everything that the engine reads. Raises FieldError and TraceError."""
    clusters = fleet.assemble(scenario.fleet, scenario.seed, files.path, files.objects)
    replay = _replay(scenario, files, clusters)
    traced, origin_s, notes = _traced(scenario, files)
    scenario = _dated(scenario, origin_s)
    works = _works(scenario, traced, replay, notes)
    works, dropped = _on_record(works, clusters)

    def quotas(given: Sequence[Object], path: str) -> tuple[QuotaAccount, ...]:
        return _defaults_on_record(files.quotas(given, path), clusters)

    changes = events.assemble(
        scenario.events,
        clusters.views,
        quotas,
        files.rules,
        works,
        scale=scenario.demand.scale,
    )
    notes = [*clusters.assumptions, *notes, *dropped]
    views = clusters.views
    if scenario.fleet.aggregates:
        notes.append(aggregates.sentence(views, works))
        views = {name: fleet.aggregated(view) for name, view in views.items()}
        changes = tuple(
            replace(event, view=fleet.aggregated(event.view)) if event.view is not None else event
            for event in changes
        )
    if scenario.until is not None and scenario.until <= scenario.warm_up:
        raise FieldError("warmUp", "leaves nothing to measure: it lasts until the end or longer")
    _check_homes(scenario, views)
    return Inputs(
        name=scenario.name or name,
        clusters=views,
        works=works,
        rules=files.rules(scenario.policies, "policies"),
        quotas=quotas(scenario.quotas, "quotas"),
        invariants=files.invariants(scenario.invariants, "invariants"),
        events=changes,
        seed=scenario.seed,
        drawn=scenario.drawn,
        origin_s=origin_s,
        end_s=scenario.until,
        warm_up_s=scenario.warm_up,
        price_per_hour=clusters.prices,
        idle_s=scenario.fleet.scale_down_after,
        aggregates=scenario.fleet.aggregates,
        levels=replay.levels if replay is not None else {},
        measures=wanted.measures(scenario.measures, clusters, changes, works),
        recorded=replay.decisions if replay is not None else (),
        assumptions=tuple(notes),
    )


def _replay(scenario: Scenario, files: Files, clusters: Clusters) -> Replay | None:
    given = scenario.demand.recording
    return (
        recorded.replay(given, files.objects, list(clusters.views)) if given is not None else None
    )


def _dated(scenario: Scenario, origin_s: int) -> Scenario:
    """With seconds since second 0 instead of dates. Raises FieldError."""
    until = scenario.until
    return scenario.model_copy(
        update={
            "until": None if until is None else fields.since(until, origin_s, "until"),
            "events": [
                event.model_copy(
                    update={"at": fields.since(event.at, origin_s, f"events[{at}].at")}
                )
                for at, event in enumerate(scenario.events)
            ],
        }
    )


def _traced(scenario: Scenario, files: Files) -> tuple[list[Work], int, list[str]]:
    """The works of the trace; epoch seconds of second 0, also of a recording; notes."""
    given = scenario.demand
    works: list[Work] = []
    notes: list[str] = []
    origin_s = 0
    if given.trace is not None:
        trace = loading.demand(
            files.path(given.trace.path),
            given.trace.reading(given.checkpoint),
            given.trace.format or "",
        )
        begin_s, kept = _window(trace, given.trace)
        notes += trace.problems.lines()
        if len(kept) < len(trace.works):
            notes.append(
                f"{len(trace.works) - len(kept)} of {len(trace.works)} works lie outside "
                "begin and end."
            )
        if not kept:
            raise FieldError("demand.trace.begin", "no work was submitted between begin and end")
        origin_s = trace.origin_s + begin_s if trace.origin_s else 0
        works += kept
    if given.recording is not None:
        origin_s = origin_s or given.recording.begin
    return works, origin_s, notes


def _works(
    scenario: Scenario, traced: Sequence[Work], replay: Replay | None, notes: list[str]
) -> tuple[Work, ...]:
    """The works of all sources by submission, scaled. What there is to say of them is added to the
    notes."""
    given, works = scenario.demand, list(traced)
    if replay is not None:
        notes += replay.notes
        works += replay.works
    for at, stream in enumerate(given.generate):
        if any(other.name == stream.name for other in given.generate[:at]):
            raise FieldError(
                f"demand.generate[{at}].name", f"{stream.name!r} is given twice; ids begin with it"
            )
        try:
            works += drawing.works(stream, scenario.seed, scenario.until)
        except FieldError as bad:
            raise FieldError(f"demand.generate[{at}].{bad.path}", bad.message) from None
    if given.checkpoint is not None:
        works = [
            replace(work, checkpoint_s=work.checkpoint_s or given.checkpoint) for work in works
        ]
    limit = given.backoff_limit
    if limit is not None:
        works = [
            replace(work, failing=replace(work.failing, limit=limit))
            if work.failing is not None and work.failing.limit is None
            else work
            for work in works
        ]
    if given.deadlines is not None:
        works = [replace(work, deadline_s=_deadline(work, given.deadlines)) for work in works]
    works.sort(key=lambda work: work.submit_s)
    if given.scale == 1:
        return tuple(works)
    kept = events.scaled_services(scenario.events, works)
    scaled = scaling.scaled(works, given.scale, scenario.seed, scenario.until, kept)
    notes.append(scaled.sentence)
    return scaled.works


def _deadline(work: Work, times: Fraction) -> int | None:
    if work.runtime_s is None or work.failing is not None or work.kind == SERVICE:
        return None
    return math.ceil(work.runtime_s * times)


def _window(trace: Trace, given: TraceFile) -> tuple[int, list[Work]]:
    """When it begins, and the works between begin and end, which then begin at second 0. Raises
    FieldError."""
    begin_s = fields.since(given.begin, trace.origin_s, "demand.trace.begin")
    end_s = given.end
    if end_s is not None:
        end_s = fields.since(end_s, trace.origin_s, "demand.trace.end")
    if not begin_s and end_s is None:
        return 0, list(trace.works)
    return begin_s, [
        replace(work, submit_s=work.submit_s - begin_s)
        for work in trace.works
        if begin_s <= work.submit_s and (end_s is None or work.submit_s < end_s)
    ]


def _on_record(works: tuple[Work, ...], clusters: Clusters) -> tuple[tuple[Work, ...], list[str]]:
    """Without the resources that no node records: nothing would fit anywhere."""
    notes: list[str] = []
    dropped: dict[str, None] = {}
    fields: tuple[tuple[str, str, Callable[[Work], int | None]], ...] = (
        (CPU, "cpu_milli", lambda work: work.cpu_milli),
        (MEMORY, "memory_mib", lambda work: work.memory_mib),
        (GPU, "gpu", lambda work: work.gpu),
    )
    for resource, name, amount in fields:
        asked = sum(1 for work in works if amount(work))
        if asked and resource not in clusters.recorded:
            if resource == GPU:
                continue
            dropped[name] = None
            notes.append(
                f"No node records {resource}: what {asked} works ask of it is not looked at."
            )
        elif asked < len(works) and resource in clusters.recorded and (asked or resource == CPU):
            notes.append(f"{len(works) - asked} of {len(works)} works ask for no {resource}.")
        elif not asked and resource in clusters.recorded and resource == MEMORY:
            notes.append("No work asks for memory, so that memory limits nothing.")
    if dropped:
        works = tuple(replace(work, **dropped) for work in works)  # type: ignore[arg-type]
    return works, notes


def _defaults_on_record(
    accounts: Sequence[QuotaAccount], clusters: Clusters
) -> tuple[QuotaAccount, ...]:
    """Accounts that assume no request for a resource that no node records: a copy that is charged
    one would fit nowhere."""
    made = []
    for account in accounts:
        assumed = ASSUMED if account.defaults is None else account.defaults
        kept = {name: amount for name, amount in assumed.items() if name in clusters.recorded}
        made.append(
            replace(account, defaults=Resources(kept)) if len(kept) < len(assumed) else account
        )
    return tuple(made)


def _check_homes(scenario: Scenario, views: Mapping[str, object]) -> None:
    for at, stream in enumerate(scenario.demand.generate):
        for tenant, home in stream.homes.items():
            fields.existing(home, views, f"demand.generate[{at}].homes.{tenant}")
