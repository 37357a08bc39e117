"""Lines of the audit that are put on disk together: all of them or none."""

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from federator.gateway import audit
from tests.unit.gateway.disks import Disk
from tests.unit.gateway.test_audit_files import Written, troubles


@pytest.mark.parametrize("fails", [False, True])
async def test_entries_that_come_while_the_disk_is_busy_share_its_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    disk, busy, free = Disk(monkeypatch), threading.Event(), threading.Event()
    made = Written(tmp_path, file_bytes=audit.FILE_BYTES)
    made.audit.open()
    turns = []
    real = os.fdatasync

    def slow(number: int) -> None:
        turns.append(number)
        busy.set()
        assert free.wait(30)
        real(number)

    monkeypatch.setattr(os, "fdatasync", slow)
    first = asyncio.create_task(made.write(1, "first"))
    assert await asyncio.to_thread(busy.wait, 30)
    several = [asyncio.create_task(made.write(1, "shared")) for _ in range(40)]
    await asyncio.sleep(0)
    if fails:
        disk.failing("fdatasync 1", "fdatasync")
    free.set()
    await first
    ends = await asyncio.gather(*several, return_exceptions=True)
    await made.write(1, "last")
    made.audit.close()

    assert [isinstance(end, OSError) for end in ends] == [fails] * 40
    assert len(turns) == 3 + fails + 1  # a file after the failed one has a first line; "stop"
    what = [
        json.loads(line)["what"] for path in made.files for line in path.read_bytes().splitlines()
    ]
    assert what.count("shared") == (0 if fails else 40)
    assert [each for each in what if each not in ("shared", "start")] == ["first", "last", "stop"]
    assert troubles(tmp_path) == []
