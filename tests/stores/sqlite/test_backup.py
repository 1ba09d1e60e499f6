"""Copies of stores that are in use."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from foveal.stores.artifacts import artifacts_folder
from foveal.stores.deletion import delete_sessions
from foveal.stores.examination import Report
from foveal.stores.port import Artifacts, Draft
from foveal.stores.sqlite import SqliteStore, backup
from foveal.stores.sqlite.backup import back_up
from foveal.stores.sqlite.doctor import examine, salvage
from foveal.values.codec import encode
from foveal.values.entry import user
from foveal.values.errors import BadInput, StoreError, StoreFailed, StoreFull


def test_a_store_is_copied_while_it_is_written(filled: Path) -> None:
    """The copy has everything that was acknowledged before, is verified, and belongs to nobody."""
    target = filled.with_name("copy.db")
    with SqliteStore(filled) as store:
        writer = store.acquire("s0")
        stop, acknowledged = threading.Event(), list[str]()

        def write() -> None:
            while not stop.is_set():
                name = f"new-{len(acknowledged)}"
                writer.append([Draft(name, None, 1, "me", encode(user(name)))])
                acknowledged.append(name)

        thread = threading.Thread(target=write)
        thread.start()
        while not acknowledged:
            pass
        before = list(acknowledged)
        report = back_up(filled, target)
        stop.set()
        thread.join()
    assert (report.damage, report.artifacts, report.sessions) == ((), 9, 3)
    with SqliteStore(target) as copy:
        assert {row.id for row in copy.rows("s0")} >= set(before)
        assert [card.holder for card in copy.cards()] == [None] * 3
        copy.acquire("s0").append([Draft("goes-on", None, 1, "me", encode(user("x")))])
    assert not Path(f"{target}-wal").exists()


def test_a_copy_never_replaces_anything(filled: Path) -> None:
    """An existing file, or a folder of artifacts, is refused."""
    with pytest.raises(BadInput, match="exists already"):
        back_up(filled, filled)
    target = filled.with_name("copy.db")
    artifacts_folder(target).mkdir()
    with pytest.raises(BadInput, match="an earlier store"):
        back_up(filled, target)


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal", ".index"])
@pytest.mark.parametrize("make", [back_up, salvage])
def test_a_copy_is_not_made_beside_the_companion_of_an_earlier_store(
    filled: Path, ending: str, make: Callable[[Path, Path], Report]
) -> None:
    """SQLite would take it for a part of the copy: it is named, and nothing is made."""
    target = filled.with_name("copy.db")
    companion = Path(f"{target}{ending}")
    companion.write_bytes(b"of an earlier store")
    before = set(filled.parent.iterdir())
    with pytest.raises(BadInput, match=f"has left {target}{ending}, to be taken"):
        make(filled, target)
    assert (set(filled.parent.iterdir()), companion.read_bytes()) == (before, b"of an earlier store")


def test_a_companion_that_appears_during_a_backup_keeps_the_copy_from_its_name(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is removed again."""
    target = filled.with_name("copy.db")
    monkeypatch.setattr(backup, "_copy_artifacts", lambda *_: Path(f"{target}-wal").write_bytes(b"x"))
    with pytest.raises(BadInput, match=f"has left {target}-wal"):
        back_up(filled, target)
    assert not target.exists()


