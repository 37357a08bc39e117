"""A platform is a module and one row: with these, workflows of its kinds are submitted, found,
followed and cancelled there, and everything else stays where it was
(docs/internals/adding-a-platform.md).
"""

import asyncio
import dataclasses
import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from federator.api import raw
from federator.gateway.api import openapi
from federator.gateway.api.models import Logs, PodLog, Verdict, WorkloadVerdict
from federator.gateway.api.problems import Problem
from federator.gateway.artifacts import workflows
from federator.gateway.artifacts.ports import ArtifactRefused
from federator.gateway.callers import Caller
from federator.gateway.options import GatewayOptions
from federator.gateway.platforms import table
from federator.gateway.platforms.events import SubmissionEvent
from federator.gateway.platforms.kinds import Progress, SubmittedKind
from federator.gateway.platforms.leader import Leader
from federator.gateway.platforms.platform import Platform
from federator.gateway.platforms.table import Row, Table
from federator.gateway.server import Gateway
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.tlsserver import Incoming
from federator.kube.wire.transport import Request, Response
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from federator.process.oidc.issuer import Issuer, Issuers
from federator.process.oidc.tokens import Trust
from tests.artifacts.made import policy_object
from tests.house.sources import ROOT
from tests.reference import schemas
from tests.unit.gateway import gating
from tests.unit.gateway.gating import SOURCE, SUBMISSIONS, USER
from tests.unit.gateway.test_bursts import unconnected
from tests.unit.gateway.test_submissions import RUN, kept
from tests.unit.hub.world import World
from tests.unit.kube.scripted import Answer
from tests.unit.oidc import issuing
from tests.unit.query import asking

NAME, VERSION = "batch", "batch.example/v1"
QUERY = "/v1/workflows/ads/query/submissions"
Obj = dict[str, Any]
PAGE = ROOT / "docs" / "internals" / "adding-a-platform.md"


def _problems(obj: Obj) -> Iterable[FieldError]:
    if not isinstance(raw.at(obj, "spec", "statement"), str):
        yield FieldError("spec.statement", "is required")


def _kind(name: str, *, ends: bool) -> SubmittedKind:
    return SubmittedKind(
        name,
        VERSION,
        ends=ends,
        has_logs=ends,
        problems=_problems,
        project=lambda obj: raw.text(obj, "spec", "project"),
        progress=lambda obj: Progress(raw.text(obj, "status", "state") or "Pending", desired=1),
    )


KINDS = (_kind("BatchRun", ends=True), _kind("BatchTable", ends=False))


class Batch:
    """Keeps objects in memory, as another system would keep them; one for all gateways."""

    def __init__(self) -> None:
        self.users = {USER}
        self.away = False
        self.objects: dict[tuple[str, str, str], Obj] = {}
        self.events: list[tuple[str, str]] = []
        self.searched = self.versions = 0

    def row(self) -> Row:
        return Row(NAME, KINDS, lambda _: self)

    def _check(self, caller: Caller) -> None:
        if self.away:
            raise Problem(503, "BatchUnavailable", "The batch system does not answer.")
        if caller.name not in self.users:
            raise Problem(403, "Forbidden", "The batch system does not know you.")

    async def admit(self, caller: Caller, namespace: str) -> None:
        self._check(caller)

    def record_event(self, about: SubmissionEvent, identity: str, obj: Mapping[str, Any]) -> None:
        self.events.append((about.reason, identity))

    async def live(self, caller: Caller, obj: Mapping[str, Any]) -> Obj | None:
        self._check(caller)
        return self.objects.get(_key(obj))

    async def labelled(
        self, caller: Caller, namespace: str, selectors_: Mapping[str, str]
    ) -> list[Obj]:
        self._check(caller)
        self.searched += 1
        wanted = {kind: selectors.parse(text) for kind, text in selectors_.items()}
        return [
            obj
            for (kind, where, _), obj in self.objects.items()
            if where == namespace and wanted[kind].matches(obj["metadata"]["labels"])
        ]

    async def verdict(self, namespace: str, objects: Sequence[Obj]) -> Verdict:
        judged = [
            WorkloadVerdict(kind=kind, name=name, verdict="queued", message="its turn comes")
            for kind, _, name in map(_key, objects)
        ]
        return Verdict(verdict="queued", asOf="", workloads=judged)

    async def logs(
        self, caller: Caller, obj: Mapping[str, Any], query: tuple[tuple[str, str], ...]
    ) -> Logs:
        self._check(caller)
        log = PodLog(cluster=NAME, pod=_key(obj)[2], container="main", text="done")
        return Logs(logs=[log], clusters=[])

    async def write(
        self, caller: Caller, obj: Obj, live: Mapping[str, Any] | None, *, dry_run: bool = False
    ) -> Obj | None:
        self._check(caller)
        at, shown = self.objects.get(_key(obj)), (live or {}).get("metadata", {})
        if raw.text(at or {}, "metadata", "resourceVersion") != shown.get("resourceVersion", ""):
            return None
        if not dry_run:
            self.versions += 1
            meta = {**obj["metadata"], "resourceVersion": str(self.versions)}
            self.objects[_key(obj)] = obj = {**obj, "metadata": meta}
        return obj

    async def delete(self, caller: Caller, obj: Mapping[str, Any]) -> bool:
        self._check(caller)
        return self.objects.pop(_key(obj), None) is not None


