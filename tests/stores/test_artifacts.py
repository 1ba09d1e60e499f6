"""Artifacts as files: whole or absent, and never a way out of their folder."""

import errno
import os
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.stores import artifacts as artifacts_module
from foveal.stores.artifact_card import EDGE_BYTES, CardBuilder
from foveal.stores.artifacts import RENAMES_OPEN, FileArtifacts
from foveal.values.errors import BadInput, NotFound, StoreCorrupt, StoreFailed, StoreFull


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store.db.artifacts"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_nothing_is_made_before_the_first_artifact(folder: Path) -> None:
    """Opening and looking leave no trace."""
    artifacts = FileArtifacts(folder)
    assert artifacts.sweep() == 0
    assert not folder.exists()


def test_an_artifact_lies_under_its_hash(folder: Path) -> None:
    """The file holds the bytes and nothing else is left in the folder."""
    card = FileArtifacts(folder).put([b"one ", b"two"])
    assert files(folder) == [f"{card.sha256[:2]}/{card.sha256}"]
    assert (folder / card.sha256[:2] / card.sha256).read_bytes() == b"one two"


@pytest.mark.parametrize("name", ["../../secret", "A" * 64, "a" * 63, "", "a" * 64 + "/x"])
def test_nothing_outside_the_folder_can_be_named(folder: Path, name: str) -> None:
    """Not to be read, not in pieces, and nothing is written or read beside it."""
    artifacts = FileArtifacts(folder)
    artifacts.put([b"content"])
    acts = (
        lambda: artifacts.read(name),
        lambda: artifacts.span(name, 0, 1),
        lambda: artifacts.sidecar(name),
        lambda: artifacts.write_sidecar(name, b"x"),
    )
    for act in acts:
        with pytest.raises(BadInput, match="is not an artifact"):
            act()
    assert len(files(folder)) == 1


def test_what_lies_beside_an_artifact_can_be_replaced(folder: Path) -> None:
    """It is no artifact itself, and leaves nothing else behind."""
    artifacts = FileArtifacts(folder)
    name = artifacts.put([b"content"]).sha256
    assert artifacts.sidecar(name) is None
    for data in (b"one", b"two"):
        artifacts.write_sidecar(name, data)
    assert artifacts.sidecar(name) == b"two"
    assert files(folder) == [f"{name[:2]}/{name}", f"{name[:2]}/{name}.offsets"]
    assert b"".join(artifacts.read(name)) == b"content"


def test_a_span_is_what_lies_there(folder: Path) -> None:
    """Shorter at the end, empty after it; an artifact that is gone is an error."""
    artifacts = FileArtifacts(folder)
    name = artifacts.put([b"0123456789"]).sha256
    assert [artifacts.span(name, start, 4) for start in (0, 3, 8, 20)] == [b"0123", b"3456", b"89", b""]
    (folder / name[:2] / name).unlink()
    with pytest.raises(NotFound):
        artifacts.span(name, 0, 1)


def test_putting_again_repairs_a_damaged_artifact(folder: Path) -> None:
    """Whoever is told that the bytes are kept can read them, whatever lay there before."""
    artifacts = FileArtifacts(folder)
    card = artifacts.put([b"content"])
    (folder / card.sha256[:2] / card.sha256).write_bytes(b"contemt")
    artifacts.put([b"content"])
    assert b"".join(artifacts.read(card.sha256)) == b"content"


@pytest.mark.parametrize("damage", [b"", b"conten", b"contemt", b"content!"])
def test_a_damaged_artifact_is_never_given_whole(folder: Path, damage: bytes) -> None:
    """The last chunk is held back until the hash is known to match."""
    artifacts = FileArtifacts(folder)
    card = artifacts.put([b"content"])
    (folder / card.sha256[:2] / card.sha256).write_bytes(damage)
    with pytest.raises(StoreCorrupt, match=card.sha256):
        next(artifacts.read(card.sha256))


