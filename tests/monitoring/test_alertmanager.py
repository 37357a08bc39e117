"""A real Alertmanager with the routes of deploy/monitoring: each alert arrives at its owner's receiver,
its end too, and what follows from a lost cluster is not sent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from tests.monitoring import programs, queries
from tests.running.ports import free_port

pytestmark = [pytest.mark.e2e]
START_S = 60.0
QUICK = {"group_wait": "10ms", "group_interval": "50ms", "repeat_interval": "1h"}
"""Instead of times that suit people."""
SILENT, LOST = "FederatorMemberSilent", "FederatorClusterLost"
ENDED = "2026-01-01T00:00:00Z"


def alert(name: str, **labels: str) -> dict[str, Any]:
    return {"labels": {"alertname": name, **labels}}


class Receivers:
    """The webhooks of all receivers: (path, alert, state) as they arrive."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()

    async def take(self, request: web.Request) -> web.Response:
        body = await request.json()
        for each in body["alerts"]:
            self.arrived.put_nowait((request.path, each["labels"]["alertname"], each["status"]))
        return web.Response()

    async def next(self, count: int) -> set[tuple[str, str, str]]:
        async with asyncio.timeout(START_S):
            return {await self.arrived.get() for _ in range(count)}


@contextlib.asynccontextmanager
async def running(home: Path) -> AsyncIterator[tuple[str, Receivers]]:
    """The address of an Alertmanager whose receivers are ours."""
    program = programs.alertmanager()
    receivers = Receivers()
    app = web.Application()
    app.router.add_post("/{name}", receivers.take)
    runner = web.AppRunner(app)
    await runner.setup()
    hooks, port = free_port(), free_port()
    await web.TCPSite(runner, "127.0.0.1", hooks).start()
    config = yaml.safe_load((queries.HERE / "alertmanager.yml").read_text(encoding="utf-8"))
    config["route"] |= QUICK
    for each in config["receivers"]:
        (hook,) = each["webhook_configs"]
        hook["url"] = f"http://127.0.0.1:{hooks}/{each['name']}"
    file = home / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *program,
        f"--config.file={file}",
        f"--storage.path={home}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        stderr=asyncio.subprocess.DEVNULL,
    )
    base = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(START_S):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{base}/-/ready") as ready:
                        if ready.status == 200:
                            break
                assert process.returncode is None, "Alertmanager has ended"
                await asyncio.sleep(0.05)
        yield base, receivers
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await runner.cleanup()


async def send(base: str, *alerts: dict[str, Any]) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base}/api/v2/alerts", json=alerts) as answer,
    ):
        assert answer.status == 200, await answer.text()


async def test_alerts_and_their_ends_arrive_at_their_owners(tmp_path: Path) -> None:
    sent = {
        "platform-pager": alert("FederatorBrakeOn", owner="platform", severity="critical"),
        "platform": alert("FederatorDrillFails", owner="platform", severity="warning"),
        "ads": alert("FederatorCopiesNotReady", owner="ads", severity="warning", account="ads"),
        "teams": alert("FederatorCopiesNotReady", owner="shop", severity="warning", account="shop"),
    }
    async with running(tmp_path) as (base, receivers):
        await send(base, *sent.values())
        names = {name: each["labels"]["alertname"] for name, each in sent.items()}
        assert await receivers.next(4) == {
            (f"/{name}", title, "firing") for name, title in names.items()
        }
        await send(base, *({**each, "endsAt": ENDED} for each in sent.values()))
        assert await receivers.next(4) == {
            (f"/{name}", title, "resolved") for name, title in names.items()
        }


async def test_what_follows_from_a_lost_cluster_is_not_sent(tmp_path: Path) -> None:
    async with running(tmp_path) as (base, receivers):
        lost = alert(LOST, owner="platform", severity="critical", cluster="a")
        await send(base, lost)
        assert await receivers.next(1) == {("/platform-pager", LOST, "firing")}
        follows = alert(SILENT, owner="platform", severity="warning", cluster="a")
        other = alert(SILENT, owner="platform", severity="warning", cluster="b")
        await send(base, follows, other)
        assert await receivers.next(1) == {("/platform", SILENT, "firing")}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{base}/api/v2/alerts", params={"filter": f"alertname={SILENT}"}) as found,
        ):
            states = {
                each["labels"]["cluster"]: each["status"]["state"] for each in await found.json()
            }
        assert states == {"a": "suppressed", "b": "active"}
