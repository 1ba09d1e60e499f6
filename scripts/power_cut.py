"""Cut the power at random moments of a writer's life, in thousands of states that a disk may be left in, and audit each.

    python scripts/power_cut.py --states 20000 [--seed N] [--sabotage lazy-commit | lazy-artifacts]

A writer appends under `strace`, which records every write, sync, rename and removal, and the acknowledgements among them. A state
is a moment of that record and a choice: content that was synced is there; of the writes since, none, all, the first ones or any
may have reached the disk, the last one perhaps torn at a sector; the same for names whose folder was not synced since. Each
state is then opened and checked as after a kill (`crash_test.py`): everything acknowledged is there, nothing is torn, and the
store opens. Shared memory (`-shm`) does not survive.

States are different ones: one that is drawn again, the same to the byte and with the same acknowledgements, is neither opened nor
counted again, and another one is drawn, as is one in which there is no store yet; the last line tells how many were drawn in
vain. There are some 7,000 moments, and few writes wait at most of them: draws end when there are five for each state.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))

import crash_test

from foveal.stores import disk
from foveal.stores.sqlite import SqliteStore, opening, wal

CALLS = (
    "openat,creat,pwrite64,write,pwritev,writev,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,"
    "mkdir,mkdirat,rmdir"
)
APPENDS, LIVES = 90, 4
"""Appends of one life of the writer, and lives: some end with a close, some just end."""
SECTOR = 512
ACKNOWLEDGED = 1
"""The file descriptor of acknowledgements."""

MOST_DRAWS = 5
"""Draws for each state that is wanted."""

FRAMES = 16_384
"""Checksums of WAL frames that are remembered: the states of one record share a third of that."""

_CALL = re.compile(r" *(\w+)\((.*)\) += (-?\d+)")


# The writer, under strace


def live(path: Path, life: int, sabotage: str) -> None:
    """Append to several sessions, acknowledge each append, and end: by a close in every second life."""
    if sabotage == "lazy-commit":
        opening.SETTINGS = tuple(one.replace("= FULL", "= NORMAL") for one in opening.SETTINGS)
    if sabotage == "lazy-artifacts":
        disk.os = _LazyOs()  # pyright: ignore[reportAttributeAccessIssue]
    rng = random.Random(life)
    store = SqliteStore(path)
    writers = {session: store.acquire(session) for session in crash_test.SESSIONS}
    for number in range(APPENDS):
        session, size = rng.choice(crash_test.SESSIONS), rng.choice((1, 1, 2, 5))
        names = [f"{life}.{number}.{index}of{size}" for index in range(size)]
        crash_test.append(store, writers[session], names, rng.choice(("message", "message", "artifact", "fold")))
        os.write(ACKNOWLEDGED, f"{session} {' '.join(names)}\n".encode())
    if life % 2:
        for writer in writers.values():
            writer.release()
        store.close()
    os._exit(0)


class _LazyOs:
    """The module `os`, with a sync that does nothing."""

    def __getattr__(self, name: str) -> object:
        return (lambda _handle: None) if name == "fsync" else getattr(os, name)


@dataclass(slots=True)
class Outcome(crash_test.Outcome):
    in_vain: int = 0
    """Draws of states that had been audited before, or without a store."""
    audited: set[int] = field(default_factory=set[int])
    """Hashes of the states."""


# The record


class Step(NamedTuple):
    """One call of the writer that changes the disk, or acknowledges."""

    call: str
    path: str
    data: bytes = b""
    offset: int | None = None
    to: str = ""


def recorded(folder: Path, sabotage: str) -> list[Step]:
    """Let a writer live several times under strace, and return what it did."""
    steps = list[Step]()
    for life in range(LIVES):
        trace = folder.parent / f"trace{life}"
        command = ["strace", "-f", "-y", "-xx", "-s", "10000000", "-o", str(trace), "-e", f"trace={CALLS}"]
        command += [
            sys.executable,
            __file__,
            "--live",
            str(folder / "log.db"),
            str(life),
            "--sabotage",
            sabotage or "no",
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        steps += steps_of(trace, str(folder))
        acknowledged = sum(step.call == "acknowledge" for step in steps)
        if not done.stdout or acknowledged != APPENDS * (life + 1):
            raise SystemExit(f"the record has {acknowledged} acknowledgements of {APPENDS * (life + 1)}")
    return steps


def steps_of(trace: Path, folder: str) -> Iterator[Step]:
    """Yield the steps of a record that concern the folder, in their order."""
    begun: dict[str, str] = {}
    for line in trace.read_text("latin1").splitlines():
        pid, _, said = line.partition(" ")
        if said.endswith("<unfinished ...>"):
            begun[pid] = said.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"\s*<\.\.\. \w+ resumed>(.*)", said)
        whole = begun.pop(pid) + resumed[1] if resumed else said
        if (found := _CALL.match(whole)) and int(found[3]) >= 0:
            yield from _step(found[1], found[2], int(found[3]), folder)


def _step(call: str, arguments: str, result: int, folder: str) -> Iterator[Step]:
    texts = [_plain(text) for text in re.findall(r'"((?:\\x..)*)"', arguments)]
    handle = re.match(r"(\d+)<([^>]*)>", arguments)
    path = _plain(handle[2]).decode() if handle else ""
    inside = path == folder or path.startswith(folder + "/")
    match call:
        case "write" if handle and int(handle[1]) == ACKNOWLEDGED:
            yield Step("acknowledge", "", texts[0])
        case "write" if inside:
            yield Step("append", path, texts[0][:result])
        case "pwrite64" if inside:
            yield Step("write", path, texts[0][:result], int(arguments.rpartition(", ")[2]))
        case "ftruncate" if inside:
            yield Step("truncate", path, offset=int(arguments.rpartition(", ")[2], 0))
        case "fsync" | "fdatasync" if inside:
            yield Step("sync", path)
        case "pwritev" | "writev" if inside:
            raise SystemExit(f"the record has a {call}, which is not understood")
        case _ if texts and (names := [name for name in (text.decode() for text in texts) if name.startswith(folder)]):
            yield from _name_step(call, names, arguments)
        case _:
            pass


def _name_step(call: str, names: list[str], arguments: str) -> Iterator[Step]:
    match call.removesuffix("2").removesuffix("at"):
        case "open" | "creat" if "O_CREAT" in arguments or call == "creat":
            yield Step("create", names[0])
            if "O_TRUNC" in arguments:
                yield Step("truncate", names[0], offset=0)
        case "mkdir":
            yield Step("mkdir", names[0])
        case "rename":
            yield Step("rename", names[0], to=names[1])
        case "link":
            yield Step("link", names[0], to=names[1])
        case "unlink" | "rmdir":
            yield Step("unlink", names[0])
        case _:
            pass


def _plain(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


# The disk


@dataclass(slots=True, eq=False)
class Inode:
    """A file or a folder: content that was synced, and the changes since."""

    is_folder: bool = False
    synced: bytes = b""
    pending: list[Step] = field(default_factory=list[Step])
    length: int = 0
    """Its length with all changes, for writes at the end."""

    def after(self, changes: list[Step]) -> bytes:
        """Return the content after these changes."""
        if not changes:
            return self.synced
        data = bytearray(self.synced)
        for change in changes:
            place = change.offset or 0
            if change.call == "truncate":
                del data[place:]
                data.extend(bytes(place - len(data)))
            else:
                data.extend(bytes(max(0, place - len(data))))
                data[place : place + len(change.data)] = change.data
        return bytes(data)


State = dict[str, bytes | None]
"""The files of a store with their content, and its folders with None, in the order of their names."""


class Disk:
    """A model of a disk that keeps what was synced, and anything of the rest."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._now: dict[str, Inode] = {root: Inode(is_folder=True)}
        self._synced = dict(self._now)
        self._renamed: dict[str, list[tuple[str, Inode | None]]] = {}
        """Changes of names since each folder was synced: a name, and its inode or None."""

    def take(self, step: Step) -> None:
        """Follow a step."""
        path = step.path
        match step.call:
            case "create" | "mkdir":
                if path not in self._now:
                    self._name(path, Inode(is_folder=step.call == "mkdir"))
            case "unlink":
                self._name(path, None)
            case "rename" | "link":
                self._name(step.to, self._now[path])
                if step.call == "rename":
                    self._name(path, None)
            case "sync":
                self._sync(path)
            case _:
                self._change(step)

    def _name(self, path: str, inode: Inode | None) -> None:
        if inode is None:
            self._now.pop(path, None)
        else:
            self._now[path] = inode
        self._renamed.setdefault(str(Path(path).parent), []).append((path, inode))

    def _sync(self, path: str) -> None:
        inode = self._now[path]
        if inode.is_folder:
            _rename(self._synced, self._renamed.pop(path, []))
        else:
            inode.synced, inode.pending = inode.after(inode.pending), []

    def _change(self, step: Step) -> None:
        inode = self._now.get(step.path)
        if inode is None:  # removed, and still written to
            return
        if step.call == "append":
            step = step._replace(call="write", offset=inode.length)
        inode.pending.append(step)
        end = (step.offset or 0) + len(step.data)
        inode.length = end if step.call == "truncate" else max(inode.length, end)

    def cut(self, rng: random.Random) -> State:
        """Return a state that the disk may be left in."""
        names = dict(self._synced)
        for changes in self._renamed.values():
            _rename(names, _some(rng, changes))
        kept: dict[int, bytes] = {}
        state: State = {}
        for path, inode in sorted(names.items()):
            if path == self._root or path.endswith("-shm") or not _is_reachable(path, names, self._root):
                continue
            there = path.removeprefix(f"{self._root}/")
            state[there] = None if inode.is_folder else kept.setdefault(id(inode), _left(rng, inode))
        return state


