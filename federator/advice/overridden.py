"""What overrides of policies change of workloads in the clusters of a situation. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from federator.api import raw
from federator.hub.placing.offline import Situation
from federator.hub.records.workloads import Workload
from federator.kinds import overriding, registry
from federator.kinds.overriding import OverrideRefused
from federator.model import overrides
from federator.model.fleet import copies_of
from federator.model.names import WorkloadKey
from federator.model.overrides import InCluster


def there(situation: Situation, workload: Workload, cluster: str) -> InCluster:
    """What the policies in force change of the workload in a cluster."""
    if not situation.rules.overriding:
        return overrides.NOTHING
    ask, view = situation.ask_of(workload), situation.snapshot.clusters.get(cluster)
    if ask is None or view is None:
        return overrides.NOTHING
    return overrides.for_cluster(ask.policy.all_overrides, cluster, view.labels)


def given(situation: Situation, key: WorkloadKey, cluster: str) -> Mapping[str, Any]:
    """The object of a workload as it is in a cluster; empty where the situation has none. Raises
    OverrideRefused."""
    obj = situation.objects.get((key.kind, key.namespace, key.name))
    if obj is None:
        return {}
    changed = there(situation, situation.workloads[key], cluster)
    verbs = registry.verbs_of(key.kind)
    return overriding.applied(obj, verbs, changed, situation.profile_of(verbs.profile(obj)))


def refused(situation: Situation, key: WorkloadKey, clusters: Iterable[str]) -> dict[str, str]:
    """Cluster -> why the overrides cannot be applied there, as a sentence."""
    why: dict[str, str] = {}
    for cluster in clusters if situation.rules.overriding else ():
        try:
            given(situation, key, cluster)
        except OverrideRefused as bad:
            why[cluster] = str(bad)
    return why


def refusals(present: Situation, final: Situation) -> Iterator[str]:
    """Overrides that cannot be applied then and can be now, each as a sentence."""
    for key in sorted(final.workloads) if final.rules.overriding else ():
        record = final.records.get(key)
        clusters = [share.cluster for share in record.shares if copies_of(share)] if record else ()
        known = key in present.workloads
        for cluster, why in refused(final, key, clusters).items():
            if not known or cluster not in refused(present, key, (cluster,)):
                yield f"{key} in {cluster}: its slice is not written: {why}"


def restarted(
    present: Situation,
    final: Situation,
    key: WorkloadKey,
    before: Mapping[str, int],
    after: Mapping[str, int],
) -> int:
    """Copies that are replaced where they run because other overrides apply to them. The leading
    hub has no workloads' objects in memory: there an override counts although it may say what the
    object says anyway."""
    if not (present.rules.overriding or final.rules.overriding):
        return 0
    return sum(
        min(copies, after.get(cluster, 0))
        for cluster, copies in before.items()
        if _differs(present, final, key, cluster)
    )


def _differs(present: Situation, final: Situation, key: WorkloadKey, cluster: str) -> bool:
    if key not in present.workloads or key not in final.workloads:
        return False
    now, then = (
        there(situation, situation.workloads[key], cluster) for situation in (present, final)
    )
    if now == then:
        return False
    if (key.kind, key.namespace, key.name) not in final.objects:
        return True
    pods = registry.verbs_of(key.kind).pods
    try:
        return pods(given(present, key, cluster)) != pods(given(final, key, cluster))
    except OverrideRefused:
        return False  # then nothing is written there


def rows(situation: Situation, workload: Workload, clusters: Iterable[str]) -> list[dict[str, Any]]:
    """What `explain` shows: for each of these clusters that differs, what differs, and whether it
    is refused."""
    shown: list[dict[str, Any]] = []
    for cluster in sorted(set(clusters)):
        changed = there(situation, workload, cluster)
        if not changed:
            continue
        row: dict[str, Any] = {
            "cluster": cluster,
            "changes": [
                {"from": entry.title, "set": list(in_words(entry.fields))}
                for entry in changed.entries
            ],
        }
        if why := refused(situation, workload.key, (cluster,)).get(cluster):
            row["refused"] = why
        shown.append(row)
    return shown


def in_words(fields: Mapping[str, Any]) -> Iterator[str]:
    """What an entry sets, a few words for each field."""
    if image := raw.mapping(fields, "image"):
        yield "image " + ", ".join(f"{name} {text}" for name, text in image.items())
    for name in ("command", "args"):
        if name in fields:
            yield f"{name} {overrides.canonical(fields[name])}"
    for variable in raw.objects(fields, "env"):
        yield f"env {raw.text(variable, 'name')}={raw.text(variable, 'value')}"
    for name, word in (("labels", "label"), ("annotations", "annotation")):
        for key, text in sorted(raw.text_map(fields, name).items()):
            yield f"{word} {key}={text}"
    for operation in raw.objects(fields, "jsonPatch"):
        yield f"jsonPatch {raw.text(operation, 'op')} {raw.text(operation, 'path')}"
