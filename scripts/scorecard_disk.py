"""Figures about the calls that change a disk: each of them fails, and each is the place of a kill."""

import errno
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
import crash_test
import msgspec
from scorecard_parts import Failures, Figure, Plant, Tried, folder_in_memory, in_child, planted

from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore, transactions
from foveal.stores.sqlite.group_commit import GroupCommit
from foveal.values.errors import FovealError, StoreError

BEFORE, HALFWAY = "before", "halfway"
_write = os.write


class Disk(apsw.VFS):
    """The disk below SQLite and below artifacts: it fails at a call, once or from then on, or its process is killed there."""

    def __init__(self) -> None:
        super().__init__("failing", "unix", makedefault=True)
        self.heal()

    def heal(self) -> None:
        """Fail no more, and count the calls anew."""
        self.calls, self.at, self.is_lasting, self.number, self.kill = 0, 0, False, 0, ""
        self.syncs, self.sync_s = 0, 0.0

    def is_hit(self) -> bool:
        """Count a call, and return whether it fails."""
        self.calls += 1
        is_hit = bool(self.at) and (self.calls >= self.at if self.is_lasting else self.calls == self.at)
        if is_hit and self.kill == BEFORE:
            self.end()
        return is_hit

    def end(self) -> None:
        """Kill this process, if that is what happens at the call."""
        if self.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    def error(self) -> OSError:
        """Return the error of a call that failed; a process that is to be killed halfway through it ends here."""
        self.end()
        return OSError(self.number, os.strerror(self.number))

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        """Open a file on this disk."""
        return DiskFile(self, name, flags)