def _rename(names: dict[str, Inode], changes: list[tuple[str, Inode | None]]) -> None:
    for path, inode in changes:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


def _is_reachable(path: str, names: dict[str, Inode], root: str) -> bool:
    parent = str(Path(path).parent)
    return parent == root or (parent in names and _is_reachable(parent, names, root))


def _left(rng: random.Random, inode: Inode) -> bytes:
    """Return the content that a cut leaves of a file."""
    some = _some(rng, inode.pending)
    if some and some[-1].data and rng.random() < 0.5:
        last = some[-1]
        torn = rng.randrange(0, len(last.data) + 1, SECTOR)
        some = [*some[:-1], last._replace(data=last.data[:torn])]
    return inode.after(some)


def _some(rng: random.Random, changes: list) -> list:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    """Return changes that reached the disk before the cut: none, all, the first ones, or any of them."""
    match rng.randrange(4):
        case 0:
            return []
        case 1:
            return list(changes)
        case 2:
            return changes[: rng.randrange(len(changes) + 1)]
        case _:
            return [change for change in changes if rng.random() < 0.5]


# The cuts


class StateFolder:
    """A folder that is one state after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._laid: dict[str, tuple[bytes, tuple[int, ...]]] = {}
        """The content of each file that was written, and what the disk told of the file then."""

    def lay(self, state: State) -> None:
        """Make the folder this state. A file that is there with this content, and that nobody touched, stays."""
        stay = {name for name, content in state.items() if content is None or self._is_there(name, content)}
        for folder, folders, files in os.walk(self.path, topdown=False):
            for name in files:
                if os.path.relpath(path := os.path.join(folder, name), self.path) not in stay:  # noqa: PTH118 - many
                    os.unlink(path)  # noqa: PTH108
            for name in folders:
                if os.path.relpath(path := os.path.join(folder, name), self.path) not in stay:  # noqa: PTH118
                    os.rmdir(path)  # noqa: PTH106
        self.path.mkdir(exist_ok=True)
        for name, content in state.items():
            path = f"{self.path}/{name}"
            if content is None:
                Path(path).mkdir(exist_ok=True)
            elif name not in stay:
                Path(path).write_bytes(content)
                self._laid[name] = (content, _told(path))

    def _is_there(self, name: str, content: bytes) -> bool:
        laid, told = self._laid.get(name, (None, ()))
        return laid is content and _told(f"{self.path}/{name}") == told


def _told(path: str) -> tuple[int, ...]:
    """Return what the disk tells of a file; nothing if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - many
    except FileNotFoundError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def cut(states: int, seed: int, folder: Path, sabotage: str = "") -> Outcome:
    """Audit so many different states of one recorded life, spread over all of it; fewer if there are not so many."""
    (folder / "store").mkdir()
    steps = recorded(folder / "store", sabotage)
    with patch.object(wal, "_checksum", lru_cache(FRAMES)(wal._checksum)):
        outcome, place, rng = Outcome(), StateFolder(folder / "state"), random.Random(seed)
        while outcome.kills < states and outcome.kills + outcome.in_vain < MOST_DRAWS * states:
            _cut(states - outcome.kills, rng, place, steps, outcome)
    return outcome


