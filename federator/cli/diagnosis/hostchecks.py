"""The checks of the host by `federator doctor`."""

import email.utils
from collections.abc import Mapping
from typing import Final

from federator.api import federatedquota, membercluster, raw
from federator.cli.diagnosis import checks
from federator.cli.diagnosis.checks import Check, Findings, Obj, Patient
from federator.cli.diagnosis.findings import Finding, Result
from federator.hub.query import announcing, banner
from federator.hub.security import hardening
from federator.kinds import crds, registry
from federator.kube import errors, selfsigned, tokens
from federator.kube.login import kubeconfigs
from federator.kube.login.kubeconfigs import KubeconfigRefused
from federator.model.steps import ObjectRef

TOKEN_LEAST_S: Final = 3 * 86400.0
CERTIFICATE_LEAST_S: Final = 14 * 86400.0
MEMBERS_MOST: Final = 5000
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


async def definitions_of_the_host(patient: Patient) -> Findings:
    return await checks.definitions(patient, crds.all_crds(), "federator crd install")


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
    results = [patient.finding(Result.OK, "leader", f"{holder} leads.")]
    version = announcing.version_of(lease)
    results.append(checks.same_version(patient, "hub", version))
    if lack := banner.short(lease):
        fix = "See docs/operating/descriptors.md."
        results.append(patient.finding(Result.FAILED, "resources of the hub", lack, fix))
    switch = ObjectRef("v1", "configmaps", patient.system_namespace, "federator", "ConfigMap")
    try:
        paused = banner.paused(await patient.client.get(switch))
    except errors.NotFound:
        paused = ""
    if paused:
        fix = "End the pause with `federator resume`."
        results.append(patient.finding(Result.WARNING, "pause", paused, fix))
    return results


async def rights_on_the_host(patient: Patient) -> Findings:
    fix = "Apply deploy/host/access of this version."
    return await checks.needed_rights(patient, hardening.HUB_USER, HOST_RULES, fix)


async def hardening_of_the_host(patient: Patient) -> Findings:
    return await checks.hardened(patient, hardening.HOST_AS_PERSON)


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
    results: Findings = []
    for obj in objs:
        name = raw.text(obj, "metadata", "name")
        results += _conditions(name, obj)
        results += await _credentials(patient, name, obj)
    return results


def _conditions(name: str, obj: Obj) -> Findings:
    results: Findings = []
    ready = raw.condition(obj, "Ready")
    status, reason = raw.text(ready, "status"), raw.text(ready, "reason")
    fix = _FIXES.get(reason, f"See `federator cluster check {name}`.").replace("NAME", name)
    message = raw.text(ready, "message") or "no hub reports it"
    text = f"{reason or 'No status'}: {checks.sentence(message)}"
    if status == "True":
        results.append(Finding(Result.OK, name, "cluster", "It is Ready."))
    else:
        results.append(Finding(Result.FAILED, name, "cluster", text, fix))
    for condition in raw.objects(raw.mapping(obj, "status"), "conditions"):
        kind, is_true = raw.text(condition, "type"), raw.text(condition, "status") == "True"
        bad = {membercluster.UNTRUSTWORTHY: True, "CredentialsRenewed": False}.get(kind)
        if bad is is_true:
            message = checks.sentence(raw.text(condition, "message"))
            text = f"{raw.text(condition, 'reason')}: {message}"
            fix = f"See `federator cluster check {name}`."
            results.append(Finding(Result.FAILED, name, kind, text, fix))
    return results


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
            f"{raw.text(condition, 'reason')}: {checks.sentence(raw.text(condition, 'message'))}",
            f"Correct the {kind_name}.",
        )
        for name, condition in sorted(faulty.items())
    ]


HOST_CHECKS: Final[tuple[Check, ...]] = (
    checks.server,
    definitions_of_the_host,
    leader,
    rights_on_the_host,
    hardening_of_the_host,
    clusters,
    quotas,
    policies,
)
