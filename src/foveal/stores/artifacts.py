"""Artifacts as files: each under the hash of its bytes, never changed once it is there.

An artifact is written to a temporary file, synced, and renamed to its place; then the folders are synced. Only then does `put`
return, and a log may name it. The rename also replaces an artifact of the same hash: that one has the same bytes, or is damaged,
or was renamed by a writer whose sync failed, and in each case the new file is the safe one.

A writer locks its temporary file while it lives, so that the leftovers of a dead writer can be told from work in progress. The
time of a file is that at which it got its name. The folder of an artifact is locked for that moment, and by a deletion from its
look at that time until the file is gone: so no deletion takes away what was put since it looked.
"""

import os
import secrets
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import FileIO
from pathlib import Path
from types import TracebackType

from foveal.stores.artifact_card import CardBuilder, check_chunks
from foveal.stores.checks import check_artifact, check_span, is_artifact
from foveal.stores.disk import NO_SPACE, OWNER_FOLDER, OWNER_ONLY, sync_file, sync_folder
from foveal.stores.port import ArtifactCard, Artifacts, KeptArtifact
from foveal.values.errors import NotFound, StoreCorrupt, StoreError, StoreFailed, StoreFull

SUFFIX = ".artifacts"
SIDECAR = ".offsets"
READ_BYTES = 1 << 18
TEMPORARY = "tmp-"
_SETTLED_S = 0.05
"""Time after which a file that was not locked yet when it was looked at is locked, or was given up because of that look."""
CLAIM = "store"
"""The name of what says whose artifacts lie in a place outside of a store: its id."""


def artifacts_folder(path: Path) -> Path:
    """Return the folder for the artifacts of the store at `path`."""
    return path.with_name(path.name + SUFFIX)


class _Temporary:
    """A file in a folder that is written under a name of its own, and locked until it has another or is gone."""

    def __init__(self, folder: Path) -> None:
        while True:
            self.path = folder / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self.handle = os.open(self.path, flags, OWNER_ONLY)
            self._is_open, is_ours = True, False
            try:
                # Between opening and locking, somebody may have looked whether it is abandoned, or removed it.
                is_ours = _lock(self.handle) and os.fstat(self.handle).st_nlink > 0
            finally:
                if not is_ours:
                    self._end()
            if is_ours:
                return

    def rename(self, place: Path) -> None:
        """Give the file its name. It stays locked until that is done, where an open file can be renamed."""
        if not RENAMES_OPEN:
            self._close()
        self.path.replace(place)

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self.handle)

    def _end(self) -> None:
        self._close()
        with suppress(OSError):
            self.path.unlink()

    def __enter__(self) -> "_Temporary":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unlock the file, and remove it unless it has a name."""
        self._end()


class FileArtifacts:
    """Artifacts in `folder`, which is made when the first one is put."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store_path = str(folder).removesuffix(SUFFIX)
        self._durable: set[Path] = set()
        """Folders whose own names this handle has synced."""

    def put(self, chunks: Iterable[bytes], *, name: Callable[[], str] | None = None) -> ArtifactCard:
        with self._plain_errors():
            self._make(self._folder)
            temporary = _Temporary(self._folder)
        with temporary:
            card = self._write(temporary.handle, chunks)
            with self._plain_errors():
                place = self._place(card.sha256 if name is None else name())
                self._make(place.parent)
                with _locked(place.parent):
                    now_ns = time.time_ns()
                    os.utime(temporary.path, ns=(now_ns, now_ns))
                    temporary.rename(place)
                sync_folder(place.parent)
        return card

    def read(self, sha256: str) -> Iterator[bytes]:
        return self._stream(self._existing(sha256), sha256)

    def span(self, sha256: str, start: int, size: int) -> bytes:
        check_span(start)
        place = self._existing(sha256)
        with self._plain_errors(), place.open("rb", buffering=0) as file:
            file.seek(start)
            return file.read(size) or b""

    def sidecar(self, sha256: str) -> bytes | None:
        try:
            return self._sidecar(sha256).read_bytes()
        except OSError:
            return None

    def write_sidecar(self, sha256: str, data: bytes) -> None:
        place = self._sidecar(sha256)
        with suppress(OSError), _Temporary(self._folder) as temporary:
            with os.fdopen(temporary.handle, "wb", closefd=False) as file:
                file.write(data)
            with _locked(place.parent):  # nothing is left of an artifact that was deleted while it was read
                if self._place(sha256).is_file():
                    temporary.rename(place)

    def delete(self, sha256: str, *, unless_put_after_ms: int) -> bool:
        place = self._place(sha256)
        with self._plain_errors():
            try:
                with _locked(place.parent):
                    if place.stat().st_mtime_ns // 1_000_000 > unless_put_after_ms:
                        return False
                    place.unlink()
            except FileNotFoundError:
                return False
            self._sidecar(sha256).unlink(missing_ok=True)
            sync_folder(place.parent)
        return True

    def kept(self, sha256: str) -> tuple[KeptArtifact, ...]:
        check_artifact(sha256)
        return (KeptArtifact(sha256, self),)

    def names(self) -> list[str]:
        """Return the names of all artifacts that are there."""
        return sorted(path.name for path in self._folder.glob("??/*") if is_artifact(path.name))

    def claim(self, store: str) -> str:
        """Note that a store of this id keeps its artifacts here, if none has yet, and return the id of the one that does."""
        mark = self._folder / CLAIM
        with self._plain_errors():
            if not mark.exists():
                self._make(self._folder)
                with _Temporary(self._folder) as temporary:
                    with os.fdopen(temporary.handle, "w", closefd=False) as file:
                        file.write(store)
                        file.flush()
                        sync_file(file.fileno())
                    with suppress(FileExistsError):
                        os.link(temporary.path, mark)
                sync_folder(self._folder)
            return mark.read_text()

    def strays(self) -> list[Path]:
        """Return the temporary files that no living writer has locked."""
        with self._plain_errors():
            found = [path for path in self._temporaries() if _is_abandoned(path)]
            if found:
                time.sleep(_SETTLED_S)
            return [path for path in found if _is_abandoned(path)]

    def sweep(self) -> int:
        """Remove the files that dead writers left behind, and return how many there were. `StoreError` if one cannot be removed,
        when all others are."""
        removed, failed = 0, list[OSError]()
        for path in self._temporaries():
            try:
                removed += _is_abandoned(path, remove=True)
            except OSError as error:
                failed.append(error)
        if failed:
            raise StoreError(
                f"{self._folder}: {len(failed):,} files of results that were being written when their process ended could not be "
                f"removed ({failed[0]}). Check the folder and its owner; `foveal store vacuum` tries again."
            )
        return removed

    def _temporaries(self) -> list[Path]:
        return sorted(self._folder.glob(TEMPORARY + "*")) if self._folder.is_dir() else []

    def _place(self, sha256: str) -> Path:
        check_artifact(sha256)
        return self._folder / sha256[:2] / sha256

    def _existing(self, sha256: str) -> Path:
        place = self._place(sha256)
        with self._plain_errors():
            is_there = place.is_file()
        if not is_there:
            raise NotFound(
                f"there is no artifact {sha256} in {self._folder}. If a log names it, it was lost: "
                f"`foveal doctor {self._store_path}` lists all that is missing."
            )
        return place

    def _sidecar(self, sha256: str) -> Path:
        return self._place(sha256).with_suffix(SIDECAR)

    def _make(self, folder: Path) -> None:
        if folder not in self._durable:
            folder.mkdir(OWNER_FOLDER, exist_ok=True)
            sync_folder(folder.parent)
            self._durable.add(folder)

    def _write(self, handle: int, chunks: Iterable[bytes]) -> ArtifactCard:
        tally = CardBuilder()
        for chunk in check_chunks(chunks):  # an error of the caller's own iterator passes untranslated
            tally.add(chunk)
            with self._plain_errors():
                rest = memoryview(chunk)
                while rest:
                    rest = rest[os.write(handle, rest) :]
        with self._plain_errors():
            sync_file(handle)
        return tally.card()

    def _stream(self, place: Path, name: str) -> Iterator[bytes]:
        digest = sha256()
        held_back = b""
        with self._plain_errors():
            file = place.open("rb", buffering=0)
        with file:
            while chunk := self._next(file):
                digest.update(chunk)
                if held_back:
                    yield held_back
                held_back = chunk  # the last one is given only once the whole is proven
        if digest.hexdigest() != name:
            raise StoreCorrupt(f"artifact {name}", f"the bytes in {place} do not match the hash", self._store_path)
        if held_back:
            yield held_back

    def _next(self, file: FileIO) -> bytes:
        with self._plain_errors():
            return file.read(READ_BYTES) or b""

    @contextmanager
    def _plain_errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise _translated(error, self._folder) from error


