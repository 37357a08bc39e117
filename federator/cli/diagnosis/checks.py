"""The checks of `federator doctor`. A check reads, or sends an access review, and changes nothing.

What the caller may not read is unknown, never well. Each sentence says what is so, each fix
what to do.
"""

import asyncio
import email.utils
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator import __version__
from federator.cli.clusters import granting
from federator.cli.diagnosis.findings import Finding, Result
from federator.hub.security import hardening
from federator.kinds import rights
from federator.kube import errors
from federator.kube.client import Client
from federator.model.steps import ObjectRef

OLDEST_MINOR: Final = 30
"""Kubernetes with ValidatingAdmissionPolicy in its stable version."""
SKEW_MAX_S: Final = 5.0
AT_ONCE: Final = 8
"""Access reviews that are asked for concurrently."""
NAMED_MOST: Final = 5
LEASES: Final = "coordination.k8s.io/v1"

Obj = Mapping[str, Any]
Findings = list[Finding]


@dataclass(frozen=True, slots=True)
class Patient:
    """One API server that is examined."""

    name: str
    """`host`, or the name of a MemberCluster."""
    client: Client
    now_s: float
    """The caller's time, in epoch seconds."""
    system_namespace: str = "federator-system"
    credentials_namespace: str = "federator-clusters"

    def finding(self, result: Result, check: str, text: str, fix: str = "") -> Finding:
        return Finding(result, self.name, check, text, fix)

    def lease(self, name: str) -> ObjectRef:
        return ObjectRef(LEASES, "leases", self.system_namespace, name, "Lease")


Check = Callable[[Patient], Awaitable[Findings]]


async def examine(patient: Patient, checks: Sequence[Check]) -> Findings:
    """All findings about one API server, in the order of the checks. A server that does not answer
    is one finding, and ends its examination."""
    findings: Findings = []
    for check in checks:
        title = check.__name__.replace("_", " ")
        try:
            async with asyncio.timeout(hardening.DEADLINE_S):
                findings += await check(patient)
        except (errors.Denied, errors.NotFound) as refused:
            fix = "Ask with the rights of an operator (ClusterRole federator-operator)."
            findings.append(patient.finding(Result.UNKNOWN, title, f"{refused}", fix))
        except (errors.ApiError, TimeoutError) as trouble:
            text = f"The API server gives no answer: {trouble or 'the time is over'}."
            fix = "Check the address, the credentials and the network of this context."
            findings.append(patient.finding(Result.FAILED, title, text, fix))
            break
    return findings


async def server(patient: Patient) -> Findings:
    """Version and clock."""
    date = await patient.client.ready()
    version = str((await patient.client.version()).get("gitVersion", ""))
    parts = version.lstrip("v").split(".")
    minor = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
    results = [
        patient.finding(Result.OK, "Kubernetes version", f"{version}.")
        if parts[0] == "1" and minor >= OLDEST_MINOR
        else patient.finding(
            Result.WARNING,
            "Kubernetes version",
            f"{version} is older than v1.{OLDEST_MINOR}, which has admission policies.",
            f"Upgrade the cluster to v1.{OLDEST_MINOR} or later.",
        )
    ]
    try:
        skew_s = email.utils.parsedate_to_datetime(date).timestamp() - patient.now_s
    except (TypeError, ValueError):
        return results
    if abs(skew_s) > SKEW_MAX_S:
        text = f"The server's clock differs from this machine's by {skew_s:+.0f} s."
        fix = "Synchronise both clocks (NTP)."
        return [*results, patient.finding(Result.WARNING, "clock", text, fix)]
    text = f"The server's clock is within {SKEW_MAX_S:g} s of this machine's."
    return [*results, patient.finding(Result.OK, "clock", text)]


async def definitions(patient: Patient, bodies: Iterable[Obj], command: str) -> Findings:
    missing, old = list[str](), list[str]()
    for body in bodies:
        name = body["metadata"]["name"]
        ref = ObjectRef("apiextensions.k8s.io/v1", "customresourcedefinitions", "", name, "")
        try:
            live = await patient.client.get(ref)
        except errors.NotFound:
            missing.append(name)
            continue
        if not within(body["spec"], live.get("spec")):
            old.append(name)
    count = len(missing) + len(old)
    said = [
        f"{len(some)} {what} ({few(some)})"
        for what, some in (("missing", missing), ("not those of this version", old))
        if some
    ]
    if count:
        text = f"Of the CustomResourceDefinitions {' and '.join(said)}."
        result = Result.FAILED if missing else Result.WARNING
        return [patient.finding(result, "definitions", text, f"Run `{command}`.")]
    text = f"The CustomResourceDefinitions are those of federator {__version__}."
    return [patient.finding(Result.OK, "definitions", text)]


