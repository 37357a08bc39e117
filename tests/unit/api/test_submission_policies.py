"""SubmissionPolicy: what is refused when it is written, and what the gateway reads of it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.api import submissionpolicy
from federator.api.submissionpolicy import Mode, Statement
from federator.kinds import read
from tests.artifacts import made

EXAMPLE = Path(__file__).parents[3] / "config" / "examples" / "submission" / "policy.yaml"
KEY = {"name": "ci", "publicKey": made.key()[1]}


def test_the_example_is_valid_and_read_as_it_is_written() -> None:
    obj = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))

    read.check(obj)
    policy = submissionpolicy.to_policy(obj)

    assert (policy.name, policy.mode, policy.reviewers) == ("ads", Mode.ENFORCE, 1)
    assert policy.hosts["registry.example"].secret == "registry-ads"
    assert policy.hosts["artifacts.example"].secret == ""
    assert [key.statements for key in policy.keys] == [
        {Statement.PROVENANCE},
        {Statement.REVIEW},
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"sources": []}, "spec.sources: "),
        ({"sources": ["oci://*/ads"]}, "spec.sources[0]: '*' is not a host"),
        ({"sources": ["http://registry.example/ads"]}, "http is for addresses of this machine"),
        ({"sources": ["oci://0x7f.1/ads/*"]}, "is not an address in four numbers"),
        ({"projects": []}, "spec.projects: "),
        ({"registries": [{"host": "https://x"}]}, "spec.registries[0].host: "),
        ({"registries": [{"host": "x:99999"}]}, "has no port between 1 and 65535"),
        ({"provenance": {}}, "spec.provenance: Enforce needs a key in keys"),
        ({"provenance": {"mode": "enforce"}}, "spec.provenance.mode: "),
        (
            {"provenance": {"keys": [{**KEY, "statements": ["Provenance"]}]}},
            "Enforce needs a key in keys that may sign Review",
        ),
        (
            {"provenance": {"keys": [{"name": "ci", "publicKey": "hello"}]}},
            "spec.provenance.keys[0].publicKey: ",
        ),
        (
            {"provenance": {"keys": [{"name": "ci", "publicKey": made.key("p384")[1]}]}},
            "spec.provenance.keys[0].publicKey: is of a kind that is not accepted",
        ),
        (
            {"provenance": {"keys": [{"name": "ci", "publicKey": made.key("rsa1024")[1]}]}},
            "is an RSA key of 1024 bits",
        ),
        ({"provenance": {"keys": [KEY, KEY]}}, "spec.provenance.keys"),
        ({"provenance": {"keys": [KEY], "reviewers": 11}}, "spec.provenance.reviewers: "),
    ],
)
def test_a_policy_that_cannot_hold_is_refused_with_the_field(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(read.InvalidObject) as refusal:
        read.check(made.policy_object(**fields))

    assert problem in str(refusal.value)


@pytest.mark.parametrize("provenance", [{"mode": "Warn"}, {"mode": "Off"}])
def test_keys_are_needed_only_where_provenance_is_enforced(provenance: dict[str, Any]) -> None:
    read.check(made.policy_object(provenance=provenance))


def test_no_review_needs_no_key_for_reviews() -> None:
    keys = [{**KEY, "statements": ["Provenance"]}]

    read.check(made.policy_object(provenance={"keys": keys, "reviewers": 0}))
