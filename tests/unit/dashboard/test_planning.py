"""The page of plans: what it shows, to whom, and what it says about texts that cannot be read."""

import html
import json
from typing import Any

import yaml

from federator.cli.planning import plan as command
from federator.kinds import registry
from tests.unit.dashboard.asking import dashboard_of, reader
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.test_planning import WORKLOADS, quota

POLICY = """\
apiVersion: federation.pinterest.com/v1alpha1
kind: PlacementPolicy
metadata: {name: only-a, namespace: feed}
spec:
  clusters: {names: [a]}
"""


async def running(world: World) -> None:
    await world.create("PinterestService", "feed", "web", worlds.service(6))
    await world.create("PinterestService", "ads", "secret-of-ads", worlds.service(3))
    await world.settle()
    await asking.grant(world, "team", "feed", WORKLOADS)


def test_the_plan_is_that_of_the_command() -> None:
    async def scenario(world: World) -> None:
        await running(world)
        async with dashboard_of(world, leader=True) as dashboard:
            admin = await reader(world, dashboard)
            fields = {"manifests": POLICY, "losses": "yes"}
            answer = await admin.send("/plan?format=json", fields)
            assert answer.status == 200, answer.body
            shown = json.loads(answer.body)["plan"]
            asked = {
                "applied": [yaml.safe_load(POLICY)],
                "deleted": [],
                "lost": [],
                "scaled": [],
                "losses": True,
            }
            sent = asking.request(
                "/v1/plan",
                method="POST",
                authorization=f"Bearer {world.federation.host.token}",
                has_body=True,
                read_body=lambda most: _body(asked),
            )
            document = asking.body(await asking.port_of(world).answer(sent))
            assert shown["document"] == document
            assert document["summary"]["moves"] == 4
            text = command._rendered({**document}, None)
            page = (await admin.send("/plan", fields)).body.decode()
            assert "Nothing changes" not in page
            for line in text.split("\n"):
                for word in line.split("   "):
                    assert word.strip().lower() in page.lower(), word
            assert '<a href="/workloads/PinterestService/feed/web">' in page
            policies = registry.KINDS["PlacementPolicy"]
            listing = await world.host.list(policies.api_version, policies.plural)
            assert not listing.items, "nothing is applied"

    worlds.play(scenario)


async def _body(asked: dict[str, Any]) -> bytes:
    return json.dumps(asked).encode()


def test_an_address_plans_the_loss_of_a_cluster() -> None:
    async def scenario(world: World) -> None:
        await running(world)
        async with dashboard_of(world, leader=True) as dashboard:
            admin = await reader(world, dashboard)
            shown = await admin.json("/plan?lose=b&scale=psvc/feed/web=4")
            (row,) = [
                row
                for row in shown["plan"]["document"]["workloads"]
                if "feed/web" in row["workload"]
            ]
            assert sum(row["after"].values()) == 4
            assert "b" not in row["after"]
            assert (await admin.json("/plan"))["plan"] is None
            gone = await admin.json("/plan?delete=psvc/web&namespace=feed")
            assert gone["plan"]["document"]["summary"]["deleted"] == 1

    worlds.play(scenario)


def test_a_reader_plans_with_the_own_rights_and_sees_nothing_of_others() -> None:
    async def scenario(world: World) -> None:
        await running(world)
        async with dashboard_of(world, leader=True) as dashboard:
            team = await reader(world, dashboard, "team")
            answer = await team.get("/plan?lose=b")
            assert answer.status == 403
            assert "you cannot update memberclusters" in answer.body.decode()
            assert (
                await team.send("/plan", {"manifests": yaml.safe_dump(quota("1"))})
            ).status == 403
            for path in (
                "/plan?scale=psvc/feed/web=60",
                "/plan?scale=psvc/feed/web=60&format=json",
            ):
                seen = await team.get(path)
                assert seen.status == 200
                assert b"feed/web" in seen.body
                assert b"secret-of-ads" not in seen.body
            other = await team.get("/plan?scale=psvc/ads/secret-of-ads=1")
            absent = await team.get("/plan?scale=psvc/ads/not-there=1")
            assert (other.status, absent.status) == (403, 403)

    worlds.play(scenario)


