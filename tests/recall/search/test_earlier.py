"""The index of a scope: made once, in bounded steps, and never of another scope."""

import time
from collections.abc import Iterator

import pytest

from foveal.recall.search import Moment, find_earlier, newest_statements, related_texts, search_earlier
from foveal.recall.search import scope_index as scopes
from foveal.stores import open_store
from foveal.stores import rows as log
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Draft, Row, Store
from foveal.values.entry import ATTACHED, Message, assistant, user
from foveal.values.errors import NotFound

LATER = 10**9


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path) -> Iterator[Store]:
    with MemoryStore() if request.param == "memory" else open_store(tmp_path / "agent.db") as made:
        yield made


def said(store: Store, session: str, *messages: Message, scope: str | None = "ann", at: int = 1, author: str = "a"):
    writer = store.acquire(session, scope=scope)
    known = store.cards(session)[0]
    parent = known.head
    for number, message in enumerate(messages, known.entries + 1):
        entry = f"{session}-{number}"
        writer.append([Draft(entry, parent, at + number, author, log.encoded(message).payload)])
        parent = entry
    writer.release()


def rows_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """Return a list that gets each row which is read in order."""
    read, plain = list[Row](), store.rows

    def rows(*args, **options) -> Iterator[Row]:
        for row in plain(*args, **options):
            read.append(row)
            yield row

    monkeypatch.setattr(store, "rows", rows)
    return read


def found(store: Store, words: str, scope: str = "ann", session: str = "me", time_ms: int = LATER) -> list[str]:
    return [one.passage.text for one in find_earlier(store, Moment(scope, session, time_ms), words)]


def test_a_session_is_indexed_once(store, monkeypatch):
    """A second look reads no row of a log in order, and a third only those that were added."""
    said(store, "a", user("the door code is 4711"), assistant("noted"))
    said(store, "b", user("the harbour kitchen is closed"))
    read = rows_read(store, monkeypatch)
    assert found(store, "door code") == ["the door code is 4711"]
    assert len(read) == 3
    assert found(store, "harbour kitchen") == ["the harbour kitchen is closed"]
    assert len(read) == 3
    said(store, "a", user("the harbour kitchen opens at noon"), at=50)
    assert sorted(found(store, "harbour kitchen")) == [
        "the harbour kitchen is closed",
        "the harbour kitchen opens at noon",
    ]
    assert [row.id for row in read[3:]] == ["a-3"]


def test_one_look_reads_so_much_at_most_and_the_newest_first(store, monkeypatch):
    """An index that is made anew is complete after some looks, and no look waits for all of it."""
    for number in range(6):
        said(store, f"s{number}", user(f"the door code of house {number} is {number * 1111}"), at=number * 10)
    monkeypatch.setattr(scopes, "_LOOK_CHARACTERS", 1)
    read = rows_read(store, monkeypatch)
    newest = [one.session for one in newest_statements(store, Moment("ann", "me", LATER))]
    assert len(newest) == len(read) == 1
    for _ in range(6):
        newest = [one.session for one in newest_statements(store, Moment("ann", "me", LATER))]
    assert (newest, len(read)) == ([f"s{number}" for number in range(5, -1, -1)], 6)


