"""What the policies of some simulated federations say beside which clusters may be used: how copies
are divided, how they lie over zones, all or nothing; and taints of clusters, with who tolerates
them.

Drawn from a generator of its own and only in some seeds: the scripts of the others are the same
with and without.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

Body = dict[str, Any]
PER_MILLE = 400
"""Of all seeds, so many have such policies."""
INLINE_PER_MILLE = 500
"""Of the services made in such a seed, so many spell their placement out."""
TAINTS_PER_MILLE = 400
"""Of the times at which a cluster of such a seed would be cordoned, so many give or take a taint
instead.
"""
TAINT = "example.com/repairs"
DIVISION = (
    "strategy",
    "mode",
    "minPerCluster",
    "maxPerCluster",
    "groups",
    "maxClusters",
    "weights",
)


class Rulings:
    """Draws them; remembers which clusters have taints."""

    def __init__(self, rng: random.Random, clusters: Sequence[str]) -> None:
        self._rng = rng
        self._clusters = clusters
        self.tainted: set[str] = set()
        self.any = rng.randrange(1000) < PER_MILLE
        """Whether this seed has any."""

    def policy(self) -> Body:
        """The fields of a policy beside its clusters. As a merge patch they leave nothing of what
        it said before.
        """
        if not self.any:
            return {}
        rng = self._rng
        spread = rng.choice((None, self._spread()))
        division: Body = dict.fromkeys(DIVISION) | rng.choice(({}, *self._divisions()))
        return {
            "division": division,
            "spread": spread,
            "partial": rng.choice((None, None, "Allow", "RequireAll")),
            "tolerations": rng.choice((None, None, [{"key": TAINT, "operator": "Exists"}])),
        }

    def inline(self) -> Body:
        """The same for a workload that says it itself; {} for one that says nothing."""
        if not self.any or self._rng.randrange(1000) >= INLINE_PER_MILLE:
            return {}
        return without_nulls(self.policy())

    def taint(self) -> tuple[str, Body] | None:
        """A cluster and the patch that gives it a taint or takes it away; None when it is to be
        cordoned after all.
        """
        if not self.any or self._rng.randrange(1000) >= TAINTS_PER_MILLE:
            return None
        cluster = self._rng.choice(self._clusters)
        self.tainted ^= {cluster}
        effect = self._rng.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
        taints = [{"key": TAINT, "effect": effect}] if cluster in self.tainted else None
        return cluster, {"spec": {"taints": taints}}

    def _divisions(self) -> list[Body]:
        rng, first, others = self._rng, self._clusters[0], list(self._clusters[1:])
        return [
            {"strategy": "Spread"},
            {"strategy": "Pack"},
            {"strategy": "Duplicate"},
            {"strategy": "Spread", "mode": "Fresh"},
            {
                "strategy": "Weighted",
                "weights": [{"weight": 3, "names": [first]}, {"weight": 1, "names": others}],
            },
            {"minPerCluster": rng.randint(2, 3)},
            {"strategy": "Spread", "minPerCluster": 2, "maxPerCluster": rng.randint(2, 5)},
            {"maxClusters": rng.randint(1, 2)},
            {"groups": [{"name": "first", "names": others}, {"name": "second", "names": [first]}]},
        ]

    def _spread(self) -> list[Body]:
        rng = self._rng
        return [
            {
                "topologyKey": "zone",
                "maxSkew": rng.choice((0, 1, 1, 2)),
                "minDomains": rng.randint(1, 3),
                "whenUnsatisfiable": rng.choice(
                    ("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")
                ),
            }
        ]


def without_nulls(fields: Mapping[str, Any]) -> Body:
    """The fields without those that only take away what another patch said."""
    said = {
        name: without_nulls(value) if isinstance(value, dict) else value
        for name, value in fields.items()
    }
    return {name: value for name, value in said.items() if value not in (None, {})}


def bind(bodies: Sequence[Mapping[str, Any]]) -> bool:
    """Whether policies among these objects and patches may keep copies from room that is there. How
    many are placed then depends on what was held before, since nobody is moved for a rule.
    """
    specs = [body.get("spec") or {} for body in bodies]
    return any(_binds(spec) or _binds(spec.get("placement") or {}) for spec in specs)


def _binds(fields: Mapping[str, Any]) -> bool:
    bounds = ("minPerCluster", "maxPerCluster", "maxClusters")
    return (
        fields.get("partial") == "RequireAll"
        or any((fields.get("division") or {}).get(name) is not None for name in bounds)
        or (fields.get("division") or {}).get("strategy") == "Duplicate"
        or any(rule["whenUnsatisfiable"] == "DoNotSchedule" for rule in fields.get("spread") or ())
    )