def _key(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    meta = obj["metadata"]
    return obj["kind"], meta["namespace"], meta["name"]


def thing(kind: str, name: str, statement: str = "select 1") -> Obj:
    spec = {"project": "ads", "statement": statement}
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def files() -> gating.Kept:
    versions = kept()
    run, stays = thing("BatchRun", "query"), thing("BatchTable", "result")
    versions.files |= {
        "q1": gating.workflow(run, stays, name="query"),
        "q2": gating.workflow(thing("BatchRun", "query", "select 2"), name="query"),
        "q-service": gating.workflow(gating.service("query", 1), name="query"),
        "t2": gating.workflow(thing("BatchTable", "result", "select 2"), name="query"),
    }
    return versions


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> Batch:
    """The platform, with its row in the table."""
    added = Batch()
    monkeypatch.setattr(table, "PLATFORMS", Table(*table.PLATFORMS.rows, added.row()))
    return added


def test_a_workflow_of_its_kinds_runs_on_an_added_platform(batch: Batch) -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, files())

        code, tried = await door.submit("q1", QUERY, dryRun=True)
        assert (code, tried["platform"], batch.objects) == (200, NAME, {})
        code, made = await door.submit("q1", QUERY, idempotencyKey="k")
        assert (code, made["platform"], made["verdict"]["verdict"]) == (201, NAME, "queued"), made
        run = f"query-{made['id'][:8]}"
        assert set(batch.objects) == {("BatchRun", "ads", run), ("BatchTable", "ads", "result")}

        batch.objects["BatchRun", "ads", run]["status"] = {"state": "Running"}
        batch.objects["BatchTable", "ads", "result"]["status"] = {"state": "Succeeded"}
        shown = await door.get(f"{QUERY}/{made['id']}")
        states = [(each["kind"], each["state"], each["desired"]) for each in shown["objects"]]
        assert states == [("BatchRun", "Running", 1), ("BatchTable", "Succeeded", 1)]
        assert (shown["state"], shown["platform"]) == ("Running", NAME)
        logs = await door.get(f"{QUERY}/{made['id']}/logs")
        assert [(each["pod"], each["text"]) for each in logs["logs"]] == [(run, "done")]

        again = await door.submit("q1", QUERY, idempotencyKey="k")
        assert (again[0], again[1]["id"], len(batch.objects)) == (200, made["id"], 2)
        for version in ("q2", "q-service"):  # the second one would run on the federation
            code, problem = await door.submit(version, QUERY, idempotencyKey="k")
            assert (code, problem["title"]) == (409, "KeyReused")

        code, other = await door.submit("q2", QUERY)
        assert code == 201
        ids = [each["id"] for each in (await door.get(QUERY))["items"]]
        assert sorted(ids) == sorted([made["id"], other["id"]])
        answer = await door.ask("DELETE", f"{QUERY}/{other['id']}")
        assert json.loads(answer.body)["state"] == "Deleted"
        assert ("BatchRun", "ads", f"query-{other['id'][:8]}") not in batch.objects
        code, changed = await door.submit("t2", QUERY)
        assert (code, len(batch.objects)) == (201, 2)
        assert (await door.get(f"{QUERY}/{made['id']}"))["state"] != "Superseded"  # its run is left
        answer = await door.ask("DELETE", f"{QUERY}/{changed['id']}")
        assert json.loads(answer.body)["title"] == "NotCancellable"

        created = [each for what, each in batch.events if what == "Submitted"]
        assert created == [made["id"], made["id"], other["id"], changed["id"]]
        assert ("Cancelled", other["id"]) in batch.events

    gating.play(scenario)


