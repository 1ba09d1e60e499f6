"""What is and is not opened as a store."""

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from foveal.stores import disk
from foveal.stores.format import APPLICATION_ID, SCHEMA_VERSION
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.opening import require_sqlite
from foveal.values.errors import SchemaTooNew, StoreCorrupt, StoreError


@pytest.mark.parametrize("version", ["3.51.2", "3.40.1", "3.7.0"])
def test_libraries_with_the_wal_reset_bug_are_refused(version: str) -> None:
    """An SQLite older than 3.51.3 is refused, with both versions in the message."""
    with pytest.raises(StoreError, match=rf"{version}.*3\.51\.3"):
        require_sqlite(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0.0"])
def test_newer_libraries_are_accepted(version: str) -> None:
    """The gate lets the fixed versions through."""
    require_sqlite(version)


def test_an_old_library_is_refused_before_a_file_is_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate is asked on every opening."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.46.0")
    with pytest.raises(StoreError, match=r"3\.46\.0"):
        SqliteStore(path)
    assert not path.exists()


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """The message names the path."""
    with pytest.raises(StoreError, match="is a folder") as refusal:
        SqliteStore(tmp_path)
    assert str(tmp_path) in str(refusal.value)


@pytest.mark.parametrize("may_be_read_only", [False, True])
@pytest.mark.parametrize("place", ["/", "x" * 300, "x" * 250, "x" * 5000], ids=len)
def test_a_place_that_can_have_no_store_is_an_error_of_the_store(
    tmp_path: Path, place: str, *, may_be_read_only: bool
) -> None:
    """The root of all folders has no name to put anything beside, and names have an end."""
    with pytest.raises(StoreError, match=r"is a folder|is not a path that can be opened") as refusal:
        SqliteStore(tmp_path / place, may_be_read_only=may_be_read_only)
    assert len(str(refusal.value)) < 500


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """Nothing is made on the way."""
    with pytest.raises(StoreError, match="does not exist"):
        SqliteStore(tmp_path / "no" / "store.db")
    assert not (tmp_path / "no").exists()


def test_a_path_with_a_nul_is_refused(tmp_path: Path) -> None:
    """Even a path that the system cannot express is a clear error."""
    with pytest.raises(StoreError):
        SqliteStore(tmp_path / "a\0b")


@pytest.mark.parametrize("content", [b"hello", b"x" * 5000, b'{"a": 1}\n' * 900, b"\0" * 4096])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    """Whatever it is, it is not ours to overwrite."""
    path.write_bytes(content)
    with pytest.raises(StoreError, match="not"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    """An SQLite file with other tables is not turned into a store, and not into WAL mode."""
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE contacts (name TEXT)")
    other.commit()
    other.close()
    content = path.read_bytes()
    with pytest.raises(StoreError, match="not a Foveal store"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_a_newer_schema_is_refused_with_both_versions(filled: Path) -> None:
    """The message says what the file has and what this Foveal knows."""
    other = sqlite3.connect(filled)
    other.execute("PRAGMA user_version = 12")
    other.close()
    with pytest.raises(SchemaTooNew, match=rf"version 12\D.*{SCHEMA_VERSION}"):
        SqliteStore(filled)


def test_the_file_says_whose_it_is(filled: Path) -> None:
    """The application id and the schema version are in the header, where `file` finds them."""
    header = filled.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == SCHEMA_VERSION


def test_a_file_that_was_emptied_is_not_taken_for_a_new_one(filled: Path) -> None:
    """A store with artifacts is never empty, so that an empty one is damage."""
    os.truncate(filled, 0)
    with pytest.raises(StoreCorrupt, match="empty"):
        SqliteStore(filled)
    assert filled.stat().st_size == 0


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """A process that died while making the store leaves an empty file."""
    path.touch()
    store = SqliteStore(path)
    assert store.cards() == []
    store.close()


READ_ONLY = """
import os, sys
from pathlib import Path
from foveal.values.errors import StoreError
from foveal.stores.sqlite import SqliteStore
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    SqliteStore(sys.argv[1])
except StoreError as error:
    print(type(error).__name__, error)
"""


def test_a_store_that_may_not_be_written_is_refused(filled: Path, child: Callable[..., Any]) -> None:
    """Without the right to write the file, or to make files beside it, opening fails with the path in the message."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to the user that the child becomes
        folder = Path(name)
        path = Path(shutil.copy(filled, folder))
        path.chmod(0o444)
        folder.chmod(0o555)
        said = child(READ_ONLY, path).rest()
        folder.chmod(0o755)
    assert said.startswith("StoreError")
    assert str(path) in said


def test_many_processes_may_make_the_same_store(path: Path, child: Callable[..., Any]) -> None:
    """Whoever comes first makes the tables; nobody fails."""
    code = (
        "import sys; from foveal.stores.sqlite import SqliteStore; sys.stdin.readline();"
        "SqliteStore(sys.argv[1]).acquire(sys.argv[2]).release(); print('made')"
    )
    makers = [child(code, path, f"s{number}") for number in range(4)]
    for maker in makers:
        maker.tell()
    assert [maker.hear() for maker in makers] == ["made"] * 4
    store = SqliteStore(path)
    assert len(store.cards()) == 4
    store.close()


def test_the_files_of_a_store_belong_to_their_owner_alone(path: Path) -> None:
    """Database, WAL, artifacts, sidecars and indexes: nobody else can read what an agent has seen, whatever the umask."""
    before = os.umask(0)
    try:
        with SqliteStore(path) as store:
            store.acquire("s")
            card = store.artifacts.put([b"large"])
            store.artifacts.write_sidecar(card.sha256, b"derived")
            with store.index("s").opened() as db:
                db.execute("CREATE TABLE t (x)")
            found = {str(file.relative_to(path.parent)): file.stat().st_mode & 0o777 for file in path.parent.rglob("*")}
    finally:
        os.umask(before)
    assert {"store.db", "store.db-wal", "store.db-shm"} < found.keys()
    assert len(found) == 9
    assert set(found.values()) == {0o600, 0o700}


def test_every_connection_syncs_fully_where_the_system_has_that(path: Path) -> None:
    """On macOS a plain fsync stops at the disk's own cache, so that SQLite and the artifacts ask for more."""
    with SqliteStore(path) as store, store._tables() as tables:
        for db in (store._commits._db, tables._db):
            settings = [db.pragma(name) for name in ("synchronous", "fullfsync", "checkpoint_fullfsync")]
            assert settings == [2, 1, 1]


@pytest.mark.parametrize(("refusal", "calls"), [(None, ["full"]), (errno.ENOTSUP, ["full", "plain"])])
def test_files_are_synced_fully_where_the_system_has_that(
    path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int | None, calls: list[str]
) -> None:
    """F_FULLFSYNC in place of fsync; a file system that does not know it gets the plain one."""
    called: list[str] = []

    def full(handle: int, command: int) -> None:
        called.append("full")
        if refusal:
            raise OSError(refusal, "not supported")

    monkeypatch.setattr(disk, "fcntl", SimpleNamespace(F_FULLFSYNC=51, fcntl=full))
    monkeypatch.setattr(os, "fsync", lambda handle: called.append("plain"))
    disk.sync_file(1)
    assert called == calls


def test_a_file_that_the_disk_does_not_make_is_told_as_that(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was synced, and to open the store again would not help."""

    def refuse(*_: object) -> int:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr("foveal.stores.sqlite.opening.os.open", refuse)
    with pytest.raises(StoreError, match=r"store\.db cannot be made .*No such file"):
        SqliteStore(path)
