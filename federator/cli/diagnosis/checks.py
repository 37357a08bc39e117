"""The checks of `federator doctor`. A check reads, or sends an access review, and changes nothing.

What the caller may not read is unknown, never well. Each sentence says what was found, each fix
what to do.
"""

import asyncio
import email.utils
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator import __version__
from federator.api import clustercapacity, federatedquota, membercluster, raw
from federator.cli import banner
from federator.cli.clusters import granting
from federator.cli.diagnosis.findings import Finding, Result
from federator.hub.members.process_watch import LEASE as MEMBER_LEASE
from federator.hub.query import announcing
from federator.hub.security import hardening
from federator.kinds import crds, registry, rights
from federator.kube import errors, selfsigned, tokens
from federator.kube.client import Client
from federator.kube.login import kubeconfigs
from federator.kube.login.kubeconfigs import KubeconfigRefused
from federator.model import names
from federator.model.steps import ObjectRef

OLDEST_MINOR: Final = 30
"""Kubernetes with ValidatingAdmissionPolicy in its stable version."""
SKEW_MAX_S: Final = 5.0
TOKEN_LEAST_S: Final = 3 * 86400.0
CERTIFICATE_LEAST_S: Final = 14 * 86400.0
SILENT_S: Final = 120.0
"""A member process renews its lease far more often."""
AT_ONCE: Final = 8
"""Access reviews that are asked for concurrently."""
NAMED_MOST: Final = 5
MEMBERS_MOST: Final = 5000
LEASES: Final = "coordination.k8s.io/v1"
HOST: Final = "host"
VALID: Final = federatedquota.VALID
"""Condition of quotas and policies."""
HOST_RULES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    *(
        row
        for kind in registry.WORKLOADS.values()
        for row in (
            (kind.group, kind.plural, ("get", "list", "watch", "patch")),
            (kind.group, f"{kind.plural}/status", ("patch",)),
        )
    ),
    (
        "federation.pinterest.com",
        "placementdecisions",
        ("get", "list", "watch", "create", "patch", "delete"),
    ),
    *(
        ("federation.pinterest.com", plural, ("get", "list", "watch"))
        for plural in (
            "memberclusters",
            "placementpolicies",
            "clusterplacementpolicies",
            "federatedquotas",
            "placementinvariants",
        )
    ),
    ("federation.pinterest.com", "memberclusters/status", ("patch",)),
    ("federation.pinterest.com", "federatedquotas/status", ("patch",)),
    ("pinterest.com", "runtimeprofiles", ("list", "watch")),
    ("events.k8s.io", "events", ("create", "patch")),
    ("", "namespaces", ("list", "watch")),
)
"""Rights without which the hub does not work on the host: (group, resource, verbs)."""

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

    def finding(self, result: Result, check: str, found: str, fix: str = "") -> Finding:
        return Finding(result, self.name, check, found, fix)

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
            found = f"The API server gives no answer: {trouble or 'the time is over'}."
            fix = "Check the address, the credentials and the network of this context."
            findings.append(patient.finding(Result.FAILED, title, found, fix))
            break
    return findings


# -- of every API server ---------------------------------------------------------------------------


async def server(patient: Patient) -> Findings:
    """Version and clock."""
    date = await patient.client.ready()
    version = str((await patient.client.version()).get("gitVersion", ""))
    parts = version.lstrip("v").split(".")
    minor = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
    found = [
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
        return found
    if abs(skew_s) > SKEW_MAX_S:
        text = f"The server's clock differs from this machine's by {skew_s:+.0f} s."
        fix = "Synchronise both clocks (NTP)."
        return [*found, patient.finding(Result.WARNING, "clock", text, fix)]
    text = f"The server's clock is within {SKEW_MAX_S:g} s of this machine's."
    return [*found, patient.finding(Result.OK, "clock", text)]


async def _definitions(patient: Patient, bodies: Iterable[Obj], command: str) -> Findings:
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
            and all(within(one, other) for one, other in zip(ours, live, strict=True))
        )
    return bool(ours == live)


