"""A window of a large artifact is read without what stands before it, and is the same as if it were not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foveal
from foveal.recall import Fetch, fetch, offsets, read, text_blocks
from foveal.recall.search import search
from foveal.stores.artifacts import FileArtifacts
from foveal.stores.sqlite import SqliteStore
from foveal.testing.builders import open_session
from foveal.values.entry import Message, Stored, Text, ToolResult
from foveal.values.errors import BadInput, NotFound, StoreCorrupt

BLOCK = 64


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that every text has many."""
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(offsets, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(offsets, "LEAST_BYTES", 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.db")
    yield opened
    opened.close()


def kept(store: SqliteStore, data: bytes, *beside: Text) -> str:
    """An artifact with these bytes as a result; its reference."""
    stored = foveal.keep_stream(store, [data])
    session = f"s{len(store.cards())}"
    with open_session(store, session) as opened:
        opened.append(foveal.assistant("", foveal.ToolCall("c", "run", "{}")))
        return opened.append(Message("tool", (ToolResult("c", (stored, *beside)),))).id


def artifact(store: SqliteStore) -> Path:
    (path,) = (path for path in store.path.parent.rglob("*.artifacts/*/*") if not path.suffix)
    return path


def counted(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is read of artifacts from now on; a whole one counts as -1."""
    asked: list[int] = []
    read_whole, span = FileArtifacts.read, FileArtifacts.span

    def counted_read(self: FileArtifacts, sha256: str) -> Iterator[bytes]:
        asked.append(-1)
        return read_whole(self, sha256)

    def counted_span(self: FileArtifacts, sha256: str, start: int, size: int) -> bytes:
        asked.append(size)
        return span(self, sha256, start, size)

    monkeypatch.setattr(FileArtifacts, "read", counted_read)
    monkeypatch.setattr(FileArtifacts, "span", counted_span)
    return asked


TEXTS = st.lists(
    st.sampled_from(["a line\n", "\n", "é", "日本", "\U0001f600", "x" * 90, "\ud800", "\r\n", "end"]),
    min_size=1,
    max_size=60,
).map(lambda pieces: "".join(pieces).encode("utf-8", "surrogatepass"))
BYTES = TEXTS | st.binary(min_size=1, max_size=600)


WANTED = st.builds(
    Fetch, st.just("ref"), st.integers(0, 70), st.integers(1, 40), st.sampled_from(["lines", "characters"])
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path_factory.mktemp("shared") / "store.db")
    yield opened
    opened.close()


@settings(max_examples=60, deadline=None)
@given(BYTES, WANTED, st.integers(1, 200))
def test_a_window_is_the_same_with_offsets_and_without(
    shared: SqliteStore, data: bytes, wanted: Fetch, most: int
) -> None:
    """Text, numbers and where to go on; an offset beyond the end is refused both times."""
    session = f"s{len(shared.cards())}"
    wanted = msgspec.structs.replace(wanted, ref=kept(shared, data))

    def answer() -> object:
        try:
            return fetch(shared, session, wanted, most=most)
        except BadInput as error:
            return str(error)

    for path in shared.path.parent.rglob("*.offsets"):
        path.unlink()
    first = answer()
    assert list(shared.path.parent.rglob("*.offsets"))
    assert answer() == first


def test_the_second_fetch_reads_only_what_it_gives(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one reads everything, which proves the artifact."""
    ref = kept(store, b"".join(b"line %d\n" % n for n in range(2_000)))
    asked = counted(store, monkeypatch)
    for _ in range(2):
        assert fetch(store, "s0", Fetch(ref, offset=1_990, limit=2)).text == "line 1990\nline 1991\n"
    assert asked[0] == -1
    assert asked[1:]
    assert all(0 < size <= BLOCK + 3 for size in asked[1:])
    assert len(asked[1:]) <= 3


def test_following_next_gives_every_byte(store: SqliteStore) -> None:
    """Windows put side by side are the original, hostile bytes included."""
    data = ("日本\n" * 50 + "x" * 500 + "\ud800\n" + "é" * 301).encode("utf-8", "surrogatepass") + b"\xff\xfe\n" * 40
    ref = kept(store, data)
    whole = read(store, "s0", ref)
    wanted: Fetch | None = Fetch(ref, limit=7)
    texts: list[str] = []
    while wanted:
        page = fetch(store, "s0", wanted, most=90)
        texts.append(page.text)
        wanted = page.next
    assert "".join(texts) == whole


@pytest.mark.parametrize("at", [10, -10])
def test_damage_is_found_in_what_is_read(store: SqliteStore, at: int) -> None:
    """Also if it came after the first fetch: the window that holds it is refused, and others are not."""
    ref = kept(store, b"".join(b"line %d\n" % n for n in range(2_000)))
    first, last = Fetch(ref, limit=3), Fetch(ref, offset=1_996)
    fetch(store, "s0", first)
    path = artifact(store)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    bad, good = (first, last) if at > 0 else (last, first)
    with pytest.raises(StoreCorrupt, match="do not match the hash"):
        fetch(store, "s0", bad)
    assert fetch(store, "s0", good).total == 2_000


def test_a_lost_artifact_is_damage_with_offsets_too(store: SqliteStore) -> None:
    """What is left beside it gives nothing."""
    ref = kept(store, b"line\n" * 500)
    fetch(store, "s0", Fetch(ref))
    artifact(store).unlink()
    with pytest.raises(StoreCorrupt, match="is gone"):
        fetch(store, "s0", Fetch(ref))


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-1], lambda data: data[:40] + b"?" + data[41:]]
)
def test_damaged_offsets_are_made_again(store: SqliteStore, monkeypatch: pytest.MonkeyPatch, damage: Any) -> None:
    """They are a shortcut and never the truth."""
    ref = kept(store, b"".join(b"line %d\n" % n for n in range(2_000)))
    wanted = Fetch(ref, offset=1_500, limit=2)
    right = fetch(store, "s0", wanted)
    (beside,) = store.path.parent.rglob("*.offsets")
    beside.write_bytes(damage(beside.read_bytes()))
    asked = counted(store, monkeypatch)
    assert [fetch(store, "s0", wanted) for _ in range(2)] == [right, right]
    assert asked.count(-1) == 1


