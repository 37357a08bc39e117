"""What people mistype in policies: a zone, a name, a weight, a bound. In some seeds only, drawn
from a generator of their own, and put right at the end of the script.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

Body = dict[str, Any]
PER_MILLE = 350
"""Of all seeds, so many have mistakes in their policies."""
CLUSTERS = ("exclude", "names", "selector")


class Mistakes:
    """Draws them."""

    def __init__(self, rng: random.Random, clusters: Sequence[str]) -> None:
        self._rng = rng
        self._clusters = clusters
        self.any = rng.randrange(1000) < PER_MILLE
        """Whether this seed has any."""

    def policy(self) -> Body:
        """The edit of a policy, as a merge patch."""
        if self._rng.random() < 0.4:
            return {"division": self._division()}
        return {"clusters": self._clusters_chosen()}

    def _clusters_chosen(self) -> Body:
        """Mostly a choice that admits nobody, or fewer than hold copies."""
        chosen: Mapping[str, Any] = self._rng.choice(
            (
                {"selector": {"matchLabels": {"zone": "z-l"}}},
                {
                    "selector": {
                        "matchExpressions": [{"key": "zoen", "operator": "In", "values": ["z-1"]}]
                    }
                },
                {"names": [f"{self._clusters[0]}{self._clusters[0]}"]},
                {"names": [self._clusters[0]]},
                {"selector": {"matchLabels": {"zone": "z-1"}}},
                {},
            )
        )
        return dict.fromkeys(CLUSTERS) | dict(chosen)

    def _division(self) -> Body:
        none = [{"weight": 0, "names": list(self._clusters)}]
        return dict(
            self._rng.choice(
                (
                    {"maxPerCluster": 1, "minPerCluster": None},
                    {"maxPerCluster": None},
                    {"strategy": "Weighted", "weights": none},
                    {"strategy": "Spread", "weights": None},
                    {"groups": [{"name": "only", "names": ["nobody"]}]},
                    {"groups": None},
                )
            )
        )

    @staticmethod
    def cure() -> Body:
        """Every policy as it admits all clusters."""
        return {"clusters": dict.fromkeys(CLUSTERS), "division": None}
