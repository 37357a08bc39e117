"""Memory and processor time of processes, as Linux counts them."""

import contextlib
import os
from collections import defaultdict
from pathlib import Path


def family_of(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(fields[1])].append(int(entry.name))
    found = [pid]
    for each in found:
        found += parents[each]
    return found


def processor_s(pid: int) -> float:
    """Processor time that a process has taken so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_s(pid: int) -> float:
    """Processor time of all that descends from a process, in seconds, with what has ended and was
    waited for: the answers of a snapshot worker are processes that end."""
    tick, found = os.sysconf("SC_CLK_TCK"), 0.0
    for each in family_of(pid):
        with contextlib.suppress(OSError):  # it has ended meanwhile, and its parent counts it
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ended = int(fields[13]) + int(fields[14])
            found += (ended if each == pid else ended + int(fields[11]) + int(fields[12])) / tick
    return found


def resident_mb(pid: int) -> float:
    """Resident memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    return 0.0