def test_a_copy_is_compared_with_what_was_copied(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is sound in itself, but another one, is no backup."""

    def examine_another(place: Path) -> Report:
        with SqliteStore(place) as store:
            store.delete(["s0"])
        return examine(place)

    monkeypatch.setattr(backup, "examine", examine_another)
    with pytest.raises(StoreError, match="does not hold the sessions that were copied"):
        back_up(filled, filled.with_name("copy.db"))


def test_a_copy_is_one_complete_file(filled: Path) -> None:
    """Its artifacts are all that is beside it."""
    target = filled.with_name("copy.db")
    back_up(filled, target)
    assert sorted(filled.parent.glob("copy.db*")) == [target, artifacts_folder(target)]


def test_a_missing_artifact_is_reported(filled: Path) -> None:
    """The rest is copied; the report names the entry that is in vain."""
    min(artifacts_folder(filled).glob("*/*")).unlink()
    report = back_up(filled, filled.with_name("copy.db"))
    assert (report.artifacts, len(report.damage)) == (8, 1)
    assert examine(filled).damage


def test_a_damaged_artifact_is_copied_as_it_is(filled: Path) -> None:
    """It is reported as damaged, not as lost, and the bytes that it still has are in the copy."""
    artifact, target = min(artifacts_folder(filled).glob("*/*")), filled.with_name("copy.db")
    artifact.write_bytes(b"X" + artifact.read_bytes()[1:])
    report = back_up(filled, target)
    assert [("do not match the hash" in damage.what) for damage in report.damage] == [True]
    copied = artifacts_folder(target) / artifact.parent.name / artifact.name
    assert copied.read_bytes() == artifact.read_bytes()


def test_a_backup_that_fails_leaves_nothing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy takes its name when it is whole, so that the same command can be given again."""
    before = set(filled.parent.iterdir())
    target = filled.with_name("copy.db")
    monkeypatch.setattr(backup, "_copy_artifacts", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        back_up(filled, target)
    assert set(filled.parent.iterdir()) == before
    monkeypatch.undo()
    assert back_up(filled, target).damage == ()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), StoreFull),
        (OSError(errno.EIO, "Input/output error"), StoreFailed),
        (apsw.FullError("database or disk is full"), StoreFull),
        (apsw.IOError("disk I/O error"), StoreFailed),
    ],
)
def test_a_disk_that_refuses_a_copy_is_told_as_an_error_of_a_store(
    filled: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: type[StoreError]
) -> None:
    """Whether a file system's call or SQLite's fails: the error names the copy, also if what is left cannot be removed."""

    def refuse(*_: object) -> None:
        raise error

    target = filled.with_name("copy.db")
    monkeypatch.setattr(backup, "_set_free", refuse)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: refuse() if isinstance(error, OSError) else None)
    with pytest.raises(told, match=r"copy\.db could not be made: .* try again"):
        back_up(filled, target)
    monkeypatch.undo()
    assert back_up(filled, target).damage == ()


def test_a_damaged_store_is_copied_with_all_its_artifacts(filled: Path) -> None:
    """The report names the damaged entry; the artifacts that the entries after it name are in the copy."""
    data = filled.read_bytes()
    filled.write_bytes(data.replace(b"entry 4 of session 1", b"entry X of session 1", 1))
    target = filled.with_name("copy.db")
    report = back_up(filled, target)
    assert (len(report.damage), report.artifacts) == (1, 9)
    assert "session s1, entry 5" in str(report.damage[0])


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_session_that_is_deleted_during_a_backup_is_not_in_the_copy(
    filled: Path, monkeypatch: pytest.MonkeyPatch, *, is_made_again: bool
) -> None:
    """Neither its entries nor its artifacts, of which some were copied before; that is no damage, and the others are whole."""
    copy_artifact, copied = backup._copy_artifact, list[str]()

    def late(source: Artifacts, target: Artifacts, sha256: str) -> None:
        copy_artifact(source, target, sha256)
        copied.append(sha256)
        if len(copied) == 1:
            with SqliteStore(filled) as store:
                delete_sessions(store, ["s2"])  # the first whose artifacts are copied
                if is_made_again:
                    store.acquire("s2").release()

    monkeypatch.setattr(backup, "_copy_artifact", late)
    target = filled.with_name("copy.db")
    report = back_up(filled, target)
    assert (report.damage, set(report.names), report.artifacts) == ((), {"s0", "s1"}, 6)
    with SqliteStore(target) as store:
        assert (len(store.artifacts.names()), len(store.tombstones())) == (6, 1)
    assert b"of session 2" not in target.read_bytes()
