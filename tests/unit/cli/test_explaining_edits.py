"""What `federator explain` advises where an edit is held back."""

from typing import Any

from federator.cli import explaining
from federator.hub.placing import offline
from tests.unit.cli.files import member, psvc, quota
from tests.unit.cli.test_explaining import of


def edited(before: dict[str, Any], after: dict[str, Any], *objs: dict[str, Any]) -> dict[str, Any]:
    """The facts on a service that was placed as it was, and is now edited."""
    for generation, one in enumerate((before, after), 1):
        one["metadata"] |= {"generation": generation, "uid": "u-web"}
    (pair,) = offline.read([before, *objs], as_of=0.0).decide_all()
    recorded = offline.as_object(*pair, "placed")
    return of(after, offline.read([after, *objs, recorded], as_of=1_790_000_000.0))


def test_an_edit_that_quota_refuses_gets_lines_that_admit_it() -> None:
    limit = quota(OnDemand={"max": {"cpu": "6"}})
    found = edited(psvc(), psvc(cpu="2"), member("a", 4), limit)
    changes = {one["change"]: one["commands"] for one in found["remedies"]}

    assert changes == {
        "FederatedQuota feed tiers.OnDemand.max.cpu 6 -> 8": [
            "kubectl patch federatedquota feed --type merge -p "
            """'{"spec":{"tiers":{"OnDemand":{"max":{"cpu":"8"}}}}}'"""
        ],
        "cpu request of container main 2 -> 1500m": [
            "kubectl patch pinterestservice web -n feed --type json -p "
            """'[{"op":"replace","path":"/spec/template/spec/containers/0/resources/requests/cpu","""
            """"value":"1500m"}]'"""
        ],
        "replicas 4 -> 3": [
            """kubectl patch pinterestservice web -n feed --type merge -p '{"spec":{"replicas":3}}'"""
        ],
    }
    lines = explaining.text(found).splitlines()
    at = lines.index("the edit is held back (QuotaExceeded)")
    assert lines[at + 1] == "each of these was tried by the engine and admits the edit:"
    assert "  FederatedQuota feed tiers.OnDemand.max.cpu 6 -> 8, an operator's to run" in lines[at:]


def test_an_edit_that_nothing_admits_says_what_was_tried() -> None:
    found = edited(psvc(), psvc(cpu="900"), member("a", 4))

    assert (found["reason"], found["missing"]) == ("InsufficientCapacity", 0)
    lines = explaining.text(found).splitlines()
    at = lines.index("the edit is held back (InsufficientCapacity)")
    assert lines[at + 1].startswith("  no change that was tried would admit the edit (")


def test_copies_that_an_admitted_edit_still_lacks_are_told() -> None:
    limit = quota(OnDemand={"max": {"cpu": "6"}})
    found = edited(psvc(), psvc(replicas=10, cpu="2"), member("a", 2), limit)

    lines = explaining.text(found).splitlines()
    assert "short by 6 (QuotaExceeded)" in lines
    raised = "  FederatedQuota feed tiers.OnDemand.max.cpu 6 -> 12 (4 still missing)"
    assert f"{raised}, an operator's to run" in lines
    assert "  cpu request of container main 2 -> 600m" in lines
    assert "  replicas 10 -> 3" in lines
