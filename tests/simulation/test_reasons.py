"""The table of reasons has every reason that the product's sources can give, and a run counts
them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from federator.kinds import registry
from tests.simulation import reasons, tally
from tests.simulation.tally import CAMPAIGN, Outcome

ROOT = Path(__file__).parents[2] / "federator"
SOURCES = (
    *sorted((ROOT / "status").glob("*.py")),
    *sorted((ROOT / "hub").glob("*.py")),
    *sorted((ROOT / "member").glob("*.py")),
    ROOT / "model" / "decision.py",
)
WORD = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+|APINotAvailable")
NO_REASONS = (
    frozenset({"SelfSubjectAccessReview", "JobSet", "TrainJob", "CronJob"})
    | frozenset(registry.KINDS)
    | {
        *(
            "ClockSynced",
            "SlicesKnown",
            "CredentialsRenewed",
            "SpreadViolated",
            "QuotaUnlimited",
            "ProjectRefused",
            "Reclaiming",
            "ProfileHeldBack",
            "RuntimePinned",
            "MovesWithoutRoom",
            "DisruptionTarget",
            "PreemptionByScheduler",
            "DecisionRefused",
            "GraceOver",
            "PodScheduled",
            "LoadBalancer",
            "InForce",
        ),
        *(
            "ConfigMap",
            "StatefulSet",
            "ServiceAccount",
            "PersistentVolumeClaim",
            "PriorityClass",
            "ReplicaSet",
            "DaemonSet",
            "SelfSubjectAccessReview",
            "SubjectAccessReview",
            "ValidatingAdmissionPolicyBinding",
        ),
        *("NotIn", "DoesNotExist", "SuccessCriteriaMet", "ReplicaFailure"),
        *(
            "InvalidImageName",
            "ErrImagePull",
            "ImagePullBackOff",
            "ErrImageNeverPull",
            "ImageInspectError",
        ),
        *(
            "RegistryUnavailable",
            "CreateContainerConfigError",
            "CreateContainerError",
            "RunContainerError",
        ),
        *("PostStartHookError", "CrashLoopBackOff", "FailedMount"),
        "RoomReclamation",
        "FailoverBuffer",
        "ResolvedRefs",
        "ServiceExport",
    }
)
"""Types of conditions and of ours, kinds, operators, what a kubelet says, and the right by which a
workload was preempted: words of the same shape, no reasons.
"""


def _words() -> Iterator[tuple[str, str]]:
    """(word, where) of every string in the sources that looks like a reason."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and WORD.fullmatch(node.value)
            ):
                yield node.value, f"{path.name}:{node.lineno}"


def test_every_word_of_the_sources_that_looks_like_a_reason_is_in_the_table() -> None:
    known = {name.partition(": ")[2] for name in reasons.EVERY} | NO_REASONS

    assert not {where: word for word, where in _words() if word not in known}


def test_what_is_expected_and_what_is_not_are_the_whole_table() -> None:
    assert not sorted(reasons.ELSEWHERE.keys() - reasons.EVERY)
    assert all(why.endswith(".") for why in reasons.ELSEWHERE.values())


def test_a_reason_counts_in_its_place_and_a_borrowed_one_once_for_all() -> None:
    conditions = [
        {"type": "Ready", "reason": "CrashLooping"},
        {"type": "Placed", "reason": "Placed"},
    ]
    obj = {"status": {"conditions": conditions}}

    assert list(reasons.spoken("PinterestService", "host", None, obj)) == [
        "anywhere: CrashLooping",
        "workload Placed: Placed",
    ]
    assert not list(reasons.spoken("PinterestService", "host", obj, obj)), "nothing new was said"
    decided = {"spec": {"reason": "Chosen", "verdicts": {"rejected": [{"reason": "Cordoned"}]}}}
    assert list(reasons.spoken("PlacementDecision", "host", None, decided)) == [
        "anywhere: Chosen",
        "anywhere: Cordoned",
    ]


def test_a_reason_that_never_appeared_is_named_once_there_were_seeds_enough() -> None:
    first = min(reasons.EXPECTED)
    few = [Outcome(seed, reasons={first: 1}) for seed in range(CAMPAIGN - 1)]

    assert tally.never_appeared(few) == []
    assert tally.never_appeared([*few, Outcome(CAMPAIGN)]) == sorted(reasons.EXPECTED - {first})
    assert tally.in_no_table([Outcome(0, reasons={"workload Ready: Bewitched": 1})]) == [
        "workload Ready: Bewitched"
    ]
