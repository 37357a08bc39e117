"""Tidying: keeps what the hub made in members beside slices up to date, and deletes it when it is
no longer needed.

A namespace that the hub made in a member is deleted when the host's is gone, or when the member
leaves the fleet: only with our mark, and only when it holds nothing of others, by everything that
the hub may list there (`CONTENTS`; see docs/decisions/0020-namespaces-in-members.md). What cannot
be read counts as somebody's. Copies of RuntimeProfiles and the host's claim go with the member.
Until then such a namespace has the Pod Security level of the host's, and says which service
accounts its projects may use (decision 0166); one that existed before is never changed.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from federator.api import clustercapacity, raw
from federator.hub.cache.router import MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.hub.members import claims
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.kinds import registry
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model import names
from federator.model.kubernetes import accountlists, pod_security
from federator.model.steps import Delete, ObjectRef, Patch, RequeueAfter

log = logging.getLogger(__name__)

CLAIMS = ("v1", "persistentvolumeclaims")
CONTENTS = (
    *((kind.api_version, kind.plural) for kind in registry.EXPANDED),
    ("v1", "pods"),
    ("v1", "services"),
    ("v1", "configmaps"),
    ("v1", "serviceaccounts"),
    CLAIMS,
    ("apps/v1", "deployments"),
    ("apps/v1", "statefulsets"),
    ("apps/v1", "daemonsets"),
    ("batch/v1", "jobs"),
    ("batch/v1", "cronjobs"),
    ("networking.k8s.io/v1", "ingresses"),
)
"""(version, plural) of objects that keep a namespace. Secrets too, where the hub may list them."""
SECRETS = ("v1", "secrets")
BY_THE_CLUSTER = frozenset({("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")})
"""What a cluster itself creates in every namespace."""
RECHECK_S = 5.0
KEPT_RECHECK_S = 300.0
"""Seconds until a namespace with something of others in it is examined again."""
LEVELS = "pod-security.kubernetes.io/"
MARKED_MAX = 20_000
"""Objects of one kind with our mark that are examined per member at a time: a cluster has 10,000
namespaces."""


class Tidying(Controller):
    """Keys of its queue are members' names."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[str] = self.new_queue("tidying")
        self.state.signals.resumed.append(self.look_everywhere)
        self.state.signals.space.append(lambda _: self.look_everywhere())
        self.state.signals.accounts.append(self.look_everywhere)
        self.state.signals.on_member(MemberTurn.TIDY, self.look)

    async def run(self) -> None:
        """Serves the queue until cancelled."""
        self.look_everywhere()
        await self.queue.run(self.turn, workers=2)

    def look_everywhere(self) -> None:
        for name in sorted(self.state.members):
            self.queue.add_after(name, RECHECK_S)

    def look(self, member: Member) -> None:
        """It is reachable, perhaps after a long time."""
        self.queue.add_after(member.name, RECHECK_S)

    async def turn(self, name: str) -> RequeueAfter | None:
        """One member: namespaces that we made there with another level or other service accounts
        than the host's, or without a namespace of the host. Raises ApiErrors."""
        member = self.state.members.get(name)
        if (
            member is None
            or not self.state.ready
            or self.state.paused
            or not self._may_write(member)
        ):
            return None
        wait_s = 0.0
        for obj in await self._marked(member, "v1", "namespaces"):
            space = raw.text(obj, "metadata", "name")
            if "deletionTimestamp" in obj["metadata"]:
                continue
            if space in self.state.spaces:
                lists = self.state.bindings().account_lists(space)
                if await self._list_accounts(member, obj, space, lists):
                    wait_s = RECHECK_S  # its level is compared with the new version
                    continue
                if lists:  # the next look notices changes there
                    wait_s = wait_s or KEPT_RECHECK_S
                if not await self._label(member, obj, space):
                    wait_s = wait_s or KEPT_RECHECK_S
                continue
            if self._in_use(member, space):
                wait_s = RECHECK_S  # what is deleted there goes by its own way
                continue
            if await self._stays(member, space):
                wait_s = wait_s or KEPT_RECHECK_S
                continue
            await self._confirm_absence(member, space)
            if pause_s := self.state.may_delete(1, self.clock.monotonic()):
                return RequeueAfter(name, pause_s, "deletions are spread over time")
            log.info(
                "%s: the namespace %s, which we made, is gone from the host; removing it",
                name,
                space,
            )
            await self._delete(member, obj, "namespaces")
            member.writes.observe_missing("Namespace", space)
        return RequeueAfter(name, wait_s, "namespaces are in use or have lists") if wait_s else None

    async def _list_accounts(
        self, member: Member, obj: dict[str, Any], space: str, lists: Mapping[str, str]
    ) -> bool:
        """Gives a namespace of ours the service accounts that its projects may use. Returns whether
        anything was written. Raises ApiErrors."""
        meta = obj["metadata"]
        said = accountlists.ours(raw.text_map(meta, "annotations"))
        if said == lists or member.link.applier is None:
            return False
        log.info("%s: the namespace %s gets new lists of service accounts", member.name, space)
        metadata = {"annotations": {**dict.fromkeys(said), **lists}}
        what = "lists of service accounts"
        return await self._changed(member, obj, metadata, what, errors.Denied, errors.Invalid)

    async def _label(self, member: Member, obj: dict[str, Any], space: str) -> bool:
        """Gives a namespace of ours the Pod Security level of the host's; False when it still has
        another one. A namespace from before there were levels gets the default only when no pod
        placed there needs more: running pods are not removed."""
        wanted, meta = self.state.spaces[space], obj["metadata"]
        labels = raw.mapping(meta, "labels")
        if (
            all(labels.get(name) == value for name, value in wanted.labels.items())
            or member.link.applier is None
        ):
            return True
        if (
            not wanted.explicit
            and pod_security.ENFORCE not in labels
            and (needy := self.state.refused_in(space))
        ):
            log.info(
                "%s: the namespace %s keeps no Pod Security level yet: %s needs more",
                member.name,
                space,
                needy,
            )
            return False
        # Denied by the rights of an older version, or because a level is not allowed there: the
        # check on the host holds.
        metadata = {"labels": wanted.labels}
        return await self._changed(member, obj, metadata, "Pod Security level", errors.Denied)

    async def _changed(
        self,
        member: Member,
        obj: dict[str, Any],
        metadata: Mapping[str, Any],
        what: str,
        *refusals: type[errors.ApiError],
    ) -> bool:
        """Changes the metadata of a namespace of ours. False when the cluster refuses that by one
        of these errors; raises other ApiErrors."""
        meta = obj["metadata"]
        patch = Patch(
            ObjectRef("v1", "namespaces", "", meta["name"], "Namespace"),
            {"metadata": metadata},
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
        )
        assert member.link.applier is not None
        error = (await member.link.applier.apply(patch)).error
        if isinstance(error, refusals):
            shown = (member.name, meta["name"], what, error)
            log.warning("%s: the namespace %s keeps its %s: %s", *shown)
            return False
        if error is not None:
            raise error
        return True

    def _may_write(self, member: Member) -> bool:
        heard = (
            member.heard and member.claimed and member.link.reachability.state is Reachability.LIVE
        )
        return (
            heard
            and not member.abandoned
            and not member.released
            and member.link.applier is not None
        )

    def _in_use(self, member: Member, space: str) -> bool:
        """Whether a slice there, or a decision of that namespace, still exists."""
        if any(
            key.namespace == space
            for key in (*member.contents.slice_keys(), *member.contents.own_writes)
        ):
            return True
        return any(namespace == space for namespace, _ in self.state.records)

    async def _confirm_absence(self, member: Member, space: str) -> None:
        """Reads the host itself, and its identity: absence in a cache does not justify a deletion.
        Raises `errors.Conflict` while the namespace exists, and other ApiErrors."""
        if (
            await self.host.list("v1", "namespaces", field_selector=f"metadata.name={space}")
        ).items:
            raise errors.Conflict(f"the namespace {space} is still there", reason="Conflict")
        if (uid := await self.host.kube_system_uid()) != member.host_uid:
            raise errors.Conflict(
                f"the host answers as {uid}, and was {member.host_uid}", reason="Conflict"
            )

    async def leave(self, member: Member) -> tuple[str, ...]:
        """Deletes what we made in a member that leaves the fleet and holds no slice any more, its
        host's claim last. Returns a sentence for each object that stays. Raises ApiErrors."""
        stays: list[str] = []
        if member.claimed:
            stays += await self._tried(member, "copies of RuntimeProfiles", self._drop_profiles)
            stays += await self._tried(member, "namespaces", self._drop_namespaces)
        await self.release(member)
        return tuple(stays)

    async def _tried(self, member: Member, what: str, drop: Callable[[Member], Any]) -> list[str]:
        """A hub that joined with an older version may lack the right: then the object stays, and is
        named."""
        try:
            dropped: list[str] = await drop(member)
        except errors.Denied as refusal:
            return [f"Its {what} stay: {refusal}"]
        return dropped

    async def _drop_profiles(self, member: Member) -> list[str]:
        kind = registry.KINDS["RuntimeProfile"]
        for obj in await self._marked(member, kind.api_version, kind.plural):
            await self._delete(member, obj, kind.plural)
        return []

    async def _drop_namespaces(self, member: Member) -> list[str]:
        kept: list[str] = []
        for obj in await self._marked(member, "v1", "namespaces"):
            if "deletionTimestamp" in obj["metadata"]:
                continue
            space = raw.text(obj, "metadata", "name")
            if other := await self._stays(member, space):
                kept.append(f"The namespace {space} stays: {other}.")
            else:
                await self._delete(member, obj, "namespaces")
        return kept

    async def release(self, member: Member) -> None:
        """Another host may claim the member from now on. Raises ApiErrors."""
        report = member.contents.report
        if member.link.client is None or report is None or not member.claimed:
            return
        kind = registry.KINDS["ClusterCapacity"]
        ref = kind.ref("", clustercapacity.NAME)
        meta = {"uid": report.uid, "resourceVersion": report.resource_version}
        body = {"metadata": {**meta, "annotations": {claims.annotation(member.fleet): None}}}
        member.note_capacity(await member.link.client.patch(ref, body))

    async def _marked(self, member: Member, api_version: str, plural: str) -> list[dict[str, Any]]:
        """Objects of a kind with our mark there, as far as this module reads them. Raises
        ApiErrors."""
        if member.link.client is None:
            raise errors.Unreachable(f"{member.name}: there is no connection")
        chosen = f"{names.FLEET_LABEL}={member.fleet}"
        try:
            return list(
                await member.link.client.collect(
                    api_version, plural, _slim, most=MARKED_MAX, label_selector=chosen
                )
            )
        except errors.NotServed:
            return []

    async def _stays(self, member: Member, space: str) -> str:
        """What in a namespace must stay, as `pods web is not ours`; "" for nothing. Raises
        ApiErrors."""
        client = member.link.client
        if client is None:
            raise errors.Unreachable(f"{member.name}: there is no connection")

        def others(obj: dict[str, Any]) -> str | None:
            why = self._stays_because(member, plural, obj)
            return f"{raw.text(obj, 'metadata', 'name')} {why}" if why else None

        looked = [*CONTENTS, SECRETS] if await self._may_list_secrets(client, space) else CONTENTS
        for api_version, plural in looked:
            try:
                foreign = await client.collect(api_version, plural, others, most=1, namespace=space)
            except errors.NotServed:
                continue
            if foreign:
                return f"{plural} {foreign[0]}"
        if (uid := await client.kube_system_uid()) != member.link.uid:
            raise errors.Conflict(
                f"{member.name} answers as {uid}, and was {member.link.uid} at the last probe"
            )
        return ""

    def _stays_because(self, member: Member, plural: str, obj: dict[str, Any]) -> str:
        """Why an object may not go with its namespace; "" when it may."""
        meta = obj["metadata"]
        if (plural, meta.get("name")) in BY_THE_CLUSTER or meta.get("ownerReferences"):
            return ""  # what has an owner is made for it, and the owner is looked at itself
        if raw.text_map(meta, "labels").get(names.FLEET_LABEL) != member.fleet:
            return "is not ours"
        # A claim that goes with its workload has an owner. This one holds data that is to stay.
        return "is retained" if plural == CLAIMS[1] else ""

    async def _may_list_secrets(self, client: clients.Client, space: str) -> bool:
        """The hub need not read members' Secrets; where it may, they count."""
        ref = ObjectRef(
            "authorization.k8s.io/v1", "selfsubjectaccessreviews", "", "", "SelfSubjectAccessReview"
        )
        attributes = {"namespace": space, "resource": "secrets", "verb": "list"}
        body = {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "spec": {"resourceAttributes": attributes},
        }
        return raw.flag(await client.create(ref, body), "status", "allowed")

    async def _delete(self, member: Member, obj: dict[str, Any], plural: str) -> None:
        if member.link.applier is None:
            raise errors.Unreachable(f"{member.name}: there is no connection")
        meta = obj["metadata"]
        api_version = (
            "v1" if plural == "namespaces" else registry.KINDS["RuntimeProfile"].api_version
        )
        ref = ObjectRef(api_version, plural, "", meta["name"], obj.get("kind", ""))
        outcome = await member.link.applier.apply(
            Delete(ref, meta["uid"], resource_version=meta["resourceVersion"])
        )
        if outcome.error is not None:
            raise outcome.error


def _slim(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a marked object that are examined: a member may hold many, and large ones."""
    meta = obj["metadata"]
    kept = {
        name: meta[name]
        for name in ("name", "uid", "resourceVersion", "deletionTimestamp")
        if name in meta
    }
    levels = {
        name: text for name, text in raw.text_map(meta, "labels").items() if name.startswith(LEVELS)
    }
    lists = accountlists.ours(raw.text_map(meta, "annotations"))
    return {
        "kind": obj.get("kind", ""),
        "metadata": {**kept, "labels": levels, "annotations": lists},
    }
