"""Exported sessions: portable from any store to any other, verified, and refused if anything was changed."""

import io
import random

import pytest

import foveal
from foveal.stores import MemoryStore, Store
from foveal.stores.port import Draft
from foveal.stores.portable import export_session, import_session, verify_export
from foveal.stores.sqlite import SqliteStore
from foveal.values.errors import BadInput, FovealError, NotFound


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


def test_an_existing_session_is_never_written_over(store):
    """Importing twice is refused, and changes nothing."""
    rows = list(store.rows("talk"))
    with pytest.raises(BadInput, match="has a session 'talk' already"):
        import_session(store, io.BytesIO(exported(store)))
    assert list(store.rows("talk")) == rows
    with pytest.raises(NotFound):
        exported(store, "nobody")


def test_payloads_that_are_no_text_are_kept():
    """A store does not understand its rows, and neither does an export."""
    one, other = MemoryStore(), MemoryStore()
    one.acquire("s").append([Draft("a", None, -1, "me", bytes(range(256))), Draft("b", "a", 1, "me", b"")])
    import_session(other, io.BytesIO(exported(one, "s")))
    assert list(other.rows("s")) == list(one.rows("s"))


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
