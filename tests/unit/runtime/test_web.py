"""What the HTTP client of the parts makes of answers."""

import asyncio

import pytest

from federator.runtime import web
from federator.runtime.web import INTERIM_MAX, Answer, Unreached

INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


async def answered(content: bytes) -> Answer:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(content)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await web.ask("GET", f"http://127.0.0.1:{port}/")


async def test_interim_answers_are_passed_over() -> None:
    last = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    answer = await answered(INTERIM * INTERIM_MAX + last)

    assert (answer.status, answer.headers, answer.body) == (200, {"content-length": "2"}, b"ok")


async def test_a_server_that_never_comes_to_its_answer_is_not_heard_out() -> None:
    with pytest.raises(Unreached, match=f"more than {INTERIM_MAX} interim answers"):
        await answered(INTERIM * 5000)
