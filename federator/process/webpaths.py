"""Addresses of a process that serves HTTP: the paths of its table of routes."""

from urllib.parse import unquote


def matched(pattern: str, path: str) -> dict[str, str] | None:
    """The parts of a percent-encoded path by name; None if the path does not match.

    `/v1/namespaces/{namespace}` and `/v1/namespaces/web` give `{"namespace": "web"}`.
    """
    wanted, parts = pattern.split("/"), path.split("/")
    if len(wanted) != len(parts):
        return None
    given: dict[str, str] = {}
    for name, part in zip(wanted, parts, strict=True):
        if name.startswith("{"):
            given[name[1:-1]] = unquote(part)
        elif name != part:
            return None
    return given
