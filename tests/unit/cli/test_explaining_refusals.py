"""What `federator explain` prints once, and which clusters it takes for meant."""

from federator.cli import explaining
from tests.unit.cli.files import member, policy, psvc, quota
from tests.unit.cli.test_explaining import facts, row, with_status


def test_a_project_without_an_account_is_refused_once_with_commands_to_copy() -> None:
    message = facts(psvc(), member("a"), member("b"), quota("ads"))["message"]
    ready = {"type": "Ready", "status": "False", "reason": "NotAllowed", "message": f"{message}."}
    found = facts(with_status(psvc(), conditions=[ready]), member("a"), member("b"), quota("ads"))
    text = explaining.text(found)

    assert text.count("no FederatedQuota has project feed") == 1
    assert "  Ready=False (NotAllowed)" in text.splitlines()
    assert "  a: could take 8 copies, but for the reason above" in text
    quoted = '{"apiVersion":"federation.pinterest.com/v1alpha1","kind":"FederatedQuota",'
    quoted += '"metadata":{"name":"feed"},"spec":{"projects":["feed"]}}'
    assert f"    echo '{quoted}' | kubectl create -f -" in text.splitlines()
    allowed = """kubectl patch federatedquota ads --type merge -p '{"spec":{"unknownProjects":"Allow"}}'"""
    assert f"    {allowed}" in text.splitlines()


def test_a_cluster_that_the_selector_does_not_admit_is_not_meant() -> None:
    chosen = policy(
        clusters={"names": ["us-wset"], "selector": {"matchLabels": {"zone": "us-east"}}}
    )
    found = facts(psvc(), member("us-west"), member("us-east"), chosen)
    excluded = policy(clusters={"names": ["us-wset"], "exclude": ["us-west"]})

    assert "us-west is" not in " ".join(found["warnings"])
    assert "us-west is" not in " ".join(facts(psvc(), member("us-west"), excluded)["warnings"])
    plain = facts(psvc(), member("us-west"), policy(clusters={"names": ["us-wset"]}))
    assert "us-west is" in " ".join(plain["warnings"])


def test_what_a_cluster_does_not_allow_is_mended_there() -> None:
    closed = member("a")
    closed["spec"]["projects"] = ["others"]
    found = facts(psvc(), closed)

    assert row(found, "a")["fix"].startswith("a takes project feed: kubectl patch membercluster a ")


def test_no_cluster_is_to_be_chosen_for_a_service_that_has_all_its_copies() -> None:
    chosen = policy(clusters={"names": ["a"]})
    assert "fix" not in row(facts(psvc(), member("a"), member("b"), chosen), "b")


def test_no_cluster_is_to_be_opened_where_an_account_refuses() -> None:
    chosen = policy(clusters={"names": ["a"]})
    clusters = member("a"), member("b"), member("c", cordoned=True)
    for account in (quota(OnDemand={"max": {"cpu": "2"}}), quota("ads")):
        found = facts(psvc(replicas=12), *clusters, chosen, account)
        assert found["missing"]
        assert found["remedies"]
        assert not any("fix" in one for one in found["clusters"])


def test_a_fix_outside_the_namespace_is_said_to_be_an_operators() -> None:
    limit = quota(OnDemand={"max": {"cpu": "3"}})
    lines = explaining.text(facts(psvc(), member("a"), limit)).splitlines()

    raised = "  FederatedQuota feed tiers.OnDemand.max.cpu 3 -> 4 (+1), an operator's to run"
    assert raised in lines
    assert "  cpu request of container main 1 -> 750m (+1)" in lines
