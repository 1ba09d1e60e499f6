"""Figures about the calls that change a disk: each of them fails, and each is the place of a kill."""

import errno
import json
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import product, zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
import crash_test
import msgspec
from scorecard_acts import ACTS, LOG, Stage, checked
from scorecard_parts import Failures, Figure, Plant, Tried, folder_in_memory, in_child, planted

from foveal.stores.port import Draft
from foveal.stores.references import artifacts_named
from foveal.stores.sqlite import SqliteStore, backup, connection, transactions
from foveal.stores.sqlite.group_commit import GroupCommit
from foveal.values.errors import FovealError, StoreError

BEFORE, HALFWAY = "before", "halfway"
APPENDS = "appends and artifacts"
NEVER = (0, 0, False)
"""A fault at no call."""
_write = os.write


class Disk(apsw.VFS):
    """The disk below SQLite and below artifacts: it fails at a call, once or from then on, or its process is killed there."""

    def __init__(self) -> None:
        super().__init__("failing", "unix", makedefault=True)
        self.last = 0
        """The calls of an act that another process has done."""
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

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        """Remove a file."""
        if self.is_hit():
            self.end()
            error = apsw.IOError("disk I/O error")
            error.extendedresult = apsw.SQLITE_IOERR_DELETE  # type: ignore[attr-defined]
            raise error
        super().xDelete(filename, syncdir)

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
    """Let the calls that write artifacts and names fail with the disk."""

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

    names = ("fsync", "replace", "rename", "mkdir", "unlink", "rmdir")
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
    """Let each call of each act that changes the disk fail, once or for good: errors are ours, what was done is there, what was
    not is as it was, and the store goes on."""
    failures, disk, lengths = Failures(), Disk(), dict[str, int]()
    with folder_in_memory() as folder, _failing_calls(disk):
        stage = Stage(folder / "acts")
        for scenario in (APPENDS, *ACTS):
            failures += [f"{scenario}: {problem}" for problem in _failed_act(disk, stage, scenario, NEVER)]
            lengths[scenario] = disk.last
        ways = [
            (scenario, at, number, is_lasting)
            for scenario, number, is_lasting in product(lengths, (errno.EIO, errno.ENOSPC), (False, True))
            for at in range(1, lengths[scenario] + 1)
        ]
        chosen = _spread(ways, cases, random.Random(seed))
        for scenario, at, number, is_lasting in chosen:
            found = _failed_act(disk, stage, scenario, (at, number, is_lasting))
            lasts = "from then on" if is_lasting else "once"
            failures += [f"{scenario}, {errno.errorcode[number]} at call {at}, {lasts}: {problem}" for problem in found]
    return Tried(len(chosen), failures, there_are=len(ways), told=_told(chosen))


def _failed_act(disk: Disk, stage: Stage, scenario: str, fault: tuple[int, int, bool]) -> Failures:
    """Do an act on a disk that fails, in a process of its own, and return what is wrong when the disk works again."""
    folder = stage.new(scenario.removesuffix(APPENDS))
    disk.heal()
    disk.at, disk.number, disk.is_lasting = fault

    def do(pipe: int) -> None:
        found, done = Failures(), list[list[str]]()
        if scenario == APPENDS:
            done.extend(_work(folder / LOG, found))
        else:
            done.extend([["done"]] if _is_done(scenario, folder, found) else [])
        disk.at = 0
        crash_test.send(pipe, json.dumps([found, done, disk.calls]).encode())

    pid, pipe = crash_test.in_child(do)
    with os.fdopen(pipe) as said:
        told = said.read()
    if os.waitpid(pid, 0)[1] or not told:
        raise RuntimeError(f"{scenario}: the process ended by itself")
    found, done, disk.last = json.loads(told)
    disk.heal()
    if scenario == APPENDS:
        return found + _after(folder / LOG, *done)
    return [*found, *checked(scenario, folder, is_done=bool(done))]


def _is_done(scenario: str, folder: Path, found: Failures) -> bool:
    """Do an act, and return whether it was done; note an error that is none of ours."""
    try:
        return bool(ACTS[scenario].do(folder))
    except FovealError:
        return False
    except SystemError as error:  # of apsw, whose backup ends by it where the disk below it is one in Python
        found += [] if "returned a result with an exception set" in str(error) else [f"{error!r} is no error of ours"]
        return False
    except Exception as error:
        found.append(f"{type(error).__name__}: {error} is no error of ours")
        return False


def _spread(ways: list[Any], cases: int, rng: random.Random) -> list[Any]:
    """Draw so many ways, of each scenario as many as of any other while it has some."""
    rng.shuffle(ways)
    lines = defaultdict[str, list[Any]](list)
    for way in ways:
        lines[way[0]].append(way)
    return [way for turn in zip_longest(*lines.values()) for way in turn if way][:cases]


def _told(chosen: list[Any]) -> str:
    counts = Counter(way[0] for way in chosen)
    return ", ".join(f"{scenario} {count:,}" for scenario, count in counts.items())


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

LEFT = "after a kill,"
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


def _killed(disk: Disk, at: int, kill: str, act: Callable[[int], None]) -> tuple[list[list[str]], bool]:
    """Do an act in a process that is killed at a call. Return the lines that it said, the last one with the calls of an act that
    ended, and whether it was killed."""
    disk.heal()
    disk.at, disk.kill = at, kill

    def live(pipe: int) -> None:
        with _failing_calls(disk):
            act(pipe)
        crash_test.send(pipe, f"calls {disk.calls}\n".encode())

    pid, pipe = crash_test.in_child(live)
    with os.fdopen(pipe) as said:
        lines = [line.split() for line in said]
    _, status = os.waitpid(pid, 0)
    disk.heal()
    if status and not os.WIFSIGNALED(status):
        raise RuntimeError(f"a writer that was to be killed at call {at} ended by itself with status {status}")
    return lines, os.WIFSIGNALED(status)


