"""The index is a shortcut: made from the log, kept up to date with it, and made again whatever happens to it."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

import foveal
from foveal.recall.search import hits, index, search
from foveal.stores.database import Database
from foveal.stores.port import Row, Store
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite import index as shelf
from foveal.values.entry import ToolCall
from foveal.values.errors import StoreBusy

Keep = Callable[..., list[str]]


@pytest.fixture
def filled(file_store: SqliteStore, keep: Keep) -> SqliteStore:
    """A session of 200 entries, searched once."""
    keep(file_store, *(foveal.user(f"entry number{n} of the log, with some words around it") for n in range(200)))
    assert found(file_store) == [78]
    return file_store


def found(store: Store) -> list[int]:
    return [hit.seq for hit in search(store, "test", "number77")]


def file_of(store: SqliteStore, session: str = "test") -> Path:
    return shelf.index_file(store.path, session)


def passages(store: SqliteStore) -> list[tuple[Any, ...]]:
    db = apsw.Connection(str(file_of(store)), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return db.execute("SELECT seq, part, start FROM passages ORDER BY id").fetchall()
    finally:
        db.close()


def test_nothing_is_made_before_the_first_search(file_store: SqliteStore, keep: Keep) -> None:
    """Appending costs nothing for those who never search; the store's own file is never touched."""
    keep(file_store, foveal.user("x"))
    assert not file_of(file_store).parent.exists()
    before = file_store.path.read_bytes()
    search(file_store, "test", "x")
    assert file_of(file_store).is_file()
    assert file_store.path.read_bytes() == before


