"""Pictures of the dashboard of `federator demo` for README.md and docs/tour.md, as PNG in docs/pictures.

`make screenshots` runs this file. It needs a Chromium, and fails for a picture that is too large.
"""

import asyncio
import base64
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.browser import chromium, devtools
from tests.browser.devtools import Page

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
FEDERATOR: Final = (sys.executable, "-m", "federator")
SETTLED_S: Final = 300.0
BYTES_MAX: Final = 150_000
DESK, PHONE = (1280, 860), (390, 844)
HOMEFEED: Final = "/workloads/PinterestService/feed/homefeed"
SHOTS: Final = (
    ("overview", "/", DESK, False),
    ("workload", HOMEFEED, DESK, False),
    ("why", "/workloads/PinterestService/discovery/visual-embedding/why", DESK, True),
    ("clusters-phone", "/clusters", PHONE, True),
)
"""Name, address, window, and whether it is dark."""


async def started(process: asyncio.subprocess.Process) -> str:
    """The link that signs in, once everything has settled."""
    link = ""
    assert process.stdout is not None
    async with asyncio.timeout(SETTLED_S):
        while line := (await process.stdout.readline()).decode():
            if "/signin/link?key=" in line:
                link = line.strip()
            if line.startswith("Everything has settled"):
                return link
    raise RuntimeError("the demo has ended")


async def taken(page: Page, link: str) -> None:
    """Writes all pictures."""
    await page.open(link, width=DESK[0], height=DESK[1])
    base = "/".join(link.split("/")[:3])
    for name, path, (width, height), dark in SHOTS:
        await page.open(f"{base}{path}?live=off", width=width, height=height, dark=dark)
        shot = base64.b64decode((await page.call("Page.captureScreenshot", format="png"))["data"])
        if len(shot) > BYTES_MAX:
            raise RuntimeError(f"{name}.png has {len(shot)} bytes, more than {BYTES_MAX}")
        await asyncio.to_thread((FOLDER / f"{name}.png").write_bytes, shot)
        print(f"docs/pictures/{name}.png: {len(shot)} bytes")


async def main() -> int:
    program = chromium.find()
    if program is None:
        print("there is no Chromium: run `make browser`", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        process = await asyncio.create_subprocess_exec(
            *FEDERATOR, "demo", "--open", cwd=directory, stdout=asyncio.subprocess.PIPE
        )
        try:
            async with devtools.browser(program) as page:
                await taken(page, await started(process))
        finally:
            process.terminate()
            await process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
