"""The native objects of a workload in each of its clusters, as member processes make them, and how
an edit changes them. Pure.

Numbers that rise with every decision are left out: they say nothing about what runs.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from federator.advice import overridden
from federator.hub.placing.offline import Situation
from federator.hub.records.decisions import Record
from federator.kinds import registry
from federator.kinds.verbs import PodRules, SliceMark
from federator.model.decision import Share
from federator.model.names import WorkloadKey

Natives = dict[str, dict[str, Any]]
"""`Kind/name` -> object, those that others need first."""


def of(situation: Situation, key: WorkloadKey) -> dict[str, Natives]:
    """Cluster -> its native objects, by the decision in force and with the overrides of its
    policies. Raises FieldError for a workload that cannot be expanded."""
    record = situation.records.get(key)
    obj = situation.objects.get((key.kind, key.namespace, key.name))
    if obj is None or record is None:
        return {}
    return {
        share.cluster: _natives(situation, key, obj, record, share)
        for share in record.shares
        if share.count or share.ranges
    }


def _natives(
    situation: Situation, key: WorkloadKey, obj: Mapping[str, Any], record: Record, share: Share
) -> Natives:
    verbs = registry.verbs_of(key.kind)
    profile = situation.profile_of(verbs.profile(obj))
    mark = SliceMark(
        fleet="",
        workload_uid=record.workload_uid,
        origin_generation=0,
        cluster=share.cluster,
        seq=0,
        ranges=share.ranges,
        rules=PodRules((verbs.profile(obj) if profile is not None else "", "")),
        pods=share.pods,
    )
    part = verbs.render_slice(overridden.given(situation, key, share.cluster), share, mark)
    if verbs.expand is None:
        return {f"{key.kind}/{key.name}": part}
    return {
        f"{native['kind']}/{native['metadata']['name']}": native
        for native in verbs.expand(part, profile)
    }


def unified(
    before: Mapping[str, Natives],
    after: Mapping[str, Natives],
    written: Callable[[Mapping[str, Any]], str],
) -> Iterator[tuple[tuple[str, ...], str]]:
    """(clusters, unified diff) of every object that differs; clusters in which it differs alike are
    together. `written`: an object as text."""
    alike: dict[tuple[str, str], list[str]] = {}
    for cluster in sorted({*before, *after}):
        had, has = before.get(cluster, {}), after.get(cluster, {})
        for name in dict.fromkeys((*had, *has)):
            text = "\n".join(
                difflib.unified_diff(
                    written(had[name]).splitlines() if name in had else [],
                    written(has[name]).splitlines() if name in has else [],
                    f"{name} (now)" if name in had else "/dev/null",
                    f"{name} (then)" if name in has else "/dev/null",
                    lineterm="",
                )
            )
            if text:
                alike.setdefault((name, text), []).append(cluster)
    for (_, text), clusters in alike.items():
        yield tuple(clusters), text
