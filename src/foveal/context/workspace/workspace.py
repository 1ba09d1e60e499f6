"""One session's workspace: storing files, listing them, reading them again."""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, get_args

import msgspec

from foveal.context.file_names import disk_suffix, type_by_name
from foveal.context.mentions import KnownNames
from foveal.context.safe_paths import entries, inside, new_file, plain_errors, regular_file, root_folder, write_all
from foveal.context.source import ContextSource
from foveal.context.workspace.skill_copy import LinkedSkill, copy_skill
from foveal.context.workspace.stored_file import (
    META,
    MOST_META_BYTES,
    MOST_NAME_CHARACTERS,
    StoredFile,
    from_note,
    is_id,
    new_id,
    to_json,
)
from foveal.text.display import safe_file_name
from foveal.values.errors import BadInput, FovealError, NotFound, StoreCorrupt

Folder: TypeAlias = Literal["uploads", "outputs", "temp", "skills"]
FileSource: TypeAlias = str | os.PathLike[str] | bytes | BinaryIO

FOLDERS: tuple[Folder, ...] = get_args(Folder)
MOST_BYTES = 100_000_000
"""Twice the largest file that providers take."""
CARD = "session.json"
_CHUNK = 1 << 20


def folder_name(session: str) -> str:
    """Return the name of a session's folder: a hash, so that every session's name is allowed and no two share a folder."""
    return f"s-{sha256(session.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


class Workspace(msgspec.Struct, frozen=True):
    """The files of one session below `root`. Holds nothing open: each call opens its folders step by step."""

    root: Path
    session: str

    @classmethod
    def open(cls, root: str | os.PathLike[str], session: str) -> "Workspace":
        """Open the workspace of a session, make it if it does not exist, and mark it as used now."""
        if len(session) > MOST_NAME_CHARACTERS:
            raise BadInput(f"a session's name of {len(session):,} characters; {MOST_NAME_CHARACTERS:,} are the most")
        space = cls(Path(root).absolute(), session)
        with (
            plain_errors(space.path),
            root_folder(space.root, make=True) as top,
            inside(top, folder_name(session), make=True) as folder,
        ):
            for name in FOLDERS:
                with inside(folder, name, make=True):
                    pass
            _write_card(folder, session)
        return space

    def put(
        self, source: FileSource, name: str, *, folder: Folder = "uploads", most_bytes: int = MOST_BYTES
    ) -> StoredFile:
        """Keep a copy of a file, of bytes or of a stream: whole and durable when this returns, and not at all if it fails."""
        name, file_id = name[:MOST_NAME_CHARACTERS], new_id()
        file = file_id + disk_suffix(name)
        with self._opened(folder) as place:
            try:
                handle = new_file(place, file)
                try:
                    size, digest = _copy(source, handle, most_bytes)
                finally:
                    os.close(handle)
                stored = StoredFile(file_id, name, folder, file, type_by_name(name).media_type, size, digest)
                _write_whole(place, file_id + META, to_json(msgspec.to_builtins(stored)))
            except BaseException:
                for left in (file, file_id + META):
                    with suppress(OSError):
                        os.unlink(left, dir_fd=place)
                raise
        return stored

    def get(self, file_id: str) -> StoredFile:
        """Return the file of this id; `NotFound` for any id that is not one of this workspace."""
        for folder in FOLDERS if is_id(file_id) else ():
            with self._opened(folder) as place, suppress(FileNotFoundError):
                return self._note(place, folder, file_id + META)
        raise NotFound(f"the workspace of session {self.session!r:.120} has no file {file_id!r:.80}")

    def list(self, folder: Folder = "uploads") -> tuple[StoredFile, ...]:
        """Return the files that were put into a folder, by id. Files that tools wrote there themselves are not listed."""
        found: list[StoredFile] = []
        with self._opened(folder) as place:
            for name, _ in entries(place):
                if name.endswith(META) and is_id(name.removesuffix(META)):
                    found.append(self._note(place, folder, name))
        return tuple(found)

    def stream(self, file_id: str) -> BinaryIO:
        """Open the bytes of a file for reading; the caller closes the stream."""
        stored = self.get(file_id)
        with self._opened(stored.folder) as place:
            return os.fdopen(regular_file(stored.file, place), "rb")

    def link_skill(self, root: str | os.PathLike[str], folder: Sequence[str] = ()) -> LinkedSkill:
        """Put a read-only copy of a skill where the session may read it: of a folder, or of one below it.

        The same content is copied once.
        """
        with self._opened("skills") as place:
            return copy_skill(Path(root), folder, place, shown=self.folder("skills"))

    def folder(self, name: Folder) -> Path:
        """Return the path of a folder, for tools that write or read there themselves."""
        return self.path / name

    @property
    def path(self) -> Path:
        return self.root / folder_name(self.session)

    def source(self) -> "UploadSource":
        """Return the uploads of this workspace as a source of names for one session."""
        return UploadSource(self)

    @contextmanager
    def _opened(self, folder: str) -> Generator[int]:
        if folder not in FOLDERS:
            raise BadInput(f"a workspace has no folder {folder!r:.80}; it has {', '.join(FOLDERS)}")
        with (
            plain_errors(self.path),
            root_folder(self.root) as top,
            inside(top, folder_name(self.session)) as session,
            inside(session, folder) as place,
        ):
            yield place

    def _note(self, place: int, folder: str, name: str) -> StoredFile:
        with os.fdopen(regular_file(name, place), "rb") as note:
            stored = from_note(note.read(MOST_META_BYTES), f"{self.path}/{folder}/{name}")
        # Tools of the session can write notes: a note may not refer to any other file.
        if stored.folder != folder or stored.id + META != name or stored.file != stored.id + disk_suffix(stored.name):
            raise StoreCorrupt(f"{self.path}/{folder}/{name}", "the note of a stored file names another file")
        return stored


