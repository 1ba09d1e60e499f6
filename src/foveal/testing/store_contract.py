"""The promises of `foveal.stores.port` as tests, for any store.

Subclass `StoreContract` in a test file and give it a factory; pytest does the rest:

    class TestMyStore(StoreContract):
        def make_store(self) -> Store:
            return MyStore(...)

A store that outlives its process also gives `reopen`, so that its durability is tested by opening it again. The other methods
that a subclass may give let the tests do to a store whatever happens to it in the field: two handles that fight, a holder that
sleeps through its lease, a connection that is lost before or after the commit, an acknowledged tail that goes missing.
"""

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from threading import Barrier

from foveal.stores.chain import link, seed
from foveal.stores.checks import NOTE_BYTES, TITLE_BYTES
from foveal.stores.database import Database, Raw
from foveal.stores.port import (
    BEFORE_SNAPSHOT,
    NEWEST_ROWS,
    OPENING_ROWS,
    Draft,
    KeptNote,
    Row,
    Snapshot,
    Store,
    Tombstone,
    Writer,
)
from foveal.values.errors import (
    BadEntry,
    BadInput,
    LeaseLost,
    NotFound,
    SessionChanged,
    SessionHeld,
    StoreError,
    StoreUnavailable,
    TailLost,
)


def draft(entry: str, payload: bytes = b"payload", *, parent: str | None = None, time_ms: int = 7) -> Draft:
    """Return a draft for tests; its author is always "somebody"."""
    return Draft(entry, parent, time_ms, "somebody", payload)


