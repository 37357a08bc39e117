"""Checks that host and members are set up as docs/operating/hardening.md asks, in tables.

Run by `federator cluster check` with a user's rights, and by the hub at its start with its own. A
check changes nothing: it reads, sends an access review, or sends a dry run that must be refused.
What it may not read is reported as unknown, never as fine.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from federator.api import raw
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.metrics import Metrics
from federator.model.names import FLEET_LABEL
from federator.model.steps import ObjectRef

HOST_POLICIES: Final = (
    "federator-clusters",
    "federator-decisions",
    "federator-hub-writes",
    "federator-marks",
    "federator-namespace-levels",
    "federator-statuses",
)
"""ValidatingAdmissionPolicies of deploy/host/access, each with a binding of its name."""
MEMBER_POLICIES: Final = (
    "federator-accounts",
    "federator-carried",
    "federator-deployment-scales",
    "federator-levels",
    "federator-nodes",
    "federator-pods",
    "federator-priorities",
    "federator-scales",
    "federator-service-accounts",
    "federator-slice-statuses",
    "federator-slices",
    "federator-statefulset-scales",
)
"""The same for deploy/member."""
log = logging.getLogger(__name__)
GUIDE: Final = "docs/operating/hardening.md"
AT_ONCE: Final = 8
"""Members that are checked concurrently at the hub's start."""
DEADLINE_S: Final = 30.0
"""For all checks of one API server together."""
HUB_USER: Final = "system:serviceaccount:federator-system:federator-hub"
"""The hub's account, on the host and in every member."""
MEMBER_USER: Final = "system:serviceaccount:federator-system:federator-member"
"""The account of a member process, in its member."""
ADMISSION: Final = "admissionregistration.k8s.io/v1"
PROBE: Final = "federator-hardening-probe"
"""Name of the namespace in the dry run. It is never created."""
SPACES_MAX: Final = 20_000
"""Namespaces of one cluster that are checked."""


