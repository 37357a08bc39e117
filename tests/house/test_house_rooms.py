"""Rooms: folders in layers, few modules in each, and no circle anywhere."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache

import pytest

from federator.cli import main
from federator.dashboard import pages
from tests.house import sources

_KIND = (("schema",), ("ask",), ("natives", "status"))
LAYERS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "api": (
        ("raw", "common"),
        ("clusterchoice", "memberfields", "movefields"),
        (
            "schema",
            "decoding",
            "placementfields",
            "doorfields",
            "runtimeprofile",
            "schedulefields",
            "maintenance",
            "namespacefields",
            "publickeys",
        ),
        ("structural", "federatedquota"),
        ("capacityfields",),
        ("scaleupfields", "tainttimes"),
        (
            "placement",
            "membercluster",
            "clustercapacity",
            "clusterstandard",
            "submissionpolicy",
            "submissions",
        ),
    ),
    "kinds": (
        ("labels", "natives"),
        ("verbs", "recurring"),
        ("kind", "acts"),
        ("pods",),
        ("shared",),
        ("service", "jobset", "daemon", "statefulset", "training", "deployment", "federation"),
        ("nativecron",),
        ("cronjob",),
        ("registry",),
        ("asks", "crds", "edits", "rights", "probes"),
        ("read",),
        ("overriding",),
    ),
    "kinds/service": (("schema", "scaling"), ("ask",), ("natives", "status")),
    "kinds/jobset": (
        ("endfields", "shardparts", "guards"),
        ("schema", "failures"),
        ("ask",),
        ("natives", "status"),
    ),
    "kinds/daemon": _KIND,
    "kinds/deployment": _KIND,
    "kinds/training": (
        ("schema",),
        ("ask",),
        ("rendezvous",),
        ("natives", "status"),
        ("podgroups",),
    ),
    "kinds/statefulset": _KIND,
    "kinds/nativecron": (("rulings",), ("schema",), ("ask",), ("natives", "status")),
    "kinds/cronjob": (("schema",), ("ask",), ("handover",), ("runs", "status")),
    "member": (
        ("options",),
        ("cache",),
        ("expansion",),
        ("capacity",),
        ("gangs", "everynode", "telling", "terminating", "nativefigures"),
        ("rolling", "heartbeat", "startup"),
        ("catchingup",),
        ("process",),
    ),
    "hub": (
        ("options",),
        ("records",),
        ("history",),
        ("members",),
        ("cache",),
        ("metering",),
        ("host",),
        ("placing",),
        ("evacuation", "dispatch", "deletion", "status", "jobs", "security", "probing"),
        ("snapshot",),
        ("query",),
        ("leading",),
    ),
    "kube": (
        ("errors", "clock", "store", "backoff", "cancelling", "metrics", "watchmeter", "kubeyaml"),
        ("shortage",),
        ("wire",),
        ("client",),
        ("tokens",),
        ("login", "watch", "control", "leader", "selfsigned"),
        ("tlsserver",),
    ),
    "embedded": (
        ("storage",),
        ("schema",),
        ("apply", "tables"),
        ("validation", "admission"),
        ("catalogue",),
        ("auth",),
        ("controllers",),
        ("rest",),
        ("server",),
        ("http",),
    ),
    "embedded/controllers": (
        ("agenda", "kinds", "requests"),
        ("events",),
        ("tools",),
        ("pods", "templates", "accounts"),
        ("keyed",),
        ("nodes", "services"),
        ("kubelet", "cleanup"),
        ("scheduling",),
        ("workloads",),
        ("runtime",),
    ),
    "scheduling/waiting": (("releases", "room_claims"), ("reservations",), ("starts",)),
    "placement": (
        ("quota", "growth"),
        ("policy", "room", "division"),
        ("selection",),
        ("contradictions", "inputs", "verdicts"),
        ("request", "seating", "sharing"),
        ("placing",),
        ("columnwise", "everynode", "exclusive", "gangs", "ordinals", "scaling"),
        ("engine", "explain"),
    ),
    "model": (
        ("errors", "plaintext", "quickly", "schedule", "seq", "interning", "shards", "steps"),
        ("sources",),
        ("names", "observation", "resources", "ending"),
        ("kubernetes",),
        ("terms", "bounds", "scaleup", "overrides", "neighbours"),
        ("policy",),
        ("ask",),
        ("accounts", "decision", "rules"),
        ("fleet",),
        ("properties",),
        ("cel",),
    ),
    "cli": (
        ("jsonpath", "kindtable", "uncarried"),
        ("common",),
        ("explaining", "recurrences", "views"),
        ("fetching", "leader"),
        ("files",),
        ("rollouts", "running"),
        ("clusters",),
        ("config", "explain", "get", "reaching", "version"),
        ("planning", "policytests", "diagnosis", "gateway"),
        ("main",),
    ),
    "dashboard": (
        ("actions", "listing", "options", "render", "runbooks", "sessions"),
        ("sources",),
        ("text", "edits", "live"),
        ("whatif",),
        ("views",),
        ("routes",),
        ("forms", "pages"),
        ("signin",),
        ("port",),
        ("server",),
    ),
    "dashboard/sources": (
        ("acting", "changes", "prometheus", "reports", "rows"),
        ("fleet", "leader", "rights"),
        ("trend",),
    ),
    "dashboard/signin": (("browsing", "codeflow"), ("signing",)),
    "dashboard/routes": (
        ("route",),
        ("gathering",),
        ("actions",),
        ("alerts", "changes", "clusters", "overview", "plan", "quota", "simulations", "workloads"),
        ("jobs", "timeline", "why"),
    ),
    "dashboard/views": (
        ("clusters", "workloads", "plan", "simulations", "submissions"),
        ("action", "overview", "quota", "workload"),
        ("alerts", "jobs", "logs", "timeline"),
        ("changes",),
    ),
    "simulate": (
        ("bounded", "demand"),
        ("outcome", "reference"),
        ("grown", "inputs"),
        ("traces",),
        ("engine",),
        ("scenario",),
        ("recorder", "report"),
        ("sweep",),
    ),
    "simulate/engine": (
        ("shapes",),
        ("asks", "members"),
        ("fleet", "running"),
        ("autoscaling", "backlog", "drains", "lacking", "meter"),
        ("simulation",),
        ("events", "recording"),
        ("run",),
    ),
    "simulate/engine/members": (("summary",), ("member",), ("growing",)),
    "simulate/scenario": (
        ("fields",),
        ("tables",),
        ("question",),
        ("schema",),
        ("aggregates", "drawing", "recorded"),
        ("scaling",),
        ("fleet",),
        ("events", "wanted"),
        ("assembling",),
        ("loading",),
    ),
    "simulate/traces": (
        ("dialect", "likely", "problems"),
        ("table",),
        ("columns",),
        ("works",),
        ("nodes", "openb", "sacct"),
        ("swf",),
        ("loading",),
        ("pools",),
    ),
    "simulate/report": (
        ("amounts", "costing", "growing", "moving", "panels", "reasons"),
        ("measures", "peaks"),
        ("charts", "figures", "tabular", "timeline"),
        ("page",),
        ("forms",),
    ),
    "simulate/sweep": (
        ("plan", "search"),
        ("frontier", "running"),
        ("window",),
        ("page", "questions", "seeds"),
    ),
    "gateway": (
        ("api", "audit", "options"),
        ("certificates", "chains", "issuers", "limits"),
        ("callers",),
        ("platforms",),
        ("artifacts", "records", "views"),
        ("submitting",),
        ("port",),
        ("server",),
    ),
    "gateway/api": (("problems",), ("models",), ("routes",), ("openapi",)),
    "gateway/platforms": (
        ("events", "kinds", "leader"),
        ("platform", "searching"),
        ("federation",),
        ("table",),
        ("dispatch",),
    ),
    "sandbox": (
        ("authority", "fleetfile", "operators", "repository"),
        ("gateways", "runtimes"),
        ("federation",),
    ),
}
"""Room -> its folders and modules, from below to above; what stands side by side does not know each
other.
"""


@cache
def imported() -> dict[str, set[str]]:
    """Module -> modules of ours that it imports, wherever the import stands."""
    names = {_dotted(source): source for source in sources.all_sources()}
    found: dict[str, set[str]] = defaultdict(set)
    for name, source in names.items():
        for node in source.nodes:
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith("federator")
            ):
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found[name].add(whole if whole in names else node.module)
            elif isinstance(node, ast.Import):
                found[name].update(alias.name for alias in node.names if alias.name in names)
    return found


def _dotted(source: sources.Source) -> str:
    return ".".join(source.path.relative_to(sources.ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def circles(arrows: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """Every set of modules that reach each other."""
    reach: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        open_ = list(arrows.get(start, ()))
        while open_:
            name = open_.pop()
            if name not in seen:
                seen.add(name)
                open_ += arrows.get(name, ())
        reach[start] = seen
    return {
        frozenset(other for other in seen if start in reach.get(other, ()))
        for start, seen in reach.items()
        if start in seen
    }


def test_no_modules_import_each_other() -> None:
    """Counting what only type checkers see, and what is imported inside functions."""
    assert circles(imported()) == set()


@pytest.mark.parametrize("room", LAYERS)
def test_inside_a_room_imports_go_down_only(room: str) -> None:
    floor = {name: at for at, names in enumerate(LAYERS[room]) for name in names}
    inside = ["federator", *room.split("/")]
    wrong = []
    for name, others in imported().items():
        own = name.split(".")[len(inside) :] if name.split(".")[: len(inside)] == inside else []
        for other in others:
            theirs = (
                other.split(".")[len(inside) :] if other.split(".")[: len(inside)] == inside else []
            )
            if own and theirs and own[0] != theirs[0] and floor[theirs[0]] >= floor[own[0]]:
                wrong.append(f"{name} imports {other}")

    assert not wrong


SMALL_MAX = 60
"""A module of fewer lines that one other module imports is usually that module's private part."""
SMALL_WITH_REASON: Mapping[str, str] = {
    "federator.kube.login.oidc": "the only importer of kubernetes_asyncio, which takes 35 MB",
    "federator.cli.running.newcomers": (
        "a hook of the host's API; the demo is a program that runs and prints"
    ),
    "federator.sandbox.repository": "a server of its own; the demo starts it beside others",
    "federator.cli.files.objects": (
        "creating objects from files; the demo is only its first user in time"
    ),
    "federator.embedded.auth.impersonation": (
        "one header family, beside the other ways to say who is calling"
    ),
    "federator.embedded.controllers.scheduling.diagnosis": (
        "pure wording; the scheduler is a loop with state"
    ),
    "federator.hub.records.deletion_budget": (
        "pure arithmetic with its own unit table; the cache is at its full length"
    ),
    "federator.hub.placing.pledges": "the only waiting between batches, read and tested by itself",
    "federator.member.expansion.listkeys": "pure, with its own table of keys; comparing is large",
    "federator.member.expansion.references": (
        "pure, with its own table of templates; expanding is a loop with state"
    ),
    "federator.hub.records.tombstones": (
        "a record that outlives a leader, in the room of the records"
    ),
    "federator.dashboard.pages": "the table of addresses, which every new page adds a module to",
    "federator.kinds.daemon.natives": "every kind expands in this file",
    "federator.kube.wire.paths": (
        "the grammar of URLs, pure and hostile-tested; the client only uses it"
    ),
    "federator.simulate.traces.openb": "one module per format of traces",
}
"""This list only gets shorter."""


def small_with_one_importer() -> set[str]:
    importers: dict[str, set[str]] = defaultdict(set)
    for name, others in imported().items():
        for other in others:
            importers[other].add(name)
    listed = {module for module, _ in main.COMMANDS.values()}
    listed |= {route.show.__module__ for route in pages.ROUTES}
    return {
        name
        for source in sources.all_sources()
        if source.path.name not in ("__init__.py", "__main__.py")
        and source.text.count("\n") < SMALL_MAX
        and (name := _dotted(source)) not in listed
        and len(importers[name]) <= 1
    }


def test_a_small_module_with_one_importer_has_a_reason() -> None:
    """A limit of lines a file tempts to cut files in two; what belongs together stays together."""
    assert small_with_one_importer() == set(SMALL_WITH_REASON)
