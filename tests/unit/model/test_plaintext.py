"""The one sanitiser, and every border that has to pass through it."""

import io
import json
import logging
import random
import unicodedata
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from federator.advice import facts as facts_of
from federator.api import raw
from federator.api.placement import placementdecision
from federator.cli import common, explaining
from federator.embedded.server import EmbeddedCluster
from federator.hub.placing import offline
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.event_recorder import EventRecorder
from federator.model import plaintext
from federator.model.decision import Decision, Reason
from federator.model.names import WorkloadKey
from federator.model.steps import EmitEvent, ObjectRef
from federator.process import logs
from federator.status import conditions
from federator.status.conditions import Condition
from tests.running import leaving
from tests.unit.cli.files import member, psvc
from tests.unit.kube.scripted import on_virtual_time

HOSTILE = "\x1b[2Jgone\x07 \x9b31m \u202eevil\u2066 \u200b\u2028next\nforged  line\r\x7f \U000e0041"
"""Clears a screen, rings, colours (the C1 form too), turns the reading round, hides, breaks lines,
and tags.
"""


def is_safe(shown: str, keep: str = "") -> bool:
    return all(
        one in keep or unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        for one in shown
    )


@given(st.text())
def test_nothing_that_is_shown_is_obeyed_by_a_terminal(text: str) -> None:
    shown = plaintext.visible(text)
    assert is_safe(shown)
    assert plaintext.visible(shown) == shown


@given(st.text(st.characters(categories=("L", "N", "P", "S", "M", "Zs")), max_size=60))
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert plaintext.visible(text) == text


@given(st.text(), st.integers(4, 40))
def test_what_is_clipped_is_short_and_safe(text: str, limit: int) -> None:
    shown = plaintext.clipped(text, limit)
    assert len(shown) <= limit
    assert is_safe(shown)


def test_cells_of_a_table_are_one_line_each_and_stay_aligned() -> None:
    shown = common.table(["NAME", "SAYS"], [["web", HOSTILE], ["longer-name", "ok"]])
    lines = shown.split("\n")
    assert len(lines) == 3
    assert all(is_safe(line) for line in lines)
    assert lines[1].index("\\u001b") == lines[2].index("ok")


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_structured_output_is_safe_and_keeps_the_value(output: str) -> None:
    value = {"says": HOSTILE, HOSTILE: ["\u202ea", "two\nlines", "plain"]}
    shown = common.dump(value, output)
    assert is_safe(shown, keep="\n")
    assert (json.loads(shown) if output == "json" else yaml.safe_load(shown)) == value


def test_lines_and_errors_of_commands_are_safe(capsys: pytest.CaptureFixture[str]) -> None:
    common.say(HOSTILE)
    common.show(f"a\n{HOSTILE}")
    with pytest.raises(SystemExit):
        common.fail(HOSTILE)
    out, err = capsys.readouterr()
    assert out.count("\n") == 4  # one for the line; two in the block, and its end
    assert is_safe(out, keep="\n")
    assert err.count("\n") == 1
    assert is_safe(err.rstrip("\n"))


def test_explain_shows_what_a_tenant_or_a_member_wrote_within_its_line() -> None:
    workload: dict[str, Any] = psvc("web", replicas=2)
    workload["status"] = {
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Waiting", "message": f"x{HOSTILE}"}
        ]
    }
    clean = {
        **workload,
        "status": {"conditions": [{**workload["status"]["conditions"][0], "message": "x"}]},
    }
    texts = []
    for obj in (workload, clean):
        situation = offline.read([obj, member("one")], as_of=1_790_000_000.0)
        (seen,) = situation.workloads.values()
        texts.append(explaining.text(facts_of.facts(obj, situation, seen)))
    assert is_safe(texts[0], keep="\n")
    assert texts[0].count("\n") == texts[1].count("\n")


def test_decisions_are_safe() -> None:
    key = WorkloadKey("PinterestService", "a", "web")
    decision = Decision(
        key, "uid", 1, (), 1, Reason.CHOSEN, HOSTILE, (), 0.0, "0" * 16, violations=(HOSTILE,)
    )
    spec = placementdecision.to_spec(decision, [HOSTILE])
    assert is_safe(spec["message"])
    assert is_safe(spec["causes"][0])
    assert is_safe(spec["violations"][0])


@on_virtual_time
async def test_notes_of_events_are_safe() -> None:
    clock = Clock(1_700_000_000.0)
    cluster = EmbeddedCluster("host", clock=clock, rng=random.Random(1), controllers=False)
    about = ObjectRef("v1", "namespaces", "", "default", "Namespace")
    recorder = EventRecorder(Client(cluster.transport(), "host"), clock=clock)
    told = await recorder.record(EmitEvent(about, "a-uid", "Odd", HOSTILE))
    assert told is not None
    assert is_safe(told["note"])


def test_conditions_and_sentences_of_members_are_safe() -> None:
    (condition,) = conditions.merge(
        None, [Condition("Ready", "False", "New", HOSTILE)], "2026-01-01T00:00:00Z"
    )
    assert is_safe(condition["message"])
    assert is_safe(raw.sentence({"message": HOSTILE}, "message"))


@pytest.mark.parametrize("style", ["json", "console"])
def test_logs_are_one_safe_line_for_each_record(style: logs.Style) -> None:
    out = io.StringIO()
    with leaving.put_back():
        logs.configure("INFO", style, out)
        logging.getLogger("federator.test").info("the member says %s", HOSTILE)
    assert out.getvalue().count("\n") == 1
    assert is_safe(out.getvalue().rstrip("\n"))


@given(st.text(max_size=40), st.sampled_from(["", "\n", "\n\t"]))
def test_text_that_python_calls_printable_needs_no_escape(text: str, keep: str) -> None:
    slowly = "".join(
        char if char in keep or not plaintext.unsafe(char) else plaintext.escaped(char)
        for char in text
    )

    assert plaintext.visible(text, keep=keep) == slowly
