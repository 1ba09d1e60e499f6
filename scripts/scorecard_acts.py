"""The acts that figures about disks break off at each of their calls, beside appends: deletions, imports, backups, upgrades and a
vacuum. After each, all of it was done, or nothing."""

import lzma
import shutil
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import crash_test

from foveal.recall.search import search
from foveal.stores.artifacts import artifacts_folder
from foveal.stores.deletion import delete_sessions
from foveal.stores.portable import export_session, import_session
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.backup import back_up
from foveal.stores.sqlite.doctor import STRAY, examine
from foveal.stores.sqlite.index import index_file
from foveal.stores.unnamed_artifacts import vacuum_store
from foveal.values.errors import NotFound, StoreError

FIXTURES = Path(__file__).parents[1] / "tests" / "stores" / "fixtures"
LOG, COPY = "log.db", "copy.db"
KEPT, GONE, NEW = "kept", "gone", "new"
CANARY = "777"
"""The run of the session that is deleted: with a dot, it is in each of its entries and artifacts."""


class Act(NamedTuple):
    """Something that is done to a store, from files that were made before."""

    make: Callable[[Path], None]
    """Makes the files in a folder."""
    do: Callable[[Path], Any]
    """Does it to the files in a folder, in the way of a program; returns a false value if it says that something is left."""
    check: Callable[[Path, bool], list[str]]
    """Returns what is wrong afterwards, given whether it was done to its end."""


def _names(run: str) -> list[list[str]]:
    return [[f"{run}.{number}.{index}of2" for index in range(2)] for number in range(3)]


def _make_store(folder: Path) -> None:
    """Make a store with two sessions, each with messages, an artifact, a fold and an index."""
    with SqliteStore(folder / LOG) as store:
        for session, run in ((KEPT, "1"), (GONE, CANARY)):
            writer = store.acquire(session)
            for names, kind in zip(_names(run), ("message", "artifact", "fold"), strict=True):
                crash_test.append(store, writer, names, kind)
            writer.release()
            search(store, session, "line of output")


def _problems(path: Path, **sessions: str) -> list[str]:
    """Return what an audit finds in a store that must have these sessions, each of a run."""
    return crash_test.audit(path, {session: _names(run) for session, run in sessions.items()})["problems"]


def _sessions(path: Path) -> dict[str, int]:
    with SqliteStore(path) as store:
        return {card.id: card.entries for card in store.cards()}


