"""What an operator may set for the history. Filled by `settings`; every field says its unit, and
why it is so."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Where a hub keeps what it decided and saw change. Its files hold names, figures and messages,
    and no secrets."""

    directory: str = ""
    """Folder of the files, made when it is not there; empty: nothing is kept. One for each hub."""
    segment_bytes: Annotated[int, Field(ge=64 * 1024, le=1024**3)] = 8 * 1024 * 1024
    """A file that has so many bytes is followed by the next one."""
    segments: Annotated[int, Field(ge=2, le=1000)] = 8
    """So many files are kept."""
    waiting_max: int = 10_000
    """More entries than this do not wait for a slow disk; they are counted as lost."""