def test_only_what_is_new_is_read(filled: SqliteStore, keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catching up costs what was appended since, and nothing if that is nothing."""
    asked: list[int] = []
    rows = filled.rows

    def counted(session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        asked.append(after)
        return rows(session, after=after, upto=upto)

    monkeypatch.setattr(filled, "rows", counted)
    assert found(filled) == [78]
    assert asked == []
    keep(filled, foveal.user("brandnew"))
    asked.clear()
    assert [hit.seq for hit in search(filled, "test", "brandnew")] == [201]
    assert asked == [200]


def test_catching_up_in_steps_gives_the_same_index(
    file_store: SqliteStore, keep: Keep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Searched after every entry, after some, or once at the end; in one transaction or in many."""
    other = SqliteStore(tmp_path / "other.db")
    bodies = [foveal.user(f"some text {n}\n" * (n * 40)) for n in range(20)]
    keep(other, *bodies)
    monkeypatch.setattr(index, "BATCH_CHARACTERS", 10_000)
    for number, body in enumerate(bodies):
        keep(file_store, body)
        if number % 3 == 0:
            search(file_store, "test", "text")
    both = [[(hit.seq, hit.score) for hit in search(store, "test", "text 7")] for store in (file_store, other)]
    assert both[0] == both[1]
    assert passages(file_store) == passages(other)
    other.close()


def overwrite(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = Random(1).randbytes(len(data) - 4096)
    path.write_bytes(data)


def another_database(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE words (x)")
    db.close()


def change(path: Path, *statements: str) -> None:
    db = apsw.Connection(str(path))
    for statement in statements:
        db.execute(statement)
    db.close()


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "deleted": Path.unlink,
    "folder deleted": lambda path: shutil.rmtree(path.parent),
    "empty": lambda path: path.write_bytes(b""),
    "no database": lambda path: path.write_bytes(b"x" * 9_000),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut within a page": lambda path: path.write_bytes(path.read_bytes()[:5_000]),
    "overwritten": overwrite,
    "another database": another_database,
    "another version": lambda path: change(path, "PRAGMA user_version = 99"),
    "no progress": lambda path: change(path, "DELETE FROM progress"),
    "progress beyond the log": lambda path: change(path, "UPDATE progress SET seq = 9999"),
    "progress below zero": lambda path: change(path, "UPDATE progress SET seq = -5"),
    "another log": lambda path: change(path, "UPDATE progress SET last = x'00'"),
    "a table is missing": lambda path: change(path, "DROP TABLE passages"),
    "rows are missing": lambda path: change(path, "DELETE FROM passages"),
    "places that are not there": lambda path: change(path, "UPDATE passages SET seq = 7000"),
    "parts that are not there": lambda path: change(path, "UPDATE passages SET part = 3"),
    "spans that are not there": lambda path: change(path, "UPDATE passages SET start = 100000"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_made_again(filled: SqliteStore, damage: str) -> None:
    """Whatever was done to its file, the search answers from the log as if nothing had happened."""
    whole = passages(filled)
    DAMAGE[damage](file_of(filled))
    assert found(filled) == [78]
    assert found(filled) == [78]
    assert passages(filled) == whole


def test_flipped_bits_never_give_an_error(filled: SqliteStore) -> None:
    """An index may be wrong in ways that nobody can see; what it cannot do is to raise, or to show what the log does not."""
    path, random = file_of(filled), Random(5)
    sound = path.read_bytes()
    for _ in range(60):
        data = bytearray(sound)
        for _ in range(3):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data)
        for hit in search(filled, "test", "number77 words"):
            assert hit.snippet == f"entry number{hit.seq - 1} of the log, with some words around it"


def test_the_index_of_another_store_is_not_believed(filled: SqliteStore, keep: Keep, tmp_path: Path) -> None:
    """A session of the same name in a new file is another log."""
    other = SqliteStore(tmp_path / "other.db")
    keep(other, *(foveal.user(f"something else {n}") for n in range(300)))
    file_of(other).parent.mkdir()
    shutil.copy(file_of(filled), file_of(other))
    assert found(other) == []
    assert search(other, "test", "else 7")[0].seq == 8
    other.close()


def test_a_damaged_artifact_leaves_the_rest_searchable(file_store: SqliteStore, keep: Keep) -> None:
    """Its head and tail are in the log and are found; fetching it says what happened."""
    text = "headword\n" + "filler text\n" * 40_000 + "tailword\n"
    call = foveal.assistant("", ToolCall("c", "run", "{}"))
    keep(file_store, call, foveal.result("c", text), foveal.user("afterword"))
    shutil.rmtree(file_store.path.with_name("store.db.artifacts"))
    for word, seq in (("headword", 2), ("tailword", 2), ("afterword", 3)):
        (hit,) = search(file_store, "test", word)
        assert hit.seq == seq
        assert word in hit.snippet


def test_an_artifact_that_is_lost_later_still_gives_its_hit(file_store: SqliteStore, keep: Keep) -> None:
    """The place is known, only its text cannot be shown."""
    call = foveal.assistant("", ToolCall("c", "run", "{}"))
    keep(file_store, call, foveal.result("c", "filler text\n" * 40_000 + "tailword\n"))
    assert search(file_store, "test", "tailword")[0].snippet == "tailword"
    shutil.rmtree(file_store.path.with_name("store.db.artifacts"))
    (hit,) = search(file_store, "test", "tailword")
    assert (hit.seq, hit.snippet) == (2, "")


STOPS = """
import sys
from foveal.recall.search import search
from foveal.recall.search import index
from foveal.stores.sqlite import SqliteStore
add, done = index._add, 0
def stopping(*arguments):
    global done
    done += 1
    if done == 150:
        print("half", flush=True)
        sys.stdin.readline()
    return add(*arguments)
index._add = stopping
index.BATCH_CHARACTERS = 3_000
store = SqliteStore(sys.argv[1])
print(len(search(store, "test", "number77")), flush=True)
"""


def test_a_killed_process_leaves_an_index_that_goes_on(filled: SqliteStore, child: Callable[..., Any]) -> None:
    """What was committed is kept, what was not is done again, and nothing is there twice."""
    whole = passages(filled)
    file_of(filled).unlink()
    process = child(STOPS, filled.path)
    assert process.stdout.readline() == "half\n"
    process.kill()
    process.wait()
    assert 0 < len(passages(filled)) < 200
    assert found(filled) == [78]
    assert passages(filled) == whole


def test_who_waits_too_long_is_told_that_it_is_busy(
    filled: SqliteStore, child: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process writes at a time; the others wait, but not for ever, and go on afterwards."""
    whole = passages(filled)
    file_of(filled).unlink()
    process = child(STOPS, filled.path)
    assert process.stdout.readline() == "half\n"
    monkeypatch.setattr(shelf, "BUSY_S", 0.01)
    with pytest.raises(StoreBusy):
        found(filled)
    monkeypatch.setattr(shelf, "BUSY_S", 60.0)
    process.stdin.write("\n")
    process.stdin.flush()
    assert found(filled) == [78]
    assert process.stdout.readline() == "1\n"
    assert passages(filled) == whole


TOGETHER = """
import sys
from pathlib import Path
from foveal.recall.search import search
from foveal.recall.search import index
from foveal.stores.sqlite import index as shelf
from foveal.stores.sqlite import SqliteStore
index.BATCH_CHARACTERS = 2_000
shelf.BUSY_S = 60.0
store = SqliteStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print([hit.seq for hit in search(store, "test", "number77")], flush=True)
"""


@pytest.mark.parametrize("damage", ["deleted", "overwritten", "no database"])
def test_processes_that_build_at_the_same_time_build_one_index(
    filled: SqliteStore, child: Callable[..., Any], damage: str
) -> None:
    """Whoever comes first, everybody finds everything and nothing is there twice."""
    whole = passages(filled)
    DAMAGE[damage](file_of(filled))
    processes = [child(TOGETHER, filled.path) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.stdout.readline() for process in processes] == ["[78]\n"] * 3
    assert passages(filled) == whole


def test_an_index_that_another_process_empties_during_a_search_hides_nothing(
    filled: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one had found it damaged some time before; it has begun to fill it again when this one looks."""
    whole, catch_up = passages(filled), hits.catch_up

    def emptied_behind(db: Any, store: Any, session: str) -> None:
        catch_up(db, store, session)
        monkeypatch.setattr(hits, "catch_up", catch_up)
        place = filled.index("test")
        place.clear()
        with place.opened() as other:
            index.make(other)

    monkeypatch.setattr(hits, "catch_up", emptied_behind)
    assert found(filled) == [78]
    assert passages(filled) == whole


def test_an_index_that_another_process_has_mended_is_not_emptied_once_more(
    filled: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have found the damage; the second one uses what the first has made."""
    emptied: list[str] = []
    clear, catch_up = shelf.FileIndex.clear, hits.catch_up

    def counted(place: shelf.FileIndex) -> None:
        emptied.append(place.place)
        clear(place)

    def mended_behind(db: Any, store: Any, session: str) -> None:
        monkeypatch.setattr(hits, "catch_up", catch_up)
        change(file_of(filled), "DELETE FROM progress")
        assert found(filled) == [78]
        catch_up(db, store, session)
        raise index.Stale("as it was before")

    monkeypatch.setattr(shelf.FileIndex, "clear", counted)
    monkeypatch.setattr(hits, "catch_up", mended_behind)
    assert found(filled) == [78]
    assert len(emptied) == 1


def test_an_index_that_is_removed_while_it_is_searched_is_opened_again(tmp_path: Path) -> None:
    """The deletion of a session removes files that a search has open: it is no failure of the disk, and the search goes on."""
    place, tries = shelf.FileIndex(tmp_path / "store.db.index" / "a.db"), list[int]()

    def job(db: Database) -> str:
        tries.append(len(tries))
        if len(tries) <= 5:
            for file in (tmp_path / "store.db.index").iterdir():
                file.unlink()
        db.execute("UPDATE progress SET seq = seq + 1")
        return "found"

    assert index.with_index(place, job) == "found"
    assert len(tries) == 6


def test_an_index_whose_place_a_file_of_the_same_number_takes_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems give the number of a removed file to the next one: it is no file that may not be written."""
    place, tries = shelf.FileIndex(tmp_path / "store.db.index" / "a.db"), list[int]()
    monkeypatch.setattr(shelf.FileIndex, "_inode", lambda _: 7)

    def job(db: Database) -> str:
        tries.append(len(tries))
        if len(tries) == 1:
            Path(place.place).unlink()
        db.execute("UPDATE progress SET seq = seq + 1")
        return "found"

    assert index.with_index(place, job) == "found"
    assert len(tries) == 2


def test_an_index_that_is_removed_while_it_is_emptied_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that has found it damaged goes on with a new one."""
    place, tries = shelf.FileIndex(tmp_path / "store.db.index" / "a.db"), list[int]()
    is_empty = shelf._is_empty

    def removing(db: Database) -> bool:
        is_no_use = is_empty(db)
        Path(place.place).unlink()
        return is_no_use

    def job(_db: Database) -> str:
        tries.append(len(tries))
        if len(tries) == 1:
            raise index.Stale("it looks damaged")
        return "found"

    monkeypatch.setattr(shelf, "_is_empty", removing)
    assert index.with_index(place, job) == "found"
    assert len(tries) == 2


def test_an_index_that_is_removed_again_and_again_is_told_to_be_in_use(tmp_path: Path) -> None:
    """Neither the disk nor the index is said to be damaged."""
    place = shelf.FileIndex(tmp_path / "store.db.index" / "a.db")

    def job(db: Database) -> None:
        for file in (tmp_path / "store.db.index").iterdir():
            file.unlink()
        db.execute("UPDATE progress SET seq = seq + 1")

    with pytest.raises(StoreBusy, match="search again"):
        index.with_index(place, job)