class UploadSource(ContextSource):
    """The names of attached files, which a user can mention."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @property
    def names(self) -> KnownNames:
        return KnownNames(files=frozenset(self._files))

    def attached(self, name: str, media_type: str) -> Mapping[str, tuple[str, ...]]:
        self._files.add(name)
        return {}

    @cached_property
    def _files(self) -> set[str]:
        """Names of the files attached so far, also before the session was opened again."""
        try:
            return {safe_file_name(file.name) for file in self._workspace.list()}
        except FovealError:  # cleaned, or damaged: `attach` says so
            return set()


def _write_card(folder: int, session: str) -> None:
    """Write the session's name, for people; or touch it, so that its age tells how long ago the session was opened."""
    with suppress(FileNotFoundError):
        handle = regular_file(CARD, folder)
        try:
            os.utime(handle)
        finally:
            os.close(handle)
        return
    _write_whole(folder, CARD, to_json({"session": session}))


def _write_whole(folder: int, name: str, data: bytes) -> None:
    """Write a small file that exists with all its bytes or not at all, also after a power cut."""
    unfinished = f"{new_id()}.part"
    handle = new_file(folder, unfinished)
    try:
        write_all(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _copy(source: FileSource, handle: int, most_bytes: int) -> tuple[int, str]:
    """Stream the source into an open file; return the number of bytes and their hash."""
    size, digest = 0, sha256()
    for chunk in _chunks(source):
        size += len(chunk)
        if size > most_bytes:
            raise BadInput(
                f"the file has more than {most_bytes:,} bytes, the most that is taken; nothing of it was kept"
            )
        digest.update(chunk)
        write_all(handle, chunk)
    os.fsync(handle)
    return size, digest.hexdigest()


def _chunks(source: FileSource) -> Iterator[bytes]:
    match source:
        case bytes():
            yield source
        case str() | os.PathLike():
            with open_source(source) as stream:
                yield from iter(lambda: stream.read(_CHUNK), b"")
        case _:
            while chunk := source.read(_CHUNK):
                if not isinstance(chunk, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise BadInput(f"the stream gives {type(chunk).__name__}; open the file in binary mode")
                yield chunk


def open_source(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file that the user named, for reading: a regular one, opened once, wherever its name leads later."""
    try:
        return os.fdopen(regular_file(os.fspath(path), follow=True), "rb")
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{os.fspath(path)!r:.200} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
