"""What a guard makes of a container's own probes: the kubelet's thresholds, counted here."""

import asyncio
import contextlib

import pytest

from federator.runtime import asking
from federator.runtime.probes import Asked, Probe, Probes

HTTP = {"httpGet": {"port": 80}}


def test_it_is_asked_when_the_container_has_started_and_stopped_after_so_many_failures() -> None:
    asked = Asked(Probe.of({**HTTP, "initialDelaySeconds": 5, "failureThreshold": 2}))
    asked.begins(100.0)
    assert (asked.due_s, asked.failed) == (105.0, 0)
    asked.answered("no", 105.0)
    assert (asked.bad, asked.due_s) == ("", 115.0)
    asked.answered("", 115.0)
    asked.answered("no", 125.0)
    asked.answered("gone", 135.0)
    assert asked.bad == "gone"
    asked.answered("", 145.0)
    assert asked.bad == "gone"  # the kubelet is told until it has stopped it


def test_liveness_is_asked_once_it_has_started() -> None:
    startup = {**HTTP, "periodSeconds": 1, "failureThreshold": 3}
    asked = Asked(Probe.of({**HTTP, "initialDelaySeconds": 7}), Probe.of(startup))
    asked.begins(0.0)
    asked.answered("not yet", 0.0)
    asked.answered("not yet", 1.0)
    assert (asked.bad, asked.started, asked.due_s) == ("", False, 2.0)
    asked.answered("", 2.0)
    assert asked.started
    assert (asked.due_s, asked.present) == (9.0, asked.liveness)
    slow = Asked(None, Probe.of(startup))
    slow.begins(0.0)
    for at in range(3):
        slow.answered("never", float(at))
    assert slow.bad == "never"


def test_a_sidecar_that_is_started_again_is_asked_from_the_beginning() -> None:
    asked = Asked(Probe.of({**HTTP, "failureThreshold": 1}))
    asked.begins(0.0)
    asked.answered("no", 0.0)
    asked.heard(2)
    assert asked.bad == "no"
    asked.heard(2)
    assert not asked.bad
    assert asked.due_s is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", ""),
        (b"HTTP/1.1 302 Found\r\n\r\n", ""),
        (b"HTTP/1.1 500 Oh\r\n\r\n", "its probe was answered with 500"),
        (b"what\r\n", "its probe was answered with no HTTP"),
        (b"", "its probe failed"),
    ],
)
def test_a_probe_by_http_is_judged_as_a_kubelet_judges_it(answer: bytes, why: str) -> None:
    async def main() -> None:
        heard, connections = list[bytes](), list[asyncio.Task[None]]()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.append(task)
            with contextlib.suppress(asyncio.IncompleteReadError):  # of tcpSocket: it sends nothing
                heard.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        header = {"name": "X-Probe", "value": "yes"}
        written = {"httpGet": {"path": "/alive", "port": port, "httpHeaders": [header]}}
        said = await asking.ask(Probe.of(written))
        assert said.startswith(why) if why else not said
        assert b"GET /alive HTTP/1.1" in heard[0]
        assert b"X-Probe: yes" in heard[0]
        assert not await asking.ask(Probe.of({"tcpSocket": {"port": port}}))
        server.close()
        await server.wait_closed()
        assert "its probe failed" in await asking.ask(Probe.of({"tcpSocket": {"port": port}}))
        await asyncio.gather(*connections)

    asyncio.run(main())


def test_the_variable_says_the_probes_of_each_container() -> None:
    read = Probes.of({"a": {"livenessProbe": HTTP}, "b": {}})
    assert read.asked["a"].liveness == Probe(HTTP)
    assert read.asked["b"].present is None
