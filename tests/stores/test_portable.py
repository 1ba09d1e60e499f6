"""Exported sessions: portable from any store to any other, verified, and refused if anything was changed."""

import io
import json
import random
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import pytest

import foveal
from foveal.analysis.inspect.stored_session import copy_session
from foveal.stores import MemoryStore, Store
from foveal.stores.chain import link, seed
from foveal.stores.format import ENVELOPE
from foveal.stores.memory import MemoryWriter
from foveal.stores.port import Draft, Row
from foveal.stores.portable import export_session, import_session, verify_export
from foveal.stores.sqlite import SqliteStore
from foveal.values.codec import encode
from foveal.values.errors import BadInput, FovealError, NotFound, StoreCorrupt, StoreFull


@pytest.fixture
def store():
    """A session with a result that is an artifact, a fold's worth of words, and text that UTF-8 cannot write."""
    made = MemoryStore()
    with foveal.Session(made, "talk", model="gpt-5") as session:
        session.append(foveal.user("lone \ud83d surrogate, é and \0"))
        session.append(foveal.assistant("", foveal.ToolCall("call", "run", "{}")))
        session.append(foveal.result("call", "line of output\n" * 30_000))
        session.prompt()
    return made


def exported(store: Store, name: str = "talk") -> bytes:
    stream = io.BytesIO()
    export_session(store, name, stream)
    return stream.getvalue()


def test_an_exported_session_is_imported_as_it_was(store, tmp_path):
    """Rows, artifacts, secret and the next prompt are the same in another kind of store."""
    data = exported(store)
    with SqliteStore(tmp_path / "other.db") as other:
        portrait = import_session(other, io.BytesIO(data))
        assert list(other.rows("talk")) == list(store.rows("talk"))
        assert other.secret("talk") == store.secret("talk")
        assert (portrait.entries, portrait.artifacts) == (len(list(store.rows("talk"))), 1)
        before, after = (foveal.Session(one, "talk", model="gpt-5").prompt().request for one in (store, other))
        assert before == after


def test_a_session_is_imported_under_another_name(store):
    """The proof is of the old name; the new log has the new one."""
    import_session(store, io.BytesIO(exported(store)), name="copy")
    assert [row.payload for row in store.rows("copy")] == [row.payload for row in store.rows("talk")]


@pytest.mark.parametrize("name", ["", "x" * 10_000])
def test_a_name_that_no_session_can_have_is_refused(store, name):
    """An empty one does not mean that of the file."""
    target = MemoryStore()
    with pytest.raises(BadInput, match="session name"):
        import_session(target, io.BytesIO(exported(store)), name=name)
    assert target.cards() == []


def test_an_existing_session_is_never_written_over(store):
    """Importing twice is refused, and changes nothing."""
    rows = list(store.rows("talk"))
    with pytest.raises(BadInput, match="has a session 'talk' already"):
        import_session(store, io.BytesIO(exported(store)))
    assert list(store.rows("talk")) == rows
    with pytest.raises(NotFound):
        exported(store, "nobody")


def forged(data: bytes, **changes: object) -> bytes:
    """Return an exported file with another first line, and with entries and artifacts as they are told: `ids` and `payloads` by
    their places, `keeps` as whether a line stays. Every hash is right."""
    first, *lines = (json.loads(line) for line in data.splitlines()[:-1])
    keeps: Any = changes.pop("keeps", lambda _: True)
    lines = [line for line in lines if keeps(line)]
    entries = [line for line in lines if "id" in line]
    for field in ("id", "payload"):
        told: Any = changes.pop(f"{field}s", {})
        for at, value in told.items():
            entries[at][field] = value
    chain = seed(first["session"])
    for seq, line in enumerate(entries, start=1):
        fields = (line["id"], line["parent"], line["time_ms"], line["author"], line["payload"].encode())
        chain = link(chain, Row(seq, *fields))
    artifacts = len({line["artifact"] for line in lines if "artifact" in line})
    first |= {"entries": len(entries), "chain": chain.hex(), "artifacts": artifacts, **changes}
    body = b"".join(json.dumps(line).encode() + b"\n" for line in (first, *lines))
    return body + json.dumps({"end": sha256(body).hexdigest()}).encode() + b"\n"


