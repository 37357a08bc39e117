"""New inputs from old ones: bytes flipped, cut, doubled and joined, and JSON values swapped for
ones that hurt.

The engine where atheris is not installed; deterministic by its seed.
"""

import json
import random
from typing import Any

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 1.5, 1e308, "", "x", " ", "-1",
    "1e400", "NaN", "9" * 5000, "0-", "5-3", "0-99999999999999999999",
    "\u202e", "\x00", "١", "1\n", "9" * 40 + "%", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59", [], {}, [[]], [None], ["x", 1], {"": ""}, {"x": {"y": "z"}}, "{}", "x" * 3000,
)  # fmt: skip
TOKENS = (
    b"\xff",
    b"\x00",
    b"[",
    b"{",
    b"]",
    b"}",
    b":",
    b",",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!x ",
    b"\n",
    b"\t",
    b"- ",
    b"9" * 400,
    b"\xed\xa0\x80",
    b"\\ud800",
    b"e400",
    b'"',
)
STEPS_MAX = 6
SIZE_MAX = 6000


class Mutator:
    """Endless inputs around some seeds."""

    def __init__(self, seeds: tuple[bytes, ...], rng: random.Random) -> None:
        self.rng = rng
        self.pool = list(seeds) or [b""]

    def next(self) -> bytes:
        rng = self.rng
        data = rng.choice(self.pool)
        if rng.random() < 0.6 and (made := self._swapped(data)) is not None:
            return made
        for _ in range(rng.randint(1, STEPS_MAX)):
            data = self._step(data)
        return data[:SIZE_MAX]

    def keep(self, data: bytes) -> None:
        """Something new came of it: more will be made from it."""
        if len(self.pool) < 2000 and len(data) < 5000:
            self.pool.append(data)

    def _step(self, data: bytes) -> bytes:
        rng, at = self.rng, self.rng.randint(0, len(data))
        to = min(len(data), at + rng.randint(0, 16))
        match rng.randrange(6):
            case 0:
                return data[:at] + rng.choice(TOKENS) + data[at:]
            case 1:
                return data[:at] + data[to:]
            case 2:
                return data[:at] + data[at:to] * rng.randint(2, 8) + data[to:]
            case 3:
                return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 4:
                other = rng.choice(self.pool)
                return data[:at] + other[rng.randint(0, len(other)) :]
            case _:
                return data[:at] + rng.choice(TOKENS) + data[to:]

    def _swapped(self, data: bytes) -> bytes | None:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        for _ in range(self.rng.randint(1, 3)):
            value = self._swap(value)
        return json.dumps(value).encode()

    def _swap(self, value: Any) -> Any:
        """One place of the tree, at random, replaced, removed, renamed or doubled."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.9:
            name = rng.choice(list(value))
            if rng.random() < 0.1:
                return {
                    key if key != name else rng.choice(("", "x" * 400, "\u202e", "a/b/c")): value[
                        key
                    ]
                    for key in value
                }
            return {**value, name: self._swap(value[name])}
        if isinstance(value, list) and value and rng.random() < 0.9:
            at = rng.randrange(len(value))
            if rng.random() < 0.1:
                return value * 2
            return [*value[:at], self._swap(value[at]), *value[at + 1 :]]
        return rng.choice(NASTY)
