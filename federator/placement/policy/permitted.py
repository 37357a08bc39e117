"""Whether a workload's pods may run at all, on any cluster: by the Pod Security level of its
namespace, and by the lists of its project's FederatedQuotas.

Pure. Checked before clusters are filtered, and again before anything is written in a member. A
refused workload keeps what runs, unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from federator.model import names
from federator.model.accounts import QuotaAccount
from federator.model.ask import NO_PRIVILEGES, Ask
from federator.model.decision import Reason
from federator.model.kubernetes import pod_security
from federator.model.kubernetes.accountlists import any_matches
from federator.model.kubernetes.pod_security import Level
from federator.placement.quota import quota


@dataclass(frozen=True, slots=True)
class NotPermitted:
    """Why a workload may not run as it is written; `message` begins with the path of the field."""

    reason: Reason
    message: str


def refusal(
    ask: Ask, levels: Mapping[str, Level], quotas: Iterable[QuotaAccount]
) -> NotPermitted | None:
    """Why the workload may not run; None when it may. `levels` and `quotas` as in a
    FleetSnapshot.
    """
    if names.is_system_namespace(ask.key.namespace):
        message = (
            f"metadata.namespace: is {ask.key.namespace}, which is the cluster's own; use "
            "another one"
        )
        return NotPermitted(Reason.POD_SECURITY_VIOLATION, message)
    if ask.privileges is NO_PRIVILEGES or ask.privileges == NO_PRIVILEGES:
        return None
    level = levels.get(ask.key.namespace, pod_security.DEFAULT)
    return _by_level(ask, level) or next(_by_lists(ask, quotas), None)


def _by_level(ask: Ask, level: Level) -> NotPermitted | None:
    if level is Level.PRIVILEGED:
        return None
    violation = ask.privileges.restricted if level is Level.RESTRICTED else ask.privileges.baseline
    where = f"namespace {ask.key.namespace} has the Pod Security level {level}"
    if violation:
        return NotPermitted(Reason.POD_SECURITY_VIOLATION, f"{violation}; {where}")
    if ask.privileges.nodes:
        return NotPermitted(
            Reason.POD_SECURITY_VIOLATION, f"{ask.privileges.nodes}; {where}, not privileged"
        )
    return None


def _by_lists(ask: Ask, quotas: Iterable[QuotaAccount]) -> Iterator[NotPermitted]:
    """Every account that covers the project must list what is used. An account without a list lists
    nothing; a project that no account covers is not limited."""
    wanted = ask.privileges
    named = wanted.service_account or wanted.iam_role or wanted.priority_class
    opened = wanted.hosts or wanted.service_annotations or wanted.service_types
    if not (named or opened or wanted.grace):
        return
    template = "spec.template.spec"
    for account in quota.accounts_of(ask.project, quotas):
        for path, value, field, listed in (
            (
                f"{template}.serviceAccountName",
                wanted.service_account,
                "serviceAccounts",
                account.service_accounts,
            ),
            ("spec.iamRole", wanted.iam_role, "iamRoles", account.iam_roles),
            (
                f"{template}.priorityClassName",
                wanted.priority_class,
                "priorityClasses",
                account.priority_classes,
            ),
        ):
            if value and not any_matches(listed, value):
                yield NotPermitted(
                    Reason.IDENTITY_NOT_ALLOWED, _unlisted(path, value, field, listed, account)
                )
        for values, field, limits in (
            (wanted.hosts, "hosts", account.hosts),
            (wanted.service_annotations, "serviceAnnotations", account.service_annotations),
            (wanted.service_types, "serviceTypes", account.service_types),
        ):
            for path, value in values if limits is not None else ():
                if not any_matches(limits or (), value):
                    yield NotPermitted(
                        Reason.IDENTITY_NOT_ALLOWED,
                        _unlisted(path, value, field, limits or (), account),
                    )
        if too_long := _too_long(wanted.grace, account):
            yield NotPermitted(Reason.IDENTITY_NOT_ALLOWED, too_long)


def _too_long(grace: tuple[str, int] | None, account: QuotaAccount) -> str:
    """Why pods may not take so long to end, as a sentence; "" when they may."""
    if grace is None or account.max_grace_s is None or grace[1] <= account.max_grace_s:
        return ""
    path, seconds = grace
    return (
        f"{path}: is {seconds}; FederatedQuota {account.name} allows its projects at most"
        f" {account.max_grace_s} seconds (spec.maxTerminationGracePeriodSeconds)"
    )


def taken(path: str, host: str, other: str) -> NotPermitted:
    """A host name that another namespace had first, or that overlaps `other`, which it had. The
    message does not name the workload."""
    what = "every host (a door without a host)" if host == "*" else host
    overlaps = f"which overlaps {other}, " if other != host else ""
    return NotPermitted(
        Reason.IDENTITY_NOT_ALLOWED,
        f"{path}: is {what}, {overlaps}which a workload of another namespace had first; choose"
        " another name, or have that workload give it up",
    )


def _unlisted(
    path: str, value: str, field: str, listed: tuple[str, ...], account: QuotaAccount
) -> str:
    allowed = f"only {', '.join(listed)}"[:300] if listed else "none"
    return (
        f"{path}: is {value}; FederatedQuota {account.name} allows its projects {allowed} "
        f"(spec.{field})"
    )
