"""The alerts of deploy/monitoring: each has a severity, an owner, a section of the runbook and
cases; what it reads exists; promtool and amtool accept rules, cases and routes."""

import re
from pathlib import Path

import pytest
import yaml

from tests.house.sources import ROOT
from tests.monitoring import programs, queries

ALERTS = {alert.name: alert for alert in queries.alerts()}
BASE = "https://federator.example/"


def test_there_is_an_alert_for_each_symptom() -> None:
    assert sorted(ALERTS) == [
        "FederatorBrakeOn",
        "FederatorClusterFails",
        "FederatorClusterLost",
        "FederatorCopiesNotReady",
        "FederatorCredentialEnds",
        "FederatorDecisionsFail",
        "FederatorDrillFails",
        "FederatorMemberSilent",
        "FederatorNoLeader",
        "FederatorQuotaNotCovered",
        "FederatorReconcileBudgetBurnsFast",
        "FederatorReconcileBudgetBurnsSlowly",
        "FederatorWatchBroken",
    ]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_severity_an_owner_texts_and_a_section_of_the_runbook(name: str) -> None:
    alert = ALERTS[name]
    assert alert.labels["severity"] in {"critical", "warning"}
    assert alert.labels.get("owner") == "platform" or "group_left (owner)" in alert.expr
    assert alert.annotations["summary"].endswith(".")
    assert alert.annotations["description"]
    link = alert.annotations["runbook_url"]
    assert link.startswith(BASE)
    page, _, section = link.removeprefix(BASE).partition("#")
    assert Path(page).parent == Path("docs/operating")
    assert section == name.lower()
    assert section in queries.anchors(ROOT / page)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(name: str) -> None:
    cases = yaml.safe_load(queries.CASES.read_text(encoding="utf-8"))["tests"]
    asked = [
        query
        for case in cases
        for query in case["promql_expr_test"]
        if any(re.search(rf'alertname=~?"{word}"', query["expr"]) for word in (name, r"\w+\.\*"))
    ]
    expected = [sample["labels"] for query in asked for sample in query.get("exp_samples", ())]
    named = [labels for labels in expected if f'alertname="{name}"' in labels]
    assert named, "no case expects it to fire"
    assert any("exp_samples" not in query for query in asked), "no case expects it not to"
    for label in re.findall(r"\$labels\.(\w+)", ALERTS[name].annotations["description"]):
        assert all(f"{label}=" in labels for labels in named), f"no label {label}"


@pytest.mark.parametrize(
    "rule", list(queries.rules()), ids=lambda rule: rule.get("alert", "record")
)
def test_what_a_rule_reads_is_published_with_these_labels(rule: dict[str, str]) -> None:
    assert list(queries.faults(rule["expr"])) == []
    records = {each["record"] for each in queries.rules() if "record" in each}
    assert set(re.findall(r"\bfederator:[\w:]+", rule["expr"])) <= records


@pytest.mark.parametrize(
    ("expr", "fault"),
    [
        ("federator_lost == 1", "there is no metric federator_lost"),
        ('federator_cluster_lost{name="a"}', "federator_cluster_lost has no label name"),
        ("max by (kind) (federator_cluster_lost)", "nothing here has the label kind"),
        ("federator_reconcile_seconds > 1", "there is no metric federator_reconcile_seconds"),
    ],
)
def test_a_query_for_what_is_not_published_is_a_fault(expr: str, fault: str) -> None:
    assert list(queries.faults(expr)) == [fault]


def test_promtool_accepts_the_rules_and_their_cases() -> None:
    status, output = programs.run("promtool", "check", "rules", str(queries.RULES))
    assert status == 0, output
    status, output = programs.run("promtool", "test", "rules", str(queries.CASES))
    assert status == 0, output


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (
            ") > 0\n      unless on (cluster) max by (cluster) (federator_cluster_lost) == 1",
            ") > 0",
        ),
        ("for: 15m", "for: 1m"),
        ('error!="Conflict"', 'error!=""'),
    ],
)
def test_the_cases_fail_for_a_changed_rule(tmp_path: Path, text: str, instead: str) -> None:
    rules = queries.RULES.read_text(encoding="utf-8")
    assert text in rules
    (tmp_path / "rules.yml").write_text(rules.replace(text, instead), encoding="utf-8")
    (tmp_path / "cases.yml").write_text(queries.CASES.read_text(encoding="utf-8"), "utf-8")
    status, output = programs.run("promtool", "test", "rules", "cases.yml", within=tmp_path)
    assert status == 1, output
    assert "FAILED" in output


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("owner=platform", "severity=critical"), "platform-pager"),
        (("owner=platform", "severity=warning"), "platform"),
        (("owner=ads", "severity=warning"), "ads"),
        (("owner=shop", "severity=critical"), "teams"),
    ],
)
def test_an_alert_goes_to_its_owner(labels: tuple[str, ...], receiver: str) -> None:
    routes = str(queries.HERE / "alertmanager.yml")
    status, output = programs.run(
        "amtool", "config", "routes", "test", f"--config.file={routes}", *labels
    )
    assert status == 0, output
    assert output.splitlines()[0] == receiver


def test_the_routes_name_alerts_that_exist_and_amtool_accepts_them() -> None:
    path = queries.HERE / "alertmanager.yml"
    named = set(re.findall(r"Federator\w+", path.read_text(encoding="utf-8")))
    assert named <= set(ALERTS)
    status, output = programs.run("amtool", "check-config", str(path))
    assert status == 0, output
