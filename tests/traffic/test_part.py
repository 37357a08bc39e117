"""The traffic part under faults of its registry, its application and its own process: running pods
go on, new ones wait with the reason, and nothing flaps."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federator.runtime.parts import DRAIN_MAX_S
from federator.runtime.probes import Probe
from federator.runtime.traffic import part
from federator.runtime.traffic.embedded import Directory, EmbeddedRegistry
from federator.runtime.traffic.registry import Login
from tests import virtual_time
from tests.traffic import pods, registries
from tests.traffic.pods import Network, Pod
from tests.traffic.registries import FOLDER

HOUR_S = 3600.0


class Stage:
    """Pods, their network and their registry, on virtual time."""

    def __init__(self) -> None:
        self.directory, self.network = Directory(), Network()
        self.pods: list[Pod] = []

    def pod(self, number: int = 1, *, state: Path | None = None, login: Login | None = None) -> Pod:
        made = pods.pod(
            number,
            self.network.application(number),
            EmbeddedRegistry(self.directory, login),
            ask=self.network.ask,
            state=state,
        )
        self.pods.append(made)
        return made

    async def started(self, number: int = 1, *, state: Path | None = None) -> Pod:
        made = self.pod(number, state=state)
        await made.start()
        return made

    @property
    def entries(self) -> set[str]:
        self.directory.sweep()
        return {node.partition("-")[2] for node in self.directory.folders.get(FOLDER, {})}

    async def seen(self, seconds: float) -> list[set[str]]:
        """The sets of entries that clients see, each time they change."""
        history = [self.entries]
        for _ in range(round(seconds / 0.05)):
            await asyncio.sleep(0.05)
            if self.entries != history[-1]:
                history.append(self.entries)
        return history


def play(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage()
        try:
            await scenario(stage)
        finally:
            for each in stage.pods:
                if each._sidecar is not None:
                    await each.crash()

    virtual_time.run(main())


def reason(pod: Pod) -> tuple[bool, str]:
    return pod.part.state().ready, pod.part.state().reason


def test_a_registry_that_is_away_for_an_hour_stops_no_running_pod() -> None:
    async def scenario(stage: Stage) -> None:
        running = [await stage.started(number) for number in range(1, 11)]
        stage.directory.leave()
        await asyncio.sleep(HOUR_S)
        assert {reason(each) for each in running} == {(True, "RegistryUnreachable")}
        state = running[0].part.state()
        assert state.message == (
            "10.0.0.2:8080 goes on serving under /discovery/search/prod. The registry does not"
            " answer."
        )
        fresh = stage.pod(11)
        begun = asyncio.ensure_future(fresh.start())
        await asyncio.sleep(60.0)
        assert reason(fresh) == (False, "Joining")
        assert "10.0.0.12:8080 is ready and not yet in /discovery/search/prod" in (
            fresh.part.state().message
        )
        stage.directory.come_back()
        history = await stage.seen(30.0)
        await begun
        assert [len(entries) for entries in history] == [10, 11]
        assert {reason(each) for each in [*running, fresh]} == {(True, "Serving")}

    play(scenario)


def test_sessions_that_end_while_the_network_is_cut_are_written_again_once() -> None:
    async def scenario(stage: Stage) -> None:
        pod = await stage.started()
        assert isinstance(pod.registry, EmbeddedRegistry)
        pod.registry.cut = True
        history = await stage.seen(60.0)
        assert history == [{"10.0.0.2:8080"}, set()]
        assert reason(pod) == (True, "RegistryUnreachable")
        pod.registry.cut = False
        assert await stage.seen(60.0) == [set(), {"10.0.0.2:8080"}]
        assert reason(pod) == (True, "Serving")

    play(scenario)


def test_a_lost_session_keeps_the_pod_ready_and_brings_the_entry_back_within_seconds() -> None:
    async def scenario(stage: Stage) -> None:
        pod = await stage.started()
        for _ in range(5):
            stage.directory.expire(pod.registry.session)
            assert await stage.seen(10.0) == [set(), {"10.0.0.2:8080"}]
            assert pod.part.state().ready

    play(scenario)


def test_a_registry_that_answers_late_delays_the_entry_and_nothing_else() -> None:
    async def scenario(stage: Stage) -> None:
        stage.directory.delay_s = 4.0
        pod = await stage.started()
        assert 4.0 < pod.listed_s - pod.ready_s < 6.0
        assert await stage.seen(300.0) == [{"10.0.0.2:8080"}]
        stage.directory.delay_s = 8.0
        other = stage.pod(2)
        begun = asyncio.ensure_future(other.start())
        await asyncio.sleep(60.0)
        assert "No answer within 5 s" in other.part.state().message
        assert await stage.seen(300.0) == [{"10.0.0.2:8080"}]
        assert pod.part.state().ready
        begun.cancel()

    play(scenario)


def test_an_entry_that_another_client_removed_is_written_again() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.started()
        stage.directory.folders[FOLDER].clear()
        assert await stage.seen(70.0) == [set(), {"10.0.0.2:8080"}]

    play(scenario)


def test_a_registry_that_refuses_is_named_and_asked_rarely() -> None:
    async def scenario(stage: Stage) -> None:
        stage.directory.owners[FOLDER] = "other"
        pod = stage.pod(login=Login("search", "s3cret"))
        begun = asyncio.ensure_future(pod.start())
        await asyncio.sleep(120.0)
        state = pod.part.state()
        assert (state.ready, state.reason) == (False, "Joining")
        assert f"{FOLDER} belongs to other, and this pod is search" in state.message
        assert "s3cret" not in state.message
        assert pod.part._standing.failures < 30
        begun.cancel()

    play(scenario)


def test_a_pod_that_fails_its_probe_leaves_after_the_threshold_and_comes_back() -> None:
    async def scenario(stage: Stage) -> None:
        pod = await stage.started()
        stage.network.unready.add(pod.application.ip)
        history = await stage.seen(9.0)
        assert history == [{"10.0.0.2:8080"}]  # two failures of three
        await stage.seen(10.0)
        assert stage.entries == set()
        assert reason(pod) == (False, "Waiting")
        assert "web: its probe failed: refused" in pod.part.state().message
        stage.network.unready.clear()
        assert await stage.seen(1.0) == [set(), {"10.0.0.2:8080"}]

    play(scenario)


def test_a_drain_removes_the_entry_at_once_and_lasts_its_time() -> None:
    async def scenario(stage: Stage) -> None:
        loop, pod = asyncio.get_running_loop(), await stage.started()
        began_s = loop.time()
        drains = [asyncio.ensure_future(pod.part.drain()) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert stage.entries == set()
        assert reason(pod) == (False, "Gone")
        await asyncio.gather(*drains)
        assert loop.time() - began_s == pytest.approx(15.0, abs=0.1)
        assert await stage.seen(60.0) == [set()]

    play(scenario)


def test_own_hooks_are_called_once_when_the_drain_time_is_over() -> None:
    async def scenario(stage: Stage) -> None:
        loop, asked = asyncio.get_running_loop(), list[tuple[float, Any]]()
        pod = await stage.started()

        async def ask(probe: Probe, ip: str) -> str:
            if probe.how["httpGet"].get("path") == "/quit":
                asked.append((loop.time(), ip))
            return "refused"

        pod.part._ask = ask
        pod.part.settings = replace(
            pod.part.settings,
            hooks={
                "web": {"sleep": {"seconds": 5}},
                "worker": {"httpGet": {"path": "/quit", "port": 9000}},
            },
        )
        began_s = loop.time()
        await asyncio.gather(pod.part.drain(), pod.part.drain())
        assert loop.time() - began_s == pytest.approx(20.0, abs=0.1)
        assert [(round(at_s - began_s, 1), ip) for at_s, ip in asked] == [(15.0, "10.0.0.2")]

    play(scenario)


def test_a_pod_that_was_never_registered_drains_without_waiting() -> None:
    async def scenario(stage: Stage) -> None:
        loop, pod = asyncio.get_running_loop(), stage.pod()
        begun = asyncio.ensure_future(pod.start())
        await asyncio.sleep(0.2)
        began_s = loop.time()
        await pod.part.drain()
        assert loop.time() == began_s
        begun.cancel()

    play(scenario)


def test_a_drain_without_a_registry_ends_in_time_and_reports_the_entry() -> None:
    async def scenario(stage: Stage) -> None:
        loop, pod = asyncio.get_running_loop(), await stage.started()
        stage.directory.leave()
        await asyncio.sleep(30.0)
        began_s = loop.time()
        await pod.part.drain()
        assert loop.time() - began_s == pytest.approx(15.0, abs=0.1)
        assert reason(pod) == (True, "Draining")
        stage.directory.come_back()
        assert (await stage.seen(5.0))[-1] == set()
        assert reason(pod) == (False, "Gone")

    play(scenario)


def test_a_sidecar_that_starts_again_keeps_the_entry_and_the_pod_ready(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        pod = await stage.started(state=tmp_path)
        assert isinstance(pod.registry, EmbeddedRegistry)
        pod.registry.cut = True  # killed: its session ends by its timeout
        await pod.crash()
        again = pods.pod(
            1,
            pod.application,
            EmbeddedRegistry(stage.directory),
            ask=stage.network.ask,
            state=tmp_path,
        )
        stage.pods.append(again)
        begun = asyncio.ensure_future(again.start())
        await asyncio.sleep(0.001)
        assert again.part.state().ready
        assert await stage.seen(60.0) == [{"10.0.0.2:8080"}]
        await begun
        await again.part.drain()
        assert stage.entries == set()

    play(scenario)


def test_a_sidecar_that_starts_again_in_a_pod_that_fails_removes_the_entry(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        pod = await stage.started(state=tmp_path)
        assert isinstance(pod.registry, EmbeddedRegistry)
        pod.registry.cut = True
        await pod.crash()
        await pod.application.end()
        again = pods.pod(
            1,
            stage.network.application(99),
            EmbeddedRegistry(stage.directory, session_s=300.0),
            ask=stage.network.ask,
            state=tmp_path,
        )
        again.part.settings = pod.part.settings  # its address, which nothing answers at
        sidecar = asyncio.ensure_future(again.part.run())
        await asyncio.sleep(30.0)
        assert stage.entries == set()
        assert not again.part.state().ready
        sidecar.cancel()

    play(scenario)


def test_a_draining_pod_that_is_run_again_after_a_bug_does_not_join(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        pod = await stage.started(state=tmp_path)
        drain = asyncio.ensure_future(pod.part.drain())
        await asyncio.sleep(0.1)
        assert stage.entries == set()
        await pod.crash()
        pod._sidecar = asyncio.ensure_future(pod.part.run())
        assert await stage.seen(60.0) == [set()]
        assert reason(pod) == (False, "Gone")
        await drain

    play(scenario)


def test_a_draining_pod_whose_removal_is_not_answered_goes_on_with_it_when_run_again(
    tmp_path: Path,
) -> None:
    async def scenario(stage: Stage) -> None:
        pod = await stage.started(state=tmp_path)
        stage.directory.leave()
        drain = asyncio.ensure_future(pod.part.drain())
        await asyncio.sleep(0.1)
        await pod.crash()
        pod._sidecar = asyncio.ensure_future(pod.part.run())
        await asyncio.sleep(0.1)
        assert reason(pod) == (True, "Draining")
        stage.directory.come_back()
        assert (await stage.seen(60.0))[-1] == set()
        assert reason(pod) == (False, "Gone")
        await drain

    play(scenario)


def test_a_part_that_is_run_again_after_a_bug_writes_its_entry_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        pod = await stage.started()
        await pod.crash()  # its session is closed in order
        assert stage.entries == set()
        pod._sidecar = asyncio.ensure_future(pod.part.run())
        assert await stage.seen(5.0) == [set(), {"10.0.0.2:8080"}]

    play(scenario)


def test_a_pod_without_an_identity_says_so_and_serves(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        pod = stage.pod()
        pod.part.settings = replace(pod.part.settings, hosts="zookeeper:2181")
        await pod.start()
        state = pod.part.state()
        assert (state.ready, state.reason) == (True, "NoIdentity")
        assert "every client of the registry may change the entry" in state.message
        warned = [r.message for r in caplog.records if r.levelname == "WARNING"]
        assert [each for each in warned if "no identity" in each] == [part.OPEN]
        secret = replace(pod.part.settings, secret=Path("login"))
        pod.part.settings = secret
        assert pod.part.state().reason == "Serving"

    play(scenario)


def test_own_hooks_over_http_are_given_what_is_left_of_the_longest_drain() -> None:
    async def scenario(stage: Stage) -> None:
        pod, given = await stage.started(), list[float]()

        async def ask(probe: Probe, ip: str) -> str:
            if probe.how["httpGet"].get("path") == "/quit":
                given.append(probe.timeout_s)
            return ""

        pod.part._ask = ask
        hooks = {"web": {"httpGet": {"path": "/quit", "port": 9000}}}
        pod.part.settings = replace(pod.part.settings, hooks=hooks, drain_s=20.0)
        await pod.part.drain()
        assert given == [pytest.approx(DRAIN_MAX_S - 20.0, abs=0.1)]

    play(scenario)


@pytest.mark.parametrize("kept", ["", "[]", "{", '{"served": 1}', "null"])
def test_a_state_file_that_cannot_be_read_is_no_state(tmp_path: Path, kept: str) -> None:
    (tmp_path / "traffic.json").write_text(kept, encoding="utf-8")

    async def scenario(stage: Stage) -> None:
        pod = stage.pod(state=tmp_path)
        begun = asyncio.ensure_future(pod.start())
        await asyncio.sleep(0.1)
        assert reason(pod) == (False, "Waiting")
        await begun

    play(scenario)


def test_the_time_of_day_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is off, or that is set, changes nothing: the part never reads it."""

    def off() -> float:
        raise AssertionError("the traffic part asked for the time of day")

    async def scenario(stage: Stage) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", off)
            patched.setattr(time, "time_ns", off)
            pod = await stage.started()
            assert await stage.seen(120.0) == [{"10.0.0.2:8080"}]
            await pod.part.drain()

    play(scenario)


def test_the_part_works_with_a_registry_that_begins_to_exist_later() -> None:
    async def scenario(stage: Stage) -> None:
        stage.directory.leave()
        pod = stage.pod()
        begun = asyncio.ensure_future(pod.start())
        await asyncio.sleep(600.0)
        assert reason(pod) == (False, "Joining")
        stage.directory.come_back()
        await begun
        assert stage.entries == {registries.member(1).endpoint}

    play(scenario)
