"""From a request to a running workload: submit, verdict, objects, status, cancel, and the same
request once more.
"""

import asyncio
import dataclasses
import json
from typing import Any

import pytest

from federator.embedded.storage.messages import Caller
from federator.gateway import records
from federator.hub.query.access import REMEMBERED_S
from federator.model.steps import ObjectRef
from tests.unit.gateway import gating
from tests.unit.gateway.gating import SUBMISSIONS, Kept
from tests.unit.hub.world import World
from tests.unit.oidc import issuing
from tests.unit.query import asking

RUN = "/v1/workflows/ads/train/submissions"


def kept() -> Kept:
    """The versions of two workflows: a service, and a job with a service beside it."""
    versions = Kept()
    versions.files |= {
        "v2": gating.workflow(gating.service("serving", 2)),
        "both": gating.workflow(gating.job("train", 4), gating.service("board", 2), name="train"),
        "huge": gating.workflow(gating.service("serving", 5, cpu="64")),
        "nowhere": gating.workflow(
            gating.service("serving", 2, placement={"clusters": {"names": ["nope"]}})
        ),
        "job": gating.workflow(gating.job("train", 2, cpu="4"), name="train"),
    }
    return versions


def copies(document: dict[str, Any]) -> dict[str, int]:
    """Cluster -> copies of the first workload of a verdict."""
    return {
        each["name"]: each["copies"] for each in document["verdict"]["workloads"][0]["clusters"]
    }


def written(world: World) -> int:
    """Requests of the gateway to write workloads, those with dryRun=All included."""
    return sum(
        number
        for (process, _, _, resource), number in world.writes.items()
        if process == "gateway" and resource.startswith("pinterest")
    )


def test_a_submission_gets_a_verdict_and_runs_there() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world)

        status, made = await door.submit(parameters={"replicas": 3}, idempotencyKey="build-1")

        assert status == 201, made
        assert made["verdict"]["verdict"] == "placed"
        assert made["verdict"]["reserved"] is False
        assert sum(copies(made).values()) == 3
        assert made["submittedBy"] == gating.USER
        assert made["parameters"] == {"replicas": 3, "model": "base"}
        await world.settle()
        shown = await door.get(f"{SUBMISSIONS}/{made['id']}")
        assert shown["state"] == "Running"
        member = shown["objects"][0]
        assert (member["desired"], member["placed"], member["ready"]) == (3, 3, 3)
        assert await world.shares("ads", "serving") == copies(made)

    gating.play(scenario)


def test_a_dry_run_creates_nothing() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        for version, verdict in (("v1", "placed"), ("nowhere", "refused")):
            status, made = await door.submit(version, dryRun=True)
            assert (status, made["verdict"]["verdict"]) == (200, verdict)

        assert await world.get("PinterestService", "ads", "serving") is None

    gating.play(scenario)


def test_a_refused_verdict_names_the_fix_and_stores_nothing() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())

        status, problem = await door.submit("nowhere")
        assert (status, problem["title"]) == (422, "VerdictRefused")
        assert "nope" in problem["detail"]
        assert problem["verdict"]["workloads"][0]["fixes"]
        status, problem = await door.submit("huge")
        assert status == 422, problem
        assert problem["errors"][0]["path"] == "PinterestService/serving"

        assert await world.get("PinterestService", "ads", "serving") is None

    gating.play(scenario)


def test_a_queued_submission_has_a_place_and_starts_when_room_is_free() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        await world.namespace("other")
        await world.create("PinterestService", "other", "full", _filling())
        await world.settle()

        status, made = await door.submit("job", RUN)

        assert (status, made["verdict"]["verdict"]) == (201, "queued"), made
        assert made["verdict"]["workloads"][0]["queue"]["position"] == 1
        await asyncio.sleep(10)
        shown = await door.get(f"{RUN}/{made['id']}")
        assert shown["state"] == "Queued"
        assert shown["objects"][0]["queue"]["position"] == 1
        await world.delete("PinterestService", "other", "full")
        await asyncio.sleep(300)
        assert (await door.get(f"{RUN}/{made['id']}"))["state"] == "Succeeded"

    gating.play(scenario)


