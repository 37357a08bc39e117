"""Writes that are only tried: an API server says whether it would take them (dry-run), from whom.

As `kubectl create`, `patch --type=merge` and `delete` with `--dry-run=server`, `--as` and
`--subresource`, without a process for each and without the get that kubectl sends first.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tests.e2e.federations import Ran
from tests.e2e.looking import Server

DRY = {"dryRun": "All", "fieldValidation": "Strict"}


@dataclass(frozen=True, slots=True)
class Tries:
    """Tries in one namespace, or in that of the object."""

    server: Server
    space: str

    def create(self, obj: Mapping[str, Any], *flags: str) -> Ran:
        space = obj["metadata"].get("namespace", self.space)
        path = self.server.path(obj["kind"].lower(), space, group=_group(obj))
        return self._sent("POST", path, obj, flags)

    def patch(self, what: str, body: Any, *flags: str) -> Ran:
        """`what` is KIND/NAME."""
        return self._sent("PATCH", self._path(what), body, flags)

    def delete(self, what: str, *flags: str) -> Ran:
        """`what` is KIND/NAME, or KIND for all."""
        # A body of options silences the query.
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
        return self._sent("DELETE", self._path(what), options, flags)

    def _path(self, what: str) -> str:
        kind, _, name = what.partition("/")
        return self.server.path(kind, self.space, name)

    def _sent(self, method: str, path: str, body: Any, flags: Sequence[str]) -> Ran:
        given = [flag.removeprefix("--").split("=", 1) for flag in flags]
        headers = [
            (header, value)
            for name, value in given
            for flag, header in (("as", "Impersonate-User"), ("as-group", "Impersonate-Group"))
            if name == flag
        ]
        if method == "PATCH":
            headers.append(("Content-Type", "application/merge-patch+json"))
        part = "".join(f"/{value}" for name, value in given if name == "subresource")
        answer = self.server.send(
            method, f"{path}{part}?{urlencode(DRY)}", json.dumps(body).encode(), headers
        )
        if answer.status < 300:
            return Ran(0, "", "".join(f"{warning}\n" for warning in answer.warnings))
        return Ran(1, "", answer.body.decode() if answer.status >= 500 else _message(answer.body))


def _group(obj: Mapping[str, Any]) -> str:
    return str(obj["apiVersion"]).rpartition("/")[0]


def _message(body: bytes) -> str:
    return str(json.loads(body)["message"])