def _cut(draws: int, rng: random.Random, place: StateFolder, steps: list[Step], outcome: Outcome) -> None:
    """Draw so many states, and audit those that were not audited before."""
    moments = sorted(rng.randrange(len(steps) + 1) for _ in range(draws))
    model, acknowledged, done = Disk(str(place.path.parent / "store")), dict[str, list[list[str]]](), 0
    answered = 0
    for moment in moments:
        for step in steps[done:moment]:
            if step.call == "acknowledge":
                session, *names = step.data.decode().split()
                acknowledged.setdefault(session, []).append(names)
                answered += len(names)
            else:
                model.take(step)
        done = moment
        state = model.cut(rng)
        drawn = hash((answered, *state.items()))  # of 64 bits: no two of 20,000 states have the same by chance
        if drawn in outcome.audited or not ("log.db" in state or acknowledged):
            outcome.in_vain += 1
            continue
        outcome.audited.add(drawn)
        outcome.kills += 1
        outcome.acknowledged = max(outcome.acknowledged, answered)
        place.lay(state)
        found = crash_test.audit(place.path / "log.db", acknowledged)
        outcome.add(found, f"state {outcome.kills} after step {moment}: ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sabotage", choices=["lazy-commit", "lazy-artifacts", "no"], default="no")
    parser.add_argument("--live", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.live:
        live(Path(options.live[0]), int(options.live[1]), options.sabotage)
    parent = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 - wiped afterwards
    with tempfile.TemporaryDirectory(prefix="foveal-power-", dir=parent) as folder:
        outcome = cut(options.states, options.seed, Path(folder), "" if options.sabotage == "no" else options.sabotage)
    for problem in outcome.problems[:20]:
        print(problem, file=sys.stderr)
    print(f"seed {options.seed} acknowledged {outcome.acknowledged}")
    print(f"{outcome.line().replace('kills', 'states')} drawn in vain {outcome.in_vain}")
    return 0 if outcome.is_clean() else 1


if __name__ == "__main__":
    sys.exit(main())
