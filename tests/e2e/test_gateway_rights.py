"""The rights of deploy/gateway are those that the gateway uses, and no others."""

import base64
from pathlib import Path
from typing import Any

import pytest

from federator.hub.query import access
from federator.kinds import registry
from federator.kube.wire.transport import Request, Response, Transport
from federator.model.steps import ObjectRef
from tests.e2e.test_gateway import ACCOUNT, RBAC, Grounds, grounds
from tests.unit.deploy import manifests

pytestmark = [pytest.mark.e2e]
Right = tuple[str, str, str, str]
"""(namespace of the role, group, resource, verb)."""
ASKED_OF_THE_PORT = {
    ("", "federation.pinterest.com", "verdicts", "create"),
    ("", "federation.pinterest.com", "readers", "ask"),
}
"""The query port checks these by SubjectAccessReview: without them it refuses."""


class Recorded:
    """A Transport that notes the rights which its requests need."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.used: set[Right] = set()

    async def request(self, request: Request) -> Response:
        if "impersonate-user" in request.headers:
            self.used.add(("", "", "users", "impersonate"))
        elif "namespaces" not in request.path or request.method == "POST":
            self._note(request)
        else:
            self._note(request, namespaced=True)
        if "impersonate-group" in request.headers:
            self.used.add(("", "", "groups", "impersonate"))
        return await self._inner.request(request)

    def _note(self, request: Request, *, namespaced: bool = False) -> None:
        parts = request.path.strip("/").split("/")
        group = parts[1] if parts[0] == "apis" else ""
        rest = parts[3:] if parts[0] == "apis" else parts[2:]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        verb = {"POST": "create", "GET": "get" if len(rest) > 1 else "list"}[request.method]
        self.used.add((namespace if namespaced else "", group, rest[0], verb))

    async def close(self) -> None:
        await self._inner.close()


def granted() -> set[Right]:
    text = (manifests.DEPLOY / "gateway" / "account.yaml").read_text()
    return {
        (role["metadata"].get("namespace", ""), group, resource, verb)
        for role in manifests.of_kind(manifests.load(text), "Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


async def _with_a_secret(found: Grounds) -> None:
    """The source wants credentials, which lie in a Secret that the policy names."""
    host = found.federation.client("host")
    data = {"username": "ci", "password": "of-tests"}
    secret: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "store", "namespace": ACCOUNT},
        "type": "kubernetes.io/basic-auth",
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in data.items()},
    }
    await host.create(ObjectRef("v1", "secrets", ACCOUNT, "store", "Secret"), secret)
    name = found.source.removeprefix("http://").partition("/")[0]
    registries = [{"host": name, "secretRef": {"name": "store"}}]
    policy = registry.KINDS["SubmissionPolicy"].ref("", "ads")
    await host.patch(policy, {"spec": {"registries": registries}})
    found.files.authorization = "Basic " + base64.b64encode(b"ci:of-tests").decode()
    await found.gateway.policies.read()


async def test_every_right_that_is_granted_is_used_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "REMEMBERED_S", 0.0)  # a right that is taken away ends at once
    recorded: list[Recorded] = []

    def wrap(own: Transport) -> Transport:
        recorded.append(Recorded(own))
        return recorded[0]

    async with grounds(tmp_path, wrap=wrap) as found:
        await _with_a_secret(found)
        artifact = f"{found.source}@v1"
        out, _ = await found.run("submit", artifact, "--key", "one", "--wait")
        identity = out.splitlines()[1].split()[1]
        await found.run("submissions", "logs", "serving")
        await found.run("submissions", "cancel", "serving", identity)
        good, found.token = found.token, "of-the-host"
        await found.run("submissions", "list", "serving", code=3)  # a TokenReview
        found.token = good

        assert recorded[0].used | ASKED_OF_THE_PORT == granted()

        host = found.federation.client("host")
        for plural, command in (
            ("verdicts", ("submit", artifact, "--dry-run")),
            ("readers", ("submissions", "logs", "serving")),
        ):
            await found.run("submit", artifact, "--key", plural)
            ref = ObjectRef(f"{RBAC}/v1", "clusterroles", "", ACCOUNT, "ClusterRole")
            role = await host.get(ref)
            rules = [rule for rule in role["rules"] if rule["resources"] != [plural]]
            await host.patch(ref, {"rules": rules})
            before = found.federation.clock.monotonic()
            _, err = await found.run(*command, code=4 if plural == "verdicts" else 3)
            assert f"cannot {'create' if plural == 'verdicts' else 'ask'} {plural}" in err, before
            await host.patch(ref, {"rules": role["rules"]})