def failing_call(monkeypatch: pytest.MonkeyPatch, name: str, number: int, code: int) -> None:
    """The `number`th call of os.<name> fails with this error, the others work."""
    real, calls = getattr(os, name), iter(range(1, 1_000_000))

    def call(*arguments: Any) -> Any:
        if next(calls) == number:
            raise OSError(code, os.strerror(code))
        return real(*arguments)

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failing_sync_is_an_error_and_not_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    """Whichever sync of file or folder fails, the artifact is not acknowledged and no temporary file stays."""
    artifacts = FileArtifacts(folder)
    failing_call(monkeypatch, "fsync", number, code)
    with pytest.raises(StoreFailed if code == errno.EIO else StoreFull):
        artifacts.put([b"content"])
    assert not list(folder.glob("tmp-*"))
    card = artifacts.put([b"content"])
    assert b"".join(artifacts.read(card.sha256)) == b"content"


@pytest.mark.parametrize(
    ("code", "error"), [(errno.ENOSPC, StoreFull), (errno.EDQUOT, StoreFull), (errno.EIO, StoreFailed)]
)
def test_a_failing_write_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: int, error: type[Exception]
) -> None:
    """A full disk is told from a broken one; the folder is as it was, and the next artifact is kept."""
    artifacts = FileArtifacts(folder)
    failing_call(monkeypatch, "write", 2, code)
    with pytest.raises(error):
        artifacts.put([b"one", b"two", b"three"])
    assert files(folder) == []
    artifacts.put([b"one", b"two", b"three"])


