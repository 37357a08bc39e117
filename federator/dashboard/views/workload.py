"""A single workload: copies by cluster, conditions, decisions with causes, Events, native objects,
and why it is where it is. Pure."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import text
from federator.dashboard.sources import rows
from federator.dashboard.views import clusters
from federator.kinds.kind import Kind
from federator.model import plaintext
from federator.model.ask import Unit

EVENTS_MAX: Final = 100
CAUSES_MAX: Final = 20


def head(kind: Kind, namespace: str, name: str, page: str) -> dict[str, Any]:
    """What all pages of a workload begin with. `page`: the last part of its path."""
    base = ("workloads", kind.kind, namespace, name)
    tabs = [("Summary", ""), ("Why here", "why"), ("Objects", "objects")]
    tabs.append(("Runtime", "runtime"))
    tabs += [("Time line", "timeline"), ("Logs", "logs")]
    if kind.verbs is not None and kind.verbs.unit is Unit.SHARDS:
        tabs.append(("Shards", "shards"))
    return {
        "kind": kind.kind,
        "namespace": namespace,
        "name": name,
        "tabs": [
            {
                "title": title,
                "href": text.address(*base, *filter(None, (tab,))),
                "current": tab == page,
            }
            for title, tab in tabs
        ],
    }


def summary(
    kind: Kind,
    obj: Obj,
    decisions: Sequence[Obj] | None,
    events: Sequence[Obj] | None,
    now_s: float,
) -> dict[str, Any]:
    """The page. None for decisions or Events that the reader may not list."""
    verbs = kind.verbs
    assert verbs is not None
    jobs = verbs.unit is Unit.SHARDS
    meta = raw.mapping(obj, "metadata")
    uid = raw.text(meta, "uid")
    status = raw.mapping(obj, "status")
    health = rows.health_of(obj)
    decided = [each for each in decisions or () if _is_of(each, uid)]
    placed = sum(raw.figure(each, "spec", "placed") for each in decided)
    namespace, name = raw.text(meta, "namespace"), raw.text(meta, "name")
    short = f"{kind.short_names[0]}/{name} -n {namespace}"
    return {
        **head(kind, namespace, name, ""),
        "health": health,
        "tone": text.tone(health),
        "unit": "shards" if jobs else "copies",
        "desired": rows.desired(kind, obj),
        "placed": raw.figure(status, "placed") or placed,
        "ready": rows.ready(kind, obj),
        "summary": raw.text(status, "message") or raw.text(status, "summary"),
        "account": verbs.project(obj),
        "tier": str(verbs.tier(obj)),
        "priority": verbs.priority(obj),
        "policy": raw.text(status, "policy"),
        "generation": raw.integer(meta, "generation"),
        "created": raw.text(meta, "creationTimestamp"),
        "age": text.age(raw.text(meta, "creationTimestamp"), now_s),
        "deleting": raw.text(meta, "deletionTimestamp"),
        "labels": raw.text_map(meta, "labels"),
        "clusters": by_cluster(obj, decided, jobs=jobs),
        "conditions": clusters.conditions(obj, now_s),
        "decisions": None if decisions is None else [decision(each, now_s) for each in decided],
        "events": None if events is None else [event(each, now_s) for each in newest(events, uid)],
        "commands": [
            f"federator explain {short}",
            f"federator pods {short}",
            f"federator logs {short}",
            f"federator history {short}",
            f"federator describe {short}",
        ],
    }


def by_cluster(obj: Obj, decisions: Sequence[Obj], *, jobs: bool) -> list[dict[str, Any]]:
    """What each cluster was given and reports."""
    given = {
        raw.text(share, "cluster"): rows.copies_of(share)
        for each in decisions
        for share in raw.objects(each, "spec", "shares")
    }
    reported = {
        raw.text(row, "cluster"): row for row in raw.objects(obj, "status", "clusterStatuses")
    }
    most = max(given.values(), default=0)
    return [
        {
            "cluster": name,
            "href": text.address("clusters", name),
            "given": given.get(name, 0),
            "most": most,
            **_reported(reported.get(name), jobs=jobs),
        }
        for name in sorted({*given, *reported})
    ]


def _reported(row: Obj | None, *, jobs: bool) -> dict[str, Any]:
    if row is None:
        return {"ready": None, "running": None, "failed": None, "known": True, "trouble": ""}
    reason, message = raw.text(row, "reason"), raw.text(row, "message")
    return {
        "ready": raw.figure(row, "done" if jobs else "ready"),
        "running": raw.figure(row, "running") if jobs else None,
        "failed": raw.figure(row, "failed") if jobs else None,
        "known": raw.at(row, "known") is not False,
        "trouble": ": ".join(filter(None, (reason, message))),
    }


def _is_of(decision_obj: Obj, uid: str) -> bool:
    return raw.text(decision_obj, "spec", "workload", "uid") == uid


def decision(obj: Obj, now_s: float) -> dict[str, Any]:
    """A PlacementDecision with its causes, the newest first."""
    spec = raw.mapping(obj, "spec")
    policy = raw.mapping(spec, "policy")
    causes = [_cause(each) for each in raw.items(spec, "causes")]
    return {
        "name": raw.text(obj, "metadata", "name"),
        "seq": raw.integer(spec, "seq"),
        "asOf": raw.text(spec, "asOf"),
        "age": text.age(raw.text(spec, "asOf"), now_s),
        "reason": raw.text(spec, "reason"),
        "message": raw.text(spec, "message"),
        "wanted": raw.figure(spec, "wanted"),
        "placed": raw.figure(spec, "placed"),
        "shortfall": raw.figure(spec, "shortfall"),
        "policy": "/".join(filter(None, (raw.text(policy, "namespace"), raw.text(policy, "name")))),
        "origin": raw.text(policy, "origin"),
        "causes": causes[::-1][:CAUSES_MAX],
        "violations": [_cause(each) for each in raw.items(spec, "violations")],
    }


def _cause(cause: Any) -> str:
    """A cause as a sentence."""
    if isinstance(cause, Mapping):
        return ", ".join(f"{name} {value}" for name, value in cause.items())
    return str(cause)


def newest(events: Sequence[Obj], uid: str) -> list[Obj]:
    """Of this very object, the newest first."""
    own = [each for each in events if raw.text(each, "involvedObject", "uid") in ("", uid)]
    return sorted(own, key=happened_s, reverse=True)[:EVENTS_MAX]


def happened_s(each: Obj) -> float:
    """When an Event was last seen, in epoch seconds."""
    return raw.epoch_s(time_of(each))


def time_of(each: Obj) -> str:
    """When it was last seen, RFC 3339."""
    return (
        raw.text(each, "series", "lastObservedTime")
        or raw.text(each, "lastTimestamp")
        or raw.text(each, "eventTime")
        or raw.text(each, "metadata", "creationTimestamp")
    )


def event(obj: Obj, now_s: float) -> dict[str, Any]:
    seen = time_of(obj)
    return {
        "type": raw.text(obj, "type"),
        "reason": raw.text(obj, "reason"),
        "message": plaintext.clipped(raw.text(obj, "message")),
        "from": raw.text(obj, "reportingComponent") or raw.text(obj, "source", "component"),
        "count": raw.figure(obj, "series", "count") or raw.figure(obj, "count") or 1,
        "at": seen,
        "age": text.age(seen, now_s),
    }


def objects(kind: Kind, namespace: str, name: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The native objects of a workload, cluster by cluster, from the leader's answer to `tree`."""
    natives = sorted(
        raw.objects(answer, "natives"),
        key=lambda row: tuple(raw.text(row, field) for field in ("cluster", "kind", "name")),
    )
    grouped = {
        cluster: [
            {
                "kind": raw.text(row, "kind"),
                "name": raw.text(row, "name"),
                "health": raw.text(row, "health"),
                "tone": NATIVE_TONES.get(raw.text(row, "health"), "warn"),
                "reason": raw.text(row, "reason"),
            }
            for row in group
        ]
        for cluster, group in groupby(natives, key=lambda row: raw.text(row, "cluster"))
    }
    answered = {raw.text(row, "cluster"): row for row in raw.objects(answer, "clusters")}
    return {
        **head(kind, namespace, name, "objects"),
        "clusters": [
            {
                "cluster": cluster,
                "href": text.address("clusters", cluster),
                "objects": grouped.get(cluster, []),
                "away": ""
                if raw.at(answered.get(cluster, {}), "answered") is not False
                else raw.text(answered[cluster], "reason"),
                "more": raw.at(answered.get(cluster, {}), "more") is True,
            }
            for cluster in sorted({*grouped, *answered})
        ],
    }


