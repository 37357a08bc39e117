"""Debian's ZooKeeper, on the machine's Java: found on the machine, or once unpacked from Debian's
packages into the cache.

`make zookeeper` runs this file: it prints where the program is, or ends with 1 and a sentence why
there is none.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import debian
from tests.running.ports import free_port

PACKAGES = (
    "libzookeeper-java",
    "libslf4j-java",
    "libnetty-java",
    "libdropwizard-metrics-java",
    "libsnappy-java",
)
JARS = (
    *("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "metrics-core", "snappy-java"),
    *("netty-common", "netty-handler", "netty-transport", "netty-buffer", "netty-codec"),
    *("netty-resolver", "netty-transport-native-unix-common", "netty-transport-native-epoll"),
)
"""What a server without its admin page needs; the names in /usr/share/java."""
SHARED = Path("usr/share/java")
START_S = 60.0
TICK_MS = 200
"""Sessions last at least two of these and, here, at most 60 s."""


def cache() -> Path:
    base = os.environ.get("FEDERATOR_CACHE") or Path.home() / ".cache" / "federator"
    return Path(base) / "zookeeper"


def jars() -> tuple[Path, ...]:
    """The class path, on the machine or in the cache; () if it is incomplete."""
    for top in (Path("/"), cache()):
        paths = tuple(top / SHARED / f"{name}.jar" for name in JARS)
        if all(path.exists() for path in paths):
            return paths
    return ()


def missing() -> str:
    """Why there is no ZooKeeper, as a sentence; "" if there is one."""
    if shutil.which("java") is None:
        return "there is no Java for ZooKeeper on this machine (openjdk-17-jre-headless)"
    return "" if jars() else "there is no ZooKeeper: run `make zookeeper`"


@dataclass
class Server:
    """One server with its data in a folder. It keeps its port when it is started again."""

    folder: Path
    port: int = field(default_factory=free_port)
    secure_port: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    """System properties of the JVM, without `zookeeper.`."""
    process: asyncio.subprocess.Process | None = None

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        lines = (
            f"tickTime={TICK_MS}",
            "maxSessionTimeout=60000",
            f"dataDir={self.folder / 'data'}",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1",
            "admin.enableServer=false",
            "maxClientCnxns=0",
            *([f"secureClientPort={self.secure_port}"] if self.secure_port else []),
        )
        config = self.folder / "zoo.cfg"
        config.write_text("\n".join(lines), encoding="utf-8")
        log = self.folder / "zookeeper.log"
        with log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-Dzookeeper.jmx.log4j.disable=true",
                *(f"-Dzookeeper.{name}={value}" for name, value in self.properties.items()),
                *("-cp", ":".join(map(str, jars()))),
                *("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)),
                stdout=output,
                stderr=output,
            )
        async with asyncio.timeout(START_S):
            while not await self._serves():
                assert self.process.returncode is None, f"ZooKeeper ended: see {log}"
                await asyncio.sleep(0.02)

    async def _serves(self) -> bool:
        """Whether it answers `srvr`, the one word that it answers without being told to."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            # One that is asked before it has read its data never closes the connection.
            async with asyncio.timeout(0.3):
                writer.write(b"srvr")
                return b"Mode:" in await reader.read()
        except (OSError, TimeoutError):
            return False
        finally:
            writer.close()

    async def stop(self) -> None:
        """Ends it as a crash does; its data stays."""
        if self.process is not None:
            if self.process.returncode is None:
                self.process.kill()
            await self.process.wait()
            self.process = None


@contextlib.asynccontextmanager
async def serving(
    folder: Path, *, secure_port: int = 0, properties: Mapping[str, str] | None = None
) -> AsyncIterator[Server]:
    """A ZooKeeper that is up. Skips the test, and says why, where there is none."""
    if why := missing():
        pytest.skip(why)
    server = Server(folder, secure_port=secure_port, properties=properties or {})
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def main() -> int:
    if not jars():
        try:
            debian.unpack(cache(), *PACKAGES)
        except debian.Unavailable as why:
            print(f"no ZooKeeper: {why}", file=sys.stderr)
            return 1
    if lacks := missing():
        print(lacks, file=sys.stderr)
        return 1
    version = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    print(f"{jars()[0]} on {version.stderr.splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
