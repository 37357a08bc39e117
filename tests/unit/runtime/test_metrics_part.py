"""The application's metrics with the labels of its identity."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from federator.runtime.metrics import part
from federator.runtime.metrics.part import labelled

RESET = b"(reset)"
"""After an answer whose connection was not closed in order."""
LABELS = {"workload": "web", "cluster": "use1-a"}


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("up 1", 'up{workload="web",cluster="use1-a"} 1'),
        ("up{} 1 1700000000", 'up{workload="web",cluster="use1-a"} 1 1700000000'),
        (
            'req{path="/a}b\\"c,d",} 2',
            'req{path="/a}b\\"c,d",workload="web",cluster="use1-a"} 2',
        ),
        (
            'req{cluster="forged", workload = "x"} NaN',
            'req{exported_cluster="forged",exported_workload="x",workload="web",cluster="use1-a"}'
            " NaN",
        ),
        ("# HELP up is it", "# HELP up is it"),
        ("", ""),
        ("<html>", None),
        ("9lives 1", None),
        ('req{path="} 1', None),
        ("req{path=1} 1", None),
    ],
)
def test_samples_get_the_labels_and_cannot_forge_them(line: str, out: str | None) -> None:
    assert labelled(line, LABELS) == out


def test_what_a_client_library_writes_is_read_the_same_with_more_labels() -> None:
    registry = prometheus_client.CollectorRegistry()
    odd = prometheus_client.Counter("odd", 'a "help"', ["text"], registry=registry)
    odd.labels('quote " back \\ line \n comma, } brace').inc(3)
    prometheus_client.Histogram("took", "s", registry=registry).observe(0.3)
    text = prometheus_client.generate_latest(registry).decode()
    out = "\n".join(str(labelled(line, {"cluster": 'a"\\\n'})) for line in text.splitlines())

    def read(text: str) -> list[tuple[str, tuple[tuple[str, str], ...], float]]:
        return [
            (sample.name, tuple(sorted(sample.labels.items())), sample.value)
            for family in text_string_to_metric_families(text + "\n")
            for sample in family.samples
        ]

    assert read(out) == [
        (name, tuple(sorted([*labels, ("cluster", 'a"\\\n')])), value)
        for name, labels, value in read(text)
    ]


@dataclass(frozen=True)
class Variables:
    env: Mapping[str, str]


@contextlib.asynccontextmanager
async def scraped(
    answer: bytes, stalls: asyncio.Event | None = None
) -> AsyncIterator[tuple[part.MetricsPart, bytes]]:
    """The part in front of an application with this answer, and what a scrape gives. The
    application `stalls` after the answer until that is set."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        if stalls is not None:
            await stalls.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        made = part.make(
            Variables(
                {
                    "FEDERATOR_METRICS_APPLICATION": f"{port}/stats",
                    "PINTEREST_WORKLOAD_NAME": "web",
                    "PINTEREST_CLUSTER": "use1-a",
                }
            )
        )
        made.port, made._host = 0, "127.0.0.1"
        running = asyncio.ensure_future(made.run())
        while not made.port:  # noqa: ASYNC110 - until it listens
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        got = b""
        try:
            while more := await reader.read(1 << 20):
                got += more
        except ConnectionError:
            got += RESET
        writer.close()
        try:
            yield made, got
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.e2e
def test_a_scrape_is_answered_with_the_applications_samples() -> None:
    async def main() -> None:
        body = b"# HELP up x\nup 1\nnonsense{ 1\n" + b"".join(
            b'req{n="%d"} 1\n' % number for number in range(5000)
        )
        async with scraped(b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n" + body) as (made, got):
            head, _, text = got.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.0 200 OK")
            assert b'up{workload="web",cluster="use1-a"} 1\n' in text
            assert text.count(b"\n") == 5002
            assert "lines that are no samples are left out" in made.state().message

    asyncio.run(main())


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.0 500 Oh\r\n\r\n", "the application answers 500"),
        (b"", "the application answers ?"),
    ],
)
def test_a_scrape_of_an_application_that_fails_fails_with_the_reason(
    answer: bytes, why: str
) -> None:
    async def main() -> None:
        async with scraped(answer) as (made, got):
            assert got.startswith(b"HTTP/1.0 502")
            assert why.encode() in got
            assert made.state().ready
            assert why in made.state().message

    asyncio.run(main())


@pytest.mark.e2e
def test_a_line_without_an_end_cuts_the_answer_off() -> None:
    async def main() -> None:
        answer = b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * (1 << 18)
        async with scraped(answer) as (made, got):
            assert got.endswith(RESET)
            assert made.state().reason == "ScrapeFailed"

    asyncio.run(main())


@pytest.mark.e2e
def test_an_application_that_stalls_after_one_sample_gives_no_whole_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(part, "SCRAPE_S", 0.2)

    async def main() -> None:
        stalls = asyncio.Event()
        async with scraped(b"HTTP/1.0 200 OK\r\n\r\nup 1\n", stalls) as (made, got):
            state = made.state()
            assert (state.ready, state.reason) == (True, "ScrapeFailed")
            assert "there was no whole answer within 0.2 s" in state.message
            assert got.endswith(RESET)
            stalls.set()

    asyncio.run(main())


def test_a_pod_without_metrics_serves_none() -> None:
    made = part.make(Variables({}))
    asyncio.run(made.run())
    assert (made.state().ready, made.state().reason) == (True, "NoMetrics")
