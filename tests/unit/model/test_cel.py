"""CEL over clusters: what is refused, where, and what the rest means."""

import contextlib
import string
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.cel import checking, evaluating
from federator.model.cel.checking import InvalidExpression
from federator.model.fleet import Capacity, ClusterView, NodeRow
from federator.model.resources import Resources
from federator.model.terms import Stated

NODE: Final = Resources({"cpu": 8000, "memory": 32 << 30, "nvidia.com/gpu": 4, "pods": 100})
FREE: Final = Resources({"cpu": 2500, "memory": 8 << 30, "nvidia.com/gpu": 1, "pods": 90})
VIEW: Final = ClusterView(
    "east",
    labels={"zone": "a", "example.com/pool": "spot"},
    capacity=Capacity((NodeRow(3, NODE, FREE), NodeRow(1, NODE, NODE))),
    stated=Stated("v1.36.2-gke.4", {"network": "100"}, "2.5", 1_700_000_000.0),
)


@pytest.mark.parametrize(
    ("source", "column", "why"),
    [
        ("cluster.prize < 4.0", 9, "unknown name prize: cluster has"),
        ("cluster.price < 4.0 || clutser.price < 1.0", 24, "unknown name clutser"),
        ("cluster.cpu.fre > 1", 13, "unknown name fre: cluster.cpu has free"),
        ("cluster.price < ", 17, "syntax error: expected a value, found the end"),
        ("cluster.price < 4.0)", 20, "syntax error"),
        ("cluster.price < 'x", 17, "syntax error"),
        ("cluster.price < '4'", 17, "a double cannot be compared with a string"),
        ("cluster.version > '1.36'", 19, "semver"),
        ("cluster.version > semver('new')", 26, "'new' is no version"),
        ("cluster.cpu.free > quantity('x')", 29, "'x' is no quantity"),
        ("cluster.price", 1, "must be a bool"),
        ("cluster.cpu == 1", 16, "the group cluster.cpu cannot be compared"),
        ("cluster.price && true", 1, "an operand of && must be a bool"),
        ("!cluster.price", 2, "an operand of ! must be a bool"),
        ("cluster.nodes % 2 == 0", 17, "% needs numbers of one type: write 2.0 for 2"),
        ("cluster.nodes % 2.0 == 0", 1, "% needs whole numbers"),
        ("cluster.price * 2 > 1.0", 17, "write 2.0 for 2"),
        ("cluster.labels.all(k, cluster.labels.exists(m, m == k))", 38, "costs too much"),
        ("cluster.labels.map(k, k) == []", 16, "unknown function map"),
        ("timestamp('x') == timestamp('x')", 1, "unknown function timestamp"),
        ("has(cluster)", 1, "has takes a field"),
        ("cluster.name.matches('(')", 22, "is no regular expression"),
        ("cluster.name in cluster.price", 17, "in needs a list or a map"),
        ("[1, 'a'] == [1, 'a']", 5, "every entry of a list"),
        ("cluster.name == 'a\\q'", 17, "unknown escape"),
        ("true ? 1 : 'a'", 12, "make them equal"),
        ("(" * 40 + "true" + ")" * 40, 26, "at most 24 levels"),
        ("true" + " " * 1021, 1025, "at most 1024 characters"),
        ("9223372036854775808 > 1", 1, "63 bits"),
    ],
)
def test_what_is_wrong_is_refused_with_its_column(source: str, column: int, why: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        checking.check(source)
    assert (refused.value.column, why in str(refused.value)) == (column, True), refused.value


@pytest.mark.parametrize(
    "source",
    [
        "cluster.name == 'east'",
        "cluster.name in ['west', \"east\"]",
        "'zone' in cluster.labels && !('region' in cluster.labels)",
        "cluster.labels.zone == 'a' && cluster.labels['example.com/pool'] == 'spot'",
        "cluster.version >= semver('1.36.2-gke.3') && cluster.version < semver('1.36.2')",
        "cluster.version > semver('v1.9') && cluster.version != semver('1.36.2-gke.10')",
        "cluster.version < semver('1.36.2-gke.10')",
        "cluster.price < 4.0 && cluster.price >= 2 && cluster.price * 2.0 == 5.0",
        "cluster.cpu.free == 15.5 && cluster.cpu.total == 32.0",
        "cluster.cpu.nodeFree == 8 && cluster.cpu.nodeTotal == 8",
        "cluster.memory.free == quantity('56Gi') && cluster.memory.total == quantity('128Gi')",
        "cluster.gpu.free > 6 && cluster.gpu.free < 8 && cluster.nodes == 4",
        "cluster.freeShare > 0.4 && cluster.freeShare < 0.5",
        "cluster.created == 1700000000.0",
        "double(cluster.properties.network) > 99.5 && int(cluster.properties.network) % 7 == 2",
        "has(cluster.price) && has(cluster.labels.zone) && !has(cluster.labels.region)",
        "cluster.name.startsWith('ea') && cluster.name.endsWith('st')",
        "cluster.name.contains('as') && cluster.name.matches('^e.*t$')",
        "size(cluster.labels) == 2 && cluster.name.size() == 4 && size([1, 2]) == 2",
        "cluster.labels.exists(k, k.startsWith('example.com/'))",
        "cluster.labels.all(k, cluster.labels[k] != '')",
        "['a', 'b'].exists(each, each == cluster.labels.zone)",
        "cluster.price > 4.0 ? false : -cluster.price < -1.0 // a comment",
        "cluster.price > 100.0 || cluster.price - 0.5 == 2.0 || cluster.price / 2.0 > 9.0",
        "'ea' + 'st' == cluster.name && 'it\\'s' != \"x\"",
    ],
)
def test_what_is_supported_means_what_cel_says(source: str) -> None:
    assert evaluating.holds(source, VIEW) is True
    assert evaluating.holds(f"!({source.partition(' //')[0]})", VIEW) is False


def test_an_expression_fails_for_a_cluster_that_lacks_what_it_reads() -> None:
    bare = ClusterView("bare")
    for source, why in (
        ("cluster.price < 4.0", "the cluster has no price"),
        ("cluster.labels.zone == 'a'", "the cluster has no zone"),
        ("cluster.cpu.free > 1 && cluster.gpu.free > 1", "no cpu.free, gpu.free"),
        ("1 / size(cluster.labels) == 1", "division by zero"),
        ("double(cluster.name) > 1.0", "invalid float literal"),
    ):
        with pytest.raises(evaluating.Unanswered, match=why):
            evaluating.holds(source, bare)


def test_what_an_expression_reads_says_whether_reports_matter() -> None:
    for source, reported in (
        ("cluster.price < 4.0 && cluster.labels.zone == 'a'", False),
        ("cluster.price < 4.0 || cluster.memory.nodeFree > 1", True),
    ):
        assert evaluating.reported(evaluating.checked(source)) is reported


WORDS: Final = st.sampled_from(
    [
        *("cluster", ".", "price", "cpu", "free", "labels", "zone", "'a'", "1", "2.0", "(", ")"),
        *("[", "]", "&&", "||", "!", "<", "==", "in", "+", "-", "?", ":", ",", "has", "semver"),
        *("exists", "true"),
    ]
)


@given(st.lists(WORDS, max_size=24).map(" ".join) | st.text(string.printable, max_size=60))
def test_every_text_is_refused_with_a_column_or_evaluated(source: str) -> None:
    refused: InvalidExpression | None = None
    try:
        checking.check(source)
    except InvalidExpression as why:
        refused = why
    if refused is not None:
        assert 1 <= refused.column <= len(source) + 2
        return
    with contextlib.suppress(evaluating.Unanswered):
        evaluating.holds(source, VIEW)