def _filling() -> dict[str, Any]:
    spec: dict[str, Any] = gating.service("full", 96, cpu="1000m")["spec"]
    return spec | {"project": "other"}


def test_a_repeated_request_is_the_same_submission_and_a_changed_one_is_refused() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        status, first = await door.submit("both", RUN, idempotencyKey="k")
        before = written(world)

        again = await asyncio.gather(
            *(door.submit("both", RUN, idempotencyKey="k") for _ in range(5))
        )
        assert {(code, made["id"]) for code, made in again} == {(200, first["id"])}
        code, problem = await door.submit("job", RUN, idempotencyKey="k")
        assert (code, problem["title"]) == (409, "KeyReused")
        assert written(world) == before
        assert status == 201
        # Without a key, and with another one, it is another submission: the job runs once more.
        await asyncio.sleep(1)
        code, other = await door.submit("both", RUN)
        assert code == 201
        assert other["id"] != first["id"]
        jobs = await door.get(f"{RUN}?limit=1")
        assert [each["id"] for each in jobs["items"]] == [other["id"]]
        rest = await door.get(f"{RUN}?limit=1&after={jobs['next']}")
        assert [each["id"] for each in rest["items"]] == [first["id"]]

    gating.play(scenario)


def test_a_late_repetition_does_not_undo_a_later_submission() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        _, first = await door.submit("v1", idempotencyKey="a", parameters={"replicas": 5})
        code, second = await door.submit("v2", idempotencyKey="b")
        assert code == 201

        code, late = await door.submit("v1", idempotencyKey="a", parameters={"replicas": 5})

        assert (code, late["id"], late["state"]) == (200, first["id"], "Superseded")
        live = await world.get("PinterestService", "ads", "serving")
        assert live is not None
        assert live["spec"]["replicas"] == 2
        found = await door.get(SUBMISSIONS)
        assert [each["id"] for each in found["items"]] == [second["id"], first["id"]]
        cancelled = await door.ask("DELETE", f"{SUBMISSIONS}/{first['id']}")
        assert cancelled.status == 409
        cancelled = await door.ask("DELETE", f"{SUBMISSIONS}/{second['id']}")
        assert json.loads(cancelled.body)["title"] == "NotCancellable"

    gating.play(scenario)


def test_cancelling_deletes_what_the_submission_made() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        _, made = await door.submit("both", RUN)
        answer = await door.ask("DELETE", f"{RUN}/{made['id']}")

        assert answer.status == 200
        assert json.loads(answer.body)["state"] == "Deleted"
        await asyncio.sleep(60)
        assert (await door.ask("GET", f"{RUN}/{made['id']}")).status == 404
        assert await world.get("PinterestService", "ads", "board") is None

    gating.play(scenario)


def test_objects_of_others_are_never_taken_over() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        await world.create("PinterestService", "ads", "serving", gating.service("x", 1)["spec"])
        code, problem = await door.submit("v2")
        assert (code, problem["title"]) == (409, "ObjectExists")
        await world.create("PinterestService", "ads", "board", gating.service("x", 1)["spec"])
        code, problem = await door.submit("both", RUN)
        assert (code, problem["title"]) == (409, "ObjectExists")
        assert written(world) == 0

    gating.play(scenario)


def test_a_foreign_object_under_the_name_of_a_job_is_found_before_anything_is_written() -> None:
    """The gateway does not read jobs before it writes them: their names come from the key."""

    async def scenario(world: World) -> None:
        versions = kept()
        board, train = gating.service("board", 2), gating.job("train", 2)
        versions.files["board-first"] = gating.workflow(board, train, name="train")
        door = await gating.opened(world, versions)
        identity = records.identifier("ads", "train", "k")
        name = records.name_of("PinterestJobSet", "train", identity)
        await world.create("PinterestJobSet", "ads", name, train["spec"])

        for more in ({"dryRun": True}, {}):
            code, problem = await door.submit("board-first", RUN, idempotencyKey="k", **more)
            assert (code, problem["title"]) == (409, "ObjectExists"), problem
        assert await world.get("PinterestService", "ads", "board") is None

    gating.play(scenario)


