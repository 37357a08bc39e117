"""The writes of a saved plan, while others write the same objects."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest

from federator.advice.plans.saved import Saved
from federator.cli.leader import applying
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.wire.transport import Response, Transport
from tests.faults import boxes
from tests.faults.rows import Box, Sending
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


class Applied:
    """One run of the command's writes on a host."""

    def __init__(self, *objs: Mapping[str, Any]) -> None:
        self.host = Host()
        self.host.make(*objs)
        self.sent: list[str] = []
        self._meanwhile: Iterator[Write] = iter(())
        self._standing = contextlib.ExitStack()
        self.stand(boxes.holding_up(lambda sending: sending.writes, self._happens))

    def stand(self, box: Box) -> None:
        self._standing.enter_context(self.host.boxes.standing(box))

    async def _happens(self, sending: Sending) -> None:
        self.sent.append(sending.request.method)
        if (write := next(self._meanwhile, None)) is not None:
            await write(self.host.client())

    def apply(self, made: Saved, *meanwhile: Write) -> None:
        """`meanwhile`: what somebody else writes before the first, the second write arrives."""
        self._meanwhile = iter(meanwhile)

        async def work() -> None:
            client = Client(await self.host.connected(), "host")
            await applying.write(client, made, await applying.live(client, made))

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


def test_status_writes_without_end_end_the_command(capsys: Any) -> None:
    made = Applied(psvc("web", 4))

    with pytest.raises(SystemExit):
        made.apply(plan(psvc("web", 6)), *map(status, range(1, 50)))

    assert made.sent == ["PUT"] * applying.TRIES
    assert made.spec(WEB)["replicas"] == 4
    assert capsys.readouterr().err.splitlines() == [
        "error: PinterestService/web: not applied: its status was written just before each of 10"
        " tries; apply the plan again",
        "error: nothing was written",
    ]


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

    made.apply(plan(psvc("web", 6, tier="Reserved"), scaled=[(WEB, 5)]))

    assert len(made.sent) == 1
    assert (made.spec(WEB)["replicas"], made.spec(WEB)["tier"]) == (5, "Reserved")


def test_a_scaled_object_that_is_gone_is_refused_before_any_write(capsys: Any) -> None:
    made = Applied()

    with pytest.raises(SystemExit):
        made.apply(plan(policy(), scaled=[(WEB, 5)]))

    assert not made.sent
    assert capsys.readouterr().err.splitlines() == [
        "error: PinterestService/web: not scaled: it does not exist",
        "error: nothing was written",
    ]


def losing(made: Applied, *, effect: bool, reads: bool = True) -> None:
    """The first write to the service gets no answer; `effect`: it is carried out. `reads`: reads
    after it are answered."""
    lost: list[Sending] = []

    async def how(sending: Sending, inner: Transport) -> Response:
        first = not lost
        lost.append(sending)
        if first and effect:
            await inner.request(sending.request)
        raise errors.Unreachable("no answer")

    def befalls(sending: Sending) -> bool:
        mine = "pinterestservices" in sending.request.path
        return mine and ((sending.writes and not lost) or (bool(lost) and not reads))

    made.stand(Box(befalls, how))


EDITS = [plan(psvc("web", 6)), plan(scaled=[(WEB, 6)]), plan(deleted=[WEB])]
NAMES = ["applied", "scaled", "deleted"]


@pytest.mark.parametrize(("edit", "what"), list(zip(EDITS, NAMES, strict=True)), ids=NAMES)
def test_a_write_whose_answer_is_lost_is_read_back(edit: Saved, what: str, capsys: Any) -> None:
    made = Applied(psvc("web", 4))
    losing(made, effect=True)

    made.apply(edit)

    assert capsys.readouterr().out == f"PinterestService/web {what}\n"


@pytest.mark.parametrize("reads", [True, False])
def test_a_write_that_is_not_known_to_take_effect_is_not_called_undone(
    reads: bool, capsys: Any
) -> None:
    made = Applied(psvc("web", 4))
    losing(made, effect=not reads, reads=reads)

    with pytest.raises(SystemExit):
        made.apply(plan(psvc("web", 6), deleted=[RULES]))

    said = capsys.readouterr().err
    assert "PinterestService/web: it is unknown if it was applied: " in said
    assert "error: left to do: PlacementPolicy/rules deleted" in said
    assert "not applied" not in said
    assert "nothing was written" not in said