async def _rights(
    patient: Patient, account: str, rules: Iterable[rights.Right | tuple[Any, ...]], fix: str
) -> Findings:
    """Whether the API server allows an account what it needs. Processes that use other credentials,
    as on a laptop, have no such account: what these may is unknown."""
    _, _, space, account_name = account.split(":")
    who = f"{space}/{account_name}"
    check = f"rights of {who}"
    ref = ObjectRef("v1", "serviceaccounts", space, account_name, "ServiceAccount")
    try:
        await patient.client.get(ref)
    except errors.NotFound:
        text = f"There is no ServiceAccount {who}: the process uses credentials of another kind."
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
        text = f"The account {who} may not {few(refused)}."
        return [patient.finding(Result.FAILED, check, text, fix)]
    text = f"The account {who} has the {len(needed)} rights that it needs."
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


async def _hardened(patient: Patient, checks: Sequence[hardening.Check]) -> Findings:
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
            results[found.result],
            found.subject,
            sentence(found.message),
            f"See {hardening.GUIDE}." if found.result is hardening.Result.WARNING else "",
        )
        for found in await hardening.examine(asked, checks)
    ]


# -- of the host -----------------------------------------------------------------------------------


async def definitions_of_the_host(patient: Patient) -> Findings:
    return await _definitions(patient, crds.all_crds(), "federator crd install")


async def leader(patient: Patient) -> Findings:
    """Whether a hub leads, in which version, and whether something holds it back."""
    date = await patient.client.ready()
    lease: Obj | None
    try:
        lease = await patient.client.get(patient.lease(banner.LEASE))
    except errors.NotFound:
        text = "No hub has ever led: there is no Lease federator-hub."
        return [patient.finding(Result.FAILED, "leader", text, "Start hubs (`deploy/host`).")]
    try:
        now_s = email.utils.parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        now_s = patient.now_s
    if gone := banner.leaderless(lease, now_s):
        fix = "Look at the hubs' pods and logs; see docs/operating/deploy.md#two-hubs."
        return [patient.finding(Result.FAILED, "leader", gone, fix)]
    holder = raw.text(lease, "spec", "holderIdentity")
    found = [patient.finding(Result.OK, "leader", f"{holder} leads.")]
    version = announcing.version_of(lease)
    found.append(_same_version(patient, "hub", version))
    if lack := banner.short(lease):
        fix = "See docs/operating/descriptors.md."
        found.append(patient.finding(Result.FAILED, "resources of the hub", lack, fix))
    switch = ObjectRef("v1", "configmaps", patient.system_namespace, "federator", "ConfigMap")
    try:
        paused = banner.paused(await patient.client.get(switch))
    except errors.NotFound:
        paused = ""
    if paused:
        fix = "End the pause with `federator resume`."
        found.append(patient.finding(Result.WARNING, "pause", paused, fix))
    return found


def _same_version(patient: Patient, what: str, version: str) -> Finding:
    check = f"version of the {what}"
    if not version:
        text = f"The {what} does not say its version."
        return patient.finding(Result.UNKNOWN, check, text, f"Upgrade the {what}.")
    if version != __version__:
        text = f"The {what} is federator {version}, and this program is {__version__}."
        fix = "Use programs of one version; see docs/operating/upgrades.md for the order."
        return patient.finding(Result.WARNING, check, text, fix)
    return patient.finding(Result.OK, check, f"The {what} is federator {version}.")


async def rights_on_the_host(patient: Patient) -> Findings:
    fix = "Apply deploy/host/access of this version."
    return await _rights(patient, hardening.HUB_USER, HOST_RULES, fix)


async def hardening_of_the_host(patient: Patient) -> Findings:
    return await _hardened(patient, hardening.HOST_AS_PERSON)


_FIXES: Final[Mapping[str, str]] = {
    membercluster.NOT_REPORTING: "Look at the member process there (`federator-member`).",
    "AuthFailed": "Give the hub new credentials: `federator cluster renew NAME`.",
    "Unreachable": "Repair the network or the API server; see docs/operating/lose-a-member.md.",
}


async def clusters(patient: Patient) -> Findings:
    """The conditions of all MemberClusters, and the end of the hub's credentials there."""
    kind = registry.KINDS["MemberCluster"]
    objs = await patient.client.collect(kind.api_version, kind.plural, dict, most=MEMBERS_MOST)
    if not objs:
        fix = "Join one: `federator cluster add NAME`."
        return [patient.finding(Result.WARNING, "clusters", "No cluster has joined.", fix)]
    found: Findings = []
    for obj in objs:
        name = raw.text(obj, "metadata", "name")
        found += _conditions(name, obj)
        found += await _credentials(patient, name, obj)
    return found


