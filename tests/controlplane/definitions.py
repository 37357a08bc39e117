"""Definitions of kinds that others make: HTTPRoute of the Gateway API and ServiceExport of the
Multi-Cluster Services API, out of the Go modules that their makers publish.

Read once into the cache; nothing is built.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane import build

MODULES: Mapping[tuple[str, str], str] = {
    (
        "sigs.k8s.io/gateway-api",
        "v1.6.3",
    ): "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    (
        "sigs.k8s.io/mcs-api",
        "v0.5.2",
    ): "config/crd/multicluster.x-k8s.io_serviceexports.yaml",
}
"""(module, version) -> the definition in it."""


def definitions() -> list[dict[str, Any]]:
    """All of them. Raises `build.Unavailable`."""
    return [_definition(*module, path) for module, path in MODULES.items()]


def _definition(module: str, version: str, path: str) -> dict[str, Any]:
    base = build.cache_dir().parent
    kept = base / f"{Path(path).stem}-{version}.yaml"
    if not kept.is_file():
        text = (_module(module, version, base) / path).read_bytes()
        with tempfile.NamedTemporaryFile(dir=base, delete=False) as new:
            new.write(text)
        Path(new.name).rename(kept)
    definition: dict[str, Any] = yaml.safe_load(kept.read_bytes())
    return definition


def _module(module: str, version: str, base: Path) -> Path:
    """Where the Go program keeps it, by its own checksums."""
    base.mkdir(parents=True, exist_ok=True)
    go = build.go_program(base)
    with tempfile.TemporaryDirectory() as nowhere:
        done = subprocess.run(
            [go, "mod", "download", "-json", f"{module}@{version}"],
            cwd=nowhere,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    try:
        return Path(json.loads(done.stdout)["Dir"])
    except (ValueError, KeyError):
        why = (done.stdout + done.stderr).strip()[-200:]
        raise build.Unavailable(f"{module} {version} cannot be had: {why}.") from None