def test_a_session_that_came_with_an_old_time_is_found(store):
    """One that was moved here, or put back from a backup, after the index was made: the next session that begins in the scope
    finds it, and so does whoever asks for words."""
    said(store, "a", user("the door code is 4711"))
    assert found(store, "door code") == ["the door code is 4711"]
    said(store, "old", user("the harbour kitchen is closed"))
    store.backdate("old", created_ms=1000, updated_ms=1000)
    moment = Moment("ann", "me", time.time_ns() // 1_000_000)
    assert [one.session for one in search_earlier(store, moment, "harbour")] == ["old"]
    said(store, "older", user("the garage is blue"))
    store.backdate("older", created_ms=1000, updated_ms=1000)
    assert "older" in [one.session for one in newest_statements(store, moment)]
    assert found(store, "garage blue") == ["the garage is blue"]


def test_a_clock_that_is_ahead_hides_no_other_session(store):
    """The index is complete up to the time of a look at most, so that sessions which are used later are looked at."""
    now_ms = time.time_ns() // 1_000_000
    said(store, "ahead", user("the door code is 4711"))
    store.backdate("ahead", created_ms=now_ms + 86_400_000, updated_ms=now_ms + 86_400_000)
    assert found(store, "door code", time_ms=now_ms) == ["the door code is 4711"]
    said(store, "a", user("the harbour kitchen is closed"))
    assert found(store, "harbour kitchen", time_ms=now_ms) == ["the harbour kitchen is closed"]


def test_a_turn_looks_only_at_sessions_that_were_used_since(store, monkeypatch):
    """However many there are: all of them are compared when a session begins, and not with each turn."""
    for number in range(3):
        said(store, f"s{number}", user(f"the door code of house {number} is {number * 1111}"))
    now_ms = time.time_ns() // 1_000_000
    monkeypatch.setattr(scopes, "_OVERLAP_MS", -86_400_000)  # as if a day had passed since
    compared, plain = list[str](), scopes._is_behind
    monkeypatch.setattr(scopes, "_is_behind", lambda *args: compared.append(args[2].id) or plain(*args))
    newest_statements(store, Moment("ann", "me", now_ms))
    assert set(compared) == {"s0", "s1", "s2"}
    compared.clear()
    assert len(found(store, "door code", time_ms=now_ms)) == 3
    assert compared == []


def test_only_words_of_people_and_models_up_to_the_moment_are_found(store):
    """Not of the session that looks, not of files, and not what was recorded later."""
    said(store, "a", user("the door code is 1"), at=10)
    said(store, "b", assistant("the door code is 2"), at=20)
    said(store, "later", user("the door code is 3"), at=100)
    said(store, "me", user("the door code is 4"), at=5)
    said(store, "file", user("the door code is 5"), at=5, author=ATTACHED)
    assert sorted(found(store, "door code", time_ms=50)) == ["the door code is 1", "the door code is 2"]
    assert [one.text for one in newest_statements(store, Moment("ann", "me", 50))] == ["the door code is 1"]
    assert sorted(found(store, "door code", session="a")) == [f"the door code is {n}" for n in (2, 3, 4)]


@pytest.mark.parametrize("look", [find_earlier, search_earlier])
def test_scopes_do_not_see_each_other(store, look):
    """Each has an index of its own, of its own sessions; a session without a scope is in none."""
    for scope, number in (("ann", 1), ("bob", 2), (None, 3)):
        said(store, f"of {scope}", user(f"the door code is {number}"), scope=scope)
    for scope, number in (("ann", 1), ("bob", 2)):
        assert [one.passage.text for one in look(store, Moment(scope, "me", LATER), "door code")] == [
            f"the door code is {number}"
        ]
    assert look(store, Moment("None", "me", LATER), "door code") == []


def test_a_session_that_is_deleted_during_a_look_is_passed_over(store, monkeypatch):
    """The look finds the others, and raises nothing."""
    said(store, "a", user("the door code is 1"))
    said(store, "b", user("the door code is 2"))
    assert len(found(store, "door code")) == 2
    plain = store.rows_at

    def rows_at(session, seqs):
        if session == "a":
            raise NotFound("there is no session 'a'")
        return plain(session, seqs)

    monkeypatch.setattr(store, "rows_at", rows_at)
    assert found(store, "door code") == ["the door code is 2"]
    assert [one.text for one in newest_statements(store, Moment("ann", "me", LATER))] == ["the door code is 2"]


def test_a_damaged_index_is_made_anew(store):
    """Like that of a session, it is never the truth."""
    said(store, "a", user("the door code is 4711"))
    assert found(store, "door code") == ["the door code is 4711"]
    with store.scope("ann").index().opened() as db:
        db.execute("UPDATE passages SET seq = 99")
    assert found(store, "door code") == ["the door code is 4711"]
    with store.scope("ann").index().opened() as db:
        db.execute("DROP TABLE sources")
    assert found(store, "door code") == ["the door code is 4711"]


def test_an_index_that_names_a_foreign_session_is_not_believed(store):
    """Nothing is read from a session of another scope, whatever the index says; it is made anew."""
    said(store, "a", user("the door code is 1"))
    said(store, "theirs", user("the door code is 2"), scope="bob")
    assert found(store, "door code") == ["the door code is 1"]
    with store.scope("ann").index().opened() as db:
        db.execute("UPDATE sources SET session = 'theirs'")
    for _ in range(2):
        assert found(store, "door code") == ["the door code is 1"]
        assert [one.session for one in newest_statements(store, Moment("ann", "me", LATER))] == ["a"]


def test_short_texts_are_related_by_the_same_measure():
    """Enough of the weight of the words, by their stems; nothing if nothing fits."""
    texts = ["Ann likes green tea", "The harbour kitchens open at seven", "Likes tea", "名字是安娜"]
    assert related_texts(texts, "When does the harbour kitchen open?") == [1]
    assert related_texts(texts, "Which moon is the largest one?") == []
    assert related_texts(texts, "名字") == [3]