def test_short_writes_are_continued(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take fewer bytes than it was given."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    artifacts = FileArtifacts(folder)
    card = artifacts.put([b"0123456789", b"abc"])
    assert b"".join(artifacts.read(card.sha256)) == b"0123456789abc"


def test_an_error_of_the_source_passes_through(folder: Path) -> None:
    """What the caller's own iterator raises is the caller's, and no temporary file stays."""

    def source() -> Iterator[bytes]:
        yield b"one"
        raise ConnectionResetError("the tool went away")

    with pytest.raises(ConnectionResetError):
        FileArtifacts(folder).put(source())
    assert files(folder) == []


def test_only_the_temporary_files_of_dead_writers_are_swept(folder: Path, child: Callable[..., Any]) -> None:
    """Work in progress is left alone, in this process and in others."""
    artifacts = FileArtifacts(folder)
    killed = child(
        "import sys, time; from pathlib import Path; from foveal.stores.artifacts import FileArtifacts\n"
        "def source():\n    yield b'half'\n    print('writing', flush=True)\n    sys.stdin.readline()\n    yield b'rest'\n"
        "print(FileArtifacts(Path(sys.argv[1])).put(source()).size_bytes)",
        folder,
    )
    assert killed.hear() == "writing"

    def source() -> Iterator[bytes]:
        yield b"mine"
        assert (len(artifacts.strays()), len(files(folder))) == (0, 2)
        killed.process.kill()
        killed.process.wait()
        assert (len(artifacts.strays()), artifacts.sweep(), len(files(folder))) == (1, 1, 1)

    card = artifacts.put(source())
    assert b"".join(artifacts.read(card.sha256)) == b"mine"


def test_a_large_artifact_streams_with_flat_memory(folder: Path) -> None:
    """Sixty-four megabytes go in and out while less than four are held."""
    artifacts = FileArtifacts(folder)
    block = os.urandom(1 << 18)
    tracemalloc.start()
    try:
        card = artifacts.put(block for _ in range(256))
        assert sum(len(chunk) for chunk in artifacts.read(card.sha256)) == card.size_bytes == 64 << 20
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


@given(st.text(alphabet="aé€😀\n", max_size=60), st.integers(1, 2000), st.integers(1, 9000))
def test_ends_are_cut_between_characters(seed: str, times: int, step: int) -> None:
    """However the bytes arrive, head and tail are verbatim ends of the text that do not overlap."""
    text = seed * times
    data = text.encode()
    tally = CardBuilder()
    for start in range(0, len(data), step):
        tally.add(data[start : start + step])
    card = tally.card()
    assert (card.sha256, card.size_bytes) == (sha256(data).hexdigest(), len(data))
    assert card.lines == len(data.split(b"\n")) - (data == b"" or data.endswith(b"\n"))
    assert text.startswith(card.head)
    assert text.endswith(card.tail)
    if len(data) <= 2 * EDGE_BYTES:
        assert (card.head, card.tail) == (text, "")
    else:
        assert all(EDGE_BYTES - 4 < len(end.encode()) <= EDGE_BYTES for end in (card.head, card.tail))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_text_are_shown_with_replacement_characters(data: bytes) -> None:
    """Any bytes have a head."""
    tally = CardBuilder()
    tally.add(data)
    assert tally.card().head == data.decode(errors="replace")


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_a_put_within_a_deletion_is_not_taken_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion has looked at the time of the old file already: the put waits for it, and makes the file again."""
    artifacts, unlink = FileArtifacts(folder), Path.unlink
    name = artifacts.put([b"shared"]).sha256
    has_come = threading.Event()

    def put() -> None:
        artifacts.put([b"shared"])
        has_come.set()

    other = threading.Thread(target=put)

    def noted(lock: Callable[..., Any]) -> Callable[..., Any]:
        def locked(*given: Any) -> Any:
            if threading.current_thread() is other and given[1] == fcntl.LOCK_EX:
                has_come.set()
            return lock(*given)

        return locked

    def late(place: Path, *, missing_ok: bool = False) -> None:
        if place.name == name:
            other.start()
            assert has_come.wait(60)
        unlink(place, missing_ok=missing_ok)

    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", noted(fcntl.flock))
    monkeypatch.setattr(Path, "unlink", late)
    assert artifacts.delete(name, unless_put_after_ms=1 << 50)
    other.join()
    assert b"".join(artifacts.read(name)) == b"shared"


def test_nothing_is_written_beside_an_artifact_that_is_gone(folder: Path) -> None:
    """Whoever read it while it was deleted leaves no file that nobody would remove."""
    artifacts = FileArtifacts(folder)
    name = artifacts.put([b"content"]).sha256
    assert artifacts.delete(name, unless_put_after_ms=1 << 50)
    artifacts.write_sidecar(name, b"derived")
    assert files(folder) == []


@pytest.mark.skipif(not RENAMES_OPEN, reason="an open file cannot be renamed or removed here")
def test_a_living_writer_is_known_as_such_until_its_file_has_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sweeps at any step of a put, of a mark or of what lies beside an artifact takes nothing away from its writer."""
    artifacts, sweeper, found = FileArtifacts(folder), FileArtifacts(folder), list[int]()
    for name in ("utime", "link", "replace", "rename"):
        real = getattr(os, name)

        def act(*given: Any, real: Callable[..., Any] = real, **named: Any) -> Any:
            found.append(len(sweeper.strays()) + sweeper.sweep())
            return real(*given, **named)

        monkeypatch.setattr(os, name, act)
    name = artifacts.put([b"content"]).sha256
    artifacts.write_sidecar(name, b"beside")
    assert artifacts.claim("mine") == "mine"
    assert (artifacts.sidecar(name), b"".join(artifacts.read(name))) == (b"beside", b"content")
    assert (sum(found), len(found) >= 4) == (0, True)
    assert len(files(folder)) == 3


@pytest.mark.parametrize("removes", [False, True])
def test_a_file_that_somebody_looks_at_before_it_is_locked_is_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, removes: bool
) -> None:
    """Its writer leaves none behind, and is told of nothing."""
    artifacts, real, locked = FileArtifacts(folder), artifacts_module._lock, list[int]()

    def lock(handle: int) -> bool:
        locked.append(handle)
        if len(locked) > 1:
            return real(handle)
        if removes:
            assert artifacts.sweep() == 1
            locked.append(handle)
            return True
        return False

    monkeypatch.setattr(artifacts_module, "_lock", lock)
    artifacts.put([b"content"])
    assert len(files(folder)) == 1


@pytest.mark.skipif(not RENAMES_OPEN, reason="no file is locked here")
def test_a_folder_that_refuses_locks_keeps_no_file_of_a_put_that_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is one of the store, and nothing of the result is left."""

    def refuse(handle: int) -> bool:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(artifacts_module, "_lock", refuse)
    with pytest.raises(StoreFailed):
        FileArtifacts(folder).put([b"content"])
    assert files(folder) == []
