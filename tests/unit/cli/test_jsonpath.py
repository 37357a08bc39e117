"""Templates of `-o jsonpath=`: what they print, and what is wrong with one that cannot be read."""

import re
from typing import Any

import pytest

from federator.cli import jsonpath

LISTED: dict[str, Any] = {
    "items": [
        {
            "metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}},
            "status": {
                "ready": 3,
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Placed", "on": True}],
            },
        },
        {"metadata": {"name": "b"}, "status": {"ready": 10, "text": "<1 & 2>"}},
    ]
}


def rendered(template: str) -> str:
    return jsonpath.render(jsonpath.parse(template), LISTED)


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("{.items[*].metadata.name}", "a b"),
        ("{$.items[*].metadata.name}", "a b"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.ready}{"\\n"}{end}', "a\t3\nb\t10\n"),
        ("{range .items[*]}{range .status.conditions[*]}{.type},{end};{end}", "Ready,Placed,;;"),
        (r"{.items[0].metadata.labels.app\.kubernetes\.io/name}", "x"),
        ("{.items[0]['metadata'].labels['app.kubernetes.io/name']}", "x"),
        ('{.items[?(@.metadata.name=="b")].status.ready}', "10"),
        ("{.items[?(@.status.ready>3)].metadata.name}", "b"),
        ("{.items[?(@.status.conditions)].metadata.name}", "a"),
        ('{.items[0].status.conditions[?(@.type=="Ready")].status}', "True"),
        ("{.items[0].status.conditions[?(@.on==true)].type}", "Placed"),
        ("{..name}", "a b"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[0:1].metadata.name}", "a"),
        ("{.items[0,1].metadata.name}", "a b"),
        ("{.items[0].metadata}", '{"labels":{"app.kubernetes.io/name":"x"},"name":"a"}'),
        (
            "{.items[1].status.text} {.items[1].status}",
            '<1 & 2> {"ready":10,"text":"\\u003c1 \\u0026 2\\u003e"}',
        ),
        ("{.items[0].status.conditions[1].on}", "true"),
        ("x{.nope.at.all}y", "xy"),
        ("no braces", "no braces"),
        ('{"}"}{\'quoted "text"\'}', '}quoted "text"'),
        ("", ""),
    ],
)
def test_a_template_prints_what_its_paths_lead_to(template: str, printed: str) -> None:
    assert rendered(template) == printed


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{.items", "not closed"),
        ("{range .items[*]}{.a}", "{range} without {end}"),
        ("{.a}{end}", "{end} without {range}"),
        ("{.items[x]}", "no index, slice or quoted name"),
        ("{.items[?(@.a==1}", "not closed"),
        ("{items}", "begins with a dot"),
        ("{.items[0:1:0]}", "step 0"),
        ("{.items[7]}", "out of bounds: index 7, length 2"),
        ("{.items[0][0]}", "needs a list"),
        ("{.items[0].metadata[?(@.a)]}", "only a list can be filtered"),
        ('{.items[?(@.status.ready>"3")]}', "different types"),
    ],
)
def test_a_template_that_does_not_fit_says_why(template: str, why: str) -> None:
    with pytest.raises(jsonpath.BadTemplate, match=re.escape(why)):
        rendered(template)
