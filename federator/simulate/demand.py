"""The demand of a simulation: one `Work` for each service or job, in whole seconds and units."""

from dataclasses import dataclass
from typing import Final

from federator.model.ask import Ask, Tier
from federator.model.policy import Policy

BACKOFF_LIMIT: Final = 3
"""Of a job that names none: the default of PinterestJobSet."""


@dataclass(frozen=True, slots=True)
class Failing:
    """How attempts of a job fail."""

    times: int
    """Attempts that fail before one that completes."""
    after_s: int | None = None
    """Run time after which each of them fails; None: at its end."""
    limit: int | None = None
    """So many failures are followed by another attempt; with one more the job has failed. None:
    BACKOFF_LIMIT."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """A service asks for another number of copies."""

    at_s: int
    copies: int
    cycle: float = 0.0
    """Of one that was recorded: as `Recorded.cycle`."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A workload of a live federation, as its object says it: what a `Work` has no fields for."""

    ask: Ask
    """Of the object, under the default policy."""
    own: Policy | None
    """The policy that it spells out; None when it has none of its own."""
    policy_ref: str
    """The policy that it names, "" for none."""
    cycle: float = 0.0
    """Epoch seconds of what the cycle that first decided on it knew; 0 when that is not known.
    Works of one second and one cycle are decided on together, others one after the other."""


@dataclass(frozen=True, slots=True)
class Work:
    """A service or a job as it was submitted. Amounts are for one shard; None: not recorded."""

    id: str
    kind: str
    """`service`, `job`, `jobset` or `trainingjob`."""
    namespace: str
    project: str
    tier: Tier
    home_cluster: str
    """Where it ran or queued without a federation, "" for nowhere."""
    submit_s: int
    runtime_s: int | None
    """None: to the end of the simulation."""
    shards: int = 1
    """Copies that run at once (gang). Of a service those that it first asks for."""
    cpu_milli: int | None = None
    memory_mib: int | None = None
    gpu: int | None = None
    gpu_models: tuple[str, ...] = ()
    """Empty: any model."""
    priority: int = 0
    """Higher goes first."""
    checkpoint_s: int | None = None
    """Seconds between check-points; None: it starts again from the beginning."""
    recorded: Recorded | None = None
    """Where it comes from a recording: it is decided on by this. The fields above are for reports
    then."""
    failing: Failing | None = None
    """None: every attempt completes."""
    curve: tuple[Scaling, ...] = ()
    """How a service is scaled after its submission, by time."""
    deadline_s: int | None = None
    """By which it says to have ended, counted from its start; None: it does not say."""