def copy_unread(source: FileArtifacts, target: FileArtifacts) -> int:
    """Copy all artifacts as they are, under their names, and return how many: for those that only their keys could read."""
    names = source.names()
    for name in names:
        target.put(unproven(source, name), name=lambda name=name: name)
    return len(names)


def unproven(artifacts: Artifacts, name: str) -> Iterator[bytes]:
    """Yield the bytes of an artifact as they are, damaged or not."""
    at = 0
    while piece := artifacts.span(name, at, READ_BYTES):
        yield piece
        at += len(piece)


RENAMES_OPEN = sys.platform != "win32"
"""Whether a file that is open can be renamed and removed."""

if sys.platform == "win32":

    def _lock(handle: int) -> bool:
        return True  # an open file cannot be removed there, which serves as well

    def _is_abandoned(path: Path, *, remove: bool = False) -> bool:
        """Return whether nobody writes a file, and remove it."""
        if not path.exists():
            return False
        try:
            if remove:
                path.unlink()
        except OSError:
            return False
        return True

    @contextmanager
    def _locked(folder: Path) -> Generator[None]:
        yield  # folders cannot be opened there

else:
    import fcntl

    def _lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_abandoned(path: Path, *, remove: bool = False) -> bool:
        """Return whether no living writer has locked a file, and remove it under a lock of our own: so none can get one then."""
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            is_free = _lock(handle) and path.exists()  # it may have got its name since it was opened
            if is_free and remove:
                path.unlink(missing_ok=True)
            return is_free
        finally:
            os.close(handle)

    @contextmanager
    def _locked(folder: Path) -> Generator[None]:
        """Lock a folder; one of a network may know no locks, and is used without."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _translated(error: OSError, folder: Path) -> StoreError:
    if error.errno in NO_SPACE:
        return StoreFull(
            f"{folder}: no space is left for an artifact; nothing was kept of it. Free space and try again."
        )
    if isinstance(error, PermissionError):  # of this place, whatever the store itself can do
        return StoreError(f"{folder}: the artifact cannot be kept or read ({error}). Check the folder and its owner.")
    return StoreFailed(f"{folder}: the artifact could not be kept or read ({error}); it must be put again.")
