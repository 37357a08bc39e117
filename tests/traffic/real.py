"""Applications on sockets of this machine, for pods that register in a real ZooKeeper."""

import asyncio
from dataclasses import dataclass

from federator.runtime.traffic.members import Member

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Listening:
    """`pods.Application` that answers HTTP at an address of 127.0.0.0/8."""

    ip: str
    port: int
    _server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._answer, self.ip, self.port)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
            await writer.drain()
        except (OSError, EOFError):
            pass  # the client has gone
        finally:
            writer.close()

    async def end(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None


def application(number: int, port: int) -> Listening:
    return Listening(f"127.1.{number // 250}.{number % 250 + 1}", port)


async def request(member: Member) -> bool:
    """Whether a request to a pod is answered."""
    try:
        async with asyncio.timeout(5.0):
            reader, writer = await asyncio.open_connection(member.ip, member.port)
            writer.write(f"GET / HTTP/1.1\r\nHost: {member.endpoint}\r\n\r\n".encode())
            await writer.drain()
            answered = b"200" in await reader.readline()
            writer.close()
    except (OSError, EOFError, TimeoutError):
        return False
    return answered
