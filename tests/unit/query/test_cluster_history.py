"""What happened to a cluster, as the port tells it."""

from pathlib import Path

from federator.hub.history import entry as entries
from federator.hub.history.entry import Entry, Kind
from federator.hub.history.journal import Journal
from federator.hub.history.options import HistoryOptions
from federator.hub.history.segments import Segments
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.asking import PSVC, grant, grant_everywhere, port_of, request


def test_what_happened_to_a_cluster_is_told_to_who_may_get_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        journal = Journal(HistoryOptions(directory=str(tmp_path)), world.federation.clock)
        now = world.federation.clock.now()
        told = [
            Entry(at=now - 90, kind=Kind.CLUSTER, key="MemberCluster/a", cause="Cordoned"),
            Entry(at=now - 80, kind=Kind.CLUSTER, key="MemberCluster/ab", cause="Draining"),
            Entry(at=now - 70, kind=Kind.DECISION, key="PinterestService/feed/web"),
        ]
        Segments(tmp_path, segment_bytes=1 << 20, segments=2).append(
            [entries.line(entry) for entry in told]
        )
        await grant(world, "owner", "feed", PSVC)
        port = port_of(world, journal=journal)
        asked = request("/v1/memberclusters/a/history", user="owner")
        refused = asking.body(await port.answer(asked))
        assert refused["code"] == 403
        assert (
            "cannot get memberclusters.federation.pinterest.com on the host" in refused["message"]
        )
        rule = {
            "apiGroups": ["federation.pinterest.com"],
            "resources": ["memberclusters"],
            "verbs": ["get"],
        }
        await grant_everywhere(world, "owner", rule)
        whole = asking.body(await port.answer(asked))
        assert [row["cause"] for row in whole["entries"]] == ["Cordoned"]
        for path in ("/v1/memberclusters/A_b/history", "/v1/memberclusters/a/pods"):
            assert asking.body(await port.answer(request(path, user="owner")))["code"] == 404

    worlds.play(scenario)