NATIVE_TONES: Final[Mapping[str, str]] = {
    "Healthy": "good",
    "Progressing": "busy",
    "Suspended": "idle",
    "Degraded": "bad",
    "Missing": "bad",
}


RUNTIME_COUNTS: Final = ("identity", "secrets", "config", "registry", "left", "troubled")
RUNTIME_PARTS: Final = ("identity", "secrets", "config", "registry")
RUNTIME_TONES: Final[Mapping[str, str]] = {"yes": "good", "no": "bad", "left": "idle"}


def no_runtime(
    kind: Kind, namespace: str, name: str, cluster: str, trouble: str = ""
) -> dict[str, Any]:
    """The page without an answer."""
    short = f"{kind.short_names[0]}/{name} -n {namespace}"
    only = f" -C {cluster}" if cluster else ""
    return {
        **head(kind, namespace, name, "runtime"),
        "path": text.address("workloads", kind.kind, namespace, name, "runtime"),
        "cluster": cluster,
        "trouble": trouble,
        "facts": [],
        "clusters": [],
        "pods": [],
        "left": 0,
        "commands": [
            f"federator pods {short}{only} -o runtime",
            "kubectl exec POD -c runtime -- federator runtime check",
        ],
    }


def runtime(
    kind: Kind, namespace: str, name: str, cluster: str, answer: Mapping[str, Any]
) -> dict[str, Any]:
    """The page with the leader's answer to `runtime`."""
    view = no_runtime(kind, namespace, name, cluster)
    return view | {
        "facts": list(_runtime_facts(raw.mapping(answer, "facts"))),
        "clusters": [_runtimes(row, view["path"]) for row in raw.objects(answer, "clusters")],
        "pods": [_runtime(row) for row in raw.objects(answer, "pods")],
        "left": raw.figure(answer, "leftOut"),
    }


