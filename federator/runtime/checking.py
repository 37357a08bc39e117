"""`federator runtime check`: asks the sidecar of this pod how its parts are, or reads the file that
the last run has left."""

import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from federator.runtime.running import STATE_FILE

ASK_S: Final = 5.0
BODY_MAX: Final = 1 << 20


class NoRuntime(Exception):
    """Neither the sidecar nor its file can be read; the message says why."""


def asked(port: int, folder: Path | None, host: str = "127.0.0.1") -> tuple[dict[str, Any], str]:
    """(the document, where it is from: "" for the sidecar itself). Raises NoRuntime."""
    connection = http.client.HTTPConnection(host, port, timeout=ASK_S)
    try:
        connection.request("GET", "/state")
        return _read(connection.getresponse().read(BODY_MAX)), ""
    except (OSError, http.client.HTTPException, ValueError) as bad:
        trouble = f"the sidecar does not answer at {host}:{port}: {bad}"
    finally:
        connection.close()
    if folder is None:
        raise NoRuntime(trouble)
    path = folder / STATE_FILE
    try:
        return _read(path.read_bytes()), f"{trouble}; this is what {path} says"
    except (OSError, ValueError) as bad:
        raise NoRuntime(f"{trouble}; and {path} cannot be read: {bad}") from None


def _read(body: bytes) -> dict[str, Any]:
    """Raises ValueError for what is not the document of a runtime."""
    found = json.loads(body)
    if not isinstance(found, dict) or not isinstance(found.get("parts"), list):
        raise ValueError("the answer is not that of a runtime")
    return found


def table(found: Mapping[str, Any]) -> list[str]:
    """Lines: part, ready, reason, message."""
    rows = [("PART", "READY", "REASON", "MESSAGE")]
    rows += [
        (str(p["part"]), "yes" if p["ready"] else "no", str(p["reason"]), str(p["message"]))
        for p in found["parts"]
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
