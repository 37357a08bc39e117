"""Hostile objects: well-formed, and wrong in type, unit, size, name or sense (F57, F58, F61-F63).

Each goes into `federator place` as a file and to the host's API. What a schema can see is refused
by both, with the field; what only placing sees is taken, and told in a condition.
"""

from dataclasses import dataclass
from typing import Any

from tests.hostile.table import Case
from tests.unit.cli.files import member, pjs, policy, psvc, quota

CPU = "spec.template.spec.containers[0].resources.requests.cpu"
RTL = "\u202e"
"""Right-to-left override: shows a text backwards."""


@dataclass(frozen=True)
class ObjectCase(Case):
    """`path` and `words` are what our own reader says."""

    api: str = ""
    """The path in the API's refusal where it is not `path`."""
    taken: str = ""
    """For what the schema of an API server cannot see: the words of the condition that says so."""


def cpu(amount: Any) -> dict[str, Any]:
    return psvc("evil", 1, cpu=amount)


def spec(**fields: Any) -> dict[str, Any]:
    obj = psvc("evil", 1)
    obj["spec"] |= fields
    return obj


def placed(**placement: Any) -> dict[str, Any]:
    return spec(placement=placement)


def named(name: str) -> dict[str, Any]:
    return psvc(name, 1)


def meta(**fields: Any) -> dict[str, Any]:
    obj = psvc("evil", 1)
    obj["metadata"] |= fields
    return obj


def cluster(name: str = "evil", status: Any = None, **fields: Any) -> dict[str, Any]:
    obj = {**member(name, **fields)}
    obj["status"] = status if status is not None else {}
    return obj


QUANTITIES: tuple[ObjectCase, ...] = tuple(
    ObjectCase(f"quantity {name}", "F57", cpu(amount), CPU, words, taken=taken)
    for name, amount, words, taken in (
        ("with an underscore", "1_000", "is not a quantity", ""),
        ("in Arabic digits", "١", "is not a quantity", ""),
        ("in fullwidth digits", "１", "is not a quantity", ""),
        ("with blanks within", "1 000", "is not a quantity", ""),
        ("with a unit in the middle", "1Ki1", "is not a quantity", ""),
        ("with a unit nobody knows", "1Kb", "is not a quantity", ""),
        ("of 5,000 digits", "9" * 5000, "", "at most 64 characters"),
        ("NaN", "NaN", "is not a quantity", ""),
        ("infinite", "Inf", "is not a quantity", ""),
        ("negative", "-1", "", "may not be negative"),
        ("1e400", "1e400", "", "exponent may be at most 63"),
        ("hexadecimal", "0x10", "is not a quantity", ""),
        ("empty", "", "is not a quantity", ""),
        ("with a line break at its end", "1\n", "is not a quantity", ""),
        ("as a boolean", True, "", ""),
        ("as a float", 0.5, "", ""),
        ("as a list", ["1"], "", ""),
    )
)

NUMBERS: tuple[ObjectCase, ...] = tuple(
    ObjectCase(f"replicas {name}", "F58", spec(replicas=value), "spec.replicas", words)
    for name, value, words in (
        ("as a text", "3", "not the text '3'"),
        ("as a boolean", True, "not true"),
        ("as a fraction", 1.5, "not the number 1.5"),
        ("negative", -1, "at least 0"),
        ("beyond what is counted", 1_000_001, "at most 1000000"),
        ("2^31", 2**31, "at most"),
        ("2^62", 2**62, "at most"),
        ("as a list", [1], "a list"),
    )
)

NAMES: tuple[ObjectCase, ...] = tuple(
    ObjectCase(f"name {name}", "F61", named(value), "metadata.name", words, api="name")
    for name, value, words in (
        ("of 53 characters", "w" * 53, "at most 52"),
        ("of 254 characters", "w" * 254, "at most"),
        ("of 100,000 characters", "w" * 100_000, "at most"),
        ("in capitals", "Web", "lower-case"),
        ("with a Cyrillic letter", "wеb", "lower-case"),
        ("with a right-to-left override", f"web{RTL}", "lower-case"),
        ("with a zero-width joiner", "we\u200db", "lower-case"),
        ("of two dots", "..", "lower-case"),
        ("with a slash", "../../etc", "lower-case"),
        ("with an encoded slash", "a%2fb", "lower-case"),
        ("with a line break at its end", "web\n", "lower-case"),
        ("beginning with a digit", "9web", "lower-case"),
        ("ending with a dash", "web-", "lower-case"),
        ("of an emoji", "\U0001f600", "lower-case"),
    )
)