ALIASES = (("a", "1"), ("b", "*a"), ("c", "*b"))
BAD = {
    "kind: [": "the pasted text: line 2, column 1: not YAML",
    "kind: A\nkind: B": "line 2, column 1: is given twice",
    "- 1": "an object is expected, with apiVersion and kind",
    POLICY.replace("names: [a]", "name: a"): (
        "the pasted text, document 1, line 5: spec.clusters.name: unknown field"
    ),
    f"{POLICY}---\n{POLICY}": "document 2: metadata.name: PlacementPolicy/only-a was already given",
    POLICY.replace("v1alpha1", "v9"): "document 1, line 1: apiVersion: must be federation",
    "".join(
        f"{one}: &{one} [{', '.join([two] * 99)}]\n" for one, two in ALIASES
    ): "too many values",
}


def test_texts_that_cannot_be_read_are_kept_and_named_with_their_line() -> None:
    async def scenario(world: World) -> None:
        await running(world)
        async with dashboard_of(world, leader=True) as dashboard:
            admin = await reader(world, dashboard)
            for text, sentence in BAD.items():
                answer = await admin.send("/plan", {"manifests": text})
                page = answer.body.decode()
                assert answer.status == 422, text[:80]
                assert sentence in page, text[:80]
                assert html.escape(text.partition("\n")[0]) in page, "what was pasted is kept"
            service = yaml.safe_dump(
                {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
            )
            left = await admin.send("/plan", {"manifests": f"{POLICY}---\n{service}"})
            assert "Service/x (the pasted text, document 2) is left out" in left.body.decode()
            for query, sentence in {
                "lose=nope": "there is no cluster nope to lose",
                "scale=psvc/web": "is no number of copies",
                "scale=cpp/web=1": "has no copies",
                "delete=web": "is not KIND/NAME",
                "delete=psvc/a/b/c": "is not KIND/NAME",
                "namespace=Feed": "is no namespace",
                f"lose={'%20'.join(['a'] * 51)}": "at most 50",
            }.items():
                answer = await admin.get(f"/plan?{query}")
                assert answer.status == 422, query
                assert sentence in answer.body.decode().replace("&#39;", "'"), query
            empty = await admin.send("/plan", {"manifests": ""})
            assert (empty.status, b"There is no edit" in empty.body) == (422, True)

    worlds.play(scenario)


def test_without_a_leader_the_page_says_so_and_keeps_the_text() -> None:
    async def scenario(world: World) -> None:
        await running(world)
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            answer = await admin.send("/plan", {"manifests": POLICY})
            assert answer.status == 502
            assert b"No hub with a query port" in answer.body
            assert b"name: only-a" in answer.body

    worlds.play(scenario)


PARTS = """\
--x\r
Content-Disposition: form-data; name="csrf"\r
\r
{csrf}\r
--x\r
Content-Disposition: form-data; name="file"; filename="{name}"\r
Content-Type: application/octet-stream\r
\r
{text}\r
--x--\r
"""


def test_a_file_is_uploaded_and_forms_of_others_are_refused() -> None:
    async def scenario(world: World) -> None:
        await running(world)
        async with dashboard_of(world, leader=True) as dashboard:
            admin = await reader(world, dashboard)
            csrf = (
                (await admin.get("/plan")).body.decode().partition('value="')[2].partition('"')[0]
            )
            kind = {"content-type": "multipart/form-data; boundary=x"}

            async def upload(text: str, *, secret: str = csrf, **headers: str) -> tuple[int, str]:
                body = PARTS.format(csrf=secret, name="policies.yaml", text=text).encode()
                answer = await admin.ask("POST", "/plan", body, **{**kind, **headers})
                return answer.status, answer.body.decode()

            status, page = await upload(POLICY.replace("\n", "\r\n"))
            assert status == 200
            assert "\\r" not in page
            assert "4 copies move" in page
            assert "name: only-a" in page, "the text of the file can be edited"
            status, page = await upload(POLICY.replace("[a]", "a"))
            assert status == 422
            assert "policies.yaml, document 1, line 5: spec.clusters.names: must be a list" in page
            assert (await upload(POLICY, secret="of-another"))[0] == 403
            assert (await upload(POLICY, origin="https://elsewhere.example"))[0] == 403
            for boundary in ("y", "", '"'):
                odd = {"content-type": f"multipart/form-data; boundary={boundary}"}
                body = PARTS.format(csrf=csrf, name="x", text=POLICY).encode()
                assert (await admin.ask("POST", "/plan", body, **odd)).status in (400, 403)
            binary = PARTS.format(csrf=csrf, name="x", text="@").encode().replace(b"@", b"\xff\x00")
            assert (await admin.ask("POST", "/plan", binary, **kind)).status == 400

    worlds.play(scenario)
