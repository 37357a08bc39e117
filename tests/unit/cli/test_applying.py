"""The writes of a saved plan, while others write the same objects."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from federator.advice.plans.saved import Saved
from federator.cli.leader import applying
from federator.kinds import registry
from federator.kube.client import Client
from tests.faults import boxes
from tests.faults.rows import Sending
from tests.unit.cli.files import policy, psvc
from tests.unit.cli.hosts import Host

WEB = ("PinterestService", "feed", "web")
RULES = ("PlacementPolicy", "feed", "rules")
Write = Callable[[Client], Awaitable[object]]


def plan(*applied: Any, scaled: Any = (), deleted: Any = ()) -> Saved:
    return Saved(applied, tuple(deleted), tuple(scaled), False, {})


def patching(
    which: tuple[str, str, str], change: Mapping[str, Any], subresource: str = ""
) -> Write:
    """Somebody patches this object."""
    ref = registry.KINDS[which[0]].ref(*which[1:])
    return lambda client: client.patch(ref, change, subresource=subresource)


def writes(sending: Sending) -> bool:
    return sending.writes


class Applied:
    """One run of the command's writes on a host."""

    def __init__(self, *objs: Mapping[str, Any]) -> None:
        self.host = Host()
        self.host.make(*objs)
        self.sent: list[str] = []

    def apply(self, made: Saved, *meanwhile: Write) -> None:
        """`meanwhile`: what somebody else writes before the first, the second write arrives."""

        async def work() -> None:
            client = Client(await self.host.connected(), "host")
            live = await applying.live(client, made)
            pending = iter(meanwhile)

            async def happens(sending: Sending) -> None:
                self.sent.append(sending.request.method)
                if (write := next(pending, None)) is not None:
                    await write(self.host.client())

            with self.host.boxes.standing(boxes.holding_up(writes, happens)):
                await applying.write(client, made, live)

        asyncio.run(work())

    def spec(self, which: tuple[str, str, str]) -> dict[str, Any]:
        kind, namespace, name = which
        found: dict[str, Any] = self.host.find(kind, name, namespace)["spec"]
        return found


def status(number: int) -> Write:
    return patching(WEB, {"status": {"observedGeneration": number}}, "status")


def test_a_status_write_does_not_end_the_command() -> None:
    made = Applied(psvc("web", 4), policy())

    made.apply(plan(psvc("web", 6)), status(1), status(2), status(3))

    assert made.spec(WEB)["replicas"] == 6
    assert made.host.find("PinterestService", "web", "feed")["status"]["observedGeneration"] == 3
    assert made.sent == ["PUT"] * 4


def test_a_status_write_does_not_keep_an_object_from_being_deleted(capsys: Any) -> None:
    made = Applied(psvc("web", 4))

    made.apply(plan(deleted=[WEB]), status(1))

    assert made.sent == ["DELETE"] * 2
    assert capsys.readouterr().out == "PinterestService/web deleted\n"


def test_status_writes_without_end_end_the_command() -> None:
    made = Applied(psvc("web", 4))

    with pytest.raises(SystemExit):
        made.apply(plan(psvc("web", 6)), *map(status, range(1, 50)))

    assert made.sent == ["PUT"] * applying.TRIES
    assert made.spec(WEB)["replicas"] == 4


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"replicas": 2}},
        {"metadata": {"labels": {"team": "theirs"}}},
        {"metadata": {"annotations": {"why": "theirs"}}},
    ],
    ids=["spec", "label", "annotation"],
)
def test_an_object_that_somebody_else_changed_is_not_overwritten(
    change: dict[str, Any], capsys: Any
) -> None:
    made = Applied(psvc("web", 4), policy())

    with pytest.raises(SystemExit):
        made.apply(plan(policy(clusters={"names": ["a"]}), psvc("web", 6)), patching(WEB, change))

    assert made.spec(WEB)["replicas"] != 6
    assert capsys.readouterr().err.splitlines() == [
        "error: PinterestService/web: not applied: it was changed by somebody else meanwhile",
        "error: done before: PlacementPolicy/rules applied",
    ]


@pytest.mark.parametrize("there", [True, False], ids=["there", "new"])
def test_an_object_that_is_applied_and_scaled_is_written_once(there: bool) -> None:
    made = Applied(*([psvc("web", 4)] if there else []))

    made.apply(plan(psvc("web", 6, paused=True), scaled=[(WEB, 5)]))

    assert len(made.sent) == 1
    assert (made.spec(WEB)["replicas"], made.spec(WEB)["paused"]) == (5, True)


def test_a_scaled_object_that_is_gone_is_refused_before_any_write(capsys: Any) -> None:
    made = Applied()

    with pytest.raises(SystemExit):
        made.apply(plan(policy(), scaled=[(WEB, 5)]))

    assert not made.sent
    assert capsys.readouterr().err.splitlines() == [
        "error: PinterestService/web: not scaled: it does not exist",
        "error: nothing was written",
    ]
