"""The world that the commitments keep: brought up to date by what changed since it was read last.

A cluster that reported is opened anew; a decision that was made is charged above those before it.
Both give the same columns as opening all of it anew, because copies are charged one decision after
the other in any case, and clusters do not depend on each other.
"""

import weakref
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from federator.model.ask import PodShape
from federator.model.fleet import Capacity, ClusterView
from federator.placement.room.charged import (
    AT_FIRST,
    SINGLY,
    SINGLY_MORE,
    Charge,
    Charged,
    News,
)
from federator.placement.room.nodes import Nodes
from federator.placement.room.trails import Place
from federator.placement.room.world import Base, Names, Opened, World, same_report

_Together: TypeAlias = dict[tuple[Place, int, int], tuple[PodShape, dict[str, int]]]
"""(place of the step, which of its pods, identity of the pod) -> (pod, cluster -> copies)."""
_NOTHING_KEPT: Final[Mapping[str, ClusterView]] = {}


class KeptWorld:
    """The room of all clusters as last asked for. Its readers go on reading what they got: before
    anything is changed the world is copied while any of them lives."""

    def __init__(self) -> None:
        self._world: World | None = None
        self.views: Mapping[str, ClusterView] = _NOTHING_KEPT
        """The clusters that it was made of."""
        self._last: dict[str, Place] = {}
        """cluster -> the last step that is charged there."""
        self._singly: dict[str, int] = {}
        """cluster -> how many charges of steps were made there one by one."""
        self._bases: dict[str, Base] = {}
        self._readers: list[weakref.ref[object]] = []
        """The readers, and some that are gone."""

    def copy(self) -> "KeptWorld":
        """A copy, which may be read in another thread."""
        made = KeptWorld()
        made._world = None if self._world is None else self._world.copy()
        made.views, made._last, made._bases = self.views, dict(self._last), dict(self._bases)
        made._singly = dict(self._singly)
        return made

    def read(
        self, clusters: Mapping[str, ClusterView], others: Names, charged: Charged, reader: object
    ) -> World:
        """The world of these clusters, as long as `reader` lives. `others`: the names of those that
        may differ from what they were; None where there are others. Not to be charged
        (`World.copy`)."""
        if self._readers:
            self._readers = [ref for ref in self._readers if ref() is not None]
        world, news = self._world, charged.news
        if world is None or others is None or news is None:
            world = None
        else:
            world = self._updated(world, clusters, others, charged, news)
        if world is None:
            world, self._readers = self._opened_anew(clusters, charged), []
        if news is None:
            charged.news = News()
        else:
            news.clear()
        self._world, self.views = world, clusters
        self._readers.append(weakref.ref(reader))
        return world

    def _updated(
        self,
        world: World,
        clusters: Mapping[str, ClusterView],
        others: list[str],
        charged: Charged,
        news: News,
    ) -> World | None:
        """The world with what has changed; None when its columns cannot take it."""
        before = self.views
        anew = {name for name in others if not same_report(before[name], clusters[name])}
        if charged.any_leaving:
            for name in sorted(news.heard):
                if (includes_seq := _includes(clusters, name)) is not None:
                    charged.tidy_leaving(name, includes_seq)
        anew |= news.anew & clusters.keys()
        charges = self._grown(clusters, charged, news, anew)
        if (anew or charges) and self._readers:
            world = world.copy()  # ledgers above the former snapshot go on reading it
            self._readers = []
        for name in sorted(anew):
            if not world.put(name, self._open(clusters[name])):
                return None
        self._charge(world, charges, clusters, charged, anew, singly=SINGLY)
        return world

    def _opened_anew(self, clusters: Mapping[str, ClusterView], charged: Charged) -> World:
        self._last, self._singly = {}, {}
        world = World({name: self._open(clusters[name]) for name in sorted(clusters)})
        self._charge(world, {}, clusters, charged, clusters, singly=SINGLY_MORE)
        return world

    def _grown(
        self, clusters: Mapping[str, ClusterView], charged: Charged, news: News, anew: set[str]
    ) -> _Together:
        """What is to be charged above what is. A cluster where that is of an earlier decision than
        the last one charged, or too much to be charged one by one, is opened anew: it is added to
        `anew`."""
        made: _Together = {}
        includes = {
            name: seq
            for name in news.heard - anew
            if (seq := _includes(clusters, name)) is not None
        }
        if not includes:
            return made  # as where a decision is reported before the next one is made
        last, late, singly = dict[str, Place](), set[str](), self._singly
        for place, at, pod, more in charged.grown(includes):
            made[place, at, id(pod)] = pod, more
            for cluster in more:
                if place < self._last.get(cluster, AT_FIRST):
                    late.add(cluster)
                elif place > last.get(cluster, AT_FIRST):
                    last[cluster] = place
                singly[cluster] = singly.get(cluster, 0) + 1
        late |= {name for name in last if singly[name] > charged.most_singly(name)}
        for cluster in late:
            for _, copies in made.values():
                copies.pop(cluster, None)
        anew |= late
        self._last |= last
        return made

    def _charge(
        self,
        world: World,
        charges: _Together,
        clusters: Mapping[str, ClusterView],
        charged: Charged,
        anew: Iterable[str],
        *,
        singly: int,
    ) -> None:
        """Charges this, and all of the clusters that are opened anew, decision by decision.
        Those of a cluster that are more than `singly` are made in sums."""
        for name in anew:
            self._last.pop(name, None)
            self._singly.pop(name, None)
            if (includes_seq := _includes(clusters, name)) is not None:
                every = charged.beyond(name, includes_seq, singly=singly)
                if not every:  # nearly always: the report includes all decisions
                    continue
                for charge in every:
                    _add(charges, name, charge)
                steps = sum(charge[0] != AT_FIRST for charge in every)
                self._last[name] = every[-1][0] if steps else charged.last_summed(name)
                self._singly[name] = steps
        for key in sorted(charges):
            world.charge(*charges[key])

    def _open(self, view: ClusterView) -> Opened | None:
        """The cluster as it reported; None where that is nothing to rely on."""
        if view.capacity is None or view.stale:
            return None
        return Opened.of(self._base(view.name, view.capacity), view.usable_permille)

    def _base(self, cluster: str, capacity: Capacity) -> Base:
        """The room of a cluster by this summary, computed once per summary."""
        cached = self._bases.get(cluster)
        if cached is None or cached.capacity is not capacity:
            cached = self._bases[cluster] = Base(capacity, Nodes.of(capacity.rows))
        return cached


def _add(made: _Together, cluster: str, charge: Charge) -> None:
    """The charges of one decision are made in all its clusters at once."""
    place, at, pod, copies = charge
    key = (place, at, id(pod))
    if (together := made.get(key)) is None:
        together = made[key] = (pod, {})
    together[1][cluster] = copies


def _includes(clusters: Mapping[str, ClusterView], name: str) -> int | None:
    """Up to which seq the cluster's report includes decisions; None without one to rely on."""
    view = clusters.get(name)
    if view is None or view.capacity is None or view.stale:
        return None
    return view.capacity.includes_seq