class DiskFile(apsw.VFSFile):
    """A file on a disk that fails."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        """Write; a call that fails for want of the disk has written half."""
        if self._disk.is_hit():
            super().xWrite(data[: len(data) // 2], offset)
            raise self._error(apsw.SQLITE_IOERR_WRITE)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        """Sync, and take as long as the disk does."""
        self._disk.syncs += 1
        time.sleep(self._disk.sync_s)
        if self._disk.is_hit():
            if self._disk.kill:
                super().xSync(flags)
            raise self._error(apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        """Truncate."""
        if self._disk.is_hit():
            raise self._error(apsw.SQLITE_IOERR_TRUNCATE)
        super().xTruncate(newsize)

    def _error(self, code: int) -> Exception:
        self._disk.end()
        if self._disk.number == errno.ENOSPC:
            return apsw.FullError("database or disk is full")
        error = apsw.IOError("disk I/O error")
        error.extendedresult = code  # type: ignore[attr-defined]
        return error


@contextmanager
def _failing_calls(disk: Disk) -> Iterator[None]:
    """Let the calls that write artifacts fail with the disk."""

    def failing_write(handle: int, data: Any) -> int:
        if not disk.is_hit():
            return _write(handle, data)
        _write(handle, bytes(data)[: len(data) // 2])
        raise disk.error()

    def failing(real: Callable[..., None]) -> Callable[..., None]:
        def call(*given: Any, **options: Any) -> None:
            if disk.is_hit():
                raise disk.error()
            real(*given, **options)

        return call

    names = ("fsync", "replace", "mkdir")
    with ExitStack() as stack:
        stack.enter_context(patch.object(os, "write", failing_write))
        for name in names:
            stack.enter_context(patch.object(os, name, failing(getattr(os, name))))
        yield


def _work(path: Path, failures: Failures) -> tuple[list[str], list[str]]:
    """Write ten entries and two artifacts; return the entries and the artifacts that were acknowledged."""
    entries, artifacts = list[str](), list[str]()

    def attempt(act: Callable[[], object]) -> Any:
        try:
            return act()
        except FovealError:
            return None
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error} is no error of ours")
            return None

    store: SqliteStore | None = attempt(lambda: SqliteStore(path))
    if store is None:
        return entries, artifacts
    writer = attempt(lambda: store.acquire("s"))
    for number in range(10 if writer else 0):
        draft = Draft(f"e{number}", None, 1, "me", bytes([number]) * 3_000)
        if attempt(lambda draft=draft: writer.append([draft], snapshot=b"view" * 50)):
            entries.append(draft.id)
        if number % 5 == 2 and (card := attempt(lambda n=number: store.artifacts.put([bytes([n]) * 70_000]))):
            artifacts.append(card.sha256)
    attempt(store.close)
    return entries, artifacts


def disk_errors(cases: int, seed: int) -> Tried:
    """Let each call that writes fail, once or for good: errors are ours, nothing acknowledged is lost, and the store goes on."""
    failures, disk = Failures(), Disk()
    with folder_in_memory() as folder, _failing_calls(disk):
        _work(folder / "whole.db", failures)
        ways = [*product(range(1, disk.calls + 1), (errno.EIO, errno.ENOSPC), (False, True))]
        chosen = random.Random(seed).sample(ways, min(cases, len(ways)))
        for case, (at, number, is_lasting) in enumerate(chosen):
            found, path = Failures(), folder / f"{case}.db"
            disk.heal()
            disk.at, disk.number, disk.is_lasting = at, number, is_lasting
            entries, artifacts = _work(path, found)
            disk.heal()
            found += _after(path, entries, artifacts)
            lasts = "from then on" if is_lasting else "once"
            failures += [f"{errno.errorcode[number]} at call {at}, {lasts}: {one}" for one in found]
    return Tried(len(chosen), failures)


def _after(path: Path, entries: list[str], artifacts: list[str]) -> Failures:
    """Return the promises that a store breaks once its disk works again."""
    try:
        with SqliteStore(path) as store:
            writer = store.acquire("s", takeover=True)
            there = [row.id for row in store.rows("s")]
            for name in artifacts:
                list(store.artifacts.read(name))
            writer.append([Draft("last", None, 1, "me", b"x")])
    except StoreError as error:
        return [f"it does not go on: {error}"]
    return [] if [one for one in there if one in entries] == entries else [f"{entries} acknowledged, {there} there"]


# Each call as the place of a kill

LIFE = {"message": 4, "artifact": 3, "fold": 3}
"""Appends of each kind in a life; a store is new, or was left by a writer that was killed."""


def _live(path: Path, pipe: int, run: int, kind: str) -> None:
    """Append to a session, write a line for each append that returned, and close."""
    store = SqliteStore(path)
    writer = store.acquire("one", takeover=True)
    for number in range(LIFE[kind]):
        names = [f"{run}.{number}.{index}of2" for index in range(2)]
        line = f"one {' '.join(names)}\n".encode()
        if "early answer" in planted:
            _write(pipe, line)
        crash_test.append(store, writer, names, kind)
        if "early answer" not in planted:
            _write(pipe, line)
    writer.release()
    store.close()


def _killed_life(disk: Disk, path: Path, life: tuple[int, str], at: int, kill: str) -> tuple[list[list[str]], int]:
    """Let a writer live that is killed at a call; return the appends that it acknowledged, and the calls of a life that ended."""
    disk.heal()
    disk.at, disk.kill = at, kill

    def live(pipe: int) -> None:
        with _failing_calls(disk):
            _live(path, pipe, *life)
        crash_test.send(pipe, f"calls {disk.calls}\n".encode())

    pid, pipe = crash_test.in_child(live)
    with os.fdopen(pipe) as said:
        lines = [line.split() for line in said]
    os.waitpid(pid, 0)
    disk.heal()
    calls = next((int(words[1]) for words in lines if words[0] == "calls"), 0)
    return [words[1:] for words in lines if words[0] == "one"], calls


def kill_places(cases: int, seed: int) -> Tried:
    """Kill a writer before each call that changes the disk, and halfway through it: nothing acknowledged is lost or torn."""
    failures, disk = Failures(), Disk()
    with folder_in_memory() as folder:
        lengths = {kind: _killed_life(disk, folder / f"{kind}.db", (1, kind), 0, BEFORE)[1] for kind in LIFE}
        ways = [
            (kind, is_left, at, kill)
            for kind, is_left, kill in product(LIFE, (False, True), (BEFORE, HALFWAY))
            for at in range(1, lengths[kind] + 1)
        ]
        chosen = random.Random(seed).sample(ways, min(cases, len(ways)))
        for case, (kind, is_left, at, kill) in enumerate(chosen):
            path, acknowledged = folder / f"{case}" / "log.db", list[list[str]]()
            path.parent.mkdir()
            if is_left:
                acknowledged += _killed_life(disk, path, (1, kind), lengths[kind] * 2 // 3, BEFORE)[0]
            acknowledged += _killed_life(disk, path, (2, kind), at, kill)[0]
            where = f"{kind}, {'left by a kill' if is_left else 'new'}, {kill} call {at}"
            found = crash_test.audit(path, {"one": acknowledged} if acknowledged else {}) if path.exists() else {}
            failures += [f"{where}: {problem}" for problem in found.get("problems", ())]
            if acknowledged and not path.exists():
                failures.append(f"{where}: there is no store")
    return Tried(len(chosen), failures)


# Plants


def _careless_commit() -> None:
    """Let an error of the disk pass for success."""
    real = GroupCommit._commit

    def careless(self: GroupCommit, tickets: Any) -> None:
        real(self, tickets)
        for ticket in tickets:
            if ticket.error is not None:
                ticket.error, ticket.result = None, [1]

    GroupCommit._commit = careless


def _halved_commit() -> None:
    """Let each entry of an append be a transaction of its own."""
    real = transactions.append

    def halved(db: Any, path: Path, held: Any, batch: Any) -> list[int]:
        places = list[int]()
        for draft in batch.drafts:
            places += real(db, path, held, msgspec.structs.replace(batch, drafts=[draft]))
            db.execute("COMMIT; BEGIN IMMEDIATE")
        return places

    transactions.append = halved


def _bare_errors() -> None:
    from foveal.stores.artifacts import FileArtifacts  # noqa: PLC0415 - broken here alone

    FileArtifacts._plain_errors = lambda _self: ExitStack()  # pyright: ignore[reportAttributeAccessIssue]


FIGURES = (
    Figure(
        "R2",
        "each call that changes the disk as the place of a kill",
        kill_places,
        10,
        10_000,
        {
            "early answer": Plant(in_child("early answer"), "acknowledged, but not there"),
            "commit in halves": Plant(_halved_commit, "half of an append"),
        },
    ),
    Figure(
        "R4",
        "calls of the disk that fail, full or broken, once or for good",
        disk_errors,
        30,
        2_000,
        {
            "careless commit": Plant(_careless_commit, "acknowledged, .* there"),
            "bare errors": Plant(_bare_errors, "is no error of ours"),
        },
    ),
)
