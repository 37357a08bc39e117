"""CustomResourceDefinitions that an API server has from its start.

Applying our definitions costs an API server and kubectl nine CPU seconds, because each of them makes
the server publish its schemas again; starting with all of them costs one. The first server that is
asked for definitions therefore takes them as usual, and what it then has in etcd is kept in the cache
(`build.cache_dir()`) for the etcd prefix of every later one, as long as neither the definitions nor
the server's program change.
"""

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.controlplane import build
from tests.controlplane.cluster import Cluster

Definition = Mapping[str, Any]
Ask = Callable[[str, Mapping[str, Any]], str]
"""One request to etcd's JSON gateway, below /v3/kv/."""

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "apiextensions.k8s.io/customresourcedefinitions/"
KEPT_FILES = 8


def file_of(definitions: Sequence[Definition], binaries: Path) -> Path:
    """Where the record of these definitions and this API server is kept."""
    server = (binaries / "kube-apiserver").stat()
    told = json.dumps([server.st_size, server.st_mtime_ns, *definitions], sort_keys=True)
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    return build.cache_dir().parent / f"definitions-{digest}.json"


def put(ask: Ask, prefix: str, record: Path) -> bool:
    """Writes a record under the prefix of a server that does not run yet; False if there is none."""
    if not record.is_file():
        return False
    for name, value in json.loads(record.read_text()).items():
        body = {"key": _encoded(f"/{prefix}/{GROUP}{name}"), "value": value}
        answer = ask("put", body)
        if "header" not in answer:
            raise RuntimeError(f"etcd did not take the definition {name}: {answer}")
    return True


def keep(ask: Ask, prefix: str, record: Path) -> None:
    """Records what a server has under its prefix. A cache that cannot be written stays as it is."""
    start = f"/{prefix}/{GROUP}"
    end = f"{start[:-1]}{chr(ord(start[-1]) + 1)}"
    found = json.loads(ask("range", {"key": _encoded(start), "range_end": _encoded(end)}))["kvs"]
    values = {_decoded(one["key"]).removeprefix(start): one["value"] for one in found}
    try:
        with tempfile.NamedTemporaryFile("w", dir=record.parent, delete=False) as new:
            json.dump(values, new)
        os.replace(new.name, record)
        older = sorted(
            record.parent.glob("definitions-*.json"), key=lambda one: one.stat().st_mtime
        )
        for one in older[:-KEPT_FILES]:
            one.unlink(missing_ok=True)
    except OSError:
        return


def create(cluster: Cluster, definitions: Sequence[Definition]) -> None:
    """Creates the definitions as an administrator would."""
    for definition in definitions:
        status, answer = cluster.ask(PATH, "POST", definition)
        if status not in (201, 409):
            raise RuntimeError(f"a definition was refused: {answer}")


def established(cluster: Cluster, definitions: Sequence[Definition]) -> bool:
    """Whether the server says that it has taken up each of them."""
    status, answer = cluster.ask(PATH)
    taken_up = {
        item["metadata"]["name"]
        for item in (answer["items"] if status == 200 else ())
        for one in (item.get("status") or {}).get("conditions") or ()
        if (one["type"], one["status"]) == ("Established", "True")
    }
    return taken_up >= {definition["metadata"]["name"] for definition in definitions}


def served(cluster: Cluster, definitions: Sequence[Definition]) -> bool:
    """Whether the server answers for all of them, and names them where clients look."""
    wanted: dict[str, set[str]] = {}
    for path, plural in _resources(definitions):
        wanted.setdefault(path, set()).add(plural)
    for path, plurals in wanted.items():
        status, answer = cluster.ask(path)
        if status != 200 or not plurals <= {one["name"] for one in answer["resources"]}:
            return False
        if any(cluster.ask(f"{path}/{plural}?limit=1")[0] != 200 for plural in plurals):
            return False
    return True


def _resources(definitions: Sequence[Definition]) -> Iterator[tuple[str, str]]:
    for definition in definitions:
        spec = definition["spec"]
        for version in spec["versions"]:
            if version["served"]:
                yield f"/apis/{spec['group']}/{version['name']}", spec["names"]["plural"]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()
