"""What an event of the scenario does to a running simulation."""

from fractions import Fraction
from typing import assert_never

from federator.model.fleet import ClusterView
from federator.model.scaleup import MILLIONTHS
from federator.scheduling.queueing_hints import Hint, HintKind
from federator.simulate.engine.members.member import Member
from federator.simulate.engine.running import Running
from federator.simulate.engine.simulation import Simulation
from federator.simulate.inputs import Event, EventKind, Scaled


def happen(simulation: Simulation, event: Event) -> int:
    """Makes the change, and makes due what it may help or harm. Returns how many copies lost their
    place; of services that are scaled, how many they ask for beside those before.
    """
    harmed, scaling = 0, simulation.scaling
    match event.kind:
        case EventKind.LOST:
            harmed = _empty(simulation, event.cluster)
            simulation.drains.since_s.pop(event.cluster, None)
            simulation.fleet.lose(event.cluster)
            if scaling is not None:
                scaling.lose(event.cluster, simulation.now_s)
        case EventKind.DRAINED:
            if event.cluster in simulation.fleet.members:
                simulation.fleet.change(event.cluster, draining=True)
                simulation.drains.since_s[event.cluster] = simulation.now_s
        case EventKind.RETURNED:
            simulation.drains.since_s.pop(event.cluster, None)
            if event.cluster in simulation.fleet.members:
                simulation.fleet.change(event.cluster, cordoned=False, draining=False)
            elif event.cluster in simulation.fleet.described:
                _join(simulation, simulation.fleet.described[event.cluster])
        case EventKind.ADDED:
            assert event.view is not None
            _join(simulation, event.view)
        case EventKind.GROWN:
            harmed = _regrow(simulation, event)
        case EventKind.PRICE_CHANGED if event.node_class:
            assert scaling is not None
            price = round(event.price_per_hour * MILLIONTHS)
            scaling.reprice(event.cluster, event.node_class, price, simulation.now_s)
            return 0
        case EventKind.SCALE_UP:
            assert scaling is not None
            now_s, delivers = simulation.now_s, event.delivers
            scaling.deliver(event.cluster, event.node_class, now_s, delivers=delivers)
            return 0
        case EventKind.PRICE_CHANGED:
            simulation.fleet.reprice(event.cluster, event.price_per_hour)
            return 0
        case EventKind.QUOTA_CHANGED:
            simulation.quotas = event.quotas
        case EventKind.POLICY_CHANGED:
            simulation.rules = event.rules
        case EventKind.SCALED:
            assert event.scaled is not None
            return _scale(simulation, event.scaled)
        case _:
            assert_never(event.kind)
    simulation.changed()
    quota = event.kind is EventKind.QUOTA_CHANGED
    simulation.requeue([Hint(HintKind.QUOTA) if quota else Hint(HintKind.CLUSTER, event.cluster)])
    return harmed


def _join(simulation: Simulation, view: ClusterView) -> None:
    simulation.fleet.join(view)
    if simulation.scaling is not None:
        simulation.scaling.join(view.name, simulation.now_s)


def _scale(simulation: Simulation, scaled: Scaled) -> int:
    named = set(scaled.works)
    running = [
        live for live in simulation.live.values() if live.work.id in named and not live.is_job
    ]
    if scaled.copies is None:
        return sum(simulation.scale(service, None, scaled.times) for service in running)
    copies = scaled.copies
    return sum(
        simulation.scale(service, copies[service.work.id], Fraction(1)) for service in running
    )


def _empty(simulation: Simulation, cluster: str) -> int:
    """Everything in the cluster loses its place, and is due again."""
    holders = [running for running in simulation.live.values() if cluster in running.places]
    harmed = sum(running.copies(cluster) for running in holders)
    for running in holders:
        _evict(simulation, running, cluster, simulation.fleet.members.get(cluster))
    return harmed


def _evict(simulation: Simulation, running: Running, cluster: str, member: Member | None) -> None:
    if running.is_job:
        running.break_off(simulation.now_s)
    if member is not None:
        namespace = running.ask.key.namespace
        member.give_back(running.ask.shape, running.bound.get(cluster, ()), namespace)
    running.displaced += running.copies(cluster)
    hints = simulation.take_away(running, (cluster,))
    running.waits_from(simulation.now_s, "ClusterUnhealthy")
    simulation.put(running.ask.key)
    simulation.requeue(hints)


def _regrow(simulation: Simulation, event: Event) -> int:
    """The cluster has other nodes: what runs there is bound to them, those that began first before
    the others. What does not fit any more is due again.
    """
    assert event.view is not None
    holders = [running for running in simulation.live.values() if event.cluster in running.bound]
    former, grown = simulation.fleet.replace(event.view)
    if simulation.scaling is not None:
        simulation.scaling.renew(event.cluster, simulation.now_s)
    harmed = 0
    for running in sorted(holders, key=lambda running: (running.began_s, running.ask.key)):
        copies = running.copies(event.cluster)
        share = next(share for share in running.shares if share.cluster == event.cluster)
        shape = running.shape_in(share)
        namespace = running.ask.key.namespace
        bound = grown.take(shape, copies, namespace)
        if sum(count for _, count in bound) == copies:
            running.bound[event.cluster] = bound
        else:
            grown.give_back(shape, bound, namespace)
            harmed += copies
            _evict(simulation, running, event.cluster, former)
    return harmed
