"""Daemons in simulated worlds: what their user does, and the machines that come to take them or no
longer do. The rules are in `daemonrules`.

The daemon of a world is in the namespace of `lives` and stays there, in most worlds, so that it can
be looked at when all is at rest. Machines are chosen by a label that nothing else asks for.
"""

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.simulation.drawing import generator
from tests.simulation.lives import MOVE_S, NAMESPACE, Body, Move
from tests.simulation.ordinals import DAEMON
from tests.simulation.world import World

NAME = "everywhere"
LABEL = "agents"
"""Of clusters and of machines that are to have it, with the value `yes`."""
PER_MILLE = 200
"""Of all worlds, so many have one."""
PICKY_SHARE = 0.5
"""Of these, in such a part its pods choose machines."""
GONE_SHARE = 0.2
"""In such a part it is deleted in the end."""
MOVES = 6
_EVERY = {"names": None, "exclude": None, "selector": None}


class Daemons:
    """What the user of one world does with its daemon."""

    def __init__(self, seed: int, clusters: Sequence[str]) -> None:
        self._rng = generator(seed, "daemons")
        self._clusters = list(clusters)
        self.any = self._rng.randrange(1000) < PER_MILLE
        self.picky = self._rng.random() < PICKY_SHARE
        self._image = 1

    def begin(self) -> Iterator[Move]:
        """What is made first of all."""
        if not self.any:
            return
        for cluster in self._clusters:
            if self._rng.random() < 0.5:
                yield 0.0, *_labelled(cluster, "yes")
        yield 0.0, "create", DAEMON, NAMESPACE, NAME, self._made()

    def moves(self) -> list[Move]:
        """What is done while everything else happens."""
        ways = (self._relabelled, self._relabelled, self._placed, self._rolled, self._again)
        return [
            (round(self._rng.uniform(*MOVE_S), 3), *self._rng.choice(ways)())
            for _ in range(MOVES if self.any else 0)
        ]

    def end(self) -> Iterator[Move]:
        """In some worlds it is put away."""
        if self.any and self._rng.random() < GONE_SHARE:
            yield 0.0, "delete", DAEMON, NAMESPACE, NAME, {}

    def _made(self) -> Body:
        chosen = {key: value for key, value in self._chosen().items() if value is not None}
        placement = {"placement": {"clusters": chosen}} if chosen else {}
        return {"spec": {"template": {"spec": self._pod()}, **placement}}

    def _pod(self) -> Body:
        requests = {"cpu": "50m", "memory": "32Mi"}
        image = f"agent:{self._image}"
        pod: Body = {
            "containers": [{"name": "app", "image": image, "resources": {"requests": requests}}]
        }
        return {**pod, "nodeSelector": {LABEL: "yes"}} if self.picky else pod

    def _chosen(self) -> dict[str, Any]:
        """Which clusters are to have it, as a merge patch of what was chosen before."""
        rng = self._rng
        some = sorted(rng.sample(self._clusters, rng.randint(1, len(self._clusters))))
        labelled = {"selector": {"matchLabels": {LABEL: "yes"}}}
        return _EVERY | rng.choice(
            ({}, labelled, labelled, {"names": some}, {"exclude": [rng.choice(self._clusters)]})
        )

    def _relabelled(self) -> tuple[str, str, str, str, Body]:
        return _labelled(self._rng.choice(self._clusters), self._rng.choice(("yes", None)))

    def _placed(self) -> tuple[str, str, str, str, Body]:
        body = {"spec": {"placement": {"clusters": self._chosen()}}}
        return "patch", DAEMON, NAMESPACE, NAME, body

    def _rolled(self) -> tuple[str, str, str, str, Body]:
        self._image += 1
        body = {"spec": {"template": {"spec": self._pod()}}}
        return "patch", DAEMON, NAMESPACE, NAME, body

    def _again(self) -> tuple[str, str, str, str, Body]:
        return "re-create", DAEMON, NAMESPACE, NAME, self._made()


def _labelled(cluster: str, value: str | None) -> tuple[str, str, str, str, Body]:
    body = {"metadata": {"labels": {LABEL: value}}}
    return "patch", "MemberCluster", "", cluster, body


class Machines:
    """Machines of a world whose daemon chooses some: they get its label, and lose it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    async def turn(self, world: World) -> None:
        """One machine gets the label, or loses it."""
        name = self._rng.choice(sorted(world.federation.members))
        member = world.federation.members[name]
        found = sorted(one.key[1] for one in member.store.items(member.registry.get("", "nodes")))
        ref = ObjectRef("v1", "nodes", "", self._rng.choice(found), "Node")
        label = {LABEL: self._rng.choice(("yes", "yes", None))}
        with contextlib.suppress(errors.NotFound):  # the cluster may have been made anew
            await world.member(name).patch(ref, {"metadata": {"labels": label}})