def test_a_dry_run_says_that_its_key_is_used_for_something_else() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        assert (await door.submit("job", RUN, idempotencyKey="k"))[0] == 201

        code, problem = await door.submit("both", RUN, idempotencyKey="k", dryRun=True)

        assert (code, problem["title"]) == (409, "KeyReused"), problem

    gating.play(scenario)


def test_a_repeated_request_is_never_told_that_nothing_was_created() -> None:
    """The caller may read jobs by name and not list them, and the verdict has turned to refused."""

    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        user = "system:serviceaccount:ads:narrow"
        services = {**gating.RIGHTS, "resources": ["pinterestservices"]}
        jobs = {**gating.RIGHTS, "resources": ["pinterestjobsets"], "verbs": ["get", "create"]}
        await asking.grant(world, user, "ads", services, jobs)
        token = asking.token(user)
        await world.namespace("other")
        await world.create("PinterestService", "other", "full", _filling())
        await world.settle()
        code, made = await door.submit("job", RUN, token=token, idempotencyKey="k")
        assert (code, made["verdict"]["verdict"]) == (201, "queued"), made
        large = gating.job("train", 2, cpu="900")
        door.versions.files["job"] = gating.workflow(large, name="train")

        code, again = await door.submit("job", RUN, token=token, idempotencyKey="k")

        assert (code, again.get("id")) == (201, made["id"]), again
        assert again["verdict"]["verdict"] == "refused"
        code, problem = await door.submit("job", RUN, token=token, idempotencyKey="other")
        assert (code, problem["title"]) == (422, "VerdictRefused"), problem

    gating.play(scenario)


@pytest.mark.parametrize("impersonated", [True, False])
def test_the_rights_of_the_caller_decide(impersonated: bool) -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        reads = {**gating.RIGHTS, "verbs": ["get", "list"]}
        user = "oidc:reader" if impersonated else "system:serviceaccount:ads:reader"
        await asking.grant(world, user, "ads", reads)
        now = int(world.federation.clock.now())
        token = (
            issuing.token(sub="reader", iat=now, exp=now + 60)
            if impersonated
            else asking.token(user)
        )

        code, problem = await door.submit("v2", token=token)
        assert (code, problem["title"]) == (403, "Forbidden"), problem
        assert await world.get("PinterestService", "ads", "serving") is None
        assert (await door.ask("GET", SUBMISSIONS, token=token)).status == 200
        elsewhere = SUBMISSIONS.replace("/ads/", "/feed/")
        assert (await door.ask("GET", elsewhere, token=token)).status == 403

    gating.play(scenario)


def test_a_service_account_submits_with_its_own_token() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        user = "system:serviceaccount:ads:ci"
        await asking.grant(world, user, "ads", gating.RIGHTS)
        code, made = await door.submit("v2", token=asking.token(user))
        assert (code, made["submittedBy"]) == (201, user)

    gating.play(scenario)


def test_a_caller_with_rights_on_one_kind_submits_that_kind() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        user = "system:serviceaccount:ads:narrow"
        rights = {**gating.RIGHTS, "resources": ["pinterestservices"]}
        await asking.grant(world, user, "ads", rights)
        token = asking.token(user)
        code, made = await door.submit("v2", token=token, idempotencyKey="k")
        assert code == 201, made
        again = await door.submit("v2", token=token, idempotencyKey="k")
        assert (again[0], again[1]["id"]) == (200, made["id"])

    gating.play(scenario)