def test_a_damaged_artifact_leaves_no_offsets(store: SqliteStore) -> None:
    """They are kept once the hash is proven."""
    ref = kept(store, b"line\n" * 500)
    path = artifact(store)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreCorrupt):
        fetch(store, "s0", Fetch(ref))
    assert not list(store.path.parent.rglob("*.offsets"))


def test_a_folder_that_cannot_be_written_is_no_error(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then every fetch reads the whole, as the first one does."""

    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    ref = kept(store, b"line\n" * 500)
    monkeypatch.setattr("os.open", refuse)
    assert fetch(store, "s0", Fetch(ref, limit=1)).text == "line\n"
    assert not list(store.path.parent.rglob("*.offsets"))


def test_a_result_of_several_texts_is_read_whole(store: SqliteStore) -> None:
    """Offsets are those of the artifact, and its text is only a part of the result's."""
    ref = kept(store, b"line\n" * 500, Text("and more"))
    pages = [fetch(store, "s0", Fetch(ref, offset=499)) for _ in range(2)]
    assert [page.text for page in pages] == ["line\n\nand more"] * 2


def test_another_session_gets_nothing(store: SqliteStore) -> None:
    """A reference is valid in its session, however it is read."""
    ref = kept(store, b"line\n" * 500)
    kept(store, b"other\n" * 500)
    fetch(store, "s0", Fetch(ref))
    with pytest.raises(NotFound):
        fetch(store, "s1", Fetch(ref, offset=3))


def test_a_snippet_is_read_from_where_it_stands(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexing reads the artifact once; what is shown of a hit costs its passage."""
    kept(store, b"filler line\n" * 3_000 + b"the needle\n" + b"filler line\n" * 10)
    search(store, "s0", "needle")
    asked = counted(store, monkeypatch)
    (hit,) = search(store, "s0", "needle")
    assert (hit.snippet.split("\n")[0], hit.line) == ("the needle", 3_001)
    assert -1 not in asked
    assert asked


def test_small_artifacts_have_no_offsets(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them whole costs less than looking the offsets up."""
    monkeypatch.setattr(offsets, "LEAST_BYTES", 4 << 20)
    ref = kept(store, b"line\n" * 500)
    fetch(store, "s0", Fetch(ref))
    assert not list(store.path.parent.rglob("*.offsets"))


def test_a_part_that_is_an_artifact_is_ranged_as_well(store: SqliteStore) -> None:
    """A user's message may hold one directly."""
    stored = foveal.keep_stream(store, [b"line\n" * 500])
    assert isinstance(stored, Stored)
    with open_session(store, "direct") as opened:
        ref = opened.append(Message("user", (stored,))).id
    pages = [fetch(store, "direct", Fetch(ref, offset=498)) for _ in range(2)]
    assert pages[0] == pages[1]
    assert pages[1].text == "line\nline\n"
