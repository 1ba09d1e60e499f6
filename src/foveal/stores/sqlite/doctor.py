"""The doctor of store files: it finds damage, and saves the sound rest.

`examine` reads everything and changes nothing. `salvage` writes a new store beside the damaged one: every row whose content
is proven (or at least not disproven), and a note in the place of lost rows, so that a reader of the log sees the hole. Deleted
sessions stay deleted.

A file that SQLite would not open, or would read without the end of its WAL, is read as an image: a copy, put together from
everything that the file and its WAL still have.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from foveal.stores.artifacts import FileArtifacts, artifacts_folder, copy_unread
from foveal.stores.checks import check_drafts, check_session
from foveal.stores.database import Database, Raw
from foveal.stores.examination import Damage, Report
from foveal.stores.format import APPLICATION_ID, ENCRYPTED, ENVELOPE, SCHEMA_VERSION
from foveal.stores.port import Draft, KeptNote
from foveal.stores.references import artifacts_in
from foveal.stores.session_artifacts import plain_artifacts
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.connection import connect_memory, resolved
from foveal.stores.sqlite.errors import BROKEN, check_version, translated
from foveal.stores.sqlite.new_file import new_store_file
from foveal.stores.sqlite.opening import connect_configured, identity, missing_wal, open_reader
from foveal.stores.sqlite.records import RECORD_COLUMNS, Record
from foveal.stores.sqlite.row_checks import (
    LAYOUTS,
    Layout,
    RowCheck,
    SessionCheck,
    check_rows,
    check_sessions,
    deleted_keys,
    readable,
    session_keys,
)
from foveal.stores.sqlite.schema import TABLES
from foveal.stores.sqlite.tables import (
    LABEL_COLUMNS,
    LEASE_COLUMNS,
    NOTE_COLUMNS,
    SCOPE_COLUMNS,
    TOMBSTONE_COLUMNS,
    Tables,
    is_sealed,
    tombstone,
)
from foveal.stores.sqlite.wal import RestState, newest_image, opening
from foveal.stores.tenants import owners_of
from foveal.values.codec import decode, encode
from foveal.values.entry import Body, Note
from foveal.values.errors import BadEntry, BadInput, NotFound, StoreCorrupt, StoreError

STRAY = "a temporary file that a dead writer left behind"
_BUSY_S = 5.0
_ENTRY_COLUMNS = "SELECT place, session, seq, id, parent, time_ms, author, hash, payload FROM entries"
_COMMIT_ROWS = 500


@dataclass(slots=True)
class _Findings:
    entries: int = 0
    artifacts: int = 0
    damage: list[Damage] = field(default_factory=list[Damage])
    named: dict[tuple[tuple[str | None, ...], str], tuple[str, str]] = field(
        default_factory=dict[tuple[tuple[str | None, ...], str], tuple[str, str]]
    )
    """Each artifact that a row refers to, by its possible owners and its name, with the first such session and row."""
    has_encrypted: bool = False
    """Whether there are rows whose artifacts only their keys could name."""
    encrypted: int = 0
    """Sessions that have a data key."""
    names: list[str] = field(default_factory=list[str])
    scopes: dict[str, None] = field(default_factory=dict[str, None])

    def say(self, place: str, what: str) -> None:
        self.damage.append(Damage(place, what))

    def note_artifacts(self, suspect: SessionCheck, verdict: RowCheck, body: Body | None) -> None:
        self.has_encrypted |= body is None and verdict.row is not None
        for sha in () if body is None else artifacts_in(body):
            session = suspect.record.id
            self.named.setdefault((owners_of(session), sha), (session, f"session {session}, entry {verdict.seq}"))

    def report(self, path: Path) -> Report:
        counts = len(self.names), self.entries, self.artifacts
        return Report(str(path), *counts, tuple(self.damage), tuple(self.names), tuple(self.scopes), self.encrypted)


def examine(path: str | PathLike[str]) -> Report:
    """Check every byte that matters: tables, chains, payloads, snapshots and artifacts. Nothing is changed."""
    place = resolved(path)
    findings = _Findings()
    with _opened(place) as (db, layout, problems):
        for what in problems:
            findings.say(str(place), what)
        _examine_file(db, place, findings, layout)
        for suspect in check_sessions(db, layout):
            findings.names.append(suspect.record.id)
            findings.encrypted += suspect.record.secret.startswith(ENVELOPE)
            if suspect.record.scope is not None:
                findings.scopes[suspect.record.scope] = None
            already = len(findings.damage)
            for what in suspect.problems:
                findings.say(f"session {suspect.record.id}", what)
            _examine_rows(db, suspect, findings, layout)
            if layout.has_lists:
                if len(findings.damage) == already:
                    _examine_end(db, place, suspect, findings)
                _examine_snapshot(db, place, suspect, findings)
        if layout.has_lists:
            _examine_lists(db, place, findings, layout)
    artifacts = FileArtifacts(artifacts_folder(place))
    _examine_artifacts(artifacts, findings)
    for stray in artifacts.strays():
        findings.say(str(stray), STRAY)
    return findings.report(place)


def salvage(path: str | PathLike[str], target: str | PathLike[str]) -> Report:
    """Copy everything that is whole into a new store at `target`, which has its name only when it has all of that. The original
    is only read."""
    place, copy = resolved(path), resolved(target)
    findings = _Findings()
    with new_store_file(copy) as file, _opened(place) as (db, layout, problems), SqliteStore(file) as store:
        for what in problems:
            findings.say(str(place), what)
        store.adopt([tombstone(raw) for raw in readable(db, TOMBSTONE_COLUMNS) if is_sealed(raw)])
        for suspect in check_sessions(db, layout):
            _salvage_session(db, store, suspect, findings, layout)
        if layout.has_lists:
            _salvage_notes(db, store)
        if layout.has_labels:
            _salvage_labels(db, store, place)
        _salvage_artifacts(FileArtifacts(artifacts_folder(place)), store, findings)
    return findings.report(copy)


def sweep(path: str | PathLike[str]) -> int:
    """Remove the temporary files that dead writers left beside the store at `path`, and return how many there were."""
    return FileArtifacts(artifacts_folder(resolved(path))).sweep()


@contextmanager
def _opened(path: Path) -> Generator[tuple[Database, Layout, list[str]]]:
    """Yield a connection to the store, or to an image of it, the layout of its tables, and the problems of its files."""
    if not path.is_file():
        raise StoreError(f"{path} is not a file; name the file of a store.")
    with ExitStack() as stack:
        with opening(path) as (state, held):
            stack.callback(held.close)
            problems = [state.problem] if state.problem else []
            db = None if problems else _connected(path, stack)
        if db is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="foveal-doctor-")))
            db = _connected_image(path, folder, stack)
            problems = problems or ["the file is cut off, or its first page is damaged"]
        version = _version(db, path)
        if LAYOUTS[version].has_lists and (what := _missing_wal(db, path, state)):
            problems.append(what)
        try:
            yield db, LAYOUTS[version], problems
        except apsw.Error as error:
            raise translated(error, db, path) from error


def _connected(path: Path, stack: ExitStack) -> Database | None:
    """Open the file as it is; None if SQLite cannot."""
    try:
        db = open_reader(path, _BUSY_S, is_writable=False)
        stack.callback(db.close, True)
        _check_columns(db)
        db.execute("BEGIN")
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError):
        return None
    except apsw.Error as error:
        raise translated(error, None, path) from error
    return db


def _connected_image(path: Path, folder: Path, stack: ExitStack) -> Database:
    """Open the image of a damaged store, with a first page of our own if it has none that can be read."""
    image = folder / "image.db"
    data = newest_image(path)
    for first_page in (b"", _first_page(folder)):
        image.write_bytes(first_page + data[len(first_page) :])
        try:
            db = connect_configured(image, _BUSY_S, flags=apsw.SQLITE_OPEN_READWRITE)
            stack.callback(db.close, True)
            _check_columns(db)
            if first_page:
                Tables(db, path).first_record()  # else this is no store, whose tables now seem to be there
        except (*BROKEN, StoreCorrupt):
            continue
        return db
    raise StoreError(
        f"{path} is not a Foveal store: it is not an SQLite database, and its pages are not those of a store."
    )


def _check_columns(db: Database) -> None:
    """Raise SQLite's error if a store's tables do not have their columns; other databases are told apart later."""
    application, version, _ = identity(db)
    if application == APPLICATION_ID and version in LAYOUTS:
        layout = LAYOUTS[version]
        sealed = (TOMBSTONE_COLUMNS, LEASE_COLUMNS, SCOPE_COLUMNS, NOTE_COLUMNS) if layout.has_lists else ()
        labels = (LABEL_COLUMNS,) if layout.has_labels else ()
        for query in (layout.columns, _ENTRY_COLUMNS, *sealed, *labels):
            db.execute(f"{query} LIMIT 0")


def _first_page(folder: Path) -> bytes:
    """Return the first page of a new store: it lists the tables, and is the same in every store that was not upgraded."""
    template = folder / "template.db"
    SqliteStore(template).close()
    page = bytearray(template.read_bytes()[:4096])
    page[18:20] = b"\1\1"  # no WAL
    page[28:40] = bytes(12)  # no size, and no free pages
    return bytes(page)


def _version(db: Database, path: Path) -> int:
    try:
        _, version, _ = identity(db)
        tables = {raw[0] for raw in db.execute("SELECT name FROM sqlite_schema")}
    except apsw.CorruptError:
        return SCHEMA_VERSION  # even the list of tables is damaged: the examination reports it
    check_version(path, db)
    if not tables & {"sessions", "entries"}:
        raise StoreError(f"{path} is an SQLite database, but not a Foveal store.")
    return version if version in LAYOUTS else SCHEMA_VERSION


def _missing_wal(db: Database, path: Path, state: RestState) -> str:
    try:
        return missing_wal(db, path, state)
    except BROKEN:
        return ""  # the table is damaged, which the examination reports


def _examine_file(db: Database, path: Path, findings: _Findings, layout: Layout) -> None:
    try:
        application, version, _ = identity(db)
        if application != APPLICATION_ID:
            findings.say(str(path), f"its application id is {application:#x}, not {APPLICATION_ID:#x}")
        if version not in LAYOUTS:
            findings.say(str(path), f"its schema version is {version}, which no Foveal wrote")
        if layout.has_labels and _schema(db) != _expected_schema():
            findings.say(str(path), "its tables, indexes or triggers are not those of a Foveal store")
        for raw in db.execute("PRAGMA integrity_check"):
            if raw[0] != "ok":
                findings.say(str(path), f"SQLite: {raw[0]}")
        for raw in db.execute("PRAGMA foreign_key_check"):
            findings.say(str(path), f"row {raw[1]} of {raw[0]} belongs to no session")
    except BROKEN as error:
        findings.say(str(path), f"SQLite: {error}")


def _schema(db: Database) -> list[Raw]:
    return sorted(db.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema"))


def _expected_schema() -> list[Raw]:
    db = connect_memory()
    for statement in TABLES:
        db.execute(statement)
    try:
        return _schema(db)
    finally:
        db.close()


def _examine_lists(db: Database, path: Path, findings: _Findings, layout: Layout) -> None:
    """Report sessions that are missing without a trace, and damaged labels, tombstones and leases."""
    tables = Tables(db, path)
    known = session_keys(db) | deleted_keys(db)
    try:
        lost = sorted(set(range(1, tables.first_record().entries + 1)) - known)
        if lost:
            findings.say(
                str(path), f"{len(lost)} sessions are neither there nor deleted: number {lost[0]} was one of them"
            )
        tables.records()
        if layout.has_labels:
            tables.labels()
    except StoreCorrupt as error:
        findings.say(error.place, error.what)
    except BROKEN as error:
        findings.say(str(path), f"SQLite: {error}")
    sealed = {
        "a tombstone": TOMBSTONE_COLUMNS,
        "a lease": LEASE_COLUMNS,
        "a scope": SCOPE_COLUMNS,
        "a note": NOTE_COLUMNS,
    }
    for what, query in sealed.items():
        damaged = sum(not is_sealed(raw) for raw in readable(db, query))
        if damaged:
            findings.say(str(path), f"{what} does not match its seal ({damaged} of them)")


def _examine_rows(db: Database, suspect: SessionCheck, findings: _Findings, layout: Layout) -> None:
    for what, run in groupby(_checked_rows(db, suspect, layout), key=lambda item: item[0].what):
        first = last = 0
        for verdict, body in run:
            first, last = first or verdict.seq, verdict.upto
            findings.entries += verdict.row is not None
            findings.note_artifacts(suspect, verdict, body)
        if what:
            findings.say(f"session {suspect.record.id}, {_span(first, last)}", what)


def _examine_end(db: Database, path: Path, suspect: SessionCheck, findings: _Findings) -> None:
    """Report a log that is sound in itself, but ends elsewhere than its record says."""
    try:
        Tables(db, path).check_end(suspect.record)
    except StoreCorrupt as error:
        findings.say(error.place, error.what)
    except BROKEN as error:
        findings.say(f"session {suspect.record.id}", f"SQLite: {error}")


def _checked_rows(db: Database, suspect: SessionCheck, layout: Layout) -> Iterator[tuple[RowCheck, Body | None]]:
    """Yield the check of each row with its decoded body: a row must also be an entry, which the hashes cannot tell."""
    seen: set[str] = set()
    for verdict in check_rows(db, suspect, layout):
        row = verdict.row
        if row is None:
            yield verdict, None
            continue
        try:
            check_drafts([Draft(row.id, row.parent, row.time_ms, row.author, row.payload)])
            if row.id in seen:
                raise BadEntry("its id stands in the log already")
            body = None if row.payload.startswith(ENCRYPTED) else decode(row.payload)
        except BadEntry as error:
            yield RowCheck(verdict.seq, None, str(error), verdict.seq), None
            continue
        seen.add(row.id)
        yield verdict, body


def _examine_snapshot(db: Database, path: Path, suspect: SessionCheck, findings: _Findings) -> None:
    try:
        kept = db.execute("SELECT 1 FROM snapshots WHERE session = ?", (suspect.record.key,)).fetchone()
        is_bad = kept is not None and Tables(db, path).snapshot(suspect.record) is None
    except BROKEN:
        is_bad = True
    if is_bad:
        findings.say(
            f"session {suspect.record.id}, snapshot", "it is damaged; it is ignored, and replaced by the next one"
        )


def _examine_artifacts(artifacts: FileArtifacts, findings: _Findings) -> None:
    for (_, sha), (session, place) in findings.named.items():
        try:
            for _ in plain_artifacts(artifacts, session).read(sha):
                pass
            findings.artifacts += 1
        except (BadInput, StoreError) as error:
            findings.say(place, f"the artifact that it names is damaged or missing: {error}")


def _salvage_session(
    db: Database, store: SqliteStore, suspect: SessionCheck, findings: _Findings, layout: Layout
) -> None:
    session = _usable_name(suspect, store)
    for what in suspect.problems:
        findings.say(f"session {session}", what)
    known = None if suspect.problems else suspect.record
    writer = store.acquire(session, secret=known and known.secret, scope=known and known.scope)
    findings.names.append(session)
    relinked = _Relinked(session)
    drafts: list[Draft] = []
    for is_lost, run in groupby(_checked_rows(db, suspect, layout), key=lambda item: item[0].row is None):
        if is_lost:
            lost = [verdict for verdict, _ in run]
            findings.say(f"session {session}, {_span(lost[0].seq, lost[-1].upto)}", lost[0].what)
            drafts.append(relinked.note(lost[0], lost[-1]))
            continue
        for verdict, body in run:
            findings.entries += 1
            findings.note_artifacts(suspect, verdict, body)
            if verdict.what:
                findings.say(f"session {session}, entry {verdict.seq}", f"{verdict.what}; it was kept")
            drafts.append(relinked.copy(verdict))
            if len(drafts) >= _COMMIT_ROWS:
                writer.append(drafts)
                drafts = []
    writer.append(drafts)
    writer.release()


def _salvage_notes(db: Database, store: SqliteStore) -> None:
    """Copy the notes that are whole, of sessions that are known to be in their scope."""
    names = {raw[0]: raw[1] for raw in readable(db, RECORD_COLUMNS) if is_sealed(raw)}
    for raw in readable(db, NOTE_COLUMNS):
        scope, key, text, session, author, time_ms, _ = raw
        if is_sealed(raw) and session in names:
            with suppress(NotFound):  # its session was salvaged under another name, or without its scope
                store.scope(scope).keep(KeptNote(key, text, names[session], author, time_ms))


def _salvage_labels(db: Database, store: SqliteStore, path: Path) -> None:
    """Copy the labels that are whole, of sessions whose names could be read."""
    for raw in readable(db, RECORD_COLUMNS):
        if is_sealed(raw) and raw[0]:
            with suppress(StoreCorrupt, NotFound, *BROKEN):
                labels = Tables(db, path).labels_of(Record(*raw[:-1]))
                store.entitle(raw[1], labels.title)
                store.tag(raw[1], add=labels.tags)


def _usable_name(suspect: SessionCheck, store: SqliteStore) -> str:
    name = suspect.record.id
    try:
        check_session(name)
    except BadInput:
        name = f"lost-session-{suspect.record.key}"
    return f"{name}-{suspect.record.key}" if store.cards(name) else name


class _Relinked:
    """The rows of a session as they are written to the new log, each after its parent."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._ids: set[str] = set()
        self._end: Draft | None = None
        self._hole: str | None = None

    def copy(self, verdict: RowCheck) -> Draft:
        row = verdict.row
        if row is None:
            raise ValueError("a lost row cannot be copied")
        is_orphan = row.parent is not None and row.parent not in self._ids and self._hole is not None
        return self._added(Draft(row.id, self._hole if is_orphan else row.parent, row.time_ms, row.author, row.payload))

    def note(self, first: RowCheck, last: RowCheck) -> Draft:
        """Return the note that is written in the place of lost rows; the same rows give the same note."""
        span = _span(first.seq, last.upto)
        name = "lost-" + sha256(f"{self._session}\0{first.seq}\0{last.upto}".encode()).hexdigest()[:24]
        parent, time_ms = (None, 0) if self._end is None else (self._end.id, self._end.time_ms)
        text = f"Lost to damage and not salvaged: {span} of session {self._session} ({first.what})."
        self._hole = name
        return self._added(Draft(name, parent, time_ms, "doctor", encode(Note(text))))

    def _added(self, draft: Draft) -> Draft:
        self._ids.add(draft.id)
        self._end = draft
        return draft


def _salvage_artifacts(source: FileArtifacts, store: SqliteStore, findings: _Findings) -> None:
    if findings.has_encrypted:
        findings.artifacts += copy_unread(source, store.artifacts)
        return
    for (_, sha), (session, place) in findings.named.items():
        try:
            store.artifacts_for(session).put(plain_artifacts(source, session).read(sha))
            findings.artifacts += 1
        except (NotFound, BadInput, StoreCorrupt) as error:
            findings.say(place, f"the artifact that it names could not be salvaged: {error}")


def _span(first: int, last: int) -> str:
    return f"entry {first}" if first == last else f"entries {first} to {last}"
