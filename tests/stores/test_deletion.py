"""Deleting and expiring sessions: nothing of them is left, nothing else is lost, and nobody brings them back."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

import foveal
from foveal.recall.search import search, search_store
from foveal.recall.search.earlier import Moment, search_earlier
from foveal.stores import Store, deletion, open_store, unnamed_artifacts
from foveal.stores.artifacts import artifacts_folder
from foveal.stores.database import Database
from foveal.stores.deletion import delete_expired, delete_sessions, expired
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Draft, SessionCard, Tombstone
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.doctor import examine, salvage
from foveal.stores.sqlite.index import index_file
from foveal.stores.unnamed_artifacts import GRACE_MS, vacuum_store
from foveal.values.codec import encode
from foveal.values.entry import Message, ToolResult
from foveal.values.errors import NotFound, SessionHeld, StoreBusy, StoreUnavailable

LARGE = "a line that two sessions saw\n" * 12_000
REMEMBERS = foveal.Policy(memory="x")


def speak(store: Store, name: str, word: str, large: str = "") -> None:
    """A session that says a word, has a snapshot, and perhaps a large result."""
    with foveal.Session(store, name, model="gpt-5") as session:
        session.append(foveal.user(f"{word} " * 700))
        if large:
            session.append(foveal.assistant("", foveal.ToolCall("call", "run", "{}")))
            session.append(foveal.result("call", large))
        session.prompt()
        session._journal.snapshot_soon()
        session.append(foveal.assistant(word))


def files_with(folder: Path, word: bytes) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()]


def test_no_byte_of_a_deleted_session_is_left(path: Path) -> None:
    """Log, snapshot, artifacts and search index: no file of the store holds the word that only this session knew."""
    with SqliteStore(path) as store:
        speak(store, "stays", "harmless")
        speak(store, "goes", "CANARY", "CANARY result\n" * 30_000)
        speak(store, "goes/child", "CANARY")
        search(store, "goes", "CANARY")
        assert files_with(path.parent, b"CANARY")
        done = delete_sessions(store, ["goes"])
        assert (set(done.sessions), done.artifacts) == ({"goes", "goes/child"}, 1)
        assert files_with(path.parent, b"CANARY") == []
        assert [card.id for card in store.cards()] == ["stays"]
    assert files_with(path.parent, b"CANARY") == []
    assert examine(path).damage == ()


def test_a_session_that_was_deleted_before_is_said_to_be_so(path: Path) -> None:
    """Whoever was interrupted within a deletion asks for it again, and is told how what was left of it goes."""
    with SqliteStore(path) as store:
        speak(store, "goes", "CANARY")
        store.delete(["goes"])
        with pytest.raises(NotFound, match="deleted before; if that was interrupted, `foveal store vacuum`"):
            delete_sessions(store, ["goes"])
        for never in ("never", "\ud800"):
            with pytest.raises(NotFound, match=r"nothing was deleted$"):
                delete_sessions(store, [never])


def test_a_process_killed_after_a_deletion_leaves_a_whole_store(path: Path) -> None:
    """The WAL that a deletion empties is not mistaken for a lost one."""
    code = (
        "import os, signal, sys, foveal; from foveal.stores.deletion import delete_sessions;"
        "store = foveal.open_store(sys.argv[1]); writer = store.acquire('s'); writer.release();"
        "delete_sessions(store, ['s']); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=False)
    with SqliteStore(path) as store:
        assert (store.cards(), len(store.tombstones())) == ([], 1)


def test_an_artifact_that_another_session_names_stays(path: Path) -> None:
    """It goes with the last session that names it."""
    with SqliteStore(path) as store:
        speak(store, "one", "a", LARGE)
        speak(store, "two", "b", LARGE)
        assert delete_sessions(store, ["one"]).artifacts == 0
        assert examine(path).damage == ()
        assert delete_sessions(store, ["two"]).artifacts == 1


def test_a_deleted_session_is_not_salvaged(path: Path) -> None:
    """Not even if rows of it were left in the file; and its tombstone is kept."""
    with SqliteStore(path) as store:
        speak(store, "stays", "a")
        speak(store, "goes", "b")
        delete_sessions(store, ["goes"])
        kept = store.tombstones()
    db = apsw.Connection(str(path))
    db.execute(
        "INSERT INTO entries (place, id, time_ms, author, hash, payload) VALUES (?, 'x', 1, 'me', x'00', x'00')",
        ((2 << 32) + 1,),
    )
    db.close()
    target = path.with_name("salvaged.db")
    report = salvage(path, target)
    assert report.names == ("stays",)
    with SqliteStore(target) as store:
        assert store.tombstones() == kept
    assert examine(target).damage == ()


def test_a_session_that_is_missing_without_a_tombstone_is_damage(path: Path) -> None:
    """Every session that was ever made is there, or has a proof of its deletion."""
    with SqliteStore(path) as store:
        speak(store, "one", "a")
        speak(store, "two", "b")
        store._commits.run(_forget_the_second)
        assert "session two is missing" in str(refusal(store, "two"))
    (damage, *_) = [damage for damage in examine(path).damage if "neither" in damage.what]
    assert "1 sessions are neither there nor deleted" in damage.what


def _forget_the_second(db: Database) -> None:
    for trigger in ("entries_never_go", "sessions_never_go"):
        db.execute(f"DROP TRIGGER {trigger}")
    db.execute("DELETE FROM entries WHERE session = 2")
    db.execute("DELETE FROM snapshots WHERE session = 2")
    db.execute("DELETE FROM sessions WHERE key = 2")


def refusal(store: SqliteStore, name: str) -> BaseException:
    with pytest.raises(foveal.errors.StoreCorrupt) as refused:
        store.acquire(name)
    return refused.value


def test_unknown_and_held_sessions_are_not_deleted(path: Path) -> None:
    """A mistyped name deletes nothing of the others, and a living writer must be asked first."""
    with SqliteStore(path) as store:
        speak(store, "one", "a")
        with pytest.raises(NotFound, match="nothing was deleted"):
            delete_sessions(store, ["one", "on"])
        with foveal.Session(store, "one", model="gpt-5") as session:
            with pytest.raises(SessionHeld, match="takeover"):
                delete_sessions(store, ["one"])
            delete_sessions(store, ["one"], takeover=True)
            with pytest.raises(foveal.errors.LeaseLost, match="deleted"):
                session.append(foveal.user("too late"))


def test_sessions_expire_with_their_last_entry() -> None:
    """Those that were last written before a moment; a parent stays as long as a child of it does."""
    store = foveal.open_store()
    for name in ("old", "parent", "new", "parent/child"):
        speak(store, name, name)
    moments = {card.id: card.updated_ms for card in store.cards()}
    assert [card.id for card in expired(store, max(moments.values()) + 1)] == [card.id for card in store.cards()]
    store._logs["old"].updated_ms = store._logs["parent"].updated_ms = 5  # type: ignore[attr-defined]
    assert [card.id for card in expired(store, 6)] == ["old"]
    assert expired(store, 5) == []


class _Meanwhile(MemoryStore):
    """A store in which something happens between the look at sessions and the first try to delete them."""

    def __init__(self) -> None:
        super().__init__()
        self.happens: Callable[[], object] | None = None

    def delete(
        self, sessions: Sequence[str], *, takeover: bool = False, seen: Mapping[str, int] | None = None
    ) -> list[Tombstone]:
        happens, self.happens = self.happens, None
        if happens:
            happens()
        return super().delete(sessions, takeover=takeover, seen=seen)


def aged(store: SqliteStore) -> None:
    """Let all artifacts be two days old."""
    for name in store.artifacts.names():
        then_s = time.time() - 2 * GRACE_MS / 1000
        os.utime(store.artifacts._place(name), (then_s, then_s))


def test_an_artifact_that_was_put_again_stays_for_the_session_that_is_about_to_name_it() -> None:
    """It was put after the deleted session was last written, so it is for somebody else; the outcome tells that it is left."""
    with MemoryStore() as store:
        speak(store, "first", "a", LARGE)
        store.backdate("first", created_ms=1, updated_ms=2)  # long ago
        stored = foveal.keep_stream(store, [LARGE.encode()])
        done = delete_sessions(store, ["first"])
        assert (done.artifacts, done.put_again) == (0, 1)
        with foveal.Session(store, "second", model="gpt-5") as session:
            session.append(foveal.assistant("", foveal.ToolCall("call", "run", "{}")))
            entry = session.append(foveal.result("call", stored))
            assert session.recall(entry.id) == LARGE


def test_vacuum_removes_artifacts_that_nobody_names_after_a_day(path: Path) -> None:
    """Whatever left them: one that is younger stays, since its entry may be about to come, and so does one that is named."""
    with SqliteStore(path) as store:
        speak(store, "stays", "a", LARGE)
        foveal.keep_stream(store, [b"nobody names this"])
        assert vacuum_store(store).removed == 0
        aged(store)
        foveal.keep_stream(store, [b"a moment ago"])
        assert (vacuum_store(store).removed, len(store.artifacts.names())) == (1, 2)
        assert examine(path).damage == ()


def test_the_large_result_of_a_writer_whose_session_was_deleted_goes_with_vacuum(path: Path) -> None:
    """It is put before the append is refused, and named by nobody."""
    with SqliteStore(path) as store:
        with foveal.Session(store, "chat", model="gpt-5") as session:
            session.append(foveal.assistant("", foveal.ToolCall("call", "run", "{}")))
            delete_sessions(store, ["chat"], takeover=True)
            with pytest.raises(foveal.errors.LeaseLost):
                session.append(foveal.result("call", LARGE))
        aged(store)
        assert vacuum_store(store).removed == 1
        assert store.artifacts.names() == []


def test_artifacts_go_although_the_file_could_not_be_written_anew(path: Path) -> None:
    """The deletion is committed then: its artifacts are removed first, and the error is told after it."""
    with SqliteStore(path) as store, SqliteStore(path, busy_timeout_s=0.0) as other:
        speak(store, "goes", "a", LARGE)
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sessions").fetchall()
        with pytest.raises(StoreBusy, match="what was deleted cannot be read any more"):
            delete_sessions(other, ["goes"])
        reader.close()
        assert (store.cards(), store.artifacts.names()) == ([], [])


def _damaged(path: Path) -> None:
    """A store with a session whose second entry is damaged, and one with an artifact."""
    with SqliteStore(path) as store:
        speak(store, "whole", "a", LARGE)
        texts = (b"=first", b"=the second of three", b"=third")
        store.acquire("damaged").append([Draft(f"e{n}", None, 1, "me", text) for n, text in enumerate(texts)])
    path.write_bytes(path.read_bytes().replace(b"=the second", b"=The second"))


def test_artifacts_stay_while_a_session_that_may_name_them_cannot_be_read(path: Path) -> None:
    """The deletion is made, tells of it, and the artifact goes when the damaged session is gone."""
    _damaged(path)
    with SqliteStore(path) as store:
        done = delete_sessions(store, ["whole"])
        assert (done.sessions, done.artifacts, len(store.artifacts.names())) == (("whole",), 0, 1)
        assert "'damaged' cannot be read" in done.left[0]
        aged(store)
        assert vacuum_store(store).left
        delete_sessions(store, ["damaged"])
        assert (vacuum_store(store).removed, store.artifacts.names()) == (1, [])


def test_a_damaged_session_can_be_deleted(path: Path) -> None:
    """Which artifacts its damaged entries named is not known: the outcome says so, and how they go."""
    _damaged(path)
    with SqliteStore(path) as store:
        done = delete_sessions(store, ["damaged"])
        assert done.sessions == ("damaged",)
        assert "which ones it named is not known" in done.left[0]
        assert [card.id for card in store.cards()] == ["whole"]
    assert examine(path).damage == ()


def test_a_deletion_that_another_one_overtakes_comes_to_its_end() -> None:
    """A session that is gone when its log is to be read names nothing."""

    class Overtaken(MemoryStore):
        def rows(self, session: str, *, after: int = 0, upto: int | None = None):  # type: ignore[override]
            if session == "two" and self.cards("two"):
                super().delete(["two"])
            return super().rows(session, after=after, upto=upto)

    with Overtaken() as store:
        speak(store, "one", "a", LARGE)
        store.acquire("two").append([Draft("e", None, 1, "me", b"=x")])
        store.acquire("two", takeover=True).release()
        assert (delete_sessions(store, ["one"]).artifacts, store.cards()) == (1, [])


def test_entries_and_children_that_come_during_a_deletion_go_with_it() -> None:
    """The store sees that the session is another one than was looked at; so nothing of it is left, artifacts included."""
    with _Meanwhile() as store:
        speak(store, "chat", "a")

        def write() -> None:
            with foveal.Session(store, "chat", model="gpt-5") as session:
                session.append(foveal.assistant("", foveal.ToolCall("late", "run", "{}")))
                session.append(foveal.result("late", LARGE))
            speak(store, "chat/child", "b")

        store.happens = write
        done = delete_sessions(store, ["chat"])
        assert (set(done.sessions), done.artifacts, done.left) == ({"chat", "chat/child"}, 1, ())
        assert (store.cards(), store.artifacts.names()) == ([], [])


def test_an_artifact_that_cannot_be_removed_is_told_and_goes_with_vacuum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion of the session is made and returns: the bucket that refuses is named in the outcome."""

    def denied(_sha256: str, *, unless_put_after_ms: int) -> bool:
        raise StoreUnavailable(f"the bucket refuses ({unless_put_after_ms})")

    with MemoryStore() as store:
        speak(store, "goes", "a", LARGE)
        monkeypatch.setattr(store.artifacts, "delete", denied)
        done = delete_sessions(store, ["goes"])
        assert (len(done.tombstones), done.artifacts) == (1, 0)
        assert "the bucket refuses" in done.left[0]
        monkeypatch.undo()
        store.artifacts._put_ms = dict.fromkeys(store.artifacts.names(), 1)
        assert vacuum_store(store).removed == 1