class OnlyPolicies:
    """A Transport to a host that has one SubmissionPolicy, and is asked for nothing else."""

    async def request(self, request: Request) -> Response:
        assert request.path.endswith("/submissionpolicies"), request.path
        items = [policy_object(provenance={"mode": "Off"})]
        listing = {
            "kind": "SubmissionPolicyList",
            "metadata": {"resourceVersion": "1"},
            "items": items,
        }
        return Answer(200, (json.dumps(listing).encode(),))

    async def close(self) -> None:
        """Nothing is open."""


async def ask(gateway: Gateway, method: str, path: str, body: bytes = b"") -> Any:
    """(status, document) of a request of the user `builder`."""

    async def read(_: int) -> bytes:
        return body

    now = int(RealClock().now())
    shown = Incoming(
        method,
        path,
        authorization=f"Bearer {issuing.token(iat=now, exp=now + 60)}",
        has_body=bool(body),
        read_body=read,
        headers={"content-type": "application/json"},
    )
    answer = await gateway.answer(shown)
    return answer.status, json.loads(answer.body)


def test_the_audit_names_the_platform_and_no_other_one_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In real time: a thread writes the audit."""
    monkeypatch.setattr(table, "PLATFORMS", Table(Batch().row()))
    versions = gating.Kept()
    versions.files = {"q2": gating.workflow(thing("BatchRun", "query"), name="query")}
    clock = RealClock()
    trust = Trust(issuing.URL, frozenset({issuing.AUDIENCE}), user_prefix="oidc:")
    body = json.dumps({"artifact": SOURCE, "version": "q2", "idempotencyKey": "k"}).encode()

    async def main() -> None:
        host = Client(OnlyPolicies(), "host")
        gateway = Gateway(
            host,
            OnlyPolicies(),
            issuers=Issuers([Issuer(trust, issuing.Served().connect, clock=clock)]),
            versions=versions,
            judge=Leader(host, unconnected, rng=random.Random(1)),
            options=GatewayOptions(audit_directory=str(tmp_path)),
            clock=clock,
            draw=lambda: "process",
        )
        gateway.audit.open()
        try:
            await gateway.policies.read()
            for expected in (201, 200):
                code, shown = await ask(gateway, "POST", QUERY, body)
                assert (code, shown["platform"]) == (expected, NAME), shown
            assert (await ask(gateway, "DELETE", f"{QUERY}/{shown['id']}"))[0] == 200
        finally:
            gateway.audit.close()

    asyncio.run(main())
    (file,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    platforms = {line["what"]: line.get("platform") for line in lines}
    assert platforms["created"] == platforms["repeated"] == NAME
    assert platforms["cancelling"] == platforms["cancelled"] == NAME


def test_other_workflows_stay_where_they_were_and_one_key_is_one_submission(batch: Batch) -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, files())
        code, made = await door.submit("both", RUN, idempotencyKey="k")
        assert (code, made["platform"], batch.objects) == (201, "federation", {})
        again = await door.submit("both", RUN, idempotencyKey="k")
        assert (again[0], again[1]["id"]) == (200, made["id"])
        assert (await door.submit("q-service", QUERY, idempotencyKey="k"))[0] == 201
        code, problem = await door.submit("q1", QUERY, idempotencyKey="k")
        assert (code, problem["title"], batch.objects) == (409, "KeyReused", {})

        # A platform that is away hides neither what is found elsewhere nor a used key.
        batch.away = True
        assert (await door.submit("both", RUN, idempotencyKey="k"))[0] == 200
        assert (await door.ask("GET", f"{RUN}/{made['id']}")).status == 200
        assert (await door.ask("GET", f"{RUN}/{'0' * 20}")).status == 503
        assert (await door.ask("GET", RUN)).status == 503
        # It does not admit, so keys are not looked for there.
        assert (await door.submit("v2", idempotencyKey="new"))[0] == 201
        code, problem = await door.submit("q1", QUERY, idempotencyKey="new")
        assert (code, problem["title"]) == (503, "BatchUnavailable")

    gating.play(scenario)


def test_a_caller_uses_the_platforms_that_admit_the_caller(batch: Batch) -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, files())
        now = int(world.federation.clock.now())
        runner = issuing.token(sub="runner", iat=now, exp=now + 3600)
        batch.users = {"oidc:runner"}

        code, made = await door.submit("q1", QUERY, token=runner, idempotencyKey="k")
        assert (code, made["platform"]) == (201, NAME), made
        again = await door.submit("q1", QUERY, token=runner, idempotencyKey="k")
        assert (again[0], again[1]["id"]) == (200, made["id"])
        listed = json.loads((await door.ask("GET", QUERY, token=runner)).body)
        assert [each["id"] for each in listed["items"]] == [made["id"]]
        code, problem = await door.submit("v2", token=runner)
        assert (code, problem["detail"]) == (
            403,
            "You may not create workloads in the namespace ads.",
        )

        searched = batch.searched
        code, problem = await door.submit("q1", QUERY, idempotencyKey="mine")
        assert (code, problem["detail"]) == (403, "The batch system does not know you.")
        assert (await door.submit("v2", idempotencyKey="mine"))[0] == 201
        assert batch.searched == searched
        assert (await door.ask("GET", f"{QUERY}/{made['id']}")).status == 404
        assert [each["platform"] for each in (await door.get(SUBMISSIONS))["items"]] == [
            "federation"
        ]

        batch.users = set()
        await asking.grant(world, "system:serviceaccount:ads:nobody", "ads")
        nobody = asking.token("system:serviceaccount:ads:nobody")
        for path in (QUERY, SUBMISSIONS):
            assert (await door.submit("q1", path, token=nobody))[0] == 403
            assert (await door.ask("GET", path, token=nobody)).status == 403
        batch.away = True  # it might admit this caller later
        assert (await door.submit("q1", QUERY, token=nobody))[0] == 503

    gating.play(scenario)


@pytest.mark.usefixtures("batch")
def test_a_file_that_mixes_kinds_of_two_platforms_is_refused() -> None:
    mixed = gating.workflow(thing("BatchRun", "query"), gating.service("board", 2))

    with pytest.raises(ArtifactRefused) as refusal:
        workflows.load(mixed)

    (problem,) = refusal.value.problems
    assert (problem.reason.title, problem.reason.status) == ("WorkflowInvalid", 422)
    assert problem.path == "workflow.objects[1].kind"
    assert "PinterestService/board runs on the platform federation" in problem.message
    assert "BatchRun/query on batch" in problem.message


@pytest.mark.usefixtures("batch")
def test_the_checks_of_an_added_kind_are_those_of_its_row() -> None:
    def refused(obj: Obj) -> list[str]:
        with pytest.raises(ArtifactRefused) as refusal:
            workflows.render(workflows.load(gating.workflow(obj)), {}, "ads")
        return [f"{each.path}: {each.message}" for each in refusal.value.problems]

    run = thing("BatchRun", "query")
    assert refused({**run, "spec": {}}) == ["workflow.objects[0].spec.statement: is required"]
    assert refused({**run, "apiVersion": "batch.example/v2"}) == [
        "workflow.objects[0].apiVersion: must be batch.example/v1 for a BatchRun, not"
        " 'batch.example/v2'"
    ]
    with pytest.raises(ArtifactRefused, match=r"is not a kind that is submitted: .*BatchRun"):
        workflows.load(gating.workflow(thing("Other", "other")))


def test_an_added_platform_is_in_the_documents(batch: Batch) -> None:
    described = openapi.document(table.PLATFORMS.described)["x-platforms"]

    assert [each["name"] for each in described] == ["federation", NAME]
    assert described[1]["kinds"] == [
        {"apiVersion": VERSION, "kind": "BatchRun"},
        {"apiVersion": VERSION, "kind": "BatchTable"},
    ]
    kinds = json.loads(schemas.workflow())["properties"]["objects"]["items"]["properties"]["kind"]
    assert {"BatchRun", "PinterestService"} < set(kinds["enum"])


def test_the_table_refuses_rows_that_share_a_name_or_a_kind() -> None:
    def build(_: object) -> Platform:
        return Batch()

    own = KINDS[0]
    with pytest.raises(ValueError, match="BatchRun is a kind of two platforms: one, two"):
        Table(Row("one", (own,), build), Row("two", (own,), build))
    with pytest.raises(ValueError, match="two platforms are called one"):
        Table(Row("one", KINDS[:1], build), Row("one", KINDS[1:], build))
    with pytest.raises(ValueError, match="one runs no kind"):
        Table(Row("one", (), build))


def test_the_page_names_each_method_of_the_port_and_each_field_of_a_kind() -> None:
    text = PAGE.read_text()
    methods = {name for name in vars(Platform) if not name.startswith("_")}
    fields = {each.name for each in dataclasses.fields(SubmittedKind)}
    rows = set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE))

    assert rows == methods | fields
    for path in re.findall(r"`(federator/[\w/]+\.py|tests/[\w/]+\.py)`", text):
        assert (ROOT / path).is_file(), path
    assert f"`{Path(__file__).relative_to(ROOT)}`" in text
