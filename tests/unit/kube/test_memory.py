"""What a process has done with goes back to the system."""

import platform
import subprocess
import sys

import pytest

PAGES = """
import sys
from federator.process import malloc
if sys.argv[1] == "returned":
    assert malloc.return_large_blocks()
first = bytes(24 << 20)
del first
pages, kept = [], []
for _ in range(60):
    pages.append(bytearray(1 << 20))
    kept.append([bytes(600) for _ in range(400)])
del pages
with open("/proc/self/status") as file:
    print(next(int(line.split()[1]) for line in file if line.startswith("VmRSS")))
"""


def resident_kb(how: str) -> int:
    """Memory of a process that reads sixty pages, keeps a little of each, and forgets the pages."""
    done = subprocess.run(
        [sys.executable, "-c", PAGES, how], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps large blocks")
def test_pages_that_are_forgotten_leave_no_gaps() -> None:
    assert resident_kb("returned") < resident_kb("kept") - 30 * 1024


FREED = """
from federator.process import malloc
def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
freed, kept = [], []
for _ in range(300):
    freed.append(bytearray(100 << 10))
    kept.append(bytes(600))
freed.clear()
before = resident()
assert malloc.return_free_pages()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps free pages")
def test_free_pages_between_blocks_in_use_go_back() -> None:
    command = [sys.executable, "-c", FREED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) > 20 * 1024


KEPT = """
import gc
from federator.process import malloc
malloc.collect_hardly()
records = [[number] for number in range(30_000)]
assert not gc.get_count()[1]
malloc.keep_all()
assert not any(gc.is_tracked(each) and each in (records, records[0]) for each in gc.get_objects())
records.append(records)
del records
print(gc.get_threshold()[0])
"""


def test_what_a_process_has_read_first_is_not_scanned_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KEPT], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) == 20_000
