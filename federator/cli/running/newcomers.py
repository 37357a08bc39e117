"""Accounts for the projects of newcomers in the demo: a project in no FederatedQuota gets one, with
the limits of FederatedQuota `default`. Any YAML runs, and none can fill the fleet."""

import functools
import json
from collections.abc import Mapping
from typing import Any, Final

from federator.advice.changes import account_name
from federator.api import raw
from federator.api.raw import Obj
from federator.embedded.server import EmbeddedCluster
from federator.embedded.storage.messages import ADMIN, ApiRequest
from federator.kinds import registry

DEFAULT: Final = "default"
"""The FederatedQuota of which the limits are copied. Without it no account is made."""
_KIND: Final = registry.KINDS["FederatedQuota"]
_OWN: Final = frozenset({"projects", "namespaces", "unknownProjects"})
"""Fields of the default account that are not copied."""


def admit(host: EmbeddedCluster) -> None:
    """From now on the host makes an account before it stores a workload with an unknown project, so
    that the hub never refuses the workload for its project."""
    host.context.before_write.append(functools.partial(_before, host))


def _before(host: EmbeddedCluster, obj: Obj) -> None:
    kind = registry.kind_of(obj)
    if kind is None or kind.verbs is None:
        return
    project, namespace = kind.verbs.project(obj), obj["metadata"]["namespace"]
    resource = host.registry.get(_KIND.group, _KIND.plural)
    accounts = {each.obj["metadata"]["name"]: each.obj for each in host.store.items(resource)}
    known = any(
        project in raw.texts(each, "spec", "projects")
        or namespace in raw.texts(each, "spec", "namespaces")
        for each in accounts.values()
    )
    if DEFAULT in accounts and not known:
        body = json.dumps(account(accounts[DEFAULT], project)).encode()
        path = f"/apis/{_KIND.api_version}/{_KIND.plural}"
        headers = {"content-type": "application/json"}
        # the host refuses an account with a name that is taken
        host.api.handle(ApiRequest("POST", path, {}, headers, body, ADMIN))


def account(default: Mapping[str, Any], project: str) -> dict[str, Any]:
    """A FederatedQuota for one project with the limits of the default account."""
    limits = {field: value for field, value in default["spec"].items() if field not in _OWN}
    return {
        "apiVersion": _KIND.api_version,
        "kind": _KIND.kind,
        "metadata": {"name": account_name(project)},
        "spec": {**limits, "projects": [project]},
    }
