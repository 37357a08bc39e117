"""One request of a random sequence, written so that both servers get the same although their uids
and versions differ.

`generate` makes steps, `sides` fills in what a server said earlier: "@rv KEY", "@old KEY" and "@uid
KEY" in a body or a query become the newest version, the first version and the uid of the object
with that key, "@token N" the continue token of step N, "@live KEY" (as {"@live": KEY, "@with":
[[path, value], ...]}) the object as last seen with changes, "@name(KEY)" in a path its name, and
{ns} and "@ns" the namespace of the sequence.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One request. `verb` and `kind` are its cell in the coverage table."""

    number: int
    verb: str
    kind: str
    method: str
    path: str
    key: str = ""
    """What memory calls the object that the answer shows; empty when the answer is not remembered.
    """
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    """A tree with placeholders, bytes to be sent as they are, or None for no body."""
    content_type: str = "application/json"
    accept: str = "application/json"
    sentinel: str = ""
    """For watches: the name of the object whose arrival ends the reading."""

    def __str__(self) -> str:
        asked = "&".join(f"{name}={value}" for name, value in self.query)
        body = "" if self.body is None else f" {self.content_type} {self.body}"
        return f"{self.number}: {self.method} {self.path}?{asked}{body}"
