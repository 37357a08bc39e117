"""`federator describe KIND/NAME`: one page about a workload: its conditions, its share in each
cluster, its pods and their Events in all clusters, and its spec.

The host's objects and the leading hub supply all but the Events in members. The hub reads no Events
of members, so these are read with the caller's own contexts, which are named like the clusters.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from federator.api import raw
from federator.cli import common
from federator.cli.leader import asking
from federator.cli.leader import pods as podding
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.cli.leader.asking import WorkloadQuery
    from federator.kube.client import Client

EVENTS: Final = ("events.k8s.io/v1", "events")
EVENTS_MAX: Final = 2_000
"""Events of one namespace of one cluster that are read."""
LINES_MAX: Final = 20
"""Lines of Events, and of pods, that are printed."""
Obj = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of one workload. `pods`: the leader's answer, {} without one."""

    obj: Obj
    decision: Obj
    pods: Obj
    events: Sequence[tuple[str, Obj]]
    """(cluster or "host", Event)."""
    silent: Mapping[str, str]
    """Cluster without its Events in the output -> why."""


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@asking.options
def describe(workload: str, name: str, **flags: Any) -> None:
    """Describe a workload (psvc/NAME, pjs/NAME, deploy/NAME) on one page: conditions, shares, pods
    and Events in all clusters, and its spec.

    Asks the host, the leading hub for the pods (your rights on the host: get the workload, list
    pods), and the clusters for Events, with contexts of yours that are named like them. Exit 1 when
    a cluster does not answer the question for pods.
    """
    query = asking.query_of(workload, name, flags)
    facts = common.run(_described(query))
    common.show("\n".join(text(query, facts)))
    asking.exit_if_partial(asking.report_unanswered(facts.pods.get("clusters") or []))


async def _described(query: "WorkloadQuery") -> Described:
    """Everything, read at the same time where possible. The pods come first: they name the objects
    that the Events must be about."""
    facts = await common.with_federation(
        query.kubeconfig, query.context, lambda host: _on_host(host, query)
    )
    pods = await query.answer("pods", {}, again=True) if facts.decision else {}
    names = {query.name, *(str(row.get("name")) for row in pods.get("pods") or ())}
    clusters = [str(row.get("cluster")) for row in pods.get("clusters") or ()]
    silent: dict[str, str] = {}
    async with contextlib.AsyncExitStack() as opened:
        answers = await asyncio.gather(
            *(_in_member(opened, query, cluster, names) for cluster in clusters)
        )
    events = list(facts.events)
    for cluster, answer in zip(clusters, answers, strict=True):
        if isinstance(answer, str):
            silent[cluster] = answer
        else:
            events += [(cluster, event) for event in answer]
    return replace(facts, pods=pods, events=events, silent=silent)


async def _on_host(host: "Client", query: "WorkloadQuery") -> Described:
    """The workload, its decision and its Events on the host."""
    from federator.kinds import registry
    from federator.kube import errors
    from federator.model import names

    try:
        obj = await host.get(query.kind.ref(query.namespace, query.name))
    except errors.NotFound:
        common.fail(f'{query.kind.plural} "{query.name}" not found in namespace {query.namespace}')
    uid, row = obj["metadata"]["uid"], registry.KINDS["PlacementDecision"]
    decisions = await host.list(
        row.api_version,
        row.plural,
        query.namespace,
        label_selector=f"{names.WORKLOAD_UID_LABEL}={uid}",
    )
    events: Sequence[Obj] = ()
    with contextlib.suppress(errors.Denied):  # a tenant may see the workload and no Events
        events = (
            await host.list(*EVENTS, query.namespace, field_selector=f"regarding.uid={uid}")
        ).items
    decision = next(iter(decisions.items), {})
    return Described(obj, decision, {}, [("host", event) for event in events], {})


async def _in_member(
    opened: contextlib.AsyncExitStack, query: "WorkloadQuery", cluster: str, names: set[str]
) -> list[Obj] | str:
    """The Events about these names in one cluster, or why there are none to show."""
    from federator.kube import errors

    client = await asking.own_client(opened, cluster, query.kubeconfig)
    if client is None:
        return "no context of yours has its name"
    try:
        async with asyncio.timeout(asking.ANSWER_S / 3):
            return list(
                await client.collect(
                    *EVENTS,
                    lambda event: event if raw.text(event, "regarding", "name") in names else None,
                    most=EVENTS_MAX,
                    namespace=query.namespace,
                )
            )
    except errors.Denied:
        return "you may not list its Events"
    except (errors.ApiError, TimeoutError):
        return "it does not answer"


def text(query: "WorkloadQuery", facts: Described) -> Iterator[str]:
    """The page, line by line."""
    obj, status = facts.obj, raw.mapping(facts.obj, "status")
    yield from _head(query, obj)
    yield from _section(
        "Conditions",
        ["TYPE", "STATUS", "REASON", "MESSAGE"],
        [
            [raw.text(row, "type"), raw.text(row, "status"), *_why(row)]
            for row in raw.objects(status, "conditions")
        ],
    )
    yield from _placement(query, facts)
    yield from _pods(query, facts.pods)
    yield from _events(facts)
    yield from ("", "Spec", *(f"  {line}" for line in common.dump(obj["spec"], "yaml").split("\n")))