def within(ours: Any, live: Any) -> bool:
    """Whether everything that we say is so in the live object, which servers complete."""
    if isinstance(ours, Mapping):
        return isinstance(live, Mapping) and all(
            within(value, live.get(name)) for name, value in ours.items()
        )
    if isinstance(ours, list):
        return (
            isinstance(live, list)
            and len(ours) == len(live)
            and all(within(mine, theirs) for mine, theirs in zip(ours, live, strict=True))
        )
    return bool(ours == live)


async def needed_rights(
    patient: Patient, account: str, rules: Iterable[rights.Right | tuple[Any, ...]], fix: str
) -> Findings:
    """Whether the API server allows an account what it needs. Processes that use other credentials,
    as on a laptop, have no such account: what these may is unknown."""
    _, _, space, account_name = account.split(":")
    title = f"{space}/{account_name}"
    check = f"rights of {title}"
    ref = ObjectRef("v1", "serviceaccounts", space, account_name, "ServiceAccount")
    try:
        await patient.client.get(ref)
    except errors.NotFound:
        text = f"There is no ServiceAccount {title}: the process uses credentials of another kind."
        return [patient.finding(Result.UNKNOWN, check, text, fix)]
    asked = hardening.Asked(patient.client, account)
    turns = asyncio.Semaphore(AT_ONCE)

    async def lacks(attributes: Mapping[str, str]) -> str:
        async with turns:
            if await hardening.may(asked, attributes):
                return ""
        resource, subresource = attributes["resource"], attributes.get("subresource", "")
        return f"{attributes['verb']} {resource}{'/' if subresource else ''}{subresource}"

    needed = [attributes for rule in rules for attributes in _attributes(rule)]
    refused = sorted(filter(None, await asyncio.gather(*map(lacks, needed))))
    if refused:
        text = f"The account {title} may not {few(refused)}."
        return [patient.finding(Result.FAILED, check, text, fix)]
    text = f"The account {title} has the {len(needed)} rights that it needs."
    return [patient.finding(Result.OK, check, text)]


def _attributes(rule: "rights.Right | tuple[Any, ...]") -> list[dict[str, str]]:
    if isinstance(rule, rights.Right):
        group, resource, verbs, name = rule.group, rule.resource, rule.verbs, rule.name
    else:
        (group, resource, verbs), name = rule, ""
    resource, _, subresource = resource.partition("/")
    where = {"name": name, "namespace": granting.SYSTEM_NAMESPACE} if name else {}
    return [
        {"group": group, "resource": resource, "subresource": subresource, "verb": verb, **where}
        for verb in verbs
    ]


async def hardened(patient: Patient, checks: Sequence[hardening.Check]) -> Findings:
    asked = hardening.Asked(
        patient.client,
        hardening.HUB_USER,
        patient.system_namespace,
        patient.credentials_namespace,
    )
    results = {
        hardening.Result.OK: Result.OK,
        hardening.Result.WARNING: Result.WARNING,
        hardening.Result.UNKNOWN: Result.UNKNOWN,
    }
    return [
        patient.finding(
            results[hardened.result],
            hardened.subject,
            sentence(hardened.message),
            f"See {hardening.GUIDE}." if hardened.result is hardening.Result.WARNING else "",
        )
        for hardened in await hardening.examine(asked, checks)
    ]


def few(some: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(some) - NAMED_MOST} more" if len(some) > NAMED_MOST else ""
    return f"{', '.join(some[:NAMED_MOST])}{more}"


def sentence(text: str) -> str:
    """A message with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def as_json(findings: Sequence[Finding]) -> str:
    rows = [
        {
            "result": finding.result,
            "where": finding.where,
            "check": finding.check,
            "found": finding.text,
            "fix": finding.fix,
        }
        for finding in findings
    ]
    return json.dumps(rows, indent=2)


def same_version(patient: Patient, what: str, version: str) -> Finding:
    check = f"version of the {what}"
    if not version:
        text = f"The {what} does not say its version."
        return patient.finding(Result.UNKNOWN, check, text, f"Upgrade the {what}.")
    if version != __version__:
        text = f"The {what} is federator {version}, and this program is {__version__}."
        fix = "Use programs of one version; see docs/operating/upgrades.md for the order."
        return patient.finding(Result.WARNING, check, text, fix)
    return patient.finding(Result.OK, check, f"The {what} is federator {version}.")
