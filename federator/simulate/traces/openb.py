"""The pod list of openb (Alibaba's GPU trace of 2023) as its authors published it.

Columns: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time,
deletion_time, scheduled_time. A pod with one GPU may ask for thousandths of it; it gets a whole
one. Its node list is read by `nodes`.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from federator.model.ask import Tier
from federator.simulate.traces import works
from federator.simulate.traces.columns import Columns
from federator.simulate.traces.works import AS_OURS, Reading, TierBy, Trace

HEADER: Final = frozenset({"name", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time"})
"""By these columns a table is known as a pod list of openb."""
COLUMNS: Final = Columns(
    {
        "id": "name",
        "tenant": "qos",
        "submit": "creation_time",
        "start": "scheduled_time",
        "end": "deletion_time",
        "cpu": "cpu_milli",
        "memory": "memory_mib",
        "gpu": "num_gpu",
        "gpuModels": "gpu_spec",
    }
)
TIERS: Final[Mapping[str, Tier]] = {
    "LS": Tier.RESERVED,
    "Guaranteed": Tier.RESERVED,
    "Burstable": Tier.ON_DEMAND,
    "BE": Tier.PREEMPTIBLE,
}


def read(path: Path, reading: Reading = AS_OURS) -> Trace:
    """The pods by creation. Raises TraceError."""
    tiers = reading.tiers if reading.tiers.column else TierBy("qos", TIERS, reading.tiers.otherwise)
    columns = Columns({**COLUMNS.names, **reading.columns.names}, reading.columns.units)
    trace = works.read(path, replace(reading, columns=columns, tiers=tiers))
    trace.problems.note(
        path.name, "a pod that asks for a part of a GPU gets a whole one", "num_gpu"
    )
    services = tuple(
        replace(work, kind="service") if work.runtime_s is None else work for work in trace.works
    )
    return replace(trace, works=services)
