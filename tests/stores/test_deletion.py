"""Deleting and expiring sessions: nothing of them is left, nothing else is lost, and nobody brings them back."""

from pathlib import Path

import apsw
import pytest

import foveal
from foveal.recall.search import search
from foveal.stores import Store
from foveal.stores.database import Database
from foveal.stores.deletion import delete_sessions, expired
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.doctor import examine, salvage
from foveal.values.errors import NotFound, SessionHeld

LARGE = "a line that two sessions saw\n" * 12_000


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
