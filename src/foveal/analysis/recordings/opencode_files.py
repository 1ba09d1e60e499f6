"""The database and the folders in which opencode keeps its sessions, read and never written.

    ~/.local/share/opencode/opencode.db             tables session, message, part; the records are JSON in the column `data`
    ~/.local/share/opencode/storage/                older versions: one file for each record
        session/<project>/<session>.json
        message/<session>/<message>.json
        part/<message>/<part>.json

The database of a running opencode is read together with its log (`-wal`), by a connection that can change neither; one that was
left behind with its log alone is copied first, since SQLite would have to make a file beside it.
"""

import shutil
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import msgspec

from foveal.analysis.recordings.lines import decode_json
from foveal.dialects.json_values import JsonObject, NotUnderstood, expect_mapping, fields, string
from foveal.stores.database import Database
from foveal.stores.sqlite.connection import connect
from foveal.values.errors import BadRecording

_MAGIC = b"SQLite format 3\0"
_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
_BUSY_MS = 5_000


class StoredSession(msgspec.Struct, frozen=True):
    """The records of one session: messages in order, each with its parts."""

    id: str
    messages: Sequence[tuple[JsonObject, Sequence[JsonObject]]]
    notes: tuple[str, ...] = ()


def is_database(path: Path) -> bool:
    """Return whether the file is an SQLite database."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False  # the reader of lines says what is wrong with it


def is_storage(path: Path) -> bool:
    """Return whether this is the folder in which older versions keep their sessions."""
    return (path / "session").is_dir() and (path / "message").is_dir()


def stored_sessions(path: Path) -> Iterator[StoredSession]:
    """Yield the sessions of a database or of a folder of older versions, oldest first."""
    yield from _in_database(path) if is_database(path) else _in_storage(path)


def session_beside(file: str, info: JsonObject) -> StoredSession:
    """Return the session whose file this is, with the messages and parts that older versions keep beside it."""
    name = string(info.get("id")) or ""
    storage = Path(file).resolve().parents[2]
    if not is_storage(storage):
        raise NotUnderstood("its messages are not beside it; name the file where opencode keeps it, or an export of it")
    return _session_in(storage, name, info)


def _in_storage(storage: Path) -> Iterator[StoredSession]:
    for path in sorted(storage.glob("session/*/*.json"), key=lambda path: path.name, reverse=True):
        info = _json_file(path)  # opencode counts the ids of sessions downwards
        yield _session_in(storage, string(info.get("id")) or path.stem, info)


def _session_in(storage: Path, name: str, info: JsonObject) -> StoredSession:
    messages: list[tuple[JsonObject, Sequence[JsonObject]]] = []
    for path in _records(storage / "message" / name):
        parts = [_json_file(part) for part in _records(storage / "part" / path.stem)]
        messages.append((_json_file(path), parts))
    ids = [path.stem for path in _records(storage / "message" / name)]
    return _without_reverted(StoredSession(name, messages), ids, fields(info.get("revert")))


def _records(folder: Path) -> list[Path]:
    """Return the files of a folder in the order in which opencode made them: ids of messages and parts count upwards."""
    return sorted(folder.glob("*.json")) if folder.name else []


def _json_file(path: Path) -> JsonObject:
    try:
        return expect_mapping(decode_json(path.read_bytes()), "the record")
    except (OSError, ValueError) as problem:
        raise BadRecording(str(path), None, f"this record of opencode cannot be read ({problem})") from None


def _in_database(path: Path) -> Iterator[StoredSession]:
    try:
        with _opened(path) as db:
            newer = _counts(db, "session_message")
            for name, revert in db.execute("SELECT id, revert FROM session ORDER BY time_created, id").fetchall():
                yield _session_of(db, path, str(name), revert, newer)
    except apsw.Error as error:
        what = f"this is no database of opencode that can be read ({error})"
        raise BadRecording(str(path), None, what) from None


def _session_of(db: Database, path: Path, name: str, revert: object, newer: dict[str, int]) -> StoredSession:
    parts: dict[str, list[JsonObject]] = {}
    found = db.execute("SELECT message_id, id, data FROM part WHERE session_id = ? ORDER BY id", (name,))
    for message, part, data in found:
        parts.setdefault(str(message), []).append(_column(path, f"part {part}", data))
    rows = db.execute("SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (name,)).fetchall()
    messages = [(_column(path, f"message {row}", data), parts.get(str(row), [])) for row, data in rows]
    notes = [f"{newer[name]} messages are kept in a newer form that is not read"] if not rows and name in newer else []
    session = StoredSession(name, messages, tuple(notes))
    mark = _column(path, f"revert of session {name}", revert or "{}")
    return _without_reverted(session, [str(row) for row, _ in rows], mark)


def _without_reverted(session: StoredSession, ids: Sequence[str], revert: JsonObject) -> StoredSession:
    """Return the session without the messages that the user took back."""
    start = string(revert.get("messageID"))
    if start is None or start not in ids:
        return session
    place = list(ids).index(start)
    note = f"{len(ids) - place} messages that were taken back (revert) were left out"
    return StoredSession(session.id, session.messages[:place], (*session.notes, note))


def _counts(db: Database, table: str) -> dict[str, int]:
    """Return how many rows each session has in a table that not every version has."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone():
        return {}
    rows: Iterable[tuple[str, int]] = db.execute(f"SELECT session_id, count(*) FROM {table} GROUP BY 1").fetchall()  # noqa: S608
    return dict(rows)


def _column(path: Path, what: str, data: object) -> JsonObject:
    try:
        return expect_mapping(decode_json(data.encode() if isinstance(data, str) else b""), "the record")
    except (ValueError, NotUnderstood) as problem:
        raise BadRecording(str(path), None, f"{what} cannot be read ({problem})") from None


@contextmanager
def _opened(path: Path) -> Generator[Database]:
    """Open the database so that nothing is written to it and no file is made beside it."""
    log, index = path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
    if not log.exists():
        with closing(connect(f"{path.resolve().as_uri()}?immutable=1", flags=_READ_ONLY)) as db:
            yield db
    elif index.exists():
        with closing(connect(f"{path.resolve().as_uri()}?mode=ro", flags=_READ_ONLY)) as db:
            db.set_busy_timeout(_BUSY_MS)
            yield db
    else:
        with TemporaryDirectory(prefix="foveal-") as folder:
            copy = Path(folder) / path.name
            shutil.copyfile(path, copy)
            shutil.copyfile(log, copy.with_name(log.name))
            with closing(connect(copy)) as db:
                yield db