def _head(query: "WorkloadQuery", obj: Obj) -> Iterator[str]:
    meta, verbs = obj["metadata"], query.kind.verbs
    assert verbs is not None
    yield f"{query.kind.kind} {query.namespace}/{query.name}"
    labels = ", ".join(f"{key}={value}" for key, value in raw.text_map(meta, "labels").items())
    rows = {
        "project": verbs.project(obj),
        "tier": str(verbs.tier(obj)),
        "priority": str(verbs.priority(obj)),
        "labels": labels or "none",
        "age": common.age(raw.text(meta, "creationTimestamp"), time.time()),
        "status": raw.text(obj, "status", "summary") or "the hub has not reported on it yet",
    }
    yield from (f"  {name}: {plaintext.visible(value)}" for name, value in rows.items())


def _placement(query: "WorkloadQuery", facts: Described) -> Iterator[str]:
    """The decision, and what each cluster reports of its share."""
    spec = raw.mapping(facts.decision, "spec")
    if not spec:
        yield from ("", "Placement", "  no decision yet")
        return
    reported = {
        raw.text(row, "cluster"): row for row in raw.objects(facts.obj, "status", "clusterStatuses")
    }
    given = {raw.text(share, "cluster"): share for share in raw.objects(spec, "shares")}
    title = f"Placement: {raw.integer(spec, 'placed')} of {raw.integer(spec, 'wanted')}"
    inline = raw.at(facts.obj, "spec", "placement") is not None
    policy = raw.text(spec, "policy", "name") or ("spec.placement" if inline else "default")
    because = f" ({raw.text(spec, 'message')})" if raw.text(spec, "message") else ""
    yield from _section(
        f"{title}, {raw.text(spec, 'reason')}, policy {policy}{because}",
        ["CLUSTER", "SHARE", "READY", "REASON", "MESSAGE"],
        [
            [
                cluster,
                str(_share(given.get(cluster, {}))),
                _ready(reported.get(cluster, {})),
                *_why(reported.get(cluster, {})),
            ]
            for cluster in sorted({*given, *reported})
        ],
    )


def _share(share: Obj) -> str | int:
    return raw.text(share, "ranges") or raw.figure(share, "nodes") or raw.figure(share, "replicas")


def _ready(row: Obj) -> str:
    return next((str(row[name]) for name in ("ready", "running", "active") if name in row), "-")


def _pods(query: "WorkloadQuery", answer: Obj) -> Iterator[str]:
    rows = answer.get("pods") or ()
    columns = [*podding.COLUMNS, *(["shard"] if query.numbered else [])]
    troubled = sorted(rows, key=lambda row: podding.cell(row, "status") == "Running")
    cells = [[podding.cell(row, name) for name in columns] for row in troubled]
    count = f"Pods: {len(cells)}"
    if len(cells) > LINES_MAX:
        count += f", of which {LINES_MAX} are shown (all: federator pods)"
    yield from _section(count, [name.upper() for name in columns], cells[:LINES_MAX])


def _events(facts: Described) -> Iterator[str]:
    """The Events of host and members, those of one reason, kind and cluster as one line."""
    groups: dict[tuple[str, ...], list[Obj]] = {}
    for cluster, event in facts.events:
        kind, reason = raw.text(event, "regarding", "kind"), raw.text(event, "reason")
        groups.setdefault((cluster, raw.text(event, "type"), kind, reason), []).append(event)
    newest = sorted(groups.items(), key=lambda group: _last(group[1]), reverse=True)
    lines = [
        [common.age(_last(events), time.time()), cluster, type_, _about(kind, events), reason, note]
        for (cluster, type_, kind, reason), events in newest
        for note in [raw.text(max(events, key=_moment), "note")]
    ]
    headers = ["LAST", "CLUSTER", "TYPE", "OBJECT", "REASON", "MESSAGE"]
    yield from _section(_counted("Events", len(lines)), headers, lines[:LINES_MAX])
    for cluster, why in sorted(facts.silent.items()):
        yield f"  {cluster}: its Events are not shown: {why}"


def _counted(title: str, lines: int) -> str:
    return f"{title}, the newest {LINES_MAX} of {lines} groups" if lines > LINES_MAX else title


def _about(kind: str, events: Sequence[Obj]) -> str:
    names = list(dict.fromkeys(raw.text(event, "regarding", "name") for event in events))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{kind}/{names[0]}{more}"


def _moment(event: Obj) -> str:
    """When it was last seen, by whichever API it was written."""
    return (
        raw.text(event, "series", "lastObservedTime")
        or raw.text(event, "deprecatedLastTimestamp")
        or raw.text(event, "eventTime")
        or raw.text(event, "metadata", "creationTimestamp")
    )


def _last(events: Iterable[Obj]) -> str:
    return max(map(_moment, events))


def _why(row: Obj) -> list[str]:
    return [raw.text(row, "reason"), raw.text(row, "message")]


def _section(title: str, headers: list[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A title and a table below it, or the word none."""
    yield from ("", plaintext.visible(title))
    table = common.table(headers, rows) if rows else "none"
    yield from (f"  {line}" for line in table.split("\n"))
