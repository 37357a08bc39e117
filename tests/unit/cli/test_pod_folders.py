"""The folder in memory of a sandbox, and folders that killed sandboxes left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from federator.sandbox import podfolders

OWNER = """
import sys, time
from pathlib import Path
from federator.sandbox import podfolders
with podfolders.held(Path(sys.argv[1])) as folder:
    (folder / "secrets").mkdir()
    print(folder, flush=True)
    time.sleep(60)
"""


def owner(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another sandbox with a folder there."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def test_a_folder_goes_with_its_block_and_all_that_is_in_it(tmp_path: Path) -> None:
    with podfolders.held(tmp_path) as folder:
        (folder / "secrets").mkdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert list(tmp_path.iterdir()) == [folder]
    assert not list(tmp_path.iterdir())


def test_only_folders_of_killed_sandboxes_are_removed(tmp_path: Path) -> None:
    killed, left = owner(tmp_path)
    living, kept = owner(tmp_path)
    try:
        assert left.exists()
        end(killed)
        assert (left / "secrets").exists()
        with podfolders.held(tmp_path) as folder:
            assert sorted(tmp_path.iterdir()) == sorted((kept, folder))
        assert (kept / "secrets").exists()
    finally:
        end(killed)
        end(living)


def test_links_files_and_other_names_are_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "precious").mkdir(parents=True)
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / f"{podfolders.PREFIX}link").symlink_to(elsewhere)
    (shared / f"{podfolders.PREFIX}file").touch()
    (shared / "federator-pods-old").mkdir()
    before = sorted(os.listdir(shared))

    assert podfolders.sweep(shared) == []

    assert sorted(os.listdir(shared)) == before
    assert (elsewhere / "precious").exists()