def test_a_session_that_goes_on_after_it_was_listed_does_not_expire() -> None:
    """It has new entries and a new child: both stay, and the others expire."""
    with _Meanwhile() as store:
        for name in ("old", "other"):
            speak(store, name, name)
            store.backdate(name, created_ms=1, updated_ms=1)
        store.happens = lambda: (speak(store, "old", "again"), speak(store, "old/child", "new"))
        assert delete_expired(store, 1_000).sessions == ("other",)
        assert {card.id for card in store.cards()} == {"old", "old/child"}


def test_a_session_that_is_opened_after_it_was_listed_stops_no_other_from_expiring() -> None:
    """It is left with its parents, and the outcome says so."""
    with _Meanwhile() as store:
        for name in ("one", "two", "two/child"):
            speak(store, name, name)
            store.backdate(name, created_ms=1, updated_ms=1)
        store.happens = lambda: store.acquire("two/child")
        done = delete_expired(store, 1_000)
        assert (done.sessions, done.left) == (("one",), ("session two/child was left, because it is in use",))
        assert {card.id for card in store.cards()} == {"two", "two/child"}


def test_a_session_whose_process_was_killed_expires(path: Path) -> None:
    """Its record still names the process as its writer, which its card does not: nobody holds the session."""
    code = (
        "import os, signal, sys, foveal; store = foveal.open_store(sys.argv[1]);"
        "foveal.Session(store, 'crashed', model='gpt-5').append(foveal.user('x')); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=False)
    with SqliteStore(path) as store:
        assert store.cards()[0].holder is None
        assert delete_expired(store, store.cards()[0].updated_ms + 1).sessions == ("crashed",)


def test_finding_children_and_expired_sessions_takes_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of 2,000 sessions are compared with sets and not with each other: each is taken apart once."""
    with MemoryStore() as store:
        for number in range(1_000):
            for name in (f"s{number}", f"s{number}/child"):
                store.acquire(name).release()
        taken = list[str]()
        monkeypatch.setattr(deletion, "parents_of", lambda name: taken.append(name) or iter(()))
        deletion.with_children(store, [f"s{number}" for number in range(500)])
        expired(store, 1)
        assert 0 < len(taken) <= 4_000


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_session_that_is_deleted_while_it_is_read_is_no_damage(path: Path, *, is_made_again: bool) -> None:
    """The reader is told that it is gone, also if another session has its name by then."""
    rows = [Draft(f"e{number}", None, 1, "me", b"=" + b"x" * 4_000) for number in range(1_000)]
    with SqliteStore(path) as store, SqliteStore(path) as other:
        for handle in (store, other):
            handle.cards()
        writer = store.acquire("chat")
        writer.append(rows)
        writer.release()
        reading = store.rows("chat")
        next(reading)
        other.delete(["chat"])
        if is_made_again:
            other.acquire("chat").append(rows[:1])
        with pytest.raises(NotFound, match="deleted while it was read"):
            list(reading)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_an_artifact_that_was_put_again_stays_although_the_deleted_session_went_on(path: Path, kind: str) -> None:
    """What the session wrote after it had named the artifact says nothing of the put of somebody else in between."""
    with SqliteStore(path) if kind == "file" else MemoryStore() as store:
        stored = foveal.keep_stream(store, [LARGE.encode()])
        writer = store.acquire("first")
        writer.append([Draft("e1", None, 1, "me", encode(Message("tool", (ToolResult("call", (stored,)),))))])
        foveal.keep_stream(store, [LARGE.encode()])  # by the session that is about to name it
        writer.append([Draft("e2", "e1", time.time_ns() // 1_000_000 + 60_000, "me", encode(foveal.user("goes on")))])
        writer.release()
        done = delete_sessions(store, ["first"])
        assert (done.artifacts, done.put_again) == (0, 1)
        assert len(b"".join(store.artifacts.read(stored.sha256))) == len(LARGE)


def spoken_and_searched(store: Store) -> None:
    """Two sessions of a scope, and a word of one of them in the indexes of the session, of the scope and of all."""
    for name, word in (("stays", "harmless"), ("goes", "zebrafish")):
        with foveal.Session(store, name, model="gpt-5", policy=REMEMBERS) as session:
            session.append(foveal.user(f"{word} is said"))
    assert search(store, "goes", "zebrafish")
    assert search_earlier(store, Moment("x", "stays", 1 << 50), "zebrafish")
    assert search_store(store, "zebrafish")


def refuse(monkeypatch: pytest.MonkeyPatch, verb: str, *, suffix: str) -> None:
    """Let a verb of paths be refused below a folder, as to a user who has no right to change it."""
    allowed = getattr(Path, verb)

    def refused(place: Path, *given: object, **options: object) -> object:
        if place.parent.name.endswith(suffix):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
        return allowed(place, *given, **options)

    monkeypatch.setattr(Path, verb, refused)


def test_a_deletion_that_may_not_remove_an_index_empties_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder cannot be changed, and the files in it can: no word is left, and the others find theirs again."""
    with SqliteStore(path) as store:
        spoken_and_searched(store)
        refuse(monkeypatch, "unlink", suffix=".index")
        done = delete_sessions(store, ["goes"])
        assert (done.sessions, len(done.tombstones), done.left) == (("goes",), 1, ())
        assert files_with(path.parent, b"zebrafish") == []
        monkeypatch.undo()
        assert search(store, "stays", "harmless")
        assert search_store(store, "harmless")
        assert search_earlier(store, Moment("x", "me", 1 << 50), "harmless")


def test_a_deletion_tells_of_an_index_that_it_cannot_remove(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Session, artifacts and bytes of the log are gone; the outcome names what is left, and `vacuum` removes it later."""
    with SqliteStore(path) as store:
        speak(store, "large", "a", LARGE)
        spoken_and_searched(store)
        refuse(monkeypatch, "unlink", suffix=".index")
        refuse(monkeypatch, "open", suffix=".index")
        done = delete_sessions(store, ["goes", "large"])
        assert (set(done.sessions), len(done.tombstones), done.artifacts) == ({"goes", "large"}, 2, 1)
        (told,) = done.left
        assert "may be in" in told
        assert "Permission denied" in told
        assert f"foveal store vacuum {path}" in told
        assert b"zebrafish" not in path.read_bytes()
        assert "Permission denied" in vacuum_store(store).left[0]
        monkeypatch.undo()
        assert files_with(path.parent, b"zebrafish")
        vacuum_store(store)
        assert files_with(path.parent, b"zebrafish") == []


def test_a_file_in_the_place_of_the_folder_of_indexes_stops_no_deletion(path: Path) -> None:
    """There is no index then, of which something could be left."""
    with SqliteStore(path) as store:
        speak(store, "goes", "a")
        path.with_name(path.name + ".index").write_text("not ours")
        assert delete_sessions(store, ["goes"]).left == ()
        vacuum_store(store)
    assert path.with_name(path.name + ".index").read_text() == "not ours"


def test_words_that_a_killed_deletion_left_in_indexes_go_with_vacuum(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the session, of its scope and of all; the index of a session that is there stays as it is."""
    with SqliteStore(path) as store:
        spoken_and_searched(store)
        assert search(store, "stays", "harmless")
        with monkeypatch.context() as patch:
            patch.setattr("foveal.stores.sqlite.store.remove_indexes", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.delete(["goes"])
        kept = index_file(path, "stays").stat().st_ino
        store.vacuum()
        assert files_with(path.parent, b"zebrafish") == []
        assert index_file(path, "stays").stat().st_ino == kept
        assert search_store(store, "harmless")


def test_a_place_of_artifacts_that_cannot_be_listed_stops_no_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the session are removed by their names; what others have left stays, and the outcome says so."""

    def away() -> list[str]:
        raise StoreUnavailable("the bucket does not answer. Nothing was changed: read it again")

    with MemoryStore() as store:
        speak(store, "goes", "a", LARGE)
        monkeypatch.setattr(store.artifacts, "names", away)
        done = delete_sessions(store, ["goes"])
        assert (done.sessions, len(done.tombstones), done.artifacts) == (("goes",), 1, 1)
        assert "the bucket does not answer" in done.left[0]
        assert "foveal store vacuum" in done.left[0]


def test_a_store_that_goes_away_behind_a_deletion_is_told_with_the_proof_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which artifacts the others name cannot be read then: they stay, and the outcome has the tombstones."""
    with MemoryStore() as store:
        speak(store, "goes", "a", LARGE)
        delete = store.delete

        def delete_and_go(*given: object, **options: object) -> list[Tombstone]:
            gone = delete(*given, **options)  # type: ignore[arg-type]
            monkeypatch.setattr(store, "cards", away)
            return gone

        def away(_session: str | None = None) -> list[SessionCard]:
            raise StoreUnavailable("the database does not answer")

        monkeypatch.setattr(store, "delete", delete_and_go)
        done = delete_sessions(store, ["goes"])
        assert (done.sessions, len(done.tombstones), done.artifacts) == (("goes",), 1, 0)
        assert "the database does not answer" in done.left[0]


def test_the_size_of_a_store_is_told_while_its_files_come_and_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is listed and gone by the time it is measured counts nothing."""
    with SqliteStore(path) as store:
        names = [store.artifacts.put([data]).sha256 for data in (b"stays", b"goes")]
        stat = Path.stat

        def late(place: Path, **options: bool) -> os.stat_result:
            if place.name == names[1]:
                place.unlink(missing_ok=True)
            return stat(place, **options)

        monkeypatch.setattr(Path, "stat", late)
        assert store.stats().sizes["artifacts"] == len(b"stays")


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_an_artifact_stays_that_an_open_session_had_put_before_the_deleted_one(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deleted session put it again and named it: whose the first put was cannot be told, so that it stays for a day."""
    with SqliteStore(path) if kind == "file" else MemoryStore() as store:
        with foveal.Session(store, "second", model="gpt-5") as session:
            session.append(foveal.assistant("", foveal.ToolCall("call", "run", "{}")))
            stored = foveal.keep_stream(store, [LARGE.encode()])
            speak(store, "first", "a", LARGE)
            done = delete_sessions(store, ["first"])
            assert (done.artifacts, done.put_again) == (0, 1)
            entry = session.append(foveal.result("call", stored))
            assert session.recall(entry.id) == LARGE
        speak(store, "third", "a", "another line\n" * 30_000)
        with foveal.Session(store, "second", model="gpt-5"):
            monkeypatch.setattr(unnamed_artifacts, "SETTLING_MS", -1_000)  # it was put long before
            assert delete_sessions(store, ["third"]).artifacts == 1


def test_files_of_others_among_the_artifacts_stop_no_deletion(path: Path) -> None:
    """A file manager, or a file server, leaves files there whose names are no hashes: they stay, and are no artifacts."""
    with SqliteStore(path) as store:
        speak(store, "goes", "a", LARGE)
        (name,) = store.artifacts.names()
        strangers = [store.artifacts._place(name).with_name(other) for other in (".DS_Store", ".nfs0000a1", "README")]
        for stranger in strangers:
            stranger.write_bytes(b"not ours")
        assert delete_sessions(store, ["goes"]).artifacts == 1
        assert vacuum_store(store).left == ()
        assert all(stranger.exists() for stranger in strangers)
    assert examine(path).damage == ()


STREAMS = """
import sys
from foveal.stores import open_store
def result():
    yield b"CANARY " * 4000
    print("writing", flush=True)
    sys.stdin.readline()
store = open_store(sys.argv[1])
print(store.artifacts.put(result()).size_bytes)
"""
"""A process that keeps a result as it comes, until it hears a line."""


@pytest.mark.parametrize("tenant", [None, "acme"])
@pytest.mark.parametrize("lines", [0, 30_000])
def test_no_byte_is_left_of_a_result_whose_process_was_killed(
    path: Path, child: Callable[..., Any], lines: int, tenant: str | None
) -> None:
    """Whether the session has artifacts or not, and for whomever the store is open; what living processes write stays."""
    with open_store(path, tenant=tenant) as store:
        killed, living = child(STREAMS, path), child(STREAMS, path)
        assert (killed.hear(), living.hear()) == ("writing", "writing")
        killed.process.kill()
        killed.process.wait()
        speak(store, "goes", "CANARY", "CANARY result\n" * lines)
        assert len(files_with(artifacts_folder(path), b"CANARY")) == 2 + bool(lines)
        assert delete_sessions(store, ["goes"]).left == ()
        (left,) = files_with(path.parent, b"CANARY")
        assert f"tmp-{living.process.pid}-" in left
        living.tell()
        assert living.hear() == "28000"


def test_a_file_of_a_killed_process_that_cannot_be_removed_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is deleted, and the outcome says that bytes of it may be left, and where."""
    with SqliteStore(path) as store:
        speak(store, "goes", "a", LARGE)
        stray = artifacts_folder(path) / "tmp-1-a"
        stray.write_bytes(b"half")
        real = Path.unlink

        def refuse(file: Path, missing_ok: bool = False) -> None:
            if file == stray:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
            real(file, missing_ok=missing_ok)

        monkeypatch.setattr(Path, "unlink", refuse)
        done = delete_sessions(store, ["goes"])
        assert (done.sessions, done.artifacts, len(done.left)) == (("goes",), 1, 1)
        assert str(stray) in done.left[0]
        assert "vacuum" in done.left[0]


class _Unlisted(MemoryStore):
    """A store whose sessions nobody may list, as if there were too many."""

    def cards(self, session: str | None = None) -> list[SessionCard]:
        assert session is not None
        return super().cards(session)


def test_a_deletion_looks_at_its_own_sessions_alone() -> None:
    """Without artifacts, a deletion costs what it deletes, however many sessions the store has; a name that only begins alike is
    of no child."""
    store = _Unlisted()
    for name in ("a", "a/b", "a/b/c", "ab", "b", "b/a"):
        store.acquire(name).release()
    assert sorted(delete_sessions(store, ["a/b", "a"]).sessions) == ["a", "a/b", "a/b/c"]
    assert [card.id for card in store.page()] == ["ab", "b", "b/a"]
    with pytest.raises(NotFound, match="It was deleted before"):
        delete_sessions(store, ["b", "a"])