METADATA: tuple[ObjectCase, ...] = (
    ObjectCase(
        "label of 64 characters",
        "F61",
        meta(labels={"a": "x" * 64}),
        "metadata.labels.a",
        "63",
        "metadata.labels",
    ),
    ObjectCase(
        "label with a line break",
        "F61",
        meta(labels={"a": "x\n"}),
        "metadata.labels.a",
        "",
        "metadata.labels",
    ),
    ObjectCase(
        "label with a right-to-left override",
        "F61",
        meta(labels={"a": f"x{RTL}"}),
        "metadata.labels.a",
        "",
        "metadata.labels",
    ),
    ObjectCase(
        "label as a number", "F58", meta(labels={"a": 1}), "metadata.labels.a", "text", "labels"
    ),
    ObjectCase(
        "label name of two slashes",
        "F61",
        meta(labels={"a/b/c": "x"}),
        "metadata.labels",
        "",
        "metadata.labels",
    ),
    ObjectCase(
        "annotations of 257 KiB",
        "F63",
        meta(annotations={"a": "x" * 263_168}),
        "metadata.annotations",
        "262144",
        "metadata.annotations",
    ),
    ObjectCase(
        "metadata nobody knows",
        "F58",
        meta(label={}),
        "metadata.label",
        "unknown field",
        "metadata.label",
    ),
    ObjectCase(
        "slice block on the host",
        "F52",
        spec(
            slice={
                "fleet": "federator",
                "workloadUID": "u",
                "originGeneration": 1,
                "cluster": "c",
                "seq": 1,
            }
        ),
        "spec.slice",
        "never on the host",
        taken="never on the host",
    ),
)

FIELDS: tuple[ObjectCase, ...] = (
    ObjectCase(
        "misspelt field", "F58", spec(replicaz=3), "spec.replicaz", "did you mean 'replicas'?"
    ),
    ObjectCase(
        "a hundred thousand unknown fields",
        "F60",
        lambda: spec(**{f"f{i}": i for i in range(100_000)}),
        "spec.f0",
        "unknown field",
    ),
    ObjectCase(
        "prototype pollution",
        "F58",
        spec(__proto__={"replicas": 9}),
        "spec.__proto__",
        "unknown field",
    ),
    ObjectCase("tier in another case", "F58", spec(tier="reserved"), "spec.tier", "Reserved"),
    ObjectCase(
        "tier with a look-alike letter", "F61", spec(tier="Rеserved"), "spec.tier", "Reserved"
    ),
    ObjectCase(
        "no template", "F58", {**psvc("evil"), "spec": {"replicas": 1}}, "spec.template", "required"
    ),
    ObjectCase("spec as a text", "F58", {**psvc("evil"), "spec": "x"}, "spec", "an object"),
    ObjectCase("spec as a list", "F58", {**psvc("evil"), "spec": []}, "spec", "an object"),
    ObjectCase(
        "two containers of one name",
        "F58",
        spec(template={"spec": {"containers": [{"name": "a", "image": "i"}] * 2}}),
        "spec.template.spec.containers[1]",
        "repeats",
    ),
    ObjectCase(
        "config file outside its directory",
        "F61",
        spec(config={"../../etc/passwd": "x"}),
        "spec.config.../../etc/passwd",
        "file name",
        taken="a valid config key must consist of",
    ),
    ObjectCase(
        "load balancer without its port",
        "F62",
        spec(loadBalancers=[{"port": 80}]),
        "spec",
        "must be one of service.ports",
    ),
    ObjectCase(
        "host name with a wildcard inside",
        "F61",
        spec(service={"ports": [{"port": 80}]}, loadBalancers=[{"port": 80, "host": "a.*.b"}]),
        "spec.loadBalancers[0].host",
        "form",
    ),
    ObjectCase("no shards", "F62", pjs("evil", 0), "spec.shards", "at least 1"),
    ObjectCase("too many shards", "F62", pjs("evil", 100_001), "spec.shards", "at most 100000"),
    ObjectCase(
        "execution that is unknown",
        "F62",
        pjs("evil", 1, execution="Once"),
        "spec.execution",
        "must be one of MayOverlap",
    ),
)

