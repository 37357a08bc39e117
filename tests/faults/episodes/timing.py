"""Episodes of wall clocks: of hubs and of the host, which jump and drift, and of a member, which is
off for a while."""

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence

from tests.faults.rows import Episode, Stage

HOUR_S = 3600.0
DAY_S = 86400.0
JUMPS_S = (-DAY_S, -HOUR_S, HOUR_S, DAY_S)
DRIFTS = (-0.5, -0.01, 0.01, 0.5)
"""Seconds per second: a clock that is slewed, and one that is broken."""
OFF_S = (1.0, 600.0)


@contextlib.asynccontextmanager
async def wrong(
    stage: Stage, name: str, owners: Sequence[str], *, by_s: float, drift: float
) -> AsyncIterator[None]:
    """The clocks of these processes and clusters are wrong while this is entered."""
    for owner in owners:
        stage.clock(owner).jump(by_s)
        stage.clock(owner).drift(drift)
    stage.say(
        f"the clocks of {', '.join(owners)} jump by {by_s:g} s and drift by {drift:g} s a second"
    )
    stage.happened(name)
    try:
        yield
    finally:
        for owner in owners:
            stage.clock(owner).put_right()


def _jumping(
    name: str, owners: Callable[[Stage, random.Random], Sequence[str]]
) -> Callable[[Stage, random.Random], contextlib.AbstractAsyncContextManager[None]]:
    def befall(stage: Stage, rng: random.Random) -> contextlib.AbstractAsyncContextManager[None]:
        by_s = rng.choice((0.0, *JUMPS_S))
        drift = rng.choice((0.0, *DRIFTS) if by_s else DRIFTS)
        return wrong(stage, name, owners(stage, rng), by_s=by_s, drift=drift)

    return befall


def _a_hub(stage: Stage, rng: random.Random) -> Sequence[str]:
    return [rng.choice(list(stage.hubs))]


def _host(stage: Stage, rng: random.Random) -> Sequence[str]:
    return ["host"]


def member_off(stage: Stage, rng: random.Random) -> contextlib.AbstractAsyncContextManager[None]:
    """The machines of one member, API server and member process, have another time than everybody
    else."""
    member = rng.choice(list(stage.members))
    by_s = rng.choice((-1, 1)) * rng.uniform(*OFF_S)
    return wrong(stage, "member-clock-off", [member, f"member-{member}"], by_s=by_s, drift=0.0)


_PUT_RIGHT = "put right after 10 to 90 s"
ROWS = (
    Episode(
        "hub-clock-jump",
        "F8",
        "one hub's wall clock",
        _PUT_RIGHT,
        _jumping("hub-clock-jump", _a_hub),
        (10, 90),
    ),
    Episode(
        "host-clock-jump",
        "F8",
        "the host's wall clock",
        _PUT_RIGHT,
        _jumping("host-clock-jump", _host),
        (10, 90),
    ),
    Episode("member-clock-off", "F9", "one member's wall clocks", _PUT_RIGHT, member_off, (10, 90)),
)
