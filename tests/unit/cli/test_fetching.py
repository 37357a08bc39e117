"""What `federator get` reads and keeps of objects, and what it imports to do so."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
import yaml

from federator.cli import fetching, kindtable, views
from federator.kube.client import Client
from tests.unit.cli.files import member, pjs, psvc, run
from tests.unit.cli.hosts import Host

SERVICE = kindtable.TABLE["PinterestService"]


def test_a_name_is_a_request_for_one_object(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.make(psvc("web"), psvc("api"))

    async def listed(*_: Any, **__: Any) -> Any:
        raise AssertionError("the namespace was listed")

    monkeypatch.setattr(Client, "list_bytes", listed)
    done = run("get", "psvc", "web", "api", "-n", "feed", "-o", "name")

    assert done.exit_code == 0
    assert [line.rpartition("/")[2] for line in done.stdout.split()] == ["web", "api"]


@pytest.mark.parametrize("wide", [False, True])
def test_a_table_from_the_fields_of_its_columns_is_that_of_whole_objects(wide: bool) -> None:
    condition = {"type": "Admitted", "status": "True", "message": "all pods have it"}
    status = {"desired": 4, "ready": 3, "summary": "3/4 ready", "conditions": [condition]}
    objects = [
        {**psvc("web"), "status": status | {"policy": "zonal"}},
        psvc("new"),
        {**psvc("odd"), "status": "no object"},
        {**psvc("null"), "status": None},
        {**member("a"), "kind": "RuntimeProfile", "status": status},
    ]
    for obj in objects:
        kind = kindtable.TABLE[obj["kind"]]
        (small,) = fetching.for_columns(kind, [msgspec.json.encode(obj)], wide=wide)
        assert views.row(kind, small, wide=wide) == views.row(kind, obj, wide=wide)
    (small,) = fetching.for_columns(SERVICE, [msgspec.json.encode(objects[0])], wide=wide)
    assert "template" not in str(small)


def test_lists_as_json_and_yaml_hold_the_objects_of_the_server(host: Host) -> None:
    odd = psvc("web")
    odd["metadata"]["annotations"] = {"note": "two\nlines, \u202e and ü", "number": "1e3"}
    host.make(odd, psvc("api"), pjs("batch"))
    live = [host.find("PinterestService", name, "feed") for name in ("api", "web")]
    job = host.find("PinterestJobSet", "batch", "feed")

    as_json = run("get", "psvc,pjs", "-n", "feed", "-o", "json").stdout
    assert json.loads(as_json) == {"apiVersion": "v1", "kind": "List", "items": [*live, job]}
    assert json.dumps(json.loads(as_json), indent=4) == as_json.rstrip("\n").replace("ü", "\\u00fc")
    as_yaml = run("get", "psvc", "-n", "feed", "-o", "yaml").stdout
    assert yaml.safe_load(as_yaml) == {"apiVersion": "v1", "kind": "List", "items": live}
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        empty = run("get", "psvc", "-n", "empty", "-o", output).stdout
        assert read(empty) == {"apiVersion": "v1", "kind": "List", "items": []}


def test_a_look_at_the_host_imports_no_models_of_kinds() -> None:
    modules = "federator.cli.main, federator.cli.get, federator.cli.fetching"
    code = (
        f"import {modules}, federator.hub.query.banner, federator.kube.login.connect, sys;"
        "print([name for name in ('pydantic', 'numpy', 'federator.kinds.registry')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
