"""The logs part of a pod's runtime: prints the application's log files on the sidecar's standard
output, from where the node collects them as any container's. What other containers print themselves
is the node's business.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from federator.runtime.logs import following
from federator.runtime.logs.following import Folder
from federator.runtime.logs.records import record
from federator.runtime.parts import PartState

NAME: Final = "logs"
PASS_S: Final = 1.0
FOLDER: Final = "PINTEREST_LOG_DIR"
PATTERN: Final = "FEDERATOR_LOGS_PATTERN"
STATE_DIR: Final = "FEDERATOR_STATE_DIR"
DEFAULT: Final = "/var/log/pinterest"


class LogsPart:
    """See `parts.Part`. It never makes a pod unready: an application serves without its logs."""

    def __init__(
        self, folder: Folder, labels: Mapping[str, str], write: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._labels = labels
        self._write = write
        self._reading = threading.Lock()

    @property
    def name(self) -> str:
        return NAME

    async def prepare(self) -> None:
        """Nothing has to be there before the application starts."""

    async def run(self) -> None:
        self._folder.resume()
        try:
            while True:
                more = await asyncio.to_thread(self._turn)
                await asyncio.sleep(0.0 if more else PASS_S)
        finally:
            # In this thread: the process ends, and nothing else waits for the loop.
            with self._reading:
                self._folder.end(self._show)

    def _turn(self) -> bool:
        with self._reading:
            return self._folder.turn(self._show)

    async def drain(self) -> None:
        """The application goes on logging until it has ended, and so does this part."""

    def state(self) -> PartState:
        folder = self._folder
        if folder.trouble:
            return PartState(NAME, ready=True, reason="FolderMissing", message=f"{folder.trouble}.")
        skipped = f", {folder.skipped} not followed" if folder.skipped else ""
        message = f"{len(folder.files)} files of {folder.path}{skipped}."
        return PartState(NAME, ready=True, reason="Printing", message=message)

    def _show(self, file: str, text: str, partial: bool) -> None:
        self._write(record(text, self._labels, file, partial=partial))


class Pod(Protocol):
    """What the runner gives a part."""

    @property
    def env(self) -> Mapping[str, str]: ...


def make(pod: Pod) -> LogsPart:
    """The logs part of a pod, from the variables of its container."""
    state = pod.env.get(STATE_DIR, "")
    folder = Folder(
        Path(pod.env.get(FOLDER) or DEFAULT),
        pod.env.get(PATTERN) or "*.log",
        Path(state) if state else None,
    )

    def write(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    return LogsPart(folder, dict(following.labels(pod.env)), write)
