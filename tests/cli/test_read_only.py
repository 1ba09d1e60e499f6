"""Stores that may be read and not written: a file or folder without the right to, as of a mounted disk or of another user."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foveal.stores.artifacts import artifacts_folder
from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
from foveal.values.codec import encode
from foveal.values.entry import Message, Stored, user

pytestmark = pytest.mark.skipif(os.name != "posix", reason="rights of files are others there")

_POWERLESS = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
"""Root, who may read and write everything, gives up the right to."""

READING = (
    "why alpha",
    "why alpha --cost",
    "show alpha",
    "events alpha",
    "search alpha line",
    "export alpha -o {out}",
    "view alpha --html {out}",
    "runs",
    "sessions",
    "sessions --branches",
    "sessions --search everything",
    "backup {out}",
    "store stats {store}",
    "store doctor {store}",
    "store backup {store} {out}",
    "store migrate {store} {out}",
    "doctor {store}",
)
WRITING = (
    "pin alpha --tool read_file",
    "label alpha --title T",
    "delete alpha --yes",
    "rewind alpha {entry}",
    "store vacuum {store}",
)


def _run(line: str, store: Path, out: Path, **names: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as somebody who has the rights that the files give to their owner."""
    powerless = _POWERLESS if os.getuid() == 0 else ()
    if powerless and shutil.which(powerless[0]) is None:
        pytest.skip("root may write everything, and there is no setpriv")
    words = line.format(store=store, out=out / "out", **names).split()
    if "{store}" not in line:
        words += ["--store", str(store)]
    return subprocess.run(
        [*powerless, sys.executable, "-m", "foveal", *words], capture_output=True, text=True, check=False
    )


@pytest.fixture
def locked(kept: Path, tmp_path: Path) -> Iterator[Path]:
    """The store in a folder of its own, in which nothing can be written."""
    folder = tmp_path / "locked"
    folder.mkdir()
    for file in (kept, artifacts_folder(kept)):
        if file.exists():
            shutil.move(file, folder / file.name)
    yield from _locked(folder, kept.name)


def _locked(folder: Path, name: str) -> Iterator[Path]:
    modes = {file: file.stat().st_mode for file in (folder, *folder.rglob("*"))}
    for file, mode in modes.items():
        file.chmod(mode & ~0o222)
    yield folder / name
    for file, mode in modes.items():
        file.chmod(mode)


@pytest.mark.parametrize("line", READING)
def test_a_store_that_cannot_be_written_is_read(locked: Path, tmp_path: Path, line: str) -> None:
    """No command that only looks asks for the right to write, and nothing is written beside the store."""
    before = sorted(locked.parent.rglob("*"))
    done = _run(line, locked, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(locked.parent.rglob("*")) == before


@pytest.mark.parametrize("line", WRITING)
def test_a_command_that_writes_says_that_the_store_cannot_be_written(locked: Path, tmp_path: Path, line: str) -> None:
    """One line with the file, as before the store could be read."""
    with SqliteStore(locked, may_be_read_only=True) as store:
        (entry,) = store.rows_at("alpha", [3]).values()
    done = _run(line, locked, tmp_path, entry=entry.id)
    assert done.returncode == 2
    assert f"{locked} cannot be" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_store_is_read_although_its_artifacts_cannot(tmp_path: Path) -> None:
    """The log is shown; `migrate` names each artifact that it could not copy, and the session is not called whole."""
    folder = tmp_path / "locked"
    folder.mkdir()
    with SqliteStore(folder / "a.db") as store:
        kept = store.artifacts.put([b"large"])
        stored = Message("user", (Stored(kept.sha256, kept.size_bytes, kept.lines, kept.head, kept.tail),))
        store.acquire("s").append([Draft("e", None, 1, "a", encode(stored))])
    for locked in _locked(folder, "a.db"):
        artifacts_folder(locked).chmod(0)
        assert "s  " in _run("sessions", locked, tmp_path).stdout
        done = _run("store migrate {store} {out}", locked, tmp_path)
        assert (done.returncode, done.stderr) == (1, "")
        assert "0 sessions are whole" in done.stdout
        assert "session s" in done.stdout


def test_a_file_that_cannot_be_written_is_read_with_the_wal_that_a_killed_writer_left(tmp_path: Path) -> None:
    """What was acknowledged is shown, with the wal-index or, in a folder that can be written, without it."""
    folder = tmp_path / "killed"
    folder.mkdir()
    code = (
        "import os, sys; from foveal.stores.sqlite import SqliteStore; from foveal.stores.port import Draft;"
        "SqliteStore(sys.argv[1]).acquire('s').append([Draft('e', None, 1, 'a', sys.argv[2].encode())]); os.kill(os.getpid(), 9)"
    )
    payload = encode(user("acknowledged")).decode()
    subprocess.run([sys.executable, "-c", code, str(folder / "a.db"), payload], check=False)
    for store in _locked(folder, "a.db"):
        assert "acknowledged" in _run("recall s e", store, tmp_path).stdout
        folder.chmod(0o755)
        (folder / "a.db-shm").chmod(0o600)
        (folder / "a.db-shm").rename(tmp_path / "shm")
        folder.chmod(0o555)
        done = _run("recall s e", store, tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "a.db-wal has entries that can only be read where" in done.stderr
        folder.chmod(0o755)
        (tmp_path / "shm").rename(folder / "a.db-shm")


def test_a_file_that_is_being_written_is_read_without_the_right_to_write_it(tmp_path: Path) -> None:
    """A container that mounts the folder to look at it sees each entry once it is acknowledged."""
    folder = tmp_path / "live"
    folder.mkdir()
    with SqliteStore(folder / "a.db") as store:
        writer = store.acquire("s")
        writer.append([Draft("e1", None, 1, "a", encode(user("the first")))])
        for locked in _locked(folder, "a.db"):
            assert "the first" in _run("recall s e1", locked, tmp_path).stdout
            writer.append([Draft("e2", "e1", 1, "a", encode(user("the second")))])
            assert "the second" in _run("recall s e2", locked, tmp_path).stdout
