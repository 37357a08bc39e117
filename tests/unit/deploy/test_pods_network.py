"""The NetworkPolicy of namespaces with pods closes the port of the sidecar, and no other."""

from pathlib import Path

import pytest
import yaml

from federator.runtime import running

POLICY = yaml.safe_load((Path(__file__).parents[3] / "deploy/pods/network.yaml").read_text("utf-8"))


def test_it_is_about_all_pods_and_what_comes_in() -> None:
    assert POLICY["kind"] == "NetworkPolicy"
    assert POLICY["spec"]["podSelector"] == {}
    assert POLICY["spec"]["policyTypes"] == ["Ingress"]


@pytest.mark.parametrize(
    ("protocol", "closed"), [("TCP", {running.PORT}), ("UDP", set()), ("SCTP", set())]
)
def test_every_port_but_that_of_the_sidecar_stays_open(protocol: str, closed: set[int]) -> None:
    (rule,) = POLICY["spec"]["ingress"]
    ranges = [
        range(each["port"], each["endPort"] + 1)
        for each in rule["ports"]
        if each["protocol"] == protocol
    ]

    assert rule.keys() == {"ports"}  # from anywhere
    assert set(range(1, 65536)) - {port for each in ranges for port in each} == closed
