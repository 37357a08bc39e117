"""A namespace that is being deleted takes nothing new: that is said as it is, and nobody has to
help.
"""

from federator.kube import errors
from federator.member.expansion import results
from federator.member.expansion.comparing import Plan
from federator.member.expansion.results import Result
from federator.status.verdict import STALLING_IN_MEMBER


def refused(*, ending: bool) -> errors.Denied:
    causes = ({"reason": "NamespaceTerminating", "field": "metadata.namespace"},) if ending else ()
    return errors.Denied("forbidden", status=403, reason="Forbidden", causes=causes)


def test_a_namespace_that_ends_is_told_from_a_refusal() -> None:
    key = ("Service", "feed", "web")
    judged = results.judge(Plan(), (), [(key, refused(ending=True))])
    (expanded,) = results.conditions_of(Result("uid", 1, judged, False))

    assert (expanded.status, expanded.reason) == ("False", "NamespaceTerminating")
    assert expanded.message == (
        "The namespace feed is being deleted; Service feed/web is made when the namespace is "
        "there again."
    )
    assert expanded.reason not in STALLING_IN_MEMBER
    assert judged.failure is not None
    assert not judged.final


def test_any_other_refusal_stays_one() -> None:
    judged = results.judge(Plan(), (), [(("Service", "feed", "web"), refused(ending=False))])

    assert judged.reason == results.FAILED
    assert judged.final
    assert not errors.ends_namespace(
        errors.NotFound("gone", causes=({"reason": "NamespaceTerminating"},))
    )
