"""The checks of a member by `federator doctor`."""

import email.utils
from typing import Final

from federator.api import clustercapacity, membercluster, raw
from federator.cli.diagnosis import checks
from federator.cli.diagnosis.checks import Check, Findings, Patient
from federator.cli.diagnosis.findings import Result
from federator.hub.members.process_watch import LEASE
from federator.hub.security import hardening
from federator.kinds import crds, registry, rights
from federator.kube import errors
from federator.kube.client import Client
from federator.model import names

SILENT_S: Final = 120.0
"""A member process renews its lease far more often."""


async def definitions_of_a_member(patient: Patient) -> Findings:
    return await checks.definitions(patient, crds.member_crds(), "federator crd install --member")


async def rights_in_a_member(patient: Patient) -> Findings:
    fix = "Apply deploy/member of this version."
    hub = (*rights.of(rights.HUB), *rights.of(rights.HUB_OWN))
    process = (*rights.of(rights.MEMBER), *rights.of(rights.MEMBER_OWN))
    return [
        *await checks.needed_rights(patient, hardening.HUB_USER, hub, fix),
        *await checks.needed_rights(patient, hardening.MEMBER_USER, process, fix),
    ]


async def hardening_of_a_member(patient: Patient) -> Findings:
    return await checks.hardened(patient, hardening.MEMBER_AS_PERSON)


async def member_process(patient: Patient) -> Findings:
    """Whether the member process renews its lease, in which version, and whether it reports."""
    check, fix = "member process", "Look at the pod `federator-member` there and at its log."
    date = await patient.client.ready()
    try:
        lease = await patient.client.get(patient.lease(LEASE))
    except errors.NotFound:
        text = f"No member process has run: there is no Lease {LEASE}."
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
    results = [
        patient.finding(Result.OK, check, "The member process renews its Lease."),
        checks.same_version(patient, check, annotations.get(names.VERSION_ANNOTATION, "")),
    ]
    kind = registry.KINDS["ClusterCapacity"]
    ref = kind.ref("", clustercapacity.NAME)
    report = await patient.client.get(ref)
    if not raw.mapping(report, "status"):
        text = "The member process has reported no capacity."
        results.append(patient.finding(Result.FAILED, "capacity report", text, fix))
    return results


MEMBER_CHECKS: Final[tuple[Check, ...]] = (
    checks.server,
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
        return [patient.finding(Result.FAILED, "identity", checks.sentence(str(trouble)), fix)]
    pinned = membercluster.recorded_uid(obj)
    if pinned and pinned != uid:
        text = f"The context leads to the cluster {uid}, and {pinned} has joined."
        return [patient.finding(Result.FAILED, "identity", text, fix)]
    return [patient.finding(Result.OK, "identity", f"It is the cluster {uid}.")]
