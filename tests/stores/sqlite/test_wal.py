"""Damage of a WAL is told from a torn end; files that vanish under a store are noticed; closing leaves one whole file."""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.doctor import examine, salvage
from foveal.stores.sqlite.wal import WalIndexMark, read_wal
from foveal.values.codec import encode
from foveal.values.entry import user
from foveal.values.errors import StoreCorrupt, StoreFailed

SCRIPT = Path(__file__).parents[3] / "scripts" / "damage_test.py"

KILLED = """
import os, sys, signal
from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
from foveal.values.codec import encode
from foveal.values.entry import user
writer = SqliteStore(sys.argv[1]).acquire("s")
for number in range(40):
    writer.append([Draft(f"e{number}", None, 1, "me", encode(user(f"{number} " * 300)))])
os.kill(os.getpid(), signal.SIGKILL)
"""
FRAME = 24 + 4096


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a writer of 40 entries left when it was killed."""
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run([sys.executable, "-c", KILLED, folder / "store.db"], check=False)
    return folder


@pytest.fixture
def killed(left: Path, path: Path) -> Path:
    shutil.copytree(left, path.parent, dirs_exist_ok=True)
    return path


def wal_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def entries(path: Path) -> int:
    with SqliteStore(path) as store:
        return len(list(store.rows("s")))


def salvaged(path: Path) -> int:
    """Entries of the session that a salvage gives back."""
    target = path.with_name("salvaged.db")
    salvage(path, target)
    with SqliteStore(target) as store:
        return sum(not row.id.startswith("lost-") for row in store.rows("s"))


def refused(path: Path, words: str) -> None:
    """Opening is refused each time, with the repair; the doctor says the same."""
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=rf"{words}.*foveal doctor {re.escape(str(path))}"):
            SqliteStore(path)
    assert re.search(words, str(examine(path).damage[0]))


def test_a_killed_store_is_whole(killed: Path) -> None:
    """Recovery after a kill finds nothing to complain about."""
    assert entries(killed) == 40


def test_every_flip_in_a_wal_that_loses_entries_is_told(killed: Path) -> None:
    """Whichever bit of the WAL flips, acknowledged entries are all there or opening is refused."""
    rng = random.Random(3)
    whole, index = wal_of(killed).read_bytes(), Path(f"{killed}-shm").read_bytes()
    database = killed.read_bytes()
    refusals = 0
    for _ in range(60):
        bit = rng.randrange(len(whole) * 8)
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        wal_of(killed).write_bytes(damaged)
        Path(f"{killed}-shm").write_bytes(index)
        killed.write_bytes(database)
        try:
            assert entries(killed) == 40
        except StoreCorrupt:
            refusals += 1
    assert refusals > 50


@pytest.mark.parametrize("share", [0.3, 0.9, 1.0])
def test_a_wal_that_was_carried_over_and_cut_does_not_hide_the_newest_entries(path: Path, share: float) -> None:
    """The file has everything, but SQLite would take older pages from the rest of the WAL: refused, and salvaged whole."""
    carried = KILLED.replace(
        "writer = SqliteStore(sys.argv[1]).acquire", "store = SqliteStore(sys.argv[1])\nwriter = store.acquire"
    )
    carried = carried.replace("os.kill(", "store._commits.run_alone(lambda db: db.wal_checkpoint())\nos.kill(")
    subprocess.run([sys.executable, "-c", carried, path], check=False)
    data = wal_of(path).read_bytes()
    wal_of(path).write_bytes(data[: int(len(data) * share) - 1])
    refused(path, "frames of the -wal file were committed")
    assert salvaged(path) == 40


def test_a_flip_is_told_without_the_index_of_the_wal(killed: Path) -> None:
    """A bad frame with two commits behind it was whole once, whatever became of the -shm file."""
    data = bytearray(wal_of(killed).read_bytes())
    data[32 + 3 * FRAME + 2000] ^= 1
    wal_of(killed).write_bytes(data)
    Path(f"{killed}-shm").unlink()
    refused(killed, "frame 4 of the -wal file is damaged")
    assert salvaged(killed) >= 39


def test_a_wal_that_was_just_begun_is_no_damage(killed: Path) -> None:
    """Killed between the header of a new WAL and the first commit of it: the index knows another WAL, and counts nothing."""
    wal = Path(f"{killed}-wal")
    wal.write_bytes(wal.read_bytes()[:32])
    counted = {"nothing": (0, 0), "only what is in the database": (7, 7)}
    for what, (frames, copied) in counted.items():
        assert read_wal(wal, WalIndexMark(b"another!", frames, copied)).problem == "", what
    assert "can be read" in read_wal(wal, WalIndexMark(b"another!", 7, 6)).problem


def test_a_torn_header_of_a_wal_that_is_begun_anew_is_no_damage(killed: Path) -> None:
    """The frames behind it are those of the last WAL, and all in the database: the index counts none. Without it, who knows."""
    wal = wal_of(killed)
    wal.write_bytes(bytes(16) + wal.read_bytes()[16:])
    assert read_wal(wal, WalIndexMark(b"another!", 0, 0)).problem == ""
    for mark in (None, WalIndexMark(b"another!", 7, 7)):
        assert "header" in read_wal(wal, mark).problem


def test_a_torn_end_is_no_damage(killed: Path) -> None:
    """A power cut tears the last commit, which nobody was told of; the wal-index does not survive it."""
    Path(f"{killed}-shm").unlink()
    data = wal_of(killed).read_bytes()
    last = (len(data) - 32) // FRAME - 1
    torn = bytearray(data)
    torn[32 + last * FRAME + 600 :] = bytes(len(data) - (32 + last * FRAME + 600))
    wal_of(killed).write_bytes(torn)
    assert entries(killed) == 39


@pytest.mark.parametrize("frames", [0, 1, 20])
def test_a_cut_wal_is_told(killed: Path, frames: int) -> None:
    """Even if it is cut between two commits, where nothing looks torn."""
    os.truncate(wal_of(killed), 32 + frames * FRAME if frames else 0)
    refused(killed, "committed|missing")


def test_a_missing_wal_is_told(killed: Path) -> None:
    """A database that was in use is incomplete without its WAL, also if it was copied alone."""
    copy = killed.with_name("backup.db")
    shutil.copy(killed, copy)
    refused(copy, "backup.db-wal is not beside it")
    wal_of(killed).unlink()
    refused(killed, "store.db-wal is missing")


def test_the_newest_state_is_salvaged_from_a_damaged_wal(killed: Path) -> None:
    """Everything behind the damaged frame comes back, and only what was in it is lost."""
    data = bytearray(wal_of(killed).read_bytes())
    data[32 + 30 * FRAME + 2000] ^= 1
    wal_of(killed).write_bytes(data)
    refused(killed, "committed|damaged")
    assert salvaged(killed) >= 38


def test_a_copy_of_a_closed_store_is_complete(path: Path) -> None:
    """After closing, and after a program that did not close, `cp` of the one file is a backup."""
    code = (
        "import sys, foveal; store = foveal.open_store(sys.argv[1]);"
        "foveal.Session(store, 's', model='gpt-5').append(foveal.user('keep me'))"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)
    copy = shutil.copy(path, path.with_name("backup.db"))
    assert entries(Path(copy)) == 1


def test_a_store_that_nobody_wrote_is_one_file_too(path: Path) -> None:
    """Neither making a store nor reading it leaves a WAL behind."""
    for _ in range(2):
        with SqliteStore(path) as store:
            assert store.cards() == []
        assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_store_is_closed_by_its_block(path: Path) -> None:
    """`with` closes, and the WAL is gone with the last handle of all."""
    with SqliteStore(path) as store:
        store.acquire("s").append([Draft("a", None, 1, "me", b"x")])
        with SqliteStore(path) as other:
            assert len(other.cards()) == 1
        assert wal_of(path).exists()
    assert not wal_of(path).exists()


def test_an_idle_store_carries_its_wal_over(path: Path, child: Callable[..., Any]) -> None:
    """When nobody writes for a moment, the file itself has everything."""
    store = SqliteStore(path)
    store.acquire("s").append([Draft("a", None, 1, "me", b"x" * 5000)])
    assert store._commits._rest_s() is not None
    before = path.stat().st_size
    store._commits.run_alone(lambda db: store._commits._rest())
    assert path.stat().st_size > before or b"x" * 3000 in path.read_bytes()
    assert store._commits._is_carried_over
    store.close()


@pytest.mark.parametrize("which", ["", "-wal"])
@pytest.mark.parametrize("act", ["unlink", "rename", "replace"])
def test_a_file_that_loses_its_name_is_noticed_at_the_next_commit(path: Path, which: str, act: str) -> None:
    """No append is acknowledged into a file that nobody will find again; one more try is refused as well."""
    store = SqliteStore(path)
    writer = store.acquire("s")
    writer.append([Draft("a", None, 1, "me", encode(user("a")))])
    file = Path(str(path) + which)
    match act:
        case "unlink":
            file.unlink()
        case "rename":
            file.rename(path.with_name("elsewhere"))
        case _:
            path.with_name("other").write_bytes(b"")
            path.with_name("other").replace(file)
    for name in ("b", "c"):
        with pytest.raises(StoreFailed, match="removed, renamed or replaced"):
            writer.append([Draft(name, None, 1, "me", encode(user("b")))])
    store.close()
    if which and act == "unlink":
        assert entries(path) >= 1


def test_a_lost_database_is_not_made_anew_beside_its_wal(killed: Path) -> None:
    """A store whose file is gone, but not its WAL, is damaged; nobody gets an empty one."""
    killed.unlink()
    with pytest.raises(StoreCorrupt, match="is gone although"):
        SqliteStore(killed)
    assert not killed.exists()


def damage_test(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_damage_is_loud() -> None:
    """Flips, zeroed sectors, cuts, removals and swaps in every file, at rest and in use: nothing is missing in silence."""
    status, said = damage_test("--cases", "250", "--seed", "5")
    assert re.search(r"cases 250 harmless \d+ loud \d+ silent 0$", said, re.MULTILINE), said
    assert status == 0


def test_a_store_that_trusts_its_wal_is_caught() -> None:
    """The audit has teeth: opening as SQLite alone would loses entries, and that is found."""
    status, said = damage_test("--cases", "120", "--seed", "5", "--sabotage", "trust-the-wal")
    assert re.search(r"silent [1-9]", said), said
    assert status == 1
