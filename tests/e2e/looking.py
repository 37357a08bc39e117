"""Lists and gets of an API server by this process, for what tests wait for and judge by.

Each `kubectl get` is a process of 0.1 CPU seconds, and a test that waits asks several times a
second. `look` understands the arguments of a plain `kubectl get -o json` and answers the same from
one kept connection; of all other arguments it says that it does not, and kubectl is run.
"""

import base64
import contextlib
import json
import select
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import client
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ANSWER_S = 60.0


class Refused(AssertionError):
    """The server does not answer, or with another status than 200."""


@contextlib.contextmanager
def _as_refused() -> Iterator[None]:
    try:
        yield
    except (OSError, client.HTTPException) as error:
        raise Refused(f"the API server cannot be reached: {error}") from error


@dataclass(frozen=True, slots=True)
class Resource:
    """A served resource, as far as a path to it needs it."""

    root: str
    """`/api/v1` or `/apis/GROUP/VERSION`."""
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return self.root.removeprefix("/apis/").removeprefix("/api/")

    def path(self, namespace: str, name: str = "") -> str:
        """In every namespace where it is empty."""
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.root}{inside}/{self.plural}" + (f"/{name}" if name else "")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a `kubectl get` asks for."""

    kinds: tuple[str, ...]
    name: str
    namespace: str
    """Empty for all."""
    selector: str


def understood(arguments: Sequence[str]) -> Wanted | None:
    """What these arguments of kubectl ask for; None where it is more than a list or a get."""
    verb, *rest = arguments
    options = {"-n": "default", "-l": ""}
    words: list[str] = []
    rest = list(reversed(rest))
    while rest:
        word = rest.pop()
        if word in options and rest:
            options[word] = rest.pop()
        elif word == "-A":
            options["-n"] = ""
        elif word.startswith("-"):
            return None
        else:
            words += word.split("/") if "/" in word else [word]
    if verb != "get" or len(words) not in (1, 2):
        return None
    kinds, name = tuple(words[0].split(",")), words[1] if len(words) == 2 else ""
    if name and (len(kinds) > 1 or options["-l"] or not options["-n"]):
        return None
    return Wanted(kinds, name, options["-n"], options["-l"])


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answers; its warnings as the header has them."""

    status: int
    body: bytes
    warnings: tuple[str, ...]


@dataclass(slots=True)
class Server:
    """The API server of a kubeconfig, with its user's token."""

    address: str
    token: str
    authority: str
    _connection: client.HTTPSConnection | None = None
    _resources: dict[str, Resource] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, wanted: Wanted) -> Any:
        """The object, or a List of all objects of these kinds. Raises `Refused`."""
        with self._lock, _as_refused():
            resources = [self._resource(kind) for kind in wanted.kinds]
            if wanted.name:
                return _shown(self._get(resources[0].path(wanted.namespace, wanted.name)))
            query = f"?{urlencode({'labelSelector': wanted.selector})}" if wanted.selector else ""
            found = [
                _shown({"apiVersion": one.api_version, "kind": one.kind, **item})
                for one in resources
                for item in self._get(one.path(wanted.namespace) + query)["items"]
            ]
        return {"apiVersion": "v1", "kind": "List", "items": found}

    def _resource(self, word: str) -> Resource:
        if word not in self._resources:
            self._resources = {}
            for root in ("/api", "/apis"):
                for key, resource in _served(self._get(root, DISCOVERY), root):
                    self._resources.setdefault(key, resource)
        if word not in self._resources:
            raise Refused(f'the server doesn\'t have a resource type "{word}"')
        return self._resources[word]

    def path(self, word: str, namespace: str, name: str = "", *, group: str = "") -> str:
        """Of a kind by a word that kubectl knows, or of one object."""
        with self._lock:
            return self._resource(f"{word}.{group}" if group else word).path(namespace, name)

    def send(
        self, method: str, path: str, body: bytes, headers: Sequence[tuple[str, str]]
    ) -> "Answer":
        """Any request."""
        with self._lock, _as_refused():
            return self._send(method, path, body, headers)

    def _get(self, path: str, accept: str = "application/json") -> Any:
        answer = self._send("GET", path, b"", [("Accept", accept)])
        if answer.status != 200:
            raise Refused(f"GET {path}: {answer.status} {answer.body.decode(errors='replace')}")
        return json.loads(answer.body)

    def _send(
        self, method: str, path: str, body: bytes, headers: Sequence[tuple[str, str]]
    ) -> "Answer":
        own = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        for last in (False, True):
            self._drop_ended()
            kept = self._connection is not None
            if self._connection is None:
                context = ssl.create_default_context(cadata=self.authority)
                self._connection = client.HTTPSConnection(
                    self.address, timeout=ANSWER_S, context=context
                )
            try:
                self._connection.putrequest(method, path)
                for header, value in {**own, "Content-Length": str(len(body))}.items():
                    if header not in {name for name, _ in headers}:
                        self._connection.putheader(header, value)
                for header, value in headers:  # some may be there twice
                    self._connection.putheader(header, value)
                self._connection.endheaders(body)
                answer = self._connection.getresponse()
                warnings = tuple(answer.headers.get_all("Warning", ()))
                return Answer(answer.status, answer.read(), warnings)
            except (OSError, client.HTTPException):
                with contextlib.suppress(OSError):
                    self._connection.close()
                self._connection = None
                if last or not kept or method != "GET":
                    raise  # else the server has ended a connection that nobody used
        raise AssertionError("not reached")

    def _drop_ended(self) -> None:
        """Forgets a kept connection that the server has ended, as it may between two requests: a
        POST that is sent on it fails, and may not be sent twice. An ended one is readable.
        """
        kept = self._connection
        if kept is not None and (kept.sock is None or select.select([kept.sock], [], [], 0)[0]):
            kept.close()
            self._connection = None


def _shown(obj: dict[str, Any]) -> dict[str, Any]:
    """Without what kubectl shows only when it is asked to."""
    obj["metadata"].pop("managedFields", None)
    return obj


def _served(groups: Mapping[str, Any], root: str) -> Iterator[tuple[str, Resource]]:
    """Each resource by every word that kubectl knows it by, the preferred versions first."""
    for group in groups["items"]:
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            where = "/".join(filter(None, (root, name, version["version"])))
            for row in version["resources"]:
                kind = (row.get("responseKind") or {}).get("kind", "")
                found = Resource(where, row["resource"], kind, row["scope"] == "Namespaced")
                words = (
                    *(row["resource"], row.get("singularResource", ""), kind.lower()),
                    *row.get("shortNames", ()),
                )
                for word in filter(None, words):
                    yield word, found
                    yield f"{word}.{name}", found


_SERVERS: dict[tuple[Path, str], Server] = {}


def server(kubeconfig: Path) -> Server:
    """Of the kubeconfig's current context, as the file is now; the connection is kept."""
    text = kubeconfig.read_text(encoding="utf-8")
    if (kubeconfig, text) not in _SERVERS:
        content = yaml.safe_load(text)
        context = _named(content["contexts"], content["current-context"])["context"]
        cluster = _named(content["clusters"], context["cluster"])["cluster"]
        user = _named(content["users"], context["user"])["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        address = cluster["server"].removeprefix("https://")
        _SERVERS[kubeconfig, text] = Server(address, user["token"], authority)
    return _SERVERS[kubeconfig, text]


def _named(rows: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next(row for row in rows if row["name"] == name)