def test_the_forger_of_these_tests_makes_whole_files(store):
    """A file that is forged without a change is accepted: the refusals below are of the changes."""
    import_session(MemoryStore(), io.BytesIO(forged(exported(store))))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"title": "t" * 2_000}, "the title"),
        ({"tags": ["bad\ttag"]}, "the tag"),
        ({"tags": [f"tag {i}" for i in range(99)]}, "tags"),
        ({"scope": ""}, "the scope"),
        ({"session": ""}, "the session name"),
        ({"secret": "AAAAA"}, "not in base64"),
        ({"secret": "!!!!"}, "not in base64"),
        ({"secret": "AAAA"}, "secret of 3 bytes"),
        ({"secret": b64encode(ENVELOPE + b"x" * 60).decode()}, "an encrypted one"),
        ({"ids": {0: "twice", 1: "twice"}}, "two entries of the id twice"),
        ({"payloads": {0: "no entry at all"}}, "not an entry"),
        ({"payloads": {0: "#garbage"}}, "not an entry"),
        ({"keeps": lambda line: "artifact" not in line}, "lacks 1"),
        ({"keeps": lambda line: line.get("time_ms") is None}, "1 that none of them names"),
    ],
)
def test_a_file_that_a_store_could_not_keep_is_refused_before_anything_is_written(store, tmp_path, changes, said):
    """Its hashes are right, and its content would be refused half way, or be damage; no session and no artifact is left."""
    with SqliteStore(tmp_path / "other.db") as other, pytest.raises(BadInput, match=said):
        import_session(other, io.BytesIO(forged(exported(store), **changes)))
    with SqliteStore(tmp_path / "other.db") as other:
        assert (other.cards(), other.tombstones(), other.artifacts.names()) == ([], [], [])


def test_a_name_that_is_taken_is_refused_before_artifacts_are_written(store, tmp_path):
    """Nothing names them, so that nothing would ever remove them."""
    with SqliteStore(tmp_path / "other.db") as other:
        other.acquire("talk").append([Draft("a", None, 1, "me", encode(foveal.user("x")))])
        with pytest.raises(BadInput, match="has a session 'talk' already"):
            import_session(other, io.BytesIO(exported(store)))
        assert other.artifacts.names() == []


@pytest.mark.parametrize("method", ["entitle", "tag", "append"])
def test_an_import_that_the_store_refuses_half_way_leaves_no_session(store, monkeypatch, method):
    """The same file can be imported when the reason is gone."""
    other = MemoryStore()

    def refuse(*_: object, **__: object) -> None:
        raise StoreFull("no space is left")

    monkeypatch.setattr(MemoryWriter if method == "append" else MemoryStore, method, refuse)
    with pytest.raises(StoreFull):
        import_session(other, io.BytesIO(exported(store)))
    assert other.cards() == []
    monkeypatch.undo()
    import_session(other, io.BytesIO(exported(store)))
    assert list(other.rows("talk")) == list(store.rows("talk"))


def test_an_import_that_was_killed_is_finished_by_the_next_one(store):
    """An empty session with the secret of the file is its own; one with another secret is somebody's, and is not touched."""
    own, other = MemoryStore(), MemoryStore()
    own.acquire("talk", secret=store.secret("talk")).release()
    other.acquire("talk").release()
    import_session(own, io.BytesIO(exported(store)))
    assert list(own.rows("talk")) == list(store.rows("talk"))
    with pytest.raises(BadInput, match="has a session 'talk' already"):
        import_session(other, io.BytesIO(exported(store)))
    assert other.cards("talk")[0].entries == 0


def test_scope_labels_and_times_come_with_a_session(store):
    """So it remembers with its scope, is listed as it was, and expires when the original would."""
    store.acquire("talk", scope="project").release()
    store.entitle("talk", "A title")
    store.tag("talk", add=["b", "a"])
    store.backdate("talk", created_ms=1_000, updated_ms=2_000)
    other = MemoryStore()
    import_session(other, io.BytesIO(exported(store)))
    assert other.cards() == store.cards()


