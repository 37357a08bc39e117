"""Reads files that a scenario, a trace or a sweep names, after their kind and size were looked at.

A device or a pipe has no size and may never end: reading one filled the memory.
"""

import errno
import stat
from pathlib import Path


def read(path: Path, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes. Raises OSError with a sentence that
    says what the path is, or how long."""
    check(path, most)
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:  # it has grown since
        raise _too_long(path, len(data), most)
    return data


def check(path: Path, most: int) -> None:
    """Raises OSError if the path is no regular file, or is longer than `most` bytes."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder; name a file in it", str(path))
    if not stat.S_ISREG(status.st_mode):
        why = "it is a device or a pipe; write what it gives to a file, and name that"
        raise OSError(errno.EINVAL, why, str(path))
    if status.st_size > most:
        raise _too_long(path, status.st_size, most)


def _too_long(path: Path, size: int, most: int) -> OSError:
    why = f"it has {size:,} bytes, and at most {most:,} are read; cut it to fewer rows or objects"
    return OSError(errno.EFBIG, why, str(path))