def drafts(count: int, *, prefix: str = "e", size_bytes: int = 20) -> list[Draft]:
    """Return that many drafts, each the child of the one before."""
    names = [f"{prefix}{number:05}" for number in range(count)]
    parents = [None, *names]
    return [draft(name, name.encode() * (size_bytes // 6 + 1), parent=parents[i]) for i, name in enumerate(names)]


@contextmanager
def refused(error: type[Exception], *words: str) -> Generator[None]:
    """Fail unless the block raises this error with these words in its message."""
    try:
        yield
    except error as raised:
        if missing := [word for word in words if word not in str(raised)]:
            raise AssertionError(f"{missing} is not in the message: {raised}") from raised
        return
    raise AssertionError(f"{error.__name__} was not raised")


class StoreContract:
    """The promises of a store as tests."""

    def make_store(self) -> Store:
        """Return a new, empty store."""
        raise NotImplementedError

    def reopen(self, store: Store) -> Store | None:
        """Return the same store, closed and opened again; None if it does not outlive its handle."""
        return None

    def second_handle(self, store: Store) -> Store:
        """Return another handle of the same store, as another process would have; the same one if a store has only one."""
        return store

    def lapse(self, store: Store) -> bool:
        """Let the lease of a handle end, as if its process slept on another machine; return False if a handle has no lease."""
        return False

    def cut(self, store: Store, name: str, *, is_after: bool) -> bool:
        """Let the connection over which this name is next sent, of an entry or a session, be lost before it arrives, or after
        its commit and before the answer; return False if a store has no connections."""
        return False

    def lose_tail(self, store: Store, session: str, entries: int) -> bool:
        """Let the log end after this many entries, as if a replica that was behind had taken over; return False if that cannot
        happen to the store."""
        return False

    # Appending and reading

    def test_rows_come_back_in_order_and_unchanged(self) -> None:
        """Appended rows are read back with places counted from 1, whatever the batches."""
        given = drafts(7)
        with self._opened() as store:
            writer = store.acquire("s")
            assert writer.append(given[:3]) == [1, 2, 3]
            assert writer.append(given[3:4]) == [4]
            assert writer.append(given[4:]) == [5, 6, 7]
            assert list(store.rows("s")) == _rows(given)

    def test_a_long_log_is_read_to_its_end(self) -> None:
        """Reading does not stop at the end of a batch that the store reads at a time."""
        given = drafts(1500)
        with self._opened() as store:
            store.acquire("s").append(given)
            assert list(store.rows("s")) == _rows(given)

    def test_a_range_of_rows_is_after_exclusive_and_upto_inclusive(self) -> None:
        """`after` and `upto` cut the log exactly, and values beyond its ends are no error."""
        given = drafts(9)
        with self._opened() as store:
            store.acquire("s").append(given)
            for after, upto in ((0, None), (3, None), (3, 5), (0, 0), (8, 9), (9, None), (50, 60), (-4, 2), (5, 3)):
                expected = [row for row in _rows(given) if after < row.seq and (upto is None or row.seq <= upto)]
                assert list(store.rows("s", after=after, upto=upto)) == expected

    def test_an_append_of_nothing_writes_nothing(self) -> None:
        """An append without drafts returns no places and writes no rows."""
        with self._opened() as store:
            assert store.acquire("s").append([]) == []
            assert list(store.rows("s")) == []

    def test_reading_while_appending_sees_a_prefix(self) -> None:
        """An iteration that was begun goes on undisturbed when the log grows."""
        with self._opened() as store:
            writer = store.acquire("s")
            writer.append(drafts(4))
            reading = store.rows("s")
            first = next(reading)
            writer.append(drafts(3, prefix="later"))
            assert [first, *reading][:4] == _rows(drafts(4))

    def test_sessions_do_not_see_each_other(self) -> None:
        """The same ids in two sessions are two logs."""
        with self._opened() as store:
            one, two = store.acquire("one"), store.acquire("two")
            one.append([draft("a", b"1")])
            two.append([draft("a", b"2"), draft("b", b"3")])
            assert [row.payload for row in store.rows("one")] == [b"1"]
            assert [row.payload for row in store.rows("two")] == [b"2", b"3"]
            assert store.rows_at("one", [2, -1, 1 << 32, (1 << 32) + 1]) == {}

    def test_payloads_may_hold_any_bytes(self) -> None:
        """NULs, invalid UTF-8, nothing at all and a megabyte come back as they were."""
        payloads = [b"", b"\0", b"\xed\xa0\x80", bytes(range(256)), b"\n\r\0'\";--", b"x" * (1 << 20)]
        with self._opened() as store:
            store.acquire("s").append([draft(f"e{i}", payload) for i, payload in enumerate(payloads)])
            assert [row.payload for row in store.rows("s")] == payloads

    def test_extreme_times_come_back(self) -> None:
        """The time is the caller's: before 1970, beyond 2038 and at the ends of 64 bits."""
        times = [0, -1, 1 << 41, (1 << 63) - 1, -(1 << 63)]
        with self._opened() as store:
            store.acquire("s").append([draft(f"e{i}", time_ms=time_ms) for i, time_ms in enumerate(times)])
            assert [row.time_ms for row in store.rows("s")] == times

    def test_names_may_be_in_any_script(self) -> None:
        """Ids, authors and session names are texts, not ASCII."""
        entry = Draft("é-😀", "ゼロ", 1, "نام\u200c", b"x")
        with self._opened() as store:
            store.acquire("sitzung-ß").append([entry])
            assert list(store.rows("sitzung-ß")) == _rows([entry])
            assert store.find("sitzung-ß", "é") == _rows([entry])

    def test_rows_at_gives_the_rows_at_these_places(self) -> None:
        """Places in any order, repeated or absent, in one go."""
        rows = _rows(drafts(40))
        with self._opened() as store:
            store.acquire("s").append(drafts(40))
            wanted = [40, 3, 3, 17, 0, 41, -2, 1 << 40]
            assert store.rows_at("s", wanted) == {3: rows[2], 17: rows[16], 40: rows[39]}
            assert store.rows_at("s", []) == {}

    def test_find_prefers_the_exact_id(self) -> None:
        """An id that is also the beginning of others is found alone."""
        with self._opened() as store:
            store.acquire("s").append([draft("abc"), draft("ab"), draft("abd"), draft("b")])
            assert [row.id for row in store.find("s", "ab")] == ["ab"]

    def test_find_gives_two_rows_for_an_ambiguous_prefix_and_none_for_an_unknown_one(self) -> None:
        """At most two are needed to see that a prefix is ambiguous."""
        with self._opened() as store:
            store.acquire("s").append([draft(name) for name in ("abc", "abd", "abe", "x%_y")])
            assert [row.id for row in store.find("s", "ab")] == ["abc", "abd"]
            assert [row.id for row in store.find("s", "abe")] == ["abe"]
            assert store.find("s", "zz") == store.find("s", "a%") == store.find("s", "\ud800") == []
            assert [row.id for row in store.find("s", "x%")] == ["x%_y"]

    def test_reading_an_unknown_session_is_not_found(self) -> None:
        """A mistyped name is an error and not an empty log."""
        with self._opened() as store:
            for name in ("nobody", "", "\ud800", "a\0b"):
                for read in (store.rows, store.snapshot):
                    with refused(NotFound):
                        read(name)
                with refused(NotFound):
                    store.rows_at(name, [1])
                with refused(NotFound):
                    store.find(name, "a")
                assert store.cards(name) == []

    # Refusals

    def test_a_retry_is_acknowledged_with_its_place(self) -> None:
        """The same id with the same payload is not written twice, even if it comes later and from another head."""
        given = drafts(3)
        with self._opened() as store:
            writer = store.acquire("s")
            writer.append(given)
            assert writer.append(given[1:2]) == [2]
            assert writer.append([Draft(d.id, "later", 99, "other", d.payload) for d in given]) == [1, 2, 3]
            assert list(store.rows("s")) == _rows(given)

    def test_a_retry_may_be_part_of_a_batch(self) -> None:
        """Known and new drafts in one append: the new ones are written, all get their place."""
        given = drafts(5)
        with self._opened() as store:
            writer = store.acquire("s")
            writer.append(given[:3])
            assert writer.append(given[1:]) == [2, 3, 4, 5]
            assert writer.append([draft("twice"), draft("twice")]) == [6, 6]
            assert list(store.rows("s")) == _rows([*given, draft("twice")])

    def test_a_known_id_with_another_payload_refuses_the_whole_append(self) -> None:
        """A conflict is the caller's mistake, and half of an append would be a worse one."""
        with self._opened() as store:
            writer = store.acquire("s")
            writer.append([draft("a", b"1")])
            with refused(BadEntry, "entry id a"):
                writer.append([draft("new"), draft("a", b"2"), draft("newer")], snapshot=b"never")
            with refused(BadEntry):
                writer.append([draft("new", b"1"), draft("new", b"2")])
            assert [row.id for row in store.rows("s")] == ["a"]
            assert store.snapshot("s") is None
            assert writer.append([draft("b")]) == [2]

    def test_drafts_that_cannot_be_kept_unchanged_are_refused(self) -> None:
        """Ids, parents and authors are checked texts, times fit 64 bits and payloads are bytes; nothing is altered to fit."""
        bad_names = ("", "\ud800", "a\0b", "line\nbreak", "x" * 513, "é" * 257, 7)
        bad = [
            *(Draft(name, None, 1, "me", b"") for name in bad_names),  # pyright: ignore[reportArgumentType]
            *(Draft("e", name, 1, "me", b"") for name in bad_names),  # pyright: ignore[reportArgumentType]
            *(Draft("e", None, 1, name, b"") for name in bad_names),  # pyright: ignore[reportArgumentType]
            *(Draft("e", None, ms, "me", b"") for ms in (1 << 63, -(1 << 63) - 1, 1.5, None)),  # pyright: ignore[reportArgumentType]
            *(Draft("e", None, 1, "me", data) for data in ("text", None, bytearray(b"x"))),  # pyright: ignore[reportArgumentType]
        ]
        with self._opened() as store:
            writer = store.acquire("s")
            for item in bad:
                with refused(BadEntry):
                    writer.append([draft("good"), item])
            assert list(store.rows("s")) == []

    def test_session_names_are_checked(self) -> None:
        """A name that could not be found again is refused."""
        with self._opened() as store:
            for name in ("", "\ud800", "a\0b", "x" * 513):
                with refused(BadInput):
                    store.acquire(name)
            assert store.cards() == []

    # Acquiring

    def test_a_second_holder_is_refused_while_the_first_lives(self) -> None:
        """The error names the holder and the remedy."""
        with self._opened() as store:
            first = store.acquire("s")
            with refused(SessionHeld, "s", "pid", "since", "takeover=True"):
                store.acquire("s")
            assert first.append([draft("a")]) == [1]

    def test_a_released_session_can_be_held_again(self) -> None:
        """Each writer has a higher epoch than the one before; the released one can no longer append."""
        with self._opened() as store:
            first = store.acquire("s")
            first.append([draft("a")])
            first.release()
            with refused(LeaseLost):
                first.append([draft("b")])
            second = store.acquire("s")
            assert second.epoch > first.epoch
            assert second.append([draft("b")]) == [2]

    def test_a_writer_that_lost_its_session_is_fenced(self) -> None:
        """After a takeover the old writer cannot append, not even a row that is there already, and the new one can."""
        with self._opened() as store:
            old = store.acquire("s")
            old.append([draft("a")])
            new = store.acquire("s", takeover=True)
            for attempt in ([draft("b")], [draft("a")], []):
                with refused(LeaseLost, "s"):
                    old.append(attempt, snapshot=b"old")
            assert new.append([draft("c")]) == [2]
            assert [row.id for row in store.rows("s")] == ["a", "c"]
            assert store.snapshot("s") is None

    def test_releasing_twice_or_after_a_takeover_does_nothing(self) -> None:
        """A late release does not take the session from its new writer."""
        with self._opened() as store:
            old = store.acquire("s")
            new = store.acquire("s", takeover=True)
            old.release()
            old.release()
            with refused(SessionHeld):
                store.acquire("s")
            assert new.append([draft("a")]) == [1]
            new.release()
            new.release()

    def test_a_session_has_a_secret_from_its_beginning(self) -> None:
        """It is the given one or a random one, no two are alike, and neither another writer nor another wish changes it."""
        with self._opened() as store:
            store.acquire("given", secret=b"s" * 32).release()
            store.acquire("given", secret=b"t" * 32)
            store.acquire("old", secret=b"")
            store.acquire("one")
            store.acquire("two")
            assert (store.secret("given"), store.secret("old")) == (b"s" * 32, b"")
            assert len({store.secret("one"), store.secret("two")}) == 2
            assert len(store.secret("one")) >= 16
            with refused(NotFound):
                store.secret("nobody")
            with refused(BadInput, "16"):
                store.acquire("short", secret=b"x")

    # Opening

    def test_an_opening_has_everything_that_is_needed_to_go_on(self) -> None:
        """Writer, secret, snapshot and the rows after it are of the same moment, and the writer can append."""
        with self._opened() as store:
            new = store.load("s", secret=b"s" * 32)
            assert (new.secret, new.entries, new.snapshot, new.rows) == (b"s" * 32, 0, None, ())
            new.writer.append(drafts(5), snapshot=b"view")
            new.writer.append(drafts(3, prefix="later"))
            new.writer.release()
            again = store.load("s")
            assert (again.secret, again.entries, again.snapshot) == (b"s" * 32, 8, Snapshot(5, b"view"))
            assert again.rows == tuple(_rows([*drafts(5), *drafts(3, prefix="later")]))
            assert again.writer.append([draft("x")]) == [9]
            with refused(SessionHeld):
                store.load("s")
            assert store.load("s", takeover=True).entries == 9

    def test_an_opening_of_a_long_log_returns_its_end_alone(self) -> None:
        """Without a snapshot the newest rows; with one those since and a few before; never more than a fixed number."""
        with self._opened() as store:
            writer = store.acquire("s")
            writer.append(drafts(NEWEST_ROWS + 9))
            writer.release()
            opened = store.load("s")
            assert opened.rows == tuple(_rows(drafts(NEWEST_ROWS + 9))[9:])
            opened.writer.append([], snapshot=b"view")
            opened.writer.append(drafts(5, prefix="later"))
            opened.writer.release()
            again = store.load("s")
            assert [row.seq for row in again.rows] == list(range(NEWEST_ROWS + 10 - BEFORE_SNAPSHOT, NEWEST_ROWS + 15))
            last = drafts(OPENING_ROWS + 7, prefix="last")
            again.writer.append(last)
            again.writer.release()
            assert [row.id for row in store.load("s").rows] == [item.id for item in last[7:]]

    # Several handles

    def test_handles_that_acquire_at_the_same_moment_make_one_writer(self) -> None:
        """One of them gets a new session, or one that was released; all others are refused."""
        with self._opened() as store, _closed(self.second_handle(store), store) as other:
            for name in ("a", "b", "a", "c", "b", "a"):
                got: list[Writer] = []
                together = Barrier(6)

                def want(
                    number: str, session: str = name, got: list[Writer] = got, together: Barrier = together
                ) -> None:
                    together.wait()
                    with suppress(SessionHeld):
                        got.append((store if int(number[1:]) % 2 else other).acquire(session))

                _in_threads(6, want)
                assert len(got) == 1
                got[0].append([draft(f"{name}-{got[0].epoch}")])
                got[0].release()

    def test_handles_that_fight_for_a_session_lose_nothing(self) -> None:
        """Writers that take it from each other: whatever was acknowledged is at its place, once; no writer appends after its
        successor; and healthy data is never called damaged."""
        with self._opened() as store, _closed(self.second_handle(store), store) as other:
            acknowledged: dict[str, int] = {}

            def fight(name: str) -> None:
                handle, number = (store, other)[int(name[1:]) % 2], 0
                while number < 12:
                    try:
                        writer = handle.acquire("s", takeover=number % 3 != 1)
                        for _ in range(4):
                            entry = f"{writer.epoch:06}-{name}-{number}"
                            acknowledged[entry] = writer.append([draft(entry, entry.encode() * 50)], snapshot=b"view")[
                                0
                            ]
                            number += 1
                    except (LeaseLost, SessionHeld):
                        number += 1

            _in_threads(4, fight)
            found = {row.id: row.seq for row in store.rows("s")}
            assert acknowledged.items() <= found.items()
            assert sorted(found.values()) == list(range(1, len(found) + 1))
            epochs = [entry.split("-")[0] for entry in sorted(found, key=found.__getitem__)]
            assert epochs == sorted(epochs)

    def test_a_holder_that_slept_through_its_lease_is_fenced(self) -> None:
        """Another handle succeeds it without a takeover; when it wakes, its append is refused and nothing of it is written."""
        with self._opened() as store, _closed(self.second_handle(store), store) as other:
            sleeper = store.acquire("s")
            sleeper.append([draft("a")])
            if not self.lapse(store):
                return
            successor = other.acquire("s")
            for attempt in ([draft("late")], [draft("a")], []):
                with refused(LeaseLost, "s"):
                    sleeper.append(attempt, snapshot=b"late")
            assert successor.append([draft("b")]) == [2]
            assert [row.id for row in other.rows("s")] == ["a", "b"]
            assert other.snapshot("s") is None
            with refused(SessionHeld):
                store.acquire("s")

    def test_a_connection_that_is_lost_loses_and_doubles_nothing(self) -> None:
        """Lost before or after the commit: the append succeeds by itself or says that its outcome is unknown, and then the same
        entries can be given again; they are in the log once."""
        with self._opened() as store:
            writer = store.acquire("s")
            writer.append([draft("first")])
            for number, (is_after, times) in enumerate(((False, 1), (True, 1), (False, 3), (True, 3))):
                entry = f"cut-{number}-{is_after}"
                if not all(self.cut(store, entry, is_after=is_after) for _ in range(times)):
                    return
                given = [draft(entry), draft(f"{entry}-too")]
                for _ in range(20):
                    try:
                        assert writer.append(given, snapshot=entry.encode()) == [2 + 2 * number, 3 + 2 * number]
                        break
                    except StoreUnavailable:
                        continue
                assert store.snapshot("s") == Snapshot(3 + 2 * number, entry.encode())
            assert [row.seq for row in store.rows("s")] == list(range(1, 10))

    def test_an_answer_that_is_lost_leaves_no_session_behind(self) -> None:
        """A session that was made, acquired or deleted by a call whose answer was lost belongs to that call: it ends as if
        nothing had happened."""
        with self._opened() as store:
            for number, is_after in enumerate((True, False, True)):
                if not self.cut(store, "cut-session", is_after=is_after):
                    return
                writer = store.acquire("cut-session")
                assert writer.append([draft(f"e{number}")]) == [number + 1]
                with refused(SessionHeld):
                    store.acquire("cut-session")
                writer.release()
            store.cards()  # over a connection that is sound
            self.cut(store, "cut-session", is_after=True)
            (gone,) = store.delete(["cut-session"])
            assert (store.tombstones(), store.cards()) == ([gone], [])

    def test_a_lost_tail_is_told_to_its_writer(self) -> None:
        """The store went on without entries that it had acknowledged: the next append says how many, writes nothing and gives
        the session up, so that somebody can open it and see it as it is."""
        for lost_after in (3, 0):
            with self._opened() as store:
                name = f"s{lost_after}"
                writer = store.acquire(name)
                writer.append(drafts(3))
                writer.append(drafts(2, prefix="lost"))
                if not self.lose_tail(store, name, lost_after):
                    return
                with refused(TailLost, name, f"has {lost_after} entries", "5 were acknowledged"):
                    writer.append([draft("next")], snapshot=b"view")
                assert [row.id for row in store.rows(name)] == [d.id for d in drafts(3)][:lost_after]
                assert store.acquire(name).append([draft("next")]) == [lost_after + 1]

    # Labels

    def test_a_session_has_a_title_and_tags(self) -> None:
        """They are on its card, each tag once and in order, also while somebody writes it; nothing else of it changes."""
        with self._opened() as store:
            writer = store.acquire("s")
            writer.append(drafts(2))
            before = store.cards("s")[0]
            assert (before.title, before.tags) == (None, ())
            store.entitle("s", "Übung & <title>")
            assert store.tag("s", add=["b", "a", "b", "ü 2"]) == ("a", "b", "ü 2")
            assert store.tag("s", add=["c"], remove=["a", "unknown"]) == ("b", "c", "ü 2")
            (card,) = store.cards("s")
            assert (card.title, card.tags) == ("Übung & <title>", ("b", "c", "ü 2"))
            assert store.cards() == store.page() == [card]
            assert (card.updated_ms, card.entries) == (before.updated_ms, 2)
            assert writer.append([draft("next")]) == [3]
            store.entitle("s", None)
            assert store.tag("s", remove=["b", "c", "ü 2"]) == ()
            assert (store.cards("s")[0].title, store.cards("s")[0].tags) == (None, ())

    def test_sessions_are_listed_by_tag(self) -> None:
        """In the order of their names, in pages, with the prefix that is asked for; a tag is a whole word."""
        with self._opened() as store:
            for number, name in enumerate(("c", "a", "b", "ab")):
                store.acquire(name).release()
                store.tag(name, add=["all", *(["odd"] if number % 2 else [])])
            assert [card.id for card in store.page(tag="odd")] == ["a", "ab"]
            assert [card.id for card in store.page(tag="all", limit=2)] == ["a", "ab"]
            assert [card.id for card in store.page(tag="all", after="ab", limit=2)] == ["b", "c"]
            assert [card.id for card in store.page(tag="all", prefix="a", after="a")] == ["ab"]
            assert store.page(tag="al") == store.page(tag="ODD") == store.page(tag="\ud800") == []

    def test_labels_outlive_the_handle_and_go_with_their_session(self) -> None:
        """They are kept durably; a session of the same name that is made after a deletion has none."""
        store = self.make_store()
        store.acquire("s").release()
        store.acquire("other").release()
        store.entitle("s", "A title")
        store.tag("s", add=["x"])
        store.tag("other", add=["x"])
        store = self.reopen(store) or store
        with closing(store):
            (card,) = store.cards("s")
            assert (card.title, card.tags) == ("A title", ("x",))
            store.delete(["s"])
            store.acquire("s").release()
            assert (store.cards("s")[0].title, [card.id for card in store.page(tag="x")]) == (None, ["other"])

    def test_labels_that_cannot_be_kept_are_refused(self) -> None:
        """A title or tag that is empty, too long or has control characters, too many tags, a session that is not there."""
        with self._opened() as store:
            store.acquire("s").release()
            for bad in ("", "x" * 2_000, "a\nb", "\ud800"):
                with refused(BadInput, "title"):
                    store.entitle("s", bad)
                with refused(BadInput, "tag"):
                    store.tag("s", add=["fine", bad])
            with refused(BadInput, "64"):
                store.tag("s", add=[f"t{number}" for number in range(65)])
            assert (store.cards("s")[0].title, store.cards("s")[0].tags) == (None, ())
            for call in (lambda: store.entitle("nobody", "x"), lambda: store.tag("nobody", add=["x"])):
                with refused(NotFound):
                    call()

    def test_titles_and_notes_of_the_greatest_length_are_kept(self) -> None:
        """One byte more is refused. A store that encrypts them keeps as many as any other one."""
        with self._opened() as store:
            store.acquire("s", scope="x").release()
            title, note = "ü" * (TITLE_BYTES // 2), KeptNote("k", "n" * NOTE_BYTES, "s", "host", 1)
            store.entitle("s", title)
            store.scope("x").keep(note)
            for too_long in (
                lambda: store.entitle("s", title + "x"),
                lambda: store.scope("x").keep(KeptNote("l", "n" * (NOTE_BYTES + 1), "s", "host", 1)),
            ):
                with refused(BadInput):
                    too_long()
            assert (store.cards("s")[0].title, store.scope("x").notes()) == (title, [note])

    def test_the_index_of_all_sessions_is_emptied_by_a_deletion(self) -> None:
        """It is one database for all, kept between uses, and holds nothing any more when a session is deleted."""
        with self._opened() as store:
            store.acquire("s").release()
            store.acquire("t").release()
            with store.index_of_all().opened() as db:
                db.execute("CREATE TABLE kept (x)")
            with store.index_of_all().opened() as db:
                assert db.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(1,)]
            with store.index("s").opened() as db:
                assert db.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]
            store.delete(["s"])
            with store.index_of_all().opened() as db:
                assert db.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]

    # Moving and keeping house

    def test_a_session_can_have_its_old_times(self) -> None:
        """A session that was moved keeps when it was made and used; one that somebody writes does not change."""
        with self._opened() as store:
            writer = store.acquire("s")
            writer.append(drafts(2))
            with refused(SessionHeld):
                store.backdate("s", created_ms=5, updated_ms=7)
            writer.release()
            store.backdate("s", created_ms=5, updated_ms=7)
            assert [(card.created_ms, card.updated_ms) for card in store.cards()] == [(5, 7)]
            with refused(NotFound):
                store.backdate("nobody", created_ms=5, updated_ms=7)
            assert store.acquire("s").append([draft("x")]) == [3]

    def test_tombstones_of_another_store_are_adopted_once(self) -> None:
        """The proofs of deletion stay when sessions are moved, and a second run adds none."""
        with self._opened() as store:
            store.acquire("own").release()
            own = store.delete(["own"])
            others = [
                Tombstone(seed("x").hex(), 1, 2, 0, seed("x").hex()),
                Tombstone(seed("y").hex(), 3, 4, 9, "ab" * 32),
            ]
            store.adopt(others)
            store.adopt([*others, *own])
            assert store.tombstones() == [*others, *own]
            assert store.tombstones_of(["own", "nobody", "\ud800"]) == {"own": own}

    def test_keeping_house_changes_no_content(self) -> None:
        """The store counts itself, and gives space back while sessions are open."""
        with self._opened() as store:
            for name in "ab":
                store.acquire(name).append(drafts(4), snapshot=b"view")
            store.delete(["b"], takeover=True)
            store.artifacts.put([b"large"])
            store.vacuum()
            stats = store.stats()
            assert (stats.sessions, stats.held, stats.entries, stats.deleted) == (1, 1, 4, 1)
            assert sum(stats.sizes.values()) > 0
            assert list(store.rows("a")) == _rows(drafts(4))

    # Deleting

    def test_a_deleted_session_is_gone_and_leaves_a_tombstone(self) -> None:
        """Nothing of it can be read, its neighbours are untouched, and the tombstone says when and how much, by hashes alone."""
        with self._opened() as store:
            for name in "abc":
                writer = store.acquire(name)
                writer.append(drafts(3, prefix=name), snapshot=b"view")
                writer.release()
            chain = seed("b")
            for row in store.rows("b"):
                chain = link(chain, row)
            (tombstone,) = store.delete(["b"])
            assert store.tombstones() == [tombstone]
            assert (tombstone.seed, tombstone.chain, tombstone.entries) == (seed("b").hex(), chain.hex(), 3)
            assert tombstone.created_ms <= tombstone.deleted_ms
            assert {card.id for card in store.cards()} == {"a", "c"}
            with refused(NotFound):
                store.rows("b")
            assert [len(list(store.rows(name))) for name in "ac"] == [3, 3]

    def test_several_sessions_are_deleted_together_or_not_at_all(self) -> None:
        """An unknown name, or one that is held, refuses the whole deletion."""
        with self._opened() as store:
            for name in "abc":
                store.acquire(name).release()
            held = store.acquire("c")
            for names, error in ((["a", "nobody"], NotFound), (["a", "c"], SessionHeld)):
                with refused(error):
                    store.delete(names)
            assert len(store.cards()) == 3
            assert len(store.delete(["a", "c"], takeover=True)) == 2
            with refused(LeaseLost, "deleted"):
                held.append([draft("x")])

    def test_a_writer_of_a_deleted_session_cannot_write_its_successor(self) -> None:
        """A session of the same name that is made afterwards is another one: other log, other secret, other writer."""
        with self._opened() as store:
            old = store.acquire("s")
            old.append(drafts(2))
            secret = store.secret("s")
            store.delete(["s"], takeover=True)
            new = store.acquire("s")
            with refused(LeaseLost):
                old.append([draft("late")])
            old.release()
            assert new.append([draft("first")]) == [1]
            assert store.secret("s") != secret

    # Scopes

    def test_a_scope_lists_its_own_sessions_alone(self) -> None:
        """Most recently used first; sessions of other scopes and of none are not among them, whatever their names."""
        with closing(self.make_store()) as store:
            for name, scope in (("a", "x"), ("b", "y"), ("c", None), ("d", "x"), ("x", "X")):
                writer = store.acquire(name, scope=scope)
                writer.append(drafts(1, prefix=name))
                writer.release()
                time.sleep(0.002)
            assert [card.id for card in store.scope("x").sessions()] == ["d", "a"]
            assert {card.id: card.scope for card in store.cards()} == {
                "a": "x",
                "b": "y",
                "c": None,
                "d": "x",
                "x": "X",
            }
            used = store.cards("d")[0].updated_ms
            assert [card.id for card in store.scope("x").sessions(since_ms=used)] == ["d"]
            assert store.scope("x").sessions(since_ms=used + 1) == store.scope("unknown").sessions() == []

    def test_a_session_keeps_its_scope(self) -> None:
        """One that is in none can be given one, no opening takes it away, and another one is refused."""
        with closing(self.make_store()) as store:
            for scope, kept in ((None, None), ("x", "x"), (None, "x"), ("x", "x")):
                store.acquire("s", scope=scope).release()
                assert store.cards("s")[0].scope == kept
            with refused(BadInput, "x'", "y'"):
                store.acquire("s", scope="y", takeover=True)
            assert store.scope("y").sessions() == []
            for bad in ("", "a\nb", "x" * 600):
                with refused(BadInput, "scope"):
                    store.acquire("t", scope=bad)

    def test_notes_belong_to_their_scope(self) -> None:
        """They come back unchanged, the newest first, and a note takes the place of the one with its key, in its scope alone."""
        with closing(self.make_store()) as store:
            for name, scope in (("a", "x"), ("b", "y"), ("c", None)):
                store.acquire(name, scope=scope)
            one, two = KeptNote("k", "blue \u00fc", "a", "host", 5), KeptNote("l", "green", "a", "agent", 6)
            other = KeptNote("k", "not yours", "b", "host", 7)
            store.scope("x").keep(one)
            store.scope("x").keep(two)
            store.scope("y").keep(other)
            assert store.scope("x").notes() == [two, one]
            red = KeptNote("k", "red", "a", "host", 9)
            store.scope("x").keep(red)
            assert (store.scope("x").notes(), store.scope("y").notes()) == ([red, two], [other])
            for name in ("b", "c", "unknown"):
                with refused(NotFound, f"{name}'"):
                    store.scope("x").keep(KeptNote("k", "forged", name, "host", 9))
            for key, text in (("", "text"), ("k", " "), ("k", "t" * 9_000), ("k\n", "text"), ("k", "\ud800")):
                with refused(BadInput):
                    store.scope("x").keep(KeptNote(key, text, "a", "host", 1))
            assert store.scope("x").notes() == [red, two]

    def test_a_forgotten_note_is_gone_and_every_change_is_counted(self) -> None:
        """Forgetting says whether there was one; the number of changes grows with notes and with deletions."""
        with closing(self.make_store()) as store:
            scope, writer = store.scope("x"), store.acquire("a", scope="x")
            counts = [scope.changes()]
            scope.keep(KeptNote("k", "blue", "a", "host", 5))
            counts.append(scope.changes())
            assert (scope.forget("k"), scope.forget("k"), scope.notes()) == (True, False, [])
            counts.append(scope.changes())
            writer.release()
            store.delete(["a"])
            counts.append(scope.changes())
            assert counts == sorted(set(counts))
            assert store.scope("y").changes() == 0

    def test_a_deleted_session_leaves_its_scope(self) -> None:
        """With its notes, and with everything in the index of the scope; the notes of others stay."""
        with closing(self.make_store()) as store:
            for name in ("a", "b"):
                store.acquire(name, scope="x").release()
                store.scope("x").keep(KeptNote(f"of {name}", "text", name, "host", 5))
            with store.scope("x").index().opened() as db:
                db.execute("CREATE TABLE words (word)")
            store.delete(["a"])
            assert [card.id for card in store.scope("x").sessions()] == ["b"]
            assert [note.key for note in store.scope("x").notes()] == ["of b"]
            with store.scope("x").index().opened() as db:
                assert db.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]

    def test_sessions_that_have_changed_since_they_were_seen_are_not_deleted(self) -> None:
        """Neither with other entries, nor with a child that is not among them; as they were seen, they are."""
        with self._opened() as store:
            for name in ("a", "a/child", "ab"):
                writer = store.acquire(name)
                writer.append(drafts(2))
                writer.release()
            for names, seen in ((["a", "a/child"], {"a": 2, "a/child": 1}), (["a"], {"a": 2})):
                with refused(SessionChanged, "nothing was deleted"):
                    store.delete(names, seen=seen)
            assert len(store.cards()) == 3
            store.delete(["a", "a/child"], seen={"a": 2, "a/child": 2})
            assert [card.id for card in store.cards()] == ["ab"]

    def test_all_sessions_that_are_held_are_named_when_a_deletion_is_refused(self) -> None:
        """By the names that they were asked for, so that the others can be deleted without them."""
        with self._opened() as store:
            for name in "abc":
                store.acquire(name)
            store.acquire("b", takeover=True).release()
            held: tuple[str, ...] = ()
            try:
                store.delete(["a", "b", "c"])
            except SessionHeld as error:
                held = error.sessions
            assert sorted(held) == ["a", "c"]

    def test_the_secrets_of_many_sessions_are_read_at_once(self) -> None:
        """Each as it is read alone; a session that is not there has none."""
        with self._opened() as store:
            for name in "ab":
                store.acquire(name).release()
            assert store.secrets(["a", "b", "c"]) == {name: store.secret(name) for name in "ab"}

    def test_an_artifact_of_a_session_is_kept_under_the_name_that_it_tells(self) -> None:
        """It is read by its hash, and removed by that name; a session named like a tenant's has artifacts, too."""
        with self._opened() as store:
            for session in ("s", "@acme:s"):
                store.acquire(session).release()
                artifacts = store.artifacts_for(session)
                name = artifacts.put([b"large"]).sha256
                assert b"".join(store.artifacts_for(session).read(name)) == b"large"
                later = time.time_ns() // 1_000_000 + 1000
                assert any(one.remove(unless_put_after_ms=later) for one in artifacts.kept(name))
                with refused(NotFound):
                    artifacts.read(name)

    def test_an_artifact_is_deleted_with_its_sidecar(self) -> None:
        """One that is not there is no error, and one that was put in the meantime stays."""
        with self._opened() as store:
            card = store.artifacts.put([b"large"])
            store.artifacts.write_sidecar(card.sha256, b"derived")
            assert not store.artifacts.delete(card.sha256, unless_put_after_ms=0)
            later = time.time_ns() // 1_000_000 + 1000
            assert store.artifacts.delete(card.sha256, unless_put_after_ms=later)
            assert not store.artifacts.delete(card.sha256, unless_put_after_ms=later)
            assert store.artifacts.sidecar(card.sha256) is None
            with refused(NotFound):
                store.artifacts.read(card.sha256)

    def test_a_store_is_closed_by_its_block(self) -> None:
        """A store is its own context manager."""
        with self.make_store() as store:
            store.acquire("s")
        with refused(StoreError):
            store.cards()

    # Snapshots and cards

    def test_the_newest_snapshot_is_kept_with_the_place_it_was_taken_after(self) -> None:
        """A snapshot belongs to the last entry of the append that it came with."""
        with self._opened() as store:
            writer = store.acquire("s")
            assert store.snapshot("s") is None
            writer.append(drafts(3), snapshot=b"one")
            assert store.snapshot("s") == Snapshot(3, b"one")
            writer.append([draft("x")])
            assert store.snapshot("s") == Snapshot(3, b"one")
            writer.append([draft("y")], snapshot=b"two\0")
            assert store.snapshot("s") == Snapshot(5, b"two\0")
            writer.append([], snapshot=b"three")
            assert store.snapshot("s") == Snapshot(5, b"three")

    def test_a_retry_does_not_bring_an_old_snapshot_back(self) -> None:
        """The view that comes with a retry is older than the log."""
        with self._opened() as store:
            writer = store.acquire("s")
            writer.append([draft("a")], snapshot=b"old")
            writer.append([draft("b")], snapshot=b"new")
            writer.append([draft("a")], snapshot=b"old")
            assert store.snapshot("s") == Snapshot(2, b"new")

    def test_a_snapshot_of_an_empty_log_is_kept(self) -> None:
        """A session without entries has a view, and its snapshot comes back."""
        with self._opened() as store:
            store.acquire("s").append([], snapshot=b"empty")
            assert store.snapshot("s") == Snapshot(0, b"empty")

    def test_cards_tell_what_is_in_a_session(self) -> None:
        """Entries, head and holder are known without reading the log."""
        with self._opened() as store:
            before = time.time_ns() // 1_000_000
            writer = store.acquire("s")
            (card,) = store.cards("s")
            assert (card.id, card.entries, card.head) == ("s", 0, None)
            assert card.holder is not None
            writer.append(drafts(3))
            writer.release()
            (card,) = store.cards()
            assert (card.entries, card.head, card.holder) == (3, "e00002", None)
            assert before <= card.created_ms <= card.updated_ms

    def test_cards_are_listed_with_the_most_recently_used_first(self) -> None:
        """Appending moves a session to the front."""
        with self._opened() as store:
            writers = {name: store.acquire(name) for name in "abc"}
            for name in "cab":
                _wait_for_the_next_millisecond()
                writers[name].append([draft("x")])
            assert [card.id for card in store.cards()] == ["b", "a", "c"]

    def test_a_catalogue_is_read_in_pages(self) -> None:
        """In the order of names, from after a name on, within a beginning; together the pages are all sessions, each once."""
        names = ["a", "a/b", "aa", "b", "ba", "bé", "b😀", "c"]
        with self._opened() as store:
            for name in reversed(names):
                store.acquire(name).append(drafts(2))
            assert [card.id for card in store.page(limit=3)] == names[:3]
            assert [card.id for card in store.page(after="aa", limit=3)] == names[3:6]
            assert [card.id for card in store.page(prefix="b")] == ["b", "ba", "bé", "b😀"]
            assert [card.id for card in store.page(prefix="b", after="ba", limit=1)] == ["bé"]
            assert (
                store.page(prefix="x")
                == store.page(after="c")
                == store.page(limit=0)
                == store.page(prefix="\ud800")
                == []
            )
            assert sorted(store.page(), key=lambda card: card.id) == sorted(store.cards(), key=lambda card: card.id)

    # Artifacts

    def test_artifacts_come_back_whole(self) -> None:
        """Chunks of any size, and none, are kept under the hash of their bytes."""
        with self._opened() as store:
            for chunks in ([], [b""], [b"a", b"", b"bc"], [b"\xff\0" * 70_000, b"\n" * 3]):
                data = b"".join(chunks)
                card = store.artifacts.put(iter(chunks))
                assert card.sha256 == sha256(data).hexdigest()
                assert card.size_bytes == len(data)
                assert b"".join(store.artifacts.read(card.sha256)) == data
                assert store.artifacts.put([data]) == card

    def test_lines_are_counted_as_a_reader_would(self) -> None:
        """A last line without a line break is a line; an empty artifact has none."""
        with self._opened() as store:
            for data, lines in ((b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2)):
                assert store.artifacts.put([data]).lines == lines

    def test_head_and_tail_are_the_ends_of_the_text(self) -> None:
        """Head and tail never overlap and never cut a character, and a short text is wholly in the head."""
        with self._opened() as store:
            for text in ("short", "é" * 5000, "😀" * 9001, "a" + "é" * 40_000, "ab" + "😀" * 30_000, "x" * 100_000):
                data = text.encode()
                card = store.artifacts.put([data[i : i + 999] for i in range(0, len(data), 999)])
                assert text.startswith(card.head)
                assert text.endswith(card.tail)
                assert len(card.head) + len(card.tail) <= len(text)
                assert card.tail or card.head == text

    def test_an_unknown_artifact_is_not_found_and_a_path_is_refused(self) -> None:
        """Names are hashes; nothing else is ever looked up."""
        with self._opened() as store:
            with refused(NotFound):
                store.artifacts.read("0" * 64)
            for name in ("../../etc/passwd", "", "A" * 64, "0" * 63, "0" * 64 + "\n", "0" * 65):
                with refused(BadInput):
                    store.artifacts.read(name)

    def test_chunks_that_are_not_bytes_are_refused(self) -> None:
        """Giving the data itself in place of chunks is an error, and nothing is kept."""
        with self._opened() as store:
            for chunks in (b"data", ["text"], [1]):
                with refused(BadInput):
                    store.artifacts.put(chunks)  # pyright: ignore[reportArgumentType]

    def test_a_span_is_read_alone(self) -> None:
        """Any bytes of an artifact, fewer at its end and none beyond it; an unknown one is not found."""
        data = bytes(range(256)) * 300
        with self._opened() as store:
            name = store.artifacts.put([data]).sha256
            for start, size in ((0, 0), (0, 1), (0, len(data)), (70_000, 1000), (76_799, 5), (76_800, 5), (90_000, 1)):
                assert store.artifacts.span(name, start, size) == data[start : start + size]
            with refused(NotFound):
                store.artifacts.span("0" * 64, 0, 1)
            with refused(BadInput):
                store.artifacts.span("../" + "0" * 61, 0, 1)

    def test_a_sidecar_belongs_to_one_artifact(self) -> None:
        """The last data written beside an artifact comes back; the artifact itself and other artifacts are not touched."""
        with self._opened() as store:
            one, two = (store.artifacts.put([data]).sha256 for data in (b"one", b"two"))
            assert store.artifacts.sidecar(one) is None
            for data in (b"first", b"", b"last\0\xff"):
                store.artifacts.write_sidecar(one, data)
                assert store.artifacts.sidecar(one) == data
            assert store.artifacts.sidecar(two) is None
            assert store.artifacts.sidecar("0" * 64) is None
            store.artifacts.write_sidecar("0" * 64, b"of an artifact that was deleted while it was read")
            assert store.artifacts.sidecar("0" * 64) is None
            assert b"".join(store.artifacts.read(one)) == b"one"
            with refused(NotFound):
                store.artifacts.read(sha256(b"last\0\xff").hexdigest())
            for use in (lambda: store.artifacts.sidecar("x"), lambda: store.artifacts.write_sidecar("x", b"")):
                with refused(BadInput):
                    use()

    # Search indexes

    def test_an_index_keeps_its_tables_from_one_opening_to_the_next(self) -> None:
        """A table that one job made is there for the next, and for each session there is a database of its own."""
        with self._opened() as store:
            with store.index("one").opened() as db:
                db.execute("CREATE TABLE t (x)")
                db.execute("INSERT INTO t VALUES (7)")
            with store.index("one").opened() as db:
                assert db.execute("SELECT x FROM t").fetchall() == [(7,)]
            with store.index("two").opened() as db:
                assert _tables_in(db) == []

    def test_an_index_can_search_text(self) -> None:
        """The database has SQLite's full-text search."""
        with self._opened() as store, store.index("s").opened() as db:
            db.execute("CREATE VIRTUAL TABLE words USING fts5(body, tokenize='porter unicode61')")
            db.execute("INSERT INTO words VALUES ('the build failed')")
            assert len(db.execute("SELECT * FROM words WHERE words MATCH 'fail'").fetchall()) == 1

    def test_a_cleared_index_is_empty_and_of_use(self) -> None:
        """Clearing takes every table of this session's index and of no other; clearing an empty one does nothing."""
        with self._opened() as store:
            for name in ("one", "two"):
                with store.index(name).opened() as db:
                    db.execute("CREATE TABLE t (x)")
            store.index("one").clear()
            store.index("one").clear()
            for name, tables in (("one", []), ("two", [("t",)])):
                with store.index(name).opened() as db:
                    assert _tables_in(db) == tables
                    db.execute("CREATE TABLE later (x)")

    def test_an_index_survives_a_job_that_fails(self) -> None:
        """The next job can open it, whatever the last one raised; its place can be named in a message."""
        with self._opened() as store:
            with refused(ZeroDivisionError), store.index("s").opened() as db:
                db.execute("CREATE TABLE t (x)")
                raise ZeroDivisionError
            with store.index("s").opened() as db:
                assert _tables_in(db) == [("t",)]
            assert store.index("s").place

    def test_many_threads_use_one_index(self) -> None:
        """Jobs on one index wait for each other, and none is lost."""
        with self._opened() as store:
            with store.index("s").opened() as db:
                db.execute("CREATE TABLE t (x)")

            def work(name: str) -> None:
                for _ in range(5):
                    with store.index("s").opened() as db:
                        db.execute("INSERT INTO t VALUES (?)", (name,))

            _in_threads(4, work)
            with store.index("s").opened() as db:
                assert db.execute("SELECT count(*) FROM t").fetchall() == [(20,)]

    # Threads and closing

    def test_many_threads_append_to_their_own_sessions(self) -> None:
        """Every append of every thread is kept once, in that thread's order."""
        with self._opened() as store:
            _in_threads(8, lambda name: _append_one_by_one(store.acquire(name), drafts(25, prefix=name)))
            for number in range(8):
                assert list(store.rows(f"t{number}")) == _rows(drafts(25, prefix=f"t{number}"))

    def test_many_threads_append_to_one_session(self) -> None:
        """A writer may be shared: no place is given twice and none is left out."""
        with self._opened() as store:
            writer = store.acquire("s")
            _in_threads(8, lambda name: _append_one_by_one(writer, drafts(25, prefix=name)))
            rows = list(store.rows("s"))
            assert [row.seq for row in rows] == list(range(1, 201))
            for number in range(8):
                own = [row.id for row in rows if row.id.startswith(f"t{number}")]
                assert own == [item.id for item in drafts(25, prefix=f"t{number}")]

    def test_one_refused_append_does_not_harm_its_neighbours(self) -> None:
        """Appends that conflict fail alone, however they are grouped with others."""
        with self._opened() as store:
            sessions = {f"t{number}": store.acquire(f"t{number}") for number in range(8)}
            conflicts: list[str] = []

            def work(name: str) -> None:
                for item in drafts(20):
                    sessions[name].append([item])
                    try:
                        sessions[name].append([draft("extra" + item.id), draft(item.id, b"other")])
                    except BadEntry:
                        conflicts.append(name)

            _in_threads(8, work)
            assert len(conflicts) == 160
            for name in sessions:
                assert list(store.rows(name)) == _rows(drafts(20))

    def test_a_closed_store_refuses_everything(self) -> None:
        """Closing twice does nothing; using it afterwards is an error and not a loss."""
        store = self.make_store()
        writer = store.acquire("s")
        store.close()
        store.close()
        writer.release()
        uses: list[Callable[[], object]] = [
            lambda: store.acquire("s"),
            lambda: store.rows("s"),
            store.cards,
            lambda: writer.append([draft("a")]),
            lambda: store.index("s"),
        ]
        for use in uses:
            with refused(StoreError):
                use()

    def test_everything_is_there_after_opening_again(self) -> None:
        """Rows, snapshots and artifacts outlive the handle, and closing released the session."""
        store = self.make_store()
        writer = store.acquire("s")
        writer.append(drafts(5), snapshot=b"view")
        artifact = store.artifacts.put([b"large"])
        again = self.reopen(store)
        if again is None:
            store.close()
            return
        try:
            assert list(again.rows("s")) == _rows(drafts(5))
            assert again.snapshot("s") == Snapshot(5, b"view")
            assert b"".join(again.artifacts.read(artifact.sha256)) == b"large"
            assert again.acquire("s").append([draft("x")]) == [6]
        finally:
            again.close()

    def _opened(self) -> closing[Store]:
        return closing(self.make_store())


@contextmanager
def _closed(handle: Store, first: Store) -> Generator[Store]:
    """Close a second handle at the end; one that is the first itself is left to its own block."""
    try:
        yield handle
    finally:
        if handle is not first:
            handle.close()


def _rows(given: Sequence[Draft]) -> list[Row]:
    return [Row(i, d.id, d.parent, d.time_ms, d.author, d.payload) for i, d in enumerate(given, start=1)]


def _tables_in(db: Database) -> list[Raw]:
    return db.execute("SELECT name FROM sqlite_schema ORDER BY name").fetchall()


def _append_one_by_one(writer: Writer, given: Sequence[Draft]) -> None:
    for item in given:
        writer.append([item])


def _in_threads(count: int, work: Callable[[str], None]) -> None:
    """Run `work` in threads named t0, t1, …, and raise the first error of any of them."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, [f"t{number}" for number in range(count)]))


def _wait_for_the_next_millisecond() -> None:
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == now:
        pass