def _killed_act(disk: Disk, folder: Path, scenario: str, at: int, kill: str) -> tuple[bool, bool, int]:
    """Do an act that is killed at a call; return whether it said that it was done, whether it was killed, and its calls."""

    def do(pipe: int) -> None:
        if ACTS[scenario].do(folder):
            _write(pipe, b"done\n")

    lines, is_killed = _killed(disk, at, kill, do)
    return ["done"] in lines, is_killed, _calls(lines)


def _killed_life(
    disk: Disk, path: Path, life: tuple[int, str], at: int, kill: str
) -> tuple[list[list[str]], bool, int]:
    """Let a writer live that is killed at a call; return the appends that it answered, whether it was killed, and its calls."""
    lines, is_killed = _killed(disk, at, kill, lambda pipe: _live(path, pipe, *life))
    return [words[1:] for words in lines if words[0] == "one"], is_killed, _calls(lines)


def _calls(lines: list[list[str]]) -> int:
    return next((int(words[1]) for words in lines if words[0] == "calls"), 0)


def kill_places(cases: int, seed: int) -> Tried:
    """Kill a process before each call of each act that changes the disk, and halfway through it: what it said to be done is
    there, and nothing is half done."""
    failures, disk, killed = Failures(), Disk(), Counter[str]()
    with folder_in_memory() as folder:
        stage = Stage(folder / "acts")
        lengths = {kind: _killed_life(disk, folder / f"{kind}.db", (1, kind), 0, BEFORE)[2] for kind in LIFE}
        for kind, calls in list(lengths.items()):
            left = folder / f"left-{kind}.db"
            _killed_life(disk, left, (1, kind), calls * 2 // 3, BEFORE)
            lengths[f"{LEFT} {kind}"] = _killed_life(disk, left, (2, kind), 0, BEFORE)[2]
        lengths |= {name: _killed_act(disk, stage.new(name), name, 0, BEFORE)[2] for name in ACTS}
        ways = [
            (scenario, at, kill)
            for scenario, kill in product(lengths, (BEFORE, HALFWAY))
            for at in range(1, lengths[scenario] + 1)
        ]
        for scenario, at, kill in _spread(ways, cases, random.Random(seed)):
            if scenario in ACTS:
                place = stage.new(scenario)
                is_done, is_killed, _ = _killed_act(disk, place, scenario, at, kill)
                found = list(checked(scenario, place, is_done=is_done))
            else:
                path, kind = stage.new() / LOG, scenario.removeprefix(f"{LEFT} ")
                left = 0 if kind == scenario else lengths[kind] * 2 // 3
                before = _killed_life(disk, path, (1, kind), left, BEFORE)[0] if left else []
                later, is_killed, _ = _killed_life(disk, path, (2, kind), at, kill)
                found = _audited(path, [*before, *later])
            killed[scenario] += is_killed
            failures += [f"{scenario}, {kill} call {at}: {problem}" for problem in found]
    told = ", ".join(f"{scenario} {count:,}" for scenario, count in killed.items())
    return Tried(killed.total(), failures, there_are=len(ways), told=told)


def _audited(path: Path, acknowledged: list[list[str]]) -> Failures:
    if not path.exists():
        return ["there is no store"] if acknowledged else []
    return crash_test.audit(path, {"one": acknowledged} if acknowledged else {})["problems"]


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


def _half_upgrades() -> None:
    """Let each statement of an upgrade be a transaction of its own."""
    connection.transaction = lambda _db: nullcontext()  # pyright: ignore[reportAttributeAccessIssue]


def _artifacts_first() -> None:
    """Let a deletion remove the artifacts of a session, and give back their space, before the session."""
    real = SqliteStore.delete

    def delete(self: SqliteStore, sessions: Any, **options: Any) -> Any:
        for session in sessions:
            for name in artifacts_named(self.rows(session)):
                self.artifacts.delete(name, unless_put_after_ms=1 << 60)
        self.vacuum()
        return real(self, sessions, **options)

    SqliteStore.delete = delete


def _early_name() -> None:
    """Let a copy have its name before it is whole."""

    @contextmanager
    def named(target: Any) -> Iterator[Path]:
        yield Path(target)

    backup.new_store_file = named


def _bare_errors() -> None:
    from foveal.stores.artifacts import FileArtifacts  # noqa: PLC0415 - broken here alone

    FileArtifacts._plain_errors = lambda _self: ExitStack()  # pyright: ignore[reportAttributeAccessIssue]


FIGURES = (
    Figure(
        "R2",
        "each call of SQLite and of artifacts that changes the disk as the place of a kill: all was done, or nothing, in",
        kill_places,
        60,
        10_000,
        {
            "early answer": Plant(in_child("early answer"), "acknowledged, but not there"),
            "commit in halves": Plant(_halved_commit, "half of an append"),
            "artifacts first": Plant(_artifacts_first, "^delete.*there is no artifact"),
            "half upgrades": Plant(_half_upgrades, "^upgrade of 0.1.0"),
            "early name": Plant(_early_name, "^backup.*of the copy"),
        },
    ),
    Figure(
        "R4",
        "each call of SQLite and of artifacts that changes the disk fails, full or broken, once or for good, in",
        disk_errors,
        70,
        20_000,
        {
            "careless commit": Plant(_careless_commit, "acknowledged, .* there"),
            "bare errors": Plant(_bare_errors, "is no error of ours"),
            "artifacts first": Plant(_artifacts_first, "^delete.*there is no artifact"),
            "half upgrades": Plant(_half_upgrades, "^upgrade of 0.1.0"),
        },
    ),
)
