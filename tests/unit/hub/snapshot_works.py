"""Questions that the tests beside it ask of a snapshot worker, which imports them by name."""

import logging
import os
import signal
from pathlib import Path

from federator.hub.query.access import AccessRefused
from federator.hub.snapshot.quick import Quick
from federator.hub.snapshot.world import StateCopy
from federator.kube.threads import Stop


def count(world: StateCopy, _: Stop) -> int:
    """How many workloads there are."""
    return len(world.workloads)


def measure(world: StateCopy, data: bytes, _: Stop) -> tuple[int, list[str]]:
    """(bytes that were sent, names of profiles)."""
    return len(data), sorted(world.profiles)


def count_when(world: StateCopy, begun: Path, go: Path, _: Stop) -> tuple[int, int]:
    """(process, workloads) once `go` is there; computes until then."""
    began(begun)
    while not go.exists():
        sum(range(1000))
    return os.getpid(), len(world.workloads)


def hang_once(world: StateCopy, begun: Path, _: Stop) -> int:
    """How many workloads there are; the first time it never says so."""
    if not begun.exists():
        began(begun)
        signal.pause()
    return len(world.workloads)


def first(_: StateCopy, how: str, stop: Stop) -> tuple[int, str] | None:
    """(process, what this part knows); None or a bug for other questions."""
    while how == "until it is stopped" and not stop():
        pass
    if how == "bug":
        raise ZeroDivisionError("a bug")
    return (os.getpid(), "first") if how == "short" else None


def rest(_: StateCopy, how: str, __: Stop) -> tuple[int, str]:
    """(process, what this part knows)."""
    return os.getpid(), f"rest {how}"


QUICK = Quick(first, rest)


def die(_: StateCopy, tries: Path, __: Stop) -> None:
    """Never answers."""
    with tries.open("a", encoding="ascii") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


class Unreadable:
    """Can be pickled and not be read again."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("no number",)


def tell(_: StateCopy, __: Stop) -> None:
    """Logs what must not be read."""
    logging.getLogger(__name__).warning("password: correcthorse")


def refuse(_: StateCopy, __: Stop) -> None:
    raise AccessRefused(422, "Invalid", "it is refused", retry_after_s=3)


def break_down(_: StateCopy, __: Stop) -> None:
    raise ZeroDivisionError("a bug")


def began(path: Path) -> None:
    """Writes the number of this process, complete as soon as it can be read."""
    part = path.with_suffix(".part")
    part.write_text(str(os.getpid()), encoding="ascii")
    part.rename(path)