class Result(StrEnum):
    OK = "ok"
    WARNING = "WARNING"
    UNKNOWN = "unknown"
    """The caller may not read it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `subject` is the row of docs/operating/hardening.md."""

    subject: str
    result: Result
    message: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Subject of the checks. `account`: the service account that is checked, as
    `system:serviceaccount:NAMESPACE:NAME`; "" for the caller."""

    client: Client
    account: str = ""
    system_namespace: str = "federator-system"
    credentials_namespace: str = "federator-clusters"


Check = Callable[[Asked], Awaitable[Finding]]


async def host_policies(asked: Asked) -> Finding:
    return await _policies("admission on the host", asked, HOST_POLICIES, "deploy/host/access")


async def member_policies(asked: Asked) -> Finding:
    return await _policies("admission in the member", asked, MEMBER_POLICIES, "deploy/member")


async def foreign_writes(asked: Asked) -> Finding:
    """The hub cannot create a namespace without its owner label: a dry run of one must be
    refused."""
    subject = "admission in the member"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE}}
    try:
        await asked.client.create(
            ObjectRef("v1", "namespaces", "", PROBE, "Namespace"), body, dry_run=True
        )
    except errors.Denied:
        return Finding(subject, Result.OK, "refuses the hub what is not marked as the fleet's")
    message = f"lets the hub make a namespace without the label {FLEET_LABEL}: apply deploy/member"
    return Finding(subject, Result.WARNING, message)


async def host_rights(asked: Asked) -> Finding:
    return await _rights("rights of the hub on the host", asked)


async def member_rights(asked: Asked) -> Finding:
    return await _rights("rights of the hub in the member", asked)


async def process_rights(asked: Asked) -> Finding:
    subject = "rights of the member process"
    return await _rights(subject, replace(asked, account=MEMBER_USER), TOO_MUCH_OF_PROCESSES)


async def credentials(asked: Asked) -> Finding:
    """Members' Secrets are read by name, each with a right of its own: a stolen account of the hub
    cannot read others."""
    subject = "members' Secrets"
    for verb in ("list", "get", "create"):
        attributes = {"resource": "secrets", "verb": verb, "namespace": asked.credentials_namespace}
        if await may(asked, attributes):
            message = (
                f"the hub may {verb} any Secret in {asked.credentials_namespace}: `federator"
                " cluster grant --all`"
            )
            return Finding(subject, Result.WARNING, f"{message}, then delete the role that lets it")
    return Finding(subject, Result.OK, "the hub reads and renews them by name")


async def lasting_token(asked: Asked) -> Finding:
    """A token in a Secret never expires. The hub requests tokens that do, and renews them."""
    subject = "the hub's token"
    ref = ObjectRef("v1", "secrets", asked.system_namespace, "federator-hub", "Secret")
    try:
        secret = await asked.client.get(ref)
    except errors.NotFound:
        return Finding(
            subject,
            Result.OK,
            f"no Secret in {asked.system_namespace} holds one that lasts for ever",
        )
    if raw.text(secret, "type") != "kubernetes.io/service-account-token":
        return Finding(subject, Result.OK, "is of the kind that ends")
    message = (
        f"the Secret {asked.system_namespace}/federator-hub holds one that never expires: delete it"
    )
    return Finding(subject, Result.WARNING, message)


async def namespace_levels(asked: Asked) -> Finding:
    """Every namespace of the federation has a Pod Security level."""
    subject = "Pod Security level of namespaces"

    def level_of(obj: dict[str, Any]) -> tuple[str, bool]:
        labels = raw.text_map(obj["metadata"], "labels")
        return raw.text(obj, "metadata", "name"), "pod-security.kubernetes.io/enforce" in labels

    labelled = await asked.client.collect(
        "v1", "namespaces", level_of, most=SPACES_MAX, label_selector=FLEET_LABEL
    )
    bare = sorted(name for name, says in labelled if not says)
    if not bare:
        return Finding(subject, Result.OK, f"{len(labelled)} of the fleet, each says its level")
    more = f" and {len(bare) - 3} more" if len(bare) > 3 else ""
    return Finding(subject, Result.WARNING, f"none in {', '.join(bare[:3])}{more}")


async def system_namespace(asked: Asked) -> Finding:
    """Nothing with more rights runs in the namespace of the federation's own pods and leases."""
    subject = f"namespace {asked.system_namespace}"
    obj = await asked.client.get(
        ObjectRef("v1", "namespaces", "", asked.system_namespace, "Namespace")
    )
    level = raw.text_map(obj["metadata"], "labels").get("pod-security.kubernetes.io/enforce", "")
    if level == "restricted":
        return Finding(subject, Result.OK, "takes pods of level restricted only")
    said = f"takes pods of level {level}" if level else "takes any pod"
    return Finding(
        subject, Result.WARNING, f"{said}: label it pod-security.kubernetes.io/enforce=restricted"
    )


HOST_AS_PERSON: Final[tuple[Check, ...]] = (
    host_policies,
    host_rights,
    credentials,
    system_namespace,
)
HOST_AS_HUB: Final[tuple[Check, ...]] = (host_policies, host_rights, credentials)
MEMBER_AS_PERSON: Final[tuple[Check, ...]] = (
    member_policies,
    member_rights,
    process_rights,
    lasting_token,
    namespace_levels,
    system_namespace,
)
MEMBER_AS_HUB: Final[tuple[Check, ...]] = (foreign_writes, member_rights)


async def examine(asked: Asked, checks: Sequence[Check]) -> list[Finding]:
    """All findings, in the order of the checks. Raises `errors.ApiError` when the server does not
    answer."""
    async with asyncio.timeout(DEADLINE_S):
        return [await _checked(asked, check) for check in checks]


async def _checked(asked: Asked, check: Check) -> Finding:
    try:
        return await check(asked)
    except (errors.Denied, errors.NotFound) as refused:
        subject = check.__name__.replace("_", " ")
        return Finding(subject, Result.UNKNOWN, f"cannot be looked at: {refused}")


