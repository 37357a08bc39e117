"""Which version of its RuntimeProfile the pods of a workload get: the newest one with the requests
that its decision charges.

A version that asks for more is an edit that placing admits or holds back. Until it is admitted, the
pods keep a former version. Former versions are in the status of the profile
(`hub.host.profile_keeping`), so a new leader has them too. Pure readings of the hub's memory.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from federator.api import raw, runtimeprofile
from federator.hub.cache import policying
from federator.hub.cache.state import HubState
from federator.hub.records import workloads
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kinds import verbs
from federator.kinds.verbs import Profile
from federator.kube.store import version_number
from federator.model.ask import Admitted, Ask, Support
from federator.model.resources import Resources
from federator.placement.quota import quota

Versions = tuple[tuple[str, Mapping[str, Any]], ...]
"""(hash, object), the newest first."""


def entry(profile: Mapping[str, Any], fleet: str) -> dict[str, Any]:
    """A RuntimeProfile as the hub's memory has it: the object, its hash, the copy for members, its
    former versions as (hash, object), those of them that need another shape, whether its status
    keeps the present version, and metadata and status of the object as last heard."""
    content, kept = runtimeprofile.content_hash(profile), runtimeprofile.versions(profile)
    former = tuple((version, obj) for version, obj in kept.items() if version != content)
    copy = runtimeprofile.member_copy(profile, fleet)
    return {
        "object": profile,
        "hash": content,
        "copy": copy,
        "former": former,
        "priced": _priced(profile, former),
        "kept": next(iter(kept), "") == content,
        "metadata": profile["metadata"],
        "status": raw.mapping(profile, "status"),
    }


def _priced(profile: Mapping[str, Any], former: Versions) -> Versions:
    """The newest version of each shape that pods had and do not have with the present version. Most
    versions have another image and no other requests."""
    shapes = {runtimeprofile.shaping(profile)}
    priced: list[tuple[str, Mapping[str, Any]]] = []
    for content, obj in former:
        if (shape := runtimeprofile.shaping(obj)) not in shapes:
            shapes.add(shape)
            priced.append((content, obj))
    return tuple(priced)


def observe(state: HubState, name: str, profile: Mapping[str, Any]) -> bool:
    """Stores a RuntimeProfile as heard, or as our own write was answered. Returns whether pods may
    get another version by it."""
    before, now = state.profiles.get(name), entry(profile, state.options.fleet)
    if before is not None and before["metadata"].get("uid") == now["metadata"].get("uid"):
        heard, last = (
            version_number(raw.text(profile["metadata"], "resourceVersion"))
            for profile in (now, before)
        )
        if heard < last:
            return False
    if before is None or before["hash"] != now["hash"]:
        state.observe_profile(name, now)
        return True
    # What was computed with the object depends on its identity (`kinds.pods.alike`).
    objects = dict(before["former"])
    former = tuple((content, objects.get(content, obj)) for content, obj in now["former"])
    same = {"object": before["object"], "copy": before["copy"], "former": former}
    same["priced"] = _priced(before["object"], former)
    state.observe_profile(name, {**now, **same})
    return False


def version_copy(state: HubState, profile: Profile) -> Mapping[str, Any] | None:
    """The copy of a version for members; None if the version is not known."""
    known = state.profiles.get(profile[0])
    if known is None:
        return None
    if known["hash"] == profile[1]:
        copy: Mapping[str, Any] = known["copy"]
        return copy
    former = dict(known["former"]).get(profile[1])
    return runtimeprofile.member_copy(former, state.options.fleet) if former is not None else None


def in_force(state: HubState, workload: Workload) -> Profile | None:
    """Name and hash of the version for the pods of a workload, as its members are to have it
    (`HubState.serving`); empty for none. None if no known version asks for so little that the
    decision covers it. Slices that exist then keep the version that they pin."""
    known = state.profiles.get(workload.profile) if workload.profile else None
    if known is None:
        return verbs.NO_PROFILE
    present: Profile = (workload.profile, known["hash"])
    if (kept := pinned(state, workload, known)) is not None:
        return workload.profile, kept
    record = state.record_of(workload)
    charged = record.terms.charged if record is not None else None
    if charged is None or workload.ask is None:
        return present
    for version, requests in _versions(state, workload, known):
        if requests.within(charged.shape.requests):
            return workload.profile, version
    return _pinned(state, workload)


def pinned(state: HubState, workload: Workload, known: Mapping[str, Any]) -> str | None:
    """Hash of the version that a workload keeps by `spec.runtime.version`. None without a pin,
    after its end, and where no version of that name is known or its decision charges less: then its
    pods get the version that they would get without a pin."""
    name, until_s = workload.pin
    if not name or state.wall() >= until_s:
        return None
    record = state.record_of(workload)
    charged = record.terms.charged if record is not None else None
    for content, requests in _named(state, workload, known, name):
        if charged is None or (requests is not None and requests.within(charged.shape.requests)):
            return content
    return None


def _named(
    state: HubState, workload: Workload, known: Mapping[str, Any], name: str
) -> Iterator[tuple[str, Resources | None]]:
    """Hash of each version of this name, the newest first, and what one copy is charged with it;
    None where that cannot be told."""
    every = ((known["hash"], known["object"]), *known["former"])
    named = [(content, obj) for content, obj in every if runtimeprofile.version_name(obj) == name]
    if not named:
        return
    requests = dict(_versions(state, workload, known))
    by_shape = {
        runtimeprofile.shaping(obj): requests[content]
        for content, obj in every
        if content in requests
    }
    for content, obj in named:
        yield content, by_shape.get(runtimeprofile.shaping(obj))


def _versions(
    state: HubState, workload: Workload, known: Mapping[str, Any]
) -> Iterator[tuple[str, Resources]]:
    """Hash of each version and what one copy is charged with it, the newest first."""
    if workload.served is None:
        ask = workload.ask
        if ask is None:
            return
        yield known["hash"], _charged(state, workload, ask.shape.requests, ask.own)
        kept = {version for version, _ in known["former"]}
        for version in workload.formerly:
            if version.version in kept:
                charged = _charged(state, workload, version.shape.requests, version.own)
                yield version.version, charged
        return
    for content, profile in ((known["hash"], known["object"]), *known["former"]):
        asked = workloads.requests(workload, workload.served, profile)
        if asked is not None:
            yield content, _charged(state, workload, *asked)


def _charged(
    state: HubState, workload: Workload, requests: Resources, own: Resources | None
) -> Resources:
    """Requests of a copy with the defaults that the accounts of its decision charge in addition."""
    record = state.record_of(workload)
    charged = record.terms.charged if record is not None else None
    if charged is None:
        return requests
    return quota.with_defaults(requests, state.bindings().accounts(charged.project), own)


def requests_served(state: HubState, serving: Workload) -> Resources | None:
    """What each copy of a workload is charged as its members are to have it while an edit is held
    back (`HubState.serving`); None while that is unknown."""
    version = in_force(state, serving)
    if serving.served is None or version is None:
        return None
    known = state.profiles.get(version[0])
    if known is None:
        asked = workloads.requests(serving, serving.served, None)
        return _charged(state, serving, *asked) if asked is not None else None
    return dict(_versions(state, serving, known)).get(version[1])


def _pinned(state: HubState, workload: Workload) -> Profile | None:
    """The version that the first slice of a workload pins; None without a slice."""
    for seen in state.slices_with_uid(workload.key, workload.uid):
        if seen.mark is not None:
            return seen.mark.rules.profile
    return None


def support(
    state: HubState,
    workload: Workload,
    record: Record,
    ask: Ask | None,
    admitted: Admitted | None,
) -> Support | None:
    """See `policying.support`; None if pods have the present version already. Then it is the
    workload that asks for more, and an earlier version is no way to give it that."""
    known = state.profiles.get(workload.profile) if workload.profile else None
    if known is None:
        return None
    if record.terms.held_profile != workload.profile and any(
        seen.mark is not None and seen.mark.rules.profile == (workload.profile, known["hash"])
        for seen in state.slices_with_uid(workload.key, workload.uid)
    ):
        return None
    return policying.support(workload, ask, admitted, state.bindings())


def in_use(state: HubState, name: str) -> set[str]:
    """Hashes of the versions of a profile that pods have or are to have."""
    used: set[str] = set()
    for workload in state.workloads.values():
        serving = state.serving(workload, state.record_of(workload))
        profile = in_force(state, serving)
        pinned = (
            seen.mark.rules.profile
            for seen in state.slices_with_uid(workload.key, workload.uid)
            if seen.mark is not None
        )
        used |= {
            version[1]
            for version in (profile, *pinned)
            if version is not None and version[0] == name
        }
    return used
