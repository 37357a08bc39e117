"""What `federator explain` shows of clusters that are not heard."""

from federator.cli import explaining
from tests.unit.cli.files import member, psvc
from tests.unit.cli.test_explaining import facts, with_status


def test_ready_of_the_headline_is_the_sum_of_the_table_while_a_cluster_is_not_heard() -> None:
    rows = [
        {"cluster": "a", "ready": 2},
        {"cluster": "b", "ready": 1, "reason": "ClusterUnknown", "message": "It is not heard."},
    ]
    reported = with_status(psvc(), ready=2, unknownReplicas=1, clusterStatuses=rows)
    found = facts(reported, member("a"), member("b"))

    assert "ready 2  unknown 1" in explaining.first_line(found)
    assert sum(one["ready"] or 0 for one in found["clusters"]) == 2
    (line,) = (line for line in explaining.text(found).splitlines() if line.startswith("b "))
    assert "unknown (was 1)" in line