async def _policies(subject: str, asked: Asked, wanted: Sequence[str], where: str) -> Finding:
    """Each policy has a binding that denies: without one it does nothing, and one that warns lets
    requests pass."""
    missing = []
    for name in wanted:
        plural = "validatingadmissionpolicybindings"
        try:
            obj = await asked.client.get(
                ObjectRef(ADMISSION, plural, "", name, "ValidatingAdmissionPolicyBinding")
            )
        except errors.NotServed:
            return Finding(
                subject, Result.WARNING, "this API server knows no ValidatingAdmissionPolicy"
            )
        except errors.NotFound:
            missing.append(name)
            continue
        if "Deny" not in raw.texts(obj, "spec", "validationActions"):
            missing.append(f"{name} (does not deny)")
    if missing:
        return Finding(
            subject, Result.WARNING, f"not in force: {', '.join(missing)}; apply {where}"
        )
    return Finding(subject, Result.OK, f"in force: {', '.join(wanted)}")


TOO_MUCH: Final[tuple[tuple[str, Mapping[str, str]], ...]] = (
    ("do everything", {"group": "*", "resource": "*", "verb": "*"}),
    ("list Secrets everywhere", {"resource": "secrets", "verb": "list"}),
    (
        "make pods in kube-system",
        {"resource": "pods", "verb": "create", "namespace": "kube-system"},
    ),
    (
        "bind roles",
        {"group": "rbac.authorization.k8s.io", "resource": "clusterrolebindings", "verb": "create"},
    ),
    ("act as others", {"resource": "users", "verb": "impersonate"}),
    ("enter pods", {"resource": "pods", "subresource": "exec", "verb": "create"}),
    ("change nodes", {"resource": "nodes", "verb": "patch"}),
    (
        "make tokens of any account",
        {"resource": "serviceaccounts", "subresource": "token", "verb": "create"},
    ),
)
"""Rights that the hub never needs."""
TOO_MUCH_OF_PROCESSES: Final = (
    *(row for row in TOO_MUCH if row[0] != "change nodes"),
    ("delete nodes", {"resource": "nodes", "verb": "delete"}),
)
"""Rights that a member process never needs. It takes start-up taints from nodes; that it changes
nothing else of them is the policy `federator-nodes`."""


async def _rights(
    subject: str, asked: Asked, too_much: Sequence[tuple[str, Mapping[str, str]]] = TOO_MUCH
) -> Finding:
    held = [what for what, attributes in too_much if await may(asked, attributes)]
    if held:
        return Finding(
            subject, Result.WARNING, f"may {', '.join(held)}: bind only the roles of deploy/"
        )
    return Finding(subject, Result.OK, f"none of {len(too_much)} that it never needs")


async def may(asked: Asked, attributes: Mapping[str, str]) -> bool:
    """By the API server's own review, of the account or of the caller."""
    plural = "subjectaccessreviews" if asked.account else "selfsubjectaccessreviews"
    kind = "SubjectAccessReview" if asked.account else "SelfSubjectAccessReview"
    ref = ObjectRef("authorization.k8s.io/v1", plural, "", "", kind)
    spec: dict[str, Any] = {"resourceAttributes": dict(attributes)}
    if asked.account:
        namespace = asked.account.split(":")[2]
        groups = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ]
        spec |= {"user": asked.account, "groups": groups}
    answer = await asked.client.create(
        ref, {"apiVersion": ref.api_version, "kind": kind, "spec": spec}
    )
    return raw.flag(answer, "status", "allowed")


async def at_start(host: Asked, members: Mapping[str, Asked], metrics: Metrics) -> None:
    """Runs the checks once after the hub has begun to lead: a log line per warning, and a count per
    cluster. Silent clusters are checked at the next start."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def look(name: str, asked: Asked, checks: Sequence[Check]) -> None:
        async with turns:
            try:
                findings = await examine(asked, checks)
            except (errors.ApiError, TimeoutError) as trouble:
                log.info("hardening of %s was not examined: %s", name or "the host", trouble)
                return
        warnings = [finding for finding in findings if finding.result is Result.WARNING]
        metrics.child("federator_hardening_warnings", name).set(len(warnings))
        for finding in warnings:
            log.warning(
                "hardening of %s: %s: %s (%s)",
                name or "the host",
                finding.subject,
                finding.message,
                GUIDE,
            )

    async with asyncio.TaskGroup() as group:
        group.create_task(look("", host, HOST_AS_HUB))
        for name, asked in sorted(members.items()):
            group.create_task(look(name, asked, MEMBER_AS_HUB))
