"""The examples of CI systems that submit: issuers that the gateway can read, and rights that fit
what it does. Their job is run by tests/e2e/test_gateway.py."""

import shlex

import yaml

from federator.gateway import issuers
from federator.gateway.platforms import federation
from federator.kinds import registry
from federator.kube.clock import Clock
from tests.e2e.test_documents import federator_parts, unknown
from tests.house.sources import ROOT

CI = ROOT / "config" / "examples" / "submission" / "ci"


def test_the_gateway_reads_the_issuers() -> None:
    found = list(issuers.load(str(CI / "issuers.yaml"), Clock(0.0)))

    assert len(found) == 2


def test_the_rights_are_those_of_the_kinds_that_are_submitted() -> None:
    role, binding = yaml.safe_load_all((CI / "rights.yaml").read_text())
    plurals = {
        registry.KINDS[kind].plural
        for kind in federation.KINDS
        if registry.KINDS[kind].group == "pinterest.com"
    }

    assert set(role["rules"][0]["resources"]) == plurals
    prefixes = [
        each["usernamePrefix"] for each in yaml.safe_load((CI / "issuers.yaml").read_text())
    ]
    names = [subject["name"] for subject in binding["subjects"]]
    assert [name.startswith(prefix) for name, prefix in zip(names, prefixes, strict=True)] == [
        True,
        True,
    ]


def test_the_job_of_github_calls_commands_that_exist() -> None:
    job = yaml.safe_load((CI / "github-actions.yml").read_text())["jobs"]["submit"]
    token, submit = (step["run"] for step in job["steps"])

    (words,) = federator_parts(submit)
    assert unknown(words) == ""
    assert shlex.split(submit)[1] == "submit"
    script = token.partition("token\n")[2].partition("\nPY")[0]
    compile(script, "token", "exec")
