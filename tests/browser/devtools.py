"""A page in a headless Chromium, driven through the DevTools protocol."""

import asyncio
import contextlib
import itertools
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

START_S = 60.0
CALL_S = 60.0
OPTIONS = (
    "--headless",
    "--no-sandbox",  # it opens our own files only, often as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    # a test reaches nothing beyond this machine, and does not wait for it
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
)


@dataclass(slots=True)
class Page:
    """One tab. `complaints` and `fetched` grow while it runs."""

    socket: aiohttp.ClientWebSocketResponse
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, scripts that failed, and what the security policy
    stopped.
    """
    fetched: list[str] = field(default_factory=list)
    """Everything that was asked for, with its scheme."""
    dialogs: list[str] = field(default_factory=list)
    """Messages of alert, confirm and prompt."""
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _waiting: dict[int, "asyncio.Future[Any]"] = field(default_factory=dict)
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(CALL_S):
            await self.socket.send_json({"id": number, "method": method, "params": parameters})
            return await answer

    async def open(self, url: str, *, width: int, height: int = 844, dark: bool = False) -> None:
        """Opens an address in a window of this size (CSS pixels), and waits until it is loaded."""
        await self.resize(width, height, dark=dark)
        self._loaded.clear()
        await self.call("Page.navigate", url=url)
        async with asyncio.timeout(CALL_S):
            await self._loaded.wait()

    async def resize(self, width: int, height: int = 844, *, dark: bool = False) -> None:
        """Gives the window this size, and light or dark colours."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def trust_any_certificate(self) -> None:
        """For servers of tests on this machine."""
        await self.call("Security.setIgnoreCertificateErrors", ignore=True)

    async def until(self, expression: str) -> None:
        """Waits until a JavaScript expression is true in a page that is loaded. Raises
        AssertionError with what the page shows instead."""
        try:
            async with asyncio.timeout(CALL_S):
                while True:
                    # between two documents nothing can be asked
                    with contextlib.suppress(AssertionError):
                        if await self.value(
                            f"document.readyState === 'complete' && !!({expression})"
                        ):
                            return
                    await asyncio.sleep(0.05)
        except TimeoutError:
            shown = await self.value("location.href + ' ' + document.body.innerText")
            raise AssertionError(f"{expression}: {shown[:1000]}") from None

    async def value(self, expression: str) -> Any:
        """What a JavaScript expression is. Raises AssertionError when it throws."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def listen(self) -> None:
        async for message in self.socket:
            heard = message.json()
            if "id" in heard:
                answer = self._waiting.pop(heard["id"])
                if not answer.done():
                    if "error" in heard:
                        answer.set_exception(AssertionError(heard["error"]))
                    else:
                        answer.set_result(heard["result"])
            else:
                self._noted(heard["method"], heard["params"])

    def _noted(self, method: str, told: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.fetched.append(told["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(told["message"])


@contextlib.asynccontextmanager
async def browser(program: Path) -> AsyncIterator[Page]:
    """A browser with one page; it and its profile are gone at the end."""
    with tempfile.TemporaryDirectory(
        prefix="federator-browser-", ignore_cleanup_errors=True
    ) as profile:
        process = await asyncio.create_subprocess_exec(
            str(program),
            *OPTIONS,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            address = await _address(Path(profile) / "DevToolsActivePort")
            timeout = aiohttp.ClientTimeout(total=CALL_S)
            async with aiohttp.ClientSession(timeout=timeout) as session:
                async with session.get(f"http://{address}/json/list") as answer:
                    tabs = await answer.json()
                url = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
                async with session.ws_connect(url, max_msg_size=0) as socket:
                    page = Page(socket)
                    listening = asyncio.create_task(page.listen())
                    for domain in ("Page", "Runtime", "Log", "Network"):
                        await page.call(f"{domain}.enable")
                    yield page
                    listening.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await listening
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _address(file: Path) -> str:
    """Where the browser listens: it writes its port there once it does."""
    async with asyncio.timeout(START_S):
        while True:
            if lines := _lines(file):
                return f"127.0.0.1:{lines[0]}"
            await asyncio.sleep(0.05)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="ascii").split() if file.exists() else []
