"""Makes `federator/api/data/podtemplate.json.gz` from a checkout of Kubernetes (its
`api/openapi-spec/v3` folder).

Run as `python tests/controlplane/trim_podtemplate.py PATH_TO_KUBERNETES VERSION`. Kept is what a
pod template and a Deployment refer to, without descriptions: a CRD with every pod field described
is 750 KB. The data are the published API description of Kubernetes (Apache-2.0); nothing of its
code is taken. The result is the same for the same input.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[2] / "federator" / "api" / "data" / "podtemplate.json.gz"
ROOTS = ("PodTemplateSpec", "Deployment")
DROPPED = (
    "description",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-unions",
    "x-kubernetes-group-version-kind",
)


def _short(reference: str) -> str:
    return reference.rpartition("/")[2].rpartition(".")[2]


def _bare(schema: Any, *, names: bool = False) -> Any:
    """Without descriptions and what structural schemas do not know; `names` while walking a map of
    property names.
    """
    if isinstance(schema, list):
        return [_bare(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": _short(schema["$ref"])}
    return {
        key: _bare(value, names=key == "properties" and not names)
        for key, value in sorted(schema.items())
        if names or key not in DROPPED
    }


def _references(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        found = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
        return found.union(*(_references(value) for value in schema.values()))
    if isinstance(schema, list):
        return set().union(*(_references(value) for value in schema))
    return set()


def trim(kubernetes: Path, version: str) -> bytes:
    """The compressed data, byte for byte the same for the same checkout."""
    schemas: dict[str, Any] = {}
    for file in ("apis__apps__v1_openapi.json", "api__v1_openapi.json"):
        spec = json.loads((kubernetes / "api" / "openapi-spec" / "v3" / file).read_text())
        schemas |= {_short(name): schema for name, schema in spec["components"]["schemas"].items()}
    kept: dict[str, Any] = {}
    todo = set(ROOTS)
    while todo:
        name = min(todo)
        kept[name] = _bare(schemas[name])
        todo = (todo | _references(kept[name])) - kept.keys()
    document = {
        "kubernetes": version,
        "licence": "Apache-2.0, The Kubernetes Authors; trimmed from api/openapi-spec/v3",
        "schemas": dict(sorted(kept.items())),
    }
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 9, mtime=0)


if __name__ == "__main__":
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_bytes(trim(Path(sys.argv[1]), sys.argv[2]))
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")
