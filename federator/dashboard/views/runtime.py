"""What the runtimes of a workload's pods have, by cluster and by pod. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import text
from federator.dashboard.views import workload
from federator.kinds.kind import Kind

COUNTS: Final = ("identity", "secrets", "config", "registry", "left", "troubled")
PARTS: Final = ("identity", "secrets", "config", "registry")
TONES: Final[Mapping[str, str]] = {"yes": "good", "no": "bad", "left": "idle"}


def empty(kind: Kind, namespace: str, name: str, cluster: str, trouble: str = "") -> dict[str, Any]:
    """The page without an answer."""
    short = f"{kind.short_names[0]}/{name} -n {namespace}"
    only = f" -C {cluster}" if cluster else ""
    return {
        **workload.head(kind, namespace, name, "runtime"),
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


def shown(
    kind: Kind, namespace: str, name: str, cluster: str, answer: Mapping[str, Any]
) -> dict[str, Any]:
    """The page with the leader's answer to `runtime`."""
    view = empty(kind, namespace, name, cluster)
    return view | {
        "facts": list(_facts(raw.mapping(answer, "facts"))),
        "clusters": [_cluster(row, view["path"]) for row in raw.objects(answer, "clusters")],
        "pods": [_pod(row) for row in raw.objects(answer, "pods")],
        "left": raw.figure(answer, "leftOut"),
    }


def _facts(facts: Obj) -> list[dict[str, Any]]:
    """What the runtime of every pod is told, for people."""
    told = (
        ("Identity", [raw.text(facts, "identity")]),
        ("Secrets", raw.texts(facts, "secrets")),
        ("Configuration", raw.texts(facts, "config")),
        ("Registry", [raw.text(facts, "registry")]),
    )
    return [{"title": title, "values": [each for each in values if each]} for title, values in told]


def _cluster(row: Obj, path: str) -> dict[str, Any]:
    name = raw.text(row, "cluster")
    away = raw.at(row, "answered") is False
    return {
        "cluster": name,
        "href": text.address("clusters", name),
        "only": f"{path}?cluster={name}",
        "away": raw.text(row, "reason") if away else "",
        "pods": raw.figure(row, "pods"),
        "more": raw.at(row, "more") is True,
        **{each: raw.figure(row, each) for each in COUNTS},
    }


def _pod(row: Obj) -> dict[str, Any]:
    return {
        "cluster": raw.text(row, "cluster"),
        "pod": raw.text(row, "name"),
        "parts": [
            {
                "part": part,
                "state": raw.text(row, part) or "-",
                "tone": TONES.get(raw.text(row, part), "idle"),
            }
            for part in PARTS
        ],
        "reason": raw.text(row, "reason"),
    }