def _conditions(name: str, obj: Obj) -> Findings:
    found: Findings = []
    ready = raw.condition(obj, "Ready")
    status, reason = raw.text(ready, "status"), raw.text(ready, "reason")
    fix = _FIXES.get(reason, f"See `federator cluster check {name}`.").replace("NAME", name)
    text = f"{reason or 'No status'}: {sentence(raw.text(ready, 'message') or 'no hub reports it')}"
    if status == "True":
        found.append(Finding(Result.OK, name, "cluster", "It is Ready."))
    else:
        found.append(Finding(Result.FAILED, name, "cluster", text, fix))
    for condition in raw.objects(raw.mapping(obj, "status"), "conditions"):
        kind, is_true = raw.text(condition, "type"), raw.text(condition, "status") == "True"
        bad = {membercluster.UNTRUSTWORTHY: True, "CredentialsRenewed": False}.get(kind)
        if bad is is_true:
            text = f"{raw.text(condition, 'reason')}: {sentence(raw.text(condition, 'message'))}"
            fix = f"See `federator cluster check {name}`."
            found.append(Finding(Result.FAILED, name, kind, text, fix))
    return found


async def _credentials(patient: Patient, name: str, obj: Obj) -> Findings:
    """When the hub's token or certificate there ends."""
    secret_name = raw.text(obj, "spec", "credentials", "secretRef", "name")
    if not secret_name:
        return []
    check, space = "the hub's credentials", patient.credentials_namespace
    ref = ObjectRef("v1", "secrets", space, secret_name, "Secret")
    fix = f"Give the hub new ones: `federator cluster renew {name}`."
    try:
        access = kubeconfigs.member_access(
            kubeconfigs.in_secret(await patient.client.get(ref), name), allow_loopback=True
        )
    except errors.NotFound:
        text = f"The Secret {space}/{secret_name} does not exist."
        return [Finding(Result.FAILED, name, check, text, fix)]
    except errors.Denied:
        text = f"You may not read the Secret {space}/{secret_name}."
        return [Finding(Result.UNKNOWN, name, check, text)]
    except (KubeconfigRefused, ValueError) as refused:
        text = f"The hub cannot use the Secret {space}/{secret_name}: {refused}."
        return [Finding(Result.FAILED, name, check, text, fix)]
    token = tokens.read(access.token)
    ends_s: float | None = token.ends_s if token is not None else None
    least_s, what = TOKEN_LEAST_S, "token"
    if access.cert_pem:
        ends_s, least_s, what = (
            selfsigned.ends_s(access.cert_pem),
            CERTIFICATE_LEAST_S,
            "certificate",
        )
    if ends_s is None:
        text = f"The {what} says of itself no time at which it ends."
        return [Finding(Result.WARNING, name, check, text, fix)]
    days = (ends_s - patient.now_s) / 86400
    if ends_s - patient.now_s < least_s:
        text = (
            f"The {what} has ended."
            if days < 0
            else f"The {what} ends in {days:.1f} days, and was not renewed."
        )
        return [Finding(Result.FAILED, name, check, text, fix)]
    return [Finding(Result.OK, name, check, f"The {what} ends in {days:.1f} days.")]


async def quotas(patient: Patient) -> Findings:
    return await _valid(patient, "FederatedQuota")


async def policies(patient: Patient) -> Findings:
    return [
        *await _valid(patient, "PlacementPolicy"),
        *await _valid(patient, "ClusterPlacementPolicy"),
    ]


async def _valid(patient: Patient, kind_name: str) -> Findings:
    """The objects of a kind that the hub holds to be faulty."""
    kind = registry.KINDS[kind_name]
    objs = await patient.client.collect(kind.api_version, kind.plural, dict, most=MEMBERS_MOST)
    said = {raw.text(obj, "metadata", "name"): raw.condition(obj, VALID) for obj in objs}
    faulty = {
        name: condition
        for name, condition in said.items()
        if raw.text(condition, "status") == "False"
    }
    if not faulty:
        return [patient.finding(Result.OK, kind_name, f"None of {len(objs)} has a fault.")]
    return [
        patient.finding(
            Result.WARNING,
            f"{kind_name} {name}",
            f"{raw.text(condition, 'reason')}: {sentence(raw.text(condition, 'message'))}",
            f"Correct the {kind_name}.",
        )
        for name, condition in sorted(faulty.items())
    ]


