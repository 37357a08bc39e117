"""The clusters of a simulation: which there are, what they report, what they cost."""

import functools
from collections.abc import Iterable, Mapping

from federator.model.fleet import ClusterView, Views
from federator.simulate.engine.members.growing import GrowingMember
from federator.simulate.engine.members.member import Member
from federator.simulate.engine.shapes import Shapes


class SimulatedFleet:
    """The members by name. A cluster that is lost is not in it; it comes back as it was
    described.
    """

    def __init__(
        self, views: Iterable[ClusterView], shapes: Shapes, prices: Mapping[str, float]
    ) -> None:
        self._shapes = shapes
        self.described: dict[str, ClusterView] = {}
        """Every cluster as it is when it is empty, lost ones too."""
        self.members: dict[str, Member] = {}
        self._views = Views()
        """What the members last reported."""
        self._changed: set[str] = set()
        """Members that may report something else now, and clusters that are gone."""
        self.moved: set[str] = set()
        """Clusters with copies, nodes or a price that changed since the meter looked at them."""
        self._judged_anew = False
        """Some of them may be judged by filters otherwise than before."""
        self.prices = dict(prices)
        """Cluster -> price of one of its nodes for an hour."""
        for view in views:
            self.join(view)

    def join(self, view: ClusterView) -> None:
        """A new or returned cluster, empty, with the nodes of its description."""
        self.described[view.name] = view
        self.members[view.name] = self._member(view)
        self.members = dict(sorted(self.members.items()))
        self._judged_anew = True

    def replace(self, view: ClusterView) -> tuple[Member | None, Member]:
        """The cluster has other nodes, all free. Returns it as it was, if it is there, and as it
        is.
        """
        former = self.members.get(view.name)
        if former is not None:
            self.join(view)
            return former, self.members[view.name]
        self.described[view.name] = view
        return None, self._member(view)

    def _member(self, view: ClusterView) -> Member:
        changed = functools.partial(self._tell, view.name)
        if view.scale_up:
            return GrowingMember(view, self._shapes, changed)
        return Member(view, self._shapes, changed)

    def _tell(self, name: str) -> None:
        self._changed.add(name)
        self.moved.add(name)

    def reprice(self, name: str, price: float) -> None:
        """A node of the cluster costs so much for an hour from now on."""
        self.prices[name] = price
        self.moved.add(name)

    def change(self, name: str, **facts: object) -> None:
        """Other facts of a cluster that is there, such as `cordoned`."""
        self.members[name].change(**facts)
        self._judged_anew = True

    def lose(self, name: str) -> None:
        """The cluster is gone, if it was there."""
        if self.members.pop(name, None) is not None:
            self._tell(name)

    def views(self, seq: int) -> Mapping[str, ClusterView]:
        """All members as they report themselves now; the same object as before where nothing has
        changed."""
        if self._changed:
            views, members = self._views, self.members
            if all(map(views.__contains__, self._changed)) and len(views) == len(members):
                self._views = views.with_these(
                    [members[name].report(seq) for name in self._changed],
                    judged_anew=self._judged_anew,
                )
            else:  # clusters have come or gone
                self._views = Views({name: member.report(seq) for name, member in members.items()})
            self._changed.clear()
            self._judged_anew = False
        return self._views
