"""A command that serves HTTP as a process of its own, while a test runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp

from tests.forkserver.starting import FEDERATOR


@contextlib.asynccontextmanager
async def serving(*arguments: str, within_s: float) -> AsyncIterator[str]:
    """The address of `federator ARGUMENTS --listen 127.0.0.1:0` once it is ready, which may take
    `within_s`. The command must end with 0 when it is told to."""
    process = await asyncio.create_subprocess_exec(
        *FEDERATOR, *arguments, "--listen", "127.0.0.1:0", stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(within_s):
            while not (line := (await process.stderr.readline()).decode()).count("http://"):
                assert line, "it has ended"
            base = "http://" + line.partition("http://")[2].split()[0].strip("\"',}")
        drained = asyncio.create_task(process.stderr.read())
        async with aiohttp.ClientSession() as session, asyncio.timeout(within_s):
            while True:
                async with session.get(f"{base}/readyz") as ready:
                    if ready.status == 200:
                        break
                await asyncio.sleep(0.1)
        yield base
        process.terminate()
        assert await process.wait() == 0
        await drained
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
