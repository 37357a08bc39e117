"""Labels of the pod's identity on samples of the Prometheus text format, a line at a time. Pure."""

import re
from collections.abc import Mapping
from typing import Final

_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_SAMPLE: Final = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*(?:\{{((?:[^\"}}]|{_QUOTED})*+)\}})?[ \t]*([^ \t{{].*)"
)
_LABEL: Final = re.compile(rf"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*({_QUOTED})\s*(?:,|$)")
EXPORTED: Final = "exported_"
"""Before a label of the application that has the name of a label of the identity, as Prometheus
itself does it. An application cannot claim to be another one."""


def labelled(line: str, labels: Mapping[str, str]) -> str | None:
    """The line with the labels; comments stay as they are. None for a line that is no sample."""
    if not line.strip() or line.startswith("#"):
        return line
    match = _SAMPLE.fullmatch(line)
    if match is None:
        return None
    pairs, at, own = [], 0, match[2] or ""
    while at < len(own.rstrip()):
        label = _LABEL.match(own, at)
        if label is None:
            return None
        name = f"{EXPORTED}{label[1]}" if label[1] in labels else label[1]
        pairs.append(f"{name}={label[2]}")
        at = label.end()
    pairs += [f'{name}="{_escaped(value)}"' for name, value in labels.items()]
    return f"{match[1]}{{{','.join(pairs)}}} {match[3]}" if pairs else line


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
