"""Logging: JSON lines in a cluster, readable lines at a terminal; secrets are redacted, floods are
limited (F68).

Modules use the standard `logging`; the app calls `configure` once. The quick CLI commands do not
import this module, because structlog is slow to load.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO

from federator.model import plaintext

Style = Literal["json", "console", "auto"]

BURST = 30.0
"""Records that one line of code may write at once ..."""
PER_S = 2.0
"""... and then per second; the next record says how many were dropped."""

_SECRETS = (
    re.compile(r"(?i)(bearer\s+)[a-z0-9._~+/=-]{8,}"),
    re.compile(r"()eyJ[a-zA-Z0-9_-]{8,}\.[a-zA-Z0-9_-]{8,}\.[a-zA-Z0-9_-]*"),
    re.compile(r"(?s)()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)"),
    re.compile(
        r"(?i)((?:token|password|client-key-data|client-certificate-data)[\"']?\s*[:=]\s*[\"']?)"
        r"[^\s\"',}]{6,}"
    ),
)


def configure(level: str = "INFO", style: Style = "auto", stream: TextIO | None = None) -> None:
    """Sends all logging of the process to `stream` (default: stderr) in one style. Replaces earlier
    configuration."""
    import structlog

    out = stream if stream is not None else sys.stderr
    as_json = style == "json" or (style == "auto" and not out.isatty())
    # JSON has escapes of its own, so readers get the text back; console lines are made safe here.
    cleaned = _redacting if as_json else _visible
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        cleaned,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.addFilter(FloodFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in ("aiohttp", "asyncio", "kubernetes_asyncio"):
        # kubernetes_asyncio logs response bodies, including Secrets, at DEBUG.
        logging.getLogger(chatty).setLevel(logging.WARNING)


def redacted(text: str) -> str:
    """`text` with everything that looks like a token, key or password replaced."""
    for pattern in _SECRETS:
        text = pattern.sub(r"\1[redacted]", text)
    return text


def _redacting(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = redacted(value)
    return event


def _visible(
    logger: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for name, value in _redacting(logger, method, event).items():
        if isinstance(value, str):
            event[name] = plaintext.visible(value, keep="\n\t" if name == "exception" else "")
    return event


class FloodFilter(logging.Filter):
    """Allows each line of code `BURST` records and then `PER_S` per second."""

    def __init__(self) -> None:
        super().__init__()
        self._left: dict[tuple[str, int], tuple[float, float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written; the first after a pause says how many were dropped."""
        place = (record.pathname, record.lineno)
        left, at, dropped = self._left.get(place, (BURST, record.created, 0))
        left = min(BURST, left + max(0.0, record.created - at) * PER_S)
        if left < 1.0:
            self._left[place] = (left, record.created, dropped + 1)
            return False
        self._left[place] = (left - 1.0, record.created, 0)
        if dropped:
            record.msg = f"{record.msg} ({dropped} more like this were left out)"
        return True
