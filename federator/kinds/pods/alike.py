"""Most workloads of a fleet are alike: what was found out about a pod template is remembered by
what it depends on.

Used for shapes and for privileges, which a hub asks for each workload when it starts.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from federator.api.raw import Obj

REMEMBERED = 1024
"""Answers that are kept of each question; each holds the template that it was first asked about."""


@dataclass(frozen=True, slots=True)
class Question:
    """A template with the support that its pods get. Two are equal when their texts are. The
    profile is held, so that its id stays its own while an answer is kept. What was passed must not
    be changed afterwards.
    """

    text: bytes | str
    template: Obj = field(compare=False)
    profile: Obj | None = field(compare=False)
    sidecars: Obj = field(compare=False)
    batch: bool = field(compare=False)


def question(
    facts: Any, template: Obj, profile: Obj | None, sidecars: Obj, *, batch: bool
) -> Question:
    """`facts`: all of the template that the answer depends on."""
    decisive = (id(profile), batch, sidecars, facts)
    try:
        text: bytes | str = msgspec.json.encode(decisive)
    except (UnicodeEncodeError, OverflowError, TypeError):  # what no API server holds
        text = repr(decisive)
    return Question(text, template, profile, sidecars, batch)
