"""Makes `federator/embedded/data/k8s-protobuf.json.gz`: which protobuf field number is which JSON
field, for builtin types.

Run as `python tests/controlplane/trim_protobuf.py MODULE_CACHE VERSION`, for example `~/go/pkg/mod
v0.37.2`, where the modules `k8s.io/api` and `k8s.io/apimachinery` have been downloaded. kubectl's
typed commands (`create namespace`, `auth can-i`, ...) post protobuf. The data are facts about the
published wire format (Apache-2.0): names, numbers and types; none of its code is taken.
"""

import gzip
import json
import re
import sys
from pathlib import Path

OUT = Path(__file__).parents[2] / "federator" / "embedded" / "data" / "k8s-protobuf.json.gz"

GROUPS = {
    "core/v1": "v1",
    "apps/v1": "apps/v1",
    "batch/v1": "batch/v1",
    "autoscaling/v1": "autoscaling/v1",
    "autoscaling/v2": "autoscaling/v2",
    "networking/v1": "networking.k8s.io/v1",
    "policy/v1": "policy/v1",
    "coordination/v1": "coordination.k8s.io/v1",
    "discovery/v1": "discovery.k8s.io/v1",
    "scheduling/v1": "scheduling.k8s.io/v1",
    "storage/v1": "storage.k8s.io/v1",
    "rbac/v1": "rbac.authorization.k8s.io/v1",
    "events/v1": "events.k8s.io/v1",
    "admissionregistration/v1": "admissionregistration.k8s.io/v1",
    "authentication/v1": "authentication.k8s.io/v1",
    "authorization/v1": "authorization.k8s.io/v1",
}
REFERRED_TO = ("scheduling/v1alpha3",)
"""Types of these are parts of the kinds above; their own kinds are not served."""
META = "meta/v1"
SPECIAL = {
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intstr",
    "runtime.RawExtension": "raw",
    f"{META}.Time": "time",
    f"{META}.MicroTime": "microtime",
    f"{META}.Duration": "duration",
    f"{META}.FieldsV1": "fields",
    "types.UID": "string",
    "types.NodeName": "string",
}
SCALARS = {
    "string": "string",
    "bool": "bool",
    "int": "int",
    "int32": "int",
    "int64": "int",
    "byte": "int",
    "rune": "int",
    "float64": "double",
}
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^type (\w+) (\[\]\w+|map\[[\w.]+\][\w.]+|\w+)$", re.MULTILINE)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`([^`]*)`", re.MULTILINE)
_IMPORT = re.compile(r'^\t(?:(\w+) )?"(k8s\.io/[^"]+)"', re.MULTILINE)


class Packages:
    """The Go types of the packages, by `package.Type`."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.structs: dict[str, tuple[str, dict[str, str], str]] = {}
        self.aliases: dict[str, tuple[str, dict[str, str], str]] = {}
        for package, folder in folders.items():
            for path in sorted(folder.glob("*.go")):
                if path.name.startswith(("generated", "zz_")) or path.name.endswith("_test.go"):
                    continue
                text = path.read_text()
                imports = {
                    name or full.rpartition("/")[2]: short(full)
                    for name, full in _IMPORT.findall(text)
                }
                for name, body in _STRUCT.findall(text):
                    self.structs[f"{package}.{name}"] = (body, imports, package)
                for name, target in _ALIAS.findall(text):
                    self.aliases[f"{package}.{name}"] = (target, imports, package)

    def resolve(self, name: str, imports: dict[str, str], package: str) -> str:
        """One Go type as ours: a scalar, a special, `package.Struct`, `[]...` or `{}...`."""
        if name == "[]byte":
            return "bytes"
        if name.startswith("[]"):
            return "[]" + self.resolve(name[2:].lstrip("*"), imports, package)
        if name.startswith("map["):
            return "{}" + self.resolve(name.partition("]")[2], imports, package)
        if name in SCALARS:
            return SCALARS[name]
        left, dot, right = name.rpartition(".")
        full = f"{imports.get(left, left)}.{right}" if dot else f"{package}.{name}"
        if full in SPECIAL:
            return SPECIAL[full]
        if full in self.aliases:
            target, its_imports, its_package = self.aliases[full]
            resolved = self.resolve(target, its_imports, its_package)
            # Named lists of strings are messages of their own on the wire.
            return "items" if resolved == "[]string" else resolved
        return full if full in self.structs else ""

    def fields(self, full: str) -> dict[str, list[object]]:
        """number -> [JSON name, type, kept when zero?]; the name is empty for inlined structs."""
        body, imports, package = self.structs[full]
        found: dict[str, list[object]] = {}
        for _, go_type, tags in _FIELD.findall(body):
            protobuf = re.search(r'protobuf:"\w+,(\d+),', tags)
            tag = re.search(r'json:"([^"]*)"', tags)
            if protobuf is None or tag is None:
                continue
            name, _, options = tag[1].partition(",")
            resolved = self.resolve(go_type.lstrip("*"), imports, package)
            if not resolved:
                raise SystemExit(f"{full}: cannot resolve {go_type}")
            kept = go_type.startswith("*") or not re.search("omitempty|omitzero", options)
            found[protobuf[1]] = ["" if "inline" in options else name, resolved, int(kept)]
        return found


def short(import_path: str) -> str:
    """`k8s.io/api/core/v1` -> `core/v1`; apimachinery's packages by their last parts."""
    if import_path.endswith("apimachinery/pkg/apis/meta/v1"):
        return META
    if import_path.startswith("k8s.io/api/"):
        return import_path.removeprefix("k8s.io/api/")
    return import_path.rpartition("/")[2]


def trimmed(modules: Path, version: str) -> dict[str, object]:
    """Everything reachable from the kinds of the served groups."""
    api, machinery = modules / f"k8s.io/api@{version}", modules / f"k8s.io/apimachinery@{version}"
    folders = {group: api / group for group in (*GROUPS, *REFERRED_TO)} | {
        META: machinery / "pkg/apis/meta/v1"
    }
    packages = Packages(folders)
    roots = {"v1/DeleteOptions": f"{META}.DeleteOptions"}
    for full, (body, _, package) in packages.structs.items():
        if package in GROUPS and "metav1.TypeMeta" in body:
            roots[f"{GROUPS[package]}/{full.rpartition('.')[2]}"] = full
    types: dict[str, dict[str, list[object]]] = {}
    wanted = sorted(set(roots.values()))
    while wanted:
        full = wanted.pop()
        if full in types:
            continue
        types[full] = packages.fields(full)
        for _, resolved, _ in types[full].values():
            inner = str(resolved).replace("[]", "").replace("{}", "")
            if inner in packages.structs:
                wanted.append(inner)
    return {
        "version": version,
        "kinds": dict(sorted(roots.items())),
        "types": dict(sorted(types.items())),
    }


def main() -> None:
    data = json.dumps(
        trimmed(Path(sys.argv[1]).expanduser(), sys.argv[2]), separators=(",", ":")
    ).encode()
    OUT.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{OUT}: {len(data)} bytes, {OUT.stat().st_size} compressed")


if __name__ == "__main__":
    main()
