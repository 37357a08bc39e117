"""What a process says: JSON lines in a cluster, readable lines at a terminal; secrets out, floods held back (F68).

Modules log through the standard `logging`; `configure` is called once by the app. Nothing here is imported by the CLI's
quick commands: structlog takes its time to load.
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
"""... and then per second; how many were left out is said in the next one."""

_SECRETS = (
    re.compile(r"(?i)(bearer\s+)[a-z0-9._~+/=-]{8,}"),
    re.compile(r"()eyJ[a-zA-Z0-9_-]{8,}\.[a-zA-Z0-9_-]{8,}\.[a-zA-Z0-9_-]*"),
    re.compile(r"(?s)()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)"),
    re.compile(r"(?i)((?:token|password|client-key-data|client-certificate-data)[\"']?\s*[:=]\s*[\"']?)[^\s\"',}]{6,}"),
)


def configure(level: str = "INFO", style: Style = "auto", stream: TextIO | None = None) -> None:
    """Sends all logging of the process to `stream` (default: stderr) in one style. Replaces what was configured."""
    import structlog

    out = stream if stream is not None else sys.stderr
    as_json = style == "json" or (style == "auto" and not out.isatty())
    # JSON writes its own escapes, so that its readers get the text back; a line for people has to be made safe here.
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
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=out.isatty())
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
        # kubernetes_asyncio prints bodies of answers, and with them Secrets, at DEBUG.
        logging.getLogger(chatty).setLevel(logging.WARNING)


def redacted(text: str) -> str:
    """`text` without what looks like a token, a key or a password."""
    for pattern in _SECRETS:
        text = pattern.sub(r"\1[redacted]", text)
    return text


def _redacting(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = redacted(value)
    return event


def _visible(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in _redacting(logger, method, event).items():
        if isinstance(value, str):
            event[name] = plaintext.visible(value, keep="\n\t" if name == "exception" else "")
    return event


class FloodFilter(logging.Filter):
    """Lets each line of code write `BURST` records and then `PER_S` per second."""

    def __init__(self) -> None:
        super().__init__()
        self._left: dict[tuple[str, int], tuple[float, float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written; the first after a pause says how many were not."""
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
