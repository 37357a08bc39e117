"""The events of a scenario, with their clusters checked: an event about a cluster that is not there
is an error with the field's path."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final

from federator.model.accounts import QuotaAccount
from federator.model.errors import FieldError
from federator.model.fleet import ClusterView
from federator.placement.policy.policies import Rule
from federator.simulate.demand import Work
from federator.simulate.engine.asks import SERVICE
from federator.simulate.inputs import Event, EventKind, Scaled
from federator.simulate.scenario import fleet, schema
from federator.simulate.scenario.fields import existing, near
from federator.simulate.scenario.schema import Object

_TENANT: Final = ("project", "namespace")
_ABOUT: Final = (
    ("lost", EventKind.LOST),
    ("returned", EventKind.RETURNED),
    ("drained", EventKind.DRAINED),
)


def assemble(
    given: Sequence[schema.Event],
    views: Mapping[str, ClusterView],
    quotas: Callable[[Sequence[Object], str], tuple[QuotaAccount, ...]],
    rules: Callable[[Sequence[Object], str], tuple[Rule, ...]],
    works: Sequence[Work],
    *,
    scale: Fraction = Fraction(1),
) -> tuple[Event, ...]:
    """The events by time. `scale`: what the demand was scaled by; numbers of replicas are scaled as
    it was. Raises FieldError."""
    clusters = dict(views)
    made: list[Event] = []
    for at, event in sorted(enumerate(given), key=lambda pair: pair[1].at):
        path = f"events[{at}]"
        for name, kind in _ABOUT:
            subjects = getattr(event, name)
            for cluster in _selected(subjects or (), clusters, f"{path}.{name}"):
                made.append(Event(event.at, kind, cluster))
        if event.added is not None:
            view = fleet.view_of(event.added, f"{path}.added")
            if view.name in clusters:
                raise FieldError(
                    f"{path}.added.name",
                    f"cluster {view.name!r} is there already; `grown` changes it",
                )
            clusters[view.name] = view
            made.append(Event(event.at, EventKind.ADDED, view.name, view, event.added.price or 0.0))
        if event.grown is not None:
            made.append(_grown(event, event.grown, clusters, path))
        if event.price_changed is not None:
            made.append(_repriced(event.at, event.price_changed, clusters, f"{path}.priceChanged"))
        if event.scale_up is not None:
            made.append(_delivers(event.at, event.scale_up, clusters, f"{path}.scaleUp"))
        if event.quota_changed is not None:
            accounts = quotas(event.quota_changed, f"{path}.quotaChanged")
            made.append(Event(event.at, EventKind.QUOTA_CHANGED, quotas=accounts))
        if event.policy_changed is not None:
            made.append(
                Event(
                    event.at,
                    EventKind.POLICY_CHANGED,
                    rules=rules(event.policy_changed, f"{path}.policyChanged"),
                )
            )
        if event.scaled is not None:
            made.append(
                Event(event.at, EventKind.SCALED, scaled=_scaled(event, works, scale, path))
            )
    return tuple(made)


def scaled_services(given: Sequence[schema.Event], works: Sequence[Work]) -> frozenset[str]:
    """The ids of all services that events scale. Raises FieldError."""
    return frozenset(
        name
        for at, event in enumerate(given)
        if event.scaled is not None
        for name in _services(event.scaled, event.at, works, f"events[{at}]")
    )


def _scaled(event: schema.Event, works: Sequence[Work], scale: Fraction, path: str) -> Scaled:
    """Replicas are rounded to whole ones, some up and some down, so that their sum is exact to one
    half."""
    given = event.scaled
    assert given is not None
    services = _services(given, event.at, works, path)
    subject = f"{', '.join(given.services[:3])}{', ...' if len(given.services) > 3 else ''}"
    if given.replicas is None:
        times = Fraction(1) if given.times is None else given.times
        return Scaled(subject, services, times=times)
    each = given.replicas * scale
    sums = [round(each * number) for number in range(len(services) + 1)]
    copies = (after - before for before, after in pairwise(sums))
    return Scaled(subject, services, dict(zip(services, copies, strict=True)))


def _services(given: schema.Scaled, at_s: int, works: Sequence[Work], path: str) -> tuple[str, ...]:
    """The ids of the services that are there at that time."""
    services = {work.id: work for work in works if work.kind == SERVICE}
    here = f"{path}.scaled.services"
    ids: dict[str, None] = {}
    for name in given.services:
        key, selects, value = name.partition("=")
        if selects:
            if key not in _TENANT:
                raise FieldError(here, f"{name!r}: services are selected by {' or '.join(_TENANT)}")
            chosen = [
                service.id
                for service in services.values()
                if getattr(service, key) == value and service.submit_s <= at_s
            ]
            if not chosen:
                raise FieldError(here, f"there is no service of {name!r} at that time")
            ids |= dict.fromkeys(chosen)
            continue
        if name not in services:
            jobs = any(work.id == name for work in works)
            why = (
                "is a job, and only services scale"
                if jobs
                else f"is no service{near(name, list(services))}"
            )
            raise FieldError(here, f"{name!r} {why}")
        if services[name].submit_s > at_s:
            raise FieldError(here, f"{name!r} is submitted later, at {services[name].submit_s} s")
        ids[name] = None
    return tuple(ids)


def _grown(
    event: schema.Event, given: schema.Grown, clusters: dict[str, ClusterView], path: str
) -> Event:
    name = existing(given.cluster, clusters, f"{path}.grown.cluster")
    if not given.by and given.nodes is None:
        raise FieldError(f"{path}.grown", "changes nothing: give by or nodes")
    more = fleet.row_of(given.nodes, f"{path}.grown.nodes") if given.nodes is not None else None
    clusters[name] = fleet.grown(clusters[name], given.by, more, f"{path}.grown.by")
    return Event(event.at, EventKind.GROWN, name, clusters[name])


def _repriced(
    at_s: int, given: schema.Price, clusters: Mapping[str, ClusterView], path: str
) -> Event:
    name = existing(given.cluster, clusters, f"{path}.cluster")
    node_class = _class(given.node_class, clusters[name], path) if given.node_class else ""
    return Event(
        at_s,
        EventKind.PRICE_CHANGED,
        name,
        price_per_hour=given.price,
        node_class=node_class,
    )


def _delivers(
    at_s: int, given: schema.ScaleUpChange, clusters: Mapping[str, ClusterView], path: str
) -> Event:
    name = existing(given.cluster, clusters, f"{path}.cluster")
    if not clusters[name].scale_up:
        raise FieldError(f"{path}.cluster", f"cluster {name!r} has no scaleUp: it adds no nodes")
    node_class = _class(given.node_class, clusters[name], path) if given.node_class else ""
    return Event(at_s, EventKind.SCALE_UP, name, node_class=node_class, delivers=given.delivers)


def _class(name: str, view: ClusterView, path: str) -> str:
    names = [each.name for each in view.scale_up]
    if name not in names:
        why = f"scaleUp of cluster {view.name!r} has no class {name!r}{near(name, names)}"
        raise FieldError(f"{path}.class", why)
    return name


def _selected(
    given: Sequence[str], clusters: Mapping[str, ClusterView], path: str
) -> Iterator[str]:
    """Clusters by name, or by a label that they have: those that lie in this domain only."""
    for name in given:
        key, selects, value = name.partition("=")
        if not selects:
            yield existing(name, clusters, path)
            continue
        matches = [view.name for view in clusters.values() if view.domains(key) == (value,)]
        if not matches:
            raise FieldError(path, f"no cluster has the label {name!r}")
        yield from matches