def test_rights_are_reviewed_once_for_submissions_in_a_row_and_again_later() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())

        def reviews() -> int:
            return sum(
                number
                for key, number in world.writes.items()
                if key[3].startswith("subjectaccessreviews")
            )

        assert (await door.submit("v2", idempotencyKey="a"))[0] == 201
        first = reviews()
        assert first > 0
        assert (await door.submit("v2", idempotencyKey="b"))[0] == 201
        assert reviews() <= first + 1  # of the query port, which is another one each time here
        await asyncio.sleep(REMEMBERED_S + 1)
        assert (await door.submit("v2", idempotencyKey="c"))[0] == 201
        assert reviews() > first + 2
        # The host checks each create: a right that is gone counts there immediately.
        row = ObjectRef(f"{asking.RBAC}", "rolebindings", "ads", "", "RoleBinding")
        listed = await world.host.list(row.api_version, row.plural, "ads")
        for obj in listed.items:
            await world.remove(dataclasses.replace(row, name=obj["metadata"]["name"]))
        code, problem = await door.submit("v2", idempotencyKey="d")
        assert (code, problem["title"]) == (403, "Forbidden"), problem

    gating.play(scenario)


def test_only_groups_of_the_policy_may_submit() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        spec = {"spec": {"groups": ["ads-deploy"]}}
        await world.patch("SubmissionPolicy", "", "ads", spec)
        await door.gateway.policies.read()
        now = int(world.federation.clock.now())
        other = issuing.token(groups=["feed"], iat=now, exp=now + 60)

        assert (await door.submit("v2", token=other))[0] == 403
        assert (await door.submit("v2"))[0] == 201
        assert door.versions.resolved == 1

    gating.play(scenario)


def test_unknown_callers_get_401_and_cost_nothing() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        world.federation.host.add_token("known", Caller("somebody"))
        for token in ("", "unknown", issuing.token(aud="kubernetes")):
            answer = await door.ask("POST", SUBMISSIONS, b"{", token=token)
            assert answer.status == 401
            assert token == "" or token.encode() not in answer.body
        assert (await door.ask("POST", SUBMISSIONS, b"{", token="known")).status == 400

    gating.play(scenario)


def test_logs_of_a_submission_need_the_callers_right_to_logs() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        _, made = await door.submit("both", RUN)
        await world.settle()
        path = f"{RUN}/{made['id']}/logs"

        denied = await door.ask("GET", path)
        assert denied.status == 403
        assert "pods/log" in json.loads(denied.body)["detail"]

        await asking.grant_everywhere(world, gating.USER, asking.LOGS)
        board = await door.get(f"{path}?object=PinterestService/board&tail=1&timestamps=true")
        assert len(board["logs"]) == 2
        assert all("board-" in each["text"] for each in board["logs"])
        assert all(each["text"][4] == "-" for each in board["logs"])
        first = await door.get(path)
        assert {each["pod"].rpartition("-")[0][:5] for each in first["logs"]} == {"train"}
        none = await door.ask("GET", f"{path}?object=PinterestService/other")
        assert none.status == 404
        wrong = await door.ask("GET", f"{path}?tail=0")
        assert wrong.status == 400

    gating.play(scenario)


def test_logs_are_asked_with_a_hosts_own_token() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world)
        _, made = await door.submit(parameters={"replicas": 1})
        await world.settle()
        await asking.grant(world, "sally", "ads", gating.RIGHTS, asking.LOGS)
        await asking.grant(world, "harry", "ads", gating.RIGHTS)
        path = f"{SUBMISSIONS}/{made['id']}/logs"

        answers = {
            user: await door.ask("GET", path, token=asking.token(user))
            for user in ("sally", "harry")
        }

        assert {user: each.status for user, each in answers.items()} == {"sally": 200, "harry": 403}
        assert json.loads(answers["sally"].body)["clusters"][0]["answered"]
        assert "harry" in json.loads(answers["harry"].body)["detail"]

    gating.play(scenario)


def test_logs_without_a_leader_are_refused_with_a_retry() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world)
        _, made = await door.submit(parameters={"replicas": 1})
        await world.settle()
        await world.federation.kill("hub")

        answer = await door.ask("GET", f"{SUBMISSIONS}/{made['id']}/logs")

        assert (answer.status, answer.headers["Retry-After"]) == (503, "2")

    gating.play(scenario)
