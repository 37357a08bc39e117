"""What a registry promises the traffic part, held to by both: the one in memory and ZooKeeper."""

from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.recipe.party import ShallowParty

from federator.runtime.traffic.members import Member
from federator.runtime.traffic.registry import Login, RegistrationRefused, Unreachable
from tests.traffic import registries
from tests.traffic.registries import FOLDER, Real, Scenario, World, member, until

SEARCH, OTHER = Login("search", "s3cret"), Login("other", "0ther")
Play = Callable[[Scenario], None]


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.e2e)])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    return lambda scenario: registries.play(request.param, tmp_path, scenario)


def test_an_entry_has_the_layout_of_a_shallow_party(play: Play) -> None:
    async def scenario(world: World) -> None:
        registry = await world.registry()
        await registry.join(member(1))
        nodes = await world.nodes(FOLDER)
        assert list(nodes) == [member(1).node]
        party = ShallowParty(None, FOLDER, member(1).endpoint)
        digits, _, endpoint = member(1).node.partition("-")
        assert (len(digits), endpoint) == (32, party.node.partition("-")[2])
        assert registries.read(nodes) == [member(1)]
        await registry.leave(member(1))
        assert await world.nodes(FOLDER) == {}
        await registry.leave(member(1))

    play(scenario)


def test_joining_again_changes_nothing(play: Play) -> None:
    async def scenario(world: World) -> None:
        registry = await world.registry()
        sessions = {await registry.join(member(1)) for _ in range(3)}
        assert sessions == {registry.session}
        assert len(await world.nodes(FOLDER)) == 1

    play(scenario)


def test_new_data_replaces_the_entry(play: Play) -> None:
    async def scenario(world: World) -> None:
        registry = await world.registry()
        await registry.join(member(1))
        await registry.join(member(1, weight=7))
        assert [each.weight for each in await registry.members(FOLDER)] == [7]

    play(scenario)


def test_entries_end_with_their_session_and_the_client_gets_another_one(play: Play) -> None:
    async def scenario(world: World) -> None:
        lost: list[bool] = []
        registry = await world.registry(changed=lost.append)
        before = await registry.join(member(1))
        await world.expire(registry)
        await until(lambda: any(lost) and registry.up and registry.session not in ("", before))
        assert await world.nodes(FOLDER) == {}
        assert await registry.join(member(1)) == registry.session != before

    play(scenario)


def test_a_session_takes_over_the_entry_that_an_earlier_one_left(play: Play) -> None:
    async def scenario(world: World) -> None:
        earlier, later = await world.registry(), await world.registry()
        await earlier.join(member(1))
        await later.join(member(1))
        assert len(await world.nodes(FOLDER)) == 1
        await earlier.close()
        assert list(await world.nodes(FOLDER)) == [member(1).node]
        await later.close()
        assert await world.nodes(FOLDER) == {}

    play(scenario)


def test_entries_of_other_clients_are_left_alone_and_unreadable_ones_are_skipped(
    play: Play,
) -> None:
    lies = {
        "README": b"not an entry",
        f"{'0' * 32}-10.9.9.9:99999": b"{}",
        f"{'1' * 32}-10.9.9.8:80": b"\xff\xfe not JSON",
        f"{'2' * 32}-10.9.9.7:80": b'{"weight": "heavy", "metadata": [1]}',
    }

    async def scenario(world: World) -> None:
        registry = await world.registry()
        for node, data in lies.items():
            await world.plant(FOLDER, node, data)
        await registry.join(member(1))
        assert [(each.ip, each.weight) for each in await registry.members(FOLDER)] == [
            ("10.9.9.8", 1),
            ("10.9.9.7", 1),
            ("10.0.0.2", 1),
        ]
        await registry.leave(member(1))
        assert await world.nodes(FOLDER) == lies

    play(scenario)


def test_a_registry_that_is_away_is_unreachable_and_the_session_survives(play: Play) -> None:
    async def scenario(world: World) -> None:
        registry = await world.registry(session_s=60.0)  # a server starts within it
        before = await registry.join(member(1))
        await world.leave()
        await until(lambda: not registry.up)
        with pytest.raises(Unreachable):
            await registry.join(member(2))
        await world.come_back()
        await until(lambda: registry.up)
        assert await registry.join(member(1)) == before
        assert list(await world.nodes(FOLDER)) == [member(1).node]

    play(scenario)


def test_the_entries_of_a_service_can_only_be_changed_by_its_own_identity(play: Play) -> None:
    async def scenario(world: World) -> None:
        registry, other = await world.registry(SEARCH), await world.registry(OTHER)
        await registry.join(member(1))
        with pytest.raises(RegistrationRefused, match="other"):
            await other.leave(member(1))
        with pytest.raises(RegistrationRefused, match="other"):
            await other.join(member(2))
        with pytest.raises(RegistrationRefused, match="other"):
            await other.join(member(1, weight=9))
        await other.join(member(1, folder="/discovery/other/prod"))
        assert await other.members(FOLDER) == [member(1)]

    play(scenario)


def test_data_that_is_too_large_is_refused(play: Play) -> None:
    async def scenario(world: World) -> None:
        registry = await world.registry()
        large = Member(FOLDER, "0" * 32, "10.0.0.1", 80, 1, {"x": "y" * 70000})
        with pytest.raises(RegistrationRefused, match="65536 bytes"):
            await registry.join(large)

    play(scenario)


@pytest.mark.e2e
def test_the_rights_in_zookeeper_are_those_of_the_documents(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        assert isinstance(world, Real)
        registry = await world.registry(SEARCH)
        await registry.join(member(1))
        client = world._client()
        rights = {
            path: sorted((acl.id.scheme, acl.id.id.partition(":")[0], acl.perms) for acl in acls)
            for path in ("/discovery", FOLDER, member(1).path)
            for acls in [client.get_acls(path)[0]]
        }
        own, read, add = ("digest", "search", 31), ("world", "anyone", 1), ("world", "anyone", 5)
        assert rights["/discovery"] == [own, add]
        assert rights[FOLDER] == rights[member(1).path] == [own, read]
        assert "s3cret" not in str(client.get_acls(FOLDER))

    registries.play("zookeeper", tmp_path, scenario)
