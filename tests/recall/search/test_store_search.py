"""Search over all sessions of a store."""

import shutil
import time
from base64 import b64encode
from pathlib import Path
from secrets import token_bytes
from typing import Any

import pytest

from foveal.recall.search import Moment, search_earlier, search_store
from foveal.session.session import Session
from foveal.stores import open_store
from foveal.stores.keys import LocalKeys
from foveal.stores.port import Store
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.backup import back_up
from foveal.values.entry import user
from foveal.values.errors import KeyMissing, StoreCorrupt, StoreError


def hits(store: Store, words: str) -> list[str]:
    return [hit.session for hit in search_store(store, words)]


def test_sessions_that_come_with_old_times_are_found(store, keep) -> None:
    """An index that was made before finds a session that was moved here, whose last use was long ago."""
    keep(store, user("something else"), session="today")
    assert hits(store, "something") == ["today"]
    keep(store, user("the walrus"), session="ancient")
    store.backdate("ancient", created_ms=1000, updated_ms=1000)
    assert hits(store, "walrus") == ["ancient"]


def test_a_clock_that_was_ahead_hides_nothing(store, keep) -> None:
    """Sessions that are used before the time of another one are found."""
    ahead = time.time_ns() // 1_000_000 + 86_400_000
    keep(store, user("from the future"), session="ahead")
    store.backdate("ahead", created_ms=ahead, updated_ms=ahead)
    assert hits(store, "future") == ["ahead"]
    keep(store, user("a gazelle"), session="now")
    assert hits(store, "gazelle") == ["now"]


def _say(store: Store, *texts: str) -> None:
    """Append messages under ids that no other run gives out."""
    with Session(store, "a", model="gpt-5") as session:
        session.extend([user(text) for text in texts])


@pytest.mark.parametrize("texts", [("an ocelot",), ("some words", "an ocelot")])
def test_a_session_that_goes_on_after_a_backup_was_put_back_is_found(tmp_path: Path, texts: tuple[str, ...]) -> None:
    """The index is of a log that is lost: of one as long as the new one, or of a shorter one."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    with SqliteStore(path) as store:
        _say(store, "first words")
    back_up(path, copy)
    with SqliteStore(path) as store:
        _say(store, "a lemur")
        assert hits(store, "lemur") == ["a"]
    shutil.copy(copy, path)
    with SqliteStore(path) as store:
        _say(store, *texts)
        assert hits(store, "ocelot") == ["a"]
        assert hits(store, "lemur") == []


def test_a_session_that_cannot_be_read_hides_no_other(store, keep, monkeypatch, caplog) -> None:
    """Its key is lost, or its log is damaged: that is told, and the others are found."""
    keep(store, user("the walrus"), session="good")
    keep(store, user("the walrus as well"), session="lost")
    whole = store.rows

    def rows(session: str, **options: Any) -> Any:
        if session == "lost":
            raise StoreCorrupt("session lost", "its key is not at hand", "memory")
        return whole(session, **options)

    monkeypatch.setattr(store, "rows", rows)
    assert hits(store, "walrus") == ["good"]
    assert "session lost cannot be searched" in caplog.text


def test_a_session_whose_key_is_missing_keeps_nobody_from_the_others(tmp_path: Path, keep) -> None:
    """The caller is told of it by the error, which names the key, or by a function; a search that leaves it out is whole."""
    lost, kept = (LocalKeys(b64encode(token_bytes(32)).decode(), "the file KEYS") for _ in range(2))
    with open_store(tmp_path / "a.db", keys=lost) as store:
        keep(store, user("the walrus is private"), session="lost")
    with open_store(tmp_path / "a.db", keys=kept) as store:
        keep(store, user("the walrus is known"), session="kept")
        with pytest.raises(KeyMissing, match=r"under the key [0-9a-f]{16}.*the file KEYS.*FOVEAL_KEYS"):
            search_store(store, "walrus")
        told = dict[str, StoreError]()
        found = search_store(store, "walrus", on_unreadable=told.__setitem__)
        assert ([hit.session for hit in found], list(told)) == (["kept"], ["lost"])
        assert [hit.session for hit in search_store(store, "walrus", sessions=["kept"])] == ["kept"]
    with open_store(tmp_path / "a.db") as store, pytest.raises(KeyMissing, match=r"is encrypted.*FOVEAL_KEYS"):
        search_store(store, "walrus")


def test_the_memory_of_a_scope_goes_on_beside_a_session_whose_key_is_missing(tmp_path: Path, keep) -> None:
    """What was said in the other sessions of the scope is found."""
    lost, kept = (LocalKeys(b64encode(token_bytes(32)).decode(), "KEYS") for _ in range(2))
    for keys, name in ((lost, "lost"), (kept, "kept")):
        with open_store(tmp_path / "a.db", keys=keys) as store:
            store.acquire(name, scope="x").release()
            keep(store, user(f"the walrus of {name}"), session=name)
    with open_store(tmp_path / "a.db", keys=kept) as store:
        found = search_earlier(store, Moment("x", "me", 1 << 50), "walrus")
        assert [passage.session for passage in found] == ["kept"]