POLICIES: tuple[ObjectCase, ...] = (
    ObjectCase(
        "least above most",
        "F62",
        placed(division={"minPerCluster": 3, "maxPerCluster": 1}),
        "spec.placement.division",
        "minPerCluster",
    ),
    ObjectCase(
        "least above most in a policy",
        "F62",
        policy("evil", division={"minPerCluster": 3, "maxPerCluster": 1}),
        "spec.division",
        "minPerCluster",
    ),
    ObjectCase(
        "negative weight",
        "F62",
        policy(
            "evil", division={"strategy": "Weighted", "weights": [{"weight": -1, "names": ["a"]}]}
        ),
        "spec.division.weights[0].weight",
        "at least",
    ),
    ObjectCase(
        "no cluster allowed at most",
        "F62",
        policy("evil", division={"maxClusters": 0}),
        "spec.division.maxClusters",
        "at least 1",
    ),
    ObjectCase(
        "selector In without values, in a workload",
        "F62",
        placed(
            clusters={
                "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}
            }
        ),
        "spec.placement.clusters.selector.matchExpressions[0]",
        "values are needed",
    ),
    ObjectCase(
        "selector with an operator nobody knows",
        "F62",
        policy(
            "evil",
            clusters={
                "selector": {
                    "matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]
                }
            },
        ),
        "spec.clusters.selector.matchExpressions[0].operator",
        "",
    ),
    ObjectCase(
        "two groups of one name",
        "F62",
        policy(
            "evil",
            division={"groups": [{"name": "a", "names": ["a"]}, {"name": "a", "names": ["b"]}]},
        ),
        "spec.division.groups[1]",
        "repeats",
        "spec.division.groups",
    ),
    ObjectCase(
        "spread by the same label twice",
        "F62",
        policy("evil", spread=[{"topologyKey": "zone"}, {"topologyKey": "zone"}]),
        "spec.spread[1]",
        "repeats",
    ),
    ObjectCase(
        "name of a policy and its fields",
        "F62",
        placed(policyRef="a", partial="Allow"),
        "spec.placement",
        "exclude each other",
    ),
    ObjectCase(
        "strategy that is luck",
        "F62",
        placed(division={"strategy": "Luck"}),
        "spec.placement.division.strategy",
        "one of",
    ),
    ObjectCase(
        "toleration that tolerates nothing",
        "F62",
        placed(tolerations=[{"operator": "Equal"}]),
        "spec.placement.tolerations[0]",
        "",
        taken="All 1 replica have a place",
    ),
    ObjectCase(
        "ten thousand cluster names",
        "F60",
        policy("evil", clusters={"names": [f"c{i}" for i in range(10_000)]}),
        "spec.clusters.names",
        "at most",
    ),
    ObjectCase(
        "negative quota",
        "F57",
        quota("evil", Reserved={"max": {"cpu": "-1"}}),
        "spec.tiers.Reserved.max.cpu",
        "",
    ),
    ObjectCase(
        "quota of a tier nobody knows",
        "F62",
        quota("evil", reserved={}),
        "spec.tiers.reserved",
        "",
        "spec.tiers",
    ),
)

CLUSTERS: tuple[ObjectCase, ...] = (
    ObjectCase("usable above all", "F57", cluster(usable="101%"), "spec.usable", "form"),
    ObjectCase("usable that is no number", "F56", cluster(usable="NaN%"), "spec.usable", "form"),
    ObjectCase("usable with a line break", "F57", cluster(usable="90%\n"), "spec.usable", "form"),
    ObjectCase(
        "cluster name with a dot",
        "F61",
        cluster("a.b"),
        "metadata.name",
        "lower-case",
        "a cluster's name",
    ),
    ObjectCase(
        "cluster name of 64 characters",
        "F61",
        cluster("c" * 64),
        "metadata.name",
        "63",
        "a cluster's name",
    ),
    ObjectCase(
        "taint with an effect nobody knows",
        "F58",
        cluster(taints=[{"key": "a", "effect": "Explode"}]),
        "spec.taints[0].effect",
        "form",
    ),
    ObjectCase(
        "the same taint twice",
        "F58",
        cluster(taints=[{"key": "a", "effect": "NoSchedule"}] * 2),
        "spec.taints[1]",
        "repeats",
    ),
    ObjectCase(
        "secret of another namespace",
        "F61",
        cluster(credentials={"secretRef": {"name": "../kube-system/admin"}}),
        "spec.credentials.secretRef.name",
        "",
    ),
)


def capacity(**row: Any) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    return cluster(
        status={
            "capacity": {"nodes": [{"count": 1, "allocatable": amounts, "free": amounts} | row]}
        }
    )


FIGURES: tuple[ObjectCase, ...] = (
    ObjectCase(
        "negative number of nodes",
        "F56",
        capacity(count=-1),
        "status.capacity.nodes[0].count",
        "at least 0",
    ),
    ObjectCase(
        "a number of nodes beyond all",
        "F56",
        capacity(count=2**62),
        "status.capacity.nodes[0].count",
        "at most",
    ),
    ObjectCase(
        "free room that is no number",
        "F56",
        capacity(free={"cpu": "NaN"}),
        "status.capacity.nodes[0].free.cpu",
        "",
    ),
    ObjectCase(
        "free room of 1e400",
        "F56",
        capacity(free={"cpu": "1e400"}),
        "status.capacity.nodes[0].free.cpu",
        "",
    ),
    ObjectCase(
        "negative free room",
        "F56",
        capacity(free={"cpu": "-8"}),
        "status.capacity.nodes[0].free.cpu",
        "",
    ),
    ObjectCase(
        "negative copies",
        "F56",
        cluster(status={"capacity": {"copies": {"x": -3}}}),
        "status.capacity.copies.x",
        "at least 0",
    ),
    ObjectCase(
        "a seq beyond 64 bits",
        "F56",
        cluster(status={"capacity": {"includesSeq": -1}}),
        "status.capacity.includesSeq",
        "at least 0",
    ),
)
"""A file's; the API keeps the status of a new object to itself, so that they come by the member
there.
"""

OBJECTS = (*QUANTITIES, *NUMBERS, *NAMES, *METADATA, *FIELDS, *POLICIES, *CLUSTERS)
