"""A part of the story of deploy/: training jobs, as Jobs and handed to operators. The members serve
the kinds of these and have no controllers for them.
"""

import functools

from tests.e2e import workloads
from tests.e2e.federations import Fleet, until

SPACE = ("-n", "feed")
GROUPS = "podgroups.scheduling.k8s.io"
TARGETS = {"jobset": "JobSet", "trainjob": "TrainJob"}


def tell(fleet: Fleet) -> None:
    _a_gang_comes_and_goes(fleet)
    _gangs_are_handed_over(fleet)


def _a_gang_comes_and_goes(fleet: Fleet) -> None:
    """All its pods in one member, bound together, with a claim; an edit reaches its slice there."""
    fleet.host("apply", "-f", fleet.manifest(workloads.training("ranker", "feed", project="feed")))
    fleet.host("wait", "--for=jsonpath={.status.running}=3", "ptj/ranker", *SPACE, "--timeout=90s")
    (member,) = fleet.spread("ptj", "feed", "ranker")
    claims = fleet.members[member].items("pvc", *SPACE)
    assert "ranker-checkpoint" in [claim["metadata"]["name"] for claim in claims]
    (group,) = fleet.members[member].items(GROUPS, *SPACE)
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert "gang-safe" not in fleet.federator("explain", "ptj/ranker", *SPACE)
    patch = '{"spec":{"gangTimeoutSeconds":900}}'
    fleet.host("patch", "ptj", "ranker", *SPACE, "--type=merge", "-p", patch)
    until(
        lambda: all(
            obj["spec"]["gangTimeoutSeconds"] == 900
            for obj in fleet.spread("ptj", "feed", "ranker").values()
        ),
        lambda: "the edit of the training job has not reached its member",
    )
    fleet.host("delete", "ptj", "ranker", *SPACE)
    until(
        lambda: not fleet.spread("ptj", "feed", "ranker"),
        lambda: "a member still has the training job",
    )
    until(
        lambda: not fleet.members[member].items(GROUPS, *SPACE),
        lambda: "a member still has its PodGroup",
    )


def _gangs_are_handed_over(fleet: Fleet) -> None:
    """Each becomes the object that it asks for, and goes with it."""
    for plural, target in TARGETS.items():
        name = f"by-{plural}"
        made = workloads.training(name, "feed", project="feed", target=target)
        fleet.host("apply", "-f", fleet.manifest(made))
        held = functools.partial(fleet.spread, plural, "feed", name)
        until(lambda: bool(held()), lambda: "no member has what it becomes")  # noqa: B023
        fleet.host("delete", "ptj", name, *SPACE)
        until(lambda: not held(), lambda: "a member still has what it became")  # noqa: B023