def test_a_file_without_the_time_of_its_last_use_has_that_of_its_newest_entry():
    """Files of earlier versions hold the time of creation alone."""
    one, other = MemoryStore(), MemoryStore()
    drafts = [Draft(f"e{time}", None, time, "me", encode(foveal.user("x"))) for time in (5_000, 7_000, 6_000)]
    one.acquire("s").append(drafts)
    import_session(other, io.BytesIO(forged(exported(one, "s"), created_ms=1_000, updated_ms=None)))
    (card,) = other.cards()
    assert (card.created_ms, card.updated_ms) == (1_000, 7_000)


def test_a_time_that_no_clock_has_shown_is_not_taken_over(store):
    """A file from a wrong clock neither stays for ever nor breaks a list of sessions."""
    other = MemoryStore()
    import_session(other, io.BytesIO(forged(exported(store), created_ms=-5, updated_ms=1 << 62)))
    (card,) = other.cards()
    assert (card.created_ms, card.updated_ms < 1 << 50) == (0, True)


def test_a_row_that_is_no_entry_is_not_exported():
    """The file could not be imported: the export names the row instead."""
    one = MemoryStore()
    one.acquire("s").append([Draft("a", None, -1, "me", bytes(range(256)))])
    with pytest.raises(StoreCorrupt, match="session 's', entry 1: these bytes are not an entry"):
        exported(one, "s")


@pytest.mark.parametrize(("line", "is_made_again"), [(1, True), (3, False), (3, True)])
def test_a_session_that_is_deleted_while_it_is_exported_is_not_found(tmp_path, line, is_made_again):
    """It is no damage, and no file is left that mixes two sessions of one name."""
    with SqliteStore(tmp_path / "a.db") as one:

        def fill(word: str) -> None:
            writer = one.acquire("s")
            writer.append([Draft(f"e{i}", None, 1, "me", encode(foveal.user(f"{word} {i}"))) for i in range(600)])
            writer.release()

        class Stream(io.BytesIO):
            def write(self, data: Any) -> int:
                if self.getvalue().count(b"\n") == line - 1:
                    one.delete(["s"])
                    if is_made_again:
                        fill("other")
                return super().write(data)

        fill("first")
        with pytest.raises(NotFound):
            export_session(one, "s", Stream())


def test_a_changed_file_is_refused_and_nothing_of_it_is_kept(store):
    """Whichever byte is changed, and wherever the file is cut, importing raises and leaves no session behind."""
    data, rng = exported(store), random.Random(4)
    for _ in range(120):
        damaged = bytearray(data)
        at = rng.randrange(len(data))
        damaged[at] ^= 1 << rng.randrange(8)
        other = MemoryStore()
        with pytest.raises(FovealError):
            import_session(other, io.BytesIO(bytes(damaged)))
        assert other.cards() == []
    for size in (0, 1, data.index(b"\n"), data.index(b"\n") + 1, len(data) // 2, len(data) - 2):
        with pytest.raises(BadInput):
            verify_export(io.BytesIO(data[:size]))
    with pytest.raises(BadInput, match="was changed"):
        verify_export(io.BytesIO(data + b"{}\n"))
    lines = data.splitlines(keepends=True)
    with pytest.raises(BadInput):
        verify_export(io.BytesIO(b"".join([*lines[:-3], lines[-2], lines[-3], lines[-1]])))


def test_a_newer_format_is_refused(store):
    """The message says which format this Foveal reads."""
    newer = exported(store).replace(b'"format":1', b'"format":9', 1)
    with pytest.raises(BadInput, match="format 9; this Foveal reads format 1"):
        verify_export(io.BytesIO(newer))


def test_of_two_copies_made_at_once_one_is_kept(store, tmp_path):
    """Two replays of the same session into one store: one is kept whole, the others are refused, and nothing is mixed."""
    path = tmp_path / "both.db"
    SqliteStore(path).close()

    def copy(_: int) -> str:
        with SqliteStore(path) as target:
            try:
                copy_session(store, target, "talk")
            except FovealError as error:
                return type(error).__name__
            return "kept"

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(copy, range(12)))
    assert outcomes.count("kept") == 1
    assert set(outcomes) <= {"kept", "BadInput", "SessionHeld"}
    with SqliteStore(path) as target:
        assert list(target.rows("talk")) == list(store.rows("talk"))