def _runtime_facts(facts: Obj) -> list[dict[str, Any]]:
    """What the runtime of every pod is told, for people."""
    named = (
        ("Identity", [raw.text(facts, "identity")]),
        ("Secrets", raw.texts(facts, "secrets")),
        ("Configuration", raw.texts(facts, "config")),
        ("Registry", [raw.text(facts, "registry")]),
    )
    return [
        {"title": title, "values": [each for each in values if each]} for title, values in named
    ]


def _runtimes(row: Obj, path: str) -> dict[str, Any]:
    name = raw.text(row, "cluster")
    away = raw.at(row, "answered") is False
    return {
        "cluster": name,
        "href": text.address("clusters", name),
        "only": f"{path}?cluster={name}",
        "away": raw.text(row, "reason") if away else "",
        "pods": raw.figure(row, "pods"),
        "more": raw.at(row, "more") is True,
        **{each: raw.figure(row, each) for each in RUNTIME_COUNTS},
    }


def _runtime(row: Obj) -> dict[str, Any]:
    return {
        "cluster": raw.text(row, "cluster"),
        "pod": raw.text(row, "name"),
        "parts": [
            {
                "part": part,
                "state": raw.text(row, part) or "-",
                "tone": RUNTIME_TONES.get(raw.text(row, part), "idle"),
            }
            for part in RUNTIME_PARTS
        ],
        "reason": raw.text(row, "reason"),
    }


def why(kind: Kind, namespace: str, name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Why it is where it is: the facts of `explain`, with what the table needs."""
    clusters_seen = raw.objects(facts, "clusters")
    terms = list(dict.fromkeys(term for row in clusters_seen for term in raw.mapping(row, "terms")))
    verdict = raw.mapping(facts, "verdict")
    return {
        **head(kind, namespace, name, "why"),
        "whyHref": text.address("workloads", kind.kind, namespace, name, "why"),
        "facts": facts,
        "figures": [
            {"name": figure, "value": value}
            for figure, value in verdict.items()
            if figure != "Placed"
        ],
        "placed": raw.mapping(verdict, "Placed"),
        "placedTone": "good" if raw.text(verdict, "Placed", "status") == "True" else "bad",
        "explained": "policy" in facts,
        "short": bool(facts.get("missing")) or facts.get("reason") != "Chosen",
        "terms": terms,
        "rows": [
            {
                **row,
                "href": text.address("clusters", raw.text(row, "cluster")),
                "chosen": raw.text(row, "verdict") == "Chosen",
                "sentence": raw.text(row, "message")
                .removeprefix(f"cluster {raw.text(row, 'cluster')}")
                .lstrip(": "),
            }
            for row in clusters_seen
        ],
    }
