"""The demand of a simulation: one `Work` for each service or job, in whole seconds and units."""

from dataclasses import dataclass

from federator.model.ask import Tier


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
    """Copies that run at once (gang)."""
    cpu_milli: int | None = None
    memory_mib: int | None = None
    gpu: int | None = None
    gpu_models: tuple[str, ...] = ()
    """Empty: any model."""
    priority: int = 0
    """Higher goes first."""
    checkpoint_s: int | None = None
    """Seconds between check-points; None: it starts again from the beginning."""
