"""The part of the deployed story about guarded job sets: the hub renews the lease of each of their
clusters, and the pods have guards.
"""

from typing import Any

from federator.kinds.jobset import guards
from federator.runtime import fencing
from tests.e2e import workloads
from tests.e2e.federations import Fleet, Shell, until

SPACE = ("-n", "feed")
LONG = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/run-seconds": "600"}


def tell(fleet: Fleet) -> None:
    """By the hub, which keeps a record of each on the host; the pods of both have a guard."""
    once = workloads.jobset("once", "feed", 12, 12)
    once["spec"] |= {"execution": "Exclusive", "guard": True}
    once["spec"]["template"]["metadata"] = {"annotations": LONG}
    fleet.host("apply", "-f", fleet.manifest(once))
    for name, shell in fleet.members.items():
        _renewed_twice(fleet.host, fencing.HOST_LEASE.format(cluster=name))
        _renewed_twice(shell, fencing.LEASE)
        made = [job for job in shell.items("jobs", *SPACE) if _called(job).startswith("once-")]
        assert made
        for job in made:
            steps = job["spec"]["template"]["spec"]["initContainers"]
            assert [step["name"] for step in steps] == list(guards.NAMES)
    fleet.host("delete", "pjs", "once", *SPACE)
    fleet.host("wait", "--for=delete", "pjs/once", *SPACE, "--timeout=90s")


def _renewed_twice(shell: Shell, lease: str) -> None:
    times = set[str]()

    def renewed() -> bool:
        for found in shell.items("leases", "-n", "federator-system"):
            if _called(found) == lease and "renewTime" in found["spec"]:
                times.add(found["spec"]["renewTime"])
        return len(times) > 1

    until(renewed, lambda: f"{lease} was renewed at {sorted(times)}")


def _called(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])