HOST_CHECKS: Final[tuple[Check, ...]] = (
    server,
    definitions_of_the_host,
    leader,
    rights_on_the_host,
    hardening_of_the_host,
    clusters,
    quotas,
    policies,
)

# -- of a member -----------------------------------------------------------------------------------


async def definitions_of_a_member(patient: Patient) -> Findings:
    return await _definitions(patient, crds.member_crds(), "federator crd install --member")


async def rights_in_a_member(patient: Patient) -> Findings:
    fix = "Apply deploy/member of this version."
    hub = (*rights.of(rights.HUB), *rights.of(rights.HUB_OWN))
    process = (*rights.of(rights.MEMBER), *rights.of(rights.MEMBER_OWN))
    return [
        *await _rights(patient, hardening.HUB_USER, hub, fix),
        *await _rights(patient, hardening.MEMBER_USER, process, fix),
    ]


async def hardening_of_a_member(patient: Patient) -> Findings:
    return await _hardened(patient, hardening.MEMBER_AS_PERSON)


async def member_process(patient: Patient) -> Findings:
    """Whether the member process renews its lease, in which version, and whether it reports."""
    check, fix = "member process", "Look at the pod `federator-member` there and at its log."
    date = await patient.client.ready()
    try:
        lease = await patient.client.get(patient.lease(MEMBER_LEASE))
    except errors.NotFound:
        text = f"No member process has run: there is no Lease {MEMBER_LEASE}."
        fix = "Apply deploy/member, with the cluster's name in its settings."
        return [patient.finding(Result.FAILED, check, text, fix)]
    try:
        now_s = email.utils.parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        now_s = patient.now_s
    renewed = raw.text(lease, "spec", "renewTime")
    silent_s = now_s - raw.epoch_s(renewed)
    if silent_s > SILENT_S:
        text = f"The member process has not renewed its Lease since {renewed}."
        return [patient.finding(Result.FAILED, check, text, fix)]
    annotations = raw.text_map(raw.mapping(lease, "metadata"), "annotations")
    found = [
        patient.finding(Result.OK, check, "The member process renews its Lease."),
        _same_version(patient, check, annotations.get(names.VERSION_ANNOTATION, "")),
    ]
    kind = registry.KINDS["ClusterCapacity"]
    ref = kind.ref("", clustercapacity.NAME)
    report = await patient.client.get(ref)
    if not raw.mapping(report, "status"):
        text = "The member process has reported no capacity."
        found.append(patient.finding(Result.FAILED, "capacity report", text, fix))
    return found


MEMBER_CHECKS: Final[tuple[Check, ...]] = (
    server,
    definitions_of_a_member,
    member_process,
    rights_in_a_member,
    hardening_of_a_member,
)


async def identity(host: Client, patient: Patient) -> Findings:
    """Whether a context of the caller leads to the cluster that has joined under its name."""
    fix = "Give the context of the right cluster: -C NAME=CONTEXT."
    try:
        obj = await host.get(registry.KINDS["MemberCluster"].ref("", patient.name))
        uid = await patient.client.kube_system_uid()
    except errors.NotFound:
        text = "No cluster has joined under this name."
        return [patient.finding(Result.FAILED, "identity", text, "See `federator get clusters`.")]
    except errors.ApiError as trouble:
        return [patient.finding(Result.FAILED, "identity", sentence(str(trouble)), fix)]
    pinned = membercluster.recorded_uid(obj)
    if pinned and pinned != uid:
        text = f"The context leads to the cluster {uid}, and {pinned} has joined."
        return [patient.finding(Result.FAILED, "identity", text, fix)]
    return [patient.finding(Result.OK, "identity", f"It is the cluster {uid}.")]


def few(some: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(some) - NAMED_MOST} more" if len(some) > NAMED_MOST else ""
    return f"{', '.join(some[:NAMED_MOST])}{more}"


def sentence(text: str) -> str:
    """A message with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def as_json(findings: Sequence[Finding]) -> str:
    """The findings as a JSON list."""
    rows = [
        {
            "result": one.result,
            "where": one.where,
            "check": one.check,
            "found": one.found,
            "fix": one.fix,
        }
        for one in findings
    ]
    return json.dumps(rows, indent=2)
