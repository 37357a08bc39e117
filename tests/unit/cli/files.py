"""Runs commands in this process, and small fleets as files, for the tests of the command line
beside it.
"""

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from federator.cli.main import cli


def run(*args: str, stdin: str | None = None) -> Result:
    """One command; a Python error in it fails the test with its own traceback."""
    result = CliRunner().invoke(cli, list(args), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def write(folder: Path, name: str, *objs: Any) -> str:
    path = folder / name
    path.write_text(yaml.dump_all(objs, Dumper=yaml.CSafeDumper), encoding="utf-8")
    return str(path)


def items(text: str) -> list[dict[str, Any]]:
    """Items of a List in JSON."""
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found


def member(name: str, nodes: int = 2, *, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    """A member with equal empty nodes."""
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"zone": name}},
        "spec": spec,
        "status": {
            "capacity": {"nodes": [{"count": nodes, "allocatable": amounts, "free": amounts}]}
        },
    }


def psvc(name: str = "web", replicas: int = 4, *, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": name, "namespace": "feed"},
        "spec": {"replicas": replicas, **spec, "template": {"spec": {"containers": [container]}}},
    }


def pjs(name: str = "batch", shards: int = 6, **spec: Any) -> dict[str, Any]:
    return {
        **psvc(name),
        "kind": "PinterestJobSet",
        "spec": {"shards": shards, **spec, "template": psvc()["spec"]["template"]},
    }


def policy(name: str = "rules", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": name, "namespace": "feed"},
        "spec": spec,
    }


def quota(name: str = "feed", **tiers: Any) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "FederatedQuota",
        "metadata": {"name": name},
        "spec": {"projects": [name], "namespaces": [name], "tiers": tiers},
    }
