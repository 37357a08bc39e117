"""Who asked an API server for what: an audit policy for the federation's accounts, and its log as
data.

plane.py gives the arguments to an API server that is started with `audited=True`; the RBAC test
reads the log.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

GROUP = "system:serviceaccounts:federator-system"
"""What the accounts of the federation's own namespace do is logged."""
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
"""So is what dies with its owner: who creates the natives of a slice that came back creates nothing
twice.
"""
WHOLE = {
    "pinterest.com": ("pinterestservices", "pinterestjobsets"),
    "federation.pinterest.com": ("placementdecisions",),
}
"""Writes of these are logged with the object that came of them, so that its `seq` can be followed.
"""


@dataclass(frozen=True, slots=True, order=True)
class Asked:
    """One kind of request, as the authorizer sees it; `refused` has the message of a 403."""

    user: str
    group: str
    resource: str
    """With its subresource: `deployments/status`. Empty for paths that are no resource."""
    verb: str
    namespace: str
    name: str
    created: bool = False
    """An object came to be by it: a server-side apply that creates needs `create` beside `patch`.
    """
    refused: str = ""


def arguments(directory: Path, name: str) -> list[str]:
    """Writes the policy; returns the flags of a kube-apiserver."""
    policy = directory / "audit-policy.yaml"
    whole = {
        "level": "RequestResponse",
        "userGroups": [GROUP],
        "verbs": ["create", "update", "patch"],
        "resources": [
            {"group": group, "resources": list(resources)} for group, resources in WHOLE.items()
        ],
    }
    ours = {"level": "Metadata", "userGroups": [GROUP]}
    collected = {"level": "Metadata", "users": [COLLECTOR], "verbs": ["delete"]}
    rules = [whole, ours, collected, {"level": "None"}]
    body = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": rules,
    }
    policy.write_text(yaml.safe_dump(body))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log_of(directory, name)}"]


def log_of(directory: Path, name: str) -> Path:
    return directory / f"{name}-audit.log"


def read(log: Path) -> set[Asked]:
    """Everything asked so far, each once."""
    return set(_read(log))


def lines(log: Path) -> list[str]:
    """The log of all requests that have been answered: each is written before its answer ends.
    A line that is being written belongs to a later answer.
    """
    return log.read_text().rpartition("\n")[0].splitlines()


def _read(log: Path) -> Iterator[Asked]:
    for line in lines(log):
        event = json.loads(line)
        ref = event.get("objectRef") or {}
        status = event.get("responseStatus") or {}
        resource, sub = ref.get("resource", ""), ref.get("subresource", "")
        yield Asked(
            user=event["user"]["username"],
            group=ref.get("apiGroup", ""),
            resource=f"{resource}/{sub}" if sub else resource,
            verb=event["verb"],
            namespace=ref.get("namespace", ""),
            name=ref.get("name", ""),
            created=status.get("code") == 201,
            refused=status.get("message", "no reason given") if status.get("code") == 403 else "",
        )
