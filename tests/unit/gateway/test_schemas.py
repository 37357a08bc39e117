"""The schemas in docs/reference say what the gateway reads."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from federator.gateway.artifacts import statements, workflows
from federator.gateway.artifacts.ports import Reason
from tests.artifacts import made

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "config" / "examples" / "submission"


def _is_valid(name: str, value: Any) -> bool:
    schema = json.loads((ROOT / "docs" / "reference" / name).read_text(encoding="utf-8"))
    return jsonschema_rs.validator_for(schema).is_valid(value)


def test_the_example_of_a_workflow_is_valid_to_both() -> None:
    text = (EXAMPLES / "workflow.yaml").read_bytes()

    workflow = workflows.load(text)

    assert _is_valid("workflow.schema.json", yaml.safe_load(text))
    assert not _is_valid("workflow.schema.json", {**yaml.safe_load(text), "extra": 1})
    (service,), _ = workflows.render(workflow, {"image": "1.42"}, "ads")
    assert service["spec"]["replicas"] == 10


@pytest.mark.parametrize(
    ("changes", "valid"),
    [
        ({}, True),
        ({"approvals": []}, True),
        ({"authors": []}, False),
        ({"commit": "main"}, False),
        ({"force": True}, False),
        ({"authors": ["\u0430na@example.com"]}, False),
        ({"approvals": [{"by": "ben@example.com"}]}, False),
        ({"predicateType": "https://example.com/review"}, False),
    ],
)
def test_reviews_are_valid_to_both_or_to_none(changes: dict[str, Any], *, valid: bool) -> None:
    statement = made.review(**changes)

    assert _is_valid("review.schema.json", statement) is valid
    try:
        statements.review(statement["predicate"])
        read = statement["predicateType"] == statements.REVIEW
    except ValueError:
        read = False
    assert read is valid


def test_the_examples_of_predicates_are_read() -> None:
    built = statements.built(json.loads((EXAMPLES / "provenance.json").read_bytes()))
    review = statements.review(json.loads((EXAMPLES / "review.json").read_bytes()))

    assert (built.commit, built.repository) == (review.commit, review.repository)


def test_the_reasons_of_refusals_are_those_of_the_page_for_operators() -> None:
    page = (ROOT / "docs" / "operating" / "submission.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (\d{3}) \|", page, re.MULTILINE)
    told = {(name, int(status)) for names, status in rows for name in re.findall(r"\w+", names)}

    assert told == {(reason.title, reason.status) for reason in Reason}