def _bytes_left(folder: Path) -> list[str]:
    """Return the files of a folder that hold bytes of the session that was deleted."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if f"{CANARY}.".encode() in path.read_bytes()]


# Deletion


def _delete(folder: Path) -> bool:
    with SqliteStore(folder / LOG) as store:
        gone = delete_sessions(store, [GONE])
    return not (gone.left or gone.put_again)


def _check_deletion(folder: Path, is_done: bool) -> list[str]:
    path = folder / LOG
    if GONE in _sessions(path):
        return [*(["the session is there"] if is_done else []), *_problems(path, kept="1", gone=CANARY)]
    if not is_done:
        with SqliteStore(path) as store:  # it was broken off: this is what its error, and `foveal store rm`, say to do
            vacuum_store(store)
    left = [name for name in _bytes_left(folder) if is_done or name.startswith(LOG)]
    index = index_file(path, GONE)
    left += [index.name] if is_done and index.exists() and index.stat().st_size else []
    return [*(f"bytes of it are in {name}" for name in left), *_problems(path, kept="1")]


# Import


def _exported(log: Path) -> bytes:
    stream = BytesIO()
    with SqliteStore(log) as store:
        export_session(store, KEPT, stream)
    return stream.getvalue()


def _make_import(folder: Path) -> None:
    _make_store(folder)
    (folder / "session.jsonl").write_bytes(_exported(folder / LOG))


def _import(folder: Path) -> bool:
    with SqliteStore(folder / LOG) as store, (folder / "session.jsonl").open("rb") as stream:
        import_session(store, stream, name=NEW)
    return True


def _check_import(folder: Path, is_done: bool) -> list[str]:
    path = folder / LOG
    if not _sessions(path).get(NEW):
        if is_done:
            return ["the session is not there"]
        _import(folder)
    return _problems(path, kept="1", gone=CANARY, new="1")


# Backup


def _back_up(folder: Path) -> bool:
    return not back_up(folder / LOG, folder / COPY).damage


def _check_backup(folder: Path, is_done: bool) -> list[str]:
    found = _problems(folder / LOG, kept="1", gone=CANARY)
    if not (folder / COPY).exists():
        if is_done:
            return [*found, "there is no copy"]
        if artifacts_folder(folder / COPY).exists():
            shutil.rmtree(
                artifacts_folder(folder / COPY)
            )  # which a killed one had put there, and the next one asks for
        _back_up(folder)
    return [*found, *(f"of the copy: {problem}" for problem in _problems(folder / COPY, kept="1", gone=CANARY))]


# Vacuum


def _vacuum(folder: Path) -> bool:
    with SqliteStore(folder / LOG) as store:
        vacuum_store(store)
    return True


def _check_vacuum(folder: Path, _is_done: bool) -> list[str]:
    return _problems(folder / LOG, kept="1", gone=CANARY)


# Upgrade


def _make_old(folder: Path) -> None:
    """Extract the store of a version whose tables were others."""
    with tarfile.open(FIXTURES / "store-0.1.0.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    (folder / "agent.db").rename(folder / LOG)
    artifacts_folder(folder / "agent.db").rename(artifacts_folder(folder / LOG))


def _make_schema_3(folder: Path) -> None:
    (folder / LOG).write_bytes(lzma.decompress((FIXTURES / "schema-3.db.xz").read_bytes()))


def _upgrade(folder: Path) -> bool:
    SqliteStore(folder / LOG).close()
    return True


def _rows(folder: Path) -> dict[str, list[Any]]:
    with SqliteStore(folder / LOG) as store:
        return {card.id: list(store.rows(card.id)) for card in store.cards()}


@cache
def _rows_once_upgraded(make: Callable[[Path], None], place: Path) -> dict[str, list[Any]]:
    place.mkdir(exist_ok=True)
    make(place)
    return _rows(place)


def _check_upgrade(make: Callable[[Path], None]) -> Callable[[Path, bool], list[str]]:
    def check(folder: Path, _is_done: bool) -> list[str]:
        wanted = _rows_once_upgraded(make, folder.parent / f"whole {make.__name__}")
        found = ["the rows are others"] if _rows(folder) != wanted else []
        return [*found, *(str(one) for one in examine(folder / LOG).damage if one.what != STRAY)]

    return check


ACTS = {
    "delete": Act(_make_store, _delete, _check_deletion),
    "import": Act(_make_import, _import, _check_import),
    "backup": Act(_make_store, _back_up, _check_backup),
    "vacuum": Act(_make_store, _vacuum, _check_vacuum),
    "upgrade of 0.1.0": Act(_make_old, _upgrade, _check_upgrade(_make_old)),
    "upgrade of schema 3": Act(_make_schema_3, _upgrade, _check_upgrade(_make_schema_3)),
}


class Stage:
    """A folder in which acts are prepared once, and copied for each case."""

    def __init__(self, place: Path) -> None:
        self._place, self._cases = place, 0
        for name, act in ACTS.items():
            (place / name).mkdir(parents=True)
            act.make(place / name)

    def new(self, name: str = "") -> Path:
        """Return a folder with the files of an act, or without any."""
        self._cases += 1
        folder = self._place / f"case {self._cases}"
        if name:
            shutil.copytree(self._place / name, folder)
        else:
            folder.mkdir()
        return folder


def checked(name: str, folder: Path, *, is_done: bool) -> Iterator[str]:
    """Yield what is wrong after an act was done, or broken off; then remove its files."""
    try:
        yield from ACTS[name].check(folder, is_done)
    except (StoreError, NotFound) as error:
        yield f"it does not go on: {error!r}"
    shutil.rmtree(folder)
