"""What is told of one workload, from objects as the host would hold them."""

from federator.advice import facts
from federator.cli import explaining
from federator.hub.placing import offline
from federator.model.names import WorkloadKey
from tests.unit.cli.files import member, psvc, quota


def test_the_split_shows_what_a_domain_leaves_a_cluster() -> None:
    limits = quota(OnDemand={"max": {"cpu": "9"}})
    limits["spec"]["domains"] = [
        {
            "name": "west",
            "selector": {"matchLabels": {"zone": "west"}},
            "tiers": {"OnDemand": {"max": {"cpu": "2"}}},
        }
    ]
    web = psvc(replicas=3, project="feed", placement={"division": {"strategy": "Duplicate"}})
    host = offline.read([member("east"), member("west"), limits, web], as_of=1_790_000_000.0)

    told = facts.facts(web, host, host.workloads[WorkloadKey("PinterestService", "feed", "web")])

    assert {row["cluster"]: row["atMost"] for row in told["clusters"]} == {"east": 8, "west": 2}
    (line,) = (line for line in explaining.text(told).splitlines() if "  west: weight" in line)
    assert "at most 2 (spec.domains), gets 2" in line
