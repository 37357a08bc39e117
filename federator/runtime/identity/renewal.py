"""When a certificate is renewed. Pure: chance and clocks are arguments."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

SHARE: Final = 2 / 3
"""Share of the lifetime after which it is renewed: a third is left for a CA that is away."""
JITTER: Final = 0.1
"""Up to this share of the lifetime sooner: pods that started together do not renew together."""


def rfc3339(at_s: float) -> str:
    """Epoch seconds as text, such as 2026-12-01T08:00:00Z."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Epoch seconds between which a certificate is valid."""

    begin_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s

    def left_s(self, now_s: float) -> float:
        return self.end_s - now_s

    def due_s(self, chance: float) -> float:
        """When it is renewed, in epoch seconds; `chance` from 0 to 1."""
        return self.begin_s + self.length_s * (SHARE - JITTER * chance)
