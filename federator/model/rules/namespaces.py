"""What a cluster's own LimitRanges and ResourceQuotas allow in one of its namespaces, and what a
pod would need there.

A member reports both (`Capacity.rules`, `Capacity.quotas`). An API server refuses a pod that a
LimitRange or a ResourceQuota does not allow, so a cluster that would is no place for it. Amounts
are those of `model.resources`. The checks are those of the admission plugins LimitRanger and
ResourceQuota of Kubernetes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from federator.model.ask import Container, StatedPod
from federator.model.kubernetes import quantity
from federator.model.resources import CPU, MEMORY, UNLIMITED, ZERO, Resources

Amounts: TypeAlias = tuple[tuple[str, int], ...]
"""(resource, amount) by name. A vector has no zeros, and here 0 differs from no limit."""
STATED: Final = (CPU, MEMORY)
"""Each container has to state these where a ResourceQuota bounds them."""


@dataclass(frozen=True, slots=True)
class LimitRange:
    """One entry of a LimitRange: for each container, or for all of a pod together."""

    name: str
    """Of the LimitRange."""
    of_pod: bool = False
    least: Amounts = ()
    most: Amounts = ()
    default_requests: Amounts = ()
    default_limits: Amounts = ()
    ratio: Amounts = ()
    """The most that a limit may be of its request, in thousandths."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """The resources that one ResourceQuota bounds, by name."""

    name: str
    requests: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds in one namespace of a cluster, without the amounts that change with each pod."""

    limit_ranges: tuple[LimitRange, ...] = ()
    quotas: tuple[Bounded, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotaLeft:
    """What one ResourceQuota leaves for pods that the report does not include."""

    name: str
    requests: Amounts = ()
    limits: Amounts = ()

    @property
    def bounded(self) -> Bounded:
        return Bounded(
            self.name,
            tuple(name for name, _ in self.requests),
            tuple(name for name, _ in self.limits),
        )


@dataclass(frozen=True, slots=True)
class Need:
    """What one copy counts for in the ResourceQuotas of a namespace."""

    requests: Resources
    limits: Resources


@dataclass(frozen=True, slots=True)
class Room:
    """How many copies the ResourceQuotas of a namespace have room for, and what bounds them."""

    copies: int
    why: str
    """As a part of a sentence; "" where nothing bounds them."""


def refusal(namespace: str, rules: Rules, pods: Sequence[StatedPod]) -> str:
    """Why the API server of the cluster would refuse one of these pods, whatever its quotas have
    left, as a part of a sentence; "" when it would not."""
    return next((why for pod in pods if (why := _refused(namespace, rules, pod))), "")


@lru_cache(maxsize=1024)
def _refused(namespace: str, rules: Rules, pod: StatedPod) -> str:
    containers = [_with_defaults(each, rules.limit_ranges) for each in pod.containers]
    whole = _together(containers)
    for limits in rules.limit_ranges:
        what = "pod" if limits.of_pod else "container"
        for each in [whole] if limits.of_pod else containers:
            if why := _beyond(limits, each, what):
                return f"its LimitRange {limits.name} of namespace {namespace} {why}"
    for quota in rules.quotas:
        for part, names in (("requests", quota.requests), ("limits", quota.limits)):
            for name in STATED:
                if name in names and not all(_of(each, part)[name] for each in containers):
                    return (
                        f"its ResourceQuota {quota.name} of namespace {namespace} bounds"
                        f" {part}.{name}, and a container states no {part}.{name}"
                    )
    return ""


def _of(container: Container, part: str) -> Resources:
    return container.requests if part == "requests" else container.limits


def _beyond(rule: LimitRange, stated: Container, what: str) -> str:
    """What a LimitRange asks for that these amounts do not keep; "" when they keep all."""
    requests, limits = stated.requests, stated.limits
    for name, least in rule.least:
        has = limits[name] if 0 < limits[name] < least else requests[name]
        if has < least:
            return _said(f"asks for at least {_text(name, least)} of a {what}", name, has)
    for name, most in rule.most:
        if not limits[name]:
            allows = f"allows at most {_text(name, most)} for a {what}"
            return f"{allows}, and it states no limit of {name}"
        if (has := max(limits[name], requests[name])) > most:
            return _said(f"allows at most {_text(name, most)} for a {what}", name, has)
    for name, most in rule.ratio:
        has, limit = requests[name], limits[name]
        if not has or not limit or limit * 1000 > most * has:
            allows = f"allows a limit of {name} of at most {most / 1000:g} times the request"
            there = f"{_text(name, limit)} for {_text(name, has)}" if has and limit else "no such"
            return f"{allows} of a {what}, and it states {there}"
    return ""


def _said(rule: str, name: str, has: int) -> str:
    return f"{rule}, and it has {_text(name, has)}"


def _text(name: str, amount: int) -> str:
    return f"{name} {quantity.render_amount(name, amount)}"


def _with_defaults(container: Container, ranges: Iterable[LimitRange]) -> Container:
    """The container with what the LimitRanges of its namespace add where it states nothing."""
    requests, limits = dict(container.requests), dict(container.limits)
    for each in ranges:
        if not each.of_pod:
            for name, amount in each.default_requests:
                requests.setdefault(name, amount)
            for name, amount in each.default_limits:
                limits.setdefault(name, amount)
    if len(requests) == len(container.requests) and len(limits) == len(container.limits):
        return container
    return Container(Resources(requests), Resources(limits), container.ends)


def _together(containers: Sequence[Container]) -> Container:
    """What a pod of these states: all that run beside each other, or the widest moment before."""
    return Container(
        _widest((each.requests, each.ends) for each in containers),
        _widest((each.limits, each.ends) for each in containers),
    )


def _widest(parts: Iterable[tuple[Resources, bool]]) -> Resources:
    running, widest = ZERO, ZERO
    for amounts, ends in parts:
        if ends:
            widest = widest.upper(running + amounts)
        else:
            running = running + amounts
    return running.upper(widest)


@lru_cache(maxsize=1024)
def need(pods: tuple[StatedPod, ...], rules: Rules) -> Need:
    """What a copy of these pods counts for, with what the LimitRanges add."""
    requests, limits = ZERO, ZERO
    for pod in pods:
        whole = _together([_with_defaults(each, rules.limit_ranges) for each in pod.containers])
        # Overhead and requests of the pod as a whole are in its effective request.
        requests = requests + whole.requests.upper(pod.requests) * pod.count
        limits = limits + whole.limits * pod.count
    return Need(requests, limits)


def less(quota: QuotaLeft, counted: Resources) -> QuotaLeft:
    """What the quota leaves when copies with these requests count too. Of limits a lower bound is
    subtracted: no copy has a smaller limit than its request."""
    if not counted:
        return quota
    requests, limits = (
        tuple((name, max(amount - counted[name], 0)) for name, amount in part)
        for part in (quota.requests, quota.limits)
    )
    return replace(quota, requests=requests, limits=limits)


def room(
    namespace: str, quotas: Iterable[QuotaLeft], each: Need, charged: Need, copies: int
) -> Room:
    """How many further copies the quotas of a namespace have room for.

    `each`: of one copy. `charged`: what copies need that the report does not include, `copies` in
    all; of their limits a lower bound is known, so each counts as one of these copies at least.

        3 CPU left, 1 of them charged: room for 4 copies of 500m
    """
    least = Room(UNLIMITED, "")
    for quota in quotas:
        parts = (
            ("requests", quota.requests, each.requests, charged.requests),
            ("limits", quota.limits, each.limits, charged.limits.upper(each.limits * copies)),
        )
        for part, bounded, needs, others in parts:
            for name, amount in bounded:
                if needs[name] <= 0:
                    continue
                left = max(amount - others[name], 0)
                if (fit := left // needs[name]) < least.copies:
                    named = name if part == "requests" else f"{part}.{name}"
                    why = (
                        f"ResourceQuota {quota.name} of namespace {namespace} there leaves"
                        f" {named} {quantity.render_amount(name, left)}, and a copy needs"
                        f" {quantity.render_amount(name, needs[name])}"
                    )
                    least = Room(fit, why)
    return least


NO_RULES: Final[Mapping[str, Rules]] = {}
NO_QUOTAS: Final[Mapping[str, tuple[QuotaLeft, ...]]] = {}
